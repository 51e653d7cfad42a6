//! How a run can end early: it could not start, or something that must hold did not.

use std::collections::VecDeque;
use std::fmt;

use meshlock_protocol::{PlanError, SiteId};

use crate::faults::Link;
use crate::time::Time;
use crate::trace::Kind;

/// Something that must never happen, and did.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Mutual exclusion is broken.
    #[error("{inside} sites are inside at once, {permits} may be")]
    TooManyInside {
        /// How many are.
        inside: usize,
        /// How many may be.
        permits: usize,
    },
    /// A site entered that had not asked, or was inside.
    #[error("{site} entered without a request")]
    Unasked {
        /// Who.
        site: SiteId,
    },
    /// A fence was not larger than the one before it.
    #[error("the fence of {site} is not larger than the last one")]
    FenceFellBack {
        /// Who entered.
        site: SiteId,
    },
    /// A token appeared or vanished.
    #[error("there are {found} tokens, not {expected}")]
    Tokens {
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// A correct site's message was refused.
    #[error("{site} refused a message of {peer}: {why}")]
    Refused {
        /// Who refused.
        site: SiteId,
        /// Whose message.
        peer: SiteId,
        /// Why.
        why: &'static str,
    },
    /// Someone waits and nothing can happen any more.
    #[error("someone waits, and nothing is left to happen")]
    NothingLeft,
    /// Messages go round and nobody enters.
    #[error("messages go on and on, and nobody who waits enters")]
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
    CannotFail {
        /// Its name.
        algorithm: &'static str,
    },
    /// A link that is never mended loses what is sent over it, which no algorithm is made for.
    #[error(
        "the link between {} and {} is cut and never mended after that: what is sent over it must arrive some day",
        link.ends()[0].index(), link.ends()[1].index()
    )]
    NeverMended {
        /// The link.
        link: Link,
    },
    /// Something that must hold did not.
    #[error("{violation}\n  {algorithm}, seed {seed}, time {}, event {events}; the last events:\n{}", time.as_units(), last.join("\n"))]
    Violated {
        /// The algorithm.
        algorithm: &'static str,
        /// What happened.
        violation: Violation,
        /// What reproduces it.
        seed: u64,
        /// When.
        time: Time,
        /// After how many events.
        events: u64,
        /// What came before it, a line each.
        last: Vec<String>,
    },
}

/// The last few things that happened, for the message of a violation.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    last: VecDeque<Past>,
}

#[derive(Clone, Copy, Debug)]
struct Past {
    time: Time,
    kind: Kind,
    site: SiteId,
    peer: Option<SiteId>,
    message: Option<&'static str>,
}

impl History {
    const KEPT: usize = 20;

    pub(crate) fn push(
        &mut self,
        time: Time,
        kind: Kind,
        site: SiteId,
        peer: Option<SiteId>,
        message: Option<&'static str>,
    ) {
        if self.last.len() == Self::KEPT {
            self.last.pop_front();
        }
        self.last.push_back(Past { time, kind, site, peer, message });
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.last.iter().map(ToString::to_string).collect()
    }
}

impl fmt::Display for Past {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {:>14.6}  {:<4} {}", self.time.as_units(), self.site.to_string(), self.kind.name())?;
        if let Some(message) = self.message {
            write!(f, " {message}")?;
        }
        match (self.kind, self.peer) {
            (Kind::Send, Some(peer)) => write!(f, " to {peer}"),
            (_, Some(peer)) => write!(f, " from {peer}"),
            (_, None) => Ok(()),
        }
    }
}
