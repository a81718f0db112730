//! What the pools can buy, sorted into cells.
//!
//! A cell is a set of offerings that no pod of this snapshot can tell apart by label or taint, and that count alike
//! where their pool is divided: they differ only in size and price. Rules about labels and topology are judged once per cell, and a
//! planned node may grow to another type of its cell without any rule changing its answer.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::catalog::{InstanceType, Offering};
use crate::division::Portion;
use crate::fit::{self, LabelSource, NodeDemand};
use crate::names::{self, Labels, Text};
use crate::pod::HostPort;
use crate::pool::{Limits, Pool};
use crate::requirement::{Expression, Operator, ValueSet};
use crate::resources::{self, Resources};
use crate::snapshot::{Policy, Snapshot};

/// Amounts of the resources in play, in the order of [`Dimensions`].
pub(crate) type Amounts = SmallVec<[i64; 4]>;

/// The resources that some pod asks for: the only ones worth counting.
#[derive(Debug)]
pub(crate) struct Dimensions {
    pub(crate) names: Vec<Text>,
}

impl Dimensions {
    pub(crate) fn of<'a>(requests: impl Iterator<Item = &'a Resources>) -> Self {
        // CPU and memory come first, so that every vector starts with what matters most.
        let mut names: Vec<Text> = [resources::CPU, resources::MEMORY, resources::PODS]
            .iter()
            .map(|name| Text::from(*name))
            .collect();
        let mut others = BTreeSet::new();
        for request in requests {
            for (name, amount) in request.iter() {
                if amount > 0 && !names.contains(name) {
                    others.insert(name.clone());
                }
            }
        }
        names.extend(others);
        Self { names }
    }

    pub(crate) fn amounts(&self, resources: &Resources) -> Amounts {
        self.names.iter().map(|name| resources.get(name)).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn resources(&self, amounts: &[i64]) -> Resources {
        self.names.iter().cloned().zip(amounts.iter().copied()).filter(|(_, amount)| *amount > 0).collect()
    }
}

#[derive(Debug)]
pub(crate) struct Market {
    pub(crate) cells: Vec<Cell>,
    /// How many machines each bounded reservation has left.
    pub(crate) reservations: Vec<u32>,
    /// For each pool, what became of its cloud's offerings.
    pub(crate) pools: Vec<PoolOffer>,
}

/// How many offerings there are, and how many are gone before any pod is looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolOffer {
    pub(crate) offerings: usize,
    pub(crate) outside_requirements: usize,
    pub(crate) unavailable: usize,
}

#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) pool: usize,
    /// Values of the pool's open custom labels.
    pub(crate) custom: Labels,
    /// The labels that some pod looks at.
    labels: Labels,
    /// What the DaemonSets that run here ask for.
    pub(crate) daemons: Amounts,
    pub(crate) daemon_ports: Vec<HostPort>,
    /// Cheapest first; equal prices by capacity type, type, zone.
    pub(crate) candidates: Vec<Candidate>,
    /// Indices of the candidates that no other beats in price, every size and every attach limit.
    pub(crate) front: Vec<usize>,
    /// The first cell of which the front is the same but for its labels.
    pub(crate) twin: usize,
    /// Nothing is bought of it for pods that are fresh.
    is_patient: bool,
}

impl LabelSource for Cell {
    fn label(&self, key: &str) -> Option<&str> {
        if key == names::HOSTNAME {
            // A new node has a hostname, and it is nobody's yet.
            return Some("");
        }
        self.labels.get(key).map(|value| &**value)
    }

    fn name(&self) -> &'static str {
        ""
    }

    fn awaits_pods(&self) -> bool {
        self.is_patient
    }
}

/// One offering as a node: what a pod finds on it.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) instance_type: usize,
    pub(crate) offering: usize,
    /// In micro-dollars an hour, with what the pool's nodes cost beyond it.
    pub(crate) price: i64,
    /// Allocatable less the DaemonSets.
    pub(crate) free: Amounts,
    /// Capacity of the resources that the pool limits.
    pub(crate) limited: SmallVec<[i64; 2]>,
    pub(crate) reservation: Option<usize>,
    /// The same for all candidates of a cell.
    pub(crate) portion: Portion,
}

impl Market {
    /// Offers of all pools that may buy, for pods that look at the labels in `looks_at`.
    pub(crate) fn open(
        snapshot: &Snapshot,
        policy: &Policy,
        dimensions: &Dimensions,
        looks_at: &LabelLooks,
    ) -> Self {
        let mut market = Self { cells: Vec::new(), reservations: Vec::new(), pools: Vec::new() };
        let mut reservation_ids = FxHashMap::default();
        let daemons: Vec<(NodeDemand, Amounts, &[HostPort])> = snapshot
            .daemon_sets
            .iter()
            .map(|set| {
                (fit::daemon_demand(&set.spec), dimensions.amounts(&set.spec.requests), &*set.spec.host_ports)
            })
            .collect();
        for (pool_index, pool) in snapshot.pools.iter().enumerate() {
            let offer = market.add_pool(pool_index, pool, policy, dimensions, looks_at, &mut reservation_ids);
            market.pools.push(offer);
        }
        for cell in &mut market.cells {
            let pool = &snapshot.pools[cell.pool];
            let mut overhead = Amounts::from_elem(0, dimensions.len());
            let mut ports = Vec::new();
            for (demand, requests, daemon_ports) in &daemons {
                if demand.admits(cell, pool.taints.iter()) {
                    overhead.iter_mut().zip(requests).for_each(|(sum, request)| *sum += request);
                    ports.extend(daemon_ports.iter().cloned());
                }
            }
            for candidate in &mut cell.candidates {
                candidate.free.iter_mut().zip(&overhead).for_each(|(free, daemons)| *free -= daemons);
            }
            cell.daemons = overhead;
            cell.daemon_ports = ports;
            cell.sort_candidates(pool);
        }
        market.find_twins();
        market
    }

    fn find_twins(&mut self) {
        let mut first: FxHashMap<(usize, Amounts, Vec<_>), usize> = FxHashMap::default();
        for (index, cell) in self.cells.iter_mut().enumerate() {
            let front = cell.front.iter().map(|candidate| &cell.candidates[*candidate]);
            let goods =
                front.map(|sold| (sold.instance_type, sold.price, sold.reservation, sold.portion)).collect();
            cell.twin = *first.entry((cell.pool, cell.daemons.clone(), goods)).or_insert(index);
        }
    }

    fn add_pool(
        &mut self,
        pool_index: usize,
        pool: &Pool,
        policy: &Policy,
        dimensions: &Dimensions,
        looks_at: &LabelLooks,
        reservation_ids: &mut FxHashMap<(Text, Text, Labels), usize>,
    ) -> PoolOffer {
        let mut offer = PoolOffer::default();
        if pool.blocked.is_some() {
            return offer;
        }
        let type_keys = type_level_keys(pool);
        let variants = custom_label_variants(pool, &type_keys, looks_at);
        let mut cell_of: FxHashMap<(usize, Portion, LabelValues<'_>), usize> = FxHashMap::default();
        for (type_index, instance_type) in pool.types.iter().enumerate() {
            let allocatable = dimensions.amounts(&instance_type.allocatable());
            for (offering_index, offering) in instance_type.offerings.iter().enumerate() {
                offer.offerings += 1;
                if !pool_admits(pool, &type_keys, instance_type, offering) {
                    offer.outside_requirements += 1;
                    continue;
                }
                if !can_be_had(pool, instance_type, offering, policy) {
                    offer.unavailable += 1;
                    continue;
                }
                let reservation = offering.remaining.map(|remaining| {
                    let id = (instance_type.name.clone(), offering.zone.clone(), offering.labels.clone());
                    *reservation_ids.entry(id).or_insert_with(|| {
                        self.reservations.push(remaining);
                        self.reservations.len() - 1
                    })
                });
                let portion = Portion::of_offering(pool, &instance_type.name, offering);
                let cost = offering.price.plus(pool.node_cost);
                let counted = |(name, _): (&Text, i64)| Limits::amount(name, &instance_type.capacity, cost);
                let limited = pool.limits.resources.iter().map(counted).collect();
                for (variant, custom) in variants.iter().enumerate() {
                    let values =
                        looks_at.values(|key| node_label(pool, custom, instance_type, offering, key));
                    let cell =
                        *cell_of.entry((variant, portion, values)).or_insert_with_key(|(.., values)| {
                            self.cells.push(Cell {
                                pool: pool_index,
                                custom: custom.clone(),
                                labels: looks_at.labels(values),
                                daemons: Amounts::new(),
                                daemon_ports: Vec::new(),
                                candidates: Vec::new(),
                                front: Vec::new(),
                                twin: 0,
                                is_patient: pool.is_patient,
                            });
                            self.cells.len() - 1
                        });
                    self.cells[cell].candidates.push(Candidate {
                        instance_type: type_index,
                        offering: offering_index,
                        price: cost.micro_usd(),
                        free: allocatable.clone(),
                        limited: SmallVec::clone(&limited),
                        reservation,
                        portion,
                    });
                }
            }
        }
        offer
    }
}

impl Cell {
    fn sort_candidates(&mut self, pool: &Pool) {
        self.candidates.sort_by_cached_key(|candidate| {
            let instance_type = &pool.types[candidate.instance_type];
            let offering = &instance_type.offerings[candidate.offering];
            (
                candidate.price,
                offering.capacity_type,
                // Linux before what is only sometimes wanted, where an offering comes in several.
                offering.labels.get(names::OS).map(|os| (&**os != "linux", &**os)),
                &*instance_type.name,
                &*offering.zone,
                candidate.offering,
            )
        });
        for index in 0..self.candidates.len() {
            let candidate = &self.candidates[index];
            // What beats it is most likely another offering of the same type, which came just before.
            let beaten = self.front.iter().rev().map(|other| &self.candidates[*other]).any(|other| {
                other.beats(candidate)
                    && attaches_as_many(
                        &pool.types[other.instance_type],
                        &pool.types[candidate.instance_type],
                    )
            });
            if !beaten {
                self.front.push(index);
            }
        }
    }
}

impl Candidate {
    /// Cheaper or equal, larger or equal everywhere, lighter or equal on the pool's limits. A bounded
    /// reservation beats nothing: it may run out.
    fn beats(&self, other: &Self) -> bool {
        self.reservation.is_none()
            && self.price <= other.price
            && self.free.iter().zip(&other.free).all(|(mine, theirs)| mine >= theirs)
            && self.limited.iter().zip(&other.limited).all(|(mine, theirs)| mine <= theirs)
    }
}

/// Whether `this` attaches at least as many volumes of every driver as `that`.
fn attaches_as_many(this: &InstanceType, that: &InstanceType) -> bool {
    this.volume_limits
        .iter()
        .all(|(driver, limit)| that.volume_limits.get(driver).is_some_and(|other| other <= limit))
}

fn can_be_had(pool: &Pool, instance_type: &InstanceType, offering: &Offering, policy: &Policy) -> bool {
    offering.available
        && offering.remaining != Some(0)
        && !policy.lacks(&pool.name, &instance_type.name, offering)
}

/// Keys whose value is decided by the type or the offering, not by the pool.
fn type_level_keys(pool: &Pool) -> BTreeSet<&str> {
    let mut keys: BTreeSet<&str> =
        names::WELL_KNOWN.into_iter().filter(|key| *key != names::NODEPOOL).collect();
    for instance_type in pool.types.iter() {
        keys.extend(instance_type.labels.keys().map(|key| &**key));
        keys.extend(instance_type.offerings.iter().flat_map(|o| o.labels.keys()).map(|key| &**key));
    }
    keys
}

fn type_label<'a>(instance_type: &'a InstanceType, offering: &'a Offering, key: &str) -> Option<&'a str> {
    match key {
        names::ZONE => Some(&*offering.zone),
        names::CAPACITY_TYPE => Some(offering.capacity_type.name()),
        names::INSTANCE_TYPE => Some(&*instance_type.name),
        _ => offering.labels.get(key).or_else(|| instance_type.labels.get(key)).map(|value| &**value),
    }
}

/// A label of the node that this would become.
fn node_label<'a>(
    pool: &'a Pool,
    custom: &'a Labels,
    instance_type: &'a InstanceType,
    offering: &'a Offering,
    key: &str,
) -> Option<&'a str> {
    type_label(instance_type, offering, key)
        .or_else(|| pool.labels.get(key).or_else(|| custom.get(key)).map(|value| &**value))
}

/// The value that a candidate shows under a key of minValues.
pub(crate) fn offered_label<'a>(pool: &'a Pool, candidate: &Candidate, key: &str) -> Option<&'a str> {
    let instance_type = &pool.types[candidate.instance_type];
    type_label(instance_type, &instance_type.offerings[candidate.offering], key)
        .or_else(|| pool.labels.get(key).map(|value| &**value))
}

/// All labels of the node that this would become, but its hostname.
pub(crate) fn node_labels(
    pool: &Pool,
    custom: &Labels,
    instance_type: &InstanceType,
    offering: &Offering,
) -> Labels {
    let mut labels = pool.labels.clone();
    labels.extend(custom.iter().map(|(key, value)| (key.clone(), value.clone())));
    labels.extend(instance_type.labels.iter().map(|(key, value)| (key.clone(), value.clone())));
    labels.extend(offering.node_labels());
    labels.insert(names::INSTANCE_TYPE.into(), instance_type.name.clone());
    labels
}

/// Whether the pool's requirements and template labels leave this offering.
pub(crate) fn pool_admits(
    pool: &Pool,
    type_keys: &BTreeSet<&str>,
    instance_type: &InstanceType,
    offering: &Offering,
) -> bool {
    let decided = |key: &Text| type_keys.contains(&**key) || pool.labels.contains_key(key);
    let label = |key: &Text| {
        type_label(instance_type, offering, key).or_else(|| pool.labels.get(key).map(|value| &**value))
    };
    pool.requirements.iter().filter(|(key, _)| decided(key)).all(|(key, set)| set.admits(label(key)))
        && pool.labels.iter().filter(|(key, _)| type_keys.contains(&***key)).all(|(key, value)| {
            type_label(instance_type, offering, key).is_none_or(|label| *label == **value)
        })
}

/// Label keys that pods look at, with the values they name.
#[derive(Debug, Default)]
pub(crate) struct LabelLooks {
    named: BTreeMap<Text, BTreeSet<Text>>,
}

/// A value for each key of [`LabelLooks`], where there is one.
type LabelValues<'a> = SmallVec<[Option<&'a str>; 4]>;

impl LabelLooks {
    pub(crate) fn add_demand(&mut self, demand: &NodeDemand) {
        for expression in demand.keys() {
            self.add_expression(expression);
        }
    }

    pub(crate) fn add_expression(&mut self, expression: &Expression) {
        let named = self.named.entry(expression.key().clone()).or_default();
        match expression.operator() {
            Operator::In | Operator::NotIn => named.extend(expression.values().iter().cloned()),
            Operator::Exists | Operator::DoesNotExist => {}
            Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte => {
                // The bound and its neighbours: if any value satisfies the pod, one of these does or the
                // pool's own bounds decide.
                let bound =
                    expression.values().first().and_then(|value| value.parse::<i64>().ok()).unwrap_or(0);
                named.extend(
                    [bound.saturating_sub(1), bound, bound.saturating_add(1)]
                        .map(|n| Text::from(n.to_string())),
                );
            }
        }
    }

    pub(crate) fn add_key(&mut self, key: &Text) {
        self.named.entry(key.clone()).or_default();
    }

    /// The keys that tell new nodes apart: all but the hostname.
    fn keys(&self) -> impl Iterator<Item = &Text> {
        self.named.keys().filter(|key| ***key != *names::HOSTNAME)
    }

    /// The value of each key.
    fn values<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> LabelValues<'a> {
        self.keys().map(|key| label(key)).collect()
    }

    /// The labels with these values.
    fn labels(&self, values: &[Option<&str>]) -> Labels {
        let labels = self.keys().zip(values);
        labels.filter_map(|(key, value)| value.map(|value| (key.clone(), Text::from(value)))).collect()
    }
}

/// A pool whose custom labels are open offers each combination of the values that matter. More than
/// this many combinations are cut off: nobody writes them by hand.
const VARIANTS_MAX: usize = 256;

/// The values that the pool's open custom labels may take, as far as some pod can tell them apart.
fn custom_label_variants(pool: &Pool, type_keys: &BTreeSet<&str>, looks_at: &LabelLooks) -> Vec<Labels> {
    let mut variants = vec![Labels::new()];
    for (key, set) in pool.requirements.iter() {
        if type_keys.contains(&**key) || pool.labels.contains_key(key) {
            continue;
        }
        let values = custom_values(set, looks_at.named.get(key));
        variants = variants
            .iter()
            .flat_map(|variant| {
                values.iter().map(move |value| {
                    let mut variant = variant.clone();
                    if let Some(value) = value {
                        variant.insert(key.clone(), value.clone());
                    }
                    variant
                })
            })
            .take(VARIANTS_MAX)
            .collect();
    }
    variants
}

fn custom_values(set: &ValueSet, named: Option<&BTreeSet<Text>>) -> Vec<Option<Text>> {
    let default = if set.may_be_absent() { None } else { set.any_value() };
    let mut values = Vec::new();
    if default.is_some() || set.may_be_absent() {
        values.push(default);
    }
    if let Some(named) = named {
        let finite = set.finite().into_iter().flatten().cloned();
        let further =
            set.any_value().into_iter().chain(finite).chain(named.iter().filter(|v| set.has(v)).cloned());
        for value in further.map(Some) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }
    values
}
