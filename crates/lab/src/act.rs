//! Acts: what a person does in a run, as values and in the notation of the address bar.
//!
//! A run is its setup and a list of acts, each at a step: `0q0.q1.d0-1.7f2` means that at step 0 site 0 requests, at step 1
//! site 1 does, at step 2 the oldest message from 0 to 1 arrives, and at step 7 site 2 fails. At all other steps the next event
//! that is due happens.
//!
//! `0q0_1-0` says how site 0 chooses in that step what its paper leaves open: alternative 1 of the first choice, 0 of the second.
//! What is not said is drawn by the run's seed.

use std::fmt;
use std::str::FromStr;

use meshlock_protocol::{SiteId, SiteSet};

/// The place of a message in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessagePlace {
    pub(crate) from: SiteId,
    pub(crate) to: SiteId,
    /// The number of older messages of the same pair in flight.
    pub(crate) nth: usize,
}

/// One act of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UserAct {
    /// The process of the site requests.
    Request(SiteId),
    /// The process of the site leaves.
    Release(SiteId),
    /// The process of the site leaves and requests again in the same step.
    Return(SiteId),
    /// A message arrives now.
    Deliver(MessagePlace),
    /// A message arrives now, and again later.
    Duplicate(MessagePlace),
    /// A message is lost.
    Drop(MessagePlace),
    /// A message is delayed by this many tenths of a unit of time.
    Delay(MessagePlace, u32),
    /// A timer of the site runs out now.
    Wake(SiteId),
    Fail(SiteId),
    /// The failed site runs again.
    Recover(SiteId),
    /// A site learns now that another has failed, or recovered.
    Tell {
        /// The site that learns it.
        to: SiteId,
        /// The site that has failed or recovered.
        about: SiteId,
    },
    /// The link between two sites is cut: what is sent over it waits.
    Cut(SiteId, SiteId),
    /// The link is whole again.
    Mend(SiteId, SiteId),
    /// The network splits into these sites and the rest.
    Split(SiteSet),
    /// The network is whole again.
    Heal,
}

/// An act, and how the site chooses in that step what its paper leaves open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChosenAct {
    pub(crate) act: UserAct,
    /// The answers to what the site asks, in turn; what it asks beyond them is drawn.
    pub(crate) answers: Vec<u32>,
}

/// The acts of a run, by step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acts(Vec<(usize, ChosenAct)>);

/// The largest number of acts in an address.
pub(crate) const MAX_ACTS: usize = 20_000;

/// The largest number of choices of an act in an address.
const MAX_ANSWERS: usize = 1000;

/// Why a list of acts cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActsError {
    /// An act is malformed.
    #[error(
        "'{0}' is no act; acts look like 0q1 (site 1 requests at step 0), 3d0-2 (a message from 0 to 2 arrives), 5f1, or 0q1_2 \
         (the same, and the site chooses alternative 2)"
    )]
    Unreadable(String),
    /// Two acts are at the same step, or the acts are not in order.
    #[error("the act '{0}' is not later than the one before it")]
    OutOfOrder(String),
    #[error("more than {MAX_ACTS} acts")]
    TooMany,
}

impl Acts {
    /// No acts.
    pub(crate) const fn none() -> Self {
        Acts(Vec::new())
    }

    /// These acts at successive steps, from the first step on.
    pub(crate) fn script(acts: Vec<ChosenAct>) -> Self {
        Acts(acts.into_iter().enumerate().collect())
    }

    /// The act at `step`, if there is one.
    pub(crate) fn at(&self, step: usize) -> Option<&ChosenAct> {
        let at = self.0.binary_search_by_key(&step, |&(at, _)| at).ok()?;
        Some(&self.0[at].1)
    }
}

impl FromStr for Acts {
    type Err = ActsError;

    fn from_str(text: &str) -> Result<Self, ActsError> {
        let mut acts: Vec<(usize, ChosenAct)> = Vec::new();
        for word in text.split('.').filter(|word| !word.is_empty()) {
            if acts.len() == MAX_ACTS {
                return Err(ActsError::TooMany);
            }
            let unreadable = || ActsError::Unreadable(word.chars().take(40).collect());
            let letter = word.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(unreadable)?;
            let next = acts.last().map_or(0, |&(last, _)| last + 1);
            let step = match &word[..letter] {
                "" => next,
                digits => digits.parse::<u32>().map_err(|_| unreadable())? as usize,
            };
            if step < next {
                return Err(ActsError::OutOfOrder(word.chars().take(40).collect()));
            }
            acts.push((step, word[letter..].parse().map_err(|()| unreadable())?));
        }
        Ok(Acts(acts))
    }
}

impl fmt::Display for Acts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut next = None;
        for (step, act) in &self.0 {
            if next.is_some() {
                f.write_str(".")?;
            }
            if next != Some(*step) {
                write!(f, "{step}")?;
            }
            write!(f, "{act}")?;
            next = Some(step + 1);
        }
        Ok(())
    }
}

impl FromStr for ChosenAct {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (act, answers) = match text.split_once('_') {
            None => (text, Vec::new()),
            Some((act, answers)) => {
                let numbers = answers.split('-').map(|word| word.parse().map_err(|_| ()));
                (act, numbers.take(MAX_ANSWERS + 1).collect::<Result<Vec<u32>, ()>>()?)
            }
        };
        if answers.len() > MAX_ANSWERS {
            return Err(());
        }
        Ok(ChosenAct { act: act.parse()?, answers })
    }
}

impl fmt::Display for ChosenAct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.act)?;
        for (at, answer) in self.answers.iter().enumerate() {
            write!(f, "{}{answer}", if at == 0 { '_' } else { '-' })?;
        }
        Ok(())
    }
}

impl FromStr for UserAct {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (verb, rest) = text.split_at_checked(1).ok_or(())?;
        let words = rest.split('-').filter(|word| !word.is_empty());
        let numbers =
            words.map(|word| word.parse::<u32>().map_err(|_| ())).collect::<Result<Vec<_>, ()>>()?;
        let site = |number: u32| SiteId::new(number as usize);
        let place = |from, to, nth: u32| MessagePlace { from: site(from), to: site(to), nth: nth as usize };
        Ok(match (verb, numbers.as_slice()) {
            ("q", &[at]) => UserAct::Request(site(at)),
            ("x", &[at]) => UserAct::Release(site(at)),
            ("r", &[at]) => UserAct::Return(site(at)),
            ("w", &[at]) => UserAct::Wake(site(at)),
            ("f", &[at]) => UserAct::Fail(site(at)),
            ("v", &[at]) => UserAct::Recover(site(at)),
            ("d", &[from, to]) => UserAct::Deliver(place(from, to, 0)),
            ("d", &[from, to, nth]) => UserAct::Deliver(place(from, to, nth)),
            ("u", &[from, to]) => UserAct::Duplicate(place(from, to, 0)),
            ("u", &[from, to, nth]) => UserAct::Duplicate(place(from, to, nth)),
            ("l", &[from, to]) => UserAct::Drop(place(from, to, 0)),
            ("l", &[from, to, nth]) => UserAct::Drop(place(from, to, nth)),
            ("t", &[from, to, nth, tenths]) => UserAct::Delay(place(from, to, nth), tenths),
            ("n", &[to, about]) => UserAct::Tell { to: site(to), about: site(about) },
            ("c", &[one, other]) => UserAct::Cut(site(one), site(other)),
            ("m", &[one, other]) => UserAct::Mend(site(one), site(other)),
            ("s", away) if !away.is_empty() && away.iter().all(|&at| at < MAX_SPLIT) => {
                UserAct::Split(away.iter().map(|&at| site(at)).collect())
            }
            ("h", &[]) => UserAct::Heal,
            _ => return Err(()),
        })
    }
}

/// The largest site id in an address: a set of sites takes as much memory as its largest id demands.
const MAX_SPLIT: u32 = 4096;

impl fmt::Display for MessagePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.from.index(), self.to.index())?;
        if self.nth > 0 { write!(f, "-{}", self.nth) } else { Ok(()) }
    }
}

impl fmt::Display for UserAct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pair = |f: &mut fmt::Formatter<'_>, verb, one: &SiteId, other: &SiteId| {
            write!(f, "{verb}{}-{}", one.index(), other.index())
        };
        match self {
            UserAct::Request(site) => write!(f, "q{}", site.index()),
            UserAct::Release(site) => write!(f, "x{}", site.index()),
            UserAct::Return(site) => write!(f, "r{}", site.index()),
            UserAct::Wake(site) => write!(f, "w{}", site.index()),
            UserAct::Fail(site) => write!(f, "f{}", site.index()),
            UserAct::Recover(site) => write!(f, "v{}", site.index()),
            UserAct::Deliver(place) => write!(f, "d{place}"),
            UserAct::Duplicate(place) => write!(f, "u{place}"),
            UserAct::Drop(place) => write!(f, "l{place}"),
            UserAct::Delay(MessagePlace { from, to, nth }, tenths) => {
                write!(f, "t{}-{}-{nth}-{tenths}", from.index(), to.index())
            }
            UserAct::Tell { to, about } => pair(f, 'n', to, about),
            UserAct::Cut(one, other) => pair(f, 'c', one, other),
            UserAct::Mend(one, other) => pair(f, 'm', one, other),
            UserAct::Split(away) => {
                let sites: Vec<String> = away.iter().map(|site| site.index().to_string()).collect();
                write!(f, "s{}", sites.join("-"))
            }
            UserAct::Heal => f.write_str("h"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acts_print_as_they_are_read() {
        let all = "0q0.q1.d0-1.d0-1-2.u1-0.l1-0-1.9t0-1-0-15.w2.f2.n0-2.v2.c0-1.m0-1.s0-2.h.x0.r1";
        assert_eq!(all.parse::<Acts>().unwrap().to_string(), all);
        assert_eq!("".parse::<Acts>().unwrap(), Acts::none());
        let chosen = "0q0_1.d0-1_2-0.5x1";
        assert_eq!(chosen.parse::<Acts>().unwrap().to_string(), chosen);
    }

    #[test]
    fn an_act_without_a_step_follows_the_one_before_it() {
        let acts: Acts = "4q0.q1.9f0".parse().unwrap();
        let request = ChosenAct { act: UserAct::Request(SiteId::new(1)), answers: Vec::new() };
        assert_eq!(acts.at(5), Some(&request));
        assert_eq!(acts.at(6), None);
        assert_eq!(acts.0.last().map(|&(step, _)| step), Some(9));
    }

    #[test]
    fn nonsense_is_named_and_nothing_panics() {
        for nonsense in
            ["q", "0", "zz", "0q99999999999", "3d1", "s999999999", "q1q2", "0q-", "ü1", "q1_", "q1_x", "_1"]
        {
            assert!(matches!(nonsense.parse::<Acts>(), Err(ActsError::Unreadable(_))), "{nonsense}");
        }
        let many = format!("q1_{}", vec!["0"; MAX_ANSWERS + 1].join("-"));
        assert!(matches!(many.parse::<Acts>(), Err(ActsError::Unreadable(_))));
        assert!(matches!("5q0.3q1".parse::<Acts>(), Err(ActsError::OutOfOrder(_))));
    }
}
