//! The home of a name: it settles the name's number of permits, and hands the permits out.
//!
//! **Invariants**
//! - H1: a number is settled only after every member has confirmed that none of its clients uses the name with another
//!   one, and as long as a permit is out or wanted.
//! - H2: no more permits are out than the settled number.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use meshlock_protocol::FenceClock;
use meshlock_protocol::fence::Stamp;

use super::message::PermitMessage;
use crate::mutant::{self, Mutant};

/// Maximum number of requests for one name that wait at its home. No correct cluster has so many clients.
const MAX_WANTS: usize = 1 << 18;

/// The constants of the view that a home needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct HomeTerms {
    /// Number of members.
    pub(super) members: usize,
    /// The number of permits of the default rule.
    pub(super) plain: u32,
}

/// A message to the member at a place.
pub(super) type HomeOutput = Vec<(usize, PermitMessage)>;

/// The state of one name at its home. It exists while the name is not simply used by the default rule.
#[derive(Clone, Debug)]
pub(in super::super) struct Home {
    clock: FenceClock,
    pool: Option<Pool>,
    round: Option<ReserveRound>,
    /// Requests that wait until the number is settled, in the order of their arrival: place and number.
    proposals: VecDeque<(usize, u32)>,
}

/// The permits of a name with a settled number.
#[derive(Clone, Debug, Default)]
struct Pool {
    permits: u32,
    /// The permits that are out, with the place of the member that has them.
    out: BTreeMap<(u32, usize), usize>,
    /// The members that want a permit, in order.
    queue: VecDeque<usize>,
}

/// A question to all members whether the name may be used with another number: that of the first proposal.
#[derive(Clone, Debug)]
struct ReserveRound {
    silent: BTreeSet<usize>,
    in_use: Option<u32>,
}

impl Pool {
    fn is_idle(&self) -> bool {
        self.out.is_empty() && self.queue.is_empty()
    }

    fn count(&self) -> usize {
        self.out.values().sum()
    }

    /// Returns the smallest number of a permit that is not out.
    fn free_slot(&self) -> u32 {
        let used: BTreeSet<u32> = self.out.keys().map(|(slot, _)| *slot).collect();
        let most = u32::try_from(used.len()).unwrap_or(u32::MAX);
        (0..=most).find(|slot| !used.contains(slot)).expect("one more than there are used")
    }
}

impl Home {
    /// Returns the state of a name that is not settled.
    pub(super) fn new(clock: FenceClock) -> Self {
        Home { clock, pool: None, round: None, proposals: VecDeque::new() }
    }

    /// Returns the state of a name that is settled when the view opens, with the permits that are out.
    pub(super) fn settled(clock: FenceClock, permits: u32, out: impl Iterator<Item = (u32, usize)>) -> Self {
        let mut pool = Pool { permits, ..Pool::default() };
        out.for_each(|permit| *pool.out.entry(permit).or_default() += 1);
        Home { pool: Some(pool), ..Home::new(clock) }
    }

    /// Returns whether nothing is left to remember.
    pub(super) fn is_over(&self) -> bool {
        self.pool.is_none() && self.round.is_none() && self.proposals.is_empty()
    }

    /// Handles a member's request for a permit of the name with this number.
    pub(super) fn on_want(
        &mut self,
        place: usize,
        permits: u32,
        terms: HomeTerms,
        out: &mut HomeOutput,
    ) -> Result<(), &'static str> {
        if self.proposals.len() + self.pool.as_ref().map_or(0, |pool| pool.queue.len()) >= MAX_WANTS {
            return Err("wants more permits than a cluster has clients");
        }
        self.proposals.push_back((place, permits));
        self.next(terms, out);
        Ok(())
    }

    /// Handles the return of a permit.
    pub(super) fn on_return(
        &mut self,
        place: usize,
        slot: u32,
        stamp: Stamp,
        terms: HomeTerms,
        out: &mut HomeOutput,
    ) -> Result<(), &'static str> {
        self.clock.observe(stamp).map_err(|_| "a fence clock out of its range")?;
        let pool = self.pool.as_mut().filter(|pool| pool.out.contains_key(&(slot, place)));
        let Some(pool) = pool else { return Err("returns a permit that it does not have") };
        if let Some(count) = pool.out.get_mut(&(slot, place)) {
            *count -= 1;
        }
        pool.out.retain(|_, count| *count > 0);
        if mutant::is_on(Mutant::FreedWhileInUse) && self.round.is_none() {
            out.extend((0..terms.members).map(|to| (to, PermitMessage::Free { stamp: self.clock.stamp() })));
        }
        self.serve(out);
        self.free_if_idle(terms, out);
        Ok(())
    }

    /// Handles a member's answer whether the name may be used with another number.
    pub(super) fn on_reserved(
        &mut self,
        place: usize,
        in_use: Option<u32>,
        stamp: Stamp,
        terms: HomeTerms,
        out: &mut HomeOutput,
    ) -> Result<(), &'static str> {
        self.clock.observe(stamp).map_err(|_| "a fence clock out of its range")?;
        let round = self.round.as_mut().filter(|round| round.silent.contains(&place));
        let Some(round) = round else { return Err("answers what it was not asked") };
        round.silent.remove(&place);
        round.in_use = round.in_use.or(in_use);
        if round.silent.is_empty() {
            let in_use = round.in_use;
            self.round = None;
            self.conclude(in_use, terms, out);
            self.next(terms, out);
        }
        Ok(())
    }

    /// Goes through the proposals until one of them needs a round.
    fn next(&mut self, terms: HomeTerms, out: &mut HomeOutput) {
        while self.round.is_none()
            && let Some(&(place, permits)) = self.proposals.front()
        {
            match &mut self.pool {
                Some(pool) if pool.permits == permits => pool.queue.push_back(place),
                None if permits == terms.plain => {
                    out.push((place, PermitMessage::Free { stamp: self.clock.stamp() }));
                }
                Some(_) | None => {
                    self.round = Some(ReserveRound { silent: (0..terms.members).collect(), in_use: None });
                    out.extend((0..terms.members).map(|to| (to, PermitMessage::Reserve { permits })));
                    return;
                }
            }
            self.proposals.pop_front();
            self.serve(out);
        }
        self.free_if_idle(terms, out);
    }

    /// Ends a round, in which a member has reported `in_use`, or none has.
    fn conclude(&mut self, in_use: Option<u32>, terms: HomeTerms, out: &mut HomeOutput) {
        let Some(&(place, permits)) = self.proposals.front() else { return };
        // Who has a permit has not confirmed that nobody uses it.
        let out_here = self.pool.as_ref().filter(|pool| pool.count() > 0).map(|pool| pool.permits);
        if let Some(has) = in_use.or(out_here) {
            self.proposals.pop_front();
            out.push((place, PermitMessage::Differs { permits, has }));
        } else {
            self.pool = (permits != terms.plain).then(|| Pool { permits, ..Pool::default() });
        }
        let stamp = self.clock.stamp();
        // A pool that became idle during the round is not kept, unless the first proposal goes to it now.
        let wanted = |pool: &Pool| self.proposals.front().is_some_and(|(_, number)| *number == pool.permits);
        self.pool = self.pool.take().filter(|pool| !pool.is_idle() || wanted(pool));
        let decided = match &self.pool {
            Some(pool) => PermitMessage::Settled { permits: pool.permits },
            None => PermitMessage::Free { stamp },
        };
        out.extend((0..terms.members).map(|to| (to, decided)));
    }

    /// Hands out permits as long as there are some and somebody wants one.
    fn serve(&mut self, out: &mut HomeOutput) {
        let Some(pool) = &mut self.pool else { return };
        while pool.count() < pool.permits as usize
            && let Some(place) = pool.queue.pop_front()
        {
            let slot = pool.free_slot();
            *pool.out.entry((slot, place)).or_default() += 1;
            // Every permit gets a tick of the clock of its own, so that no two holders have the same fence.
            let stamp = self.clock.stamp();
            let _ = self.clock.enter();
            out.push((place, PermitMessage::Permit { permits: pool.permits, slot, stamp }));
        }
    }

    /// Gives the name back to the default rule if nobody uses it otherwise.
    fn free_if_idle(&mut self, terms: HomeTerms, out: &mut HomeOutput) {
        if self.round.is_none() && self.pool.take_if(|pool| pool.is_idle()).is_some() {
            let stamp = self.clock.stamp();
            out.extend((0..terms.members).map(|to| (to, PermitMessage::Free { stamp })));
        }
    }

    /// Checks the numbered invariants.
    pub(super) fn check_invariants(&self) -> Result<(), &'static str> {
        match &self.pool {
            Some(pool) if pool.count() > pool.permits as usize => {
                Err("H2: no more permits are out than the settled number")
            }
            Some(_) | None => Ok(()),
        }
    }
}
