//! How much of a plan is begun at once, where the AutoscalerConfig bounds that for all of VPSie's groups together.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_core::commitment::Departure;
use berth_core::names::Text;
use berth_core::plan::{DisruptionStep, Launch};
use berth_core::reason::{Reason, Refusal};
use berth_core::safety::is_forced;

use crate::claim::{Claim, FAILED};
use crate::dialect::{Dialect, PoolId};
use crate::planning::Round;
use crate::watched;

/// The steps that begin now, and those that never can, with why.
#[derive(Debug, Default)]
pub(crate) struct AtOnce<'p> {
    pub(crate) steps: Vec<&'p DisruptionStep>,
    pub(crate) too_large: Vec<(&'p DisruptionStep, Refusal)>,
}

impl Round {
    /// Those of the launches that can be made now: so many groups may grow at a time, and the others wait until those are
    /// up.
    pub(crate) fn launches_for_now(&self, launches: &[Launch], wanted: Vec<usize>) -> Vec<usize> {
        let Some(settings) = watched::settings(&self.configs) else { return wanted };
        let groups_max = usize::try_from(settings.max_concurrent_scale_ups.get()).unwrap_or(usize::MAX);
        let is_coming = |claim: &&Arc<Claim>| {
            // A node of which nobody can say how far it is may never be up.
            let is_lost = claim.is_unidentified() && claim.node().is_some();
            let is_over = claim.is_deleting() || claim.holds(FAILED) || claim.holds("Initialized") || is_lost;
            claim.dialect == Dialect::Vpsie && !is_over
        };
        let coming = self.claims.values().filter(is_coming);
        let mut growing: BTreeSet<PoolId> = coming.filter_map(|claim| claim.pool_id()).collect();
        let mut begins =
            |launch: &usize| match launches.get(*launch).and_then(|launch| self.group(&launch.pool)) {
                Some(group) if !growing.contains(&group) => {
                    let has_room = growing.len() < groups_max;
                    growing.extend(has_room.then_some(group));
                    has_room
                }
                _ => true,
            };
        wanted.into_iter().filter(|launch| begins(launch)).collect()
    }

    /// The steps that can begin now: one group shrinks at a time, and no more nodes go at once than may. What is replaced
    /// makes no group smaller: how much of that is done at once a group says itself, and the plan heeds it.
    pub(crate) fn steps_for_now<'p>(&self, steps: &'p [DisruptionStep]) -> AtOnce<'p> {
        let Some(settings) = watched::settings(&self.configs) else {
            return AtOnce { steps: steps.iter().collect(), too_large: Vec::new() };
        };
        let nodes_max = usize::try_from(settings.max_concurrent_scale_downs.get()).unwrap_or(usize::MAX);
        let rests_between = settings.scale_down_cooldown_seconds.get() > 0;
        let shrinks = |(pool, departure): &&(PoolId, Departure)| {
            pool.dialect == Dialect::Vpsie && departure.replacements.is_empty()
        };
        let mut going = self.leaving.values().filter(shrinks).count();
        let mut shrinking: Option<BTreeSet<&Text>> = None;
        let mut at_once = AtOnce::default();
        for step in steps {
            let groups = self.groups_of(step);
            if groups.is_empty() || !step.replacements.is_empty() {
                at_once.steps.push(step);
                continue;
            }
            let is_too_large = groups.len() > nodes_max;
            if is_too_large && !is_forced(step.reason) {
                let message = format!(
                    "{} nodes can only go together, and maxConcurrentScaleDowns of the AutoscalerConfig lets {nodes_max} go \
                     at a time",
                    groups.len()
                );
                at_once.too_large.push((step, Reason::DisruptionBudget.because(message)));
                continue;
            }
            let is_alone =
                shrinking.as_ref().is_none_or(|known| groups.iter().all(|group| known.contains(group)));
            // Nodes that have to go together do, by themselves.
            let has_room = going + groups.len() <= nodes_max || (is_too_large && going == 0);
            if has_room && (is_alone || !rests_between) {
                going += groups.len();
                shrinking.get_or_insert_default().extend(groups);
                at_once.steps.push(step);
            }
        }
        at_once
    }

    /// The groups of a step's nodes, one for each node that is of one.
    fn groups_of(&self, step: &DisruptionStep) -> Vec<&Text> {
        let nodes = step.nodes.iter().filter_map(|node| self.snapshot.nodes.get(*node));
        nodes.filter_map(|node| node.pool.as_ref()).filter(|pool| self.group(pool).is_some()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use berth_core::disruption::{DisruptionCost, DisruptionReason};
    use berth_core::names::Labels;
    use berth_core::node::{Node, NodeState};
    use berth_core::resources::Resources;
    use berth_core::snapshot::Snapshot;
    use berth_core::units::Price;
    use serde_json::json;

    use super::*;

    fn node((name, group): (&str, &str)) -> Node {
        Node {
            name: name.into(),
            labels: Labels::new(),
            taints: Vec::new(),
            capacity: Resources::new(),
            allocatable: Resources::new(),
            state: NodeState::Running,
            price: None,
            pool: Some(group.into()),
            volume_limits: BTreeMap::new(),
            disruption: berth_core::disruption::NodeDisruption::default(),
        }
    }

    fn step(reason: DisruptionReason, nodes: &[usize], replacements: &[usize]) -> DisruptionStep {
        DisruptionStep {
            reason,
            optimization: None,
            nodes: nodes.to_vec(),
            replacements: replacements.to_vec(),
            first_bind: 0,
            pods_moved: 0,
            saves: Price::ZERO,
            cost: DisruptionCost::NODE,
        }
    }

    /// Two nodes of a group, and one each of another and of a NodePool.
    fn round(downs: u32, cooldown: u32) -> Round {
        let pool = |dialect: Dialect, object: serde_json::Value| {
            let pool = dialect.pool(&object.to_string()).unwrap();
            (pool.id().name, Arc::new(pool))
        };
        let group = |name: &str| {
            let spec = json!({
                "minNodes": 0, "maxNodes": 5, "datacenterID": "d", "offeringIDs": ["o"], "resourceIdentifier": "c",
                "project": "p", "kubernetesVersion": "v1.34.0",
            });
            pool(Dialect::Vpsie, json!({ "metadata": { "name": name, "namespace": "n" }, "spec": spec }))
        };
        let class = json!({ "group": "g", "kind": "k", "name": "c" });
        let template = json!({ "spec": { "nodeClassRef": class, "requirements": [] } });
        let other = json!({ "metadata": { "name": "pool" }, "spec": { "template": template } });
        let settings = json!({ "maxConcurrentScaleDowns": downs, "scaleDownCooldownSeconds": cooldown });
        let config = json!({ "metadata": { "name": "default" }, "spec": { "globalSettings": settings } });
        let nodes = [("a1", "a"), ("a2", "a"), ("b1", "b"), ("p1", "pool")].map(node).into();
        Round {
            pools: BTreeMap::from([group("a"), group("b"), pool(Dialect::Karpenter, other)]),
            configs: BTreeMap::from([("default".into(), Arc::new(serde_json::from_value(config).unwrap()))]),
            snapshot: Arc::new(Snapshot { nodes, ..Snapshot::default() }),
            ..Round::default()
        }
    }

    #[test]
    fn steps_begin_as_the_config_allows_or_are_refused() {
        use DisruptionReason::{Empty, Underutilized, Unhealthy};
        let one_each = || vec![step(Empty, &[0], &[]), step(Empty, &[1], &[]), step(Empty, &[2], &[])];
        let cases = [
            ("one at a time", 1, 0, one_each(), vec![0], vec![]),
            ("two at a time", 2, 0, one_each(), vec![0, 1], vec![]),
            ("of one group, while others rest", 3, 60, one_each(), vec![0, 1], vec![]),
            ("of all of them, where nobody rests", 3, 0, one_each(), vec![0, 1, 2], vec![]),
            ("replaced together", 1, 60, vec![step(Underutilized, &[0, 1, 2], &[0])], vec![0], vec![]),
            ("too many together", 1, 0, vec![step(Underutilized, &[0, 2], &[])], vec![], vec![0]),
            ("too many that have to go", 1, 0, vec![step(Unhealthy, &[0, 1], &[])], vec![0], vec![]),
            ("of others", 1, 60, vec![step(Empty, &[0], &[]), step(Empty, &[3], &[])], vec![0, 1], vec![]),
        ];
        for (what, downs, cooldown, steps, begin, refused) in cases {
            let round = round(downs, cooldown);
            let AtOnce { steps: now, too_large } = round.steps_for_now(&steps);
            let of = |all: &[usize]| all.iter().map(|index| &steps[*index]).collect::<Vec<_>>();
            assert_eq!(now, of(&begin), "{what}");
            let told: Vec<_> = too_large.iter().map(|(step, _)| *step).collect();
            assert_eq!(told, of(&refused), "{what}");
        }
    }
}
