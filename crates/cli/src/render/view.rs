//! A plan as people look at it: alike purchases together, alike refusals together.

use std::collections::BTreeMap;

use berth_core::catalog::CapacityType;
use berth_core::disruption::DisruptionPolicy;
use berth_core::names::Text;
use berth_core::plan::{Host, Launch, Plan, PoolRefusal, Skipped};
use berth_core::reason::{Reason, Refusal};
use berth_core::resources::Resources;
use berth_core::snapshot::Snapshot;
use berth_core::units::Price;

use super::fill::{Fill, fills};
use super::money::hourly;
use super::removals::Removals;
use super::shorten::shorten;

/// What both the text and the page show.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) verdict: String,
    pub(crate) nodes_new: usize,
    pub(crate) pods_placed: usize,
    pub(crate) pods_left_out: usize,
    pub(crate) purchases: Vec<Purchase>,
    pub(crate) placements: Vec<Placement>,
    pub(crate) left_out: Vec<LeftOut>,
    /// Where removals were looked for.
    pub(crate) removals: Option<Removals>,
    pub(crate) cost: Cost,
    /// `2 ConfigMap, 1 Service`; empty where nothing was skipped.
    pub(crate) skipped: String,
}

/// Nodes to buy that differ only in what they will hold.
#[derive(Debug)]
pub(crate) struct Purchase {
    pub(crate) pool: Text,
    pub(crate) instance_type: Text,
    pub(crate) zone: Text,
    pub(crate) capacity_type: CapacityType,
    pub(crate) price: Price,
    pub(crate) estimated: bool,
    pub(crate) count: usize,
    pub(crate) together: Price,
    pub(crate) fills: Vec<Fill>,
    pub(crate) pods: String,
    /// On some of them the pool's minValues were given up.
    pub(crate) min_values_relaxed: bool,
}

/// An existing node that gets pods.
#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) node: Text,
    pub(crate) pod_count: usize,
    pub(crate) pods: String,
}

/// Pods without a place for the same reasons.
#[derive(Debug)]
pub(crate) struct LeftOut {
    pub(crate) pod_count: usize,
    pub(crate) pods: String,
    pub(crate) refusals: Vec<PoolsRefusal>,
}

/// Pools that refuse for the same reason.
#[derive(Debug)]
pub(crate) struct PoolsRefusal {
    pub(crate) pools: String,
    pub(crate) reason: Reason,
    pub(crate) message: String,
}

#[derive(Debug)]
pub(crate) struct Cost {
    pub(crate) before: Price,
    pub(crate) after: Price,
    pub(crate) lower_bound: Price,
    pub(crate) gap_basis_points: u32,
    pub(crate) estimated: bool,
    /// Nodes whose price is not known, and which the sums therefore leave out.
    pub(crate) unpriced_nodes: usize,
    /// What of the cost after is not the price of a machine.
    pub(crate) beyond_prices: Price,
    /// What kube-scheduler could make of the plan, if it is worth a warning.
    pub(crate) warning: Option<String>,
}

impl Cost {
    pub(crate) fn change(&self) -> Price {
        self.after.minus(self.before)
    }

    /// What the sums have beyond the prices that are shown for nodes.
    pub(crate) fn beyond_prices_note(&self) -> Option<String> {
        let beyond = hourly(self.beyond_prices);
        (self.beyond_prices > Price::ZERO)
            .then(|| format!("Of it {beyond} an hour is what nodes cost beyond their prices."))
    }

    /// `2.35%`.
    pub(crate) fn gap(&self) -> String {
        format!("{}.{:02}%", self.gap_basis_points / 100, self.gap_basis_points % 100)
    }
}

impl View {
    /// `removing` is on which terms nodes could be taken away, if they could.
    pub(crate) fn of(
        plan: &Plan,
        snapshot: &Snapshot,
        skipped: &[Skipped],
        removing: Option<&DisruptionPolicy>,
    ) -> Self {
        let removals = removing.map(|policy| Removals::of(plan, snapshot, policy));
        Self {
            verdict: verdict(plan, removals.as_ref()),
            nodes_new: plan.launches.len(),
            pods_placed: plan.binds.len() - plan.pods_moved(),
            pods_left_out: plan.unplaced.len(),
            purchases: purchases(plan, snapshot),
            placements: plan
                .pods_by_node()
                .into_iter()
                .map(|(node, pods)| Placement {
                    node: snapshot.nodes[node].name.clone(),
                    pod_count: pods.len(),
                    pods: pod_names(snapshot, &pods),
                })
                .collect(),
            left_out: left_out(plan, snapshot),
            removals,
            cost: Cost {
                before: plan.cost_before,
                after: plan.cost_after,
                lower_bound: plan.lower_bound,
                gap_basis_points: plan.gap_basis_points(),
                estimated: plan.launches.iter().any(|launch| launch.estimated),
                unpriced_nodes: snapshot.nodes.iter().filter(|node| node.price.is_none()).count(),
                beyond_prices: beyond_prices(plan, snapshot),
                warning: scheduler_warning(plan, snapshot),
            },
            skipped: skipped
                .iter()
                .map(|skipped| format!("{} {}", skipped.count, skipped.kind))
                .collect::<Vec<_>>()
                .join(", "),
        }
    }
}

/// `1 node`, `2 nodes`.
/// What the nodes that there will be cost beyond their prices.
fn beyond_prices(plan: &Plan, snapshot: &Snapshot) -> Price {
    let removed = |node: &usize| plan.disruptions.iter().any(|step| step.nodes.contains(node));
    let staying = (0..snapshot.nodes.len())
        .filter(|node| snapshot.nodes[*node].price.is_some() && !removed(node))
        .map(|node| snapshot.nodes[node].pool.as_ref());
    let bought = plan.launches.iter().map(|launch| Some(&launch.pool));
    staying.chain(bought).map(|pool| snapshot.cost_beyond_price(pool)).fold(Price::ZERO, Price::plus)
}

pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// The pods' names in few words.
pub(crate) fn pod_names(snapshot: &Snapshot, pods: &[usize]) -> String {
    shorten(pods.iter().map(|pod| snapshot.pods[*pod].id()).collect())
}

/// What the pods ask for together.
pub(crate) fn requests_of(snapshot: &Snapshot, pods: &[usize]) -> Resources {
    let mut sum = Resources::new();
    for pod in pods {
        sum.add(&snapshot.pods[*pod].spec.requests);
    }
    sum
}

/// What the plan puts on a new node, and what its DaemonSets take beside that.
pub(crate) fn added_and_held(launch: &Launch, snapshot: &Snapshot, pods: &[usize]) -> (Resources, Resources) {
    let added = requests_of(snapshot, pods);
    let held = launch.requests.minus(&added);
    (added, held)
}

/// The scheduler prefers empty nodes, and a tight plan may then lack room for the last pods.
fn scheduler_warning(plan: &Plan, snapshot: &Snapshot) -> Option<String> {
    let pods = plan.may_strand.as_ref().filter(|pods| !pods.is_empty())?;
    Some(format!(
        "There is a place for each, but kube-scheduler prefers empty nodes and could leave {} waiting ({}) until \
         another node comes.",
        counted(pods.len(), "pod"),
        pod_names(snapshot, pods),
    ))
}

fn verdict(plan: &Plan, removals: Option<&Removals>) -> String {
    // Pods that wait are bound before any is moved.
    let placed = plan.binds.len() - plan.pods_moved();
    let pending = placed + plan.unplaced.len();
    let on_new = plan.binds[..placed].iter().filter(|bind| matches!(bind.host, Host::Launch(_))).count();
    let on_existing = placed - on_new;
    let nodes = plan.launches.len() - removals.map_or(0, |removals| removals.nodes_bought);
    let of_pending = match (pending, nodes) {
        (0, 0) if removals.is_some() => None,
        (0, 0) => Some("No pods are pending: nothing to buy.".to_owned()),
        (0, nodes) => Some(format!("No pods are pending; {} to buy.", counted(nodes, "node"))),
        _ => Some(format!(
            "{} pending: {placed} placed ({on_new} on new nodes, {on_existing} on existing), {} left out{}",
            counted(pending, "pod"),
            plan.unplaced.len(),
            if removals.is_some() { "." } else { "" },
        )),
    };
    of_pending.into_iter().chain(removals.map(Removals::verdict)).collect::<Vec<_>>().join(" ")
}

fn purchases(plan: &Plan, snapshot: &Snapshot) -> Vec<Purchase> {
    let pods_by_launch = plan.pods_by_launch();
    let mut alike = BTreeMap::<_, Vec<usize>>::new();
    for (index, launch) in plan.launches.iter().enumerate() {
        let key = (
            &launch.pool,
            &launch.instance_type,
            &launch.zone,
            launch.capacity_type,
            launch.price,
            launch.estimated,
        );
        alike.entry(key).or_default().push(index);
    }
    alike
        .into_iter()
        .map(|((pool, instance_type, zone, capacity_type, price, estimated), launches)| {
            let (mut added, mut held, mut allocatable) =
                (Resources::new(), Resources::new(), Resources::new());
            let mut pods = Vec::new();
            for index in &launches {
                let launch = &plan.launches[*index];
                let (launch_added, launch_held) = added_and_held(launch, snapshot, &pods_by_launch[*index]);
                added.add(&launch_added);
                held.add(&launch_held);
                allocatable.add(&launch.allocatable);
                pods.extend_from_slice(&pods_by_launch[*index]);
            }
            Purchase {
                pool: pool.clone(),
                instance_type: instance_type.clone(),
                zone: zone.clone(),
                capacity_type,
                price,
                estimated,
                count: launches.len(),
                together: price.times(i64::try_from(launches.len()).unwrap_or(i64::MAX)),
                fills: fills(&held, &added, &allocatable),
                pods: pod_names(snapshot, &pods),
                min_values_relaxed: launches.iter().any(|index| plan.launches[*index].min_values_relaxed),
            }
        })
        .collect()
}

fn left_out(plan: &Plan, snapshot: &Snapshot) -> Vec<LeftOut> {
    let mut alike = BTreeMap::<&[PoolRefusal], Vec<usize>>::new();
    for unplaced in &plan.unplaced {
        alike.entry(&unplaced.refusals).or_default().push(unplaced.pod);
    }
    let mut groups: Vec<_> = alike.into_iter().collect();
    groups.sort_by(|a, b| a.1.cmp(&b.1));
    groups
        .into_iter()
        .map(|(refusals, pods)| LeftOut {
            pod_count: pods.len(),
            pods: pod_names(snapshot, &pods),
            refusals: merged(refusals),
        })
        .collect()
}

/// Pools that refuse alike, together.
pub(crate) fn merged(refusals: &[PoolRefusal]) -> Vec<PoolsRefusal> {
    let mut pools_by_refusal: Vec<(&Refusal, Vec<String>)> = Vec::new();
    for PoolRefusal { pool, refusal } in refusals {
        let pool = pool.as_ref().map(ToString::to_string);
        match pools_by_refusal.iter_mut().find(|(known, _)| *known == refusal) {
            Some((_, pools)) => pools.extend(pool),
            None => pools_by_refusal.push((refusal, pool.into_iter().collect())),
        }
    }
    pools_by_refusal
        .into_iter()
        .map(|(refusal, pools)| PoolsRefusal {
            pools: if pools.is_empty() { "any pool".to_owned() } else { shorten(pools) },
            reason: refusal.reason,
            message: refusal.message.clone(),
        })
        .collect()
}
