//! How pods leave a node: in which order, and for how long they are asked.

/// How long pods may take to leave a node that goes only to save money. After that it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainLimits {
    /// For all of them together.
    pub secs_max: u64,
    /// For one whose eviction is refused.
    pub refused_secs_max: u64,
}

/// What is seen of such a drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainSight {
    /// Since it began, if it has.
    pub draining_secs: Option<u64>,
    /// For how long the same pod's eviction has been refused.
    pub refused_secs: Option<u64>,
    /// It was given up, and not all of that is done.
    pub failed: Option<DrainFailure>,
    pub is_drained: bool,
}

/// What is to become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainCourse {
    Begin,
    GoOn,
    Done,
    GiveUp(DrainFailure),
}

/// Why a node stays that was being drained, in VPSie's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainFailure {
    /// A pod would not go, or had nowhere to go.
    Failed,
    Timeout,
}

impl DrainFailure {
    pub fn named(name: &str) -> Option<Self> {
        [Self::Failed, Self::Timeout].into_iter().find(|failure| failure.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Timeout => "timeout",
        }
    }
}

pub fn drain_course(sight: DrainSight, limits: DrainLimits) -> DrainCourse {
    let exceeds = |secs: Option<u64>, most: u64| secs.is_some_and(|secs| secs > most);
    match sight {
        DrainSight { is_drained: true, .. } => DrainCourse::Done,
        DrainSight { draining_secs: None, .. } => DrainCourse::Begin,
        DrainSight { failed: Some(failure), .. } => DrainCourse::GiveUp(failure),
        _ if exceeds(sight.refused_secs, limits.refused_secs_max) => {
            DrainCourse::GiveUp(DrainFailure::Failed)
        }
        _ if exceeds(sight.draining_secs, limits.secs_max) => DrainCourse::GiveUp(DrainFailure::Timeout),
        _ => DrainCourse::GoOn,
    }
}

/// A pod of a node that is drained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is seen by itself, and any may hold with any other")]
pub struct Tenant {
    /// Of one of the system's own priorities.
    pub is_critical: bool,
    pub is_daemon: bool,
    /// It is the kubelet's own, has ended, or tolerates being there: nobody waits for it.
    pub may_stay: bool,
    pub is_protected: bool,
    /// Others move first (`turns`).
    pub awaits_others: bool,
    /// Since when it should have ended, if it was told to.
    pub overdue_secs: Option<i64>,
    /// How long it may take to end.
    pub grace_secs: u64,
}

/// A pod that should have ended so long ago will not do so while its node is there.
const STUCK_SECS: i64 = 60;

/// Whether a pod that was told to end, and should have for so long, is waited for no longer.
pub fn is_stuck(overdue_secs: Option<i64>) -> bool {
    overdue_secs.is_some_and(|secs| secs > STUCK_SECS)
}

/// What is to be done with the pods, by their indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drain {
    Done,
    /// Those are asked to go, those are made to go because there is no more time for them; others are waited for.
    Going {
        evict: Vec<usize>,
        delete: Vec<usize>,
    },
}

/// Pods go in four tiers, each when those before it have gone: others before critical ones, and in both daemons last.
/// `left_secs` is what is left until the claim's deadline, if it has one.
pub fn drain(pods: &[Tenant], left_secs: Option<u64>) -> Drain {
    let waited_for =
        || pods.iter().enumerate().filter(|(_, pod)| !pod.may_stay && !is_stuck(pod.overdue_secs));
    let tier = |pod: &Tenant| (pod.is_critical, pod.is_daemon);
    let Some(first) = waited_for().map(|(_, pod)| tier(pod)).min() else { return Drain::Done };
    let is_late = |pod: &Tenant| left_secs.is_some_and(|left| left <= pod.grace_secs);
    let told = |pod: &Tenant| pod.overdue_secs.is_some();
    let indices = |wanted: &dyn Fn(&Tenant) -> bool| {
        waited_for().filter(|(_, pod)| !told(pod) && wanted(pod)).map(|(index, _)| index).collect()
    };
    Drain::Going {
        evict: indices(&|pod| tier(pod) == first && !pod.is_protected && !pod.awaits_others && !is_late(pod)),
        delete: indices(&is_late),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain() {
        let limits = DrainLimits { secs_max: 300, refused_secs_max: 120 };
        let sight =
            |draining_secs, refused_secs| DrainSight { draining_secs, refused_secs, ..DrainSight::default() };
        let give_up = DrainCourse::GiveUp;
        for (what, sight, expected) in [
            ("to begin", sight(None, None), DrainCourse::Begin),
            ("under way", sight(Some(300), None), DrainCourse::GoOn),
            ("too long", sight(Some(301), None), give_up(DrainFailure::Timeout)),
            ("one is refused", sight(Some(200), Some(120)), DrainCourse::GoOn),
            ("for too long", sight(Some(200), Some(121)), give_up(DrainFailure::Failed)),
            (
                "given up before",
                DrainSight { failed: Some(DrainFailure::Failed), ..sight(Some(1), None) },
                give_up(DrainFailure::Failed),
            ),
            ("over", DrainSight { is_drained: true, ..sight(Some(999), Some(999)) }, DrainCourse::Done),
        ] {
            assert_eq!(drain_course(sight, limits), expected, "{what}");
        }
    }

    #[test]
    fn pods_go_in_tiers() {
        let pod = Tenant { grace_secs: 30, ..Tenant::default() };
        let daemon = Tenant { is_daemon: true, ..pod };
        let critical = Tenant { is_critical: true, ..pod };
        let critical_daemon = Tenant { is_critical: true, ..daemon };
        let going = Tenant { overdue_secs: Some(-5), ..pod };
        let stuck = Tenant { overdue_secs: Some(61), ..pod };
        let protected = Tenant { is_protected: true, ..pod };
        let stays = Tenant { may_stay: true, ..pod };
        let going_on = |evict: &[usize], delete: &[usize]| Drain::Going {
            evict: evict.to_vec(),
            delete: delete.to_vec(),
        };
        let awaiting = Tenant { awaits_others: true, ..pod };
        let cases: [(&str, &[Tenant], Option<u64>, Drain); 14] = [
            ("empty", &[], None, Drain::Done),
            ("the first tier", &[critical_daemon, critical, daemon, pod, pod], None, going_on(&[3, 4], &[])),
            ("the second", &[critical_daemon, critical, daemon], None, going_on(&[2], &[])),
            ("the third", &[critical_daemon, critical], None, going_on(&[1], &[])),
            ("the last", &[critical_daemon], None, going_on(&[0], &[])),
            ("those that go hold up the next tier", &[going, daemon], None, going_on(&[], &[])),
            ("those that hang do not", &[stuck, daemon], None, going_on(&[1], &[])),
            ("those that may stay do not", &[stays], None, Drain::Done),
            ("the protected hold up all", &[protected, daemon], None, going_on(&[], &[])),
            ("until their time is up", &[protected, daemon], Some(30), going_on(&[], &[0, 1])),
            ("not before", &[protected, pod], Some(31), going_on(&[1], &[])),
            ("each in its turn", &[awaiting, pod], None, going_on(&[1], &[])),
            ("those that wait for it hold up the next tier", &[awaiting, daemon], None, going_on(&[], &[])),
            ("also until their time is up", &[awaiting], Some(30), going_on(&[], &[0])),
        ];
        for (what, pods, left, expected) in cases {
            assert_eq!(drain(pods, left), expected, "{what}");
        }
    }
}
