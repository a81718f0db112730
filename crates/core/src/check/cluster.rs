//! All nodes and the pods on them, and the rules that look at more than one node.
//!
//! Counts are kept per selector and domain as pods come, so that judging a bind never walks over the
//! other pods. Pods leave only with their node.

use std::collections::{BTreeMap, BTreeSet};

use fixedbitset::FixedBitSet;
use rustc_hash::{FxHashMap, FxHashSet};

use super::place::{Incoming, Place, admits, untolerated};
use super::violation::Misfit;
use crate::names::{Labels, Text};
use crate::node::NodeState;
use crate::pod::{Pod, PodSpec, PodTerm, Spread, Toleration};
use crate::requirement::{Expression, NodeTerm};
use crate::selector::Selector;
use crate::snapshot::Snapshot;

pub(super) struct Cluster<'a> {
    snapshot: &'a Snapshot,
    /// The snapshot's nodes, then the plan's launches.
    pub(super) places: Vec<Place>,
    joined: FixedBitSet,
    classes: Vec<Class<'a>>,
    class_of_pod: Vec<usize>,
    kinds: Vec<Kind>,
    neighbours: Vec<Neighbours<'a>>,
    spreads: Vec<SpreadCount<'a>>,
    /// How many pods use a claim, by `namespace/name`.
    claim_users: FxHashMap<Text, u32>,
    /// The running pods of each node of the snapshot.
    residents: Vec<Vec<usize>>,
}

/// Pods with equal specs in one namespace.
struct Class<'a> {
    spec: &'a PodSpec,
    kind: usize,
    /// Index into `neighbours` of all its required affinity terms together.
    affinity: Option<usize>,
    /// Index into `neighbours` of each required anti-affinity term.
    anti_affinity: Vec<usize>,
    /// Each required constraint, with its index into `spreads`.
    spreads: Vec<(&'a Spread, usize)>,
}

/// Pods with equal labels in one namespace: all that a selector can see of them.
struct Kind {
    neighbours: Vec<usize>,
    spreads: Vec<usize>,
}

/// The pods that match all of some terms of pods of one namespace, counted by domain.
struct Neighbours<'a> {
    terms: &'a [PodTerm],
    namespace: &'a Text,
    /// How many there are, by topology key and value.
    matching: FxHashMap<(Text, Text), u32>,
    /// How many pods have the term as a required anti-affinity, by the value of its key.
    averse: FxHashMap<Text, u32>,
}

/// The pods that one spread constraint counts.
struct SpreadCount<'a> {
    scope: SpreadScope<'a>,
    counted_places: FixedBitSet,
    domains: FxHashMap<Text, u32>,
    /// How many nodes each domain has.
    nodes: FxHashMap<Text, u32>,
    /// How many domains have so many pods.
    domains_with: BTreeMap<u32, u32>,
}

/// What decides which pods on which nodes a constraint counts.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct SpreadScope<'a> {
    namespace: &'a str,
    pub(super) topology_key: &'a str,
    selector: Option<&'a Selector>,
    /// The keys of all required constraints of the pod: a node without one of them is no domain.
    pub(super) all_keys: Vec<&'a str>,
    /// Node selector and required affinity, where they are honoured.
    node_filter: Option<(&'a [Expression], Option<&'a [NodeTerm]>)>,
    /// Where taints are honoured.
    tolerations: Option<&'a [Toleration]>,
}

impl<'a> SpreadScope<'a> {
    fn of(pod: &'a Pod, constraint: &'a Spread) -> Self {
        let spec = &*pod.spec;
        Self {
            namespace: &pod.namespace,
            topology_key: &constraint.topology_key,
            selector: constraint.selector.as_ref(),
            all_keys: required_spreads(spec).map(|spread| &*spread.topology_key).collect(),
            node_filter: constraint
                .honor_node_affinity
                .then_some((&spec.node_selector[..], spec.node_affinity.as_deref())),
            tolerations: constraint.honor_node_taints.then_some(&spec.tolerations[..]),
        }
    }

    pub(super) fn counts(&self, place: &Place) -> bool {
        self.all_keys.iter().all(|key| place.labels.contains_key(*key))
            && self
                .node_filter
                .is_none_or(|(selector, affinity)| admits(selector, affinity, &place.labels, &place.name))
            && self.tolerations.is_none_or(|tolerations| untolerated(&place.taints, tolerations).is_none())
    }

    fn counts_pod(&self, namespace: &str, labels: &Labels) -> bool {
        // kube-scheduler counts nothing for a selector without expressions, although it matches every pod.
        namespace == self.namespace
            && self.selector.is_some_and(|selector| !selector.is_everything() && selector.matches(labels))
    }
}

impl SpreadCount<'_> {
    fn open_domain(&mut self, domain: &Text) {
        if !self.domains.contains_key(domain) {
            self.domains.insert(domain.clone(), 0);
            *self.domains_with.entry(0).or_insert(0) += 1;
        }
    }

    fn add_pod(&mut self, domain: &Text) {
        self.open_domain(domain);
        if let Some(count) = self.domains.get(domain).copied() {
            self.recount(domain, Some(count + 1));
        }
    }

    fn remove_pod(&mut self, domain: &Text) {
        if let Some(count) = self.domains.get(domain).copied() {
            self.recount(domain, Some(count.saturating_sub(1)));
        }
    }

    fn open_node(&mut self, domain: &Text) {
        self.open_domain(domain);
        *self.nodes.entry(domain.clone()).or_insert(0) += 1;
    }

    /// A domain without nodes is none.
    fn close_node(&mut self, domain: &Text) {
        decrement(&mut self.nodes, domain);
        if !self.nodes.contains_key(domain) {
            self.recount(domain, None);
        }
    }

    /// The domain has so many pods now, or is gone.
    fn recount(&mut self, domain: &Text, count: Option<u32>) {
        let Some(before) = self.domains.remove(domain) else { return };
        if let Some(domains) = self.domains_with.get_mut(&before) {
            *domains -= 1;
            if *domains == 0 {
                self.domains_with.remove(&before);
            }
        }
        if let Some(count) = count {
            self.domains.insert(domain.clone(), count);
            *self.domains_with.entry(count).or_insert(0) += 1;
        }
    }

    /// The pods of the emptiest domain; none where there are too few domains.
    fn least(&self, min_domains: u32) -> u32 {
        let enough = u32::try_from(self.domains.len()).unwrap_or(u32::MAX) >= min_domains.max(1);
        let least = self.domains_with.first_key_value().map_or(0, |(count, _)| *count);
        if enough { least } else { 0 }
    }
}

impl<'a> Cluster<'a> {
    /// The snapshot's nodes with their running pods, and `launches` that are yet to join.
    pub(super) fn new(snapshot: &'a Snapshot, launches: Vec<Place>) -> Self {
        let mut cluster = Self {
            snapshot,
            places: Vec::new(),
            joined: FixedBitSet::new(),
            classes: Vec::new(),
            class_of_pod: Vec::new(),
            kinds: Vec::new(),
            neighbours: Vec::new(),
            spreads: Vec::new(),
            claim_users: FxHashMap::default(),
            residents: vec![Vec::new(); snapshot.nodes.len()],
        };
        cluster.classify();

        let mut nodes_by_name = FxHashMap::<&str, usize>::default();
        for (index, node) in snapshot.nodes.iter().enumerate() {
            nodes_by_name.entry(&node.name).or_insert(index);
        }
        let running: Vec<(usize, usize)> = snapshot
            .pods
            .iter()
            .enumerate()
            .filter(|(_, pod)| pod.is_active())
            .filter_map(|(index, pod)| Some((index, *nodes_by_name.get(&**pod.node.as_ref()?)?)))
            .filter(|(_, node)| snapshot.nodes[*node].state != NodeState::Deleting)
            .collect();

        let mut daemons = vec![BTreeSet::<(&str, &str)>::new(); snapshot.nodes.len()];
        for &(pod, node) in &running {
            let pod = &snapshot.pods[pod];
            if let Some(set) = &pod.daemon_set {
                daemons[node].insert((&pod.namespace, set));
            }
        }
        cluster.places = snapshot
            .nodes
            .iter()
            .zip(&daemons)
            .map(|(node, present)| Place::of_node(snapshot, node, present))
            .chain(launches)
            .collect();
        cluster.joined.grow(cluster.places.len());
        for spread in &mut cluster.spreads {
            spread.counted_places.grow(cluster.places.len());
        }

        for (index, node) in snapshot.nodes.iter().enumerate() {
            if node.state != NodeState::Deleting {
                cluster.join(index);
            }
        }
        for (pod, node) in running {
            if let Some(resident) = cluster.resident(pod) {
                cluster.add(&resident, node);
                cluster.residents[node].push(pod);
            }
        }
        cluster
    }

    /// The node is gone, with the pods that were on it from the start.
    pub(super) fn remove_node(&mut self, index: usize) {
        let Some(residents) = self.residents.get_mut(index).map(std::mem::take) else { return };
        for pod in residents {
            if let Some(resident) = self.resident(pod) {
                self.forget(&resident, index);
            }
        }
        if std::mem::replace(&mut self.places[index].deleting, true) {
            return;
        }
        let labels = &self.places[index].labels;
        for spread in &mut self.spreads {
            if spread.counted_places.contains(index)
                && let Some(domain) = labels.get(spread.scope.topology_key)
            {
                spread.counted_places.set(index, false);
                spread.close_node(domain);
            }
        }
    }

    /// The pod no longer counts for others. What it took of its node is of no interest any more.
    fn forget(&mut self, incoming: &Incoming<'_>, index: usize) {
        for demand in incoming.demands.iter().flatten() {
            decrement(&mut self.claim_users, &demand.claim);
        }
        let labels = &self.places[index].labels;
        let class = &self.classes[incoming.class];
        let kind = &self.kinds[class.kind];
        for &group in &kind.neighbours {
            let group = &mut self.neighbours[group];
            for term in group.terms {
                if let Some(domain) = labels.get(&term.topology_key) {
                    decrement(&mut group.matching, &(term.topology_key.clone(), domain.clone()));
                }
            }
        }
        for &group in &class.anti_affinity {
            let group = &mut self.neighbours[group];
            for term in group.terms {
                if let Some(domain) = labels.get(&term.topology_key) {
                    decrement(&mut group.averse, domain);
                }
            }
        }
        if incoming.pod.deleting {
            return;
        }
        for &spread in &kind.spreads {
            let spread = &mut self.spreads[spread];
            if spread.counted_places.contains(index)
                && let Some(domain) = labels.get(spread.scope.topology_key)
            {
                spread.remove_pod(domain);
            }
        }
    }

    /// A pod that runs, with the volumes that it holds.
    fn resident(&self, pod: usize) -> Option<Incoming<'a>> {
        let incoming = self.incoming(pod)?;
        Some(Incoming { demands: Ok(self.snapshot.storage.holdings(incoming.pod)), ..incoming })
    }

    pub(super) fn incoming(&self, pod: usize) -> Option<Incoming<'a>> {
        let snapshot = self.snapshot;
        let class = *self.class_of_pod.get(pod)?;
        let pod = snapshot.pods.get(pod)?;
        Some(Incoming { pod, class, demands: snapshot.storage.demands(pod) })
    }

    /// From now on the node's domains exist.
    pub(super) fn join(&mut self, index: usize) {
        if self.joined.put(index) {
            return;
        }
        let place = &self.places[index];
        for spread in &mut self.spreads {
            if spread.scope.counts(place)
                && let Some(domain) = place.labels.get(spread.scope.topology_key)
            {
                spread.counted_places.insert(index);
                spread.open_node(domain);
            }
        }
    }

    /// Puts the pod there, whether or not it fits.
    pub(super) fn add(&mut self, incoming: &Incoming<'_>, index: usize) {
        self.places[index].add(incoming);
        for demand in incoming.demands.iter().flatten() {
            *self.claim_users.entry(demand.claim.clone()).or_insert(0) += 1;
        }
        let labels = &self.places[index].labels;
        let class = &self.classes[incoming.class];
        let kind = &self.kinds[class.kind];
        for &group in &kind.neighbours {
            let group = &mut self.neighbours[group];
            for term in group.terms {
                if let Some(domain) = labels.get(&term.topology_key) {
                    let pair = (term.topology_key.clone(), domain.clone());
                    *group.matching.entry(pair).or_insert(0) += 1;
                }
            }
        }
        for &group in &class.anti_affinity {
            let group = &mut self.neighbours[group];
            for term in group.terms {
                if let Some(domain) = labels.get(&term.topology_key) {
                    *group.averse.entry(domain.clone()).or_insert(0) += 1;
                }
            }
        }
        if incoming.pod.deleting {
            return;
        }
        for &spread in &kind.spreads {
            let spread = &mut self.spreads[spread];
            if spread.counted_places.contains(index)
                && let Some(domain) = labels.get(spread.scope.topology_key)
            {
                spread.add_pod(domain);
            }
        }
    }

    /// The scopes of the pod's required spread constraints, with their indices.
    pub(super) fn spread_scopes(&self, incoming: &Incoming<'_>) -> Vec<(usize, SpreadScope<'a>)> {
        let spreads = &self.classes[incoming.class].spreads;
        spreads.iter().map(|(_, spread)| (*spread, self.spreads[*spread].scope.clone())).collect()
    }

    /// Makes a domain exist that has no node yet.
    pub(super) fn open_domain(&mut self, spread: usize, domain: &Text) {
        self.spreads[spread].open_domain(domain);
    }

    /// All that keeps the pod from running there now. The place may be one that has not joined.
    pub(super) fn misfits<'b>(
        &'b self,
        incoming: &'b Incoming<'_>,
        place: &'b Place,
    ) -> impl Iterator<Item = Misfit> + 'b {
        let rules = [
            Self::single_pod_claims,
            Self::pod_affinity,
            Self::pod_anti_affinity,
            Self::existing_anti_affinity,
            Self::topology_spread,
        ];
        place.misfits(incoming).chain(rules.into_iter().filter_map(move |rule| rule(self, incoming, place)))
    }

    fn single_pod_claims(&self, incoming: &Incoming<'_>, _: &Place) -> Option<Misfit> {
        incoming
            .demands
            .iter()
            .flatten()
            .find(|demand| demand.single_pod && self.claim_users.contains_key(&demand.claim))
            .map(|demand| Misfit::VolumeInUse { claim: demand.claim.clone() })
    }

    fn pod_affinity(&self, incoming: &Incoming<'_>, place: &Place) -> Option<Misfit> {
        let class = &self.classes[incoming.class];
        let group_index = class.affinity?;
        let group = &self.neighbours[group_index];
        if let Some(term) = group.terms.iter().find(|term| !place.labels.contains_key(&term.topology_key)) {
            return Some(Misfit::TopologyKeyMissing { key: term.topology_key.clone() });
        }
        let lonely = group.terms.iter().find(|term| {
            let domain = place.labels.get(&term.topology_key).cloned().unwrap_or_default();
            !group.matching.contains_key(&(term.topology_key.clone(), domain))
        })?;
        // The first of a group of pods that want to be together has nobody to join but itself.
        let is_first = group.matching.is_empty() && self.kinds[class.kind].neighbours.contains(&group_index);
        (!is_first).then(|| Misfit::PodAffinity { key: lonely.topology_key.clone() })
    }

    fn pod_anti_affinity(&self, incoming: &Incoming<'_>, place: &Place) -> Option<Misfit> {
        let groups = &self.classes[incoming.class].anti_affinity;
        groups.iter().map(|group| &self.neighbours[*group]).find_map(|group| {
            group.terms.iter().find_map(|term| {
                let domain = place.labels.get(&term.topology_key)?;
                let pair = (term.topology_key.clone(), domain.clone());
                let key = term.topology_key.clone();
                group
                    .matching
                    .contains_key(&pair)
                    .then(|| Misfit::PodAntiAffinity { key, domain: domain.clone() })
            })
        })
    }

    fn existing_anti_affinity(&self, incoming: &Incoming<'_>, place: &Place) -> Option<Misfit> {
        let kind = &self.kinds[self.classes[incoming.class].kind];
        let groups = kind.neighbours.iter().map(|group| &self.neighbours[*group]);
        groups.filter(|group| !group.averse.is_empty()).find_map(|group| {
            group.terms.iter().find_map(|term| {
                let domain = place.labels.get(&term.topology_key)?;
                let key = term.topology_key.clone();
                group
                    .averse
                    .contains_key(domain)
                    .then(|| Misfit::ExistingAntiAffinity { key, domain: domain.clone() })
            })
        })
    }

    fn topology_spread(&self, incoming: &Incoming<'_>, place: &Place) -> Option<Misfit> {
        let class = &self.classes[incoming.class];
        class.spreads.iter().find_map(|(constraint, spread)| {
            let spread = &self.spreads[*spread];
            let key = &constraint.topology_key;
            let Some(domain) = place.labels.get(key) else {
                return Some(Misfit::TopologyKeyMissing { key: key.clone() });
            };
            let known = spread.domains.get(domain).copied();
            // A node that has not joined brings its domain with it, empty.
            let opens_domain = known.is_none() && spread.scope.counts(place);
            let least = if opens_domain { 0 } else { spread.least(constraint.min_domains) };
            let count = known.unwrap_or(0);
            let itself = constraint.selector.as_ref().is_some_and(|s| s.matches(&class.spec.labels));
            let skew = i64::from(count) + i64::from(itself) - i64::from(least);
            (skew > i64::from(constraint.max_skew)).then(|| Misfit::TopologySpread {
                key: key.clone(),
                domain: domain.clone(),
                count,
                least,
                max_skew: constraint.max_skew,
            })
        })
    }

    /// Finds which pods are alike, all that their terms and constraints count, and who is counted.
    fn classify(&mut self) {
        let snapshot = self.snapshot;
        let mut classes = FxHashMap::<(&Text, &PodSpec), usize>::default();
        let mut kinds = FxHashMap::<(&Text, &Labels), usize>::default();
        let mut neighbours = FxHashMap::<(&Text, &[PodTerm]), usize>::default();
        let mut spreads = FxHashMap::<SpreadScope<'a>, usize>::default();
        for pod in &snapshot.pods {
            let spec = &*pod.spec;
            let next = classes.len();
            let class = *classes.entry((&pod.namespace, spec)).or_insert(next);
            self.class_of_pod.push(class);
            if class < next {
                continue;
            }
            let next = kinds.len();
            let kind = *kinds.entry((&pod.namespace, &spec.labels)).or_insert(next);
            let mut group_of = |terms: &'a [PodTerm]| {
                let next = neighbours.len();
                let group = *neighbours.entry((&pod.namespace, terms)).or_insert(next);
                if group == next {
                    self.neighbours.push(Neighbours {
                        terms,
                        namespace: &pod.namespace,
                        matching: FxHashMap::default(),
                        averse: FxHashMap::default(),
                    });
                }
                group
            };
            let affinity = (!spec.affinity.is_empty()).then(|| group_of(&spec.affinity));
            let anti_affinity = spec.anti_affinity.iter().map(std::slice::from_ref).map(group_of).collect();
            let spread_of = |constraint: &'a Spread| {
                let scope = SpreadScope::of(pod, constraint);
                let next = spreads.len();
                let spread = *spreads.entry(scope.clone()).or_insert(next);
                if spread == next {
                    self.spreads.push(SpreadCount {
                        scope,
                        counted_places: FixedBitSet::new(),
                        domains: FxHashMap::default(),
                        nodes: FxHashMap::default(),
                        domains_with: BTreeMap::new(),
                    });
                }
                (constraint, spread)
            };
            let spreads = required_spreads(spec).map(spread_of).collect();
            self.classes.push(Class { spec, kind, affinity, anti_affinity, spreads });
        }

        let mut kinds: Vec<_> = kinds.into_iter().collect();
        kinds.sort_unstable_by_key(|(_, kind)| *kind);
        for ((namespace, labels), _) in kinds {
            let matching = |group: &Neighbours<'_>| self.all_match(group, namespace, labels);
            let counting = |spread: &SpreadCount<'_>| spread.scope.counts_pod(namespace, labels);
            let neighbours = positions(&self.neighbours, matching);
            let spreads = positions(&self.spreads, counting);
            self.kinds.push(Kind { neighbours, spreads });
        }
    }

    fn all_match(&self, group: &Neighbours<'_>, namespace: &Text, labels: &Labels) -> bool {
        let namespace_labels = self.snapshot.namespaces.get(namespace);
        group.terms.iter().all(|term| {
            term.selector.as_ref().is_some_and(|selector| selector.matches(labels))
                && term.covers_namespace(group.namespace, namespace, namespace_labels)
        })
    }
}

/// One less; what is at none is not kept.
fn decrement<K: Eq + std::hash::Hash>(counts: &mut FxHashMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

fn positions<T>(items: &[T], wanted: impl Fn(&T) -> bool) -> Vec<usize> {
    items.iter().enumerate().filter(|(_, item)| wanted(item)).map(|(index, _)| index).collect()
}

fn required_spreads(spec: &PodSpec) -> impl Iterator<Item = &Spread> {
    spec.spread.iter().filter(|spread| spread.required)
}

/// The pods that want a place: those without a node, and those whose node goes away.
pub(super) fn pending(snapshot: &Snapshot) -> Vec<bool> {
    let deleting: FxHashSet<&str> = snapshot
        .nodes
        .iter()
        .filter(|node| node.state == NodeState::Deleting)
        .map(|node| &*node.name)
        .collect();
    let wants_place = |pod: &Pod| pod.node.as_ref().is_none_or(|node| deleting.contains(&**node));
    snapshot
        .pods
        .iter()
        .map(|pod| pod.is_active() && !pod.deleting && !pod.belongs_to_node() && wants_place(pod))
        .collect()
}
