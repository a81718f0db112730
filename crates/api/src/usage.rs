//! What nodes use: measured, or else what their pods ask for.

use std::collections::BTreeMap;

use berth_core::disruption::{Basis, SafetyChecks, Usage};
use berth_core::names::{self, Text};
use berth_core::node::{Node, NodeState};
use berth_core::pod::{Pod, Taint};
use berth_core::pool::Pool;
use berth_core::resources::{CPU, MEMORY, Resources};
use jiff::Timestamp;

use crate::pools::growth::Thresholds;

/// What a node used at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageSample {
    pub at: Timestamp,
    /// In thousandths of a CPU, and in bytes.
    pub cpu: i64,
    pub memory: i64,
}

/// By node.
pub type UsageSamples = BTreeMap<Text, Vec<UsageSample>>;

/// What is known of what nodes use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Measured {
    /// Nobody measures it here.
    #[default]
    Never,
    /// Whether anybody does is not known yet.
    NotYet,
    Samples(UsageSamples),
    /// By who looks once: what was before, nobody can tell.
    Once(UsageSamples),
}

impl Measured {
    fn of(&self, node: &str) -> &[UsageSample] {
        match self {
            Self::Never | Self::NotYet => &[],
            Self::Samples(samples) | Self::Once(samples) => samples.get(node).map_or(&[], |samples| samples),
        }
    }
}

/// A measurement that is older says nothing of now.
const FRESH_SECS: i64 = 300;
/// So much of the time a node has to use less than a threshold to be below it.
const MOST_PERCENT: usize = 80;

/// Says of nodes what they use, where their pools want to know.
pub(crate) fn tell(
    nodes: &mut [Node],
    (pods, pools): (&[Pod], &[Pool]),
    measured: &Measured,
    now: Timestamp,
) {
    let windows: BTreeMap<&Text, u64> = pools
        .iter()
        .filter(|pool| pool.disruption.checks.is_some())
        .map(|pool| (&pool.name, pool.disruption.consolidate_after_secs.unwrap_or(0)))
        .collect();
    if windows.is_empty() {
        return;
    }
    let mut asked: BTreeMap<&Text, Resources> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| pod.is_active()) {
        if let Some(node) = &pod.node {
            asked.entry(node).or_default().add(&pod.spec.requests);
        }
    }
    let loads = loads(nodes, &windows, &asked);
    for node in nodes {
        let Some(window) = node.pool.as_ref().and_then(|pool| windows.get(pool)) else { continue };
        let nothing = Resources::new();
        let asked = asked.get(&node.name).unwrap_or(&nothing);
        node.disruption.usage = Some(match measured {
            Measured::Never => Usage {
                cpu_percent: percent(asked.get(CPU), node.allocatable.get(CPU)),
                memory_percent: percent(asked.get(MEMORY), node.allocatable.get(MEMORY)),
                basis: Basis::Asked,
            },
            Measured::Once(_) => mostly(node, measured.of(&node.name), 0, now).unwrap_or(Usage::UNKNOWN),
            Measured::NotYet | Measured::Samples(_) => {
                mostly(node, measured.of(&node.name), *window, now).unwrap_or(Usage::UNKNOWN)
            }
        });
        let load = node.pool.as_ref().and_then(|pool| loads.get(pool));
        node.disruption.others_asked_percent = load.and_then(|load| load.without(node, asked));
    }
}

/// What a pool's nodes have that can take pods, and what the pods on them ask for.
#[derive(Clone, Debug, Default)]
struct Load {
    /// Those too that can take none.
    nodes: u32,
    given: Resources,
    asked: Resources,
}

impl Load {
    /// What the others would be asked for of what they have, of CPU or memory the more. `asked`: of the node itself.
    fn without(&self, node: &Node, asked: &Resources) -> Option<u32> {
        let is_counted = takes_pods(node);
        let others_asked = |resource: &str| {
            let left = self.given.get(resource) - if is_counted { node.allocatable.get(resource) } else { 0 };
            let moving = if is_counted { 0 } else { asked.get(resource) };
            match self.asked.get(resource).saturating_add(moving) {
                1.. if left <= 0 => SafetyChecks::ASKED_OF_NOTHING,
                asked => percent(asked, left),
            }
        };
        (self.nodes > 1).then(|| others_asked(CPU).max(others_asked(MEMORY)))
    }
}

/// Whether pods can come to a node now.
fn takes_pods(node: &Node) -> bool {
    let is_closed = |taint: &Taint| *taint.key == *names::TAINT_UNSCHEDULABLE;
    node.state == NodeState::Running && !node.disruption.not_ready && !node.taints.iter().any(is_closed)
}

fn loads(
    nodes: &[Node],
    windows: &BTreeMap<&Text, u64>,
    asked: &BTreeMap<&Text, Resources>,
) -> BTreeMap<Text, Load> {
    let mut loads: BTreeMap<Text, Load> = BTreeMap::new();
    for node in nodes.iter().filter(|node| node.state != NodeState::Deleting) {
        let Some(pool) = node.pool.as_ref().filter(|pool| windows.contains_key(pool)) else { continue };
        let load = loads.entry(pool.clone()).or_default();
        load.nodes += 1;
        if !takes_pods(node) {
            continue;
        }
        load.given.add(&node.allocatable);
        if let Some(asked) = asked.get(&node.name) {
            load.asked.add(asked);
        }
    }
    loads
}

/// What the node used most of the time within its pool's window. `None` if it was not measured all that time.
fn mostly(node: &Node, samples: &[UsageSample], window_secs: u64, now: Timestamp) -> Option<Usage> {
    let age = |sample: &UsageSample| now.duration_since(sample.at).as_secs();
    let window = i64::try_from(window_secs).unwrap_or(i64::MAX);
    if !is_known_throughout(samples.iter().map(age), window) {
        return None;
    }
    let window = window.max(FRESH_SECS);
    let most = |resource: &str, amount: fn(&UsageSample) -> i64| {
        let within = samples.iter().filter(|sample| age(sample) <= window);
        let mut used: Vec<u32> =
            within.map(|sample| percent(amount(sample), node.capacity.get(resource))).collect();
        used.sort_unstable();
        let index = (used.len() * MOST_PERCENT).div_ceil(100).saturating_sub(1);
        used.get(index).copied()
    };
    Some(Usage {
        cpu_percent: most(CPU, |sample| sample.cpu)?,
        memory_percent: most(MEMORY, |sample| sample.memory)?,
        basis: Basis::Measured,
    })
}

/// Whether there was something fresh at every instant of the window: who has just begun to look knows of its end only.
fn is_known_throughout(ages: impl Iterator<Item = i64>, window_secs: i64) -> bool {
    let mut ages: Vec<i64> = ages.map(|age| age.max(0)).collect();
    ages.sort_unstable();
    let mut since = 0;
    for age in ages {
        if age - since > FRESH_SECS {
            return false;
        }
        if age >= window_secs {
            return true;
        }
        since = age;
    }
    false
}

/// Groups whose nodes use too much, by what is measured, are to have more of them. What is new, or not measured for as
/// long as its group wants, is taken to use nothing: so it counts for the others.
pub(crate) fn raise_minima(
    pools: &mut [Pool],
    nodes: &[Node],
    thresholds: &BTreeMap<Text, Thresholds>,
    measured: &Measured,
    now: Timestamp,
) {
    for pool in pools {
        let Some(thresholds) = thresholds.get(&pool.name) else { continue };
        let is_staying =
            |node: &&Node| node.pool.as_ref() == Some(&pool.name) && node.state != NodeState::Deleting;
        let nodes: Vec<&Node> = nodes.iter().filter(is_staying).collect();
        // One node is wanted for its pods or not at all: it uses something even without any.
        let wanted =
            Some(nodes_wanted(&nodes, *thresholds, measured, now)).filter(|wanted| *wanted > 1).unwrap_or(0);
        let most = pool.limits.nodes.unwrap_or(u32::MAX);
        pool.nodes_min = pool.nodes_min.max(wanted.min(most));
    }
}

/// So many nodes as these would use no more than the thresholds allow.
fn nodes_wanted(nodes: &[&Node], thresholds: Thresholds, measured: &Measured, now: Timestamp) -> u32 {
    let wanted = |resource: &str, amount: fn(&UsageSample) -> i64, percent: u32| {
        let used = nodes
            .iter()
            .map(|node| i128::from(lasting(measured.of(&node.name), amount, thresholds.window_secs, now)));
        let has: i128 = nodes.iter().map(|node| i128::from(node.capacity.get(resource))).sum();
        let allowed = has * i128::from(percent);
        if allowed == 0 {
            return 0;
        }
        let times = nodes.len() as i128 * used.sum::<i128>() * 100;
        u32::try_from((times + allowed - 1) / allowed).unwrap_or(u32::MAX)
    };
    let by_cpu = wanted(CPU, |sample| sample.cpu, thresholds.cpu_percent);
    by_cpu.max(wanted(MEMORY, |sample| sample.memory, thresholds.memory_percent))
}

/// What was used all the time for so long, until lately. Nothing, as far as anybody knows.
fn lasting(
    samples: &[UsageSample],
    amount: fn(&UsageSample) -> i64,
    window_secs: u32,
    now: Timestamp,
) -> i64 {
    let age = |sample: &UsageSample| now.duration_since(sample.at).as_secs();
    let is_known = samples.iter().any(|sample| age(sample) <= FRESH_SECS);
    // The last before the window began is what was used when it did.
    let Some(first) = samples.iter().rposition(|sample| age(sample) >= i64::from(window_secs)) else {
        return 0;
    };
    let within = samples.get(first..).filter(|_| is_known).unwrap_or_default();
    within.iter().map(amount).min().unwrap_or(0)
}

fn percent(part: i64, whole: i64) -> u32 {
    if whole <= 0 {
        return 0;
    }
    u32::try_from(i128::from(part.max(0)) * 100 / i128::from(whole)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use berth_core::disruption::{NodeDisruption, PoolDisruption};
    use berth_core::names::Labels;
    use berth_core::pod::TaintEffect;
    use berth_core::pool::Limits;

    use super::*;

    const NOW: i64 = 1_000_000;

    fn node(pool: &str) -> Node {
        let has = Resources::of(&[(CPU, 4000), (MEMORY, 100)]);
        Node {
            name: pool.into(),
            labels: Labels::new(),
            taints: Vec::new(),
            capacity: has.clone(),
            allocatable: has,
            state: NodeState::Running,
            pool: Some(pool.into()),
            price: None,
            volume_limits: BTreeMap::new(),
            disruption: NodeDisruption::default(),
        }
    }

    /// So many seconds ago, so many percent of four CPUs and of 100 bytes.
    type Told = (i64, i64, i64);

    fn sample((ago, cpu, memory): Told) -> UsageSample {
        let at = Timestamp::from_second(NOW - ago).unwrap();
        UsageSample { at, cpu: cpu * 40, memory }
    }

    #[test]
    fn nodes_use_what_they_used_most_of_the_time() {
        let node = node("a");
        let used =
            |cpu_percent, memory_percent| Some(Usage { cpu_percent, memory_percent, basis: Basis::Measured });
        let since = |first: i64, last: i64| -> Vec<Told> {
            (last..=first).map(|minute| (minute * 60, 30, 20)).collect()
        };
        let with = |samples: &[Told]| [&since(10, 0)[..], samples].concat();
        let cases: [(&str, u64, Vec<Told>, Option<Usage>); 14] = [
            ("never", 600, vec![], None),
            ("steadily", 600, since(10, 0), used(30, 20)),
            ("long ago only", 600, vec![(301, 30, 20)], None),
            ("with two peaks", 600, with(&[(10, 90, 90), (20, 90, 90)]), used(30, 20)),
            ("with many", 600, with(&[(10, 90, 20), (20, 90, 20), (30, 90, 20)]), used(90, 20)),
            ("before its window", 600, with(&[(601, 90, 90), (602, 90, 90), (603, 90, 90)]), used(30, 20)),
            ("by who has just begun to look", 600, since(0, 0), None),
            ("by who has looked for most of the window", 600, since(9, 0), None),
            ("by who has looked long enough", 3600, since(60, 0), used(30, 20)),
            ("with nobody looking in between", 600, [since(10, 8), since(2, 0)].concat(), None),
            ("until a while ago", 600, since(20, 5), used(30, 20)),
            ("until long ago", 600, since(20, 6), None),
            ("where no window is asked for", 0, since(0, 0), used(30, 20)),
            ("where no window is asked for, long ago", 0, since(9, 6), None),
        ];
        for (what, window_secs, samples, expected) in cases {
            let samples: Vec<UsageSample> = samples.into_iter().map(sample).collect();
            let now = Timestamp::from_second(NOW).unwrap();
            assert_eq!(mostly(&node, &samples, window_secs, now), expected, "{what}");
        }
    }

    #[test]
    fn groups_that_use_much_have_more_nodes() {
        let thresholds = Thresholds { cpu_percent: 80, memory_percent: 80, window_secs: 60 };
        let busy = |cpu, memory| vec![(0, cpu, memory), (60, cpu, memory)];
        let cases: [(&str, Vec<Vec<Told>>, u32); 10] = [
            ("none", vec![], 0),
            ("unmeasured", vec![vec![]], 0),
            ("as much as is allowed", vec![busy(80, 10)], 0),
            ("more CPU", vec![busy(81, 10)], 2),
            ("more memory", vec![busy(10, 81)], 2),
            ("all of it", vec![busy(100, 10); 4], 5),
            ("one does, and one is new", vec![busy(100, 10), vec![]], 2),
            ("not for long enough", vec![vec![(0, 90, 10), (59, 90, 10)]], 0),
            ("not all the time", vec![vec![(0, 90, 10), (30, 40, 10), (60, 90, 10)]], 0),
            ("long ago", vec![vec![(301, 90, 10), (400, 90, 10)]], 0),
        ];
        let now = Timestamp::from_second(NOW).unwrap();
        for (what, told, expected) in cases {
            let names = (0..told.len()).map(|index| Text::from(format!("n{index}")));
            let nodes: Vec<Node> =
                names.clone().map(|name| Node { name, pool: Some("a".into()), ..node("a") }).collect();
            let samples = told.into_iter().map(|told| told.into_iter().rev().map(sample).collect());
            let samples = Measured::Samples(names.zip(samples).collect());
            let rules = BTreeMap::from([("a".into(), thresholds)]);
            for (least, most, expected) in
                [(0, None, expected), (3, None, expected.max(3)), (0, Some(1), expected.min(1))]
            {
                let limits = Limits { nodes: most, ..Limits::default() };
                let empty = crate::pools::empty_pool("a".into());
                let mut pools = [Pool { nodes_min: least, limits, ..empty }];
                raise_minima(&mut pools, &nodes, &rules, &samples, now);
                assert_eq!(pools[0].nodes_min, expected, "{what}, at least {least} and at most {most:?}");
            }
        }
    }

    #[test]
    fn where_nobody_measures_it_is_what_pods_ask_for() {
        let pool = |name: &str, checks| Pool {
            disruption: PoolDisruption {
                checks,
                consolidate_after_secs: Some(600),
                ..PoolDisruption::default()
            },
            ..crate::pools::empty_pool(name.into())
        };
        let checks = SafetyChecks { shrinks: true, cpu_percent: 50, memory_percent: 50 };
        let pools = [pool("checked", Some(checks)), pool("other", None)];
        let just_now = || UsageSamples::from([("checked".into(), vec![sample((0, 30, 20))])]);
        let asked = Usage { cpu_percent: 0, memory_percent: 0, basis: Basis::Asked };
        for (measured, expected) in [
            (Measured::Never, asked),
            (Measured::NotYet, Usage::UNKNOWN),
            (Measured::Samples(UsageSamples::new()), Usage::UNKNOWN),
            (Measured::Samples(just_now()), Usage::UNKNOWN),
            (
                Measured::Once(just_now()),
                Usage { cpu_percent: 30, memory_percent: 20, basis: Basis::Measured },
            ),
        ] {
            let mut nodes = ["checked", "other"].map(node);
            tell(&mut nodes, (&[], &pools), &measured, Timestamp::from_second(NOW).unwrap());
            assert_eq!(nodes.map(|node| node.disruption.usage), [Some(expected), None], "{measured:?}");
        }
    }

    /// Of four CPUs each, the first of a group's nodes asked for two and the others for three each.
    #[test]
    fn what_the_others_would_be_asked_for() {
        /// What it is, how each node is, and what is asked for without the first.
        type Case<'c> = (&'c str, Vec<&'c dyn Fn(&mut Node)>, Option<u32>);
        let cordoned = |node: &mut Node| {
            node.taints.push(Taint::new(names::TAINT_UNSCHEDULABLE, "", TaintEffect::NoSchedule));
        };
        let ill = |node: &mut Node| node.disruption.not_ready = true;
        let starting = |node: &mut Node| node.state = NodeState::Starting;
        let going = |node: &mut Node| node.state = NodeState::Deleting;
        let well = |_: &mut Node| ();
        let none = Some(SafetyChecks::ASKED_OF_NOTHING);
        let cases: [Case<'_>; 10] = [
            ("it is the only one", vec![&well], None),
            ("both others take its pods", vec![&well, &well, &well], Some(100)),
            ("it takes none itself", vec![&ill, &well, &well], Some(100)),
            ("one is cordoned", vec![&well, &well, &cordoned], Some(125)),
            ("one is not ready", vec![&well, &well, &ill], Some(125)),
            ("one is starting", vec![&well, &well, &starting], Some(125)),
            ("one goes", vec![&well, &well, &going], Some(125)),
            ("none takes any", vec![&well, &ill, &cordoned], none),
            ("nor does it", vec![&ill, &ill, &cordoned], none),
            ("all others go", vec![&well, &going], None),
        ];
        let checks = Some(SafetyChecks { shrinks: true, cpu_percent: 50, memory_percent: 50 });
        let mut group = crate::pools::empty_pool("group".into());
        group.disruption.checks = checks;
        for (what, changes, expected) in cases {
            let mut nodes: Vec<Node> = changes
                .iter()
                .enumerate()
                .map(|(index, change)| {
                    let mut node = Node { name: format!("n{index}").into(), ..node("group") };
                    change(&mut node);
                    node
                })
                .collect();
            let windows = BTreeMap::from([(&group.name, 0)]);
            let names: Vec<Text> = nodes.iter().map(|node| node.name.clone()).collect();
            let of = |index: usize| Resources::of(&[(CPU, if index == 0 { 2000 } else { 3000 })]);
            let asked: BTreeMap<&Text, Resources> =
                names.iter().enumerate().map(|(index, name)| (name, of(index))).collect();
            let loads = loads(&nodes, &windows, &asked);
            let first = nodes.swap_remove(0);
            let told = loads.get("group").and_then(|load| load.without(&first, &of(0)));
            assert_eq!(told, expected, "{what}");
        }
    }
}
