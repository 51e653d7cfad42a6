//! Properties by name, each with the sentence that promises it.

use meshlock_protocol::SiteId;
use meshlock_protocol::registry::info::Since;
use meshlock_protocol::world::Violation;

/// A property that must hold in every schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Property {
    /// There are never more processes inside than permits.
    Exclusion,
    /// Whenever nothing can happen any more, no site waits.
    Deadlock,
    /// No schedule goes on for ever without granting the request of a site that waits.
    Starvation,
    /// Others enter no more often while a site waits than the paper promises.
    Bypass,
    /// Requests are granted in the order of their timestamps, where the paper promises it, and one site's successive requests have
    /// rising timestamps.
    Order,
    /// Each grant knows of the one before it, so its fence is larger.
    Fences,
    /// No token appears from nowhere, none vanishes.
    Tokens,
    /// The algorithm's own numbered invariants.
    Invariants,
    /// No message of a correct site is refused.
    Refusals,
    /// When all requests are served, no site owes anything.
    Quiet,
    /// No complete run costs fewer or more messages than the paper says.
    Messages,
}

impl Property {
    /// All properties, in the order in which tables list them.
    pub const ALL: [Property; 11] = [
        Property::Exclusion,
        Property::Deadlock,
        Property::Starvation,
        Property::Bypass,
        Property::Order,
        Property::Fences,
        Property::Tokens,
        Property::Invariants,
        Property::Refusals,
        Property::Quiet,
        Property::Messages,
    ];

    /// Its name, as given with `--property`.
    pub const fn name(self) -> &'static str {
        match self {
            Property::Exclusion => "exclusion",
            Property::Deadlock => "deadlock",
            Property::Starvation => "starvation",
            Property::Bypass => "bypass",
            Property::Order => "order",
            Property::Fences => "fences",
            Property::Tokens => "tokens",
            Property::Invariants => "invariants",
            Property::Refusals => "refusals",
            Property::Quiet => "quiet",
            Property::Messages => "messages",
        }
    }

    /// The property with this name.
    pub fn named(name: &str) -> Option<Property> {
        Property::ALL.into_iter().find(|property| property.name() == name)
    }

    /// The property that a violation violates.
    pub fn of(violation: &Violation) -> Property {
        match violation {
            // A site that disagrees with its host about its own process breaks the one contract that exclusion rests on.
            Violation::TooManyInside { .. }
            | Violation::Excluded { .. }
            | Violation::UpgradedUnasked { .. }
            | Violation::WrongMode { .. }
            | Violation::EnteredUnasked { .. }
            | Violation::EnteredTwice { .. }
            | Violation::WrongPhase { .. } => Property::Exclusion,
            Violation::FenceFellBack { .. } => Property::Fences,
            Violation::OutOfOrder { .. } | Violation::NotRising { .. } => Property::Order,
            Violation::Refused { .. } => Property::Refusals,
            Violation::TokensNotConserved { .. } => Property::Tokens,
            Violation::Invariant { .. } | Violation::Together { .. } => Property::Invariants,
        }
    }

    /// The sentence that promises it, and its source.
    pub const fn sentence(self) -> &'static str {
        match self {
            Property::Exclusion => {
                "chapter 9, section 9.2.2: at any instant only one process can execute the critical section (K with K permits)"
            }
            Property::Deadlock => {
                "chapter 9, section 9.2.2: two or more sites should not endlessly wait for messages that will never arrive"
            }
            Property::Starvation => {
                "chapter 9, section 9.2.2: a site must not wait indefinitely while other sites repeatedly execute the critical section"
            }
            Property::Bypass => {
                "the order or the number of others before a request that the algorithm's source states, as `meshlock algorithms` prints it"
            }
            Property::Order => {
                "chapter 9, section 9.2.2: requests are executed in the order of their arrival by a logical clock, where the paper claims it"
            }
            Property::Fences => {
                "the design: an exit happens before the next entry, so the clock at entry increases from holder to holder"
            }
            Property::Tokens => {
                "chapter 9, section 9.10: a unique token is shared among the sites (K of them with K permits)"
            }
            Property::Invariants => "the numbered invariants in the header of the algorithm's file",
            Property::Refusals => {
                "the boundary: a message that a correct peer could have sent is never reported"
            }
            Property::Messages => {
                "the message complexity that the algorithm's paper states, as `meshlock algorithms` prints it"
            }
            Property::Quiet => "the boundary: after the last release every site owes nothing to anyone",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// A set of properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Properties(u16);

impl Properties {
    /// All properties.
    pub fn all() -> Self {
        Property::ALL.into_iter().collect()
    }

    /// Whether `property` is in the set.
    pub const fn contains(self, property: Property) -> bool {
        self.0 & property.bit() != 0
    }

    /// Those that a reduced search decides as a full one does. It does not have the cycles, the bypass bound and the costs of all runs.
    #[must_use]
    pub fn kept_by_reduction(self) -> Self {
        [Property::Starvation, Property::Bypass, Property::Messages]
            .into_iter()
            .fold(self, Properties::without)
    }

    /// The properties in the set, in the order in which tables list them.
    pub fn iter(self) -> impl Iterator<Item = Property> {
        Property::ALL.into_iter().filter(move |&property| self.contains(property))
    }

    /// The set without `property`.
    #[must_use]
    pub const fn without(self, property: Property) -> Self {
        Properties(self.0 & !property.bit())
    }
}

impl FromIterator<Property> for Properties {
    fn from_iter<I: IntoIterator<Item = Property>>(properties: I) -> Self {
        Properties(properties.into_iter().fold(0, |bits, property| bits | property.bit()))
    }
}

/// The verdict of an exploration.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// All states were visited and nothing is wrong.
    Holds,
    /// The last step of the path leads to this violation.
    Violated(Violation),
    /// After the path nothing can happen any more, and these sites wait.
    Deadlock(Vec<SiteId>),
    /// The end of the path is a cycle that can repeat for ever, fair to every message and every process, and these sites wait all
    /// the time.
    Starvation(Vec<SiteId>),
    /// After the path this many others have entered while this site waits, more than are claimed.
    Bypassed { site: SiteId, entries: u32, allowed: f64, since: Since },
    /// All requests were served, but a site still owes something after the path.
    NotQuiet,
    /// Some complete run costs fewer or more messages, all entries together, than the paper allows.
    Costs {
        /// The fewest and the most messages of a run.
        found: (usize, usize),
        /// The bounds that the formulas give for the same number of entries.
        allowed: (f64, f64),
    },
    /// The limit on states or memory was reached first.
    Unfinished,
}

impl Verdict {
    /// The property that is violated.
    pub fn property(&self) -> Option<Property> {
        match self {
            Verdict::Holds | Verdict::Unfinished => None,
            Verdict::Violated(violation) => Some(Property::of(violation)),
            Verdict::Deadlock(_) => Some(Property::Deadlock),
            Verdict::Starvation(_) => Some(Property::Starvation),
            Verdict::Bypassed { .. } => Some(Property::Bypass),
            Verdict::NotQuiet => Some(Property::Quiet),
            Verdict::Costs { .. } => Some(Property::Messages),
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |sites: &[SiteId]| sites.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let wait = |sites: &[SiteId]| if sites.len() == 1 { "waits" } else { "wait" };
        match self {
            Verdict::Holds => f.write_str("holds"),
            Verdict::Violated(violation) => violation.fmt(f),
            Verdict::Deadlock(waiting) => {
                write!(f, "nothing can happen any more, and {} {} for ever", list(waiting), wait(waiting))
            }
            Verdict::Starvation(waiting) => {
                write!(f, "the schedule can go round for ever while {} {}", list(waiting), wait(waiting))
            }
            Verdict::Bypassed { site, entries, allowed, since } => {
                let since = match since {
                    Since::Call => "since it requested",
                    Since::Heard => "since all that it sent has arrived",
                };
                write!(
                    f,
                    "others have entered {entries} times while {site} waits, {since}; at most {allowed} is claimed"
                )
            }
            Verdict::NotQuiet => f.write_str("all were served, but a site still owes something"),
            Verdict::Costs { found: (least, most), allowed: (low, high) } => {
                write!(f, "complete runs cost {least} to {most} messages, the paper says {low} to {high}")
            }
            Verdict::Unfinished => f.write_str("not finished within the limit"),
        }
    }
}
