//! What sites say to each other: requests, and the token that carries what is known of them.

use std::fmt;

use crate::view::listed;
use crate::{SiteId, SiteSet};

/// The paper's sequence number: which request of its site this is. Smaller means earlier. The requests of a site that
/// had failed and runs again are later than all of its former incarnation.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Number {
    /// How often the site had failed before.
    pub incarnation: u32,
    /// How often it has asked in this incarnation.
    pub count: u32,
}

impl Number {
    /// What a site has before its first request.
    pub const ZERO: Number = Number { incarnation: 0, count: 0 };

    /// The number of the next request. It saturates: an incarnation ends before 2³² requests.
    #[must_use]
    pub const fn next(self) -> Self {
        Number { incarnation: self.incarnation, count: self.count.saturating_add(1) }
    }
}

impl std::fmt::Debug for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.incarnation {
            0 => write!(f, "{}", self.count),
            incarnation => write!(f, "{incarnation}.{}", self.count),
        }
    }
}

/// The token. Whoever has it may enter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SinghalToken {
    /// How often it has been sent: tells a token from a copy of it that comes later.
    pub passes: u64,
    /// The sites whose TSV is R: they wait, as far as the token knows. Never wrong about one (Lemma 1).
    pub requesting: SiteSet,
    /// TSN: the last request of each site that the token knows.
    pub numbers: Box<[Number]>,
}

impl SinghalToken {
    /// The token before anyone has asked.
    pub(super) fn new(sites: usize) -> Self {
        SinghalToken { passes: 0, requesting: SiteSet::new(), numbers: vec![Number::ZERO; sites].into() }
    }

    /// Rule 11: the token learns of a request.
    pub(super) fn note(&mut self, site: SiteId, number: Number) {
        self.requesting.insert(site);
        self.numbers[site.index()] = number;
    }
}

/// An incarnation that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Death {
    pub site: SiteId,
    /// How often it had failed before; unknown to a site that has come back since and was not welcomed by it.
    pub incarnation: Option<u32>,
}

/// The last that a site knows of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trail {
    /// It has never had it in this incarnation.
    Unknown,
    /// It has it.
    Held {
        /// The number of times that the token had been sent when it came.
        passes: u64,
    },
    /// It sent it away.
    Sent {
        /// The number of times that the token had been sent.
        passes: u64,
        to: SiteId,
        /// The request that it serves.
        number: Number,
    },
    /// It sent it away, and the network was split between it and the receiver since: lost, unless it had arrived.
    Cut {
        /// The number of times that the token had been sent.
        passes: u64,
    },
}

#[cfg(feature = "serde")]
crate::numbered! { Trail {
    0 => Unknown,
    1 => Held { passes },
    2 => Sent { passes, to, number },
    3 => Cut { passes },
} }

impl Trail {
    /// How often the token had been sent by then.
    pub(super) fn passes(self) -> u64 {
        match self {
            Trail::Unknown => 0,
            Trail::Held { passes } | Trail::Sent { passes, .. } | Trail::Cut { passes } => passes,
        }
    }

    /// Which of two trails is later. Who got the token knows more than who sent it.
    pub(super) fn is_later_than(self, other: Trail) -> bool {
        let rank = |trail: Trail| {
            let kind = match trail {
                Trail::Unknown => 0,
                Trail::Sent { .. } | Trail::Cut { .. } => 1,
                Trail::Held { .. } => 2,
            };
            (trail.passes(), kind)
        };
        rank(self) > rank(other)
    }
}

/// What sites say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// From a site that wants to enter, to the sites it believes to be requesting, one of which has the token or will
    /// have it: this is my request. Whoever gets it looks to the sender from now on.
    ///
    /// Also from a site that has the token idle, to one whose served request came so late that its sender may have
    /// stopped looking here: its own last request, which makes the receiver look here again.
    Request {
        /// Which request of the sender.
        number: Number,
    },
    /// `focused`: a REQUEST to one site alone, which the sender has seen to wait when it left.
    Focus {
        /// Which request of the sender.
        number: Number,
        /// Which request of the receiver it is about.
        expects: Number,
    },
    /// From that site in return: I have your request, but I have been served; ask the others, too.
    Miss {
        /// The request that is answered.
        number: Number,
    },
    /// From the site that had the token, to a site that the token knows to be requesting: enter.
    Token(Box<SinghalToken>),
    /// From a site that had failed and runs again, to all others: you need not look to me, I look to you.
    Recovering {
        /// How often it has failed.
        incarnation: u32,
    },
    /// From each of them in return: I know of your new incarnation.
    Welcome {
        /// The incarnation that is welcomed.
        incarnation: u32,
        /// How often the sender has failed.
        mine: u32,
        /// Whether a failure is left to be dealt with that was the sender's to deal with, and now is the newcomer's.
        unsettled: bool,
    },
    /// From the smallest site that runs, after a failure, to all others that run: what do you know of the token?
    Ask {
        /// Which of the asker's questions.
        round: Number,
        /// The incarnation of the receiver that is asked.
        incarnation: u32,
        /// The incarnations that are over.
        dead: Box<[Death]>,
    },
    /// From each of them in return, once it knows of these failures. It promises that it sends nothing to the failed
    /// sites and will get nothing from them any more.
    Answer {
        round: Number,
        /// The last that the sender knows of the token.
        trail: Trail,
        /// Its last request.
        number: Number,
        /// Whether that request still waits.
        waiting: bool,
    },
    /// From the smallest site, to all others, when the network is whole again: these had no token and join those that
    /// had.
    Merge {
        /// The question whose answers showed it.
        round: Number,
        /// The part without the token.
        joining: SiteSet,
    },
    /// Merge method 1: from a site of the joining part to those after it: you need not look to me, I look to you.
    RecoveringPart {
        /// The question whose answers showed who joins.
        round: Number,
        /// The sender's last request, if it is over: a later one that has come still counts. While the sender waits or
        /// has the token, it must be looked to.
        settled: Option<Number>,
    },
}

#[cfg(feature = "serde")]
crate::numbered! { Message {
    0 => Request { number },
    1 => Focus { number, expects },
    2 => Miss { number },
    3 => Token(value),
    4 => Recovering { incarnation },
    5 => Welcome { incarnation, mine, unsettled },
    6 => Ask { round, incarnation, dead },
    7 => Answer { round, trail, number, waiting },
    8 => Merge { round, joining },
    9 => RecoveringPart { round, settled },
} }

impl fmt::Display for Trail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trail::Unknown => f.write_str("never had the token"),
            Trail::Held { passes } => write!(f, "has the token since pass {passes}"),
            Trail::Sent { passes, to, .. } => write!(f, "sent the token to {to} in pass {passes}"),
            Trail::Cut { passes } => write!(f, "sent the token over a cut in pass {passes}"),
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Request { number } => write!(f, "REQUEST(SN {number:?})"),
            Message::Focus { number, expects } => write!(f, "FOCUS(SN {number:?}, expects {expects:?})"),
            Message::Miss { number } => write!(f, "MISS(SN {number:?})"),
            Message::Token(token) => {
                let numbers = listed(token.numbers.iter().map(|number| format!("{number:?}")));
                write!(f, "TOKEN(TSV = R at {}, TSN = [{numbers}])", token.requesting)
            }
            Message::Recovering { incarnation } => write!(f, "RECOVERING(incarnation {incarnation})"),
            Message::Welcome { incarnation, .. } => write!(f, "WELCOME(incarnation {incarnation})"),
            Message::Ask { round, dead, .. } => {
                let dead = listed(dead.iter().map(|death| death.site));
                write!(f, "ASK(question {round:?}, failed [{dead}])")
            }
            Message::Answer { round, trail, number, waiting } => {
                let waits = if *waiting { "waits" } else { "does not wait" };
                write!(f, "ANSWER(question {round:?}, {trail}, SN {number:?} {waits})")
            }
            Message::Merge { round, joining } => write!(f, "MERGE(question {round:?}, joining {joining})"),
            Message::RecoveringPart { round, .. } => write!(f, "RECOVERING_PART(question {round:?})"),
        }
    }
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Focus { .. } => "FOCUS",
            Message::Miss { .. } => "MISS",
            Message::Token(_) => "TOKEN",
            Message::Recovering { .. } => "RECOVERING",
            Message::Welcome { .. } => "WELCOME",
            Message::Ask { .. } => "ASK",
            Message::Answer { .. } => "ANSWER",
            Message::Merge { .. } => "MERGE",
            Message::RecoveringPart { .. } => "RECOVERING_PART",
        }
    }

    fn words(&self) -> usize {
        match self {
            Message::Request { .. } | Message::Miss { .. } | Message::Recovering { .. } => 4,
            Message::Focus { .. } | Message::RecoveringPart { .. } => 5,
            Message::Welcome { .. } => 6,
            Message::Merge { joining, .. } => 4 + joining.len(),
            Message::Ask { dead, .. } => 5 + 2 * dead.len(),
            Message::Answer { .. } => 9,
            // The states fit a word for up to 64 sites; the passes are ours.
            Message::Token(token) => 3 + 1 + token.numbers.len().div_ceil(64) + token.numbers.len(),
        }
    }

    fn tokens(&self) -> usize {
        match self {
            Message::Token(_) => 1,
            Message::Request { .. }
            | Message::Focus { .. }
            | Message::Miss { .. }
            | Message::Recovering { .. }
            | Message::Welcome { .. }
            | Message::Ask { .. }
            | Message::Answer { .. }
            | Message::Merge { .. }
            | Message::RecoveringPart { .. } => 0,
        }
    }
}
