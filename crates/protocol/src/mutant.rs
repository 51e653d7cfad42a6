//! Small deliberate bugs, to see whether the checker would notice them.
//!
//! Each is one short line in an algorithm, or in its host, that asks `is_on`. Without the feature `mutants`, which only tests enable, the answer
//! is a constant, and the compiler takes the line out. With it, and in this crate's own unit tests, one mutant can be switched on with
//! `with` for the calling thread. A mutant that no property catches means that a property is missing.

/// One deliberate bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// `lamport`: the clock is set to that of an arriving message even if that is smaller; the `max` is missing.
    LamportLostMax,
    /// `lamport`: the clock ignores arriving messages.
    LamportDeafClock,
    /// `lamport`: a site that leaves does not tell the last site.
    LamportReleaseNotToAll,
    /// `lamport`: a reply is left out that only `omit-replies` may leave out.
    LamportOmitsUnasked,
    /// `ricart-agrawala`: a waiting site replies at once to a request that its own precedes.
    RicartAgrawalaEarlyReply,
    /// `ricart-agrawala`: of two requests with the same clock each is taken for the earlier.
    RicartAgrawalaWrongTieBreak,
    /// `ricart-agrawala`: a site that leaves forgets its own number, and the others take the same number from it again.
    RicartAgrawalaSameNumber,
    /// `ricart-agrawala`: the normal form of endless runs leaves out the number in a REPLY.
    RicartAgrawalaUnnamedNumber,
    /// `ricart-agrawala:modes`: a site that waits to be exclusive still replies to readers.
    RicartAgrawalaUpgradeAdmits,
    /// `ricart-agrawala:modes`: a reader that is inside answers an upgrade at once.
    RicartAgrawalaUpgradePassesReader,
    /// `ricart-agrawala:modes`: a reader that waits keeps the reply that an upgrade withdraws.
    RicartAgrawalaKeepsLeave,
    /// `ricart-agrawala:modes`: a withdrawn reply that arrives late counts.
    RicartAgrawalaVoidReply,
    /// `ricart-agrawala:modes`: an answer to an upgrade that was given up is reported.
    RicartAgrawalaLateAnswer,
    /// `ricart-agrawala:modes`: a site that is shared now does not reply to the readers that it has deferred.
    RicartAgrawalaDowngradeForgets,
    /// `ricart-agrawala:modes`: a site that is shared now replies to the writers that it has deferred, too.
    RicartAgrawalaDowngradeAdmitsWriter,
    /// `ricart-agrawala:modes`: a writer that waits replies at once to a reader that has asked later.
    RicartAgrawalaReadersFirst,
    /// `carvalho-roucairol`: a site that leaves forgets the requests that it has deferred.
    CarvalhoForgottenDeferred,
    /// `singhal-dynamic`: a waiting site that permits does not ask in turn.
    SinghalDynamicNotAskedBack,
    /// `lodha-kshemkalyani`: requests that cross are queued as they come, not by their timestamps.
    LodhaQueueByArrival,
    /// `maekawa`, `tree-quorum`, `majority`: nobody is told FAILED.
    ArbiterForgottenFail,
    /// The same: what a failed site had is not taken back.
    ArbiterKeepsForTheDead,
    /// The same: a site that has welcomed a recovered site still owes it a welcome.
    ArbiterOwesOn,
    /// The same: an INQUIRE that comes before a FAILED is not remembered.
    RequesterForgottenInquire,
    /// The same: a site yields although it is inside.
    RequesterYieldsInside,
    /// `cao-singhal`: a site that yields a permission still passes it on as it was told before.
    CaoSinghalTransferKept,
    /// `cao-singhal`: a site that leaves does not tell the arbiter to whom it has passed its permission on.
    CaoSinghalUntoldForward,
    /// `sanders`: a grant that had to be remembered is not.
    SandersForgottenGrant,
    /// `suzuki-kasami`: the token stays where it was, too, when it is sent.
    SuzukiKasamiTokenKept,
    /// `singhal-heuristic`: a site that recreates a lost token forgets a site that waits.
    HeuristicForgottenWaiter,
    /// `raymond`: a site that passes the privilege on does not request it again on behalf of the others.
    RaymondForgottenRequest,
    /// `naimi-trehel`: a request is not passed on.
    NaimiTrehelForgottenForward,
    /// `neilsen-mizuno`: a site that waits forgets who follows it.
    NeilsenMizunoForgottenFollow,
    /// `neilsen-mizuno`: the privilege stays where it was, too, when it is sent.
    NeilsenMizunoPrivilegeKept,
    /// `bulgannawar-vaidya`: an INFORM is obeyed although it is old.
    BulgannawarVaidyaStaleInform,
    /// `raymond-k`: a late reply to an old request is credited to the new one.
    RaymondKOldReply,
    /// `raymond-k`: one reply too few is waited for.
    RaymondKOffByOne,
    /// `makki`: a site that leaves returns two permits.
    MakkiTwoPermits,
    /// `makki`: a site that collects permits sets its timer again and again.
    MakkiEndlessTimer,
    /// `srimani-reddy`: an idle holder sends a token and keeps it.
    SrimaniReddyTokenKept,
    /// `srimani-reddy`: a site that enters reports the first permit.
    SrimaniReddyWrongSlot,
    /// `central`: of those that wait the smallest id is served first, not the first that has asked.
    CentralSmallestFirst,
    /// `token-ring`: a site that requests itself forgets that its successor does.
    TokenRingForgottenCall,
    /// `delegated`: a site that was appended to a chain too late is forgotten.
    DelegatedForgottenTail,
    /// `delegated`: the leader is reported for an APPEND that came too late.
    DelegatedLateRefused,
    /// `delegated`: a reader enters before a writer that waits.
    DelegatedReaderPassesWriter,
    /// `delegated`: an upgrade is granted while others are inside.
    DelegatedUpgradeBesideReader,
    /// `delegated`: readers enter while an upgrade waits.
    DelegatedUpgradePassed,
    /// `delegated`: a downgrade hands the permit to the writer that is next.
    DelegatedDowngradeLetsWriterIn,
    /// `delegated`: a second site enters in upgradeable mode.
    DelegatedSecondUpgradeable,
    /// `delegated`: those who share are not told that somebody waits.
    DelegatedForgottenClose,
    /// `delegated`: a chain takes a reader.
    DelegatedChainTakesReader,
    /// `delegated`: what has overtaken a permit that comes home is forgotten.
    DelegatedEarlyForgotten,
    /// `delegated`: all requests have the same priority.
    DelegatedPriorityIgnored,
    /// `delegated`: priorities are strict although they should age.
    DelegatedNoAgeing,
    /// The host: its fence clock ignores the stamps of arriving messages.
    FenceClockDeaf,
}

impl Mutant {
    /// Every mutant of an algorithm, but those of the normal form and those of [`MODES`](Mutant::MODES).
    pub const ALL: [Mutant; 43] = [
        Mutant::LamportLostMax,
        Mutant::LamportDeafClock,
        Mutant::LamportReleaseNotToAll,
        Mutant::LamportOmitsUnasked,
        Mutant::RicartAgrawalaEarlyReply,
        Mutant::RicartAgrawalaWrongTieBreak,
        Mutant::RicartAgrawalaSameNumber,
        Mutant::RicartAgrawalaUpgradeAdmits,
        Mutant::RicartAgrawalaUpgradePassesReader,
        Mutant::RicartAgrawalaKeepsLeave,
        Mutant::RicartAgrawalaVoidReply,
        Mutant::RicartAgrawalaLateAnswer,
        Mutant::RicartAgrawalaDowngradeForgets,
        Mutant::RicartAgrawalaDowngradeAdmitsWriter,
        Mutant::RicartAgrawalaReadersFirst,
        Mutant::CarvalhoForgottenDeferred,
        Mutant::SinghalDynamicNotAskedBack,
        Mutant::LodhaQueueByArrival,
        Mutant::ArbiterForgottenFail,
        Mutant::ArbiterKeepsForTheDead,
        Mutant::ArbiterOwesOn,
        Mutant::RequesterForgottenInquire,
        Mutant::RequesterYieldsInside,
        Mutant::CaoSinghalTransferKept,
        Mutant::CaoSinghalUntoldForward,
        Mutant::SandersForgottenGrant,
        Mutant::SuzukiKasamiTokenKept,
        Mutant::HeuristicForgottenWaiter,
        Mutant::RaymondForgottenRequest,
        Mutant::NaimiTrehelForgottenForward,
        Mutant::NeilsenMizunoForgottenFollow,
        Mutant::NeilsenMizunoPrivilegeKept,
        Mutant::BulgannawarVaidyaStaleInform,
        Mutant::RaymondKOldReply,
        Mutant::RaymondKOffByOne,
        Mutant::MakkiTwoPermits,
        Mutant::MakkiEndlessTimer,
        Mutant::SrimaniReddyTokenKept,
        Mutant::SrimaniReddyWrongSlot,
        Mutant::CentralSmallestFirst,
        Mutant::TokenRingForgottenCall,
        Mutant::DelegatedForgottenTail,
        Mutant::DelegatedLateRefused,
    ];

    /// Those that show only where processes share, change their modes or are more urgent than others.
    pub const MODES: [Mutant; 10] = [
        Mutant::DelegatedReaderPassesWriter,
        Mutant::DelegatedUpgradeBesideReader,
        Mutant::DelegatedUpgradePassed,
        Mutant::DelegatedDowngradeLetsWriterIn,
        Mutant::DelegatedSecondUpgradeable,
        Mutant::DelegatedForgottenClose,
        Mutant::DelegatedChainTakesReader,
        Mutant::DelegatedEarlyForgotten,
        Mutant::DelegatedPriorityIgnored,
        Mutant::DelegatedNoAgeing,
    ];
}

/// Whether the mutant is switched on.
#[cfg(not(any(test, feature = "mutants")))]
#[inline]
pub(crate) const fn is_on(_: Mutant) -> bool {
    false
}

#[cfg(any(test, feature = "mutants"))]
pub use switch::with;

#[cfg(any(test, feature = "mutants"))]
pub(crate) use switch::is_on;

#[cfg(any(test, feature = "mutants"))]
mod switch {
    //! One mutant for each thread.

    use std::cell::Cell;

    use super::Mutant;

    std::thread_local! {
        static ON: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Whether the mutant is switched on.
    pub(crate) fn is_on(mutant: Mutant) -> bool {
        ON.get() == Some(mutant)
    }

    /// Runs `what` on this thread with the mutant switched on.
    pub fn with<R>(mutant: Mutant, what: impl FnOnce() -> R) -> R {
        /// Switches off even if `what` panics.
        struct MutantGuard;

        impl Drop for MutantGuard {
            fn drop(&mut self) {
                ON.set(None);
            }
        }

        ON.set(Some(mutant));
        let _off = MutantGuard;
        what()
    }
}
