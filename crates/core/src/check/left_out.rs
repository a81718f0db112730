//! Whether a pod without a place would have fitted somewhere after all.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use super::cluster::{Cluster, SpreadScope, pending};
use super::market::{Holdings, Market, consistent_labels, unmet_requirement};
use super::place::{Incoming, Place};
use super::replay;
use super::violation::{Spot, Violation};
use crate::catalog::{InstanceType, Offering};
use crate::names::{self, Labels, Text};
use crate::plan::Plan;
use crate::pod::PodSpec;
use crate::pool::Pool;
use crate::requirement::{Expression, ValueSet};
use crate::resources::Resources;
use crate::snapshot::{MinValuesPolicy, Policy, Snapshot};

/// More combinations of custom labels than this are not tried: a pool with so many free labels is
/// no use to anybody, and the search must end.
const VARIANTS_MAX: usize = 1024;

/// For each unplaced pod the first node, launch or further purchase on which it alone would have
/// fitted, as things are once the plan is done.
///
/// Pods that cannot run anywhere (held back by gates, or with volumes that cannot be had) are not
/// looked for. A spread over anything but hostnames counts the domains that could be bought, as the
/// planner does: a pod that waits for one of them is not left out.
pub fn left_out(snapshot: &Snapshot, policy: &Policy, plan: &Plan) -> Vec<Violation> {
    let market = Market::new(snapshot, policy);
    let mut cluster = replay(&market, plan, |_, _, _| {});
    let pending = pending(snapshot);
    let holdings = Holdings::after(&market, plan);
    let stores = snapshot.pools.iter().filter(|pool| pool.blocked.is_none());
    let stores: Vec<Store<'_>> = if plan.unplaced.is_empty() {
        Vec::new()
    } else {
        stores.map(|pool| Store::of(&market, pool)).collect()
    };
    let held_by_min_values = plan
        .launches
        .iter()
        .map(|launch| {
            policy.min_values == MinValuesPolicy::Strict
                && market.pool(&launch.pool).is_some_and(|pool| pool.requirements.has_min_values())
        })
        .collect();
    let search = Search { snapshot, policy, holdings, stores, held_by_min_values };

    let mut scopes_opened = FxHashSet::default();
    // Pods of one class differ only in their volumes, and in how long they have waited.
    let mut answers = FxHashMap::<(usize, bool), Option<Spot>>::default();
    let mut violations = Vec::new();
    for unplaced in &plan.unplaced {
        let Some(incoming) = cluster.incoming(unplaced.pod) else { continue };
        let spec = &*incoming.pod.spec;
        if !pending[unplaced.pod] || !spec.scheduling_gates.is_empty() || incoming.demands.is_err() {
            continue;
        }
        for (spread, scope) in cluster.spread_scopes(&incoming) {
            if scope.topology_key != names::HOSTNAME && scopes_opened.insert(spread) {
                for domain in search.domains_for_sale(&scope, spec) {
                    cluster.open_domain(spread, &domain);
                }
            }
        }
        let spot = if incoming.pod.volumes.is_empty() {
            let alike = (incoming.class, incoming.pod.is_fresh);
            answers.entry(alike).or_insert_with(|| search.find(&cluster, &incoming)).clone()
        } else {
            search.find(&cluster, &incoming)
        };
        violations.extend(spot.map(|spot| Violation::LeftOut { pod: incoming.pod.id(), spot }));
    }
    violations
}

struct Search<'a> {
    snapshot: &'a Snapshot,
    policy: &'a Policy,
    holdings: Holdings<'a>,
    stores: Vec<Store<'a>>,
    /// Launches that may have no room for a further pod although it fits: one more could cost them the
    /// alternatives that their pool's minValues ask for.
    held_by_min_values: Vec<bool>,
}

/// What a pool sells now.
struct Store<'a> {
    pool: &'a Pool,
    goods: Vec<Goods<'a>>,
    /// Keys that some type or offering has: a node without such a label cannot be given one.
    catalog_keys: BTreeSet<&'a Text>,
}

struct Goods<'a> {
    instance_type: &'a InstanceType,
    offering: &'a Offering,
    labels: Labels,
    allocatable: Resources,
}

impl<'a> Store<'a> {
    fn of(market: &Market<'a>, pool: &'a Pool) -> Self {
        let goods = market.offerings(pool).filter_map(|(instance_type, offering)| {
            let labels = consistent_labels(pool, instance_type, offering)?;
            Some(Goods { instance_type, offering, labels, allocatable: instance_type.allocatable() })
        });
        let catalog_keys = pool.types.iter().flat_map(|instance_type| {
            instance_type.labels.keys().chain(instance_type.offerings.iter().flat_map(|o| o.labels.keys()))
        });
        Self { pool, goods: goods.collect(), catalog_keys: catalog_keys.collect() }
    }

    /// The custom labels that a node of these goods may get so that the pool's requirements are met:
    /// for each free key the values that the pod mentions, any other value, or none at all. Keys in
    /// `exhausted` get all their values where those are finite.
    fn variants(&self, goods: &Goods<'_>, spec: &PodSpec, exhausted: &[&str]) -> Vec<Labels> {
        let mut variants = vec![Labels::new()];
        for (key, set) in self.pool.requirements.iter().filter(|(key, _)| !goods.labels.contains_key(*key)) {
            let may_have_value = !names::WELL_KNOWN.contains(&&**key)
                && &**key != names::HOSTNAME
                && !self.catalog_keys.contains(key);
            let mut values = BTreeSet::new();
            if may_have_value {
                values.extend(mentioned(spec, key).filter(|value| set.has(value)).cloned());
                values.extend(set.any_value().filter(|value| set.has(value)));
                if exhausted.contains(&&**key) {
                    values.extend(set.finite().into_iter().flatten().cloned());
                }
            }
            variants = combine(&variants, key, set, &values);
        }
        variants.retain(|custom| unmet_requirement(self.pool, &merged(&goods.labels, custom)).is_none());
        variants
    }

    fn place(&self, snapshot: &Snapshot, goods: &Goods<'_>, custom: &Labels) -> Place {
        Place::new_node(
            snapshot,
            // No node can have such a name, so nothing refers to it by chance.
            format!("{}/new", self.pool.name).into(),
            merged(&goods.labels, custom),
            &self.pool.taints,
            goods.allocatable.clone(),
            &goods.instance_type.volume_limits,
        )
    }
}

impl Search<'_> {
    fn find(&self, cluster: &Cluster<'_>, incoming: &Incoming<'_>) -> Option<Spot> {
        let fits = |place: &Place| cluster.misfits(incoming, place).next().is_none();
        let nodes = self.snapshot.nodes.len();
        let open = |index: usize| index < nodes || !self.held_by_min_values[index - nodes];
        let mut places = cluster.places.iter().enumerate();
        if let Some((index, place)) = places.find(|(index, place)| open(*index) && fits(place)) {
            let name = place.name.clone();
            let is_node = index < nodes;
            return Some(if is_node { Spot::Node(name) } else { Spot::Launch(name) });
        }
        // Patient pools grow for it once it has waited.
        let is_for_it = |store: &&Store<'_>| !(incoming.pod.is_fresh && store.pool.is_patient);
        self.stores.iter().filter(is_for_it).find_map(|store| self.find_purchase(cluster, incoming, store))
    }

    fn find_purchase(
        &self,
        cluster: &Cluster<'_>,
        incoming: &Incoming<'_>,
        store: &Store<'_>,
    ) -> Option<Spot> {
        let pool = store.pool;
        if pool.replicas.is_some() || !self.holdings.allow_node(self.snapshot, pool) {
            return None;
        }
        let requests = &incoming.pod.spec.requests;
        let mut enough_alternatives = FxHashMap::<(Labels, Resources), bool>::default();
        for goods in &store.goods {
            let too_small =
                requests.iter().any(|(name, amount)| amount > 0 && amount > goods.allocatable.get(name));
            if too_small || !self.holdings.allow_purchase(pool, goods.instance_type, goods.offering) {
                continue;
            }
            for custom in store.variants(goods, &incoming.pod.spec, &[]) {
                let place = store.place(self.snapshot, goods, &custom);
                if cluster.misfits(incoming, &place).next().is_some() {
                    continue;
                }
                let total = place.daemons.plus(requests);
                let enough =
                    *enough_alternatives.entry((custom, total)).or_insert_with_key(|(custom, total)| {
                        self.meets_min_values(store, incoming, custom, total)
                    });
                if enough {
                    return Some(Spot::Purchase {
                        pool: pool.name.clone(),
                        instance_type: goods.instance_type.name.clone(),
                        zone: goods.offering.zone.clone(),
                        capacity_type: goods.offering.capacity_type,
                    });
                }
            }
        }
        None
    }

    /// Whether a launch for this pod alone, with these custom labels and asking for `total` with its
    /// DaemonSets, would show as many alternatives as the pool's minValues want.
    fn meets_min_values(
        &self,
        store: &Store<'_>,
        incoming: &Incoming<'_>,
        custom: &Labels,
        total: &Resources,
    ) -> bool {
        let requirements = &store.pool.requirements;
        if !requirements.has_min_values() || self.policy.min_values == MinValuesPolicy::BestEffort {
            return true;
        }
        let mut shown: BTreeMap<&Text, BTreeSet<&Text>> = BTreeMap::new();
        let holds =
            |goods: &Goods<'_>| total.iter().all(|(name, amount)| amount <= goods.allocatable.get(name));
        for goods in store.goods.iter().filter(|goods| holds(goods)) {
            let place = store.place(self.snapshot, goods, custom);
            if unmet_requirement(store.pool, &place.labels).is_some()
                || place.misfits(incoming).next().is_some()
            {
                continue;
            }
            for (key, _) in requirements.min_values() {
                shown.entry(key).or_default().extend(goods.labels.get(key).or_else(|| custom.get(key)));
            }
        }
        requirements.min_values().all(|(key, wanted)| {
            shown.get(key).map_or(0, BTreeSet::len) >= usize::try_from(wanted).unwrap_or(usize::MAX)
        })
    }

    /// The domains of a spread that a pool could open by buying a node.
    fn domains_for_sale(&self, scope: &SpreadScope<'_>, spec: &PodSpec) -> BTreeSet<Text> {
        let mut domains = BTreeSet::new();
        for store in &self.stores {
            for goods in &store.goods {
                for custom in store.variants(goods, spec, &scope.all_keys) {
                    let place = store.place(self.snapshot, goods, &custom);
                    if scope.counts(&place) {
                        domains.extend(place.labels.get(scope.topology_key).cloned());
                    }
                }
            }
        }
        domains
    }
}

fn merged(labels: &Labels, custom: &Labels) -> Labels {
    labels.iter().chain(custom).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Each variant with each state of the key that the set admits.
fn combine(variants: &[Labels], key: &Text, set: &ValueSet, values: &BTreeSet<Text>) -> Vec<Labels> {
    let absent = set.may_be_absent().then_some(None);
    let states: Vec<Option<&Text>> = absent.into_iter().chain(values.iter().map(Some)).collect();
    variants
        .iter()
        .flat_map(|variant| {
            states.iter().map(|state| {
                let mut variant = variant.clone();
                if let Some(value) = state {
                    variant.insert(key.clone(), (*value).clone());
                }
                variant
            })
        })
        .take(VARIANTS_MAX)
        .collect()
}

/// The values that the pod's node selector and required affinity name for a key.
fn mentioned<'p>(spec: &'p PodSpec, key: &'p Text) -> impl Iterator<Item = &'p Text> {
    let terms = spec.node_affinity.iter().flatten().flat_map(|term| &term.expressions);
    spec.node_selector
        .iter()
        .chain(terms)
        .filter(move |expression| expression.key() == key)
        .flat_map(Expression::values)
}
