//! What claims and pools say of themselves, kept true.

mod buffer;
mod class;
mod growth;
mod karpenter;
mod overlay;
mod vpsie;

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use berth_api::claims::{self, stamped, stamping};
use berth_api::resources::shared::ConditionStatus;
use berth_api::vpsie::MachineSetup;
use berth_api::{ClassKind, Problem, object_name, vpsie as vpsie_names};
use berth_core::catalog::InstanceType;
use berth_core::drift::{Stamp, drift, restamped, shortfall};
use berth_core::names::{self, Text};
use berth_core::node::NodeState;
use berth_core::plan::Plan;
use berth_core::pool::Pool;
use berth_core::resources::Resources;
use berth_core::snapshot::Snapshot;
use futures::{StreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::json;
use tokio::time::Instant;

use crate::buy::WRITES_AT_ONCE;
use crate::claim::Claim;
use crate::conditions::{CONSISTENT, Conditions, INCONSISTENT};
use crate::dialect::{Dialect, News, PoolId, PoolObject};
use crate::life::Failure;
use crate::office::Office;
use crate::operator::Operator;
use crate::planning::Round;
use crate::sight::secs_between;
use crate::tally::{Controller, Worked};
use crate::watched;

/// A claim's last pod event is not written more often than this.
const POD_EVENT_EVERY: Duration = Duration::from_secs(10);

/// Who was on each node at the last look.
#[derive(Debug, Default)]
pub(crate) struct Tenancies {
    nodes: BTreeMap<Text, Tenancy>,
}

#[derive(Clone, Copy, Debug)]
struct Tenancy {
    pods: u64,
    written: Option<Instant>,
    is_owed: bool,
}

impl Tenancies {
    /// The nodes whose pods have changed, and of which that has not been written lately. What was there at the first
    /// look has not changed.
    fn changed(&mut self, snapshot: &Snapshot) -> Vec<Text> {
        let now = Instant::now();
        let mut digests: BTreeMap<&Text, u64> = snapshot.nodes.iter().map(|node| (&node.name, 0)).collect();
        for pod in snapshot.pods.iter().filter(|pod| !pod.belongs_to_node() && pod.is_active()) {
            if let Some(digest) = pod.node.as_ref().and_then(|node| digests.get_mut(node)) {
                let mut hasher = rustc_hash::FxHasher::default();
                (&pod.namespace, &pod.name).hash(&mut hasher);
                *digest ^= hasher.finish();
            }
        }
        self.nodes.retain(|name, _| digests.contains_key(name));
        let mut changed = Vec::new();
        for (name, pods) in digests {
            let first = Tenancy { pods, written: None, is_owed: false };
            let tenancy = self.nodes.entry(name.clone()).or_insert(first);
            tenancy.is_owed |= tenancy.pods != pods;
            tenancy.pods = pods;
            let is_time = tenancy.written.is_none_or(|at| now.duration_since(at) >= POD_EVENT_EVERY);
            if tenancy.is_owed && is_time {
                (tenancy.is_owed, tenancy.written) = (false, Some(now));
                changed.push(name.clone());
            }
        }
        changed
    }

    /// Of these nodes it could not be written. It is tried again with the next look.
    fn owe<'n>(&mut self, names: impl Iterator<Item = &'n Text>) {
        for name in names {
            if let Some(tenancy) = self.nodes.get_mut(name) {
                (tenancy.is_owed, tenancy.written) = (true, None);
            }
        }
    }
}

impl Operator {
    /// With the plan for pods that wait, if any does.
    pub(crate) async fn keep_up(&mut self, round: &Round, waiting: Option<&Plan>) {
        let changed = self.tenancies.changed(&round.snapshot);
        let (office, lives) = (&self.office, &self.lives);
        // What is not written now is written next time.
        for (name, config) in &round.configs {
            if !round.illegible_configs.contains_key(name) {
                let _ = office.keep_config(name, config).await;
            }
        }
        for (name, config) in &round.illegible_configs {
            let _ = office.keep_illegible_config(round, name, config).await;
        }
        for (id, group) in &round.illegible_groups {
            let _ = office.keep_illegible_group(round, id, group).await;
        }
        let unwritten: Vec<Text> = stream::iter(round.claims.values())
            .map(async |claim| {
                // Whoever works on it would be disturbed.
                let is_free = !lives.is_under_way(&claim.name);
                let machine = office.told_of_machine(claim).filter(|_| is_free);
                let kept = match machine {
                    Some(machine) => office.keep_machine(claim, &machine).await,
                    None if is_free && claim.is_untold() => {
                        let conditions = Conditions::of(&claim.conditions, office.now());
                        office.write_status(claim, &conditions, &News::default()).await
                    }
                    None => office.keep_claim(round, claim, &changed).await,
                };
                kept.err().map(|_| claim.node_name.clone())
            })
            .buffer_unordered(WRITES_AT_ONCE)
            .filter_map(std::future::ready)
            .collect()
            .await;
        // Conditions are seen to be missing; that pods have changed is seen once.
        self.tenancies.owe(unwritten.iter().filter(|name| changed.contains(*name)));
        office.joining().retain(|name, _| round.pools.contains_key(name));
        stream::iter(&round.overlays)
            .for_each_concurrent(WRITES_AT_ONCE, async |(name, overlay)| {
                let _ = office.keep_overlay(round, name, overlay).await;
            })
            .await;
        stream::iter(&round.buffers)
            .for_each_concurrent(WRITES_AT_ONCE, async |(id, buffer)| {
                let _ = office.keep_buffer(round, id, (buffer, waiting)).await;
            })
            .await;
        let is_legible = |pool: &&Arc<PoolObject>| !round.illegible_groups.contains_key(&pool.id());
        stream::iter(round.pools.values().chain(&round.displaced).filter(is_legible))
            .for_each_concurrent(WRITES_AT_ONCE, async |pool| {
                let id = pool.id();
                let _ = match &**pool {
                    PoolObject::NodePool(_) if pool.is_deleting() => Ok(()),
                    PoolObject::NodePool(object) => office.keep_pool(round, &id, object).await,
                    PoolObject::NodeGroup(object) => {
                        let began = Instant::now();
                        let kept = if pool.is_deleting() {
                            office.wind_up(round, &id, &object.metadata).await
                        } else {
                            office.keep_group(round, &id, object).await
                        };
                        let worked = kept.as_ref().map_or_else(Worked::Ill, |()| Worked::Well);
                        office.counts_work(Controller::NodeGroup, worked, began.elapsed());
                        kept
                    }
                };
            })
            .await;
        if !office.clouds.contains_key(&ClassKind::Vpsie) {
            return;
        }
        let staying = round.classes.iter().filter(|(_, class)| class.metadata.deletion_timestamp.is_none());
        stream::iter(staying)
            .for_each_concurrent(WRITES_AT_ONCE, async |(name, class)| {
                let _ = office.keep_class(round, name, class).await;
            })
            .await;
    }
}

impl Office {
    /// Whether it has drifted and is as large as its type, whether it may be consolidated, and when its pods last
    /// changed.
    async fn keep_claim(&self, round: &Round, claim: &Claim, changed: &[Text]) -> Result<(), Failure> {
        let Some(name) = claim.node() else { return Ok(()) };
        let Some(object) = watched::pool_of(&round.pools, claim) else { return Ok(()) };
        let Some((_, pool)) = claim.pool.as_deref().and_then(|name| round.pool(name)) else { return Ok(()) };
        let snapshot = &round.snapshot;
        let node = snapshot.nodes.binary_search_by(|node| (*node.name).cmp(name));
        let Some(node) = node.ok().and_then(|index| snapshot.nodes.get(index)) else { return Ok(()) };
        if node.state != NodeState::Running || claim.is_deleting() {
            return Ok(());
        }
        let now = self.now();
        let mut conditions = Conditions::of(&claim.conditions, now);
        let age_secs = claim.created.map_or(0, |created| secs_between(created, now));
        let now_stamp = stamp_of(object, round);
        let said = stamped(object.metadata());
        if let Some(stamp) = restamped(&claim.stamp, &said, &now_stamp, claim.holds("Drifted")) {
            let change = json!({ "metadata": { "annotations": stamping(&stamp) } });
            return Ok(self.desk.keep(&claim.path(), &claim.resource_version, change).await?);
        }
        // A pool without any types knows nothing, which is something else.
        let offered = |known: &InstanceType, name: &str| {
            *known.name == *name
                && node
                    .labels
                    .get(vpsie_names::OFFERING)
                    .is_none_or(|id| vpsie_names::has_offering(known, id))
        };
        let offers =
            |name: &str| pool.types.is_empty() || pool.types.iter().any(|known| offered(known, name));
        match drift(&claim.stamp, &now_stamp, &node.labels, age_secs, (&pool.requirements, &offers)) {
            Some(why) => conditions.set("Drifted", ConditionStatus::True, why.name(), &why.to_string()),
            None => conditions.remove("Drifted"),
        }
        let sold = node.labels.get(names::INSTANCE_TYPE);
        let sold = sold.and_then(|name| pool.types.iter().find(|known| known.name == *name));
        if let Some(sold) = sold.filter(|_| claim.dialect == Dialect::Karpenter) {
            match shortfall(&sold.capacity, &node.capacity) {
                Some(short) => {
                    conditions.set(CONSISTENT, ConditionStatus::False, INCONSISTENT, &short.to_string());
                }
                None => conditions.hold(CONSISTENT),
            }
        }
        let after = pool.disruption.consolidate_after_secs;
        let is_quiet = |after: u64| node.disruption.quiet_secs.is_none_or(|quiet| quiet >= after);
        if after.is_some_and(is_quiet) {
            conditions.hold("Consolidatable");
        } else {
            conditions.remove("Consolidatable");
        }
        // Nobody asks when pods came and went where nothing waits for that.
        let is_event = after.is_some_and(|secs| secs > 0) && changed.contains(&node.name);
        if !is_event && !conditions.has_changed() {
            return Ok(());
        }
        let news = News { pod_event: is_event.then_some(now), ..News::default() };
        self.write_status(claim, &conditions, &news).await
    }

    /// Writes the status of an object. One that is known to have changed since it was seen is looked at again.
    async fn write_status_of(
        &self,
        path: &str,
        metadata: &ObjectMeta,
        status: &impl Serialize,
    ) -> Result<(), Failure> {
        let seen = metadata.resource_version.as_deref().unwrap_or_default();
        if self.desk.is_behind(path, seen) {
            return Ok(());
        }
        Ok(self.desk.keep(&format!("{path}/status"), seen, json!({ "status": status })).await?)
    }
}

/// How many nodes a pool has, and what they have together.
fn holdings(round: &Round, pool: &PoolId) -> (i64, Resources) {
    let (mut nodes, mut resources) = (0_i64, Resources::new());
    for claim in round.claims.values().filter(|claim| claim.pool_id().as_ref() == Some(pool)) {
        nodes += 1;
        for (resource, amount) in claim.capacity.iter() {
            resources.set(resource, resources.get(resource).saturating_add(amount));
        }
    }
    if nodes > 0 {
        resources.set("nodes", Resources::amount_of("nodes", berth_core::units::Quantity::from_units(nodes)));
    }
    (nodes, resources)
}

/// What claims of a pool are stamped with now. A group's nodes are what they are.
fn stamp_of(pool: &PoolObject, round: &Round) -> Stamp {
    let class = pool.vpsie_class().and_then(|name| round.classes.get(name));
    match pool {
        PoolObject::NodePool(pool) => Stamp {
            class: class.map(|class| MachineSetup::of_class(class).digest().into()),
            ..claims::stamp_of(pool)
        },
        PoolObject::NodeGroup(_) => Stamp::default(),
    }
}

fn words_about(problems: &[Problem], object: &str) -> Option<String> {
    problems.iter().find(|problem| problem.object.as_deref() == Some(object)).map(Problem::words)
}

impl Round {
    /// What is wrong with an object, in words.
    fn problem_of(&self, kind: &str, namespace: &str, name: &str) -> Option<String> {
        words_about(&self.problems, &object_name(kind, namespace, name))
    }

    /// What is odd about it.
    fn remark_on(&self, kind: &str, namespace: &str, name: &str) -> Option<String> {
        words_about(&self.remarks, &object_name(kind, namespace, name))
    }

    /// A pool as it is written, and as it was read.
    pub(super) fn pool(&self, name: &str) -> Option<(&PoolObject, &Pool)> {
        let pools = &self.snapshot.pools;
        let read = pools.binary_search_by(|pool| (*pool.name).cmp(name)).ok()?;
        Some((self.pools.get(name)?, pools.get(read)?))
    }
}
