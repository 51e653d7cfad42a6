//! The description of an algorithm: facts that `meshlock algorithms` prints and that tests verify.

use crate::{Cluster, Demand, Mode, Priority, Spec};

use super::values::Values;

/// How an algorithm decides who enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A requester collects permissions from all sites, or from those that can interfere with it.
    Permission,
    /// A requester collects permissions from a quorum: a set of sites that intersects every other such set.
    Quorum,
    /// The site that has the token may enter.
    Token,
}

/// How many processes may be inside at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permits {
    One,
    /// Any K. A free permit reaches a site that waits, however long others keep theirs.
    Many,
    /// Any K. A request waits for the permit that it was sent to, even while another one is free. This suits critical
    /// sections that are short, but not a pool of resources that are kept for long.
    Chosen,
}

/// Whether an algorithm knows demands of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    No,
    /// Only if this option, a flag, is on.
    With(&'static str),
    Yes,
}

impl Known {
    /// Whether it does with these options.
    pub fn holds(self, values: &Values) -> bool {
        match self {
            Known::No => false,
            Known::With(option) => values.flag(option),
            Known::Yes => true,
        }
    }
}

/// What a process may ask for beyond the plain demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demands {
    /// To share the critical section: any [`Mode`].
    pub modes: Known,
    /// To be served before others: any [`Priority`].
    pub priorities: Known,
}

impl Demands {
    /// Nothing: every request is exclusive, and none is more urgent than another.
    pub const PLAIN: Demands = Demands { modes: Known::No, priorities: Known::No };

    /// Whether a process may make this demand with these options.
    pub fn contain(self, demand: Demand, values: &Values) -> bool {
        (demand.mode == Mode::Exclusive || self.modes.holds(values))
            && (demand.priority == Priority::default() || self.priorities.holds(values))
    }
}

/// The order in which messages between two sites may arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// In the order in which they were sent.
    Fifo,
    /// In any order.
    Unordered,
}

/// The order in which requests are granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Strictly by their timestamps.
    Timestamp,
    /// Every request is granted, but not by timestamp.
    Fair,
}

/// The number of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokens {
    /// None: not a token algorithm.
    None,
    /// One, whatever the number of permits.
    One,
    /// One for each permit.
    PerPermit,
}

/// The failures that the algorithm handles by itself, as its paper describes, if the sites know of them for certain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// `peer_failed`: the survivors continue after a site has failed.
    pub crash: bool,
    /// `restart` and `peer_recovered`: a failed site recovers.
    pub recovery: bool,
    /// `partitioned` and `reunited`: the network splits and heals.
    pub partition: bool,
}

impl Failures {
    /// None: failures are left to the host, which starts the algorithm again.
    pub const NONE: Failures = Failures { crash: false, recovery: false, partition: false };
}

/// The values that an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// On or off: `name` alone, or `name=yes|no`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// How a choice is made that the paper leaves open.
    Open {
        /// The fixed policies.
        policies: &'static [&'static str],
        /// With this word the host chooses each time.
        any: &'static str,
    },
    /// An integer from `least` to `most`.
    Integer { least: usize, most: usize },
    /// One of `words`, or text in a notation that the algorithm parses.
    WordsOr {
        /// The words with a fixed meaning.
        words: &'static [&'static str],
        /// The notation, as it is shown to users.
        notation: &'static str,
    },
}

/// One option of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionInfo {
    /// Its name in a spec, behind the colon.
    pub name: &'static str,
    /// What it changes.
    pub about: &'static str,
    /// The values that it takes.
    pub range: Range,
    /// Its value if it is not given.
    pub default: &'static str,
}

impl OptionInfo {
    /// The option `text=repaired|printed` of an algorithm whose published text is wrong.
    pub const fn text(about: &'static str) -> Self {
        OptionInfo::texts(&["repaired", "printed"], about)
    }

    /// The same option where the published text is wrong in several ways, each with its own word.
    pub(crate) const fn texts(words: &'static [&'static str], about: &'static str) -> Self {
        OptionInfo { name: "text", about, range: Range::Choice(words), default: "repaired" }
    }
}

/// The text that a site follows, where the published one is wrong: the value of [`OptionInfo::text`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Text {
    Repaired,
    /// The published text to the letter, for the checker.
    Printed,
}

/// One kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageInfo {
    /// Its name, as [`Message::kind`](crate::Message::kind) gives it.
    pub kind: &'static str,
    /// Who sends it, and what it means.
    pub about: &'static str,
}

/// The parameters of a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// N.
    pub sites: usize,
    /// K.
    pub permits: usize,
    /// The size of a quorum, the requester in it; N where the algorithm has no quorums.
    pub quorum: usize,
}

/// A cost in messages: as the literature writes it, and as a function.
#[derive(Clone, Copy, Debug)]
pub struct Formula {
    /// The formula as the literature writes it.
    pub text: &'static str,
    /// The formula as a function.
    pub messages: fn(Scale) -> f64,
}

/// The cost of one entry.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// The fewest messages of one request when all is quiet.
    pub lone_least: Formula,
    /// The most messages of one request when all is quiet.
    pub lone_most: Formula,
    /// Messages per entry when every site always requests: it requests again in the call in which it leaves, a message takes T,
    /// and a process stays inside for less than T. With quorums of several sizes, the mean over the sites. Where the text
    /// gives a range, the function is its upper end. The simulator's tests hold every algorithm to it.
    pub heavy: Formula,
    /// Messages per entry under any load, on average over a run from quiet to quiet, where the paper or an argument of its
    /// own bounds them; the checker holds every schedule to it.
    pub always: Option<Span>,
    /// From one exit to the next entry while someone waits, in message delays T.
    pub sync_delay: &'static str,
}

/// A lower and an upper bound.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The lower bound; with quorums of several sizes, that of the smallest.
    pub least: Formula,
    /// The upper bound; with quorums of several sizes, that of the largest.
    pub most: Formula,
}

/// When the count of those who enter before a site begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// With the call of the request.
    Call,
    /// At any moment after it at which no message of the site is in flight.
    Heard,
}

/// How often others may enter while a site waits, as the algorithm's source says or implies. The checker holds every schedule to it.
#[derive(Clone, Copy, Debug)]
pub struct BypassClaim {
    pub since: Since,
    pub entries: Formula,
    /// Where it is claimed.
    pub source: &'static str,
}

/// Whether the source of an algorithm says how often others may enter while a site waits.
#[derive(Clone, Copy, Debug)]
pub enum ClaimedBypass {
    AtMost(BypassClaim),
    /// Nothing is claimed, for this reason.
    Nothing(&'static str),
}

impl ClaimedBypass {
    /// The claim, if there is one.
    pub const fn claim(self) -> Option<BypassClaim> {
        match self {
            ClaimedBypass::AtMost(claim) => Some(claim),
            ClaimedBypass::Nothing(_) => None,
        }
    }
}

/// Upper bound on the memory of one quiet site, in bytes, with its default options and one permit. What all sites
/// share is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The part that does not depend on N.
    pub fixed: usize,
    /// The part for each of the N sites.
    pub per_site: usize,
}

impl BypassClaim {
    /// Once a request is heard, every other site enters at most once before it.
    pub const fn each_other_once(source: &'static str) -> Self {
        BypassClaim {
            since: Since::Heard,
            entries: Formula::new("N−1", |scale| (scale.sites - 1) as f64),
            source,
        }
    }

    /// How many entries of others are claimed at most in a run of this size.
    pub fn allowed(&self, cluster: Cluster) -> f64 {
        let Cluster { sites, permits } = cluster;
        (self.entries.messages)(Scale { sites, permits, quorum: sites })
    }
}

impl Formula {
    /// A cost with its text.
    pub const fn new(text: &'static str, messages: fn(Scale) -> f64) -> Self {
        Formula { text, messages }
    }
}

impl Memory {
    /// The bound at N sites.
    pub const fn at(self, sites: usize) -> usize {
        self.fixed + self.per_site * sites
    }
}

/// The description of an algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// Its name in commands, configuration and traces.
    pub name: &'static str,
    /// Its authors and its idea, in one line.
    pub title: &'static str,
    /// Where it is described.
    pub source: &'static str,
    /// How it decides who enters.
    pub kind: Kind,
    /// How many processes may be inside at once.
    pub permits: Permits,
    /// What a process may ask for beyond the plain demand.
    pub demands: Demands,
    pub tokens: Tokens,
    /// The order of messages that it needs, as shipped. (What the paper assumes is in `assumes`.)
    pub channels: Channels,
    /// The assumptions that the paper states.
    pub assumes: &'static str,
    /// The order in which it grants requests.
    pub order: Order,
    /// How often others may enter before a site that waits, or why nothing is claimed of it.
    pub bypass: ClaimedBypass,
    /// The failures that it handles by itself.
    pub failures: Failures,
    pub options: &'static [OptionInfo],
    /// Other settings of the options, as specs. Every test that runs the defaults runs these too.
    pub variants: &'static [&'static str],
    pub messages: &'static [MessageInfo],
    pub costs: Costs,
    pub memory: Memory,
    /// The departures from the published text, one line each.
    pub departures: &'static [&'static str],
}

impl Info {
    /// The spec with which the host chooses everything that the paper leaves open, if that is anything.
    pub fn open_spec(&'static self) -> Option<String> {
        let is_open = self.options.iter().any(|option| matches!(option.range, Range::Open { .. }));
        is_open.then(|| Spec::plain(self).with_every_choice().to_string())
    }

    /// The specs that tests run: the algorithm with its defaults, and each of its variants.
    pub fn specs(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.variants.iter().copied())
    }
}
