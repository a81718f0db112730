//! Bugs that others had, to be planted one at a time: the fault suite has to catch each of them.
//!
//! Without the feature `planted-bugs`, which only tests have, none of this is there.

/// A bug, by what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// Claims are made first and committed to afterwards.
    MarkAfterwards,
    /// What a pool may have is not looked at again when it is committed to.
    NoReservation,
    /// Claims count once they have nodes.
    CountNodes,
    /// Nodes that are coming are not planned with.
    InFlightIgnored,
    /// Who leaves is not written down.
    QueueInMemory,
    /// Nodes are given up before they are closed to pods.
    DecideBeforeTaint,
    /// One list without a machine proves that it is gone.
    OneList,
    /// A claim counts for the planner once it is launched, and for the ledger before.
    TwoCounts,
    /// Some claim is deleted instead of the one that was chosen.
    DeleteByCount,
    /// A claim that is gone goes on being seen.
    GhostEntry,
    /// Nobody looks whether another leads by now.
    LeadRemembered,
    /// Pods are deleted where they should be evicted.
    DeletePods,
    /// A launch that may have been lost is repeated as another one.
    NewToken,
    /// What a cloud that knows no tokens wants written down is not.
    LaunchUnnoted,
    /// What keeps VPSie's nodes is not looked at.
    ChecksSkipped,
    /// A machine that cannot be ended counts as gone.
    FailureIsGone,
    /// A pod that may not be evicted counts as gone.
    DrainGivenUp,
}

impl PlantedBug {
    #[cfg(feature = "planted-bugs")]
    pub const ALL: [Self; 17] = [
        Self::MarkAfterwards,
        Self::NoReservation,
        Self::CountNodes,
        Self::InFlightIgnored,
        Self::QueueInMemory,
        Self::DecideBeforeTaint,
        Self::OneList,
        Self::TwoCounts,
        Self::DeleteByCount,
        Self::GhostEntry,
        Self::LeadRemembered,
        Self::DeletePods,
        Self::NewToken,
        Self::LaunchUnnoted,
        Self::ChecksSkipped,
        Self::FailureIsGone,
        Self::DrainGivenUp,
    ];

    /// Whether operators on this thread have it.
    #[cfg(feature = "planted-bugs")]
    pub(crate) fn is_planted(self) -> bool {
        PLANTED.get() == Some(self)
    }

    #[cfg(not(feature = "planted-bugs"))]
    #[expect(clippy::unused_self, reason = "with the feature it is asked of one of them")]
    pub(crate) const fn is_planted(self) -> bool {
        false
    }

    /// Has operators on this thread have it from now on, or none.
    #[cfg(feature = "planted-bugs")]
    pub fn plant(bug: Option<Self>) {
        PLANTED.set(bug);
    }
}

#[cfg(feature = "planted-bugs")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<PlantedBug>> = const { std::cell::Cell::new(None) };
}
