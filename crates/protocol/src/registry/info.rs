//! What is known of an algorithm: the facts that `meshlock algorithms` prints and that tests hold it to.

/// How an algorithm decides who enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A requester gathers permissions from all sites, or from those that matter now.
    Permission,
    /// A requester gathers permissions from a set that meets every other such set.
    Quorum,
    /// Whoever has the token may enter.
    Token,
}

/// How many may be inside at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permits {
    /// One.
    One,
    /// Any K; a permit that is free reaches whoever waits, however long others keep theirs.
    Many,
    /// Any K; a request waits for the permit that it was sent after, even while another one is free. Right where everyone
    /// leaves soon, wrong for a pool of things that are kept.
    Chosen,
}

/// What the messages between two sites may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// Arrive in the order in which they were sent.
    Fifo,
    /// Arrive in any order.
    Unordered,
}

/// In which order requests are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Strictly by their timestamps.
    Timestamp,
    /// Everyone in turn, but not by timestamp.
    Fair,
}

/// How many tokens exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokens {
    /// None: not a token algorithm.
    None,
    /// One, whatever the number of permits.
    One,
    /// One for each permit.
    PerPermit,
}

/// Which of the paper's failures the algorithm handles by itself, given certain knowledge of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// `peer_failed`: the survivors go on after a site fails.
    pub crash: bool,
    /// `restart` and `peer_recovered`: a failed site comes back.
    pub recovery: bool,
    /// `partitioned` and `reunited`: the network splits and heals.
    pub partition: bool,
}

impl Failures {
    /// Left to the host, which starts the algorithm anew.
    pub const NONE: Failures = Failures { crash: false, recovery: false, partition: false };
}

/// What may be given for an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// On or off: `name` alone, or `name=yes|no`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number from `least` to `most`.
    Integer {
        /// The smallest allowed.
        least: usize,
        /// The largest allowed.
        most: usize,
    },
    /// One of `words`, or a text in a notation of its own that the algorithm parses.
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
    /// As written behind the colon.
    pub name: &'static str,
    /// What it changes.
    pub about: &'static str,
    /// What may be given.
    pub range: Range,
    /// What holds when it is not given.
    pub default: &'static str,
}

impl OptionInfo {
    /// The option `text=repaired|printed` of an algorithm whose published text is wrong.
    pub const fn text(about: &'static str) -> Self {
        OptionInfo::texts(&["repaired", "printed"], about)
    }

    /// The same where the published text is wrong in several ways, each with a word of its own.
    pub(crate) const fn texts(words: &'static [&'static str], about: &'static str) -> Self {
        OptionInfo { name: "text", about, range: Range::Choice(words), default: "repaired" }
    }
}

/// Which text a site follows, where the published one is wrong: the value of [`OptionInfo::text`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Text {
    /// The one that is right.
    Repaired,
    /// The published one to the letter, for the checker.
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

/// What a cost depends on.
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
    /// For people.
    pub text: &'static str,
    /// For tables and tests.
    pub messages: fn(Scale) -> f64,
}

/// What one entry costs.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Messages of one request when all is quiet, at least.
    pub lone_least: Formula,
    /// Messages of one request when all is quiet, at most.
    pub lone_most: Formula,
    /// Messages per entry when every site always wants in: it asks again in the call in which it leaves, a message takes T,
    /// and a process stays inside for less than T. With quorums of several sizes, the mean over the sites. Where the text
    /// gives a range, the function is its upper end. The simulator's tests hold every algorithm to it.
    pub heavy: Formula,
    /// Messages per entry under any load, on average over a run from quiet to quiet, where the paper or an argument of its
    /// own bounds them; the checker holds every schedule to it.
    pub always: Option<Span>,
    /// From one exit to the next entry while someone waits, in message delays T.
    pub sync_delay: &'static str,
}

/// At least and at most.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// At least; with quorums of several sizes, of the smallest.
    pub least: Formula,
    /// At most; with quorums of several sizes, of the largest.
    pub most: Formula,
}

/// Upper bound on what one quiet site takes in memory, in bytes, with its default options and one permit; what all sites
/// share is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Whatever N is.
    pub fixed: usize,
    /// For each of the N sites.
    pub per_site: usize,
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

/// Everything that is known of an algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// Its name in commands, configuration and traces.
    pub name: &'static str,
    /// Its authors and its idea, in a line.
    pub title: &'static str,
    /// Where it is described.
    pub source: &'static str,
    /// How it decides.
    pub kind: Kind,
    /// How many may be inside.
    pub permits: Permits,
    /// How many tokens there are.
    pub tokens: Tokens,
    /// What it needs of the network, as shipped. (What the paper assumes is in `assumes`.)
    pub channels: Channels,
    /// What the paper says it assumes.
    pub assumes: &'static str,
    /// In which order it serves.
    pub order: Order,
    /// Which failures it handles by itself.
    pub failures: Failures,
    /// Its options.
    pub options: &'static [OptionInfo],
    /// Other settings of the options, as specs, under which all tests run as they do for the defaults.
    pub variants: &'static [&'static str],
    /// Its kinds of messages.
    pub messages: &'static [MessageInfo],
    /// Its costs.
    pub costs: Costs,
    /// Its size.
    pub memory: Memory,
    /// What differs from the published text, in a line each.
    pub departures: &'static [&'static str],
}

impl Info {
    /// The algorithm with its defaults, and its other settings that every test runs too.
    pub fn specs(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.variants.iter().copied())
    }
}
