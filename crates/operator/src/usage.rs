//! What nodes use, by metrics.k8s.io, where a pool wants to know.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::resources::scalar::Amounts;
use berth_api::{Measured, Timestamp, UsageSample, UsageSamples};
use berth_core::names::Text;
use berth_core::resources::{CPU, MEMORY};
use serde::Deserialize;
use tokio::time::sleep;

use crate::cluster::Refused;
use crate::desk::Desk;
use crate::dialect::{Dialect, resources_of};
use crate::watched::Watched;

/// How often it is measured by most who measure it.
const LOOK_EVERY: Duration = Duration::from_mins(1);
const METRICS: &str = "/apis/metrics.k8s.io/v1beta1/nodes";
/// Of each node so many are kept.
const SAMPLES_MAX: usize = 50;

/// Until it is known whether anybody measures.
const LOOK_SOON: Duration = Duration::from_secs(1);

/// What was measured. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Measurements {
    measured: Arc<Mutex<Measured>>,
}

impl Default for Measurements {
    fn default() -> Self {
        Self { measured: Arc::new(Mutex::new(Measured::NotYet)) }
    }
}

#[derive(Deserialize)]
struct NodeMetrics {
    metadata: Named,
    timestamp: Timestamp,
    usage: Amounts,
}

#[derive(Deserialize)]
struct Named {
    name: Text,
}

impl Measurements {
    fn measured(&self) -> MutexGuard<'_, Measured> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Measured {
        self.measured().clone()
    }

    /// Asks for as long as this lives. Who does not measure is asked again: somebody may begin to.
    pub(crate) async fn attend(self, desk: Desk, watched: Watched) {
        loop {
            if watched.has_pools(Dialect::Vpsie) {
                match desk.list::<NodeMetrics>(METRICS).await {
                    Ok(nodes) => self.take(nodes),
                    Err(Refused { code: Some(404), .. }) => *self.measured() = Measured::Never,
                    // What was measured grows old by itself.
                    Err(_) => {}
                }
                watched.wake();
            }
            let is_known = *self.measured() != Measured::NotYet;
            sleep(if is_known { LOOK_EVERY } else { LOOK_SOON }).await;
        }
    }

    fn take(&self, measured: Vec<NodeMetrics>) {
        let mut known = self.measured();
        let mut samples = match std::mem::take(&mut *known) {
            Measured::Samples(samples) => samples,
            Measured::Never | Measured::NotYet => UsageSamples::new(),
        };
        samples.retain(|name, _| measured.iter().any(|node| node.metadata.name == *name));
        for NodeMetrics { metadata, timestamp, usage } in measured {
            let used = resources_of(&usage);
            let sample = UsageSample { at: timestamp, cpu: used.get(CPU), memory: used.get(MEMORY) };
            let of_node = samples.entry(metadata.name).or_default();
            if of_node.last().is_none_or(|last| last.at < timestamp) {
                of_node.push(sample);
            }
            if of_node.len() > SAMPLES_MAX {
                of_node.remove(0);
            }
        }
        *known = Measured::Samples(samples);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn measured(name: &str, second: i64, cpu: &str) -> NodeMetrics {
        let timestamp = Timestamp::from_second(second).unwrap();
        serde_json::from_value(json!({
            "metadata": { "name": name }, "timestamp": timestamp, "window": "20s",
            "usage": { "cpu": cpu, "memory": "1Ki" },
        }))
        .unwrap()
    }

    #[test]
    fn each_measurement_counts_once_and_those_of_nodes_that_are_gone_do_not() {
        let measurements = Measurements::default();
        measurements.take(vec![measured("a", 1, "250m"), measured("b", 1, "1")]);
        measurements.take(vec![measured("a", 1, "250m")]);
        for second in 2..=60 {
            measurements.take(vec![measured("a", second, "1500m")]);
        }
        let Measured::Samples(now) = measurements.now() else { panic!("something was measured") };
        assert_eq!(now.keys().map(|name| &**name).collect::<Vec<_>>(), ["a"]);
        let samples = &now["a"];
        assert_eq!((samples.len(), samples[0].at.as_second()), (SAMPLES_MAX, 11));
        assert_eq!((samples[0].cpu, samples[0].memory), (1500, 1024));
    }
}
