//! Views for whoever looks: made when somebody does, once for all who do.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_api::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::controls::{Controls, ControlsView};
use crate::portrait::portrait;
use crate::report::Report;

/// No eye needs more.
const VIEWS_APART: Duration = Duration::from_millis(200);
/// A view of a large cluster is megabytes, and comes less often: so many bytes a second at most, for each visitor.
const BYTES_PER_SEC: u32 = 2_000_000;

#[derive(Debug)]
pub(super) struct Gallery {
    reports: watch::Receiver<Arc<Report>>,
    controls: Option<Controls>,
    last: Mutex<Option<Painted>>,
}

/// A view, and what it is a view of.
#[derive(Debug)]
struct Painted {
    report: Arc<Report>,
    controls: Option<ControlsView>,
    view: Arc<str>,
}

impl Gallery {
    pub(super) fn new(reports: watch::Receiver<Arc<Report>>, controls: Option<Controls>) -> Self {
        Self { reports, controls, last: Mutex::default() }
    }

    pub(super) fn controls(&self) -> Option<&Controls> {
        self.controls.as_ref()
    }

    /// The newest view as JSON; none before the first look.
    pub(super) fn view(&self) -> Option<Arc<str>> {
        let report = self.reports.borrow().clone();
        if report.at == Timestamp::default() {
            return None;
        }
        let controls = self.controls.as_ref().map(|controls| controls.state.borrow().clone());
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(painted) = &*last
            && Arc::ptr_eq(&painted.report, &report)
            && painted.controls == controls
        {
            return Some(painted.view.clone());
        }
        let view: Arc<str> = serde_json::to_string(&portrait(&report, controls.as_ref())).ok()?.into();
        *last = Some(Painted { report, controls, view: view.clone() });
        Some(view)
    }

    pub(super) fn visit(self: &Arc<Self>) -> Visit {
        let mut reports = self.reports.clone();
        // What is there already is news to who comes.
        reports.mark_changed();
        let controls = self.controls.as_ref().map(|controls| controls.state.clone());
        Visit { gallery: self.clone(), reports, controls, next: Instant::now() }
    }
}

/// Somebody who looks, view after view.
#[derive(Debug)]
pub(super) struct Visit {
    gallery: Arc<Gallery>,
    reports: watch::Receiver<Arc<Report>>,
    controls: Option<watch::Receiver<ControlsView>>,
    next: Instant,
}

impl Visit {
    /// The next view that differs, in its time. `None` once nobody looks at the cluster any more.
    pub(super) async fn next(&mut self) -> Option<Arc<str>> {
        loop {
            self.news().await?;
            sleep_until(self.next).await;
            self.reports.mark_unchanged();
            if let Some(controls) = &mut self.controls {
                controls.mark_unchanged();
            }
            let Some(view) = self.gallery.view() else { continue };
            let bytes = u32::try_from(view.len()).unwrap_or(u32::MAX);
            let apart = VIEWS_APART.max(Duration::from_secs(1) * bytes / BYTES_PER_SEC);
            self.next = Instant::now() + apart;
            return Some(view);
        }
    }

    async fn news(&mut self) -> Option<()> {
        let reports = self.reports.changed();
        match &mut self.controls {
            Some(controls) => tokio::select! {
                biased;
                report = reports => report.ok(),
                controls = controls.changed() => controls.ok(),
            },
            None => reports.await.ok(),
        }
    }
}
