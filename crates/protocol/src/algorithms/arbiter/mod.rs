//! What all quorum algorithms share: every site is an arbiter that gives its one permission to one request at a time,
//! and a requester that gathers the permissions of a quorum.
//!
//! Kshemkalyani and Singhal, chapter 9: Algorithm 9.5 and section 9.8.1 (Maekawa), section 9.9.5 (Agrawal and
//! El Abbadi). Two quorums share a site, and that site permits one request only: so one enters. Requesters that hold
//! each other's missing permissions would wait for ever: an arbiter whose permission is with a later request than one
//! that asks therefore *inquires*, and the requester *yields* it.
//!
//! ```text
//!  alone:      S0 ──REQUEST──▶ S1         contended at S1: it has permitted S2, then S0 asks, which precedes
//!              S0 ◀──REPLY──── S1         S1 ──INQUIRE──▶ S2
//!              S0 enters, leaves          S1 ◀──YIELD──── S2     unless S2 is inside: then RELEASE comes later
//!              S0 ──RELEASE──▶ S1         S1 ──REPLY──▶ S0
//! ```
//!
//! # The rules against deadlock ([`DeadlockRules`])
//!
//! The chapter's rules deadlock ([`DeadlockRules::Printed`]): whoever is inquired before it has been refused ignores
//! the INQUIRE for good. Two repairs pass every exploration:
//!
//! - [`DeadlockRules::Fail`]: the chapter's messages, with three amendments. A newcomer is refused (FAILED) if *any*
//!   request that waits or is permitted precedes it; those that it precedes are refused in turn. An INQUIRE that comes
//!   before a refusal is *remembered*, and obeyed when one comes. Whoever has yielded counts as refused there until it
//!   is permitted again.
//! - [`DeadlockRules::Yield`]: no refusals at all. A requester yields to every INQUIRE unless it is inside.
//!
//! **Why neither deadlocks**: of all requests that wait, take the earliest. No arbiter refuses it, so it never
//! yields for good. Each arbiter that it lacks is either free to permit it next, or has inquired of a later request.
//! That one is inside and will leave, or it lacks a permission itself; then it yields: at once under `Yield`, and
//! under `Fail` as soon as the arbiter it lacks has refused it, which that arbiter does unless it can permit it.
//!
//! # Which numbers the messages carry
//!
//! Each names the request that it is about by its clock (the site is the sender or the receiver). REPLY, INQUIRE and
//! YIELD also say which *turn* they are about: how often this arbiter has permitted this request. So whatever is late,
//! crossed or doubled is recognised, and no order of delivery is needed: an INQUIRE may overtake the REPLY that it is
//! about, a FAILED may come after one, a RELEASE after its sender's next REQUEST.
//!
//! # Failures
//!
//! [`recovery`] is for the coteries that survive some. A requester that waits forms a new quorum around a failed site,
//! and an arbiter takes its permission back from one.

mod facts;
mod message;
mod permission;
mod post;
mod presence;
pub mod recovery;
mod requester;
mod site;
#[cfg(test)]
mod tests;

pub use message::{Message, Turn};
pub use permission::Arbiter;
pub use post::Post;
pub use presence::{Incarnation, Presence};
pub use requester::Requester;
pub use site::{Coterie, QuorumSite};

use crate::PlanError;
use crate::registry::info::{MessageInfo, OptionInfo, Range};
use crate::registry::values::Values;

/// How deadlocks are kept away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeadlockRules {
    /// Refuse with FAILED; whoever is refused yields.
    Fail,
    /// Whoever is inquired yields.
    Yield,
    /// Section 9.8.1 to the letter: deadlocks. For the checker.
    Printed,
    /// As Maekawa's rules of 1985 are usually given: `Fail`, but nobody that waits is refused when an earlier request
    /// comes. Deadlocks. For the checker.
    Original,
    /// Rules 6 to 8 of section 9.9.5 to the letter: `Yield`, but what is yielded goes to the request that made the
    /// arbiter inquire, whether or not it is the earliest. Deadlocks. For the checker.
    Pending,
}

/// Result of handling a message. An error says why no correct peer could have sent it; the state is then unchanged.
pub(crate) type Judged = Result<(), &'static str>;

impl DeadlockRules {
    /// The option that chooses between the two sets of rules that hold.
    pub const OPTION: OptionInfo = DeadlockRules::option("yield");

    /// The same with another default.
    pub(crate) const fn option(default: &'static str) -> OptionInfo {
        OptionInfo {
            name: "deadlock",
            about: "fail: refuse with FAILED, and only the refused yield; yield: whoever is inquired yields",
            range: Range::Choice(&["yield", "fail"]),
            default,
        }
    }

    /// The rules that the option asks for.
    pub fn of(values: &Values) -> Self {
        if values.get("deadlock") == "fail" { DeadlockRules::Fail } else { DeadlockRules::Yield }
    }

    /// These rules, of a published text, which leave nothing to the option.
    pub(crate) fn published(self, values: &Values) -> Result<Self, PlanError> {
        if values.get("deadlock") == "fail" {
            let why = format!(
                "text={} brings its own rules against deadlock; leave out one of the two",
                values.get("text")
            );
            return Err(PlanError::Option { option: "deadlock", why });
        }
        Ok(self)
    }

    /// Whether whoever has to wait is told so by FAILED, and only then yields.
    pub(crate) fn has_refusals(self) -> bool {
        match self {
            DeadlockRules::Fail | DeadlockRules::Printed | DeadlockRules::Original => true,
            DeadlockRules::Yield | DeadlockRules::Pending => false,
        }
    }
}

/// The messages of the exchange, for the registry.
pub(crate) const EXCHANGE: [MessageInfo; 6] = [
    MessageInfo { kind: "REQUEST", about: "from a site that wants to enter, to its quorum" },
    MessageInfo { kind: "REPLY", about: "the arbiter's permission, until it is released or yielded" },
    MessageInfo {
        kind: "FAILED",
        about: "the arbiter's refusal for now: an earlier request is before this one",
    },
    MessageInfo { kind: "INQUIRE", about: "the arbiter asks whether its permission could be had back" },
    MessageInfo { kind: "YIELD", about: "the permission back, for an earlier request; this one waits on" },
    MessageInfo { kind: "RELEASE", about: "the permission back, after the critical section" },
];

/// The messages of recovery, for the registry.
pub(crate) const RETURN: [MessageInfo; 3] = [
    MessageInfo { kind: "HELLO", about: "from a site that had failed and runs again, to all" },
    MessageInfo {
        kind: "WELCOME",
        about: "the answer: no permission of your former incarnation is used here",
    },
    MessageInfo { kind: "READY", about: "all have answered: this site is an arbiter again" },
];
