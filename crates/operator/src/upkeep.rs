//! What claims and pools say of themselves, kept true.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use berth_api::claims::{HASH_VERSION, POOL_HASH, POOL_HASH_VERSION, pool_hash};
use berth_api::resources::karpenter::{NodeClaim, NodePool};
use berth_api::resources::shared::ConditionStatus;
use berth_core::drift::{Stamp, drift};
use berth_core::names::Text;
use berth_core::node::NodeState;
use berth_core::pool::Pool;
use berth_core::resources::Resources;
use berth_core::snapshot::Snapshot;
use futures::{StreamExt, stream};
use serde_json::json;
use tokio::time::Instant;

use crate::buy::{WRITES_AT_ONCE, capacity_of};
use crate::conditions::{Conditions, whole};
use crate::desk::POOLS;
use crate::life::{Failure, path_of};
use crate::office::Office;
use crate::operator::Operator;
use crate::planning::Round;
use crate::sight::{conditions_of, pool_of, secs_between};

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
}

impl Operator {
    pub(crate) async fn keep_up(&mut self, round: &Round) {
        let changed = self.tenancies.changed(&round.snapshot);
        let office = &self.office;
        stream::iter(round.claims.values())
            .for_each_concurrent(WRITES_AT_ONCE, async |claim| {
                // What is not written now is written next time.
                let _ = office.keep_claim(round, claim, &changed).await;
            })
            .await;
        stream::iter(&round.pools)
            .for_each_concurrent(WRITES_AT_ONCE, async |(name, pool)| {
                let _ = office.keep_pool(round, name, pool).await;
            })
            .await;
    }
}

impl Office {
    /// Whether it has drifted, whether it may be consolidated, and when its pods last changed.
    async fn keep_claim(&self, round: &Round, claim: &NodeClaim, changed: &[Text]) -> Result<(), Failure> {
        let Some(status) = claim.status.as_ref().filter(|status| !status.node_name.is_empty()) else {
            return Ok(());
        };
        let Some((object, pool)) = pool_of(claim).and_then(|name| round.pool(name)) else { return Ok(()) };
        let snapshot = &round.snapshot;
        let node = snapshot.nodes.binary_search_by(|node| (*node.name).cmp(&status.node_name));
        let Some(node) = node.ok().and_then(|index| snapshot.nodes.get(index)) else { return Ok(()) };
        if node.state != NodeState::Running || claim.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let now = self.now();
        let mut conditions = Conditions::of(conditions_of(claim), now);
        let age_secs = claim.metadata.creation_timestamp.as_ref().map_or(0, |time| secs_between(time.0, now));
        let now_stamp = Stamp { hash: Some(pool_hash(object).into()), version: Some(HASH_VERSION.into()) };
        // A pool without any types knows nothing, which is something else.
        let offers =
            |name: &str| pool.types.is_empty() || pool.types.iter().any(|known| *known.name == *name);
        match drift(&stamp_of(claim), &now_stamp, &node.labels, age_secs, (&pool.requirements, &offers)) {
            Some(why) => conditions.set("Drifted", ConditionStatus::True, why.name(), &why.to_string()),
            None => conditions.remove("Drifted"),
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
        let mut status = json!({ "conditions": conditions.written() });
        if is_event {
            status["lastPodEventTime"] = json!(whole(now));
        }
        let change = json!({
            "metadata": { "resourceVersion": claim.metadata.resource_version }, "status": status,
        });
        self.desk.patch(&format!("{}/status", path_of(claim)), &change).await?;
        Ok(())
    }

    /// Its digest, what it has, and whether it can be bought from.
    async fn keep_pool(&self, round: &Round, name: &Text, object: &NodePool) -> Result<(), Failure> {
        if object.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let path = format!("{POOLS}/{name}");
        let annotations = object.metadata.annotations.clone().unwrap_or_default();
        let hash = pool_hash(object);
        let is_stamped = annotations.get(POOL_HASH) == Some(&hash)
            && annotations.get(POOL_HASH_VERSION).is_some_and(|version| version == HASH_VERSION);
        if !is_stamped {
            let change = json!({ "metadata": {
                "uid": object.metadata.uid,
                "annotations": { POOL_HASH: hash, POOL_HASH_VERSION: HASH_VERSION },
            } });
            self.desk.patch(&path, &change).await?;
        }
        let status = object.status.clone().unwrap_or_default();
        let conditions = self.pool_conditions(round, name, object);
        let (nodes, resources) = holdings(round, name);
        let mut known = Resources::new();
        for (resource, amount) in &status.resources {
            known.set(resource, Resources::amount_of(resource, amount.get()));
        }
        if !conditions.has_changed() && status.nodes == nodes && known == resources {
            return Ok(());
        }
        let mut written = berth_api::claims::amounts(&resources);
        // What is no longer there has to be taken away by name.
        if let Some(fields) = written.as_object_mut() {
            for (resource, _) in known.iter().filter(|(resource, _)| resources.get(resource) == 0) {
                fields.insert(resource.to_string(), serde_json::Value::Null);
            }
        }
        let change = json!({
            "metadata": { "uid": object.metadata.uid },
            "status": { "nodes": nodes, "resources": written, "conditions": conditions.written() },
        });
        self.desk.patch(&format!("{path}/status"), &change).await?;
        Ok(())
    }

    fn pool_conditions(&self, round: &Round, name: &str, object: &NodePool) -> Conditions {
        let existing = object.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let mut conditions = Conditions::of(existing, self.now());
        let pool = round.pool(name).map(|(_, pool)| pool);
        let about = format!("NodePool/{name}");
        let problem = round.problems.iter().find(|problem| problem.object.as_deref() == Some(&*about));
        let blocked = pool.and_then(|pool| pool.blocked.as_ref());
        match (pool, problem) {
            (None, Some(problem)) => {
                let words = problem.words();
                conditions.set(
                    "ValidationSucceeded",
                    ConditionStatus::False,
                    "NodePoolValidationFailed",
                    &words,
                );
            }
            _ => conditions.hold("ValidationSucceeded"),
        }
        match blocked {
            Some(refusal) => {
                let (status, reason) = (ConditionStatus::False, "NodeClassNotReady");
                conditions.set("NodeClassReady", status, reason, &refusal.message);
            }
            None if pool.is_some() => conditions.hold("NodeClassReady"),
            None => conditions.set("NodeClassReady", ConditionStatus::Unknown, "NotValidated", ""),
        }
        let has_registered = round.claims.values().any(|claim| {
            pool_of(claim) == Some(name)
                && berth_api::resources::shared::is_true(conditions_of(claim), "Registered")
        });
        if has_registered {
            conditions.hold("NodeRegistrationHealthy");
        }
        conditions.settle(&["ValidationSucceeded", "NodeClassReady"]);
        conditions
    }
}

/// How many nodes a pool has, and what they have together.
fn holdings(round: &Round, pool: &str) -> (i64, Resources) {
    let (mut nodes, mut resources) = (0_i64, Resources::new());
    for claim in round.claims.values().filter(|claim| pool_of(claim) == Some(pool)) {
        nodes += 1;
        for (resource, amount) in capacity_of(claim).iter() {
            resources.set(resource, resources.get(resource).saturating_add(amount));
        }
    }
    if nodes > 0 {
        resources.set("nodes", Resources::amount_of("nodes", berth_core::units::Quantity::from_units(nodes)));
    }
    (nodes, resources)
}

fn stamp_of(claim: &NodeClaim) -> Stamp {
    let annotation = |key: &str| {
        let annotations = claim.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(key)).map(|value| Text::from(value.as_str()))
    };
    Stamp { hash: annotation(POOL_HASH), version: annotation(POOL_HASH_VERSION) }
}

impl Round {
    /// A pool as it is written, and as it was read.
    fn pool(&self, name: &str) -> Option<(&NodePool, &Pool)> {
        let pools = &self.snapshot.pools;
        let read = pools.binary_search_by(|pool| (*pool.name).cmp(name)).ok()?;
        Some((self.pools.get(name)?, pools.get(read)?))
    }
}
