//! Nodes that a plan takes away: which may go, and where their pods must be.

use super::*;
use crate::disruption::{
    Basis, Budget, Consolidation, Illness, PodBudget, Protection, SafetyChecks, Share, Usage,
};

/// `node-b` goes, and its pod moves to `node-a`.
fn emptied(s: &mut Scene) {
    s.moved("node-b", NODE_A, web(100));
    s.removes(1, 0, &[]);
}

/// `node-b` goes, and a small node is bought for its pod.
fn replaced(s: &mut Scene) {
    s.launch("small", "b");
    s.moved("node-b", NEW, web(100));
    s.removes(1, 0, &[0]);
}

fn wear(s: &mut Scene) -> &mut NodeDisruption {
    &mut s.snapshot.nodes[1].disruption
}

/// The pool wants to have its nodes looked at as VPSie's groups do.
fn checked(s: &mut Scene) -> &mut NodeDisruption {
    s.snapshot.pools[0].disruption.checks =
        Some(SafetyChecks { shrinks: true, cpu_percent: 50, memory_percent: 50 });
    wear(s)
}

/// The same, from a group that does not shrink, of a node that is used too much, without which the others would be too full.
fn replaced_in_group(s: &mut Scene) {
    replaced(s);
    let wear = checked(s);
    (wear.usage, wear.others_asked_percent) = (Some(used(90, 90)), Some(99));
    shrinks(s, false);
}

fn shrinks(s: &mut Scene, shrinks: bool) {
    s.snapshot.pools[0].disruption.checks.iter_mut().for_each(|checks| checks.shrinks = shrinks);
}

fn used(cpu_percent: u32, memory_percent: u32) -> Usage {
    Usage { cpu_percent, memory_percent, basis: Basis::Measured }
}

fn budget(allowed: u32) -> PodBudget {
    let selector = Some(Selector::new(vec![Expression::equals("app", "web")]));
    PodBudget { namespace: "default".into(), name: "web".into(), selector, disruptions_allowed: allowed }
}

fn broken(name: &'static str, breakage: fn(&mut Scene), found: &'static [&'static str]) -> Case {
    Case { name, legal: emptied, breakage, found }
}

#[test]
fn nodes_that_may_not_go() {
    judge(&[
        broken("of no pool", |s| s.snapshot.nodes[1].pool = None, &["Barred.NotOfPool"]),
        broken(
            "of a pool that does not exist",
            |s| s.snapshot.nodes[1].pool = Some("gone".into()),
            &["Barred.NotOfPool"],
        ),
        broken(
            "of a pool that could not note it",
            |s| s.snapshot.pools[0].unreadable_ledger = Some("`{`".into()),
            &["Barred.LedgerUnreadable"],
        ),
        broken("starting", |s| s.snapshot.nodes[1].state = NodeState::Starting, &["Barred.NotRunning"]),
        broken("protected", |s| wear(s).protection = Protection::Always, &["Barred.NodeProtected"]),
        broken(
            "without a price",
            |s| {
                s.snapshot.nodes[1].price = None;
                s.plan.disruptions[0].saves = Price::ZERO;
                s.settle();
            },
            &["Barred.PriceUnknown"],
        ),
        broken("of a static pool", |s| s.snapshot.pools[0].replicas = Some(0), &["Barred.StaticPool"]),
        broken(
            "of a pool that never consolidates",
            |s| s.snapshot.pools[0].disruption.consolidate_after_secs = None,
            &["Barred.NeverConsolidated"],
        ),
        broken(
            "not quiet for long enough",
            |s| {
                s.snapshot.pools[0].disruption.consolidate_after_secs = Some(60);
                wear(s).quiet_secs = Some(59);
            },
            &["Barred.NotQuiet"],
        ),
        broken(
            "not empty",
            |s| s.snapshot.pools[0].disruption.consolidation = Consolidation::WhenEmpty,
            &["Barred.NotEmpty"],
        ),
        broken(
            "with a protected pod",
            |s| s.snapshot.pods[0].disruption.protection = Protection::For { secs: 1 },
            &["Barred.PodProtected"],
        ),
        broken(
            "with a pod that would not come back",
            |s| s.snapshot.pods[0].disruption.has_controller = false,
            &["Barred.PodWithoutController"],
        ),
        broken("used too much", |s| checked(s).usage = Some(used(50, 49)), &["Barred.Utilized"]),
        broken("asked for too much memory", |s| checked(s).usage = Some(used(0, 50)), &["Barred.Utilized"]),
        broken(
            "of a group that does not shrink",
            |s| {
                checked(s);
                shrinks(s, false);
            },
            &["Barred.ScaleDownOff"],
        ),
        Case {
            name: "with data on it, though it is replaced",
            legal: replaced_in_group,
            breakage: |s| s.snapshot.pods[0].disruption.has_local_storage = true,
            found: &["Barred.LocalStorage"],
        },
        Case {
            name: "replaced by one that is too full",
            legal: |s| {
                replaced_in_group(s);
                s.spec(0).requests = Resources::of(&[("cpu", 1600)]);
            },
            breakage: |s| {
                s.spec(0).requests = Resources::of(&[("cpu", 1700)]);
                s.settle();
            },
            found: &["GroupTooFull"],
        },
        Case {
            name: "replaced by one that is fuller than it was itself",
            legal: |s| {
                replaced_in_group(s);
                s.spec(0).requests = Resources::of(&[("cpu", 1700)]);
                s.snapshot.nodes[1].allocatable =
                    Resources::of(&[("cpu", 1850), ("memory", 16 << 30), ("pods", 10)]);
            },
            breakage: |s| {
                s.snapshot.nodes[1].allocatable =
                    Resources::of(&[("cpu", 4000), ("memory", 16 << 30), ("pods", 10)]);
            },
            found: &["GroupTooFull"],
        },
        Case {
            name: "replaced by one that is full beside one that is not",
            legal: |s| {
                replaced_in_group(s);
                s.snapshot.nodes[0].pool = Some("default".into());
                s.spec(0).requests = Resources::of(&[("cpu", 1700)]);
            },
            breakage: |s| s.snapshot.nodes[0].pool = None,
            found: &["GroupTooFull"],
        },
        Case {
            name: "replaced by a large one for memory's sake",
            legal: |s| {
                replaced_in_group(s);
                s.spec(0).requests = Resources::of(&[("memory", 6 << 30)]);
            },
            breakage: |s| {
                s.spec(0).requests = Resources::of(&[("memory", 7 << 30)]);
                s.settle();
            },
            found: &["GroupTooFull"],
        },
        Case {
            name: "replaced against its group's will",
            legal: replaced_in_group,
            breakage: |s| {
                let refusal = Reason::ReplacementBarred.because("");
                s.snapshot.pools[0].disruption.replacement.barred = Some(refusal);
            },
            found: &["Disruption.ReplacementUnwanted"],
        },
        broken(
            "with a claim that nobody can see",
            |s| {
                checked(s);
                s.snapshot.pods[0].volumes = Box::new([VolumeRef::Claim("data".into())]);
            },
            &["VolumeUnusable", "Barred.LocalStorage"],
        ),
        broken(
            "with data on it",
            |s| {
                checked(s);
                s.snapshot.pods[0].disruption.has_local_storage = true;
            },
            &["Barred.LocalStorage"],
        ),
        broken(
            "with a part of the control plane",
            |s| {
                checked(s);
                s.snapshot.pods[0].namespace = "kube-system".into();
                s.snapshot.pods[0].name = "etcd-0".into();
            },
            &["Barred.SystemPod"],
        ),
        broken(
            "that somebody has cordoned",
            |s| {
                checked(s);
                s.snapshot.nodes[1].taints.push(Taint::new(
                    names::TAINT_UNSCHEDULABLE,
                    "",
                    TaintEffect::NoSchedule,
                ));
            },
            &["Barred.Cordoned"],
        ),
        broken(
            "one whose group would be too full",
            |s| checked(s).others_asked_percent = Some(86),
            &["Barred.CapacityLeft"],
        ),
        broken(
            "one on nobody knows which machine",
            |s| wear(s).unidentified = true,
            &["Barred.MachineUnknown"],
        ),
        broken("one that its pool must have", |s| s.snapshot.pools[0].nodes_min = 1, &["BelowMinimum"]),
        broken(
            "drifted, not underutilized",
            |s| wear(s).drifted = Some("hash".into()),
            &["Disruption.WrongReason"],
        ),
    ]);
}

#[test]
fn budgets() {
    judge(&[
        broken("of the pods", |s| s.snapshot.pod_budgets.push(budget(0)), &["PodBudgetOverdrawn"]),
        broken(
            "two of a pod, though each would allow it",
            |s| s.snapshot.pod_budgets.extend([budget(1), budget(1)]),
            &["PodOfTwoBudgets"],
        ),
        Case {
            name: "of the pods, over all steps",
            legal: |s| {
                s.snapshot.nodes.push(node("node-c", "a"));
                s.snapshot.pools[0].disruption.budgets.clear();
                s.moved("node-b", NODE_A, web(100));
                s.moved("node-c", NODE_A, web(100));
                s.removes(1, 0, &[]);
                s.removes(2, 1, &[]);
                s.snapshot.pod_budgets.push(budget(2));
            },
            breakage: |s| s.snapshot.pod_budgets[0].disruptions_allowed = 1,
            found: &["PodBudgetOverdrawn"],
        },
        Case {
            name: "of the pods, unless the node is past help",
            legal: |s| {
                emptied(s);
                s.snapshot.pod_budgets.push(budget(0));
                wear(s).unhealthy = Some(Illness { condition: "Ready".into(), message: "".into() });
                s.plan.disruptions[0].reason = DisruptionReason::Unhealthy;
            },
            breakage: |s| {
                wear(s).unhealthy = None;
                wear(s).expired = true;
                s.plan.disruptions[0].reason = DisruptionReason::Expired;
            },
            found: &["PodBudgetOverdrawn"],
        },
        broken(
            "of the pool",
            |s| s.snapshot.pools[0].disruption.budgets[0].nodes = Share::Count(0),
            &["PoolBudgetOverdrawn"],
        ),
        broken(
            "of the pool for the reason",
            |s| {
                let reasons = vec![DisruptionReason::Underutilized];
                s.snapshot.pools[0].disruption.budgets.push(Budget::new(reasons, Share::Count(0)));
            },
            &["PoolBudgetOverdrawn"],
        ),
        broken(
            "of the pool, with what is away already",
            |s| {
                let away =
                    Node { pool: Some("default".into()), state: NodeState::Deleting, ..node("z", "a") };
                s.snapshot.nodes.push(away);
                s.settle();
            },
            &["PoolBudgetOverdrawn"],
        ),
    ]);
}

#[test]
fn moves() {
    judge(&[
        broken("a pod forgotten", |s| s.plan.binds.clear(), &["PodMissing"]),
        broken("a pod put back", |s| s.rebind(0, NODE_B), &["NodeDeleting"]),
        broken(
            "a pod of another node moved",
            |s| {
                let other = s.running("node-a", web(100));
                s.plan.binds.push(Bind { pod: other, host: NODE_A });
            },
            &["NotPending"],
        ),
        broken("a pod that does not fit", |s| s.spec(0).requests.set("cpu", 4001), &["Insufficient"]),
        broken("a pod before its turn", |s| s.plan.disruptions[0].first_bind = 1, &["OutOfTurn"]),
        broken(
            "a step that begins after the end",
            |s| s.plan.disruptions[0].first_bind = 9,
            &["Disruption.Overlap", "OutOfTurn"],
        ),
        Case {
            name: "a place that opens only when the node is gone",
            legal: |s| {
                let keeps_off = PodSpec { anti_affinity: vec![near("web", names::REGION)], ..web(100) };
                for node in &mut s.snapshot.nodes {
                    node.labels.insert(names::REGION.into(), "r".into());
                }
                s.moved("node-b", NODE_A, keeps_off);
                s.removes(1, 0, &[]);
            },
            breakage: |s| {
                let other = s.running("node-a", web(100));
                s.snapshot.pods[other].disruption.has_controller = true;
            },
            found: &["PodAntiAffinity"],
        },
        Case {
            name: "spread over the nodes that are left",
            legal: |s| {
                let evenly = || PodSpec { spread: vec![spread(names::HOSTNAME)], ..web(100) };
                s.running("node-a", evenly());
                s.moved("node-b", NODE_A, evenly());
                s.removes(1, 0, &[]);
            },
            breakage: |s| s.snapshot.nodes.push(node("node-c", "a")),
            found: &["TopologySpread", "WrongCostBefore", "WrongCostAfter"],
        },
    ]);
}

#[test]
fn numbers() {
    judge(&[
        broken(
            "no nodes",
            |s| s.plan.disruptions[0].nodes.clear(),
            &[
                "NotPending",
                "Disruption.NoNodes",
                "Disruption.WrongPodsMoved",
                "Disruption.WrongSaving",
                "Disruption.WrongCost",
                "WrongCostAfter",
            ],
        ),
        broken(
            "a node that does not exist",
            |s| s.plan.disruptions[0].nodes.push(7),
            &["Disruption.NoSuchNode"],
        ),
        broken("a node twice", |s| s.plan.disruptions[0].nodes.push(1), &["Disruption.NodeTwice"]),
        broken("pods moved", |s| s.plan.disruptions[0].pods_moved = 2, &["Disruption.WrongPodsMoved"]),
        broken("what it saves", |s| s.plan.disruptions[0].saves = Price::ZERO, &["Disruption.WrongSaving"]),
        broken(
            "its disruption",
            |s| s.plan.disruptions[0].cost = DisruptionCost::NODE,
            &["Disruption.WrongCost"],
        ),
        broken(
            "a replacement that does not exist",
            |s| s.plan.disruptions[0].replacements.push(3),
            &["Disruption.NoSuchReplacement"],
        ),
        Case {
            name: "a replacement not named",
            legal: replaced,
            breakage: |s| {
                s.plan.disruptions[0].replacements.clear();
                s.plan.disruptions[0].saves = Price::from_micro_usd(500_000);
            },
            found: &["Disruption.ReplacementMissing"],
        },
        Case {
            name: "a replacement that others use before",
            legal: replaced,
            breakage: |s| {
                s.placed(NEW, web(100));
                s.plan.binds.rotate_right(1);
                s.plan.disruptions[0].first_bind = 1;
                s.settle();
            },
            found: &["Disruption.ReplacementShared"],
        },
        Case {
            name: "the cost after counts both what goes and what comes",
            legal: replaced,
            breakage: |s| s.plan.cost_after = s.plan.cost_before,
            found: &["WrongCostAfter"],
        },
    ]);
}
