//! The groups that servers are entered in, one for each pool: people find them by it at VPSie, and nothing else depends
//! on it.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_core::names::Text;
use tokio::time::{Instant, timeout};

use super::VpsieCloud;

/// No machine waits longer for its group.
const PATIENCE: Duration = Duration::from_secs(5);
/// An installation that has no groups, or did not tell of them, is asked again.
const AGAIN: Duration = Duration::from_mins(10);

#[derive(Debug, Default)]
pub(super) struct Entered {
    numbers: BTreeMap<Text, u64>,
    again_at: Option<Instant>,
}

impl VpsieCloud {
    /// The number of a pool's group, which is made if there is none. `None`: nobody knows, and what is bought is bought
    /// without one.
    pub(super) async fn group_of_servers(&self, path: &str, pool: &Text) -> Option<u64> {
        // Held while one asks: those who launch for the same pool wait for the same answer.
        let mut entered = self.entered.lock().await;
        if let Some(number) = entered.numbers.get(pool) {
            return Some(*number);
        }
        if entered.again_at.is_some_and(|at| Instant::now() < at) {
            return None;
        }
        let told = timeout(PATIENCE, self.client.server_group(path, &self.settings.cluster, pool)).await;
        if let Ok(Ok(number)) = told {
            entered.numbers.insert(pool.clone(), number);
            return Some(number);
        }
        if let Ok(Err(error)) = told {
            tracing::debug!("servers are bought without a group: {error}");
        }
        entered.again_at = Some(Instant::now() + AGAIN);
        None
    }
}
