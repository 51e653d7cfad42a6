//! No view is agreed on while a member that it excludes may still have a lease.
//!
//! This is checked twice, with what each side can know. When a leader proposes a view: on its own clock the inequality
//! of [`meshlock_cluster::lease`] holds for every excluded member to which it has granted a lease, recomputed here from the grants that
//! were seen, and any other one had the time to ask it. When
//! a view is installed anywhere: no incarnation that it excludes has a valid lease, on that incarnation's own clock,
//! whether its process still runs or not; and it does not get one afterwards, by a grant that was on its way.

use std::collections::{BTreeMap, BTreeSet};

use meshlock_protocol::Epoch;

use super::{CheckResult, broken};
use crate::clock::{Clock, Moment};
use meshlock_cluster::names::Member;
use meshlock_cluster::time::Time;
use meshlock_cluster::view::View;

/// The leases of all incarnations and the grants of all leaders, as observed.
#[derive(Clone, Debug)]
pub(crate) struct Leases {
    clocks: Vec<Clock>,
    strict: bool,
    /// For each incarnation the machine and the end of its lease there.
    ends: BTreeMap<Member, (usize, Time)>,
    /// For each machine that leads: since when, and when it granted a lease to which member.
    leaders: BTreeMap<usize, (Time, BTreeMap<Member, Time>)>,
    /// Incarnations that said themselves that they hold nothing.
    gave_up: BTreeSet<Member>,
    /// The newest view that was installed anywhere.
    newest: View,
}

impl Leases {
    pub(crate) fn new(clocks: Vec<Clock>, strict: bool) -> Self {
        let (ends, leaders, gave_up) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Leases { clocks, strict, ends, leaders, gave_up, newest: View::default() }
    }

    /// Records the lease of an incarnation, as its node has it after a step.
    pub(crate) fn on_lease(
        &mut self,
        member: &Member,
        machine: usize,
        end: Option<Time>,
        now: Moment,
    ) -> CheckResult {
        match end {
            Some(end) => {
                if self.ends.get(member).is_none_or(|(_, known)| *known != end) {
                    self.ends.insert(member.clone(), (machine, end));
                    let holds = self.strict && self.clocks[machine].at(now) < end;
                    if holds && !self.newest.contains(member) {
                        let epoch = self.newest.epoch.number();
                        let what = format!("{member} gets a lease, though view {epoch} has left it out");
                        return broken("leases", now, what);
                    }
                }
            }
            // It gave its lease up: it does not act on it any more.
            None => {
                self.ends.remove(member);
            }
        }
        Ok(())
    }

    pub(crate) fn on_gave_up(&mut self, member: Member) {
        self.gave_up.insert(member);
    }

    pub(crate) fn on_leads(&mut self, machine: usize, now: Moment) {
        self.leaders.insert(machine, (self.clocks[machine].at(now), BTreeMap::new()));
    }

    pub(crate) fn on_granted(&mut self, machine: usize, member: Member, now: Moment) {
        let at = self.clocks[machine].at(now);
        if let Some((_, granted)) = self.leaders.get_mut(&machine) {
            granted.insert(member, at);
        }
    }

    /// Checks a leader's proposal that `next` follows `last`.
    pub(crate) fn on_proposed(&self, machine: usize, last: &View, next: &View, now: Moment) -> CheckResult {
        let is_first = last.epoch == Epoch::default() && next.epoch > last.epoch;
        if last.epoch.number() + 1 != next.epoch.number() && !is_first {
            let (next, last) = (next.epoch.number(), last.epoch.number());
            return broken(
                "leases",
                now,
                format!("s{machine} proposes view {next}, and has installed {last}"),
            );
        }
        let Some((elected, granted)) = self.leaders.get(&machine) else {
            return broken(
                "leases",
                now,
                format!("s{machine} proposes a view and has not said that it leads"),
            );
        };
        let at = self.clocks[machine].at(now);
        let out =
            last.members.iter().filter(|member| !next.contains(member) && !self.gave_up.contains(member));
        for member in out {
            let over = granted.get(member).map_or(*elected + last.terms.first_contact(), |granted| {
                *granted.max(elected) + last.terms.drift.stretch(last.terms.length)
            });
            if at < over {
                let what = format!("s{machine} leaves {member} out before its lease is certainly over");
                return broken("leases", now, what);
            }
        }
        Ok(())
    }

    /// Checks a view that is installed somewhere for the first time. (Other sites, and restarted ones, install it
    /// later.)
    pub(crate) fn on_installed(&mut self, view: &View, now: Moment) -> CheckResult {
        if view.epoch <= self.newest.epoch {
            return Ok(());
        }
        self.newest = view.clone();
        if !self.strict {
            return Ok(());
        }
        for (member, (machine, end)) in &self.ends {
            if !view.contains(member) && self.clocks[*machine].at(now) < *end {
                let what = format!("view {} leaves out {member}, whose lease holds", view.epoch.number());
                return broken("leases", now, what);
            }
        }
        Ok(())
    }
}
