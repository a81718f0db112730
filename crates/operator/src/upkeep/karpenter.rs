//! NodePools.

use berth_api::ClassKind;
use berth_api::claims::{stamp_of, stamped, stamping};
use berth_api::resources::karpenter::NodePool;
use berth_api::resources::shared::ConditionStatus;
use berth_core::names::Text;
use berth_core::reason::{Reason, Refusal};
use berth_core::resources::Resources;
use serde_json::json;

use super::holdings;
use crate::conditions::{Conditions, REGISTRATION_HEALTHY};
use crate::dialect::PoolId;
use crate::joining::Joining;
use crate::life::Failure;
use crate::office::Office;
use crate::planning::Round;

impl Office {
    /// Its digest, what it has, and whether it can be bought from.
    pub(super) async fn keep_pool(
        &self,
        round: &Round,
        id: &PoolId,
        object: &NodePool,
    ) -> Result<(), Failure> {
        let path = id.path();
        let stamp = stamp_of(object);
        if stamped(&object.metadata) != stamp {
            // All else is said once that is seen.
            let seen = object.metadata.resource_version.as_deref().unwrap_or_default();
            let change = json!({ "metadata": { "annotations": stamping(&stamp) } });
            return Ok(self.desk.keep(&path, seen, change).await?);
        }
        let status = object.status.clone().unwrap_or_default();
        let class = &object.spec.template.spec.node_class_ref;
        let class = ClassKind::of(class).map(|kind| (kind, Text::from(class.name.as_str())));
        let class_generation = class.and_then(|class| round.generations.get(&class)).copied();
        let conditions = self.pool_conditions(round, &id.name, object, class_generation);
        let is_of_class =
            class_generation.is_none() || status.node_class_observed_generation == class_generation;
        let (nodes, resources) = holdings(round, id);
        let mut known = Resources::new();
        for (resource, amount) in &status.resources {
            known.set(resource, Resources::amount_of(resource, amount.get()));
        }
        if !conditions.has_changed() && is_of_class && status.nodes == nodes && known == resources {
            return Ok(());
        }
        let mut written = berth_api::claims::amounts(&resources);
        // What is no longer there has to be taken away by name.
        if let Some(fields) = written.as_object_mut() {
            for (resource, _) in known.iter().filter(|(resource, _)| resources.get(resource) == 0) {
                fields.insert(resource.to_string(), serde_json::Value::Null);
            }
        }
        let mut status = json!({ "nodes": nodes, "resources": written, "conditions": conditions.all() });
        if let Some(generation) = class_generation {
            status["nodeClassObservedGeneration"] = json!(generation);
        }
        self.write_status_of(&path, &object.metadata, &status).await
    }

    fn pool_conditions(
        &self,
        round: &Round,
        name: &Text,
        object: &NodePool,
        class_generation: Option<i64>,
    ) -> Conditions {
        let existing = object.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let generation = object.metadata.generation;
        let mut conditions = Conditions::of_generation(existing, self.now(), generation);
        let pool = round.pool(name).map(|(_, pool)| pool);
        // What a pool has committed itself to is no matter of its class.
        let is_of_ledger = |refusal: &&Refusal| refusal.reason == Reason::LedgerUnreadable;
        let blocked = pool.and_then(|pool| pool.blocked.as_ref());
        let (unread, unfit) = (blocked.filter(is_of_ledger), blocked.filter(|why| !is_of_ledger(why)));
        match (pool, round.problem_of("NodePool", "", name)) {
            (None, Some(words)) => {
                conditions.set(
                    "ValidationSucceeded",
                    ConditionStatus::False,
                    "NodePoolValidationFailed",
                    &words,
                );
            }
            _ => conditions.hold("ValidationSucceeded"),
        }
        match unfit {
            Some(refusal) => {
                let reason = refusal.reason.name();
                conditions.set("NodeClassReady", ConditionStatus::False, reason, &refusal.message);
            }
            None if pool.is_some() => conditions.hold("NodeClassReady"),
            None => conditions.set("NodeClassReady", ConditionStatus::Unknown, "NotValidated", ""),
        }
        if let Some(class_generation) = class_generation {
            let now = (generation, class_generation);
            let mut joining = self.joining();
            if !joining.get(name).is_some_and(|known| known.is_of(now)) {
                let said = existing.iter().find(|condition| condition.type_ == REGISTRATION_HEALTHY);
                let of_pool = said.and_then(|condition| condition.observed_generation);
                let of_class =
                    object.status.as_ref().and_then(|status| status.node_class_observed_generation);
                joining.insert(name.clone(), Joining::told(said, (of_pool, of_class), now));
            }
            if let Some(of_pool) = joining.get(name) {
                of_pool.tell(&mut conditions);
            }
        }
        match unread {
            Some(Refusal { reason, message }) => {
                conditions.set("Ready", ConditionStatus::False, reason.name(), message);
            }
            None => conditions.settle(&["ValidationSucceeded", "NodeClassReady"]),
        }
        conditions
    }
}
