//! Facts that a figure shows, and that can be checked in a moment of a run.

use crate::lamps::Light;
use crate::moment::{Moment, SiteMoment};

/// A fact that holds after some number of steps.
#[derive(Clone, Copy, Debug)]
pub struct Fact {
    pub(crate) step: usize,
    /// The fact in words.
    pub(crate) says: &'static str,
    /// The fact as a condition.
    pub(crate) see: See,
}

/// A condition on a moment.
#[derive(Clone, Copy, Debug)]
pub enum See {
    /// Exactly these sites are inside.
    Inside(&'static [usize]),
    /// Exactly these sites wait.
    Waiting(&'static [usize]),
    /// These sites have entered, in this order.
    Entered(&'static [usize]),
    /// This many messages have been sent.
    Messages(u64),
    /// This many messages of one kind have been sent.
    Sent(&'static str, u64),
    /// A set of a site has these members.
    Set(usize, &'static str, &'static [usize]),
    /// The sets of all sites with this name.
    Sets(&'static str, &'static [&'static [usize]]),
    /// A list of a site has these items.
    Queue(usize, &'static str, &'static [&'static str]),
    /// The targets of a pointer of all sites; `None` where a site has none.
    Pointers(&'static str, &'static [Option<usize>]),
    /// A property is violated.
    Broken(&'static str),
    /// No property is violated.
    AllHold,
}

impl See {
    /// Whether the condition holds.
    pub fn is_in(self, moment: &Moment) -> bool {
        match self {
            See::Inside(sites) => in_phase(moment, "inside") == sites,
            See::Waiting(sites) => in_phase(moment, "waiting") == sites,
            See::Entered(sites) => {
                let entered: Vec<usize> = moment.entries.iter().rev().map(|entry| entry.site).collect();
                entered == sites
            }
            See::Messages(count) => moment.counters.messages == count,
            See::Sent(kind, count) => {
                let sent = moment.counters.by_kind.iter().find(|(sent, _)| *sent == kind);
                sent.map_or(0, |&(_, sent)| sent) == count
            }
            See::Set(site, name, members) => set(&moment.sites[site], name) == Some(members),
            See::Sets(name, sets) => {
                moment.sites.iter().map(|site| set(site, name)).eq(sets.iter().map(|&members| Some(members)))
            }
            See::Queue(site, name, items) => {
                let queue = moment.sites[site].queues.iter().find(|queue| queue.name == name);
                queue.is_some_and(|queue| queue.items == items)
            }
            See::Pointers(name, targets) => {
                let pointer = |site: &SiteMoment| {
                    site.pointers.iter().find(|pointer| pointer.name == name).map(|pointer| pointer.to)
                };
                moment.sites.iter().map(pointer).eq(targets.iter().copied())
            }
            See::Broken(name) => {
                moment.lamps.iter().any(|lamp| lamp.name == name && lamp.light == Light::Broken)
            }
            See::AllHold => moment.lamps.iter().all(|lamp| lamp.light != Light::Broken),
        }
    }
}

fn in_phase(moment: &Moment, phase: &str) -> Vec<usize> {
    let sites = moment.sites.iter().enumerate().filter(|(_, site)| site.phase == phase);
    sites.map(|(at, _)| at).collect()
}

fn set<'a>(site: &'a SiteMoment, name: &str) -> Option<&'a [usize]> {
    site.sets.iter().find(|set| set.name == name).map(|set| set.items.as_slice())
}
