//! What whoever looks at a demo can do to its world.

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Control {
    Scale {
        namespace: String,
        name: String,
        replicas: u32,
    },
    /// So many of all machines on spot get notice.
    ReclaimSpot {
        percent: u32,
    },
    Cloud {
        broken: bool,
    },
    /// What spot costs, as a part of what it costs by the catalog.
    Price {
        percent: u32,
    },
    Speed {
        times: u32,
    },
}

/// How things stand that can be controlled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlsView {
    pub workloads: Vec<Workload>,
    pub price_percent: u32,
    pub cloud_broken: bool,
    pub speed: u32,
    pub speeds: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Workload {
    pub namespace: String,
    pub name: String,
    pub replicas: u32,
}

/// Why something that is wanted is not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Declined {
    Refused(String),
    /// There is nobody any more who could.
    Gone,
}

/// A wish, and where to say what became of it.
#[derive(Debug)]
pub struct Wish {
    pub wanted: Control,
    pub answer: oneshot::Sender<Result<(), String>>,
}

/// Where wishes go, and where to see how things stand. Whoever fulfils them may live in another runtime.
#[derive(Clone, Debug)]
pub struct Controls {
    pub state: watch::Receiver<ControlsView>,
    pub wishes: mpsc::Sender<Wish>,
}

impl Controls {
    pub(super) async fn ask(&self, wanted: Control) -> Result<(), Declined> {
        let (answer, answered) = oneshot::channel();
        self.wishes.send(Wish { wanted, answer }).await.map_err(|_| Declined::Gone)?;
        answered.await.map_err(|_| Declined::Gone)?.map_err(Declined::Refused)
    }
}
