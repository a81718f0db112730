//! What others ask of a running operator: whether it is alive, whether it is ready, and its numbers.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{StatusCode, header};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::metrics::{CONTENT_TYPE, Metrics};
use crate::report::Report;
use crate::webhook::Readiness;

/// An operator that has not ended a look at the cluster for so long does not make progress any more. A look waits for
/// clouds and for the API, each with a limit of a minute or less, and plans for seconds.
pub const PROGRESS_MAX: Duration = Duration::from_mins(5);

/// `/healthz` and `/readyz`; where there is a webhook, it has to be ready too.
pub fn health_router(reports: watch::Receiver<Arc<Report>>, webhook: Option<Readiness>) -> Router {
    let health = Health { reports, webhook, began: Instant::now() };
    Router::new()
        .route("/healthz", get(async |State(health): State<Health>| answer(health.alive())))
        .route("/readyz", get(async |State(health): State<Health>| answer(health.ready())))
        .with_state(health)
}

/// `/metrics`. `lease` is the name of the lease by which it is decided who leads.
pub fn metrics_router(metrics: Metrics, reports: watch::Receiver<Arc<Report>>, lease: &str) -> Router {
    let lease: Arc<str> = lease.into();
    let scrape = async move || {
        let report = reports.borrow().clone();
        ([(header::CONTENT_TYPE, CONTENT_TYPE)], metrics.scrape(&report, &lease))
    };
    Router::new().route("/metrics", get(scrape))
}

#[derive(Clone, Debug)]
struct Health {
    reports: watch::Receiver<Arc<Report>>,
    webhook: Option<Readiness>,
    began: Instant,
}

impl Health {
    /// Whether the loop still goes round.
    fn alive(&self) -> Result<String, String> {
        let silence = self.reports.borrow().finished.unwrap_or(self.began).elapsed();
        let said = format!("the last look at the cluster ended {} s ago", silence.as_secs());
        if silence <= PROGRESS_MAX { Ok(said) } else { Err(said) }
    }

    /// Whether everything has been seen once. What is not seen later keeps it from taking nodes away, but another
    /// replica would not see it either.
    fn ready(&self) -> Result<String, String> {
        let unheard = self.webhook.as_ref().and_then(|webhook| webhook.borrow().clone());
        let mut troubles: Vec<String> = unheard.into_iter().collect();
        let report = self.reports.borrow();
        if !report.has_seen_all {
            troubles.extend(report.blind_spots.iter().map(ToString::to_string));
            if report.blind_spots.is_empty() {
                troubles.push("the cluster has not been looked at yet".to_owned());
            }
        }
        if troubles.is_empty() {
            // By its last answer: VPSie is not asked for this. A replica that cannot reach it is as good as any other.
            let of_vpsie = match &report.vpsie {
                Some(Ok(())) => "\nVPSie answers".to_owned(),
                Some(Err(why)) => format!("\nVPSie does not: {why}"),
                None => String::new(),
            };
            let said = format!("all that is watched has been seen{of_vpsie}");
            let lines = [said].into_iter().chain(report.troubles.iter().map(ToString::to_string));
            Ok(lines.collect::<Vec<_>>().join("\n"))
        } else {
            Err(troubles.join("\n"))
        }
    }
}

fn answer(health: Result<String, String>) -> Response {
    let (status, said) = match health {
        Ok(said) => (StatusCode::OK, said),
        Err(said) => (StatusCode::SERVICE_UNAVAILABLE, said),
    };
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{said}\n")).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use berth_cloud::provider::Trouble;

    use super::*;
    use crate::watched::BlindSpot;

    #[tokio::test(start_paused = true)]
    async fn health_follows_reports() {
        let reports = watch::Sender::new(Arc::new(Report::default()));
        let webhook = watch::Sender::new(None);
        let health = Health {
            reports: reports.subscribe(),
            webhook: Some(webhook.subscribe()),
            began: Instant::now(),
        };
        assert!(health.alive().is_ok(), "it has had no time yet");
        assert_eq!(health.ready(), Err("the cluster has not been looked at yet".to_owned()));
        tokio::time::advance(PROGRESS_MAX + Duration::from_secs(1)).await;
        assert_eq!(health.alive(), Err("the last look at the cluster ended 301 s ago".to_owned()));

        let spot = BlindSpot { plural: "pods", why: "not all are known: forbidden".to_owned() };
        let half = Report { finished: Some(Instant::now()), blind_spots: vec![spot], ..Report::default() };
        reports.send_replace(Arc::new(half.clone()));
        assert!(health.alive().is_ok());
        assert_eq!(health.ready(), Err("pods: not all are known: forbidden".to_owned()));

        // Once is enough.
        reports.send_replace(Arc::new(Report { has_seen_all: true, ..half }));
        assert!(health.ready().is_ok());
        webhook.send_replace(Some("the webhook does not answer: no file".to_owned()));
        assert_eq!(health.ready(), Err("the webhook does not answer: no file".to_owned()));
        webhook.send_replace(None);
        assert!(health.ready().is_ok());
        let silent =
            Report { vpsie: Some(Err("it is down".to_owned())), ..reports.borrow().as_ref().clone() };
        reports.send_replace(Arc::new(silent));
        let said = "all that is watched has been seen\nVPSie does not: it is down".to_owned();
        assert_eq!(health.ready(), Ok(said), "it is told, and keeps nobody from being ready");
        let troubles = BTreeSet::from([Trouble::Unreadable("an offer".to_owned())]);
        let odd = Report { vpsie: Some(Ok(())), troubles, ..reports.borrow().as_ref().clone() };
        reports.send_replace(Arc::new(odd));
        let said =
            "all that is watched has been seen\nVPSie answers\nleft out, because it cannot be read: an offer";
        assert_eq!(health.ready(), Ok(said.to_owned()));
        // A loop that is blocked.
        tokio::time::advance(PROGRESS_MAX + Duration::from_secs(1)).await;
        assert!(health.alive().is_err());
    }
}
