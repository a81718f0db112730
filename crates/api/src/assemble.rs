//! The snapshot: all objects put together, with what the catalogs offer.

mod pods;
mod strangers;
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_core::catalog::{Catalog, OfferingPattern};
use berth_core::disruption::{Budget, PodBudget, Share};
use berth_core::names::{self, Labels, Text};
use berth_core::plan::Skipped;
use berth_core::pod::{Pod, PodOrigin};
use berth_core::pool::Pool;
use berth_core::reason::{Reason, Refusal};
use berth_core::snapshot::{SharedLimit, Snapshot};
use berth_core::surplus;
use berth_core::units::Price;
use jiff::Timestamp;

use crate::budgets::Census;
use crate::disruption;
use crate::kinds::Kind;
use crate::manifests::{Kept, Manifests, Origin, object_name};
use crate::nodes;
use crate::pods::{Dangling, PodObject};
use crate::pools::class::{self, VpsieClassObject};
use crate::pools::cost;
use crate::pools::growth::{Circumstances, GrowthRules, Thresholds};
use crate::pools::karpenter::{ClaimObject, NodePoolObject};
use crate::pools::vpsie::{self, NodeGroupObject};
use crate::problem::Problem;
use crate::resources::karpenter::NodeClassReference;
use crate::resources::vpsie::CONFIG_NAME;
use crate::template::{GroupTemplate, Surroundings};
use crate::usage;

use pods::pod_origin;
pub(crate) use strangers::Strangers;
use types::{Catalogs, NoTypes, Types};

/// Whose machines a pool buys, and so whose catalog it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClassKind {
    Kwok,
    Ec2,
    Vpsie,
    Gardener,
}

impl ClassKind {
    /// The kind of the classes that a pool of Karpenter's names.
    pub fn of(class: &NodeClassReference) -> Option<Self> {
        match (class.group.as_str(), class.kind.as_str()) {
            ("karpenter.kwok.sh", "KWOKNodeClass") => Some(Self::Kwok),
            ("karpenter.k8s.aws", "EC2NodeClass") => Some(Self::Ec2),
            ("berth.dev", "VPSieNodeClass") => Some(Self::Vpsie),
            _ => None,
        }
    }
}

/// What manifests do not say.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The instant at which ages, schedules and durations are judged.
    pub now: Timestamp,
    /// What each node costs beyond its price, in pools that do not say so themselves.
    pub node_cost: Price,
}

/// What the planner needs, and what a person has to change.
#[derive(Debug, Default)]
pub struct Assembled {
    pub snapshot: Snapshot,
    /// When those pods were made that are on no node, by namespace and name.
    pub waiting_since: BTreeMap<(Text, Text), Timestamp>,
    /// Objects were left out. What they run or protect is not seen, so nothing may be removed.
    pub is_partial: bool,
    /// What groups are made from for pods that no pool could hold, or why none can be made; `None` where none is to be,
    /// as in files.
    pub new_groups: Option<Result<GroupTemplate, Refusal>>,
    /// Offerings that feedback says cannot be had now.
    pub unavailable: Vec<OfferingPattern>,
    /// Why VPSieNodeClasses cannot be bought from, by name. Those that can be are not among them.
    pub unfit_classes: BTreeMap<Text, Refusal>,
    /// Why NodeOverlays change nothing, by name: they contradict others. Those that do not are not among them.
    pub overlay_conflicts: BTreeMap<Text, String>,
    /// In the order of their kinds.
    pub skipped: Vec<Skipped>,
    /// Those of reading and those of putting together, by source and line.
    pub problems: Vec<Problem>,
    /// What is legal, and yet hardly meant that way, by source and line.
    pub remarks: Vec<Problem>,
}

/// Puts the objects together. `catalogs` is asked at most once for each kind of class that is used.
pub fn assemble(
    mut manifests: Manifests,
    context: &Context,
    catalogs: &mut dyn FnMut(ClassKind) -> Result<Arc<Catalog>, String>,
) -> Assembled {
    let is_live = manifests.is_whole;
    manifests.node_groups.sort_by(|a, b| strangers::precedence(a, b, is_live));
    let mut assembly = Assembly {
        catalogs: Catalogs { load: catalogs, loaded: BTreeMap::new() },
        context,
        problems: Vec::new(),
        remarks: Vec::new(),
        is_partial: !manifests.problems.is_empty(),
        overlay_conflicts: BTreeMap::new(),
        manifests,
    };
    let unfit_classes = assembly.unfit_classes();
    assembly.drop_repeated_pods();
    let waiting_since = waiting_since(&assembly.manifests.pods);
    let strangers = Strangers::of(&assembly.manifests);
    let thresholds = assembly.thresholds(&strangers);
    let mut pools = assembly.pools(&strangers);
    let shared_limits = assembly.shared_limits(&pools);
    let new_groups = assembly.new_groups(&strangers);
    assembly.blame_unclear_protection();
    let mut nodes = nodes::assemble(&assembly.manifests, (&pools, &strangers), context.now);
    let (mut pods, daemon_sets, census) = assembly.pods();
    let grace_secs = assembly.manifests.group_settings.grace_secs;
    mark_fresh(&mut pods, &waiting_since, grace_secs, context.now);
    cost::bar_while_ill(&mut pools, &nodes);
    let samples = &assembly.manifests.usage;
    usage::tell(&mut nodes, (&pods, &pools), samples, context.now);
    surplus::mark(&mut nodes, &pods, &pools);
    usage::raise_minima(&mut pools, &nodes, &thresholds, samples, context.now);
    let pod_budgets = assembly.pod_budgets(&census);
    let Assembly { manifests, mut problems, mut remarks, is_partial, overlay_conflicts, .. } = assembly;
    for found in [&mut problems, &mut remarks] {
        manifests.texts.refine(found);
    }
    problems.extend(manifests.problems);
    problems.extend(manifests.confined_problems);
    for found in [&mut problems, &mut remarks] {
        found.sort();
        found.dedup();
    }
    let namespaces = with_own_names(manifests.namespaces, pods.iter().map(|pod| &pod.namespace));
    let snapshot = Snapshot {
        pods,
        nodes,
        pools,
        daemon_sets,
        namespaces,
        storage: manifests.storage,
        shared_limits,
        pod_budgets,
    };
    let mut unavailable = manifests.unavailable;
    unavailable.sort();
    unavailable.dedup();
    Assembled {
        snapshot: snapshot.in_order(),
        waiting_since,
        is_partial,
        new_groups,
        unavailable,
        unfit_classes,
        overlay_conflicts,
        skipped: manifests.skipped.into_iter().map(|(kind, count)| Skipped { kind, count }).collect(),
        problems,
        remarks,
    }
}

/// What a pool is told whose name another has.
pub fn name_taken(name: &str) -> String {
    format!("there is another pool `{name}`; pools of all kinds and namespaces share their names")
}

fn waiting_since(pods: &[Arc<PodObject>]) -> BTreeMap<(Text, Text), Timestamp> {
    let is_waiting = |pod: &&Arc<PodObject>| pod.node.is_none() && !pod.deleting && pod.is_active();
    let waiting = pods.iter().filter(is_waiting);
    let since = waiting.filter_map(|pod| {
        let created = pod.life.created?;
        Some(((pod.namespace.clone(), pod.name.clone()), created.timestamp()))
    });
    since.collect()
}

/// Those that wait and have not for as long as groups want, which count pods by themselves: one that no group can hold
/// says nothing of the others. What does not say since when it waits has waited for long.
fn mark_fresh(
    pods: &mut [Pod],
    waiting_since: &BTreeMap<(Text, Text), Timestamp>,
    grace_secs: u32,
    now: Timestamp,
) {
    if grace_secs == 0 {
        return;
    }
    for pod in pods.iter_mut().filter(|pod| pod.node.is_none() && pod.origin == PodOrigin::Object) {
        let since = waiting_since.get(&(pod.namespace.clone(), pod.name.clone()));
        let waited_secs = since.map(|since| now.duration_since(*since).as_secs());
        pod.is_fresh = waited_secs.is_some_and(|secs| secs < i64::from(grace_secs));
    }
}

/// The API server labels every namespace with its own name, so selectors may count on that.
fn with_own_names<'p>(
    mut namespaces: BTreeMap<Text, Labels>,
    used: impl Iterator<Item = &'p Text>,
) -> BTreeMap<Text, Labels> {
    for name in used {
        if !namespaces.contains_key(name) {
            namespaces.insert(name.clone(), Labels::new());
        }
    }
    for (name, labels) in &mut namespaces {
        labels.entry(names::NAMESPACE_NAME.into()).or_insert_with(|| name.clone());
    }
    namespaces
}

struct Assembly<'c> {
    manifests: Manifests,
    catalogs: Catalogs<'c>,
    context: &'c Context,
    problems: Vec<Problem>,
    remarks: Vec<Problem>,
    is_partial: bool,
    /// Of overlays that contradict others: what.
    overlay_conflicts: BTreeMap<Text, String>,
}

/// What there is of groups' nodes, as far as it decides about more.
#[derive(Default)]
struct Claimed {
    /// Groups with nodes on their way.
    growing: BTreeSet<Text>,
    /// How many nodes each has, those aside that go.
    staying: BTreeMap<Text, u32>,
    /// When the youngest node of each was asked for.
    newest: BTreeMap<Text, Timestamp>,
    /// When a node of each was last to go and stayed.
    failed_drains: BTreeMap<Text, Timestamp>,
}

impl Claimed {
    fn of(claims: &[Kept<Arc<ClaimObject>>], strangers: &Strangers) -> Self {
        let mut claimed = Self::default();
        for kept in claims {
            let claim = &kept.object;
            let group = claim.labels.get(crate::vpsie::NODEGROUP);
            let Some(group) = group.filter(|group| !strangers.has(&kept.namespace, group)) else { continue };
            // A node of which nobody can say how far it is may never be up.
            if !claim.is_up && !claim.deleting && !claim.is_unidentified {
                claimed.growing.insert(group.clone());
            }
            if !claim.deleting {
                *claimed.staying.entry(group.clone()).or_default() += 1;
            }
            if let Some(created) = claim.life.created {
                let newest = claimed.newest.entry(group.clone()).or_insert(created);
                *newest = created.max(*newest);
            }
            if let Some(failed) = claim.failed_drain {
                let last = claimed.failed_drains.entry(group.clone()).or_insert(failed);
                *last = failed.max(*last);
            }
        }
        claimed
    }
}

impl Assembly<'_> {
    fn pools(&mut self, strangers: &Strangers) -> Vec<Pool> {
        let node_pools = std::mem::take(&mut self.manifests.node_pools);
        let node_groups = std::mem::take(&mut self.manifests.node_groups);
        let constraint_pools = std::mem::take(&mut self.manifests.constraint_pools);
        let mut pools = Pools::default();
        for kept in node_pools {
            let types = self.node_pool_types(&kept.object);
            let NodePoolObject { pool, rules, node_cost, not_ready, .. } = &kept.object;
            for (field, message) in rules.problems() {
                self.blame(&kept, field, message.to_owned());
            }
            let disruption = rules.judged(self.context.now);
            let said = not_ready.clone().filter(|_| !self.manifests.is_whole);
            let blocked = pool.blocked.clone().or(said);
            let node_cost = self.node_cost(*node_cost);
            let mut pool = Pool { disruption, node_cost, blocked, ..pool.clone() };
            // What a class asks for that is wrong is no reason to replace nodes.
            let class = self.vpsie_class(&kept.object.class).filter(|_| types.is_ok());
            if let Some(asked) = class.and_then(VpsieClassObject::requirement) {
                pool.requirements.add(&asked);
            }
            self.add_pool(&mut pools, &kept, pool, types);
        }
        let claimed = Claimed::of(&self.manifests.claims, strangers);
        let shrank = node_groups.iter().filter_map(|kept| kept.object.shrinking.shrank).max();
        for kept in node_groups {
            // Of what is nobody's to change nothing needs to be said where another pool has the name.
            let is_ours = !self.manifests.is_whole || kept.object.growth.is_managed;
            if !is_ours && pools.names.contains(&kept.name) {
                continue;
            }
            let types = self.node_group_types(&kept.object);
            if let Some(message) = self.idle_size(&kept.object) {
                let remark =
                    self.problem(kept.origin, &kept.namespace, &kept.name, "spec.kubeSizeID", message);
                self.remarks.push(remark);
            }
            let NodeGroupObject { pool, growth, rules, shrinking, cost, replaced_at_once, node_cost, .. } =
                &kept.object;
            let settings = self.manifests.group_settings;
            let rests = shrinking
                .rests_after(claimed.failed_drains.get(&pool.name).copied())
                .max(vpsie::rest(shrank, settings.removal_cooldown_secs))
                .max(shrinking.closed_until(self.context.now));
            let mut disruption = rules.resting(rests).judged(self.context.now);
            disruption.replacement = cost.judged(self.context.now, settings.is_rebalancing);
            let nodes = Share::Count(settings.removals_max);
            disruption.budgets.push(Budget { reasons: Vec::new(), nodes, replaced: *replaced_at_once });
            let lacks_minimum = claimed.staying.get(&pool.name).copied().unwrap_or(0) < pool.nodes_min;
            let around = Circumstances {
                now: self.context.now,
                settings: &settings,
                is_live: self.manifests.is_whole,
                growing: &claimed.growing,
                newest: claimed.newest.get(&pool.name).copied(),
                lacks_minimum,
            };
            let is_elsewhere = is_ours.then(|| self.of_other_cluster(&kept)).flatten();
            let blocked = pool.blocked.clone().or(is_elsewhere).or_else(|| self.unread_settings());
            let blocked = blocked.or_else(|| growth.judged(&pool.name, &around));
            let node_cost = self.node_cost(*node_cost);
            let is_patient = settings.grace_secs > 0;
            let mut pool = Pool { disruption, node_cost, blocked, is_patient, ..pool.clone() };
            if !growth.is_enabled {
                pool.limits.nodes = pool.limits.nodes.map(|most| most.min(pool.nodes_min));
            }
            if let (Some(preferred), Ok(types)) = (pool.division.preferred_type.take(), &types) {
                let known = vpsie::types_of(&preferred, types);
                pool.division.preferred_type = known.first().map(|known| known.name.clone());
                // Where the offerings are of another kind of paths, so is what is preferred of them.
                if known.is_empty() && !self.goes_by_size(&kept.object) {
                    let message = format!("`{preferred}` is none of the group's offerings");
                    self.blame(&kept, "spec.preferredInstanceType", message);
                }
            }
            self.add_pool(&mut pools, &kept, pool, types);
        }
        for kept in constraint_pools {
            let types = self.constraint_pool_types(&kept.object);
            let node_cost = self.node_cost(kept.object.node_cost);
            let pool = Pool { node_cost, ..kept.object.pool.clone() };
            self.add_pool(&mut pools, &kept, pool, types);
        }
        pools.pools
    }

    /// What is bought joins the cluster that Berth works for, whatever its group says.
    fn of_other_cluster(&mut self, kept: &Kept<NodeGroupObject>) -> Option<Refusal> {
        const FIELD: &str = "spec.resourceIdentifier";
        let Refusal { reason, message } = self.manifests.group_defaults.refuses(&kept.object.cluster)?;
        self.blame(kept, FIELD, message.clone());
        Some(reason.because(format!("{FIELD}: {message}")))
    }

    /// Groups do not grow where nobody knows how far they may.
    fn unread_settings(&self) -> Option<Refusal> {
        let why = self.manifests.unread_settings.as_ref()?;
        Some(
            Reason::PoolNotReady
                .because(format!("the AutoscalerConfig `{CONFIG_NAME}` cannot be read: {why}")),
        )
    }

    fn thresholds(&self, strangers: &Strangers) -> BTreeMap<Text, Thresholds> {
        let ours =
            self.manifests.node_groups.iter().filter(|kept| !strangers.has(&kept.namespace, &kept.name));
        ours.map(|kept| (kept.name.clone(), kept.object.growth.thresholds)).collect()
    }

    fn node_cost(&self, own: Option<Price>) -> Price {
        own.unwrap_or(self.context.node_cost)
    }

    fn add_pool<T>(&mut self, pools: &mut Pools, kept: &Kept<T>, mut pool: Pool, types: Types) {
        if !pools.names.insert(pool.name.clone()) {
            return self.blame(kept, "metadata.name", name_taken(&pool.name));
        }
        match types {
            Ok(types) => pool.types = types,
            Err(NoTypes { field, refusal: Refusal { reason, message } }) => {
                pool.blocked = Some(reason.because(format!("{field}: {message}")));
                self.blame(kept, &field, message);
            }
        }
        pools.pools.push(pool);
    }

    fn unfit_classes(&mut self) -> BTreeMap<Text, Refusal> {
        if self.manifests.vpsie_classes.is_empty() {
            return BTreeMap::new();
        }
        let offered = self.catalogs.types(ClassKind::Vpsie);
        class::unfit(&self.manifests.vpsie_classes, &offered, self.manifests.is_whole)
    }

    fn shared_limits(&self, pools: &[Pool]) -> Vec<SharedLimit> {
        let Some(nodes_max) = self.manifests.group_settings.nodes_max else { return Vec::new() };
        let mut groups: Vec<Text> = pools
            .iter()
            .filter(|pool| pool.labels.contains_key(crate::vpsie::NODEGROUP))
            .map(|pool| pool.name.clone())
            .collect();
        groups.sort();
        if groups.is_empty() { Vec::new() } else { vec![SharedLimit { pools: groups, nodes_max }] }
    }

    /// What groups are made from. What is in files is all there will be.
    fn new_groups(&mut self, strangers: &Strangers) -> Option<Result<GroupTemplate, Refusal>> {
        if !self.manifests.is_whole {
            return None;
        }
        let config = self.manifests.new_groups.clone();
        let settings = self.manifests.group_settings;
        let claimed = Claimed::of(&self.manifests.claims, strangers);
        let around = Circumstances {
            now: self.context.now,
            settings: &settings,
            is_live: true,
            growing: &claimed.growing,
            newest: None,
            lacks_minimum: false,
        };
        let surroundings = Surroundings {
            blocked: self
                .unread_settings()
                .or_else(|| GrowthRules::of_new(config.as_deref()).judged(&Text::default(), &around)),
            nodes_max: settings.nodes_max,
            node_cost: self.context.node_cost,
        };
        let catalogs = &mut self.catalogs;
        let catalog = || catalogs.types(ClassKind::Vpsie);
        GroupTemplate::new(config.as_deref(), &self.manifests.group_defaults, catalog, surroundings)
    }

    fn pod_budgets(&mut self, census: &Census) -> Vec<PodBudget> {
        let mut budgets = Vec::new();
        for kept in std::mem::take(&mut self.manifests.budgets) {
            let (budget, remark) = kept.object.judged(&kept.namespace, &kept.name, census);
            budgets.push(budget);
            let at =
                |message| self.problem(kept.origin, &kept.namespace, &kept.name, "spec.selector", message);
            let remark = remark.map(at);
            self.remarks.extend(remark);
        }
        budgets
    }

    fn blame_unclear_protection(&mut self) {
        let this = &*self;
        let manifests = &this.manifests;
        let nodes = manifests.nodes.iter().map(|kept| {
            let life = &kept.object.life;
            (kept.origin, &kept.namespace, &kept.name, &life.do_not_disrupt, Some(&life.hours))
        });
        let claims = manifests.claims.iter().map(|kept| {
            let life = &kept.object.life;
            (kept.origin, &kept.namespace, &kept.name, &life.do_not_disrupt, Some(&life.hours))
        });
        let pods = manifests
            .pods
            .iter()
            .map(|pod| (pod_origin(pod), &pod.namespace, &pod.name, &pod.life.do_not_disrupt, None));
        let said = nodes.chain(claims).chain(pods);
        let unclear = said.flat_map(|(origin, namespace, name, do_not_disrupt, hours)| {
            let fields = disruption::unclear(do_not_disrupt, hours);
            fields.map(move |(field, message)| this.problem(origin, namespace, name, &field, message))
        });
        let unclear: Vec<Problem> = unclear.collect();
        self.problems.extend(unclear);
    }

    fn blame_template<T>(&mut self, kept: &Kept<T>, Dangling { field, message }: Dangling) {
        let spec = match kept.origin.kind {
            Kind::CronJob => "spec.jobTemplate.spec.template.spec",
            _ => "spec.template.spec",
        };
        self.blame(kept, &format!("{spec}.{field}"), message);
    }

    fn blame<T>(&mut self, kept: &Kept<T>, field: &str, message: String) {
        self.blame_at(kept.origin, &kept.namespace, &kept.name, field, message);
    }

    fn blame_at(&mut self, origin: Origin, namespace: &str, name: &str, field: &str, message: String) {
        let problem = self.problem(origin, namespace, name, field, message);
        self.problems.push(problem);
    }

    fn problem(&self, origin: Origin, namespace: &str, name: &str, field: &str, message: String) -> Problem {
        Problem {
            source: self.source(origin),
            line: Some(origin.line as usize),
            object: Some(object_name(origin.kind.name(), namespace, name)),
            field: Some(field.to_owned()),
            message,
        }
    }

    fn source(&self, origin: Origin) -> Arc<str> {
        self.manifests.sources.get(origin.source as usize).cloned().unwrap_or_default()
    }
}

#[derive(Default)]
struct Pools {
    pools: Vec<Pool>,
    names: BTreeSet<Text>,
}
