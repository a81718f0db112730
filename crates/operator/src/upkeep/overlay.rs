//! NodeOverlays.

use berth_api::resources::karpenter::NodeOverlay;
use berth_api::resources::shared::ConditionStatus;
use berth_core::names::Text;
use serde_json::json;

use crate::conditions::Conditions;
use crate::dialect::OVERLAYS;
use crate::life::Failure;
use crate::office::Office;
use crate::planning::Round;

const VALIDATED: &str = "ValidationSucceeded";

impl Office {
    /// Whether it does what it says.
    pub(super) async fn keep_overlay(
        &self,
        round: &Round,
        name: &Text,
        object: &NodeOverlay,
    ) -> Result<(), Failure> {
        let existing = object.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let generation = object.metadata.generation;
        let mut conditions = Conditions::of_generation(existing, self.now(), generation);
        match (round.overlay_conflicts.get(name), round.problem_of("NodeOverlay", "", name)) {
            (Some(why), _) => conditions.set(VALIDATED, ConditionStatus::False, "Conflict", why),
            (None, Some(problem)) => {
                conditions.set(VALIDATED, ConditionStatus::False, "RuntimeValidation", &problem);
            }
            (None, None) => conditions.hold(VALIDATED),
        }
        conditions.settle(&[VALIDATED]);
        if !conditions.has_changed() {
            return Ok(());
        }
        let status = json!({ "conditions": conditions.all() });
        self.write_status_of(&format!("{OVERLAYS}/{name}"), &object.metadata, &status).await
    }
}
