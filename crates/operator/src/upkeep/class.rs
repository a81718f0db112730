//! VPSieNodeClasses.

use berth_api::resources::berth::VPSieNodeClass;
use berth_api::resources::shared::ConditionStatus;
use berth_core::names::Text;
use berth_core::reason::Reason;
use serde_json::json;

use crate::conditions::Conditions;
use crate::dialect::VPSIE_CLASSES;
use crate::life::Failure;
use crate::office::Office;
use crate::planning::Round;

impl Office {
    /// Whether it can be bought from.
    pub(super) async fn keep_class(
        &self,
        round: &Round,
        name: &Text,
        object: &VPSieNodeClass,
    ) -> Result<(), Failure> {
        let existing = object.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let mut conditions = Conditions::of(existing, self.now());
        match round.unfit_classes.get(name) {
            None => conditions.hold("Ready"),
            Some(refusal) => {
                // Without a catalog nobody knows.
                let status = match refusal.reason {
                    Reason::PoolNotReady => ConditionStatus::Unknown,
                    _ => ConditionStatus::False,
                };
                conditions.set("Ready", status, refusal.reason.name(), &refusal.message);
            }
        }
        if !conditions.has_changed() {
            return Ok(());
        }
        let status = json!({ "conditions": conditions.all() });
        self.write_status_of(&format!("{VPSIE_CLASSES}/{name}"), &object.metadata, &status).await
    }
}
