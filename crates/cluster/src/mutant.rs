//! Small deliberate bugs in the machines, which the tests must catch: a test that never failed proves nothing.
//!
//! Each is one short line that asks [`is_on`]. Without the feature `mutants`, which only tests enable, the answer is a constant
//! `false` and the compiler removes the line. With it, `with` switches one bug on for the calling thread. The bugs of mirrors are
//! those of `crates/mirror`.

macro_rules! mutants {
    ($($(#[$attribute:meta])+ $mutant:ident,)+) => {
        /// One deliberate mistake.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant {
            $($(#[$attribute])+ $mutant,)+
        }

        #[cfg(any(test, feature = "mutants"))]
        impl Mutant {
            /// All mutants.
            pub const ALL: &'static [Mutant] = &[$(Mutant::$mutant),+];
        }
    };
}

mutants! {
    /// A member counts its lease from when the grant arrived, not from when it sent the renewal.
    LeaseFromReceipt,
    /// The leader excludes a member one tick before its lease is certainly over.
    ExclusionOneTickEarly,
    /// A new leader does not wait for the leases that the last one granted.
    NewLeaderDoesNotWait,
    /// A voter does not remember whose renewals leaders have confirmed.
    RoundsForgotten,
    /// A voter that was restarted says that it remembers everything.
    RestartedVoterRemembers,
    /// A new leader counts all leases from its election, whatever voters say.
    ElectionRestartsLeases,
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
    /// A holder whose site is cut off keeps its lock when the lease ends.
    LapseKeepsLocks,
    /// The locks of a client whose session has ended stay with it.
    GoneClientKeepsLocks,
    /// A disk keeps a part of a batch that it did not complete. The disk is a simulated one.
    #[cfg(any(test, feature = "mutants"))]
    TornBatchKept,
    /// Every grant of every lock has the same fence.
    FenceStuck,
    /// Packets of another cluster are accepted.
    OtherClusterAccepted,
    /// A site that has lost its disk begins with its first incarnation again.
    StampIgnored,
    /// A voter that has lost its disk votes again.
    LostDiskVotes,
    /// Past incarnations that a view does not list any more may take part again.
    PastForgotten,
    /// Packets between members that cannot reach each other are not carried by others.
    NoDetours,
    /// Packets are believed to come from another site even if a site carries them that does not vote.
    AnyoneCarries,
    /// A site follows the lease terms of its own configuration.
    OwnTerms,
    /// A lock that is broken is free before the holder's time to stop is over.
    BrokenIsFreeAtOnce,
    /// A site that is full asks for a fresh view in every view, however short the last one was.
    RoomAskedForAtOnce,
    /// A site that has once been full goes on asking for fresh views, at the usual distance, though it has room.
    RoomAskedForEver,
    /// A client that was not served because of an outage is told that somebody else has the lock.
    OutageIsContention,
    /// A member confirms that a name may be used with another number of permits although its clients use it.
    ReservedInUse,
    /// A name goes back to the default rule although permits of it are out.
    FreedWhileInUse,
    /// The permits of a semaphore that the census lists are taken for free.
    CensusWithoutNumbers,
    /// After a change of rules new clients enter beside holders that count on a smaller number.
    OldNumbersForgotten,
    /// An acknowledgement makes room in the window of a link, and nothing that waits is sent.
    AckDoesNotSendOn,
    /// A peer whose oldest message was queued long ago is unreachable, although it acknowledges one after the other.
    UnreachableByAge,
    /// A view that is installed drops messages of earlier views that were sent already, and their numbers are used again.
    VoidDropsSent,
    /// A peer is acknowledged what waits at its receiver, until there is no room for more.
    NobodyHeldBack,
    /// A peer that was held back is never acknowledged anything again.
    HeldForEver,
    /// A new leader begins a round before it has committed anything, so that it is lost.
    RoundBeforeFirstCommit,
    /// A renewal is granted when a round of confirmation ends that began before the renewal came.
    GrantedByEarlierRound,
    /// A site that asks to join is told that it is too old without confirming that this site still leads.
    TooOldUnconfirmed,
    /// Calls are taken from sites that are no members.
    StrangersCallsTaken,
    /// A site takes calls that were meant for an earlier incarnation of it.
    PredecessorsCallsTaken,
    /// A site that has lost its disk takes the incarnation after the last one that a former leader knows.
    FormerLeaderBelieved,
    /// A site begins the incarnation after the last one on its disk, which may be an old copy.
    OldDiskTrusted,
    /// A leader goes on leading although its disk completes nothing.
    SlowDiskKeepsLeading,
    /// A site that led and learns that another one does waits until its next renewal is due.
    FormerLeaderAsksItself,
    /// A renewal that is not granted is sent again only when the next one is due.
    RenewalNotRepeated,
    /// A renewal that is not granted is sent again as seldom as ever when the lease is about to end.
    NoHurryAtTheEnd,
    /// A member that another one could not reach is refused, though it was stopped or cut off itself and has come back.
    ReportedMemberRefused,
    /// Of two members that could not reach each other, one of which has died, the other one is refused.
    DeadMemberCounts,
    /// Two members that cannot reach each other both stay, if their renewals seem rare by the leader's clock.
    LastingReportIgnored,
    /// A site that was restarted is taken for a second process under its name.
    RestartTakenForRival,
    /// A second process under the name of a running site is told to take the incarnation that the first one may take next.
    RivalTakesNextIncarnation,
    /// A process goes on with the incarnation after one that another process of its site has had.
    GoesOnAsAnother,
    /// A renewal of the lease gives locks back to holders that were told that they have lost them.
    RenewalRevivesLost,
    /// A lock for whose waiters nothing could be asked, without a lease, is not noted.
    WaiterNotNoted,
    /// A lock that was left between the census and the opening of the view is not noted.
    LeftUnnoticed,
    /// A lock that is held elsewhere is first used in a view as if nobody held it.
    HolderElsewhereForgotten,
    /// It is not noted that a name that nobody may enter has lost enough holders for a new view.
    DrainedUnnoticed,
    /// A member whose program knows only the rules is not told that holders count on another number of permits.
    OlderMemberMisled,
    /// A site acts as a voter although the log names another disk.
    IdOfAnotherDisk,
    /// A site that is no member takes a leader for outdated, because of a view that is old.
    OldViewBelieved,
    /// A voter does not note the rounds of a leader of which it does not know that it votes.
    StrangersRoundIgnored,
    /// A site that has said that it hears another one only through a carrier, and hears it directly then, does not say so at once.
    DirectWayNotTold,
    /// The voters before a change are not asked any more as soon as the change is known.
    OldVotersNotAsked,
    /// Voters are changed although too few of those after the change are there to decide.
    MinorityPromoted,
    /// A voter that writes nothing any more is counted on.
    LaggingVoterCounts,
    /// A cluster that is configured to be closed from its founding on is open until somebody closes it.
    FoundedOpen,
    /// A site that was removed stays barred from the cluster that is recovered on it.
    RecoveredIsBarred,
    /// A backup that is restored lets in again who was revoked after it was made, and does not close the cluster.
    RestoreForgets,
    /// A site joins although the access document does not admit it.
    AdmissionIgnored,
    /// The lease of a member that was removed or revoked is renewed.
    RemovedIsRenewed,
    /// Packets of a revoked site are carried and believed.
    RevokedIsCarried,
    /// A join token is not used up.
    TokenStays,
    /// The access document is replaced whatever version the request is based on.
    AnyBaseAccepted,
    /// The access document changes although a member does not know it.
    OlderMemberNotAsked,
    /// A client that claims a lock counts on it for longer than the former site keeps it.
    ClaimPromisedTooLong,
    /// A mirror's claim is forgotten with the next view, although the site that granted the lock is in that view.
    StandingClaimForgotten,
    /// A lock is claimed that was granted by an incarnation that is not in the view any more.
    ClaimOnDeparted,
    /// A claimed lock is kept although others have it.
    ClaimKeptInConflict,
    /// Claims become holds after the census was written.
    ClaimNotInCensus,
    /// Claims become holds although the site that granted the lock is still a member.
    ClaimCountedEarly,
    /// A claim is accepted whatever its proof says.
    ProofNotChecked,
    /// What a client can prove is not kept for it when its connection is cut.
    NoResumeWindow,
    /// What a client can prove, and was told is lost, goes to others although the client may not have heard it.
    LostProofForgotten,
    /// A site that has said that it leaves gives locks to others that somebody may claim elsewhere.
    FrozenReleases,
    /// A site leaves although clients count on claims there.
    LeavesWithClaims,
    /// A site leaves although a client that was cut off before it heard that counts on what it can prove.
    LeavesBeforeCutClient,
    /// A claim that has ended is not counted in a view without the former site, although its client may not have stopped.
    EndedClaimNotCounted,
    /// The claims of a client that was cut off are forgotten at once.
    CutClaimDropped,
    /// A claim that is taken away ends as if its client certainly heard that.
    ClaimLossHeard,
    /// A claim that has become a hold is given up as if its client certainly heard that.
    SettledUnheard,
    /// A mirror confirms news of a site that leaves although it could not claim what is held.
    LostConfirmed,
    /// A first voter that is not there is bound to the disk that the leader has recorded, whatever others have.
    OneRecordBinds,
    /// A leader does not ask members that may know no access document.
    DocumentToldOnce,
    /// A site that has asked to join is let in however long it has been silent since.
    JoinerNotForgotten,
    /// A member that was let in and never asks for a lease is waited for as if it had one.
    NewcomerHasALease,
    /// A change of a session counts as known to the mirror when it is sent.
    KnownWhenSent,
    /// An answer to the mirror that was lost is not told again.
    LostAnswerForgotten,
    /// What did not fit into an answer to the mirror counts as told with it.
    PartCountsAsWhole,
    /// What the mirror may count on is given to others at once.
    WindowNotAwaited,
    /// What a mirror was told that another one has replaced is forgotten.
    FormerMirrorForgotten,
    /// What the mirror knows counts as known although a former one may not know it.
    FormerUnaware,
    /// A new mirror is told of a session that a former one may claim.
    ToldBesideFormer,
    /// A mirror that another one has replaced begins to answer for sessions, and drops their claims.
    ReplacedStandsIn,
    /// A mirror confirms news of which it has dropped something.
    DroppedConfirmed,
    /// A mirror confirms news of a site that leaves although it cannot keep all of what it was told.
    PartConfirmed,
    /// A mirror drops sessions that a site which leaves does not list, because they have moved.
    MovedDropped,
    /// A site that leaves takes another mirror than the one that answers for its sessions.
    LeavesToAnother,
    /// A deadlock is believed that one round of questions has shown.
    DeadlockUnconfirmed,
    /// A semaphore counts as held by all who are listed, though some of its holders may go on.
    OneHolderIsEnough,
    /// Of a deadlock the oldest request is refused.
    OldestRefused,
    /// A page of locks goes on behind the last name up to which all members have listed everything.
    PageBeyondKnown,
    /// A page has names that its caller may not see.
    InvisibleListed,
    /// Whoever asks too late for changes of locks is not told that some are missing.
    MissedChangesNotTold,
    /// A site that leaves forgets its sessions before the mirror has confirmed that it answers for them.
    MovedUnconfirmed,
    /// A session that has changed since the mirror was told of it counts as moved.
    MovedAsItWas,
    /// The mirror promises a window from when an answer came, not from when its question was sent.
    PromisedFromAnswer,
    /// The mirror promises as long as the site may keep what it has told, without a margin.
    PromisedWithoutMargin,
    /// A lock that the mirrored site does not list any more counts as held.
    ReleaseOverlooked,
    /// A session that the first news does not list counts as one that is as it was.
    FirstNewsIsPart,
    /// The mirror goes on answering for a site that answers again.
    AnswersBesideItsSite,
    /// The mirror confirms at once news that takes away what it has promised a client.
    PromiseTakenAway,
    /// The session of a client that is revoked is copied.
    RevokedClientCopied,
    /// A release is acknowledged before the mirror knows it.
    AcknowledgedUnmirrored,
    /// A session that ended without its client's word gives its locks to others at once.
    GivenBeforeCleared,
    /// A client that shares a lock joins others although an exclusive one waits before it.
    ReaderPassesExclusive,
    /// A client that shares a lock joins others although one of them waits to be exclusive.
    ReaderPassesUpgrade,
    /// A client that shares a lock joins others although the machine says that somebody waits elsewhere.
    JoinUnasked,
    /// Clients that share a lock enter although others use its name with another number of permits.
    SharedBesideSemaphore,
    /// The machine of clients that share a lock is left with the first of them.
    LeftWithFirst,
    /// A client is exclusive as soon as it asks for it.
    UpgradedUnasked,
    /// An upgrade keeps the fence of its client.
    UpgradeKeepsFence,
    /// A downgrade between the census and the opening of the view is forgotten.
    DowngradeForgotten,
    /// The census lists every holder as an exclusive one.
    ModesNotInCensus,
    /// The census lists each client that shares a lock, and not all of a site as one.
    ReadersCountApart,
    /// When a view opens, holders are counted, whatever their modes.
    ModesNotCompared,
    /// Whoever is more urgent passes a waiter however often that was passed before.
    UrgentPassForEver,
}

/// Returns whether the bug is switched on: never, in this build.
#[cfg(not(any(test, feature = "mutants")))]
#[inline]
pub const fn is_on(_: Mutant) -> bool {
    false
}

#[cfg(any(test, feature = "mutants"))]
pub use switch::{is_caught_by, is_on, with};

#[cfg(any(test, feature = "mutants"))]
mod switch {
    //! The mutant that is switched on, for each thread.

    use std::cell::Cell;

    use super::Mutant;

    std::thread_local! {
        static ON: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Returns whether the bug is switched on for this thread.
    pub fn is_on(mutant: Mutant) -> bool {
        ON.get() == Some(mutant)
    }

    /// Runs `act` on this thread with the bug switched on, and switches it off afterwards, even if `act` panics.
    pub fn with<R>(mutant: Mutant, act: impl FnOnce() -> R) -> R {
        struct SwitchOff;

        impl Drop for SwitchOff {
            fn drop(&mut self) {
                ON.set(None);
            }
        }

        ON.set(Some(mutant));
        let _off = SwitchOff;
        act()
    }

    /// Checks that a test fails while the bug is made, and only then.
    pub fn is_caught_by(mutant: Mutant, test: fn()) {
        test();
        assert!(std::panic::catch_unwind(|| with(mutant, test)).is_err(), "{mutant:?} was not caught");
    }
}
