//! What the clouds are asked, each thing in its time.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_cloud::machine::{MachineId, Notice, NoticeKind};
use berth_cloud::provider::list_all;
use tokio::time::{Instant, timeout};

use crate::machines::Machines;
use crate::operator::{Operator, is_due};

const NOTICES_EVERY: Duration = Duration::from_secs(5);
const MACHINES_EVERY: Duration = Duration::from_mins(1);
const CATALOG_EVERY: Duration = Duration::from_mins(1);
/// A cloud that takes longer is not waited for.
const CLOUD_ANSWER_MAX: Duration = Duration::from_secs(30);

impl Operator {
    /// Asks each cloud for what is due.
    pub(crate) async fn ask_clouds(&mut self) {
        let clouds = self.office.clouds.clone();
        if is_due(self.asked.catalogs, CATALOG_EVERY) {
            for (kind, cloud) in &clouds {
                if let Ok(Ok(catalog)) = timeout(CLOUD_ANSWER_MAX, cloud.catalog()).await {
                    self.catalogs.insert(*kind, catalog);
                    self.asked.catalogs = Some(Instant::now());
                }
            }
        }
        if is_due(self.asked.notices, NOTICES_EVERY) {
            self.asked.notices = Some(Instant::now());
            for cloud in clouds.values() {
                if let Ok(Ok(notices)) = timeout(CLOUD_ANSWER_MAX, cloud.notices()).await {
                    let ends = |notice: &Notice| notice.kind != NoticeKind::Rebalance;
                    self.interrupted.extend(notices.into_iter().filter(ends).map(|notice| notice.machine));
                }
            }
        }
        if is_due(self.asked.machines, MACHINES_EVERY) {
            self.asked.machines = Some(Instant::now());
            for (kind, cloud) in &clouds {
                if let Ok(listing) = timeout(CLOUD_ANSWER_MAX, list_all(&**cloud)).await {
                    self.office.machines().entry(*kind).or_default().listed(listing);
                }
            }
            // Of machines that are gone nobody speaks any more.
            let known: BTreeSet<MachineId> =
                self.office.machines().values().flat_map(Machines::ids).collect();
            self.interrupted.retain(|id| known.contains(id));
        }
    }
}
