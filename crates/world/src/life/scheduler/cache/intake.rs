//! How what happens in the cluster comes to be known.

use std::sync::Arc;

use berth_api::held;
use berth_core::fit::NodeDemand;
use berth_core::names::Text;
use berth_core::resources::{CPU, MEMORY, Resources};

use super::{Cache, Class, ClassId, Host, MOVES_MAX, Move, Pod, PodId, Slot};
use crate::json::Value;
use crate::object;
use crate::store::Key;

/// What a pod's change means to the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is true or not, whatever the others are")]
pub(in crate::life::scheduler) struct PodChange {
    /// It waits for a node, and is there.
    pub(in crate::life::scheduler) waits: bool,
    /// What it asks for is not what it was.
    pub(in crate::life::scheduler) asks_anew: bool,
    /// It has a node now, and had none, or looks otherwise to others there.
    pub(in crate::life::scheduler) settled: bool,
    /// It took room on a node, and takes less now.
    pub(in crate::life::scheduler) made_room: bool,
}

impl Cache {
    /// Takes in a pod as it is now. Those that are done take no room and want none.
    pub(in crate::life::scheduler) fn put_pod(
        &mut self,
        key: &Key,
        before: Option<&Value>,
        after: &Value,
    ) -> PodChange {
        let change = self.take_in(key, before, after);
        self.free_slots();
        change
    }

    fn take_in(&mut self, key: &Key, before: Option<&Value>, after: &Value) -> PodChange {
        let phase = object::text(after, &["status", "phase"]);
        if matches!(phase, "Succeeded" | "Failed") {
            return self.remove_pod(key);
        }
        let known = self.pod_id(key);
        if let (Some(id), Some(before)) = (known, before)
            && is_same_to_rules(before, after)
        {
            return self.keep_pod(id, after);
        }
        let Ok(held) = held::pod(after) else { return self.remove_pod(key) };
        let class = self.intern(&held);
        let slot = held.pod.node.as_ref().map(|name| self.slot_of(name));
        let pod = Pod {
            key: key.clone(),
            class,
            slot,
            nominated: if slot.is_none() { self.nominated_slot(after) } else { None },
            terminating: held.pod.deleting,
            preempted: is_preempted(after),
            started: started(after),
            volumes: held.pod.volumes,
        };
        let (before_slot, same_class, was) = match known.and_then(|id| self.pod(id)) {
            Some(known) => (known.slot, known.class == class, true),
            None => (None, false, false),
        };
        if let Some(id) = known {
            self.take_out(id);
        }
        self.put_in(known, pod);
        PodChange {
            waits: slot.is_none(),
            asks_anew: !was || !same_class,
            settled: slot.is_some() && (before_slot != slot || !same_class),
            made_room: before_slot.is_some() && (before_slot != slot || !same_class),
        }
    }

    fn keep_pod(&mut self, id: PodId, after: &Value) -> PodChange {
        let Some(pod) = self.pod(id) else { return PodChange::default() };
        let (slot, class, was_terminating) = (pod.slot, pod.class, pod.terminating);
        let terminating = object::is_terminating(after);
        let nominated = if slot.is_none() { self.nominated_slot(after) } else { None };
        self.nominate(id, nominated);
        if let Some(pod) = self.pod_mut(id) {
            pod.started = started(after);
            pod.terminating = terminating;
            pod.preempted = is_preempted(after);
        }
        let turned = was_terminating != terminating;
        if let Some(slot) = slot.filter(|_| turned) {
            self.log(Move { class, slot, terminating: was_terminating, arrives: false });
            self.log(Move { class, slot, terminating, arrives: true });
        }
        PodChange { waits: slot.is_none(), made_room: slot.is_some() && turned, ..PodChange::default() }
    }

    pub(in crate::life::scheduler) fn remove_pod(&mut self, key: &Key) -> PodChange {
        let Some(id) = self.pod_id(key) else { return PodChange::default() };
        let was_settled = self.pod(id).is_some_and(|pod| pod.slot.is_some());
        self.take_out(id);
        self.pod_ids.remove(key);
        self.free_pods.push(id);
        self.free_slots();
        PodChange { made_room: was_settled, ..PodChange::default() }
    }

    fn pod_mut(&mut self, id: PodId) -> Option<&mut Pod> {
        self.pods.get_mut(usize::try_from(id).ok()?)?.as_mut()
    }

    fn nominated_slot(&mut self, pod: &Value) -> Option<Slot> {
        let name = object::text(pod, &["status", "nominatedNodeName"]);
        // The node may be on its way.
        (!name.is_empty()).then(|| self.slot_of(name))
    }

    fn nominate(&mut self, id: PodId, slot: Option<Slot>) {
        let Some(pod) = self.pod_mut(id) else { return };
        let before = std::mem::replace(&mut pod.nominated, slot);
        if before == slot {
            return;
        }
        if let Some(before) = before {
            if let Some(meant) = self.nominated.get_mut(&before) {
                meant.remove(&id);
            }
            self.left_slots.push(before);
        }
        if let Some(slot) = slot {
            self.nominated.entry(slot).or_default().insert(id);
        }
    }

    fn put_in(&mut self, id: Option<PodId>, pod: Pod) {
        let id = id.or_else(|| self.free_pods.pop()).unwrap_or_else(|| {
            self.pods.push(None);
            PodId::try_from(self.pods.len() - 1).unwrap_or(PodId::MAX)
        });
        let (class, slot, terminating, nominated) = (pod.class, pod.slot, pod.terminating, pod.nominated);
        for volume in &pod.volumes {
            let claim = (pod.key.namespace().into(), volume.claim().clone());
            self.claimants.entry(claim).or_default().insert(id);
        }
        self.pod_ids.insert(pod.key.clone(), id);
        if let Some(place) = usize::try_from(id).ok().and_then(|index| self.pods.get_mut(index)) {
            *place = Some(Pod { nominated: None, ..pod });
        }
        self.nominate(id, nominated);
        if let Some(slot) = slot {
            let Self { hosts, classes, .. } = self;
            let class_of = usize::try_from(class).ok().and_then(|index| classes.get(index)?.as_deref());
            if let (Some(host), Some(class)) = (hosts.get_mut(slot), class_of) {
                host.add(id, class);
            }
            self.log(Move { class, slot, terminating, arrives: true });
        }
    }

    /// Takes a pod out of everything but the list of names.
    fn take_out(&mut self, id: PodId) {
        self.nominate(id, None);
        let taken = usize::try_from(id).ok().and_then(|index| self.pods.get_mut(index)?.take());
        let Some(pod) = taken else { return };
        for volume in &pod.volumes {
            let claim = (pod.key.namespace().into(), volume.claim().clone());
            if let Some(claimants) = self.claimants.get_mut(&claim) {
                claimants.remove(&id);
                if claimants.is_empty() {
                    self.claimants.remove(&claim);
                }
            }
        }
        if let Some(slot) = pod.slot {
            let Self { hosts, classes, .. } = self;
            let class_of = usize::try_from(pod.class).ok().and_then(|index| classes.get(index)?.as_deref());
            if let (Some(host), Some(class)) = (hosts.get_mut(slot), class_of) {
                host.remove(id, class);
            }
            self.log(Move { class: pod.class, slot, terminating: pod.terminating, arrives: false });
            self.left_slots.push(slot);
        }
        self.release(pod.class);
    }

    fn log(&mut self, change: Move) {
        self.moves.push(change);
        if self.moves.len() >= 2 * MOVES_MAX {
            self.moves.drain(..MOVES_MAX);
            self.moves_forgotten += MOVES_MAX as u64;
        }
    }

    /// The class of a pod, which counts one more.
    fn intern(&mut self, held: &held::HeldPod) -> ClassId {
        let scored = [CPU, MEMORY].map(|name| held.requests_scored.get(name));
        let identity = (held.pod.namespace.clone(), held.pod.spec.clone(), scored);
        if let Some(id) = self.class_ids.get(&identity).copied() {
            if let Some(class) =
                usize::try_from(id).ok().and_then(|index| self.classes.get_mut(index)?.as_mut())
            {
                class.pods += 1;
            }
            return id;
        }
        let spec = held.pod.spec.clone();
        let requests = self.amounts(&spec.requests).into_boxed_slice();
        // Numbers are never used again: whoever remembers one knows that it is the same class.
        let id = ClassId::try_from(self.classes.len()).unwrap_or(ClassId::MAX);
        if !spec.anti_affinity.is_empty() {
            self.averse.insert(id);
            self.layout += 1;
        }
        let prefers = !spec.affinity_preferences.is_empty() || !spec.anti_affinity_preferences.is_empty();
        if prefers || !spec.affinity.is_empty() {
            self.social.insert(id);
            self.layout += 1;
        }
        let class = Class {
            namespace: held.pod.namespace.clone(),
            demand: NodeDemand::required(&spec, &[]),
            spec,
            requests,
            scored,
            pods: 1,
        };
        self.classes.push(Some(Box::new(class)));
        self.class_ids.insert(identity, id);
        id
    }

    fn release(&mut self, id: ClassId) {
        let Some(place) = usize::try_from(id).ok().and_then(|index| self.classes.get_mut(index)) else {
            return;
        };
        let Some(class) = place.as_mut() else { return };
        class.pods = class.pods.saturating_sub(1);
        if class.pods == 0
            && let Some(class) = place.take()
        {
            self.class_ids.remove(&(class.namespace, class.spec, class.scored));
            self.averse.remove(&id);
            self.social.remove(&id);
        }
    }

    fn amounts(&mut self, resources: &Resources) -> Vec<i64> {
        for (name, _) in resources.iter() {
            if !self.dimensions.contains(name) {
                self.dimensions.push(name.clone());
                for host in &mut self.hosts {
                    host.total.push(0);
                    host.left.push(0);
                }
            }
        }
        self.dimensions.iter().map(|name| resources.get(name)).collect()
    }

    fn slot_of(&mut self, name: &str) -> Slot {
        if let Some(slot) = self.slot(name) {
            return slot;
        }
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.hosts.push(Host::default());
            // Whoever keeps something by slot has to make room for it.
            self.layout += 1;
            self.hosts.len() - 1
        });
        let nothing = vec![0; self.dimensions.len()];
        let name = Text::from(name);
        if let Some(host) = self.hosts.get_mut(slot) {
            *host =
                Host { name: Some(name.clone()), total: nothing.clone(), left: nothing, ..Host::default() };
        }
        self.slots.insert(name, slot);
        slot
    }

    /// Gives slots back that neither a node nor pods need.
    fn free_slots(&mut self) {
        for slot in std::mem::take(&mut self.left_slots) {
            let Some(host) = self.hosts.get_mut(slot) else { continue };
            let is_meant = self.nominated.get(&slot).is_some_and(|pods| !pods.is_empty());
            if host.node.is_some() || !host.pods.is_empty() || is_meant {
                continue;
            }
            if let Some(name) = host.name.take() {
                self.slots.remove(&name);
                self.nominated.remove(&slot);
                self.free_slots.push(slot);
            }
        }
    }

    /// Takes in a node as it is now; whether it matters to any rule.
    pub(in crate::life::scheduler) fn put_node(
        &mut self,
        key: &Key,
        before: Option<&Value>,
        after: &Value,
    ) -> bool {
        let known =
            self.slot(key.name()).filter(|slot| self.host(*slot).is_some_and(|host| host.node.is_some()));
        let same =
            |path: &str| before.is_some_and(|before| object::at(before, path) == object::at(after, path));
        let parts = ["/spec", "/metadata/labels", "/status/allocatable", "/status/capacity"];
        if known.is_some() && parts.iter().all(|path| same(path)) {
            return false;
        }
        let Ok(mut node) = held::node(after) else { return self.remove_node(key.name()) };
        if let Some(limits) = self.limits.get(key.name()) {
            node.volume_limits.clone_from(limits);
        }
        let is_unschedulable = object::at(after, "/spec/unschedulable") == Some(&Value::Bool(true));
        let total = self.amounts(&node.allocatable);
        let slot = self.slot_of(key.name());
        self.nodes += usize::from(known.is_none());
        if let Some(host) = self.hosts.get_mut(slot) {
            for ((left, total_before), total) in host.left.iter_mut().zip(&host.total).zip(&total) {
                *left += total - total_before;
            }
            host.total = total;
            host.node = Some(Arc::new(node));
            host.is_unschedulable = is_unschedulable;
        }
        self.layout += 1;
        true
    }

    pub(in crate::life::scheduler) fn remove_node(&mut self, name: &str) -> bool {
        let Some(slot) = self.slot(name) else { return false };
        let Some(host) = self.hosts.get_mut(slot) else { return false };
        if host.node.take().is_none() {
            return false;
        }
        for (left, total) in host.left.iter_mut().zip(&mut host.total) {
            *left -= std::mem::take(total);
        }
        self.nodes = self.nodes.saturating_sub(1);
        self.layout += 1;
        self.left_slots.push(slot);
        self.free_slots();
        true
    }

    pub(in crate::life::scheduler) fn put_limits(&mut self, name: &str, csi_node: Option<&Value>) {
        let limits = csi_node.and_then(|csi_node| held::volume_limits(csi_node).ok()).unwrap_or_default();
        let slot = self.slot(name);
        let node = slot.and_then(|slot| self.hosts.get_mut(slot)).and_then(|host| host.node.as_mut());
        if let Some(node) = node {
            Arc::make_mut(node).volume_limits.clone_from(&limits);
        }
        self.limits.insert(name.into(), limits);
    }

    pub(in crate::life::scheduler) fn put_namespace(&mut self, name: &str, namespace: Option<&Value>) {
        let labels = namespace.and_then(|namespace| held::labels(namespace).ok());
        if self.namespaces.get(name) == labels.as_ref() {
            return;
        }
        match labels {
            Some(labels) => self.namespaces.insert(name.into(), labels),
            None => self.namespaces.remove(name),
        };
        self.layout += 1;
    }

    pub(in crate::life::scheduler) fn put_claim(&mut self, key: &Key, claim: Option<&Value>) {
        let id = (key.namespace().into(), key.name().into());
        match claim.and_then(|claim| held::claim(claim).ok()) {
            Some(claim) => self.storage.claims.insert(id, claim),
            None => self.storage.claims.remove(&id),
        };
    }

    pub(in crate::life::scheduler) fn put_volume(&mut self, name: &str, volume: Option<&Value>) {
        match volume.and_then(|volume| held::volume(volume).ok()) {
            Some(volume) => self.storage.volumes.insert(name.into(), volume),
            None => self.storage.volumes.remove(name),
        };
    }

    pub(in crate::life::scheduler) fn put_storage_class(&mut self, name: &str, class: Option<&Value>) {
        match class.and_then(|class| held::storage_class(class).ok()) {
            Some(class) => self.storage.classes.insert(name.into(), class),
            None => self.storage.classes.remove(name),
        };
    }
}

/// Whether no rule sees a difference, the pod's end aside.
fn is_same_to_rules(before: &Value, after: &Value) -> bool {
    let parts = ["/spec", "/metadata/labels", "/metadata/uid", "/status/resize"];
    let is_resized = |pod: &Value| {
        let lists = ["/status/containerStatuses", "/status/initContainerStatuses"];
        let statuses = lists.iter().filter_map(|list| object::at(pod, list)?.as_array()).flatten();
        statuses.into_iter().any(|status| status.get("allocatedResources").is_some())
    };
    parts.iter().all(|path| object::at(before, path) == object::at(after, path))
        && !is_resized(before)
        && !is_resized(after)
}

pub(in crate::life::scheduler) const DISRUPTION_TARGET: &str = "DisruptionTarget";
pub(in crate::life::scheduler) const PREEMPTED: &str = "PreemptionByScheduler";

fn is_preempted(pod: &Value) -> bool {
    let conditions = object::at(pod, "/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        condition["type"] == DISRUPTION_TARGET
            && condition["status"] == "True"
            && condition["reason"] == PREEMPTED
    })
}

fn started(pod: &Value) -> Option<i64> {
    let time = object::text(pod, &["status", "startTime"]);
    time.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second)
}
