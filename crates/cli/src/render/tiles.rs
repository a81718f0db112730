//! The picture of the nodes: a tile for each node, or for each kind of node where many are alike.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use berth_core::names::{self, Text};
use berth_core::node::NodeState;
use berth_core::plan::Plan;
use berth_core::resources::Resources;
use berth_core::snapshot::Snapshot;
use berth_core::units::Price;

use super::fill::{Fill, fills};
use super::shorten::shorten;
use super::view::{added_and_held, pod_names, requests_of};

/// A page with more tiles than this is slow to draw and no longer a picture.
const TILES_MAX: usize = 400;

/// How far apart two nodes' fills must be, in percent, to be drawn apart: the finest that gives a picture
/// is taken. Beyond 100 % all nodes of a kind are one tile.
const GRAINS: [u32; 5] = [1, 5, 10, 25, 1000];

#[derive(Debug)]
pub(crate) struct PoolPicture {
    /// `None` for nodes that came from no pool.
    pub(crate) pool: Option<Text>,
    pub(crate) zones: Vec<ZonePicture>,
}

#[derive(Debug)]
pub(crate) struct ZonePicture {
    pub(crate) zone: Option<Text>,
    pub(crate) tiles: Vec<Tile>,
}

#[derive(Debug)]
pub(crate) struct Tile {
    pub(crate) standing: Standing,
    pub(crate) instance_type: Option<Text>,
    pub(crate) capacity_type: Option<Text>,
    pub(crate) price: Option<Price>,
    pub(crate) estimated: bool,
    pub(crate) count: usize,
    /// Of all its nodes together.
    pub(crate) fills: Vec<Fill>,
    pub(crate) names: String,
    /// The pods that the plan puts there, or moves away where it takes the node away.
    pub(crate) pod_count: usize,
    pub(crate) pods: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    New,
    Running,
    Starting,
    Deleting,
    /// The plan takes it away.
    Removed,
}

impl Standing {
    fn of(state: NodeState) -> Self {
        match state {
            NodeState::Running => Self::Running,
            NodeState::Starting => Self::Starting,
            NodeState::Deleting => Self::Deleting,
        }
    }

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Running => "existing",
            Self::Starting => "starting",
            Self::Deleting => "going away",
            Self::Removed => "take away",
        }
    }

    /// The style class of a tile.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Running => "existing",
            Self::Starting => "starting",
            Self::Deleting => "deleting",
            Self::Removed => "removed",
        }
    }
}

/// All nodes as they will be, those that go as they are, by pool and zone.
pub(crate) fn picture(plan: &Plan, snapshot: &Snapshot) -> Vec<PoolPicture> {
    let nodes = drawn_nodes(plan, snapshot);
    let grain = GRAINS.into_iter().find(|grain| tile_count(&nodes, *grain) <= TILES_MAX).unwrap_or(1000);
    let mut alike = BTreeMap::<TileKey<'_>, Vec<&DrawnNode>>::new();
    for node in &nodes {
        alike.entry(node.key(grain)).or_default().push(node);
    }
    let mut pools = Vec::<PoolPicture>::new();
    for (key, nodes) in alike {
        if pools.last().is_none_or(|last| last.pool.as_ref() != key.pool) {
            pools.push(PoolPicture { pool: key.pool.cloned(), zones: Vec::new() });
        }
        let Some(pool) = pools.last_mut() else { continue };
        if pool.zones.last().is_none_or(|last| last.zone.as_ref() != key.zone) {
            pool.zones.push(ZonePicture { zone: key.zone.cloned(), tiles: Vec::new() });
        }
        if let Some(zone) = pool.zones.last_mut() {
            zone.tiles.push(tile(&key, &nodes, snapshot));
        }
    }
    pools
}

/// One node with what it will hold.
struct DrawnNode {
    name: Text,
    pool: Option<Text>,
    zone: Option<Text>,
    standing: Standing,
    instance_type: Option<Text>,
    capacity_type: Option<Text>,
    price: Option<Price>,
    estimated: bool,
    held: Resources,
    added: Resources,
    allocatable: Resources,
    pods: Vec<usize>,
}

/// In the order in which tiles are drawn.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct TileKey<'a> {
    /// Nodes outside any pool come last.
    poolless: bool,
    pool: Option<&'a Text>,
    zone: Option<&'a Text>,
    standing: Standing,
    instance_type: Option<&'a Text>,
    capacity_type: Option<&'a Text>,
    price: Option<Price>,
    estimated: bool,
    /// Per resource what is held and what is taken in all, in grains.
    fullness: Vec<(Text, Option<u32>, Option<u32>)>,
}

impl DrawnNode {
    fn key(&self, grain: u32) -> TileKey<'_> {
        TileKey {
            poolless: self.pool.is_none(),
            pool: self.pool.as_ref(),
            zone: self.zone.as_ref(),
            standing: self.standing,
            instance_type: self.instance_type.as_ref(),
            capacity_type: self.capacity_type.as_ref(),
            price: self.price,
            estimated: self.estimated,
            fullness: fills(&self.held, &self.added, &self.allocatable)
                .into_iter()
                .map(|fill| {
                    let grains = |percent: Option<u32>| percent.map(|percent| percent / grain);
                    (fill.resource.clone(), grains(fill.held_percent()), grains(fill.percent()))
                })
                .collect(),
        }
    }
}

fn tile_count(nodes: &[DrawnNode], grain: u32) -> usize {
    nodes.iter().map(|node| node.key(grain)).collect::<BTreeSet<_>>().len()
}

fn tile(key: &TileKey<'_>, nodes: &[&DrawnNode], snapshot: &Snapshot) -> Tile {
    let (mut held, mut added, mut allocatable) = (Resources::new(), Resources::new(), Resources::new());
    for node in nodes {
        held.add(&node.held);
        added.add(&node.added);
        allocatable.add(&node.allocatable);
    }
    let pods: Vec<usize> = nodes.iter().flat_map(|node| node.pods.iter().copied()).collect();
    Tile {
        standing: key.standing,
        instance_type: key.instance_type.cloned(),
        capacity_type: key.capacity_type.cloned(),
        price: key.price,
        estimated: key.estimated,
        count: nodes.len(),
        fills: fills(&held, &added, &allocatable),
        names: shorten(nodes.iter().map(|node| node.name.to_string()).collect()),
        pod_count: pods.len(),
        pods: pod_names(snapshot, &pods),
    }
}

fn drawn_nodes(plan: &Plan, snapshot: &Snapshot) -> Vec<DrawnNode> {
    let mut running = running_requests(plan, snapshot);
    let mut added: HashMap<usize, Vec<usize>> = plan.pods_by_node().into_iter().collect();
    let mut leaving = leaving_pods(plan, snapshot);
    let existing = snapshot.nodes.iter().enumerate().map(|(index, node)| {
        let staying = running.remove(&*node.name).unwrap_or_default();
        let (standing, pods, held, added) = if let Some(pods) = leaving.remove(&index) {
            let before = staying.plus(&requests_of(snapshot, &pods));
            (Standing::Removed, pods, before, Resources::new())
        } else {
            let pods = added.remove(&index).unwrap_or_default();
            let requests = requests_of(snapshot, &pods);
            (Standing::of(node.state), pods, staying, requests)
        };
        DrawnNode {
            name: node.name.clone(),
            pool: node.pool.clone(),
            zone: node.labels.get(names::ZONE).cloned(),
            standing,
            instance_type: node.labels.get(names::INSTANCE_TYPE).cloned(),
            capacity_type: node.labels.get(names::CAPACITY_TYPE).cloned(),
            price: node.price,
            estimated: false,
            held,
            added,
            allocatable: node.allocatable.clone(),
            pods,
        }
    });
    let new = plan.launches.iter().zip(plan.pods_by_launch()).map(|(launch, pods)| {
        let (added, held) = added_and_held(launch, snapshot, &pods);
        DrawnNode {
            name: launch.name.clone(),
            pool: Some(launch.pool.clone()),
            zone: Some(launch.zone.clone()),
            standing: Standing::New,
            instance_type: Some(launch.instance_type.clone()),
            capacity_type: Some(launch.capacity_type.name().into()),
            price: Some(launch.price),
            estimated: launch.estimated,
            held,
            added,
            allocatable: (*launch.allocatable).clone(),
            pods,
        }
    });
    existing.chain(new).collect()
}

/// The pods that move off each node that the plan takes away.
fn leaving_pods(plan: &Plan, snapshot: &Snapshot) -> HashMap<usize, Vec<usize>> {
    let removed = plan.disruptions.iter().flat_map(|step| &step.nodes);
    let mut pods: HashMap<usize, Vec<usize>> = removed.map(|node| (*node, Vec::new())).collect();
    let by_name: HashMap<&str, usize> =
        pods.keys().map(|node| (&*snapshot.nodes[*node].name, *node)).collect();
    for bind in &plan.binds {
        let node = snapshot.pods[bind.pod].node.as_deref().and_then(|name| by_name.get(name));
        if let Some(leaving) = node.and_then(|node| pods.get_mut(node)) {
            leaving.push(bind.pod);
        }
    }
    for pods in pods.values_mut() {
        pods.sort_unstable();
    }
    pods
}

/// What the pods that stay where they are ask for, by node.
fn running_requests<'a>(plan: &Plan, snapshot: &'a Snapshot) -> HashMap<&'a str, Resources> {
    let mut moved = vec![false; snapshot.pods.len()];
    for bind in &plan.binds {
        moved[bind.pod] = true;
    }
    let mut requests = HashMap::<&str, Resources>::new();
    for (pod, _) in snapshot.pods.iter().zip(moved).filter(|(pod, moved)| !moved && pod.is_active()) {
        if let Some(node) = &pod.node {
            requests.entry(node).or_default().add(&pod.spec.requests);
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use berth_core::plan::{Bind, Host};

    use super::super::fixtures::{launch, pod, scenes};
    use super::*;

    fn described(plan: &Plan, snapshot: &Snapshot) -> Vec<String> {
        let pools = picture(plan, snapshot);
        let tiles = pools.iter().flat_map(|pool| pool.zones.iter().map(move |zone| (pool, zone)));
        tiles
            .flat_map(|(pool, zone)| {
                zone.tiles.iter().map(move |tile| {
                    let place = [&pool.pool, &zone.zone].map(|name| name.as_deref().unwrap_or("-")).join("/");
                    let full = tile.fills[0].percent().unwrap_or(0);
                    let held = tile.fills[0].held_percent().unwrap_or(0);
                    format!("{place} {} x{} cpu {held}+{}%", tile.standing.label(), tile.count, full - held)
                })
            })
            .collect()
    }

    #[test]
    fn alike_nodes_are_one_tile() {
        for (scene, expected) in [
            ("empty", &[][..]),
            (
                "shop",
                &[
                    "default/zone-a new x2 cpu 5+64%",
                    "default/zone-a existing x1 cpu 38+26%",
                    "-/zone-a going away x1 cpu 0+0%",
                ],
            ),
            ("estimated", &["gpu/zone-b new x1 cpu 5+25%"]),
            (
                "scattered",
                &[
                    "default/zone-a new x1 cpu 12+57%",
                    "default/zone-a new x1 cpu 43+26%",
                    "default/zone-a existing x2 cpu 0+0%",
                    "default/zone-a existing x1 cpu 38+13%",
                    "default/zone-a take away x1 cpu 0+0%",
                    "default/zone-a take away x1 cpu 25+0%",
                    "default/zone-a take away x1 cpu 25+0%",
                    "default/zone-a take away x1 cpu 30+0%",
                ],
            ),
        ] {
            let scene = scenes().into_iter().find(|candidate| candidate.name == scene).expect("it exists");
            assert_eq!(described(&scene.plan, &scene.snapshot), expected, "{}", scene.name);
        }
    }

    #[test]
    fn tiles_grow_coarser_rather_than_many() {
        let nodes = 2000_usize;
        let plan = Plan {
            launches: (0..nodes).map(|i| launch(&format!("default-{i}"), "zone-a", 1)).collect(),
            binds: (0..nodes).map(|pod| Bind { pod, host: Host::Launch(pod) }).collect(),
            ..Plan::default()
        };
        // What is asked of CPU and of memory varies apart, so that whole percents give too many kinds.
        let pods = (0..nodes)
            .map(|i| {
                let i = i64::try_from(i).expect("small");
                pod("a", &format!("p-{i}"), i % 50 * 50, (i / 50) << 27)
            })
            .collect();
        let tiles = described(&plan, &Snapshot { pods, ..Snapshot::default() });
        assert!((2..=TILES_MAX).contains(&tiles.len()), "{} tiles", tiles.len());
    }
}
