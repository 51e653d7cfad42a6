//! Why a run can end early: it could not start, or a check failed.

use std::fmt;

use meshlock_protocol::{Mode, PlanError, SiteId};

use crate::faults::Link;
use crate::time::Time;
use crate::trace::TraceKind;

/// An event in a run that must never happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunViolation {
    /// Mutual exclusion is violated.
    #[error("{inside} sites are inside at once, {permits} may be")]
    TooManyInside { inside: usize, permits: usize },
    /// A site entered beside one that it excludes.
    #[error("{site} entered, {mode}, while another was inside, {beside}")]
    Excluded { site: SiteId, mode: Mode, beside: Mode },
    /// A site became exclusive without having asked for it.
    #[error("{site} became exclusive without having asked for it")]
    UpgradedUnasked { site: SiteId },
    /// A site entered without a request, or while it was inside.
    #[error("{site} entered without a request")]
    Unasked { site: SiteId },
    /// A fence was not larger than the one before it.
    #[error("the fence of {site} is not larger than the last one")]
    FenceFellBack { site: SiteId },
    /// A token appeared or vanished.
    #[error("there are {found} tokens, not {expected}")]
    Tokens {
        /// The number of tokens that exist.
        found: usize,
        /// The number of tokens that should exist.
        expected: usize,
    },
    /// A correct site's message was refused.
    #[error("{site} refused a message of {peer}: {why}")]
    Refused {
        /// The site that refused.
        site: SiteId,
        /// The sender of the message.
        peer: SiteId,
        /// The reason that it gave.
        why: &'static str,
    },
    /// A site waits and nothing can happen any more.
    #[error("deadlock: a site waits and no event is pending")]
    NothingLeft,
    /// Messages are exchanged without end and no site enters.
    #[error("livelock: messages are exchanged without end and no waiting site enters")]
    NobodyEnters,
}

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// The algorithm cannot run with this cluster or these options.
    #[error(transparent)]
    Plan(PlanError),
    /// The algorithm leaves such failures to its host.
    #[error("{algorithm} does not handle these failures by itself; see `meshlock algorithms {algorithm}`")]
    CannotFail { algorithm: &'static str },
    /// A link is never mended and so loses what is sent over it, which no algorithm tolerates.
    #[error(
        "the link between {} and {} is cut and never mended after that: end the cut, so that what is sent over it arrives",
        link.ends()[0].index(), link.ends()[1].index()
    )]
    NeverMended { link: Link },
    /// A check failed.
    #[error("{violation}\n  {algorithm}, seed {seed}, time {}, event {events}; the last events:\n{}", time.as_units(), last.join("\n"))]
    Violated {
        algorithm: &'static str,
        violation: RunViolation,
        /// The seed that reproduces it.
        seed: u64,
        /// The time of the violation.
        time: Time,
        /// The number of events before it.
        events: u64,
        /// The last events before it, one line each.
        last: Vec<String>,
    },
}

/// The last few things that happened, for the message of a violation.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// A ring: once it is full, the oldest is at `oldest`.
    last: Vec<Past>,
    oldest: usize,
}

/// One thing that happened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Past {
    pub(crate) time: Time,
    pub(crate) kind: TraceKind,
    pub(crate) site: SiteId,
    pub(crate) peer: Option<SiteId>,
    pub(crate) message: Option<&'static str>,
}

impl History {
    const KEPT: usize = 20;

    #[inline]
    pub(crate) fn push(&mut self, past: Past) {
        if self.last.len() < Self::KEPT {
            self.last.push(past);
            return;
        }
        self.last[self.oldest] = past;
        self.oldest = if self.oldest + 1 == Self::KEPT { 0 } else { self.oldest + 1 };
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let (later, earlier) = self.last.split_at(self.oldest);
        earlier.iter().chain(later).map(ToString::to_string).collect()
    }
}

impl fmt::Display for Past {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {:>14.6}  {:<4} {}", self.time.as_units(), self.site.to_string(), self.kind.name())?;
        if let Some(message) = self.message {
            write!(f, " {message}")?;
        }
        match (self.kind, self.peer) {
            (TraceKind::Send, Some(peer)) => write!(f, " to {peer}"),
            (_, Some(peer)) => write!(f, " from {peer}"),
            (_, None) => Ok(()),
        }
    }
}
