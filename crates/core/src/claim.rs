//! A claim's life: what to do next, given what is seen of it.
//!
//! Nothing is remembered between two looks but what stands in the objects themselves. So whoever looks next, after a
//! crash or as another leader, goes on where it was left; and whatever is done twice is the same as done once.

mod drain;

use std::fmt;

pub use drain::{
    Drain, DrainCourse, DrainFailure, DrainLimits, DrainSight, Tenant, drain, drain_course, is_stuck,
};

/// A claim that takes longer to be launched is given up.
const LAUNCH_SECS_MAX: u64 = 300;
/// As is a machine that does not join.
const REGISTRATION_SECS_MAX: u64 = 900;
/// VPSie takes its time: a quarter of an hour until it tells of a node, after which two lists have to agree that there is
/// none. Whoever gives up sooner pays for a node that comes when nobody wants it any more.
const PROVISIONING_SECS_MAX: u64 = 1080;
/// After so long VPSie's own autoscaler no longer waits for a machine to run.
const STARTING_SECS_MAX: u64 = 600;
/// A cloud may not tell of a machine at once: before this age nothing follows from its silence.
pub const UNTOLD_SECS_MAX: u64 = 300;

/// All that is seen of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is seen by itself, and any may hold with any other")]
pub struct Sight {
    /// Since it was made.
    pub age_secs: u64,
    /// Whether its pool's ledger has it. A claim that it has not is over some limit.
    pub is_committed: bool,
    /// Since its machine is known.
    pub launched_secs: Option<u64>,
    /// Since its machine runs, where its cloud says so.
    pub running_secs: Option<u64>,
    /// Its machine is known, and it does not say yet that it was launched.
    pub is_unconfirmed: bool,
    pub is_registered: bool,
    pub is_initialized: bool,
    pub node: NodeSight,
    pub machine: MachineSight,
    /// The cloud takes its machine away by itself.
    pub is_interrupted: bool,
    /// It is being deleted, for as long as this.
    pub deleting_secs: Option<u64>,
    /// After so long a drain ends whatever is left.
    pub termination_grace_secs: Option<u64>,
    /// There is such an end, and the claim does not say yet when it comes.
    pub owes_deadline: bool,
    pub is_drained: bool,
    /// It has failed, for as long as this.
    pub failed_secs: Option<u64>,
    /// Its machine, if it had any, is known to be gone, though the claim is not.
    pub is_ended: bool,
    pub failures: Failures,
    pub deadlines: Deadlines,
}

/// How long a claim may take to come up. After that it is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// From when it was made until its machine is known.
    pub launch_secs: u64,
    /// From then until the machine runs. One that takes longer counts as one that does.
    pub starting_secs: u64,
    /// From then until the machine joins.
    pub registration_secs: u64,
    /// From when the machine runs until its node is ready. `None`: one that has joined may take for ever.
    pub ready_secs: Option<u64>,
}

/// Karpenter's.
impl Default for Deadlines {
    fn default() -> Self {
        Self {
            launch_secs: LAUNCH_SECS_MAX,
            starting_secs: 0,
            registration_secs: REGISTRATION_SECS_MAX,
            ready_secs: None,
        }
    }
}

impl Deadlines {
    /// VPSie's, where somebody has said how long a node may take to be ready, or nobody has. How long VPSie takes to make
    /// its machine is not for them to say: it comes, and costs, whoever waits for it.
    pub fn vpsie(ready_secs: Option<u64>) -> Self {
        let unsaid = PROVISIONING_SECS_MAX + REGISTRATION_SECS_MAX;
        Self {
            launch_secs: PROVISIONING_SECS_MAX,
            starting_secs: STARTING_SECS_MAX,
            registration_secs: ready_secs.unwrap_or(REGISTRATION_SECS_MAX),
            ready_secs: Some(ready_secs.unwrap_or(unsaid)),
        }
    }
}

/// What becomes of claims that fail before they are up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Failures {
    /// They go with their machines.
    #[default]
    Deleted,
    /// Their machines go, and they stay to be seen for so long.
    KeptSecs(u64),
    /// They stay until somebody deletes them.
    Kept,
}

/// What is seen of the claim's node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeSight {
    /// Nodes are not all seen, or not lately.
    #[default]
    Unseen,
    Absent,
    Present(NodeState),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is seen by itself, and any may hold with any other")]
pub struct NodeState {
    pub is_ready: bool,
    /// Taints that go away while a node comes up are still there.
    pub has_passing_taints: bool,
    /// It reports all resources that the claim promises.
    pub has_resources: bool,
    pub is_deleting: bool,
    /// It takes no pods, because it is to go.
    pub is_closed: bool,
    /// Volumes of pods that have left are still attached.
    pub has_volumes: bool,
}

impl NodeState {
    /// What is waited for until it is up.
    pub fn awaits(self) -> Option<Waiting> {
        match self {
            Self { is_ready: false, .. } => Some(Waiting::Ready),
            Self { has_passing_taints: true, .. } => Some(Waiting::PassingTaints),
            Self { has_resources: false, .. } => Some(Waiting::Resources),
            _ => None,
        }
    }
}

/// What the cloud says of the claim's machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MachineSight {
    /// It was not asked, or did not tell all.
    #[default]
    Unseen,
    /// It is in none of two complete lists, one after the other.
    Absent,
    Present,
}

/// The next thing to do. Each may be done twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Wait(Waiting),
    /// Ask the cloud for its machine, with the claim's uid as the token.
    Launch,
    /// Write down that it was launched: whoever was to do so did not get to it.
    Confirm,
    /// Make the node the claim's: labels, taints, finalizer; and take away the mark of a stranger.
    Register,
    Initialize,
    /// Delete the claim: all else follows from that.
    Delete(Ending),
    /// Write down that it failed, and why.
    Fail(Ending),
    /// End the machine of a claim that failed, and again until the cloud says that it is gone.
    EndFailed,
    /// Write down by when the node's pods have to be gone.
    NoteDeadline,
    /// Let no more pods come to the node.
    Close,
    /// Look at the node's pods and evict those whose turn it is.
    Drain,
    /// Say that volumes are waited for, until they are detached.
    AwaitVolumes,
    /// End the machine, and again until the cloud says that it is gone.
    EndMachine,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Waiting {
    /// For the machine to join.
    Join,
    /// For the node to be ready.
    Ready,
    /// For taints of the start to go.
    PassingTaints,
    /// For resources that the node does not report yet.
    Resources,
    /// For nothing: it is up.
    Nothing,
    /// For a view of what there is.
    Sight,
}

/// Why a claim ends without anybody having decided on a disruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ending {
    NotCommitted,
    LaunchTimeout,
    RegistrationTimeout,
    ReadyTimeout,
    /// No offering of it can be had.
    InsufficientCapacity,
    /// The account may have no more of any.
    LimitReached,
    MachineGone,
    NodeGone,
    NodeDeleted,
    Interrupted,
    /// It failed, and has been seen for long enough.
    FailureExpired,
}

impl Ending {
    pub fn name(self) -> &'static str {
        match self {
            Self::NotCommitted => "NotCommitted",
            Self::LaunchTimeout => "LaunchTimeout",
            Self::RegistrationTimeout => "RegistrationTimeout",
            Self::ReadyTimeout => "ReadyTimeout",
            Self::InsufficientCapacity => "InsufficientCapacityError",
            Self::LimitReached => "CapacityLimitReached",
            Self::MachineGone => "MachineGone",
            Self::NodeGone => "NodeGone",
            Self::NodeDeleted => "NodeDeleted",
            Self::Interrupted => "Interrupted",
            Self::FailureExpired => "FailureExpired",
        }
    }

    pub fn meaning(self) -> &'static str {
        match self {
            Self::NotCommitted => {
                "its pool's ledger does not have it, so it would be beyond the pool's limits"
            }
            Self::LaunchTimeout => "its machine could not be launched in time",
            Self::RegistrationTimeout => "its machine did not join in time",
            Self::ReadyTimeout => "its node was not ready in time",
            Self::InsufficientCapacity => "no offering that would do can be had now",
            Self::LimitReached => "the account may have no more machines that would do",
            Self::MachineGone => "its machine is gone",
            Self::NodeGone => "its node is gone",
            Self::NodeDeleted => "its node is being deleted",
            Self::Interrupted => "the cloud takes its machine away",
            Self::FailureExpired => "it failed, and was kept for as long as failures are",
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What comes next.
pub fn step(sight: &Sight) -> Step {
    match (sight.deleting_secs, sight.failed_secs) {
        (Some(deleting_secs), _) => leave(sight, deleting_secs),
        (None, Some(failed_secs)) => rest(sight, failed_secs),
        (None, None) => match live(sight) {
            Step::Delete(ending) if sight.failures != Failures::Deleted && is_failure(sight, ending) => {
                Step::Fail(ending)
            }
            step => step,
        },
    }
}

/// Whether it was wanted and never came up. Pods may run on others, which have to leave first.
fn is_failure(sight: &Sight, ending: Ending) -> bool {
    match ending {
        Ending::LaunchTimeout
        | Ending::RegistrationTimeout
        | Ending::InsufficientCapacity
        | Ending::LimitReached => true,
        Ending::ReadyTimeout => !matches!(sight.node, NodeSight::Present(NodeState { is_ready: true, .. })),
        Ending::MachineGone => !sight.is_registered,
        Ending::NotCommitted
        | Ending::NodeGone
        | Ending::NodeDeleted
        | Ending::Interrupted
        | Ending::FailureExpired => false,
    }
}

/// What comes after a failure.
fn rest(sight: &Sight, failed_secs: u64) -> Step {
    match sight.failures {
        _ if !sight.is_ended => Step::EndFailed,
        Failures::KeptSecs(secs) if failed_secs < secs => Step::Wait(Waiting::Nothing),
        Failures::Kept => Step::Wait(Waiting::Nothing),
        Failures::KeptSecs(_) | Failures::Deleted => Step::Delete(Ending::FailureExpired),
    }
}

fn live(sight: &Sight) -> Step {
    let Some(launched_secs) = sight.launched_secs else {
        return if !sight.is_committed {
            Step::Delete(Ending::NotCommitted)
        } else if sight.age_secs > sight.deadlines.launch_secs {
            Step::Delete(Ending::LaunchTimeout)
        } else {
            Step::Launch
        };
    };
    if sight.is_unconfirmed {
        return Step::Confirm;
    }
    if sight.is_interrupted {
        return Step::Delete(Ending::Interrupted);
    }
    if is_machine_gone(sight) {
        return Step::Delete(Ending::MachineGone);
    }
    let Deadlines { starting_secs, registration_secs, ready_secs, .. } = sight.deadlines;
    let running_secs = sight.running_secs.unwrap_or(launched_secs.saturating_sub(starting_secs));
    let is_late = !sight.is_initialized && ready_secs.is_some_and(|most| running_secs > most);
    match sight.node {
        NodeSight::Unseen => Step::Wait(Waiting::Sight),
        NodeSight::Absent if sight.is_registered => Step::Delete(Ending::NodeGone),
        NodeSight::Absent if running_secs > registration_secs => Step::Delete(Ending::RegistrationTimeout),
        NodeSight::Absent if is_late => Step::Delete(Ending::ReadyTimeout),
        NodeSight::Absent => Step::Wait(Waiting::Join),
        NodeSight::Present(node) if node.is_deleting => Step::Delete(Ending::NodeDeleted),
        // One that is ready by now is let in all the same.
        NodeSight::Present(node) if is_late && node.awaits().is_some() => Step::Delete(Ending::ReadyTimeout),
        NodeSight::Present(_) if !sight.is_registered => Step::Register,
        NodeSight::Present(_) if sight.is_initialized => Step::Wait(Waiting::Nothing),
        NodeSight::Present(node) => node.awaits().map_or(Step::Initialize, Step::Wait),
    }
}

/// The cloud no longer tells of a machine, and nothing else does. A list may leave out what is new, or what it should
/// have; but a node that is ready runs on something.
fn is_machine_gone(sight: &Sight) -> bool {
    let is_new = sight.launched_secs.is_some_and(|secs| secs <= UNTOLD_SECS_MAX);
    let may_be_heard =
        matches!(sight.node, NodeSight::Unseen | NodeSight::Present(NodeState { is_ready: true, .. }));
    sight.machine == MachineSight::Absent && !is_new && !may_be_heard
}

fn leave(sight: &Sight, deleting_secs: u64) -> Step {
    let is_overdue = sight.termination_grace_secs.is_some_and(|grace| deleting_secs >= grace);
    match sight.node {
        NodeSight::Unseen => Step::Wait(Waiting::Sight),
        NodeSight::Present(_) if sight.owes_deadline => Step::NoteDeadline,
        NodeSight::Present(node) if !node.is_closed => Step::Close,
        // What is on a machine that is gone cannot be drained, nor be harmed.
        NodeSight::Present(_) if is_machine_gone(sight) => Step::EndMachine,
        NodeSight::Present(_) if !sight.is_drained && !is_overdue => Step::Drain,
        NodeSight::Present(node) if node.has_volumes && !is_overdue => Step::AwaitVolumes,
        NodeSight::Present(_) | NodeSight::Absent => Step::EndMachine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up() -> Sight {
        let node = NodeState { is_ready: true, has_resources: true, ..NodeState::default() };
        Sight {
            age_secs: 100,
            is_committed: true,
            launched_secs: Some(90),
            is_registered: true,
            is_initialized: true,
            node: NodeSight::Present(node),
            machine: MachineSight::Present,
            ..Sight::default()
        }
    }

    fn node(change: impl FnOnce(&mut NodeState)) -> NodeSight {
        let mut node = NodeState { is_ready: true, has_resources: true, ..NodeState::default() };
        change(&mut node);
        NodeSight::Present(node)
    }

    #[test]
    fn a_life() {
        let born = || Sight {
            age_secs: 1,
            launched_secs: None,
            is_registered: false,
            is_initialized: false,
            node: NodeSight::Absent,
            machine: MachineSight::Unseen,
            ..up()
        };
        let launched = || Sight { launched_secs: Some(1), ..born() };
        let registered = || Sight { is_registered: true, node: node(|_| {}), ..launched() };
        let cases = [
            ("new", born(), Step::Launch),
            (
                "not in the ledger",
                Sight { is_committed: false, ..born() },
                Step::Delete(Ending::NotCommitted),
            ),
            ("too slow", Sight { age_secs: 301, ..born() }, Step::Delete(Ending::LaunchTimeout)),
            ("on its way", launched(), Step::Wait(Waiting::Join)),
            ("half written down", Sight { is_unconfirmed: true, ..launched() }, Step::Confirm),
            (
                "the ledger no longer matters",
                Sight { is_committed: false, ..launched() },
                Step::Wait(Waiting::Join),
            ),
            ("untold yet", Sight { machine: MachineSight::Absent, ..launched() }, Step::Wait(Waiting::Join)),
            (
                "gone before it came",
                Sight { machine: MachineSight::Absent, launched_secs: Some(301), ..launched() },
                Step::Delete(Ending::MachineGone),
            ),
            (
                "untold, and its node is ready",
                Sight { machine: MachineSight::Absent, launched_secs: Some(999), ..up() },
                Step::Wait(Waiting::Nothing),
            ),
            (
                "never joins",
                Sight { launched_secs: Some(901), ..launched() },
                Step::Delete(Ending::RegistrationTimeout),
            ),
            (
                "nobody looks",
                Sight { launched_secs: Some(901), node: NodeSight::Unseen, ..launched() },
                Step::Wait(Waiting::Sight),
            ),
            ("joined", Sight { node: node(|n| n.is_ready = false), ..launched() }, Step::Register),
            (
                "not ready",
                Sight { node: node(|n| n.is_ready = false), ..registered() },
                Step::Wait(Waiting::Ready),
            ),
            (
                "tainted",
                Sight { node: node(|n| n.has_passing_taints = true), ..registered() },
                Step::Wait(Waiting::PassingTaints),
            ),
            (
                "without its devices",
                Sight { node: node(|n| n.has_resources = false), ..registered() },
                Step::Wait(Waiting::Resources),
            ),
            ("ready", registered(), Step::Initialize),
            ("up", up(), Step::Wait(Waiting::Nothing)),
            (
                "up and not ready",
                Sight { node: node(|n| n.is_ready = false), ..up() },
                Step::Wait(Waiting::Nothing),
            ),
            ("interrupted", Sight { is_interrupted: true, ..up() }, Step::Delete(Ending::Interrupted)),
            ("without a node", Sight { node: NodeSight::Absent, ..up() }, Step::Delete(Ending::NodeGone)),
            (
                "somebody deletes the node",
                Sight { node: node(|n| n.is_deleting = true), ..up() },
                Step::Delete(Ending::NodeDeleted),
            ),
        ];
        for (what, sight, expected) in cases {
            assert_eq!(step(&sight), expected, "{what}");
        }
    }

    #[test]
    fn a_node_has_to_be_ready_in_time() {
        let kept = Failures::KeptSecs(60);
        let late = |node: NodeSight| Sight {
            age_secs: 1300,
            launched_secs: Some(1000),
            running_secs: Some(601),
            is_registered: true,
            is_initialized: false,
            deadlines: Deadlines::vpsie(Some(600)),
            failures: kept,
            node,
            ..up()
        };
        let unready = || node(|n| n.is_ready = false);
        let cases = [
            ("in time", Sight { running_secs: Some(600), ..late(unready()) }, Step::Wait(Waiting::Ready)),
            (
                "its machine does not run yet",
                Sight { launched_secs: Some(1200), running_secs: None, ..late(unready()) },
                Step::Wait(Waiting::Ready),
            ),
            (
                "nor will it",
                Sight { launched_secs: Some(1201), running_secs: None, ..late(unready()) },
                Step::Fail(Ending::ReadyTimeout),
            ),
            ("not ready", late(unready()), Step::Fail(Ending::ReadyTimeout)),
            (
                "not there",
                Sight { is_registered: false, ..late(NodeSight::Absent) },
                Step::Fail(Ending::RegistrationTimeout),
            ),
            (
                "it may have pods",
                late(node(|n| n.has_passing_taints = true)),
                Step::Delete(Ending::ReadyTimeout),
            ),
            ("ready at last", late(node(|_| {})), Step::Initialize),
            ("once up", Sight { is_initialized: true, ..late(unready()) }, Step::Wait(Waiting::Nothing)),
            (
                "VPSie may yet tell of it",
                Sight { age_secs: 1080, launched_secs: None, ..late(NodeSight::Absent) },
                Step::Launch,
            ),
            (
                "never launched",
                Sight { launched_secs: None, ..late(NodeSight::Absent) },
                Step::Fail(Ending::LaunchTimeout),
            ),
            (
                "nobody has said how long",
                Sight { deadlines: Deadlines::vpsie(None), ..late(unready()) },
                Step::Wait(Waiting::Ready),
            ),
            (
                "which is not for ever",
                Sight { running_secs: Some(1981), deadlines: Deadlines::vpsie(None), ..late(unready()) },
                Step::Fail(Ending::ReadyTimeout),
            ),
            (
                "Karpenter's may take for ever",
                Sight { running_secs: Some(99_999), deadlines: Deadlines::default(), ..late(unready()) },
                Step::Wait(Waiting::Ready),
            ),
        ];
        for (what, sight, expected) in cases {
            assert_eq!(step(&sight), expected, "{what}");
        }
    }

    #[test]
    fn a_failure() {
        let kept = || Sight {
            age_secs: 301,
            launched_secs: None,
            is_registered: false,
            is_initialized: false,
            node: NodeSight::Absent,
            failures: Failures::KeptSecs(60),
            ..up()
        };
        let failed = |secs: u64| Sight { failed_secs: Some(secs), ..kept() };
        let ended = |secs: u64| Sight { is_ended: true, ..failed(secs) };
        let cases = [
            ("is written down", kept(), Step::Fail(Ending::LaunchTimeout)),
            (
                "is a machine that goes before it joins",
                Sight { launched_secs: Some(301), machine: MachineSight::Absent, ..kept() },
                Step::Fail(Ending::MachineGone),
            ),
            (
                "is none where it was too much",
                Sight { is_committed: false, ..kept() },
                Step::Delete(Ending::NotCommitted),
            ),
            (
                "is none once it was up",
                Sight { node: NodeSight::Absent, failures: Failures::KeptSecs(60), ..up() },
                Step::Delete(Ending::NodeGone),
            ),
            ("ends the machine", failed(1), Step::EndFailed),
            ("ends it however long that takes", failed(61), Step::EndFailed),
            ("is to be seen", ended(59), Step::Wait(Waiting::Nothing)),
            ("is over", ended(60), Step::Delete(Ending::FailureExpired)),
            ("is kept", Sight { failures: Failures::Kept, ..ended(99_999) }, Step::Wait(Waiting::Nothing)),
            ("may be deleted", Sight { deleting_secs: Some(0), ..failed(1) }, Step::EndMachine),
        ];
        for (what, sight, expected) in cases {
            assert_eq!(step(&sight), expected, "{what}");
        }
    }

    #[test]
    fn an_end() {
        let ending = || Sight { deleting_secs: Some(10), ..up() };
        let closed = || Sight { node: node(|n| n.is_closed = true), ..ending() };
        let hung = |n: &mut NodeState| (n.is_closed, n.has_volumes) = (true, true);
        let cases = [
            ("first it says by when", Sight { owes_deadline: true, ..ending() }, Step::NoteDeadline),
            ("then it takes no more pods", ending(), Step::Close),
            ("then they go", closed(), Step::Drain),
            ("they may take their time", Sight { deleting_secs: Some(99_999), ..closed() }, Step::Drain),
            (
                "unless it is limited",
                Sight { deleting_secs: Some(60), termination_grace_secs: Some(60), ..closed() },
                Step::EndMachine,
            ),
            (
                "then their volumes",
                Sight { is_drained: true, node: node(hung), ..closed() },
                Step::AwaitVolumes,
            ),
            (
                "within the limit",
                Sight { is_drained: true, node: node(hung), termination_grace_secs: Some(5), ..closed() },
                Step::EndMachine,
            ),
            ("then the machine", Sight { is_drained: true, ..closed() }, Step::EndMachine),
            (
                "nothing to drain",
                Sight {
                    machine: MachineSight::Absent,
                    launched_secs: Some(301),
                    node: node(|n| (n.is_closed, n.is_ready) = (true, false)),
                    ..closed()
                },
                Step::EndMachine,
            ),
            (
                "the cloud does not tell of it yet",
                Sight {
                    machine: MachineSight::Absent,
                    node: node(|n| (n.is_closed, n.is_ready) = (true, false)),
                    ..closed()
                },
                Step::Drain,
            ),
            (
                "the cloud does not tell of it, but its node is ready",
                Sight { machine: MachineSight::Absent, launched_secs: Some(301), ..closed() },
                Step::Drain,
            ),
            ("no node at all", Sight { node: NodeSight::Absent, ..ending() }, Step::EndMachine),
            ("nobody looks", Sight { node: NodeSight::Unseen, ..ending() }, Step::Wait(Waiting::Sight)),
            (
                "never launched",
                Sight { launched_secs: None, node: NodeSight::Absent, ..ending() },
                Step::EndMachine,
            ),
        ];
        for (what, sight, expected) in cases {
            assert_eq!(step(&sight), expected, "{what}");
        }
    }
}
