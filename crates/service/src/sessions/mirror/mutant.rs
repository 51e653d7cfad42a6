//! Small deliberate mistakes in the rules of mirrors, each of which a test must catch. Outside of tests the answer is a constant.

#[cfg(test)]
use std::cell::Cell;

/// One deliberate mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MirrorMutant {
    /// A change counts as known to the mirror when it is sent.
    KnownWhenSent,
    /// An answer that was lost is not told again.
    LostAnswerForgotten,
    /// What did not fit into an answer counts as told with it.
    PartCountsAsWhole,
    /// What the mirror may count on is given to others at once.
    WindowNotAwaited,
    /// What a mirror was told that another one has replaced is forgotten.
    FormerMirrorForgotten,
    /// A site that leaves forgets its sessions before the mirror has confirmed that it answers for them.
    MovedUnconfirmed,
    /// A session that has changed since the mirror was told of it counts as moved.
    MovedAsItWas,
    /// The mirror promises a window from when an answer came, not from when its question was sent.
    PromisedFromAnswer,
    /// The mirror promises as long as the site may keep what it has told, without a margin.
    PromisedWithoutMargin,
    /// A lock that the site does not list any more counts as held.
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
}

/// Returns whether the mistake is made.
#[cfg(not(test))]
pub(super) const fn is_on(_: MirrorMutant) -> bool {
    false
}

#[cfg(test)]
std::thread_local! {
    static ON: Cell<Option<MirrorMutant>> = const { Cell::new(None) };
}

/// Returns whether the mistake is made on this thread.
#[cfg(test)]
pub(super) fn is_on(mutant: MirrorMutant) -> bool {
    ON.get() == Some(mutant)
}

/// Checks that a test fails while the mistake is made, and only then.
#[cfg(test)]
pub(super) fn is_caught_by(mutant: MirrorMutant, test: fn()) {
    test();
    ON.set(Some(mutant));
    let result = std::panic::catch_unwind(test);
    ON.set(None);
    assert!(result.is_err(), "{mutant:?} was not caught");
}
