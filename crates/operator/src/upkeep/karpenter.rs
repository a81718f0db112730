//! NodePools.

use berth_api::claims::{HASH_VERSION, POOL_HASH, POOL_HASH_VERSION, pool_hash};
use berth_api::resources::karpenter::NodePool;
use berth_api::resources::shared::ConditionStatus;
use berth_core::names::Text;
use berth_core::resources::Resources;
use serde_json::json;

use super::holdings;
use crate::conditions::Conditions;
use crate::dialect::{Dialect, PoolId};
use crate::life::Failure;
use crate::office::Office;
use crate::planning::Round;

impl Office {
    /// Its digest, what it has, and whether it can be bought from.
    pub(super) async fn keep_pool(
        &self,
        round: &Round,
        name: &Text,
        object: &NodePool,
    ) -> Result<(), Failure> {
        let id = PoolId { dialect: Dialect::Karpenter, namespace: Text::default(), name: name.clone() };
        let path = id.path();
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
            "status": { "nodes": nodes, "resources": written, "conditions": conditions.all() },
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
                let reason = refusal.reason.name();
                conditions.set("NodeClassReady", ConditionStatus::False, reason, &refusal.message);
            }
            None if pool.is_some() => conditions.hold("NodeClassReady"),
            None => conditions.set("NodeClassReady", ConditionStatus::Unknown, "NotValidated", ""),
        }
        let has_registered = round
            .claims
            .values()
            .any(|claim| claim.pool.as_deref() == Some(name) && claim.holds("Registered"));
        if has_registered {
            conditions.hold("NodeRegistrationHealthy");
        }
        conditions.settle(&["ValidationSucceeded", "NodeClassReady"]);
        conditions
    }
}
