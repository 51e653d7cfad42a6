//! What must hold, each under a name, with the sentence that promises it.

use meshlock_protocol::SiteId;
use meshlock_protocol::world::Violation;

/// One thing that must hold in every schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Property {
    /// Never more inside than permits.
    Exclusion,
    /// Whenever nothing can happen any more, nobody waits.
    Deadlock,
    /// No schedule goes on for ever and passes over a site that waits.
    Starvation,
    /// Requests are served in the order of their timestamps, where the paper promises it.
    Order,
    /// Each grant knows of the one before it, so its fence is larger.
    Fences,
    /// No token appears from nowhere, none vanishes.
    Tokens,
    /// The algorithm's own numbered invariants.
    Invariants,
    /// What a correct site sends is not refused.
    Refusals,
    /// When all were served, nobody owes anything.
    Quiet,
    /// No complete run costs fewer or more messages than the paper says.
    Messages,
}

impl Property {
    /// All of them, in the order in which tables list them.
    pub const ALL: [Property; 10] = [
        Property::Exclusion,
        Property::Deadlock,
        Property::Starvation,
        Property::Order,
        Property::Fences,
        Property::Tokens,
        Property::Invariants,
        Property::Refusals,
        Property::Quiet,
        Property::Messages,
    ];

    /// As written behind `--property`.
    pub const fn name(self) -> &'static str {
        match self {
            Property::Exclusion => "exclusion",
            Property::Deadlock => "deadlock",
            Property::Starvation => "starvation",
            Property::Order => "order",
            Property::Fences => "fences",
            Property::Tokens => "tokens",
            Property::Invariants => "invariants",
            Property::Refusals => "refusals",
            Property::Quiet => "quiet",
            Property::Messages => "messages",
        }
    }

    /// The one with this name.
    pub fn named(name: &str) -> Option<Property> {
        Property::ALL.into_iter().find(|property| property.name() == name)
    }

    /// The one that a violation breaks.
    pub fn of(violation: &Violation) -> Property {
        match violation {
            // A site that disagrees with its host about its own process breaks the one contract that exclusion rests on.
            Violation::TooManyInside { .. }
            | Violation::EnteredUnasked { .. }
            | Violation::EnteredTwice { .. }
            | Violation::WrongPhase { .. } => Property::Exclusion,
            Violation::FenceFellBack { .. } => Property::Fences,
            Violation::OutOfOrder { .. } => Property::Order,
            Violation::Refused { .. } => Property::Refusals,
            Violation::TokensNotConserved { .. } => Property::Tokens,
            Violation::Invariant { .. } | Violation::Together { .. } => Property::Invariants,
        }
    }

    /// Who promises it, and in which words.
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
    /// Every one.
    pub fn all() -> Self {
        Property::ALL.into_iter().collect()
    }

    /// Whether `property` is among them.
    pub const fn contains(self, property: Property) -> bool {
        self.0 & property.bit() != 0
    }

    /// Those that are in it, in the order in which tables list them.
    pub fn iter(self) -> impl Iterator<Item = Property> {
        Property::ALL.into_iter().filter(move |&property| self.contains(property))
    }

    /// All but `property`.
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

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// All states were visited and nothing is wrong.
    Holds,
    /// The last step of the path leads here.
    Violated(Violation),
    /// After the path nothing can happen any more, and these sites wait.
    Deadlock(Vec<SiteId>),
    /// After the path the schedule can go round for ever, fair to every message and every process, and these sites wait all
    /// the time.
    Starvation(Vec<SiteId>),
    /// All was served, but a site still owes something after the path.
    NotQuiet,
    /// Some complete run costs fewer or more messages, all entries together, than the paper allows.
    Costs {
        /// The cheapest and the dearest run.
        found: (usize, usize),
        /// What the formulas give for as many entries.
        allowed: (f64, f64),
    },
    /// The limit on states or memory was reached first.
    Unfinished,
}

impl Verdict {
    /// The property that is broken.
    pub fn property(&self) -> Option<Property> {
        match self {
            Verdict::Holds | Verdict::Unfinished => None,
            Verdict::Violated(violation) => Some(Property::of(violation)),
            Verdict::Deadlock(_) => Some(Property::Deadlock),
            Verdict::Starvation(_) => Some(Property::Starvation),
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
            Verdict::NotQuiet => f.write_str("all were served, but a site still owes something"),
            Verdict::Costs { found: (least, most), allowed: (low, high) } => {
                write!(f, "complete runs cost {least} to {most} messages, the paper says {low} to {high}")
            }
            Verdict::Unfinished => f.write_str("not finished within the limit"),
        }
    }
}
