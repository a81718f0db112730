//! What can be wrong with a plan.

use thiserror::Error;

use crate::catalog::CapacityType;
use crate::disruption::{DisruptionCost, DisruptionReason};
use crate::names::Text;
use crate::plan::{Alternative, Host};
use crate::pod::{HostPort, Taint};
use crate::reason::Refusal;
use crate::requirement::Expression;
use crate::resources::{Resources, format_amount};
use crate::units::Price;

/// One rule that a plan breaks. Pods are named `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    #[error("the plan names pod number {index}, but the snapshot has only {pods} pods")]
    NoSuchPod { index: usize, pods: usize },
    #[error("pod {pod} is bound to {host:?}, which does not exist")]
    NoSuchHost { pod: String, host: Host },
    #[error("pod {pod} is in the plan although it is not pending")]
    NotPending { pod: String },
    #[error("pod {pod} is pending but neither placed nor unplaced")]
    PodMissing { pod: String },
    #[error("pod {pod} is in the plan more than once")]
    PodTwice { pod: String },
    #[error("pod {pod} is placed although scheduling gates hold it back")]
    GatedPodPlaced { pod: String },
    #[error("pod {pod} is unplaced without a reason")]
    NoRefusal { pod: String },
    #[error("pod {pod} cannot run on {node}: {misfit}")]
    Misfit { pod: String, node: Text, misfit: Misfit },
    #[error("launch {launch}: {fault}")]
    Launch { launch: Text, fault: LaunchFault },
    #[error(
        "pool {pool} would have {resource} {}, above its limit of {}",
        format_amount(resource, *amount), format_amount(resource, *limit)
    )]
    LimitExceeded { pool: Text, resource: Text, limit: i64, amount: i64 },
    #[error("pool {pool} would have {nodes} nodes, above its limit of {limit}")]
    NodeLimitExceeded { pool: Text, limit: u32, nodes: usize },
    #[error("pools {} would have {nodes} nodes together, above their limit of {limit}", pools.join(", "))]
    SharedLimitExceeded { pools: Vec<Text>, limit: u32, nodes: usize },
    #[error("static pool {pool} would have {nodes} nodes that stay, above its {replicas} replicas")]
    StaticPoolOvergrown { pool: Text, replicas: u32, nodes: usize },
    #[error(
        "{launches} launches of {instance_type} in {zone} as {capacity_type}, but only {remaining} remain"
    )]
    ReservationOverdrawn {
        instance_type: Text,
        zone: Text,
        capacity_type: CapacityType,
        remaining: u32,
        launches: usize,
    },
    #[error("step {step}: {fault}")]
    Disruption { step: usize, fault: DisruptionFault },
    #[error("{pods} pods of PodDisruptionBudget {budget} would be moved, and it allows {allowed}")]
    PodBudgetOverdrawn { budget: String, allowed: u32, pods: usize },
    #[error(
        "pod {pod} would be moved, and several PodDisruptionBudgets cover it, which no eviction can pass"
    )]
    PodOfTwoBudgets { pod: String },
    #[error("pool {pool} would have {nodes} nodes away, and its budget for {reason:?} allows {allowed}")]
    PoolBudgetOverdrawn { pool: Text, reason: DisruptionReason, allowed: u32, nodes: usize },
    #[error("pool {pool} would have {nodes} nodes, below the {least} that it must have")]
    BelowMinimum { pool: Text, least: u32, nodes: usize },
    #[error("pool {pool} would have {nodes} nodes in {zone}, below the {least} that it must have there")]
    ZoneBelowMinimum { pool: Text, zone: Text, least: u32, nodes: usize },
    #[error("{of_kind} of the {nodes} nodes of pool {pool} would be {kind}, and {percent} % are its share")]
    ShareExceeded { pool: Text, kind: &'static str, percent: u32, of_kind: usize, nodes: usize },
    #[error(
        "the nodes of group {pool}, with those that replace some, would be asked for more than {percent} % of what they have"
    )]
    GroupTooFull { pool: Text, percent: i128 },
    #[error("pod {pod} is not bound in the turn of the step that moves it")]
    OutOfTurn { pod: String },
    #[error("the cost before is said to be {said} but is {actual}")]
    WrongCostBefore { said: Price, actual: Price },
    #[error("the cost after is said to be {said} but is {actual}")]
    WrongCostAfter { said: Price, actual: Price },
    #[error("the lower bound {bound} is above the cost {cost}")]
    BoundAboveCost { bound: Price, cost: Price },
    #[error("pod {pod} is unplaced but would have fitted on {spot}")]
    LeftOut { pod: String, spot: Spot },
}

/// Why a pod cannot run on a node.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Misfit {
    #[error("the node is being deleted")]
    NodeDeleting,
    #[error("the pod does not tolerate taint {taint}")]
    UntoleratedTaint { taint: Taint },
    #[error("the node's labels do not match its node selector {expression}")]
    NodeSelector { expression: Expression },
    #[error("the node matches no term of its required node affinity")]
    NodeAffinity,
    #[error(
        "it asks for {resource} {}, and {} of {} is taken",
        format_amount(resource, *requested), format_amount(resource, *used), format_amount(resource, *allocatable)
    )]
    Insufficient { resource: Text, requested: i64, used: i64, allocatable: i64 },
    #[error("its host port {wanted} clashes with {taken}")]
    HostPort { wanted: HostPort, taken: HostPort },
    #[error("its volumes can be had nowhere: {refusal}")]
    VolumeUnusable { refusal: Refusal },
    #[error("the volume of claim {claim} cannot be reached from the node")]
    VolumeTopology { claim: Text },
    #[error("the node would have {volumes} volumes of {driver} and can attach {limit}")]
    AttachLimit { driver: Text, limit: u32, volumes: usize },
    #[error("claim {claim} may be used by one pod only and has one")]
    VolumeInUse { claim: Text },
    #[error("the node lacks label {key}, over which the pod is to be placed or spread")]
    TopologyKeyMissing { key: Text },
    #[error("no pod of its required affinity is in the same {key}")]
    PodAffinity { key: Text },
    #[error("a pod of its required anti-affinity is in {key}={domain}")]
    PodAntiAffinity { key: Text, domain: Text },
    #[error("a pod in {key}={domain} has a required anti-affinity against it")]
    ExistingAntiAffinity { key: Text, domain: Text },
    #[error(
        "{key}={domain} has {count} of the pods to be spread and the emptiest domain {least}: \
         with this pod the skew would be above {max_skew}"
    )]
    TopologySpread { key: Text, domain: Text, count: u32, least: u32, max_skew: u32 },
}

/// What is wrong with a node that is to be bought.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LaunchFault {
    #[error("its name is taken")]
    NameTaken,
    #[error("there is no pool {pool}")]
    NoSuchPool { pool: Text },
    #[error("pool {pool} cannot buy: {refusal}")]
    PoolBlocked { pool: Text, refusal: Refusal },
    #[error("pool {pool} has no instance type {instance_type}")]
    NoSuchType { pool: Text, instance_type: Text },
    #[error("{instance_type} is not offered in {zone} as {capacity_type}")]
    NoSuchOffering { instance_type: Text, zone: Text, capacity_type: CapacityType },
    #[error("its price is said to be {said} (estimated: {estimated}), which is not the catalog's")]
    WrongPrice { said: Price, estimated: bool },
    #[error("its offering cannot be had now")]
    Unavailable,
    #[error("its allocatable is said to be {said} but is {actual}")]
    WrongAllocatable { said: Resources, actual: Resources },
    #[error("its taints are not those of its pool")]
    WrongTaints,
    #[error("label {key}={value} is missing")]
    MissingLabel { key: Text, value: Text },
    #[error("the pool's requirement on {key} does not admit {}", value.as_deref().unwrap_or("its absence"))]
    RequirementUnmet { key: Text, value: Option<Text> },
    #[error("nothing gives it label {key}")]
    InventedLabel { key: Text },
    #[error("its requests are said to be {said} but are {actual}")]
    WrongRequests { said: Resources, actual: Resources },
    #[error(
        "its alternative {} in {} as {} {fault}",
        alternative.instance_type, alternative.zone, alternative.capacity_type
    )]
    Alternative { alternative: Alternative, fault: AlternativeFault },
    #[error("the pool asks for {wanted} values of {key} and its alternatives show {found}")]
    MinValues { key: Text, wanted: u32, found: usize },
    #[error("minValues were given up although the policy is strict")]
    MinValuesRelaxed,
}

/// What is wrong with a step that takes nodes away.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DisruptionFault {
    #[error("it names no node")]
    NoNodes,
    #[error("it names node number {index}, which does not exist")]
    NoSuchNode { index: usize },
    #[error("node {node} is taken away twice")]
    NodeTwice { node: Text },
    #[error("node {node} may not go: {bar}")]
    Barred { node: Text, bar: Bar },
    #[error("its reason is said to be {said:?} but is {actual:?}")]
    WrongReason { said: DisruptionReason, actual: DisruptionReason },
    #[error("it names launch number {index}, which does not exist")]
    NoSuchReplacement { index: usize },
    #[error("it replaces nodes to save money, and their pools do not want that now")]
    ReplacementUnwanted,
    #[error("launch {launch} replaces more than once")]
    ReplacementTwice { launch: Text },
    #[error("launch {launch} replaces its nodes, but other pods are on it")]
    ReplacementShared { launch: Text },
    #[error("launch {launch} is bought for its pods alone and is not among its replacements")]
    ReplacementMissing { launch: Text },
    #[error("its binds begin with number {first_bind}, after those of the next step or of the plan")]
    Overlap { first_bind: usize },
    #[error("it is said to move {said} pods but moves {actual}")]
    WrongPodsMoved { said: usize, actual: usize },
    #[error("it is said to save {said} but saves {actual}")]
    WrongSaving { said: Price, actual: Price },
    #[error("its disruption is said to be {said} but is {actual}")]
    WrongCost { said: DisruptionCost, actual: DisruptionCost },
}

/// Why a node may not be taken away.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Bar {
    #[error("it is of no pool")]
    NotOfPool,
    #[error("nobody could write down that it is to go: its pool's ledger cannot be read")]
    LedgerUnreadable,
    #[error("it is not running")]
    NotRunning,
    #[error("which machine it runs on is not known")]
    MachineUnknown,
    #[error("it is marked do-not-disrupt")]
    NodeProtected,
    #[error("its price is not known")]
    PriceUnknown,
    #[error("its pool has a fixed number of nodes")]
    StaticPool,
    #[error("its pool never consolidates")]
    NeverConsolidated,
    #[error("its pods have not been the same for long enough")]
    NotQuiet,
    #[error("it is not empty, and its pool gives up only empty nodes")]
    NotEmpty,
    #[error("somebody has cordoned it")]
    Cordoned,
    #[error("its group's scale-down is off, and nothing is bought for its pods")]
    ScaleDownOff,
    #[error("more of it is used than its group's thresholds say")]
    Utilized,
    #[error("pod {pod} keeps data on it")]
    LocalStorage { pod: String },
    #[error("pod {pod} is a part of the control plane")]
    SystemPod { pod: String },
    #[error("the others of its group would be too full")]
    CapacityLeft,
    #[error("pod {pod} is marked do-not-disrupt")]
    PodProtected { pod: String },
    #[error("pod {pod} would not come back")]
    PodWithoutController { pod: String },
    #[error("too many of its pool are broken")]
    PoolBroken,
}

/// Why an alternative could not be bought in a launch's stead. Read after the alternative's name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AlternativeFault {
    #[error("is not in the pool's catalog")]
    NotOffered,
    #[error("has another price in the catalog")]
    WrongPrice,
    #[error("cannot be had now")]
    Unavailable,
    #[error("does not meet the pool's requirements")]
    RequirementUnmet,
    #[error("is too small: not enough {resource}")]
    TooSmall { resource: Text },
    #[error("does not suit pod {pod}")]
    Unsuited { pod: String },
}

/// Where a pod that was left out would have fitted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Spot {
    #[error("node {0}")]
    Node(Text),
    #[error("the new node {0}")]
    Launch(Text),
    #[error("another {instance_type} of pool {pool} in {zone} as {capacity_type}")]
    Purchase { pool: Text, instance_type: Text, zone: Text, capacity_type: CapacityType },
}
