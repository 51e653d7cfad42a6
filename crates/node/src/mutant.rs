//! Known-bad variants of the machines, which the tests must catch: a test that never failed proves nothing.
//!
//! They exist in this crate's own tests only. In any other build [`Mutants::has`] is a constant `false`.

/// One deliberate mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// A member counts its lease from when the grant arrived, not from when it sent the renewal.
    LeaseFromReceipt,
    /// The leader excludes a member one tick before its lease is certainly over.
    ExclusionOneTickEarly,
    /// A new leader does not wait for the leases that the last one granted.
    NewLeaderDoesNotWait,
    /// A renewal is granted without confirming that this site still leads.
    GrantUnconfirmed,
    /// Machines start although the census of one member is missing.
    CensusSkipped,
    /// A reconnection loses the first message that was not acknowledged, and the receiver does not miss it.
    ReconnectDropsOne,
    /// The fences of every view begin as if it were the first one.
    FenceNotCarried,
    /// A message of an old epoch is handed to the machines of the new one.
    OldEpochAccepted,
    /// A grant is told to its client although the lease has ended.
    GrantWithoutLease,
    /// Votes and entries are sent before the disk has them.
    SendBeforePersist,
    /// A locked out holder keeps its lock when the lease ends.
    LapseKeepsLocks,
    /// The locks of a client that is gone stay with it.
    GoneClientKeepsLocks,
    /// A disk keeps what it had written of a batch that it did not complete.
    TornBatchKept,
    /// Every grant of every lock has the same fence.
    FenceStuck,
    /// Packets of another cluster are taken for this one's.
    OtherClusterAccepted,
    /// A site that has lost its disk begins with its first life again.
    StampIgnored,
    /// A voter that has lost its disk votes again.
    LostDiskVotes,
    /// Past lives that a view does not list any more may take part again.
    PastForgotten,
    /// A site goes by the terms of its own configuration.
    OwnTerms,
    /// A lock that is taken away is free before its holder's time to stop is over.
    BrokenIsFreeAtOnce,
}

#[cfg(test)]
impl Mutant {
    /// All of them.
    pub(crate) const ALL: [Mutant; 20] = [
        Mutant::LeaseFromReceipt,
        Mutant::ExclusionOneTickEarly,
        Mutant::NewLeaderDoesNotWait,
        Mutant::GrantUnconfirmed,
        Mutant::CensusSkipped,
        Mutant::ReconnectDropsOne,
        Mutant::FenceNotCarried,
        Mutant::OldEpochAccepted,
        Mutant::GrantWithoutLease,
        Mutant::SendBeforePersist,
        Mutant::LapseKeepsLocks,
        Mutant::GoneClientKeepsLocks,
        Mutant::TornBatchKept,
        Mutant::FenceStuck,
        Mutant::OtherClusterAccepted,
        Mutant::StampIgnored,
        Mutant::LostDiskVotes,
        Mutant::PastForgotten,
        Mutant::OwnTerms,
        Mutant::BrokenIsFreeAtOnce,
    ];
}

/// Which mistakes a machine makes: none, outside of tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mutants {
    #[cfg(test)]
    active: Option<Mutant>,
}

impl Mutants {
    /// Makes this one mistake.
    #[cfg(test)]
    pub(crate) fn only(mutant: Mutant) -> Self {
        Mutants { active: Some(mutant) }
    }

    /// Whether this mistake is made.
    #[cfg(test)]
    pub(crate) fn has(self, mutant: Mutant) -> bool {
        self.active == Some(mutant)
    }

    /// Whether this mistake is made: never.
    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "the same call as in tests")]
    pub(crate) const fn has(self, _: Mutant) -> bool {
        false
    }
}
