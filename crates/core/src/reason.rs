//! Why something was refused: one enum, from which output, events, metrics and docs all come.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::resources;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Why a pod cannot run somewhere, a pool cannot buy, or a node is not taken away.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Reason {
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }

            /// One sentence for people: what the reason means.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($doc),+).trim_ascii_start(),)+
                }
            }
        }
    };
}

reasons! {
    /// The pod is held back by scheduling gates.
    SchedulingGated,
    /// The pod asks for a label that only the system may set.
    RestrictedLabel,
    /// A claim of the pod, or the volume or class it names, does not exist.
    VolumeMissing,
    /// A claim of the pod has lost its volume or is being deleted.
    VolumeLost,
    /// A claim of the pod is not bound and will not wait for the pod.
    VolumeUnbound,
    /// Another pod holds a claim that only one pod may use.
    VolumeInUse,
    /// There is no pool at all.
    NoPool,
    /// The pool cannot buy: its catalog is missing, or it is being deleted.
    PoolNotReady,
    /// What the pool has committed itself to cannot be read, so it commits itself to nothing more.
    LedgerUnreadable,
    /// Another pool has the pool's name, and counts in its place: a NodePool, or an older NodeGroup.
    PoolNameTaken,
    /// The class that the pool's nodes are made from does not exist.
    NodeClassNotFound,
    /// The class that the pool's nodes are made from cannot be used: it says so itself, or is being deleted.
    NodeClassNotReady,
    /// The pool's class names a datacenter in which nothing is offered.
    UnknownDatacenter,
    /// The pool or its class names an offering that the catalog does not have.
    UnknownOffering,
    /// The group, or what new groups are made from, names another cluster at VPSie than the one that Berth buys for.
    OtherCluster,
    /// The pool may not grow just now: it has grown or shrunk a moment ago, others grow, or pods have not waited for long.
    PoolResting,
    /// The pool is not to grow: its owner has paused it, or turned its growth off.
    PoolPaused,
    /// No pool can be made for the pod: what new pools are made from is not complete.
    TemplateIncomplete,
    /// The pool has a fixed number of nodes and buys none for pods.
    PoolStatic,
    /// The pool's own requirements leave nothing of the catalog.
    NoOffering,
    /// Everything that would do cannot be had at the moment.
    OfferingUnavailable,
    /// The reservation has no machine left.
    ReservationFull,
    /// The pod does not tolerate a taint.
    UntoleratedTaint,
    /// The labels do not match the pod's node selector.
    NodeSelector,
    /// The labels match no term of the pod's required node affinity.
    NodeAffinity,
    /// The pod's volumes are or must be made elsewhere.
    VolumeTopology,
    /// The node cannot attach so many volumes.
    VolumeAttachLimit,
    /// A host port of the pod is taken.
    HostPort,
    /// Not enough CPU.
    InsufficientCpu,
    /// Not enough memory.
    InsufficientMemory,
    /// No room for one more pod.
    InsufficientPods,
    /// Not enough ephemeral storage.
    InsufficientEphemeralStorage,
    /// Not enough of an extended resource.
    InsufficientResource,
    /// Required pod affinity: no matching pod is near.
    PodAffinity,
    /// Required pod anti-affinity: a matching pod is near.
    PodAntiAffinity,
    /// A pod that is near has an anti-affinity against this one.
    ExistingAntiAffinity,
    /// The spread over a topology would become too uneven.
    TopologySpread,
    /// The node lacks the label over which the pod is to be spread or placed.
    TopologyKeyMissing,
    /// The pool's resource limit is reached.
    PoolLimit,
    /// The pool may not have more nodes.
    NodeLimit,
    /// The pool would have more of a capacity type than its share of spot allows.
    SpotShare,
    /// Too few alternatives are left for the pool's minValues.
    MinValues,
    /// The node belongs to no pool that is known: it is not Berth's to take away.
    NodeNotOfPool,
    /// The node is not up yet.
    NodeStarting,
    /// The node is being deleted already.
    NodeDeleting,
    /// Which machine the node runs on is not known, so nobody could end it.
    MachineUnknown,
    /// The node is marked do-not-disrupt.
    NodeProtected,
    /// No price is known for the node, so nobody can say what its removal saves.
    NodePriceUnknown,
    /// The node belongs to a pool with a fixed number of nodes.
    NodeOfStaticPool,
    /// The pool has no more nodes than it must have.
    PoolMinimum,
    /// The node's zone has too few nodes beside the pool's other zones.
    ZoneShare,
    /// The pool never consolidates.
    ConsolidationNever,
    /// Pods came to the node or left it too recently.
    ConsolidateAfter,
    /// The pool gives up only empty nodes, and this one has pods.
    NodeNotEmpty,
    /// Somebody has cordoned the node.
    NodeCordoned,
    /// The group's scale-down is off: its nodes go only where cheaper ones replace them.
    ScaleDownOff,
    /// More of the node is used than its group's thresholds say.
    NodeUtilized,
    /// A pod keeps something on the node that would be lost with it, or nobody can say that it does not.
    LocalStorage,
    /// A part of the control plane runs on the node.
    SystemPod,
    /// The nodes that would be left of the group would be too full.
    CapacityLeft,
    /// A pod on the node is marked do-not-disrupt.
    PodProtected,
    /// A PodDisruptionBudget lets no more of its pods be moved.
    PodDisruptionBudget,
    /// Nothing would make a pod of the node again.
    PodWithoutController,
    /// The pool's disruption budget lets no more nodes go now.
    DisruptionBudget,
    /// So many nodes of the pool are broken that the nodes are hardly to blame.
    TooManyUnhealthy,
    /// The plan puts pods on the node.
    NodeTakesPods,
    /// The pods of the node fit nowhere else, neither on other nodes nor on any that could be bought.
    PodsFitNowhere,
    /// Other nodes would have room for the pods of the node, and (anti-)affinity or spread keeps them from there.
    PodsKeptApart,
    /// What would be saved is less than the least worth acting for.
    SavingTooSmall,
    /// What would be saved is not worth the disruption.
    DisruptionTooDear,
    /// The pool does not replace its nodes by cheaper ones.
    ReplacementBarred,
    /// The pool has replaced nodes by cheaper ones a short while ago.
    ReplacementResting,
    /// Too many of the cluster's nodes are not ready for any to be replaced by a cheaper one.
    ClusterUnhealthy,
    /// The nodes that would replace it have less than what is used on it now.
    PerformanceImpact,
    /// Somebody must agree before the node is replaced by a cheaper one.
    AwaitingApproval,
    /// The part of the pool's cost that would be saved is too small beside the part of its disruption.
    Unbalanced,
    /// Too few cheaper spot offerings would be left to choose from.
    SpotAlternatives,
    /// No order of steps gets there without breaking a rule on the way.
    NoLegalOrder,
}

impl Reason {
    /// What would have to change for this reason to go away.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::SchedulingGated => "remove the pod's scheduling gates",
            Self::RestrictedLabel => "ask for a label that a pool can set, not for one that the system sets",
            Self::VolumeMissing => "create the claim, volume or storage class that is named, or fix the name",
            Self::VolumeLost => "restore or replace the claim",
            Self::VolumeUnbound => "bind a volume to the claim, or use a class with WaitForFirstConsumer",
            Self::VolumeInUse => {
                "end the pod that holds the claim, or use a claim that several pods may share"
            }
            Self::NoPool => "give a NodePool, a NodeGroup or a ScalingConstraint",
            Self::PoolNotReady => "fix what the pool's conditions name",
            Self::LedgerUnreadable => {
                "remove the pool's annotation berth.dev/ledger; what exists is counted again"
            }
            Self::PoolNameTaken => "give one of the pools another name",
            Self::NodeClassNotFound => "create the class that the pool names, or fix the name",
            Self::NodeClassNotReady => "fix what the class's conditions name",
            Self::UnknownDatacenter => "name a datacenter of the catalog, or let Berth know of it",
            Self::UnknownOffering => "name an offering or a type of the catalog",
            Self::OtherCluster => {
                "write the cluster's own id into resourceIdentifier, or the other one into the Secret or the flag"
            }
            Self::PoolResting => {
                "wait, or shorten the group's cooldown, its window or the pods' grace period"
            }
            Self::PoolPaused => "remove the pause, or turn the group's growth on",
            Self::TemplateIncomplete => {
                "complete nodeGroupDefaults of the AutoscalerConfig, or say the flags that stand for it"
            }
            Self::PoolStatic => "raise the pool's replicas, or use a pool without replicas",
            Self::NoOffering => "widen the pool's requirements",
            Self::OfferingUnavailable => {
                "wait until the offerings can be had again, or widen the pool's requirements"
            }
            Self::ReservationFull => "enlarge the reservation, or allow on-demand or spot too",
            Self::UntoleratedTaint => "add a toleration to the pod, or use a pool without the taint",
            Self::NodeSelector => "change the pod's nodeSelector, or let the pool have such nodes",
            Self::NodeAffinity => "change the pod's required node affinity, or let the pool have such nodes",
            Self::VolumeTopology => "let the pool buy where the pod's volumes are",
            Self::VolumeAttachLimit => "use fewer volumes on a node, or a type that attaches more",
            Self::HostPort => "use another host port or none",
            Self::InsufficientCpu
            | Self::InsufficientMemory
            | Self::InsufficientPods
            | Self::InsufficientEphemeralStorage
            | Self::InsufficientResource => "lower the pod's requests, or let the pool buy larger types",
            Self::PodAffinity => "start a pod that the affinity asks for, or make the affinity a preference",
            Self::PodAntiAffinity => {
                "let the pool buy in more domains, or make the anti-affinity a preference"
            }
            Self::ExistingAntiAffinity => {
                "let the pool buy in domains without the pod that keeps this one away"
            }
            Self::TopologySpread => "let the pool buy in the domains that lack pods, or raise maxSkew",
            Self::TopologyKeyMissing => "give the pool's nodes the label that is spread over",
            Self::PoolLimit => "raise the pool's limits",
            Self::NodeLimit => "raise the limit on the number of nodes",
            Self::SpotShare => {
                "change the share of spot, or let the group fall back to on-demand where spot cannot be had"
            }
            Self::MinValues => {
                "lower minValues or widen the requirements; --min-values-policy best-effort buys all the same"
            }
            Self::NodeNotOfPool => "remove the node by hand, or label it with its pool and give that pool",
            Self::NodeStarting => "wait until the node is initialized",
            Self::NodeDeleting => "wait until the node is gone",
            Self::MachineUnknown => {
                "write the machine's identifier into the node's VPSieNode, or delete that"
            }
            Self::NodeProtected => "remove karpenter.sh/do-not-disrupt from the node",
            Self::NodePriceUnknown => "use a catalog that has the node's type, zone and capacity type",
            Self::NodeOfStaticPool => "lower the pool's replicas",
            Self::PoolMinimum => "lower the pool's minimum of nodes",
            Self::ZoneShare => {
                "change how the group is spread over its zones, or wait until others have shrunk"
            }
            Self::ConsolidationNever => "set the pool's consolidateAfter to a duration",
            Self::ConsolidateAfter => "wait, or lower the pool's consolidateAfter",
            Self::NodeCordoned => "uncordon the node, or delete its VPSieNode",
            Self::ScaleDownOff => "turn the group's scaleDownPolicy on",
            Self::NodeUtilized => "wait, or raise the thresholds of the group's scaleDownPolicy",
            Self::LocalStorage => "keep the pod's data in a volume that can follow it, or in memory",
            Self::SystemPod => "run the control plane elsewhere",
            Self::PodProtected => {
                "remove karpenter.sh/do-not-disrupt from the pod, or wait until its duration is over"
            }
            Self::PodDisruptionBudget => {
                "let the budget allow more disruptions, wait until more of its pods are healthy, or let no second budget cover them"
            }
            Self::PodWithoutController => {
                "run the pod through a Deployment, StatefulSet or Job, or delete it"
            }
            Self::DisruptionBudget => "raise the pool's disruption budget, or wait for its next window",
            Self::TooManyUnhealthy => "look for what breaks them; replace them by hand if it is the nodes",
            Self::NodeTakesPods | Self::CapacityLeft => "nothing: the node is of use",
            Self::PodsKeptApart => {
                "loosen the pods' affinity or spread, or let a pool buy another node for them"
            }
            Self::PodsFitNowhere => "free room on other nodes, or let a pool buy what the pods need",
            Self::SavingTooSmall => "lower the least saving, if churn is no concern",
            Self::DisruptionTooDear => "lower the price of a disruption, if churn is no concern",
            Self::ReplacementBarred => "turn the group's costOptimization on, and enableRebalancing",
            Self::ReplacementResting => "wait until its optimizationInterval is over, or shorten it",
            Self::ClusterUnhealthy => "look for what keeps the nodes from being ready",
            Self::PerformanceImpact => "raise the group's maxPerformanceImpact, or offer it larger types",
            Self::AwaitingApproval => {
                "write the id that the message names into the group's annotation autoscaler.vpsie.com/approve-optimization"
            }
            Self::NodeNotEmpty | Self::Unbalanced => {
                "set the pool's consolidationPolicy to WhenEmptyOrUnderutilized"
            }
            Self::SpotAlternatives => "let the pool buy more instance types as spot, or on demand",
            Self::NoLegalOrder => "relax the pods' spread or affinity",
        }
    }

    /// The reason for lacking a resource.
    pub fn lacking(resource: &str) -> Self {
        match resource {
            resources::CPU => Self::InsufficientCpu,
            resources::MEMORY => Self::InsufficientMemory,
            resources::PODS => Self::InsufficientPods,
            resources::EPHEMERAL_STORAGE => Self::InsufficientEphemeralStorage,
            _ => Self::InsufficientResource,
        }
    }

    pub fn because(self, message: impl Into<String>) -> Refusal {
        Refusal { reason: self, message: message.into() }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A reason with the particulars: what was asked, what there is, what would help.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Refusal {
    pub reason: Reason,
    pub message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}
