//! Pods, as far as placement depends on them.

use std::fmt;
use std::sync::Arc;

use crate::disruption::PodDisruption;
use crate::names::{Labels, Text};
use crate::requirement::{Expression, NodeTerm};
use crate::resources::Resources;
use crate::selector::Selector;

/// One pod. What many pods share is behind an `Arc`: a cluster has far fewer specs than pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    pub namespace: Text,
    pub name: Text,
    pub spec: Arc<PodSpec>,
    pub phase: PodPhase,
    /// The node it is bound to.
    pub node: Option<Text>,
    /// The node that the scheduler is making room on for it.
    pub nominated: Option<Text>,
    /// It has not waited for long. Some pools do not grow for such.
    pub is_fresh: bool,
    pub deleting: bool,
    pub origin: PodOrigin,
    /// The DaemonSet that owns it.
    pub daemon_set: Option<Text>,
    /// A static pod of a kubelet: it comes and goes with its node.
    pub mirror: bool,
    pub volumes: Box<[VolumeRef]>,
    pub disruption: PodDisruption,
}

impl Pod {
    /// Neither finished nor failed: it holds or wants resources.
    pub fn is_active(&self) -> bool {
        !matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// Lives and dies with its node, and needs no other.
    pub fn belongs_to_node(&self) -> bool {
        self.daemon_set.is_some() || self.mirror
    }

    /// Is an object of the cluster. Others are in the plan only: they hold room, or their workload has yet to make them.
    pub fn exists(&self) -> bool {
        self.origin == PodOrigin::Object
    }

    /// `namespace/name`.
    pub fn id(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodPhase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
}

/// Where a pod comes from: some exist only in the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodOrigin {
    /// An object of the cluster.
    #[default]
    Object,
    /// Expanded from a workload whose pods were not given.
    Workload,
    /// Holds room for a CapacityBuffer.
    Buffer,
}

/// All that decides where a pod may run. Pods with equal specs in one namespace are interchangeable
/// but for their volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodSpec {
    pub labels: Labels,
    /// Effective requests with init containers, sidecars and overhead, and one of `pods`.
    pub requests: Resources,
    /// `nodeSelector`, and what a RuntimeClass adds to it.
    pub node_selector: Vec<Expression>,
    /// Required node affinity: one of the terms must match. `None` asks nothing; no terms match nothing.
    pub node_affinity: Option<Vec<NodeTerm>>,
    pub node_preferences: Vec<Weighted<NodeTerm>>,
    pub affinity: Vec<PodTerm>,
    pub affinity_preferences: Vec<Weighted<PodTerm>>,
    pub anti_affinity: Vec<PodTerm>,
    pub anti_affinity_preferences: Vec<Weighted<PodTerm>>,
    pub spread: Vec<Spread>,
    pub tolerations: Vec<Toleration>,
    pub host_ports: Vec<HostPort>,
    pub priority: i32,
    /// Names of the gates that still hold the pod back.
    pub scheduling_gates: Vec<Text>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weighted<T> {
    pub weight: i32,
    pub term: T,
}

/// Which pods, near in which topology.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodTerm {
    /// `None` matches no pod. `matchLabelKeys` and `mismatchLabelKeys` are already merged in.
    pub selector: Option<Selector>,
    pub namespaces: Vec<Text>,
    pub namespace_selector: Option<Selector>,
    pub topology_key: Text,
}

impl PodTerm {
    /// Whether the term looks at pods of `namespace`: those named, those selected, or by default the
    /// namespace `own` of the pod that has the term.
    pub fn covers_namespace(&self, own: &str, namespace: &str, namespace_labels: Option<&Labels>) -> bool {
        if self.namespaces.is_empty() && self.namespace_selector.is_none() {
            return own == namespace;
        }
        let empty = Labels::new();
        self.namespaces.iter().any(|n| **n == *namespace)
            || self.namespace_selector.as_ref().is_some_and(|s| s.matches(namespace_labels.unwrap_or(&empty)))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spread {
    pub topology_key: Text,
    pub max_skew: u32,
    /// `DoNotSchedule`; otherwise `ScheduleAnyway`.
    pub required: bool,
    /// `None` matches no pod. `matchLabelKeys` are already merged in.
    pub selector: Option<Selector>,
    pub min_domains: u32,
    /// Count only nodes that the pod's node selector and affinity admit (the default).
    pub honor_node_affinity: bool,
    /// Count only nodes whose taints the pod tolerates (not the default).
    pub honor_node_taints: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaintEffect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

impl TaintEffect {
    pub const NAMES: &'static str = "NoSchedule, PreferNoSchedule, NoExecute";

    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "NoSchedule" => Self::NoSchedule,
            "PreferNoSchedule" => Self::PreferNoSchedule,
            "NoExecute" => Self::NoExecute,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    pub key: Text,
    pub value: Text,
    pub effect: TaintEffect,
}

impl Taint {
    pub fn new(key: &str, value: &str, effect: TaintEffect) -> Self {
        Self { key: key.into(), value: value.into(), effect }
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let equals = if self.value.is_empty() { "" } else { "=" };
        write!(f, "{}{equals}{}:{}", self.key, self.value, self.effect.name())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Toleration {
    /// `None` with `Exists` tolerates every key.
    pub key: Option<Text>,
    /// `None` is the operator `Exists`; a value is `Equal`.
    pub value: Option<Text>,
    /// `None` tolerates every effect.
    pub effect: Option<TaintEffect>,
}

impl Toleration {
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

impl Protocol {
    pub const NAMES: &'static str = "TCP, UDP, SCTP";

    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "TCP" => Self::Tcp,
            "UDP" => Self::Udp,
            "SCTP" => Self::Sctp,
            _ => return None,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// `0.0.0.0` is every address.
    pub ip: Text,
    pub protocol: Protocol,
    pub port: u16,
}

impl HostPort {
    pub const ANY_IP: &'static str = "0.0.0.0";

    pub fn conflicts(&self, other: &Self) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || &*self.ip == Self::ANY_IP || &*other.ip == Self::ANY_IP)
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}/{:?}", self.ip, self.port, self.protocol)
    }
}

/// A volume of a pod that ties it to nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VolumeRef {
    /// A PersistentVolumeClaim of the pod's namespace.
    Claim(Text),
    /// A generic ephemeral volume: the claim `<pod>-<volume>` is made for it, of this class.
    Ephemeral { claim: Text, storage_class: Option<Text> },
}

impl VolumeRef {
    pub fn claim(&self) -> &Text {
        match self {
            Self::Claim(claim) | Self::Ephemeral { claim, .. } => claim,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerations() {
        let taint = Taint::new("k", "v", TaintEffect::NoSchedule);
        let toleration = |key: Option<&str>, value: Option<&str>, effect| Toleration {
            key: key.map(Text::from),
            value: value.map(Text::from),
            effect,
        };
        for (toleration, expected) in [
            (toleration(Some("k"), Some("v"), Some(TaintEffect::NoSchedule)), true),
            (toleration(Some("k"), Some("v"), None), true),
            (toleration(Some("k"), None, None), true),
            (toleration(None, None, None), true),
            (toleration(None, None, Some(TaintEffect::NoExecute)), false),
            (toleration(Some("k"), Some("w"), None), false),
            (toleration(Some("j"), None, None), false),
            (toleration(Some("k"), Some("v"), Some(TaintEffect::PreferNoSchedule)), false),
        ] {
            assert_eq!(toleration.tolerates(&taint), expected, "{toleration:?}");
        }
    }

    #[test]
    fn host_ports() {
        let port = |ip: &str, protocol, port| HostPort { ip: ip.into(), protocol, port };
        let http = port("0.0.0.0", Protocol::Tcp, 80);
        for (other, expected) in [
            (port("0.0.0.0", Protocol::Tcp, 80), true),
            (port("10.0.0.1", Protocol::Tcp, 80), true),
            (port("0.0.0.0", Protocol::Udp, 80), false),
            (port("0.0.0.0", Protocol::Tcp, 81), false),
        ] {
            assert_eq!(http.conflicts(&other), expected, "{other}");
            assert_eq!(other.conflicts(&http), expected, "{other}");
        }
        assert!(!port("10.0.0.1", Protocol::Tcp, 80).conflicts(&port("10.0.0.2", Protocol::Tcp, 80)));
    }

    #[test]
    fn a_term_covers_named_and_selected_namespaces_or_its_own() {
        let term = |names: &[&str], selector: Option<Selector>| PodTerm {
            selector: Some(Selector::default()),
            namespaces: names.iter().map(|n| Text::from(*n)).collect(),
            namespace_selector: selector,
            topology_key: "k".into(),
        };
        let team = Labels::from([("team".into(), "a".into())]);
        let of_team = Selector::new(vec![Expression::equals("team", "a")]);
        for (term, namespace, labels, expected) in [
            (term(&[], None), "own", None, true),
            (term(&[], None), "other", None, false),
            (term(&["other"], None), "other", None, true),
            (term(&["other"], None), "own", None, false),
            (term(&[], Some(of_team.clone())), "x", Some(&team), true),
            (term(&[], Some(of_team.clone())), "own", None, false),
            (term(&["other"], Some(of_team)), "other", None, true),
            (term(&[], Some(Selector::default())), "x", None, true),
        ] {
            assert_eq!(term.covers_namespace("own", namespace, labels), expected, "{term:?} {namespace}");
        }
    }
}
