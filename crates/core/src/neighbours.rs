//! One pod among the others: which of them its rules count, and where they let it go.
//!
//! The rules are those by which the planner places classes of pods. [`Neighbours`] asks them for one pod on nodes
//! as they are, which is what a scheduler does.

use crate::fit::{self, LabelSource, NodeDemand, SoftTaints};
use crate::names::{Labels, Text};
use crate::node::Node;
use crate::pod::{PodSpec, PodTerm, Spread, Taint};
use crate::selector::Selector;
use crate::topology::{
    AffinityRule, Appearance, GroupId, Place, PodRules, SpreadRule, Topology, TopologyRefusal,
};

/// A pod as others' rules see it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    pub namespace: &'a str,
    pub namespace_labels: Option<&'a Labels>,
    pub spec: &'a PodSpec,
}

impl<'a> Seen<'a> {
    /// Whether it matches all of the terms of a pod of the namespace `own`.
    pub fn matches_all(self, terms: &[PodTerm], own: &str) -> bool {
        terms.iter().all(|term| {
            term.covers_namespace(own, self.namespace, self.namespace_labels)
                && term.selector.as_ref().is_some_and(|selector| selector.matches(&self.spec.labels))
        })
    }

    /// The topology keys under which this pod keeps the other away.
    pub fn keys_shunning(self, other: Seen<'_>) -> impl Iterator<Item = &'a Text> {
        let shuns = move |term: &&PodTerm| other.matches_all(std::slice::from_ref(*term), self.namespace);
        self.spec.anti_affinity.iter().filter(shuns).map(|term| &term.topology_key)
    }
}

/// Whether a spread with this selector counts pods with these labels. kube-scheduler counts nobody for a
/// selector without expressions, although it matches every pod.
pub fn spread_counts(selector: Option<&Selector>, labels: &Labels) -> bool {
    selector.is_some_and(|selector| !selector.is_everything() && selector.matches(labels))
}

/// All the keys that a node must have to count for a pod's spreads: those of one strictness go together.
pub fn spread_keys(spec: &PodSpec, required: bool) -> Vec<Text> {
    let spreads = spec.spread.iter().filter(|spread| spread.required == required);
    let mut keys: Vec<Text> = spreads.map(|spread| spread.topology_key.clone()).collect();
    keys.sort();
    keys.dedup();
    keys
}

/// Whether the pods of a node count for a spread of a pod, by the spread's own policies.
pub fn spread_includes<'a>(
    spread: &Spread,
    demand: &NodeDemand,
    node: &impl LabelSource,
    taints: impl Iterator<Item = &'a Taint>,
) -> bool {
    (!spread.honor_node_affinity || demand.selects(node))
        && (!spread.honor_node_taints
            || fit::untolerated(&demand.tolerations, taints, SoftTaints::Accept).is_none())
}

/// Why other pods keep a pod from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourRefusal {
    /// The node is in no domain of a spread.
    SpreadKeyMissing,
    Spread,
    Affinity,
    AntiAffinity,
    /// Another pod's anti-affinity.
    Shunned,
}

/// What one pod asks of the others, with all of them counted.
#[derive(Clone, Debug)]
pub struct Neighbours {
    topology: Topology,
    rules: PodRules,
    own: Appearance,
    /// What each group counts.
    groups: Vec<Counted>,
}

#[derive(Clone, Debug)]
enum Counted {
    /// Pods of the same namespace.
    BySpread(Option<Selector>),
    ByTerms(Vec<PodTerm>),
    /// Pods that shun this one under the key.
    Shunning(Text),
}

/// For what another pod counts.
#[derive(Clone, Debug, Default)]
pub struct Presence(Appearance);

impl Presence {
    /// It makes no difference.
    pub fn is_nothing(&self) -> bool {
        self.0.counted_by.is_empty() && self.0.owns.is_empty()
    }
}

impl Neighbours {
    /// Nobody is there yet. `shunned_under` are the keys under which any of the others shuns the pod.
    pub fn new<'n>(
        pod: Seen<'_>,
        demand: &NodeDemand,
        nodes: &[Option<&'n Node>],
        shunned_under: impl IntoIterator<Item = Text>,
    ) -> Self {
        let spec = pod.spec;
        let shunned_under: Vec<Text> = shunned_under.into_iter().collect();
        let mut topology = Topology::default();
        let spreads: Vec<&Spread> = spec.spread.iter().filter(|spread| spread.required).collect();
        let terms = spec.affinity.iter().chain(&spec.anti_affinity).map(|term| &term.topology_key);
        for key in terms.chain(spreads.iter().map(|spread| &spread.topology_key)).chain(&shunned_under) {
            topology.key(key);
        }
        topology.place_all(
            nodes.len(),
            |host, key| nodes.get(host).copied().flatten().and_then(|node: &'n Node| node.label(key)),
            0,
            |_, _| None,
        );
        let mut this =
            Self { topology, rules: PodRules::default(), own: Appearance::default(), groups: Vec::new() };
        for spread in spreads {
            this.add_spread(pod, demand, spread, nodes);
        }
        this.add_affinity(pod);
        for term in &spec.anti_affinity {
            let group = this.near(&term.topology_key, Counted::ByTerms(vec![term.clone()]));
            this.rules.anti_affinity.push(group);
        }
        for key in shunned_under {
            let group = this.near(&key, Counted::Shunning(key.clone()));
            this.own.shunned_by.push(group);
        }
        this
    }

    fn add_spread(&mut self, pod: Seen<'_>, demand: &NodeDemand, spread: &Spread, nodes: &[Option<&Node>]) {
        let keys = spread_keys(pod.spec, true);
        let counts = |node: Option<&Node>| {
            node.is_some_and(|node| {
                keys.iter().all(|key| node.labels.contains_key(key))
                    && spread_includes(spread, demand, node, node.taints.iter())
            })
        };
        let key = self.topology.key(&spread.topology_key);
        let group =
            self.topology.add_spread_group(key, nodes.iter().copied().map(counts).collect(), Vec::new());
        self.groups.push(Counted::BySpread(spread.selector.clone()));
        self.rules.spread.push(SpreadRule {
            group,
            max_skew: spread.max_skew,
            min_domains: spread.min_domains,
            matches_itself: spread_counts(spread.selector.as_ref(), &pod.spec.labels),
        });
    }

    fn add_affinity(&mut self, pod: Seen<'_>) {
        let terms = &pod.spec.affinity;
        if terms.is_empty() {
            return;
        }
        let mut keys: Vec<&Text> = terms.iter().map(|term| &term.topology_key).collect();
        keys.sort();
        keys.dedup();
        let groups = keys.into_iter().map(|key| self.near(key, Counted::ByTerms(terms.clone()))).collect();
        let matches_itself = pod.matches_all(terms, pod.namespace);
        self.rules.affinity.push(AffinityRule { groups, matches_itself });
    }

    fn near(&mut self, key: &Text, counted: Counted) -> GroupId {
        let key = self.topology.key(key);
        self.groups.push(counted);
        self.topology.add_nearness_group(key)
    }

    /// No other pod can make a difference.
    pub fn are_indifferent(&self) -> bool {
        self.groups.is_empty()
    }

    /// For what another pod counts to `pod`, for whom this was made.
    pub fn presence(&self, pod: Seen<'_>, other: Seen<'_>) -> Presence {
        let mut presence = Appearance::default();
        for (group, counted) in self.groups.iter().enumerate() {
            match counted {
                Counted::BySpread(selector) => {
                    if other.namespace == pod.namespace
                        && spread_counts(selector.as_ref(), &other.spec.labels)
                    {
                        presence.counted_by.push(group);
                    }
                }
                Counted::ByTerms(terms) => {
                    if other.matches_all(terms, pod.namespace) {
                        presence.counted_by.push(group);
                    }
                }
                Counted::Shunning(key) => {
                    if other.keys_shunning(pod).any(|shunned| shunned == key) {
                        presence.owns.push(group);
                    }
                }
            }
        }
        Presence(presence)
    }

    pub fn add(&mut self, presence: &Presence, node: usize, terminating: bool) {
        self.topology.add_running(&presence.0, node, terminating);
    }

    pub fn remove(&mut self, presence: &Presence, node: usize, terminating: bool) {
        self.topology.remove_running(&presence.0, node, terminating);
    }

    /// Why the pod may not go to the node, if it may not.
    pub fn refusal(&self, node: usize) -> Option<NeighbourRefusal> {
        let refusal = self.topology.room(&self.rules, &self.own, Place::Host(node)).err()?;
        Some(match refusal {
            TopologyRefusal::KeyMissing(key) if self.spreads_over(key) => NeighbourRefusal::SpreadKeyMissing,
            TopologyRefusal::KeyMissing(_) | TopologyRefusal::Affinity(_) => NeighbourRefusal::Affinity,
            TopologyRefusal::Spread(_) => NeighbourRefusal::Spread,
            TopologyRefusal::AntiAffinity(_) => NeighbourRefusal::AntiAffinity,
            TopologyRefusal::Shunned(_) => NeighbourRefusal::Shunned,
        })
    }

    /// Spreads are judged first, so a key of theirs that is missing is missed by them.
    fn spreads_over(&self, key: usize) -> bool {
        self.rules.spread.iter().any(|rule| self.topology.groups[rule.group].key == key)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::NeighbourRefusal::{Affinity, AntiAffinity, Shunned, SpreadKeyMissing};
    use super::*;
    use crate::disruption::NodeDisruption;
    use crate::node::NodeState;
    use crate::requirement::Expression;
    use crate::resources::Resources;

    fn node(name: &str, zone: &str) -> Node {
        let mut labels = Labels::from([(crate::names::HOSTNAME.into(), name.into())]);
        if !zone.is_empty() {
            labels.insert("zone".into(), zone.into());
        }
        Node {
            name: name.into(),
            labels,
            taints: Vec::new(),
            capacity: Resources::new(),
            allocatable: Resources::new(),
            state: NodeState::Running,
            pool: None,
            price: None,
            volume_limits: BTreeMap::new(),
            disruption: NodeDisruption::default(),
        }
    }

    fn term(app: &str) -> PodTerm {
        PodTerm {
            selector: Some(Selector::new(vec![Expression::equals("app", app)])),
            namespaces: Vec::new(),
            namespace_selector: None,
            topology_key: "zone".into(),
        }
    }

    fn app(app: &str) -> PodSpec {
        PodSpec { labels: Labels::from([("app".into(), app.into())]), ..PodSpec::default() }
    }

    fn seen(spec: &PodSpec) -> Seen<'_> {
        Seen { namespace: "default", namespace_labels: None, spec }
    }

    /// A pod, the others and where they are, and what keeps it from each node.
    type Case<'a> = (&'a PodSpec, &'a [(&'a PodSpec, usize)], [Option<NeighbourRefusal>; 4]);

    #[test]
    fn others_open_and_close_nodes() {
        let nodes = [node("a1", "a"), node("a2", "a"), node("b", "b"), node("nowhere", "")];
        let nodes: Vec<Option<&Node>> = nodes.iter().map(Some).collect();
        let spread = Spread {
            topology_key: "zone".into(),
            max_skew: 1,
            required: true,
            selector: Some(Selector::new(vec![Expression::equals("app", "web")])),
            min_domains: 1,
            honor_node_affinity: true,
            honor_node_taints: false,
        };
        let shy = PodSpec { anti_affinity: vec![term("web")], ..app("shy") };
        let (web, db) = (app("web"), app("db"));
        let spreading = PodSpec { spread: vec![spread], ..app("web") };
        let near_db = PodSpec { affinity: vec![term("db")], ..app("web") };
        let far_from_db = PodSpec { anti_affinity: vec![term("db")], ..app("web") };
        let cases: [Case<'_>; 8] = [
            (&web, &[(&web, 0)], [None; 4]),
            (&web, &[(&shy, 0)], [Some(Shunned), Some(Shunned), None, None]),
            (
                &spreading,
                &[(&web, 1)],
                [
                    Some(NeighbourRefusal::Spread),
                    Some(NeighbourRefusal::Spread),
                    None,
                    Some(SpreadKeyMissing),
                ],
            ),
            (&spreading, &[(&db, 1)], [None, None, None, Some(SpreadKeyMissing)]),
            (&spreading, &[(&web, 3)], [None, None, None, Some(SpreadKeyMissing)]),
            (&near_db, &[(&db, 2)], [Some(Affinity), Some(Affinity), None, Some(Affinity)]),
            (&near_db, &[], [Some(Affinity); 4]),
            (&far_from_db, &[(&db, 0)], [Some(AntiAffinity), Some(AntiAffinity), None, None]),
        ];
        for (pod, others, expected) in cases {
            let keys: Vec<Text> =
                others.iter().flat_map(|(spec, _)| seen(spec).keys_shunning(seen(pod))).cloned().collect();
            let demand = NodeDemand::required(pod, &[]);
            let mut neighbours = Neighbours::new(seen(pod), &demand, &nodes, keys);
            let empty: Vec<_> = (0..4).map(|node| neighbours.refusal(node)).collect();
            let presences: Vec<_> = others
                .iter()
                .map(|(spec, node)| (neighbours.presence(seen(pod), seen(spec)), *node))
                .collect();
            for (presence, node) in &presences {
                neighbours.add(presence, *node, false);
            }
            let refusals: Vec<_> = (0..4).map(|node| neighbours.refusal(node)).collect();
            assert_eq!(refusals, expected, "{pod:?} among {others:?}");
            for (presence, node) in &presences {
                neighbours.remove(presence, *node, false);
            }
            let again: Vec<_> = (0..4).map(|node| neighbours.refusal(node)).collect();
            assert_eq!(again, empty, "{pod:?} alone again");
        }
    }
}
