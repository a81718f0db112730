//! Pods that are alike for placement.

mod kind;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::fit::{self, NodeDemand, SoftTaints};
use crate::market::{Amounts, Cell, Dimensions, Market};
use crate::names::{Labels, Text};
use crate::neighbours::{Seen, spread_counts, spread_includes, spread_keys};
use crate::node::Node;
use crate::pod::{HostPort, Pod, PodOrigin, PodSpec, PodTerm, Spread};
use crate::reason::Refusal;
use crate::selector::Selector;
use crate::snapshot::{PreferencePolicy, Snapshot};
use crate::topology::{AffinityRule, Appearance, GroupId, HostId, PodRules, SpreadRule, Topology};
use crate::volume::VolumeDemand;
use volumes::{claim_sharers, class_volumes};

pub(crate) use kind::{Kind, kinds, label_looks, pending};
pub(crate) use volumes::{ClassVolumes, volume_demands};

/// Pods that may go to the same places and weigh the same on them.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) spec: Arc<PodSpec>,
    /// Indices into the snapshot's pods, ascending.
    pub(crate) pods: Vec<usize>,
    pub(crate) requests: Amounts,
    pub(crate) ports: Vec<HostPort>,
    pub(crate) volumes: ClassVolumes,
    pub(crate) priority: i32,
    pub(crate) is_buffer: bool,
    /// The host on which the scheduler is making room for it: tried first.
    pub(crate) nominated: Option<HostId>,
    /// What is required of the node, without preferences.
    pub(crate) demand: NodeDemand,
    pub(crate) appearance: Appearance,
    /// From all preferences kept to none: each level gives up one more.
    pub(crate) levels: Vec<Level>,
}

/// What a class asks for while some of its preferences are still held.
#[derive(Debug)]
pub(crate) struct Level {
    /// Which demand on nodes: an index into [`Classes::demands`].
    pub(crate) demand: usize,
    pub(crate) rules: PodRules,
}

/// All classes of a snapshot, and everything that is judged once for all of them.
#[derive(Debug)]
pub(crate) struct Classes {
    pub(crate) all: Vec<Class>,
    /// The distinct demands on nodes of all levels of all classes.
    pub(crate) demands: Vec<NodeDemand>,
    /// Pods that no place could take, with the reason.
    pub(crate) refused: Vec<(usize, Refusal)>,
    /// Pods that stay with their host and that others look at.
    pub(crate) residents: Vec<Resident>,
}

/// A running pod that is not to be moved, as others see it.
#[derive(Debug)]
pub(crate) struct Resident {
    pub(crate) host: HostId,
    pub(crate) appearance: Appearance,
    pub(crate) terminating: bool,
}

/// What a group counts: equal ones are one group.
#[derive(Clone, PartialEq, Eq, Hash)]
enum GroupIdentity {
    Spread {
        key: Text,
        namespace: Text,
        selector: Option<Selector>,
        /// All keys that a node must have to count.
        keys: Vec<Text>,
        affinity: Option<(Vec<crate::requirement::Expression>, Option<Vec<crate::requirement::NodeTerm>>)>,
        tolerations: Option<Vec<crate::pod::Toleration>>,
    },
    /// Pods that match all the terms, seen from a namespace, near under one key.
    Near { key: Text, terms: Vec<PodTerm>, namespace: Text },
}

/// Builds the topology's groups and every class's rules from them.
pub(crate) struct ClassBuilder<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) kinds: &'a [Kind],
    /// Existing nodes that stay, in host order.
    pub(crate) hosts: &'a [&'a Node],
    pub(crate) market: &'a Market,
    pub(crate) dimensions: &'a Dimensions,
    pub(crate) preferences: PreferencePolicy,
    pub(crate) topology: Topology,
    groups: FxHashMap<GroupIdentity, GroupId>,
    /// The terms behind each group, to find the kinds that it counts.
    identities: Vec<GroupIdentity>,
    /// Per kind, the groups of its required anti-affinity.
    owned: Vec<Vec<GroupId>>,
}

/// A kind's rules before it is known whom each group counts.
struct KindRules {
    spread: Vec<(GroupId, Spread)>,
    affinity: Vec<Vec<GroupId>>,
    anti_affinity: Vec<GroupId>,
    soft: Vec<Soft>,
}

/// A preference, in the order in which preferences are given up.
#[derive(Clone)]
enum Soft {
    Affinity(Vec<GroupId>),
    AntiAffinity(GroupId),
    Node(crate::requirement::NodeTerm),
    Spread(GroupId, Spread),
    Taints,
}

impl<'a> ClassBuilder<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        kinds: &'a [Kind],
        hosts: &'a [&'a Node],
        market: &'a Market,
        dimensions: &'a Dimensions,
        preferences: PreferencePolicy,
    ) -> Self {
        let mut topology = Topology::default();
        for kind in kinds {
            let spec = &kind.spec;
            let terms = spec.affinity.iter().chain(&spec.anti_affinity);
            let soft =
                spec.affinity_preferences.iter().chain(&spec.anti_affinity_preferences).map(|p| &p.term);
            for term in terms.chain(soft) {
                topology.key(&term.topology_key);
            }
            for spread in &spec.spread {
                topology.key(&spread.topology_key);
            }
        }
        topology.place_all(
            hosts.len(),
            |host, key| hosts[host].labels.get(key).map(|value| &**value),
            market.cells.len(),
            |cell, key| fit::LabelSource::label(&market.cells[cell], key),
        );
        Self {
            snapshot,
            kinds,
            hosts,
            market,
            dimensions,
            preferences,
            topology,
            groups: FxHashMap::default(),
            identities: Vec::new(),
            owned: Vec::new(),
        }
    }

    /// The classes, with running pods counted in the topology.
    pub(crate) fn build(
        mut self,
        volumes: &[Vec<VolumeDemand>],
        refused: Vec<(usize, Refusal)>,
    ) -> (Classes, Topology) {
        let rules: Vec<KindRules> = self.kinds.iter().map(|kind| self.kind_rules(kind)).collect();
        self.owned = self
            .kinds
            .iter()
            .zip(&rules)
            .map(|(kind, rules)| {
                if kind.to_place.is_empty() {
                    self.running_anti_affinity(kind)
                } else {
                    rules.anti_affinity.clone()
                }
            })
            .collect();
        let counted_by = self.counted_by();
        let owned_by_running: BTreeSet<GroupId> = self.owned.iter().flatten().copied().collect();
        let appearances: Vec<Appearance> = counted_by
            .into_iter()
            .zip(&self.owned)
            .map(|(counted_by, owns)| Appearance {
                shunned_by: counted_by.iter().copied().filter(|g| owned_by_running.contains(g)).collect(),
                counted_by,
                owns: owns.clone(),
            })
            .collect();
        let mut residents = Vec::new();
        for (kind, appearance) in self.kinds.iter().zip(&appearances) {
            for (host, terminating) in &kind.running {
                self.topology.add_running(appearance, *host, *terminating);
                if !appearance.counted_by.is_empty() || !appearance.owns.is_empty() {
                    let appearance = appearance.clone();
                    residents.push(Resident { host: *host, appearance, terminating: *terminating });
                }
            }
        }
        residents.sort_by_key(|resident| resident.host);
        let mut classes = self.classes(&rules, appearances, volumes, refused);
        classes.residents = residents;
        (classes, self.topology)
    }

    fn kind_rules(&mut self, kind: &Kind) -> KindRules {
        let spec = &kind.spec;
        let mut rules = KindRules { spread: vec![], affinity: vec![], anti_affinity: vec![], soft: vec![] };
        if kind.to_place.is_empty() {
            return rules;
        }
        if !spec.affinity.is_empty() {
            rules.affinity.push(self.near_groups(&spec.affinity, &kind.namespace));
        }
        for term in &spec.anti_affinity {
            rules.anti_affinity.extend(self.near_groups(std::slice::from_ref(term), &kind.namespace));
        }
        for spread in spec.spread.iter().filter(|spread| spread.required) {
            rules.spread.push((self.spread_group(kind, spread), spread.clone()));
        }
        if self.preferences == PreferencePolicy::Respect {
            rules.soft = self.soft_rules(kind);
        }
        rules
    }

    /// A pod's preferences in the order in which they are given up: pod affinity, pod anti-affinity, node
    /// affinity (of each the lightest first), spreads that may be broken, taints that may be borne.
    fn soft_rules(&mut self, kind: &Kind) -> Vec<Soft> {
        let spec = &kind.spec;
        let mut soft = Vec::new();
        let mut affinity: Vec<_> = spec.affinity_preferences.iter().collect();
        affinity.sort_by_key(|preference| preference.weight);
        for preference in affinity {
            soft.push(Soft::Affinity(
                self.near_groups(std::slice::from_ref(&preference.term), &kind.namespace),
            ));
        }
        let mut anti_affinity: Vec<_> = spec.anti_affinity_preferences.iter().collect();
        anti_affinity.sort_by_key(|preference| preference.weight);
        for preference in anti_affinity {
            let groups = self.near_groups(std::slice::from_ref(&preference.term), &kind.namespace);
            soft.extend(groups.into_iter().map(Soft::AntiAffinity));
        }
        let mut nodes: Vec<_> = spec.node_preferences.iter().collect();
        nodes.sort_by_key(|preference| preference.weight);
        soft.extend(nodes.into_iter().map(|preference| Soft::Node(preference.term.clone())));
        for spread in spec.spread.iter().filter(|spread| !spread.required) {
            soft.push(Soft::Spread(self.spread_group(kind, spread), spread.clone()));
        }
        let soft_taint =
            |taint: &crate::pod::Taint| taint.effect == crate::pod::TaintEffect::PreferNoSchedule;
        let some_soft_taint = self.snapshot.pools.iter().flat_map(|pool| &pool.taints).any(soft_taint)
            || self.hosts.iter().flat_map(|node| &node.taints).any(soft_taint);
        if some_soft_taint {
            soft.push(Soft::Taints);
        }
        soft
    }

    fn running_anti_affinity(&mut self, kind: &Kind) -> Vec<GroupId> {
        let spec = kind.spec.clone();
        spec.anti_affinity
            .iter()
            .flat_map(|term| self.near_groups(std::slice::from_ref(term), &kind.namespace))
            .collect()
    }

    /// One group per key of the terms, each counting the pods that match all of them.
    fn near_groups(&mut self, terms: &[PodTerm], namespace: &Text) -> Vec<GroupId> {
        let mut keys: Vec<&Text> = terms.iter().map(|term| &term.topology_key).collect();
        keys.sort();
        keys.dedup();
        // The namespace matters only to terms that mean "my own".
        let own = terms.iter().any(|term| term.namespaces.is_empty() && term.namespace_selector.is_none());
        let namespace = if own { namespace.clone() } else { Text::from("") };
        keys.into_iter()
            .map(|key| {
                let identity = GroupIdentity::Near {
                    key: key.clone(),
                    terms: terms.to_vec(),
                    namespace: namespace.clone(),
                };
                self.group(identity, |builder| {
                    let key = builder.topology.key(key);
                    builder.topology.add_nearness_group(key)
                })
            })
            .collect()
    }

    fn spread_group(&mut self, kind: &Kind, spread: &Spread) -> GroupId {
        let spec = &kind.spec;
        let keys = spread_keys(spec, spread.required);
        let identity = GroupIdentity::Spread {
            key: spread.topology_key.clone(),
            namespace: kind.namespace.clone(),
            selector: spread.selector.clone(),
            keys: keys.clone(),
            affinity: spread
                .honor_node_affinity
                .then(|| (spec.node_selector.clone(), spec.node_affinity.clone())),
            tolerations: spread.honor_node_taints.then(|| spec.tolerations.clone()),
        };
        self.group(identity, |builder| {
            let demand = NodeDemand::required(spec, &[]);
            let has_keys = |source: &dyn Fn(&str) -> bool| keys.iter().all(|key| source(key));
            let hosts = builder.hosts;
            let included_hosts = hosts
                .iter()
                .map(|node| {
                    let taints = fit::startup_taints(node, &builder.snapshot.pools);
                    has_keys(&|key| node.labels.contains_key(key))
                        && spread_includes(spread, &demand, *node, node.lasting_taints(taints))
                })
                .collect();
            let included_cells = builder
                .market
                .cells
                .iter()
                .map(|cell: &Cell| {
                    let taints = &builder.snapshot.pools[cell.pool].taints;
                    has_keys(&|key| fit::LabelSource::label(cell, key).is_some())
                        && spread_includes(spread, &demand, cell, taints.iter())
                })
                .collect();
            let key = builder.topology.key(&spread.topology_key);
            builder.topology.add_spread_group(key, included_hosts, included_cells)
        })
    }

    fn group(&mut self, identity: GroupIdentity, make: impl FnOnce(&mut Self) -> GroupId) -> GroupId {
        if let Some(group) = self.groups.get(&identity) {
            return *group;
        }
        let group = make(self);
        self.groups.insert(identity.clone(), group);
        self.identities.push(identity);
        group
    }

    /// For each kind, the groups that count its pods.
    fn counted_by(&self) -> Vec<Vec<GroupId>> {
        let mut counted_by = vec![Vec::new(); self.kinds.len()];
        for (group, identity) in self.identities.iter().enumerate() {
            for (kind, groups) in self.kinds.iter().zip(&mut counted_by) {
                let counts = match identity {
                    GroupIdentity::Spread { namespace, selector, .. } => {
                        kind.namespace == *namespace && spread_counts(selector.as_ref(), kind.labels())
                    }
                    GroupIdentity::Near { terms, namespace, .. } => {
                        let namespace_labels = self.snapshot.namespaces.get(&kind.namespace);
                        let seen = Seen { namespace: &kind.namespace, namespace_labels, spec: &kind.spec };
                        seen.matches_all(terms, namespace)
                    }
                };
                if counts {
                    groups.push(group);
                }
            }
        }
        counted_by
    }

    fn nominated_host(&self, pod: &Pod) -> Option<HostId> {
        let name = pod.nominated.as_ref()?;
        self.hosts.iter().position(|node| node.name == *name)
    }

    fn classes(
        &self,
        rules: &[KindRules],
        appearances: Vec<Appearance>,
        volumes: &[Vec<VolumeDemand>],
        refused: Vec<(usize, Refusal)>,
    ) -> Classes {
        let mut demands = Vec::new();
        let mut demand_ids: FxHashMap<NodeDemand, usize> = FxHashMap::default();
        let mut intern = |demand: NodeDemand| {
            *demand_ids.entry(demand).or_insert_with_key(|demand| {
                demands.push(demand.clone());
                demands.len() - 1
            })
        };
        let refused_pods: BTreeSet<usize> = refused.iter().map(|(pod, _)| *pod).collect();
        let sharers = claim_sharers(volumes);
        let mut classes: Vec<Class> = Vec::with_capacity(self.kinds.len());
        let mut class_of: FxHashMap<ClassKey<'_>, usize> =
            FxHashMap::with_capacity_and_hasher(self.kinds.len(), FxBuildHasher);
        for (kind_index, (kind, appearance)) in self.kinds.iter().zip(appearances).enumerate() {
            let mut class_of_volumes: BTreeMap<(ClassVolumes, Standing), usize> = BTreeMap::new();
            // Where all are alike one stands for all.
            let different = if kind.is_uniform { 1 } else { kind.to_place.len() };
            let (first, rest) = kind.to_place.split_at(different.min(kind.to_place.len()));
            for pod in first.iter().copied().filter(|pod| !refused_pods.contains(pod)) {
                let pod_volumes = class_volumes(&volumes[pod], &sharers);
                let standing = Standing {
                    is_buffer: self.snapshot.pods[pod].origin == PodOrigin::Buffer,
                    is_fresh: self.snapshot.pods[pod].is_fresh,
                    nominated: self.nominated_host(&self.snapshot.pods[pod]),
                };
                let class =
                    *class_of_volumes.entry((pod_volumes, standing)).or_insert_with_key(|(volumes, _)| {
                        let key = ClassKey::of(kind, &rules[kind_index], &appearance, volumes, standing);
                        *class_of.entry(key).or_insert_with(|| {
                            let mut demand = NodeDemand::required(&kind.spec, &[]);
                            demand.volumes.clone_from(&volumes.terms);
                            demand.is_fresh = standing.is_fresh;
                            let levels = levels(&rules[kind_index], &appearance, &demand, &kind.spec.labels)
                                .map(|(demand, rules)| Level { demand: intern(demand), rules })
                                .collect();
                            classes.push(Class {
                                spec: kind.spec.clone(),
                                pods: Vec::new(),
                                requests: self.dimensions.amounts(&kind.spec.requests),
                                ports: kind.spec.host_ports.clone(),
                                volumes: volumes.clone(),
                                priority: kind.spec.priority,
                                is_buffer: standing.is_buffer,
                                nominated: standing.nominated,
                                demand,
                                appearance: appearance.clone(),
                                levels,
                            });
                            classes.len() - 1
                        })
                    });
                classes[class].pods.push(pod);
                classes[class].pods.extend(rest);
            }
        }
        for class in &mut classes {
            class.pods.sort_unstable();
        }
        Classes { all: classes, demands, refused, residents: Vec::new() }
    }
}

/// Everything about a pod that placement can see: kinds that differ only elsewhere are one class.
#[derive(PartialEq, Eq, Hash)]
struct ClassKey<'a> {
    requests: &'a crate::resources::Resources,
    selector: &'a [crate::requirement::Expression],
    affinity: Option<&'a [crate::requirement::NodeTerm]>,
    tolerations: &'a [crate::pod::Toleration],
    preferences: &'a [crate::pod::Weighted<crate::requirement::NodeTerm>],
    ports: &'a [HostPort],
    priority: i32,
    spread: Vec<(GroupId, u32, u32, bool)>,
    near: Vec<Vec<GroupId>>,
    counted_by: Vec<GroupId>,
    own_volumes: Vec<(Text, u32)>,
    shared_volumes: Vec<(Text, Text)>,
    exclusive: Vec<Text>,
    volume_terms: Vec<Vec<crate::requirement::NodeTerm>>,
    standing: Standing,
}

/// What a pod is besides its spec.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Standing {
    is_buffer: bool,
    is_fresh: bool,
    nominated: Option<HostId>,
}

impl<'a> ClassKey<'a> {
    fn of(
        kind: &'a Kind,
        rules: &KindRules,
        appearance: &Appearance,
        volumes: &ClassVolumes,
        standing: Standing,
    ) -> Self {
        let soft_spread = rules.soft.iter().filter_map(|soft| match soft {
            Soft::Spread(group, spread) => Some((group, spread)),
            _ => None,
        });
        let soft_near = rules.soft.iter().map(|soft| match soft {
            Soft::Affinity(groups) => groups.clone(),
            Soft::AntiAffinity(group) => vec![usize::MAX, *group],
            Soft::Node(_) | Soft::Spread(..) | Soft::Taints => Vec::new(),
        });
        Self {
            requests: &kind.spec.requests,
            selector: &kind.spec.node_selector,
            affinity: kind.spec.node_affinity.as_deref(),
            tolerations: &kind.spec.tolerations,
            preferences: &kind.spec.node_preferences,
            ports: &kind.spec.host_ports,
            priority: kind.spec.priority,
            spread: rules
                .spread
                .iter()
                .map(|(group, spread)| (group, spread))
                .chain(soft_spread)
                .map(|(group, spread)| (*group, spread.max_skew, spread.min_domains, spread.required))
                .collect(),
            near: rules
                .affinity
                .iter()
                .cloned()
                .chain([rules.anti_affinity.clone()])
                .chain(soft_near)
                .collect(),
            counted_by: appearance.counted_by.clone(),
            own_volumes: volumes.own.iter().map(|(driver, count)| (driver.clone(), *count)).collect(),
            shared_volumes: volumes.shared.clone(),
            exclusive: volumes.exclusive.clone(),
            volume_terms: volumes.terms.clone(),
            standing,
        }
    }
}

/// The levels of a class: all preferences held, then one less each time, then none.
fn levels<'a>(
    rules: &'a KindRules,
    appearance: &'a Appearance,
    required: &'a NodeDemand,
    labels: &'a Labels,
) -> impl Iterator<Item = (NodeDemand, PodRules)> + 'a {
    (0..=rules.soft.len()).map(move |given_up| {
        let mut demand = required.clone();
        let spread_rule = |group: &GroupId, spread: &Spread| SpreadRule {
            group: *group,
            max_skew: spread.max_skew,
            min_domains: spread.min_domains,
            matches_itself: spread_counts(spread.selector.as_ref(), labels),
        };
        let affinity_rule = |groups: &Vec<GroupId>| AffinityRule {
            groups: groups.clone(),
            matches_itself: groups.iter().all(|group| appearance.counted_by.contains(group)),
        };
        let mut pod_rules = PodRules {
            spread: rules.spread.iter().map(|(group, spread)| spread_rule(group, spread)).collect(),
            affinity: rules.affinity.iter().map(affinity_rule).collect(),
            anti_affinity: rules.anti_affinity.clone(),
        };
        for soft in &rules.soft[given_up..] {
            match soft {
                Soft::Affinity(groups) => pod_rules.affinity.push(affinity_rule(groups)),
                Soft::AntiAffinity(group) => pod_rules.anti_affinity.push(*group),
                Soft::Node(term) => demand.preferences.push(term.clone()),
                Soft::Spread(group, spread) => pod_rules.spread.push(spread_rule(group, spread)),
                Soft::Taints => demand.soft_taints = SoftTaints::Avoid,
            }
        }
        (demand, pod_rules)
    })
}
