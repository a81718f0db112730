//! How kubelets behave, and who changes that: tests, faults and the cloud.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_cloud::machine::MachineId;
use berth_core::names;
use jiff::{SignedDuration, Timestamp};

use crate::api::{Act, Api};
use crate::clock::lot_of;
use crate::cloud::{Event, Registration, SimulatedCloud};
use crate::failure::{Failure, Reason};
use crate::json::{self, Map, Value, json};
use crate::store::Key;

/// The kubelets of a world. Every node has one; clones are the same kubelets.
#[derive(Clone, Debug)]
pub struct Kubelets {
    api: Api,
    plan: Arc<Mutex<Plan>>,
}

impl Registration {
    /// The Node that a machine's kubelet makes of it.
    pub fn node(&self) -> serde_json::Value {
        let mut node = serde_json::Value::from(&node(self));
        node["apiVersion"] = "v1".into();
        node["kind"] = "Node".into();
        node
    }
}

fn node(machine: &Registration) -> Value {
    let taints = machine.taints.iter().map(|taint| {
        let mut shown = json!({ "key": &*taint.key, "effect": taint.effect.name() });
        if !taint.value.is_empty() {
            shown["value"] = json!(&*taint.value);
        }
        shown
    });
    let labels: Map =
        machine.labels.iter().map(|(name, value)| (name.to_string(), json!(&**value))).collect();
    let kind = &machine.instance_type;
    let is = |label: &str| kind.labels.get(label).map_or("", |value| &**value);
    let mut object = json!({
        "metadata": { "name": &*machine.node, "labels": labels },
        "spec": { "taints": taints.collect::<Vec<_>>() },
        "status": {
            "capacity": json::written(&kind.capacity), "allocatable": json::written(&kind.allocatable()),
            "nodeInfo": { "architecture": is(names::ARCH), "operatingSystem": is(names::OS) },
        },
    });
    if !machine.provider_id.is_empty() {
        object["spec"]["providerID"] = json!(&*machine.provider_id);
    }
    if let Some(address) = &machine.address {
        object["status"]["addresses"] = json!([{ "type": "InternalIP", "address": &**address }]);
    }
    object
}

impl Kubelets {
    pub(crate) fn new(api: Api) -> Self {
        Self { api, plan: Arc::default() }
    }

    pub(crate) fn plan(&self) -> Arc<Mutex<Plan>> {
        self.plan.clone()
    }

    /// Registers a machine as a node, whose kubelet works from then on. If there is a node of its name, it is that.
    pub async fn register(&self, machine: &Registration) -> Result<(), Failure> {
        self.behave(&machine.node, Manner::Well);
        match self.api.act("kubelet", Act::Create("nodes", node(machine))).await {
            Err(failure) if failure.reason != Reason::AlreadyExists => Err(failure),
            _ => Ok(()),
        }
    }

    /// Runs kubelets on a cloud's machines as they join and leave, for as long as this is awaited.
    pub async fn live_on(&self, cloud: &SimulatedCloud) {
        let mut happenings = cloud.happenings();
        let mut nodes: BTreeMap<MachineId, String> = BTreeMap::new();
        loop {
            match happenings.next().await.event {
                Event::Joins(machine) => {
                    nodes.insert(machine.machine.clone(), machine.node.to_string());
                    // Who is refused is a machine without a node, and nothing else comes of it.
                    self.register(&machine).await.unwrap_or_default();
                }
                Event::Leaves { node, .. } => self.silence(&node),
                Event::Ends { machine, .. } => {
                    let node = nodes.remove(&machine);
                    // Another may have come under its name.
                    if let Some(node) = node.filter(|node| !nodes.values().any(|other| other == node)) {
                        self.lose(&node);
                    }
                }
                Event::Asked { .. } | Event::Launched { .. } | Event::Runs { .. } | Event::Noticed { .. } => {
                }
            }
        }
    }

    /// From now on a kubelet says nothing and does nothing, though its pods may go on running.
    pub fn silence(&self, node: &str) {
        self.behave(node, Manner::Silent);
    }

    /// The machine is no more: neither is its kubelet, and the cloud says so to whoever asks.
    pub fn lose(&self, node: &str) {
        self.behave(node, Manner::Lost);
    }

    /// The kubelet works as it should, and sees to what has happened meanwhile.
    pub fn revive(&self, node: &str) {
        self.behave(node, Manner::Well);
    }

    /// The kubelet works, but never says that its node is ready.
    pub fn never_ready(&self, node: &str) {
        self.behave(node, Manner::NeverReady);
    }

    /// The node is ready for so long, then not ready for as long, and so on.
    pub fn flap(&self, node: &str, every: Duration) {
        let every = SignedDuration::try_from(every).unwrap_or(SignedDuration::MAX);
        self.behave(node, Manner::Flapping(every.max(SignedDuration::from_secs(1))));
    }

    /// How long containers take to start, at least and at most: which of it, each pod's uid decides.
    pub fn start_within(&self, least: Duration, most: Duration) {
        let signed = |duration| SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
        let mut plan = locked(&self.plan);
        plan.start = (signed(least), signed(most.max(least)));
    }

    fn behave(&self, node: &str, manner: Manner) {
        let mut plan = locked(&self.plan);
        plan.manners.insert(node.to_owned(), manner);
        plan.stirred.insert(node.to_owned());
        drop(plan);
        self.api.state().store.nudge();
    }
}

/// A plan that somebody left in a panic is as whole as any.
pub(crate) fn locked(plan: &Mutex<Plan>) -> MutexGuard<'_, Plan> {
    plan.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How one kubelet behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Manner {
    #[default]
    Well,
    Silent,
    /// Silent, because there is no machine.
    Lost,
    NeverReady,
    Flapping(SignedDuration),
}

#[derive(Debug)]
pub(crate) struct Plan {
    /// How long containers take to start, at least and at most.
    start: (SignedDuration, SignedDuration),
    /// By node; who is not there does well.
    manners: BTreeMap<String, Manner>,
    /// Nodes whose kubelets have changed their manner.
    stirred: BTreeSet<String>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            start: (SignedDuration::from_secs(1), SignedDuration::from_secs(3)),
            manners: BTreeMap::new(),
            stirred: BTreeSet::new(),
        }
    }
}

impl Plan {
    pub(crate) fn manner(&self, node: &str) -> Manner {
        self.manners.get(node).copied().unwrap_or_default()
    }

    pub(crate) fn is_silent(&self, node: &str) -> bool {
        matches!(self.manner(node), Manner::Silent | Manner::Lost)
    }

    pub(crate) fn is_lost(&self, node: &str) -> bool {
        self.manner(node) == Manner::Lost
    }

    /// How long a pod's containers take to start.
    pub(crate) fn start_delay(&self, uid: &str) -> SignedDuration {
        let (least, most) = self.start;
        let span = u64::try_from(most.saturating_sub(least).as_millis()).unwrap_or(0);
        let millis = i64::try_from(lot_of(uid) % (span + 1)).unwrap_or(0);
        least.saturating_add(SignedDuration::from_millis(millis))
    }

    pub(super) fn take_stirred(&mut self) -> impl Iterator<Item = Key> {
        std::mem::take(&mut self.stirred).into_iter().map(|node| Key::new("nodes", "", &node))
    }
}

impl Manner {
    /// Whether the node is ready at a time, and when that changes.
    pub(super) fn is_ready_at(self, now: Timestamp) -> (bool, Option<Timestamp>) {
        match self {
            Self::Well => (true, None),
            Self::Silent | Self::Lost | Self::NeverReady => (false, None),
            Self::Flapping(every) => {
                let since = now.as_duration();
                let turn = since.as_millis() / every.as_millis().max(1);
                let next = i64::try_from((turn + 1) * every.as_millis()).unwrap_or(i64::MAX);
                (turn % 2 == 0, Timestamp::from_millisecond(next).ok())
            }
        }
    }
}
