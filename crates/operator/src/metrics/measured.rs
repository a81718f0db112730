//! A cloud whose answers are timed and counted.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::ClassKind;
use berth_cloud::Cloud;
use berth_cloud::machine::{Machine, MachineId, Note, Notice, Order};
use berth_cloud::provider::{Answer, Launched, Page, PageMark, Refusal, Trouble};
use berth_core::catalog::Catalog;
use berth_core::names::Text;
use tokio::time::Instant;

use super::Metrics;
use super::table::{CLOUD_DURATION, CLOUD_ERRORS};
use crate::office::Clouds;

pub(crate) fn measured(clouds: Clouds, metrics: &Metrics) -> Clouds {
    let measure = |(kind, cloud)| {
        let measured: Arc<dyn Cloud> =
            Arc::new(Measured { cloud, provider: provider(kind), metrics: metrics.clone() });
        (kind, measured)
    };
    clouds.into_iter().map(measure).collect()
}

fn provider(kind: ClassKind) -> &'static str {
    match kind {
        ClassKind::Kwok => "kwok",
        ClassKind::Ec2 => "aws",
        ClassKind::Vpsie => "vpsie",
        ClassKind::Gardener => "gardener",
    }
}

fn error(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Unavailable(_) => "InsufficientCapacityError",
        Refusal::Throttled { .. } => "Throttled",
        Refusal::NotFound(_) => "NodeClaimNotFoundError",
        Refusal::Invalid(_) => "Invalid",
        Refusal::Denied(_) => "Denied",
        Refusal::Unknown(_) => "Unknown",
    }
}

#[derive(Debug)]
struct Measured {
    cloud: Arc<dyn Cloud>,
    provider: &'static str,
    metrics: Metrics,
}

impl Measured {
    /// Under the names that Karpenter has for what is asked.
    fn timed<'a, T: 'a>(&'a self, method: &'static str, answer: Answer<'a, T>) -> Answer<'a, T> {
        Box::pin(async move {
            let began = Instant::now();
            let answer = answer.await;
            self.metrics.took(CLOUD_DURATION, [self.provider, method], began.elapsed());
            if let Err(refusal) = &answer {
                self.metrics.count(CLOUD_ERRORS, [self.provider, method, error(refusal)]);
            }
            answer
        })
    }
}

impl Cloud for Measured {
    fn prepare<'a>(&'a self, order: &'a Order) -> Answer<'a, Option<Note>> {
        self.timed("Prepare", self.cloud.prepare(order))
    }

    fn launch<'a>(&'a self, order: &'a Order) -> Answer<'a, Launched> {
        self.timed("Create", self.cloud.launch(order))
    }

    fn get<'a>(&'a self, id: &'a MachineId) -> Answer<'a, Machine> {
        self.timed("Get", self.cloud.get(id))
    }

    fn list<'a>(&'a self, from: Option<&'a PageMark>) -> Answer<'a, Page> {
        self.timed("List", self.cloud.list(from))
    }

    fn terminate<'a>(&'a self, id: &'a MachineId) -> Answer<'a, ()> {
        self.timed("Delete", self.cloud.terminate(id))
    }

    fn catalog(&self) -> Answer<'_, Arc<Catalog>> {
        self.timed("GetInstanceTypes", self.cloud.catalog())
    }

    fn serve(&self, zones: &BTreeSet<Text>) {
        self.cloud.serve(zones);
    }

    fn sets_up(&self) -> bool {
        self.cloud.sets_up()
    }

    fn troubles(&self) -> BTreeSet<Trouble> {
        self.cloud.troubles()
    }

    fn notices(&self) -> Answer<'_, Vec<Notice>> {
        self.timed("Notices", self.cloud.notices())
    }
}
