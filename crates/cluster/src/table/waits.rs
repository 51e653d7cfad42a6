//! What this site says of the parties that hold something here and wait for something else.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::{
    AcquireOutcome, LeaseClock, LockEvent, LockTable, Request, RequestRefusal, Session, TableOutput,
};
use crate::names::ClientLabel;
use crate::report::{MAX_OF_PARTY, MAX_PARTIES, Party, PartyHold, PartyWait, PartyWaits};
use crate::time::{Span, Time};

impl LockTable {
    /// Says which party the client of a session is.
    pub(crate) fn join_party(&mut self, session: Session, party: Party) {
        self.sessions.entry(session).or_default().party = Some(party);
    }

    /// Returns the parties here that hold something and wait for something, those that have waited longest, and whether there are more.
    /// There are none while this site could serve nobody anyway, because then they wait for something else.
    pub(crate) fn waits(&self, lease_clock: LeaseClock) -> (Vec<PartyWaits>, bool) {
        if !self.may_serve(lease_clock) {
            return (Vec::new(), false);
        }
        let mut parties: BTreeMap<Party, PartyWaits> = BTreeMap::new();
        for (party, who, requests) in self.sessions.values().filter_map(|client| {
            Some((client.party.filter(|_| client.cut.is_none())?, &client.label, &client.requests))
        }) {
            let listed = parties.entry(party).or_insert_with(|| PartyWaits {
                party,
                who: None,
                waits: Vec::new(),
                holds: Vec::new(),
            });
            self.add_requests(listed, requests, who.as_ref(), lease_clock.now);
        }
        let mut parties: Vec<PartyWaits> = parties
            .into_values()
            .filter(|party| !party.waits.is_empty() && !party.holds.is_empty())
            .collect();
        let longest = |party: &PartyWaits| party.waits.iter().map(|wait| wait.waited).max();
        parties.sort_by_key(|party| Reverse(longest(party)));
        let more = parties.len() > MAX_PARTIES;
        parties.truncate(MAX_PARTIES);
        (parties, more)
    }

    fn add_requests(
        &self,
        listed: &mut PartyWaits,
        requests: &BTreeSet<Request>,
        who: Option<&ClientLabel>,
        now: Time,
    ) {
        for request in requests {
            let Some((_, key)) = self.requests.get(request) else { continue };
            let Some(lock) = self.locks.get(key) else { continue };
            let (name, permits) = (key.name.clone(), key.permits);
            if let Some(hold) = lock.hold(*request) {
                // Who has lost a lock gives it up for certain.
                if hold.stop_by.is_none() && listed.holds.len() < MAX_OF_PARTY {
                    let (fence, slot, held) = (hold.fence, hold.slot, now.since(hold.since));
                    listed.holds.push(PartyHold { lock: name, permits, fence, slot, held });
                }
            } else if let Some(waiter) = self.waiter(*request, key)
                && !waiter.is_try
                && !self.draining.contains_key(&key.name)
                && listed.waits.len() < MAX_OF_PARTY
            {
                let is_refusable = self.rules().is_some_and(|rules| rules.rule(&key.name).refuses_deadlocks);
                let (request, waited) = (request.0, now.since(waiter.since));
                listed.waits.push(PartyWait { request, lock: name, permits, waited, is_refusable });
                listed.who = who.cloned();
            }
        }
    }

    /// Returns whether a party that may be refused has waited here for so long that it is worth looking for a deadlock.
    pub(crate) fn has_long_waits(&self, longer_than: Span, lease_clock: LeaseClock) -> bool {
        if !self.rules().is_some_and(crate::rules::Rules::refuse_deadlocks) {
            return false;
        }
        let (parties, _) = self.waits(lease_clock);
        let is_long = |wait: &PartyWait| wait.is_refusable && wait.waited >= longer_than;
        parties.iter().flat_map(|party| &party.waits).any(is_long)
    }

    /// Refuses a request that waits, as the youngest one of a deadlock, if the rule of its lock says so. Returns whether it did.
    pub(crate) fn refuse_deadlocked(&mut self, request: Request, out: &mut Vec<TableOutput>) -> bool {
        let Some((_, key)) = self.requests.get(&request).cloned() else { return false };
        let is_meant = self.rules().is_some_and(|rules| rules.rule(&key.name).refuses_deadlocks);
        if !is_meant || self.waiter(request, &key).is_none() {
            return false;
        }
        self.stop_waiting(request, &key, AcquireOutcome::Refused, out);
        out.push(TableOutput::LockEvent(LockEvent::Refused { request, why: RequestRefusal::Deadlock }));
        true
    }
}
