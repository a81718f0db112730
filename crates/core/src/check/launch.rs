//! Whether the nodes that a plan buys can be bought as it says.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use super::cluster::Cluster;
use super::market::{Market, consistent_labels, given_labels, unmet_requirement};
use super::place::{Place, suits};
use super::violation::{AlternativeFault, LaunchFault, Violation};
use crate::catalog::{InstanceType, Offering};
use crate::names::{self, Labels, Text};
use crate::plan::{Alternative, Host, Launch, Plan};
use crate::pod::Pod;
use crate::pool::Pool;
use crate::resources::Resources;
use crate::snapshot::{MinValuesPolicy, Policy};
use crate::volume::VolumeDemand;

/// Judges every launch of the plan. `cluster` holds the launches' places, which know their DaemonSets.
pub(super) fn check_launches<'a>(
    market: &Market<'a>,
    policy: &Policy,
    cluster: &Cluster<'a>,
    plan: &'a Plan,
) -> Vec<Violation> {
    let snapshot = market.snapshot;
    let mut pods = vec![Vec::<&Pod>::new(); plan.launches.len()];
    for bind in &plan.binds {
        if let Host::Launch(launch) = bind.host
            && let (Some(pods), Some(pod)) = (pods.get_mut(launch), snapshot.pods.get(bind.pod))
        {
            pods.push(pod);
        }
    }
    let mut taken: FxHashSet<&str> = snapshot.nodes.iter().map(|node| &*node.name).collect();
    let places = cluster.places.iter().skip(snapshot.nodes.len());
    let mut shelf = Shelf { market, goods: FxHashMap::default() };
    let mut violations = Vec::new();
    for ((launch, place), pods) in plan.launches.iter().zip(places).zip(&pods) {
        let mut faults = Vec::new();
        if !taken.insert(&launch.name) {
            faults.push(LaunchFault::NameTaken);
        }
        check_requests(launch, place, pods, &mut faults);
        if let Err(fault) = check_purchase(&mut shelf, policy, launch, pods, &mut faults) {
            faults.push(fault);
        }
        let name = &launch.name;
        violations.extend(faults.into_iter().map(|fault| Violation::Launch { launch: name.clone(), fault }));
    }
    violations
}

fn check_requests(launch: &Launch, place: &Place, pods: &[&Pod], faults: &mut Vec<LaunchFault>) {
    let mut actual = place.daemons.clone();
    for pod in pods {
        actual.add(&pod.spec.requests);
    }
    if !same_amounts(&launch.requests, &actual) {
        faults.push(LaunchFault::WrongRequests { said: (*launch.requests).clone(), actual });
    }
}

/// An `Err` is a fault after which nothing further can be said.
fn check_purchase<'a>(
    shelf: &mut Shelf<'a, '_>,
    policy: &Policy,
    launch: &'a Launch,
    pods: &[&'a Pod],
    faults: &mut Vec<LaunchFault>,
) -> Result<(), LaunchFault> {
    let market = shelf.market;
    let pool =
        market.pool(&launch.pool).ok_or_else(|| LaunchFault::NoSuchPool { pool: launch.pool.clone() })?;
    if let Some(refusal) = &pool.blocked {
        faults.push(LaunchFault::PoolBlocked { pool: pool.name.clone(), refusal: refusal.clone() });
    }
    if !same_elements(&launch.taints, &pool.taints) {
        faults.push(LaunchFault::WrongTaints);
    }
    let instance_type = market.instance_type(&launch.pool, &launch.instance_type).ok_or_else(|| {
        LaunchFault::NoSuchType { pool: pool.name.clone(), instance_type: launch.instance_type.clone() }
    })?;
    let actual = instance_type.allocatable();
    if !same_amounts(&launch.allocatable, &actual) {
        faults.push(LaunchFault::WrongAllocatable { said: (*launch.allocatable).clone(), actual });
    }
    let offering = claimed_offering(market, instance_type, launch)?;
    if !market.is_available(&pool.name, instance_type, offering) {
        faults.push(LaunchFault::Unavailable);
    }
    let custom = check_labels(pool, instance_type, offering, launch, faults);
    check_alternatives(shelf, policy, pool, launch, &custom, pods, faults);
    Ok(())
}

/// The offering of the launch, or the nearest thing to it that says what is wrong.
fn claimed_offering<'a>(
    market: &Market<'a>,
    instance_type: &'a InstanceType,
    launch: &Launch,
) -> Result<&'a Offering, LaunchFault> {
    if let Some((_, offering)) = market.offering_of(launch) {
        return Ok(offering);
    }
    let mut offered = instance_type
        .offerings
        .iter()
        .filter(|o| o.zone == launch.zone && o.capacity_type == launch.capacity_type)
        .peekable();
    if offered.peek().is_none() {
        return Err(LaunchFault::NoSuchOffering {
            instance_type: instance_type.name.clone(),
            zone: launch.zone.clone(),
            capacity_type: launch.capacity_type,
        });
    }
    // The labels of one that is right otherwise are then found missing.
    offered
        .find(|o| o.price == launch.price && o.estimated == launch.estimated)
        .ok_or(LaunchFault::WrongPrice { said: launch.price, estimated: launch.estimated })
}

/// Judges the launch's labels, and gives those that the pool's requirements alone explain.
fn check_labels(
    pool: &Pool,
    instance_type: &InstanceType,
    offering: &Offering,
    launch: &Launch,
    faults: &mut Vec<LaunchFault>,
) -> Labels {
    let given: BTreeMap<Text, Text> = given_labels(pool, instance_type, offering).collect();
    for (key, value) in given_labels(pool, instance_type, offering) {
        if launch.labels.get(&key) != Some(&value) {
            faults.push(LaunchFault::MissingLabel { key, value });
        }
    }
    if let Some(key) = unmet_requirement(pool, &launch.labels) {
        let value = launch.labels.get(key).cloned();
        faults.push(LaunchFault::RequirementUnmet { key: key.clone(), value });
    }
    let mut custom = Labels::new();
    for (key, value) in launch.labels.iter().filter(|(key, _)| !given.contains_key(*key)) {
        if pool.requirements.get(key).is_some() && &**key != names::HOSTNAME {
            custom.insert(key.clone(), value.clone());
        } else {
            faults.push(LaunchFault::InventedLabel { key: key.clone() });
        }
    }
    custom
}

fn check_alternatives<'a>(
    shelf: &mut Shelf<'a, '_>,
    policy: &Policy,
    pool: &'a Pool,
    launch: &'a Launch,
    custom: &Labels,
    pods: &[&'a Pod],
    faults: &mut Vec<LaunchFault>,
) {
    let market = shelf.market;
    let mut wants: Vec<(&Pod, Vec<VolumeDemand>)> = Vec::new();
    for pod in pods {
        let demands = market.snapshot.storage.demands(pod).unwrap_or_default();
        if !wants.iter().any(|(other, others)| other.spec == pod.spec && *others == demands) {
            wants.push((pod, demands));
        }
    }
    let order = Order { pool, launch, custom, wants };
    let mut shown: BTreeMap<&Text, BTreeSet<Text>> =
        pool.requirements.min_values().map(|(key, _)| (key, BTreeSet::new())).collect();
    let mut show = |labels: &Labels| {
        for (key, values) in &mut shown {
            values.extend(labels.get(*key).cloned());
        }
    };
    show(&launch.labels);
    for alternative in launch.alternatives.iter() {
        match order.judge(market, shelf.goods(pool, &alternative.instance_type), alternative) {
            Ok(labels) => show(&labels),
            Err(fault) => {
                faults.push(LaunchFault::Alternative { alternative: alternative.clone(), fault });
            }
        }
    }
    if launch.min_values_relaxed {
        if policy.min_values == MinValuesPolicy::Strict {
            faults.push(LaunchFault::MinValuesRelaxed);
        }
        return;
    }
    for (key, wanted) in pool.requirements.min_values() {
        let found = shown.get(key).map_or(0, BTreeSet::len);
        if found < usize::try_from(wanted).unwrap_or(usize::MAX) {
            faults.push(LaunchFault::MinValues { key: key.clone(), wanted, found });
        }
    }
}

/// What a launch asks of anything that is bought in its stead.
struct Order<'o> {
    pool: &'o Pool,
    launch: &'o Launch,
    /// Labels that the pool's requirements alone explain: they stay whatever is bought.
    custom: &'o Labels,
    wants: Vec<(&'o Pod, Vec<VolumeDemand>)>,
}

impl Order<'_> {
    /// The labels of the node that would be bought, or why it could not. Offerings may differ in their
    /// labels alone: one of them has to do.
    fn judge(
        &self,
        market: &Market<'_>,
        goods: Option<&Goods<'_>>,
        alternative: &Alternative,
    ) -> Result<Labels, AlternativeFault> {
        let goods = goods.ok_or(AlternativeFault::NotOffered)?;
        let mut fault = AlternativeFault::NotOffered;
        for (offering, labels) in &goods.offerings {
            if offering.zone != alternative.zone || offering.capacity_type != alternative.capacity_type {
                continue;
            }
            let verdict = if offering.price != alternative.price_per_hour {
                Err(AlternativeFault::WrongPrice)
            } else if !market.is_available(&self.launch.pool, goods.instance_type, offering) {
                Err(AlternativeFault::Unavailable)
            } else {
                self.judge_node(&goods.allocatable, labels.as_ref())
            };
            match verdict {
                Ok(labels) => return Ok(labels),
                Err(reason) => fault = reason,
            }
        }
        Err(fault)
    }

    fn judge_node(
        &self,
        allocatable: &Resources,
        given: Option<&Labels>,
    ) -> Result<Labels, AlternativeFault> {
        let mut labels = given.ok_or(AlternativeFault::RequirementUnmet)?.clone();
        for (key, value) in self.custom {
            labels.entry(key.clone()).or_insert_with(|| value.clone());
        }
        if unmet_requirement(self.pool, &labels).is_some() {
            return Err(AlternativeFault::RequirementUnmet);
        }
        let mut requests = self.launch.requests.iter().filter(|(_, amount)| *amount > 0);
        if let Some((resource, _)) = requests.find(|(name, amount)| *amount > allocatable.get(name)) {
            return Err(AlternativeFault::TooSmall { resource: resource.clone() });
        }
        let name = &self.launch.name;
        labels.insert(names::HOSTNAME.into(), name.clone());
        match self.wants.iter().find(|(pod, demands)| !suits(&pod.spec, demands, &labels, name)) {
            Some((pod, _)) => Err(AlternativeFault::Unsuited { pod: pod.id() }),
            None => Ok(labels),
        }
    }
}

/// Remembers what each type looks like to each pool: thousands of launches name the same alternatives.
struct Shelf<'a, 'm> {
    market: &'m Market<'a>,
    goods: FxHashMap<(&'a str, &'a str), Option<Goods<'a>>>,
}

struct Goods<'a> {
    instance_type: &'a InstanceType,
    allocatable: Resources,
    /// Each offering with its labels, where they do not contradict each other.
    offerings: Vec<(&'a Offering, Option<Labels>)>,
}

impl<'a> Shelf<'a, '_> {
    fn goods(&mut self, pool: &'a Pool, instance_type: &'a str) -> Option<&Goods<'a>> {
        let market = self.market;
        let goods = self.goods.entry((&pool.name, instance_type)).or_insert_with(|| {
            let instance_type = market.instance_type(&pool.name, instance_type)?;
            let with_labels = |o: &'a Offering| (o, consistent_labels(pool, instance_type, o));
            Some(Goods {
                instance_type,
                allocatable: instance_type.allocatable(),
                offerings: instance_type.offerings.iter().map(with_labels).collect(),
            })
        });
        goods.as_ref()
    }
}

/// A resource that is not named is zero.
fn same_amounts(a: &Resources, b: &Resources) -> bool {
    let within = |x: &Resources, y: &Resources| x.iter().all(|(name, amount)| y.get(name) == amount);
    within(a, b) && within(b, a)
}

fn same_elements<T: Ord + Clone>(a: &[T], b: &[T]) -> bool {
    let sorted = |items: &[T]| {
        let mut items = items.to_vec();
        items.sort();
        items
    };
    sorted(a) == sorted(b)
}
