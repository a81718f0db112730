//! How the cluster looks to the pods of one class: what stays while only pods come and go, and what is counted of
//! the pods. It is made once and then follows the moves, so that the next pod of the class costs little.

use std::collections::BTreeMap;

use berth_core::fit::{self, LabelSource, SoftTaints};
use berth_core::names::{self, Text};
use berth_core::neighbours::{Neighbours, Presence, Seen, spread_counts, spread_includes};
use berth_core::node::Node;
use berth_core::pod::{PodTerm, Spread, TaintEffect, Weighted};
use berth_core::requirement::Operator;
use berth_core::selector::Selector;
use rustc_hash::FxHashMap;

use super::cache::{Cache, Class, ClassId, Host, Move, Slot};
use super::filter::Refusal;

/// What is fixed about a slot for pods of the class, as long as the node does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fixed {
    NoNode,
    Refused(Refusal),
    Open {
        /// Taints that are to be avoided.
        taints_borne: u32,
        /// The sum of the weights of the preferences that the node meets.
        preference: i64,
    },
}

#[derive(Debug)]
pub(super) struct Outlook {
    layout: u64,
    moved: u64,
    /// What made the default spreads.
    company: Option<Selector>,
    pub(super) fixed: Vec<Fixed>,
    pub(super) neighbours: Neighbours,
    pub(super) spreads: Vec<SoftSpread>,
    pub(super) likes: Vec<Likes>,
    effects: FxHashMap<ClassId, Effect>,
}

/// What one pod of another class changes where it is.
#[derive(Clone, Debug, Default)]
struct Effect {
    presence: Presence,
    /// Which spreads count it.
    spreads: Vec<usize>,
    /// By how much it makes its surroundings liked.
    likes: Vec<(usize, i64)>,
}

/// A spread that may be broken, with the pods that it counts.
#[derive(Debug)]
pub(super) struct SoftSpread {
    pub(super) max_skew: u32,
    pub(super) is_over_hosts: bool,
    selector: Option<Selector>,
    /// Which domain each slot is in; those without the key are together in one, if they count at all.
    domains: Vec<Option<usize>>,
    pub(super) has_key: Vec<bool>,
    /// Nodes that are not compared.
    pub(super) ignored: Vec<bool>,
    included: Vec<bool>,
    by_domain: Vec<i64>,
    by_slot: Vec<i64>,
}

impl SoftSpread {
    pub(super) fn domain(&self, slot: Slot) -> Option<usize> {
        self.domains.get(slot).copied().flatten()
    }

    pub(super) fn count(&self, slot: Slot) -> i64 {
        let counted = if self.is_over_hosts {
            self.by_slot.get(slot)
        } else {
            self.domain(slot).and_then(|domain| self.by_domain.get(domain))
        };
        counted.copied().unwrap_or(0)
    }

    fn change(&mut self, slot: Slot, by: i64) {
        if let Some(count) = self.by_slot.get_mut(slot) {
            *count += by;
        }
        if self.included.get(slot).copied().unwrap_or(false)
            && let Some(count) = self.domain(slot).and_then(|domain| self.by_domain.get_mut(domain))
        {
            *count += by;
        }
    }
}

/// How much the domains of one key are liked for the pods in them.
#[derive(Debug)]
pub(super) struct Likes {
    key: Text,
    domains: Vec<Option<usize>>,
    by_domain: Vec<i64>,
}

impl Likes {
    pub(super) fn weight(&self, slot: Slot) -> i64 {
        let domain = self.domains.get(slot).copied().flatten();
        domain.and_then(|domain| self.by_domain.get(domain)).copied().unwrap_or(0)
    }
}

/// By how much a pod is drawn to one that must be near it.
const WEIGHT_OF_REQUIRED: i64 = 1;

/// What kube-scheduler spreads by where a pod says nothing: `(key, max_skew)`.
const DEFAULT_SPREADS: [(&str, u32); 2] = [(names::HOSTNAME, 3), (names::ZONE, 5)];

/// So many outlooks are kept.
const OUTLOOKS_MAX: usize = 64;

/// The outlooks of the classes that were looked at last.
#[derive(Debug, Default)]
pub(super) struct Outlooks {
    by_class: BTreeMap<ClassId, (u64, Outlook)>,
    used: u64,
}

impl Outlooks {
    /// As things are now. `company` are the pods that it is spread among by default.
    pub(super) fn of(
        &mut self,
        cache: &Cache,
        id: ClassId,
        class: &Class,
        company: Option<Selector>,
    ) -> &mut Outlook {
        self.used += 1;
        let known = self.by_class.remove(&id).map(|(_, outlook)| outlook);
        let known = known.filter(|known| known.layout == cache.layout() && known.company == company);
        let followed = known.and_then(|mut known| {
            let moves = cache.moves_since(known.moved)?;
            known.follow(cache, class, moves);
            Some(known)
        });
        let outlook = followed.unwrap_or_else(|| Outlook::new(cache, class, company));
        if self.by_class.len() >= OUTLOOKS_MAX {
            let oldest = self.by_class.iter().min_by_key(|(_, (used, _))| *used).map(|(id, _)| *id);
            oldest.and_then(|id| self.by_class.remove(&id));
        }
        &mut self.by_class.entry(id).or_insert((self.used, outlook)).1
    }
}

impl Outlook {
    fn new(cache: &Cache, class: &Class, company: Option<Selector>) -> Self {
        let nodes: Vec<Option<&Node>> = cache.hosts().iter().map(|host| host.node.as_deref()).collect();
        let pod = cache.seen(class);
        let others = |ids: &std::collections::BTreeSet<ClassId>| -> Vec<Seen<'_>> {
            ids.iter().filter_map(|id| cache.class(*id)).map(|class| cache.seen(class)).collect()
        };
        let mut shunned: Vec<Text> =
            others(&cache.averse).into_iter().flat_map(|other| other.keys_shunning(pod)).cloned().collect();
        shunned.sort();
        shunned.dedup();
        let mut liked: Vec<Text> = others(&cache.social)
            .into_iter()
            .flat_map(|other| drawn(pod, other))
            .chain(own_terms(pod).map(|(term, weight)| (&term.topology_key, weight)))
            .map(|(key, _)| key.clone())
            .collect();
        liked.sort();
        liked.dedup();
        let mut this = Self {
            layout: cache.layout(),
            moved: cache.moved(),
            fixed: fixed(class, cache.hosts()),
            neighbours: Neighbours::new(pod, &class.demand, &nodes, shunned),
            spreads: soft_spreads(class, company.as_ref(), &nodes),
            likes: liked.into_iter().map(|key| Likes::over(key, &nodes)).collect(),
            company,
            effects: FxHashMap::default(),
        };
        for (slot, host) in cache.hosts().iter().enumerate() {
            for pod in host.pods.iter().filter_map(|id| cache.pod(*id)) {
                let there = Move { class: pod.class, slot, terminating: pod.terminating, arrives: true };
                this.apply(cache, class, there);
            }
        }
        this
    }

    fn follow(&mut self, cache: &Cache, class: &Class, moves: &[Move]) {
        for change in moves {
            self.apply(cache, class, *change);
        }
        self.moved = cache.moved();
    }

    fn is_indifferent(&self) -> bool {
        self.neighbours.are_indifferent() && self.spreads.is_empty() && self.likes.is_empty()
    }

    fn apply(&mut self, cache: &Cache, class: &Class, change: Move) {
        if self.is_indifferent() {
            return;
        }
        if !self.effects.contains_key(&change.class) {
            // A class that is gone by now came and went since the last look, all of it.
            let Some(other) = cache.class(change.class) else { return };
            let effect = self.effect(cache.seen(class), cache.seen(other));
            self.effects.insert(change.class, effect);
        }
        let Some(effect) = self.effects.get(&change.class) else { return };
        let Move { slot, terminating, arrives, .. } = change;
        if !effect.presence.is_nothing() {
            if arrives {
                self.neighbours.add(&effect.presence, slot, terminating);
            } else {
                self.neighbours.remove(&effect.presence, slot, terminating);
            }
        }
        let by = if arrives { 1 } else { -1 };
        if !terminating {
            for spread in &effect.spreads {
                if let Some(spread) = self.spreads.get_mut(*spread) {
                    spread.change(slot, by);
                }
            }
        }
        for (likes, weight) in &effect.likes {
            let Some(likes) = self.likes.get_mut(*likes) else { continue };
            let domain = likes.domains.get(slot).copied().flatten();
            if let Some(sum) = domain.and_then(|domain| likes.by_domain.get_mut(domain)) {
                *sum += by * weight;
            }
        }
    }

    /// For what a pod counts to the filters.
    pub(super) fn presence(&self, pod: Seen<'_>, other: Seen<'_>) -> Presence {
        self.neighbours.presence(pod, other)
    }

    fn effect(&self, pod: Seen<'_>, other: Seen<'_>) -> Effect {
        let counts = |spread: &SoftSpread| {
            pod.namespace == other.namespace && spread_counts(spread.selector.as_ref(), &other.spec.labels)
        };
        let spreads = self.spreads.iter().enumerate().filter(|(_, spread)| counts(spread));
        let own = own_terms(pod)
            .filter(|(term, _)| other.matches_all(std::slice::from_ref(*term), pod.namespace))
            .map(|(term, weight)| (&term.topology_key, weight));
        let mut weights: BTreeMap<usize, i64> = BTreeMap::new();
        for (key, weight) in own.chain(drawn(pod, other)) {
            if let Some(index) = self.likes.iter().position(|likes| likes.key == *key) {
                *weights.entry(index).or_default() += weight;
            }
        }
        Effect {
            presence: self.neighbours.presence(pod, other),
            spreads: spreads.map(|(index, _)| index).collect(),
            likes: weights.into_iter().filter(|(_, weight)| *weight != 0).collect(),
        }
    }
}

fn weighted(terms: &[Weighted<PodTerm>], sign: i64) -> impl Iterator<Item = (&PodTerm, i64)> {
    terms.iter().map(move |preference| (&preference.term, sign * i64::from(preference.weight)))
}

/// The pod's own preferences about others, with those that it wants far away below zero.
fn own_terms(pod: Seen<'_>) -> impl Iterator<Item = (&PodTerm, i64)> {
    let spec = pod.spec;
    weighted(&spec.affinity_preferences, 1).chain(weighted(&spec.anti_affinity_preferences, -1))
}

/// The keys under which another pod draws this one near, and how much.
fn drawn<'o>(pod: Seen<'_>, other: Seen<'o>) -> impl Iterator<Item = (&'o Text, i64)> {
    let required = other.spec.affinity.iter().map(|term| (term, WEIGHT_OF_REQUIRED));
    required
        .chain(own_terms(other))
        .filter(move |(term, _)| pod.matches_all(std::slice::from_ref(*term), other.namespace))
        .map(|(term, weight)| (&term.topology_key, weight))
}

impl Likes {
    fn over(key: Text, nodes: &[Option<&Node>]) -> Self {
        let (domains, count) = domains(&key, nodes);
        Self { key, domains, by_domain: vec![0; count] }
    }
}

/// Which domain of a key each slot is in, and how many there are.
fn domains(key: &str, nodes: &[Option<&Node>]) -> (Vec<Option<usize>>, usize) {
    let mut ids: FxHashMap<&str, usize> = FxHashMap::default();
    let domains = nodes
        .iter()
        .map(|node| {
            let value = (*node)?.label(key)?;
            let next = ids.len();
            Some(*ids.entry(value).or_insert(next))
        })
        .collect();
    (domains, ids.len())
}

fn soft_spreads(class: &Class, company: Option<&Selector>, nodes: &[Option<&Node>]) -> Vec<SoftSpread> {
    let spec = &class.spec;
    if !spec.spread.is_empty() {
        let soft: Vec<&Spread> = spec.spread.iter().filter(|spread| !spread.required).collect();
        return soft.iter().map(|spread| soft_spread(class, spread, &soft, nodes, true)).collect();
    }
    let Some(company) = company else { return Vec::new() };
    let spreads = DEFAULT_SPREADS.map(|(key, max_skew)| Spread {
        topology_key: key.into(),
        max_skew,
        required: false,
        selector: Some(company.clone()),
        min_domains: 1,
        honor_node_affinity: true,
        honor_node_taints: false,
    });
    let all: Vec<&Spread> = spreads.iter().collect();
    // By default, a node without a zone is still spread over by its name.
    spreads.iter().map(|spread| soft_spread(class, spread, &all, nodes, false)).collect()
}

fn soft_spread(
    class: &Class,
    spread: &Spread,
    all: &[&Spread],
    nodes: &[Option<&Node>],
    needs_all_keys: bool,
) -> SoftSpread {
    let (mut domains, mut count) = domains(&spread.topology_key, nodes);
    let has_key: Vec<bool> = domains.iter().map(Option::is_some).collect();
    let has_all = |node: &Node| all.iter().all(|spread| node.labels.contains_key(&spread.topology_key));
    let ignored: Vec<bool> = nodes.iter().map(|node| needs_all_keys && !node.is_some_and(has_all)).collect();
    let included = nodes
        .iter()
        .zip(&ignored)
        .map(|(node, ignored)| {
            !ignored
                && node.is_some_and(|node| spread_includes(spread, &class.demand, node, node.taints.iter()))
        })
        .collect();
    if !needs_all_keys {
        for domain in domains.iter_mut().filter(|domain| domain.is_none()) {
            *domain = Some(count);
        }
        count += 1;
    }
    SoftSpread {
        max_skew: spread.max_skew,
        is_over_hosts: &*spread.topology_key == names::HOSTNAME,
        selector: spread.selector.clone(),
        domains,
        has_key,
        ignored,
        included,
        by_domain: vec![0; count],
        by_slot: vec![0; nodes.len()],
    }
}

fn fixed(class: &Class, hosts: &[Host]) -> Vec<Fixed> {
    let named = named_nodes(class);
    hosts.iter().map(|host| fixed_of(class, host, named.as_deref())).collect()
}

fn fixed_of(class: &Class, host: &Host, named: Option<&[Text]>) -> Fixed {
    let Some(node) = host.node.as_deref() else { return Fixed::NoNode };
    let demand = &class.demand;
    if named.is_some_and(|named| !named.contains(&node.name)) {
        return Fixed::Refused(Refusal::NotNamed);
    }
    let unschedulable = node.taints.iter().find(|taint| &*taint.key == names::TAINT_UNSCHEDULABLE);
    if host.is_unschedulable && unschedulable.is_some_and(|taint| !fit::tolerates(&demand.tolerations, taint))
    {
        return Fixed::Refused(Refusal::Unschedulable);
    }
    if fit::untolerated(&demand.tolerations, node.taints.iter(), SoftTaints::Accept).is_some() {
        return Fixed::Refused(Refusal::Taint);
    }
    if !demand.selects(node) {
        return Fixed::Refused(Refusal::NodeAffinity);
    }
    let soft = node.taints.iter().filter(|taint| taint.effect == TaintEffect::PreferNoSchedule);
    let borne = soft.filter(|taint| !fit::tolerates(&demand.tolerations, taint)).count();
    let met =
        class.spec.node_preferences.iter().filter(|preference| {
            preference.term.matches_node(|key| node.label(key), LabelSource::name(node))
        });
    Fixed::Open {
        taints_borne: u32::try_from(borne).unwrap_or(u32::MAX),
        preference: met.map(|preference| i64::from(preference.weight)).sum(),
    }
}

/// The only nodes that the required affinity admits, where all of its terms name nodes.
fn named_nodes(class: &Class) -> Option<Vec<Text>> {
    let mut names = Vec::new();
    for term in class.spec.node_affinity.as_ref()? {
        let mut of_term: Option<Vec<Text>> = None;
        for field in &term.fields {
            if &**field.key() == "metadata.name" && field.operator() == Operator::In {
                let known = of_term.unwrap_or_else(|| field.values().to_vec());
                of_term = Some(known.into_iter().filter(|name| field.values().contains(name)).collect());
            }
        }
        names.extend(of_term?);
    }
    (!names.is_empty()).then_some(names)
}
