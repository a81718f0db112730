//! What nodes use, by metrics.k8s.io, where a pool wants to know.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::resources::scalar::Amounts;
use berth_api::{Measured, Timestamp, UsageSample, UsageSamples};
use berth_core::names::Text;
use berth_core::resources::{CPU, MEMORY};
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use crate::cluster::Refused;
use crate::desk::Desk;
use crate::dialect::{Dialect, resources_of};
use crate::watched::Watched;

/// How often it is measured by most who measure it.
const LOOK_EVERY: Duration = Duration::from_mins(1);
const METRICS: &str = "/apis/metrics.k8s.io/v1beta1/nodes";
/// Of each node so many are kept: one for each minute of the longest window, an hour, with its beginning, and of the time in
/// which the last is still fresh.
const SAMPLES_MAX: usize = 60 + 1 + 5;

/// Until it is known whether anybody measures.
const LOOK_SOON: Duration = Duration::from_secs(1);
/// Whoever has neither measured nor said that it does not by then is not waited for: one that may not be asked never will,
/// and one that starts with the cluster has by then. Until it does, what pods ask for counts.
const WAITED_MAX: Duration = Duration::from_mins(2);

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

/// What is measured just now, for who looks once.
pub(crate) async fn measured_once(desk: &Desk) -> Result<Measured, Refused> {
    match desk.list::<NodeMetrics>(METRICS).await {
        Ok(nodes) => {
            let measurements = Measurements::default();
            measurements.take(nodes);
            Ok(match measurements.now() {
                Measured::Samples(samples) => Measured::Once(samples),
                other => other,
            })
        }
        Err(Refused { code: Some(404), .. }) => Ok(Measured::Never),
        Err(refused) => Err(refused),
    }
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
        let mut asked = None;
        loop {
            if watched.has_pools(Dialect::Vpsie) {
                let first = *asked.get_or_insert_with(Instant::now);
                match desk.list::<NodeMetrics>(METRICS).await {
                    Ok(nodes) => self.take(nodes),
                    Err(Refused { code: Some(404), .. }) => *self.measured() = Measured::Never,
                    Err(refused) if first.elapsed() >= WAITED_MAX && self.now() == Measured::NotYet => {
                        tracing::warn!(
                            "metrics.k8s.io tells nothing; what pods ask for counts instead: {refused}"
                        );
                        *self.measured() = Measured::Never;
                    }
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
            Measured::Never | Measured::NotYet | Measured::Once(_) => UsageSamples::new(),
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
    use axum::response::IntoResponse;
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
        for second in 2..=76 {
            measurements.take(vec![measured("a", second, "1500m")]);
        }
        let Measured::Samples(now) = measurements.now() else { panic!("something was measured") };
        assert_eq!(now.keys().map(|name| &**name).collect::<Vec<_>>(), ["a"]);
        let samples = &now["a"];
        assert_eq!((samples.len(), samples[0].at.as_second()), (SAMPLES_MAX, 11));
        assert_eq!((samples[0].cpu, samples[0].memory), (1500, 1024));
    }

    /// As `advise --cluster` and `explain --cluster` ask.
    #[tokio::test]
    async fn who_looks_once_hears_what_the_operator_hears() {
        let listed = json!({
            "kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {},
            "items": [{
                "metadata": { "name": "a" }, "timestamp": "2026-01-01T00:00:00Z", "window": "20s",
                "usage": { "cpu": "250m", "memory": "1Ki" },
            }],
        });
        let failed = |code: u16| {
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "no",
                "reason": "Forbidden", "code": code,
            })
        };
        for (code, body, expected) in [
            (200, listed, Ok("1 node")),
            (404, failed(404), Ok("nobody measures")),
            (403, failed(403), Err(Some(403))),
        ] {
            let answer = move || async move {
                (http::StatusCode::from_u16(code).unwrap(), body.to_string()).into_response()
            };
            let api = axum::Router::new().route(METRICS, axum::routing::get(answer));
            let cluster = crate::cluster::Cluster::through(kube::Client::new(api, "default"), "a test");
            let told = measured_once(&Desk::new(cluster)).await.map_err(|refused| refused.code);
            let words = told.map(|measured| match measured {
                Measured::Once(samples) if samples.len() == 1 => "1 node",
                Measured::Once(_) => "other nodes",
                Measured::Samples(_) => "by who goes on looking",
                Measured::Never => "nobody measures",
                Measured::NotYet => "nobody knows",
            });
            assert_eq!(words, expected, "{code}");
        }
    }
}
