//! The plan for what is pending: `plan(&Snapshot, &Policy) -> Plan`.

use std::collections::{BTreeMap, BTreeSet};

use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use crate::bound::{self, Worth};
use crate::class::{self, Class, ClassBuilder, Classes, Kind};
use crate::columns::{self, Improved, Work};
use crate::explain;
use crate::fit;
use crate::host::{AttachedVolumes, Host, HostOrigin};
use crate::market::{Amounts, Dimensions, Market};
use crate::names::Text;
use crate::node::{Node, NodeState};
use crate::pack::{self, Packer, Start};
use crate::plan::{Bind, Host as PlanHost, Launch, Plan, PoolRefusal, Unplaced};
use crate::scoring;
use crate::snapshot::{Policy, Snapshot};
use crate::topology::Topology;
use crate::units::Price;
use crate::volume::VolumeDemand;

/// What should be bought and what goes where, so that every pending pod that can have a place has one.
///
/// The same snapshot and policy give the same plan, byte for byte.
pub fn plan(snapshot: &Snapshot, policy: &Policy) -> Plan {
    plan_while(snapshot, policy, |_| true)
}

/// The same, but it ends early once `keep_going`, asked before every round with the rounds so far, says no.
pub fn plan_while(snapshot: &Snapshot, policy: &Policy, mut keep_going: impl FnMut(u64) -> bool) -> Plan {
    with_packed(snapshot, policy, |packer, prepared| {
        let mut work = Work::new(policy.effort, &mut keep_going);
        let improved = columns::improve(packer, || prepared.packer_in(packer.order.clone()), &mut work);
        let packer = improved.packer.as_ref().unwrap_or(packer);
        prepared.plan(packer, &improved, work.rounds_done())
    })
}

/// Plans, and hands the packed state to `look`.
pub(crate) fn with_packed<T>(
    snapshot: &Snapshot,
    policy: &Policy,
    look: impl FnOnce(&Packer<'_>, &Prepared<'_>) -> T,
) -> T {
    let prepared = Prepared::new(snapshot, policy, &class::pending(snapshot));
    let mut packer = prepared.packer(ClassOrder::PromisedFirst);
    packer.pack();
    if prepared.priority_could_matter(&packer) {
        packer = prepared.packer(ClassOrder::ByPriority);
        packer.pack();
    }
    look(&packer, &prepared)
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClassOrder {
    ByShape,
    /// The same, but before all others those that have been promised a node: room is kept for them there.
    PromisedFirst,
    /// The same, but higher priorities first: for when not all can be placed.
    ByPriority,
}

/// Everything that is judged once, before packing.
pub(crate) struct Prepared<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) policy: &'a Policy,
    pub(crate) dimensions: Dimensions,
    pub(crate) market: Market,
    pub(crate) classes: Classes,
    topology: Topology,
    /// What resources are worth to choose by, and to prove by.
    pub(crate) worth: Worth,
    pub(crate) proven_worth: Worth,
    pub(crate) hosts: Vec<Host>,
    admitted_nodes: Vec<FixedBitSet>,
    admitted_cells: Vec<FixedBitSet>,
    claims_held: BTreeMap<Text, u32>,
}

impl<'a> Prepared<'a> {
    /// For the pods `to_place`: those that wait, and those that run but could have another place.
    pub(crate) fn new(snapshot: &'a Snapshot, policy: &'a Policy, to_place: &FixedBitSet) -> Self {
        let staying: Vec<(usize, &Node)> =
            snapshot.nodes.iter().enumerate().filter(|(_, node)| node.state != NodeState::Deleting).collect();
        let nodes: Vec<&Node> = staying.iter().map(|(_, node)| *node).collect();
        let host_of: FxHashMap<&str, usize> =
            nodes.iter().enumerate().map(|(host, node)| (&*node.name, host)).collect();
        let (volumes, refused) = class::volume_demands(snapshot, to_place);
        let kinds = class::kinds(snapshot, &host_of, to_place);
        let requests = kinds.iter().filter_map(Kind::requests_to_place);
        let dimensions =
            Dimensions::of(requests.chain(snapshot.daemon_sets.iter().map(|set| &set.spec.requests)));
        let looks = class::label_looks(snapshot, &kinds, &volumes);
        let market = Market::open(snapshot, policy, &dimensions, &looks);
        let builder = ClassBuilder::new(snapshot, &kinds, &nodes, &market, &dimensions, policy.preferences);
        let (classes, topology) = builder.build(&volumes, refused);
        let hosts = existing_hosts(snapshot, &staying, &host_of, &dimensions, &volumes, to_place);
        let claims_held = held_claims(snapshot, &host_of, &volumes, to_place);
        let admitted_nodes = classes
            .demands
            .iter()
            .map(|demand| {
                bits(&nodes, |node| {
                    demand.admits(**node, node.lasting_taints(fit::startup_taints(node, &snapshot.pools)))
                })
            })
            .collect();
        let admitted_cells: Vec<FixedBitSet> = classes
            .demands
            .iter()
            .map(|demand| {
                bits(&market.cells, |cell| demand.admits(*cell, snapshot.pools[cell.pool].taints.iter()))
            })
            .collect();
        let demand = total_demand(&classes, dimensions.len());
        let proven_worth = Worth::proven(&market, &demand);
        let worth = Worth::practical(&proven_worth, &market, &classes, &admitted_cells, &demand);
        Self {
            snapshot,
            policy,
            dimensions,
            market,
            classes,
            topology,
            worth,
            proven_worth,
            hosts,
            admitted_nodes,
            admitted_cells,
            claims_held,
        }
    }

    pub(crate) fn packer(&self, order: ClassOrder) -> Packer<'_> {
        self.packer_in(self.class_order(order))
    }

    /// A packer that takes the classes in this order.
    fn packer_in(&self, order: Vec<usize>) -> Packer<'_> {
        let start = Start {
            snapshot: self.snapshot,
            policy: self.policy,
            market: &self.market,
            classes: &self.classes,
            topology: self.topology.clone(),
            worth: &self.worth,
            hosts: self.hosts.clone(),
            admitted_nodes: self.admitted_nodes.clone(),
            admitted_cells: self.admitted_cells.clone(),
            claims_held: self.claims_held.clone(),
        };
        Packer::new(start, order)
    }

    /// Pods that others want to be near first, then the hard to place, then the large.
    fn class_order(&self, order: ClassOrder) -> Vec<usize> {
        let classes = &self.classes.all;
        let wanted_near: BTreeSet<usize> = classes
            .iter()
            .flat_map(|class| class.levels.iter().flat_map(|level| &level.rules.affinity))
            .filter(|rule| !rule.matches_itself)
            .flat_map(|rule| rule.groups.iter().copied())
            .collect();
        let shape = |class: &Class| {
            let rules = class.levels.first().map(|level| &level.rules);
            let waits = rules.is_some_and(|rules| rules.affinity.iter().any(|rule| !rule.matches_itself));
            let partner = class.appearance.counted_by.iter().any(|group| wanted_near.contains(group));
            let keeps_apart =
                rules.is_some_and(|rules| !rules.anti_affinity.is_empty()) || !class.ports.is_empty();
            let spread = rules.is_some_and(|rules| !rules.spread.is_empty());
            let together = rules.is_some_and(|rules| !rules.affinity.is_empty());
            match (waits, partner) {
                (false, true) => 0,
                _ if keeps_apart => 1,
                _ if spread => 2,
                _ if together => 3,
                _ if !class.appearance.shunned_by.is_empty() => 4,
                _ => 5,
            }
        };
        let looks: Vec<(u8, f64)> =
            classes.iter().map(|class| (shape(class), self.worth.value(&class.requests))).collect();
        let mut order_of: Vec<usize> = (0..classes.len()).collect();
        order_of.sort_by(|a, b| {
            let (a_class, b_class) = (&classes[*a], &classes[*b]);
            let by_order = match order {
                ClassOrder::ByShape => std::cmp::Ordering::Equal,
                ClassOrder::PromisedFirst => a_class.nominated.is_none().cmp(&b_class.nominated.is_none()),
                ClassOrder::ByPriority => b_class.priority.cmp(&a_class.priority),
            };
            // Room that is only held free comes after pods that need it.
            a_class
                .is_buffer
                .cmp(&b_class.is_buffer)
                .then(by_order)
                .then_with(|| looks[*a].0.cmp(&looks[*b].0))
                .then_with(|| looks[*b].1.total_cmp(&looks[*a].1))
                .then_with(|| b_class.requests.cmp(&a_class.requests))
                .then_with(|| a_class.pods.cmp(&b_class.pods))
        });
        order_of
    }

    /// Some pods are left, and another order might have left lesser ones.
    pub(crate) fn priority_could_matter(&self, packer: &Packer<'_>) -> bool {
        let left = packer.left.iter().zip(&self.classes.all).filter(|(left, _)| **left > 0);
        let Some(highest_left) = left.map(|(_, class)| class.priority).max() else { return false };
        self.classes.all.iter().any(|class| class.priority < highest_left)
    }

    fn plan(&self, packer: &Packer<'_>, improved: &Improved<'_>, rounds: u64) -> Plan {
        let launches = self.launches(packer);
        let launch_of: FxHashMap<usize, usize> =
            launches.iter().enumerate().map(|(index, (host, _))| (*host, index)).collect();
        let binds = self.binds(packer, &launch_of);
        let unplaced = self.unplaced(packer);
        let bought = launches.iter().fold(Price::ZERO, |sum, (_, launch)| sum.plus(self.cost_of(launch)));
        let cost_before = self
            .snapshot
            .nodes
            .iter()
            .filter_map(|node| self.snapshot.cost_of(node))
            .fold(Price::ZERO, Price::plus);
        let bound = Price::from_micro_usd(self.lower_bound(packer, improved));
        debug_assert!(bound <= bought, "a bound of {bound} above a plan of {bought}");
        let mut plan = Plan {
            launches: launches.into_iter().map(|(_, launch)| launch).collect(),
            binds,
            unplaced,
            disruptions: Vec::new(),
            kept: Vec::new(),
            cost_before,
            cost_after: cost_before.plus(bought),
            lower_bound: cost_before.plus(bound.min(bought)),
            rounds,
            may_strand: None,
        };
        plan.may_strand = scoring::may_strand(self.snapshot, self.policy, &plan);
        plan
    }

    fn cost_of(&self, launch: &Launch) -> Price {
        launch.price.plus(self.snapshot.cost_beyond_price(Some(&launch.pool)))
    }

    fn binds(&self, packer: &Packer<'_>, launch_of: &FxHashMap<usize, usize>) -> Vec<Bind> {
        let mut next = vec![0; self.classes.all.len()];
        let mut binds = Vec::new();
        for step in &packer.steps {
            let host = match packer.hosts[step.host].origin {
                HostOrigin::Node(node) => PlanHost::Node(node),
                HostOrigin::Planned { .. } => PlanHost::Launch(launch_of[&step.host]),
            };
            let first = next[step.class];
            next[step.class] += step.pods as usize;
            let pods = &self.classes.all[step.class].pods[first..next[step.class]];
            binds.extend(pods.iter().map(|pod| Bind { pod: *pod, host }));
        }
        binds
    }

    fn unplaced(&self, packer: &Packer<'_>) -> Vec<Unplaced> {
        let mut unplaced: Vec<Unplaced> = self
            .classes
            .refused
            .iter()
            .map(|(pod, refusal)| Unplaced {
                pod: *pod,
                refusals: vec![PoolRefusal { pool: None, refusal: refusal.clone() }],
            })
            .collect();
        for (class_index, left) in packer.left.iter().enumerate().filter(|(_, left)| **left > 0) {
            let class = &self.classes.all[class_index];
            let refusals = explain::refusals(self, packer, class_index);
            let pods = &class.pods[class.pods.len() - *left as usize..];
            unplaced.extend(pods.iter().map(|pod| Unplaced { pod: *pod, refusals: refusals.clone() }));
        }
        unplaced.sort_by_key(|unplaced| unplaced.pod);
        unplaced
    }

    /// The least that the purchases for the placed pods can cost.
    fn lower_bound(&self, packer: &Packer<'_>, improved: &Improved<'_>) -> i64 {
        let mut demand = vec![0_i128; self.dimensions.len()];
        for (class, left) in self.classes.all.iter().zip(&packer.left) {
            bound::add_demand(&mut demand, &class.requests, class.pods.len() - *left as usize);
        }
        let by_resources = bound::lower_bound(
            &self.market,
            &self.proven_worth,
            &demand,
            self.hosts.iter().map(|host| &*host.free),
        );
        let rooms: Vec<&Amounts> = self.hosts.iter().map(|host| &host.free).collect();
        let by_patterns =
            columns::lower_bound(packer, &rooms, &improved.class_prices, self.policy.effort.threads);
        by_resources.max(by_patterns).max(improved.least_cost.unwrap_or(0))
    }
}

fn bits<T>(items: &[T], admits: impl Fn(&&T) -> bool) -> FixedBitSet {
    let mut bits = FixedBitSet::with_capacity(items.len());
    items.iter().enumerate().filter(|(_, item)| admits(item)).for_each(|(index, _)| bits.insert(index));
    bits
}

fn total_demand(classes: &Classes, dimensions: usize) -> Vec<i64> {
    let mut demand: Amounts = smallvec::smallvec![0; dimensions];
    for class in &classes.all {
        pack::add_times(&mut demand, &class.requests, i64::try_from(class.pods.len()).unwrap_or(i64::MAX));
    }
    demand.to_vec()
}

/// The nodes that stay, with what runs on them and what their DaemonSets still need.
fn existing_hosts(
    snapshot: &Snapshot,
    staying: &[(usize, &Node)],
    host_of: &FxHashMap<&str, usize>,
    dimensions: &Dimensions,
    volumes: &[Vec<VolumeDemand>],
    to_place: &FixedBitSet,
) -> Vec<Host> {
    let mut hosts: Vec<Host> = staying
        .iter()
        .map(|(index, node)| Host {
            origin: HostOrigin::Node(*index),
            free: dimensions.amounts(&node.allocatable),
            ports: Vec::new(),
            volumes: AttachedVolumes::limited_to(node.volume_limits.clone()),
            placed: Vec::new(),
            closed: false,
            arrivals: 0,
        })
        .collect();
    let mut daemons_running: BTreeSet<(usize, &str, &str)> = BTreeSet::new();
    for (index, (pod, demands)) in snapshot.pods.iter().zip(volumes).enumerate() {
        let Some(host_id) = pod.node.as_ref().and_then(|node| host_of.get(&**node)) else { continue };
        if !pod.is_active() || to_place.contains(index) {
            continue;
        }
        let host = &mut hosts[*host_id];
        pack::add_times(&mut host.free, &dimensions.amounts(&pod.spec.requests), -1);
        host.ports.extend(pod.spec.host_ports.iter().cloned());
        for demand in demands {
            if let Some(driver) = &demand.driver {
                host.volumes.attach_claim(driver, &demand.claim, 1);
            }
        }
        if let Some(set) = &pod.daemon_set {
            daemons_running.insert((*host_id, &pod.namespace, set));
        }
    }
    for set in &snapshot.daemon_sets {
        let demand = fit::daemon_demand(&set.spec);
        let requests = dimensions.amounts(&set.spec.requests);
        for (host_id, (_, node)) in staying.iter().enumerate() {
            let taints = node.lasting_taints(fit::startup_taints(node, &snapshot.pools));
            if !daemons_running.contains(&(host_id, &*set.namespace, &*set.name))
                && demand.admits(*node, taints)
            {
                pack::add_times(&mut hosts[host_id].free, &requests, -1);
                hosts[host_id].ports.extend(set.spec.host_ports.iter().cloned());
            }
        }
    }
    hosts
}

/// Claims for one pod only that running pods hold, with how many.
fn held_claims(
    snapshot: &Snapshot,
    host_of: &FxHashMap<&str, usize>,
    volumes: &[Vec<VolumeDemand>],
    to_place: &FixedBitSet,
) -> BTreeMap<Text, u32> {
    let mut held = BTreeMap::new();
    for (index, (pod, demands)) in snapshot.pods.iter().zip(volumes).enumerate() {
        let runs = pod.is_active() && pod.node.as_ref().is_some_and(|node| host_of.contains_key(&**node));
        if runs && !to_place.contains(index) {
            for demand in demands.iter().filter(|demand| demand.single_pod) {
                *held.entry(demand.claim.clone()).or_insert(0) += 1;
            }
        }
    }
    held
}
