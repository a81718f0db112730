//! Which pools are wanted that do not exist yet: those for pods that no pool could ever hold.
//!
//! A pod that some pool would hold, but for its limits, its rest, its pause or what cannot be had just now, wants no
//! other pool. Whether that is so is found out by planning as if nothing of it were. What a new pool is worth is found
//! out by planning as well: with it, a pod that asked for it must have a place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::catalog::{InstanceType, Offering};
use crate::names::{self, Labels, Text};
use crate::plan::{Host, Plan, PoolRefusal};
use crate::pod::{Pod, PodOrigin, PodPhase, PodSpec, Taint, TaintEffect, Toleration};
use crate::pool::{Limits, Pool};
use crate::provision;
use crate::reason::{Reason, Refusal};
use crate::requirement::{Expression, NodeTerm, ValueSet};
use crate::snapshot::{Effort, Policy, SchedulerPolicy, Snapshot};
use crate::volume::Storage;

/// What pods ask of a pool beyond what every new pool is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Demand {
    /// Few taints first: what is open to all may do for those who tolerate more.
    pub taints: Vec<Taint>,
    pub labels: Labels,
}

/// What new pools are made from.
pub trait Template {
    /// The pool for a demand, with all that it may buy; or why there can be none.
    fn pool(&self, demand: &Demand) -> Result<Pool, Refusal>;

    /// Puts a pool among the others, under the limits that they share.
    fn join(&self, pool: Pool, snapshot: &mut Snapshot);
}

/// A pool that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Founding {
    pub demand: Demand,
    /// What it should sell: what at least one of its pods fits on, the cheapest first.
    pub types: Vec<Text>,
    /// The pods that asked for it and have a place with it; indices into the snapshot's pods, ascending.
    pub pods: Vec<usize>,
}

/// What came of looking for pools that are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub wanted: Vec<Founding>,
    /// Why no new pool would help, for each pod that no pool could hold.
    pub refused: BTreeMap<usize, Refusal>,
}

/// So many alternatives of a pod's required affinity are tried.
const ALTERNATIVES_MAX: usize = 4;

/// The pools that the unplaced pods of `plan` want, so many at most. Pools that are about to go should not be in the
/// snapshot. Where nothing can be made, `template` says why.
pub fn wanted(
    snapshot: &Snapshot,
    policy: &Policy,
    plan: &Plan,
    template: Result<&dyn Template, &Refusal>,
    pools_max: usize,
) -> Outcome {
    let policy = Policy { effort: Effort::QUICK, scheduler: SchedulerPolicy::Ignored, ..policy.clone() };
    let base = template.map_err(Clone::clone).and_then(|template| template.pool(&Demand::default()));
    let strangers = strangers(snapshot, &policy, plan, base.as_ref().ok());
    let (Ok(template), Ok(base)) = (template, &base) else {
        let refusal = base.err();
        let refused = strangers.into_iter().filter_map(|pod| Some((pod, refusal.clone()?)));
        return Outcome { wanted: Vec::new(), refused: refused.collect() };
    };
    let mut search = Search {
        snapshot,
        policy: &policy,
        template,
        trial: snapshot.clone(),
        pools_max,
        homeless: strangers,
        outcome: Outcome::default(),
    };
    for alternative in 0..ALTERNATIVES_MAX {
        search.try_all(base, alternative);
    }
    let Search { mut outcome, homeless, .. } = search;
    outcome.refused.retain(|pod, _| homeless.contains(pod));
    outcome
}

/// Pods without a place that no pool could hold, were it free to buy whatever it sells.
fn strangers(snapshot: &Snapshot, policy: &Policy, plan: &Plan, base: Option<&Pool>) -> BTreeSet<usize> {
    // Those that are fresh may yet find a place that somebody leaves.
    let may_be_helped = |pod: usize| {
        snapshot.pods.get(pod).is_some_and(|pod| pod.origin != PodOrigin::Buffer && !pod.is_fresh)
    };
    let homeless: BTreeSet<usize> = plan
        .unplaced
        .iter()
        // What stands before any pool is looked at, no pool can change.
        .filter(|unplaced| {
            let is_of_pools =
                |refusal: &PoolRefusal| refusal.pool.is_some() || refusal.refusal.reason == Reason::NoPool;
            unplaced.refusals.iter().all(is_of_pools)
        })
        .map(|unplaced| unplaced.pod)
        .filter(|pod| may_be_helped(*pod))
        .collect();
    if homeless.is_empty() || snapshot.pools.is_empty() {
        return homeless;
    }
    let spare: Arc<[Arc<InstanceType>]> = base.map(|base| base.types.clone()).unwrap_or_default();
    let freed = |pool: &Pool| Pool {
        blocked: None,
        limits: Limits::default(),
        // What is not known to sell anything is taken to sell what a new one would.
        types: if pool.types.is_empty() { spare.clone() } else { all_available(&pool.types) },
        ..pool.clone()
    };
    let pools = snapshot.pools.iter().map(freed).collect();
    let freed = Snapshot { pools, shared_limits: Vec::new(), ..snapshot.clone() };
    let policy = policy.with_all_available();
    let unplaced = provision::plan(&freed, &policy).unplaced;
    unplaced.into_iter().map(|unplaced| unplaced.pod).filter(|pod| homeless.contains(pod)).collect()
}

fn all_available(types: &Arc<[Arc<InstanceType>]>) -> Arc<[Arc<InstanceType>]> {
    let can_be_had = |instance_type: &Arc<InstanceType>| instance_type.offerings.iter().all(|o| o.available);
    if types.iter().all(can_be_had) {
        return types.clone();
    }
    let offered = |instance_type: &Arc<InstanceType>| {
        let mut instance_type = InstanceType::clone(instance_type);
        instance_type.offerings.iter_mut().for_each(|offering| offering.available = true);
        Arc::new(instance_type)
    };
    types.iter().map(offered).collect()
}

struct Search<'a> {
    snapshot: &'a Snapshot,
    policy: &'a Policy,
    template: &'a dyn Template,
    /// The cluster with the pools that are wanted so far.
    trial: Snapshot,
    pools_max: usize,
    /// Those for whom there is nothing yet.
    homeless: BTreeSet<usize>,
    outcome: Outcome,
}

impl Search<'_> {
    /// Tries a pool for each demand of the pods that are left, with this alternative of their affinities.
    fn try_all(&mut self, base: &Pool, alternative: usize) {
        let mut demands: BTreeMap<Demand, Vec<usize>> = BTreeMap::new();
        for pod in self.homeless.clone() {
            match demand_of(&self.snapshot.pods[pod].spec, base, alternative) {
                Some(Ok(demand)) => demands.entry(demand).or_default().push(pod),
                Some(Err(refusal)) => self.refuse(pod, refusal),
                None => {}
            }
        }
        for (demand, pods) in demands {
            if self.outcome.wanted.len() >= self.pools_max {
                return;
            }
            self.try_one(demand, pods);
        }
    }

    fn try_one(&mut self, demand: Demand, mut pods: Vec<usize>) {
        pods.retain(|pod| self.homeless.contains(pod));
        let pool = match self.template.pool(&demand) {
            Ok(pool) => pool,
            Err(refusal) => return self.refuse_all(pods, &refusal),
        };
        let (fitting, refused) = self.alone(&pool, &pods);
        for (pod, refusal) in refused {
            self.refuse(pod, refusal);
        }
        if fitting.is_empty() {
            return;
        }
        if let Some(refusal) = &pool.blocked {
            return self.refuse_all(fitting, refusal);
        }
        let before = (self.trial.pools.clone(), self.trial.shared_limits.clone());
        // Nodes that it has whatever pods want say nothing about what it is good for.
        self.template.join(Pool { nodes_min: 0, ..pool.clone() }, &mut self.trial);
        let plan = provision::plan(&self.trial, self.policy);
        let placed = placed_in(&plan, &pool.name, &fitting);
        if placed.is_empty() {
            (self.trial.pools, self.trial.shared_limits) = before;
            for unplaced in plan.unplaced.iter().filter(|unplaced| fitting.contains(&unplaced.pod)) {
                let of_pool =
                    unplaced.refusals.iter().find(|refusal| refusal.pool.as_ref() == Some(&pool.name));
                if let Some(refusal) = of_pool {
                    self.refuse(unplaced.pod, refusal.refusal.clone());
                }
            }
            return;
        }
        for bind in &plan.binds {
            self.homeless.remove(&bind.pod);
        }
        let types = self.fitting_types(&pool, &fitting);
        self.outcome.wanted.push(Founding { demand, types, pods: placed });
    }

    /// Those of the pods that would have a place in the pool if there were nothing else, and why the others would not.
    fn alone(&self, pool: &Pool, pods: &[usize]) -> (BTreeSet<usize>, BTreeMap<usize, Refusal>) {
        let plan = provision::plan(&self.nothing_but(pool.clone(), pods), self.policy);
        let refused = plan.unplaced.into_iter().filter_map(|unplaced| {
            let refusal = unplaced.refusals.into_iter().next()?.refusal;
            Some((*pods.get(unplaced.pod)?, refusal))
        });
        let refused: BTreeMap<usize, Refusal> = refused.collect();
        (pods.iter().copied().filter(|pod| !refused.contains_key(pod)).collect(), refused)
    }

    /// The types on which at least one of the pods fits, the cheapest first.
    fn fitting_types(&self, pool: &Pool, pods: &BTreeSet<usize>) -> Vec<Text> {
        let specs: BTreeMap<&Arc<PodSpec>, usize> =
            pods.iter().map(|pod| (&self.snapshot.pods[*pod].spec, *pod)).collect();
        let examples: Vec<usize> = specs.into_values().collect::<BTreeSet<_>>().into_iter().collect();
        let fits = |instance_type: &&Arc<InstanceType>| {
            let only = Pool { types: all_available(&Arc::from([(*instance_type).clone()])), ..pool.clone() };
            let policy = self.policy.with_all_available();
            !provision::plan(&self.nothing_but(only, &examples), &policy).binds.is_empty()
        };
        let mut types: Vec<&Arc<InstanceType>> = pool.types.iter().filter(fits).collect();
        let price =
            |instance_type: &InstanceType| instance_type.offerings.iter().map(|o: &Offering| o.price).min();
        types.sort_by(|a, b| (price(a), &a.name).cmp(&(price(b), &b.name)));
        types.into_iter().map(|instance_type| instance_type.name.clone()).collect()
    }

    /// A cluster of this pool, without limits, and of these pods, which know nothing of others.
    fn nothing_but(&self, pool: Pool, pods: &[usize]) -> Snapshot {
        let alone = |pod: &usize| {
            let pod = &self.snapshot.pods[*pod];
            let spec = PodSpec {
                affinity: Vec::new(),
                affinity_preferences: Vec::new(),
                anti_affinity: Vec::new(),
                anti_affinity_preferences: Vec::new(),
                spread: Vec::new(),
                ..PodSpec::clone(&pod.spec)
            };
            Pod { spec: Arc::new(spec), node: None, nominated: None, phase: PodPhase::Pending, ..pod.clone() }
        };
        let pods: Vec<Pod> = pods.iter().map(alone).collect();
        let has_volumes = pods.iter().any(|pod| !pod.volumes.is_empty());
        let storage = if has_volumes { self.snapshot.storage.clone() } else { Storage::default() };
        let pool = Pool { blocked: None, limits: Limits::default(), nodes_min: 0, ..pool };
        let daemon_sets = self.snapshot.daemon_sets.clone();
        Snapshot { pods, pools: vec![pool], daemon_sets, storage, ..Snapshot::default() }
    }

    fn refuse_all(&mut self, pods: impl IntoIterator<Item = usize>, refusal: &Refusal) {
        for pod in pods {
            self.refuse(pod, refusal.clone());
        }
    }

    fn refuse(&mut self, pod: usize, refusal: Refusal) {
        // What was said of an earlier alternative is what people asked for first.
        self.outcome.refused.entry(pod).or_insert(refusal);
    }
}

/// Those of the pods that the plan puts on nodes which it buys from the pool.
fn placed_in(plan: &Plan, pool: &Text, pods: &BTreeSet<usize>) -> Vec<usize> {
    let is_of_pool = |host: Host| match host {
        Host::Launch(launch) => plan.launches.get(launch).is_some_and(|launch| launch.pool == *pool),
        Host::Node(_) => false,
    };
    let placed = plan.binds.iter().filter(|bind| is_of_pool(bind.host)).map(|bind| bind.pod);
    let mut placed: Vec<usize> = placed.filter(|pod| pods.contains(pod)).collect();
    placed.sort_unstable();
    placed
}

/// What a pod asks of a pool by its selector and the given term of its required affinity, if there is such a term.
fn demand_of(spec: &PodSpec, base: &Pool, alternative: usize) -> Option<Result<Demand, Refusal>> {
    let term: &[Expression] = match spec.node_affinity.as_deref() {
        None if alternative == 0 => &[],
        None => return None,
        Some(terms) => {
            let mut terms = terms.iter().filter(|term: &&NodeTerm| term.fields.is_empty());
            &terms.nth(alternative)?.expressions
        }
    };
    Some(labels_for(spec.node_selector.iter().chain(term), base).map(|labels| {
        // Whoever only tolerates a taint asks for nothing. Whoever also asks for nodes of their own wants them kept free
        // of others.
        let is_dedicated = !labels.is_empty() && base.taints.is_empty();
        let taints: BTreeSet<Taint> = if is_dedicated {
            spec.tolerations.iter().filter_map(taint_for).collect()
        } else {
            BTreeSet::new()
        };
        Demand { labels, taints: taints.into_iter().collect() }
    }))
}

/// The labels that a pool's nodes must have for these expressions, beyond what its machines bring.
fn labels_for<'e>(expressions: impl Iterator<Item = &'e Expression>, base: &Pool) -> Result<Labels, Refusal> {
    let mut sets: BTreeMap<&Text, (ValueSet, &Expression)> = BTreeMap::new();
    for expression in expressions {
        let (set, _) = sets.entry(expression.key()).or_insert_with(|| (ValueSet::any(), expression));
        *set = set.intersect(&ValueSet::of(expression));
    }
    let mut labels = Labels::new();
    for (key, (set, expression)) in sets {
        let is_there = base.labels.get(key).is_some_and(|value| set.has(value));
        if is_of_machines(key, base) || is_there || set.may_be_absent() {
            continue;
        }
        if let Some(why) = names::restriction(key) {
            return Err(
                Reason::RestrictedLabel.because(format!("no new node can be asked for by {key}: {why}"))
            );
        }
        let Some(value) = set.finite().and_then(BTreeSet::first) else {
            let message =
                format!("the pod asks for {expression}, which names no value that nodes could have");
            return Err(Reason::NodeAffinity.because(message));
        };
        labels.insert(key.clone(), value.clone());
    }
    Ok(labels)
}

/// Whether a label comes with what is bought.
fn is_of_machines(key: &str, base: &Pool) -> bool {
    let has = |instance_type: &Arc<InstanceType>| {
        instance_type.labels.contains_key(key)
            || instance_type.offerings.iter().any(|offering| offering.labels.contains_key(key))
    };
    names::WELL_KNOWN.contains(&key) || base.types.iter().any(has)
}

/// The taint that a toleration is about, if it says so: a system's own is nobody's wish, and one that evicts could
/// evict the pod itself, which may tolerate it for a while only.
fn taint_for(toleration: &Toleration) -> Option<Taint> {
    let Toleration { key: Some(key), value, effect } = toleration else { return None };
    let is_vague = value.is_none() && effect.is_none();
    let effect = effect.unwrap_or(TaintEffect::NoSchedule);
    if is_vague || effect == TaintEffect::NoExecute || is_of_system(key) {
        return None;
    }
    Some(Taint { key: key.clone(), value: value.clone().unwrap_or_default(), effect })
}

fn is_of_system(key: &str) -> bool {
    const SYSTEMS: [&str; 4] = ["kubernetes.io", "k8s.io", names::KARPENTER_DOMAIN, "autoscaler.vpsie.com"];
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    SYSTEMS.iter().any(|system| domain == *system || domain.ends_with(&format!(".{system}")))
}
