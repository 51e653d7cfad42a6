//! What sites say to each other: requests, and the token that carries what is known of them.

use crate::{SiteId, SiteSet};

/// The paper's sequence number: which request of its site this is. Smaller means earlier. The requests of a site that
/// had failed and runs again are later than all of its former life.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Number {
    /// How often the site had failed before.
    pub life: u32,
    /// How often it has asked in this life.
    pub count: u32,
}

impl Number {
    /// What a site has before its first request.
    pub const ZERO: Number = Number { life: 0, count: 0 };

    /// The number of the next request. It saturates: a life ends before 2³² requests.
    #[must_use]
    pub const fn next(self) -> Self {
        Number { life: self.life, count: self.count.saturating_add(1) }
    }
}

impl std::fmt::Debug for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.life {
            0 => write!(f, "{}", self.count),
            life => write!(f, "{life}.{}", self.count),
        }
    }
}

/// The token. Whoever has it may enter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Token {
    /// How often it has been sent: tells a token from a copy of it that comes later.
    pub passes: u64,
    /// The sites whose TSV is R: they wait, as far as the token knows. Never wrong about one (Lemma 1).
    pub requesting: SiteSet,
    /// TSN: the last request of each site that the token knows.
    pub numbers: Box<[Number]>,
}

impl Token {
    /// The token before anyone has asked.
    pub(super) fn new(sites: usize) -> Self {
        Token { passes: 0, requesting: SiteSet::new(), numbers: vec![Number::ZERO; sites].into() }
    }

    /// Rule 11: the token learns of a request.
    pub(super) fn note(&mut self, site: SiteId, number: Number) {
        self.requesting.insert(site);
        self.numbers[site.index()] = number;
    }
}

/// What sites say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Message {
    /// From a site that wants in, to the sites it believes to be requesting, one of which has the token or will have it:
    /// this is my request. It promises that the sender will look to the receiver no more than this once.
    ///
    /// Also from a site that has the token idle, to one whose served request came so late that its sender may have
    /// stopped looking here: its own last request, which makes the receiver look here again.
    Request {
        /// Which request of the sender.
        number: Number,
    },
    /// From the site that had the token, to a site that the token knows to be requesting: enter.
    Token(Box<Token>),
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Token(_) => "TOKEN",
        }
    }

    fn words(&self) -> usize {
        match self {
            Message::Request { .. } => 4,
            // The states fit a word for up to 64 sites; the passes are ours.
            Message::Token(token) => 3 + 1 + token.numbers.len().div_ceil(64) + token.numbers.len(),
        }
    }

    fn tokens(&self) -> usize {
        match self {
            Message::Request { .. } => 0,
            Message::Token(_) => 1,
        }
    }
}
