//! All machines that ever were, and all that happened, in its order.

use std::sync::Arc;

use berth_cloud::machine::{Machine, MachineId, MachineState, Notice, Order};
use berth_cloud::provider::Refusal;
use berth_core::catalog::InstanceType;
use berth_core::names::{Labels, Text};
use berth_core::pod::Taint;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What a cloud is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Call {
    Launch,
    Get,
    List,
    Terminate,
    Catalog,
    Notices,
}

impl Call {
    pub fn name(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Get => "get",
            Self::List => "list",
            Self::Terminate => "terminate",
            Self::Catalog => "catalog",
            Self::Notices => "notices",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    pub at: Timestamp,
    pub event: Event,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The cloud was called. The refusal is what the caller is told: with `Unknown` it may have been done.
    Asked {
        call: Call,
        about: Option<Text>,
        refusal: Option<Refusal>,
    },
    Launched {
        machine: MachineId,
    },
    Runs {
        machine: MachineId,
    },
    /// Its kubelet registers a node.
    Joins(Registration),
    /// Its kubelet falls silent.
    Leaves {
        machine: MachineId,
        node: Text,
    },
    Noticed {
        notice: Notice,
        told: bool,
    },
    Ends {
        machine: MachineId,
        ending: Ending,
    },
}

/// What a kubelet registers its node with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    pub machine: MachineId,
    pub provider_id: Text,
    /// The name of the node, which is the machine's host name.
    pub node: Text,
    pub address: Option<Text>,
    pub instance_type: Arc<InstanceType>,
    /// Without the host name.
    pub labels: Arc<Labels>,
    pub taints: Arc<[Taint]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    Terminated,
    Reclaimed,
    /// It never ran.
    Stillborn,
}

/// A machine in truth, with what the cloud shows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub machine: Machine,
    /// `None`: it is a stranger's.
    pub purchase: Option<Purchase>,
    /// Its kubelet is in the cluster now, under this name.
    pub node: Option<Text>,
    /// When the cloud will end it by itself.
    pub doomed_at: Option<Timestamp>,
    /// Each time somebody had the cloud end it, whether or not anything came of it.
    pub terminations_asked: Vec<Timestamp>,
    pub ended: Option<(Timestamp, Ending)>,
    pub(super) shown: Shown,
    /// It has been told to end, and will.
    pub(super) ending: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purchase {
    /// Counted from 1, over all that were bought.
    pub number: u64,
    pub order: Order,
    pub instance_type: Arc<InstanceType>,
    pub hostname: Text,
}

/// What can be seen of a machine, and from when until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) named_from: Timestamp,
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
    /// As which it is shown once it is gone.
    pub(super) last_state: MachineState,
    pub(super) tagged: bool,
}

impl Record {
    /// The machine as `get` and `list` show it.
    pub(super) fn shown_at(&self, now: Timestamp) -> Option<Machine> {
        if now < self.shown.from || now >= self.shown.until {
            return None;
        }
        let mut machine = self.machine.clone();
        if machine.state == MachineState::Gone {
            machine.state = self.shown.last_state;
        }
        if !self.shown.tagged {
            machine.token = None;
            machine.tags = Labels::new();
        }
        Some(machine)
    }

    pub fn is_alive(&self) -> bool {
        self.machine.state != MachineState::Gone
    }
}
