//! What voters tell each other about leases with Raft's own messages: whose renewals a round is for, and with a vote, how long ago that
//! was. Why a new leader may rely on it is said in [`lease`](crate::lease).
//!
//! Both are in the context of Raft's messages, which programs that do not know of this pass on or ignore.

use std::collections::BTreeMap;

use super::Node;
use crate::lease::{Inherited, ListedRenewals, RenewalAges, append_list, read_list};
use crate::membership::message::{Annotated, ROUND_BYTES, RaftMessage};
use crate::membership::voters::Voters;
use crate::membership::{Membership, Term};
use crate::mutant::{self, Mutant};
use crate::names::{Member, SiteName};
use crate::time::Time;

/// What this site knows of other leaders' grants.
#[derive(Debug)]
pub(super) struct GrantHistory {
    listed: ListedRenewals,
    /// The voters when it was noted.
    voters: Voters,
    votes: Votes,
}

/// The votes for this site in one term: when each was received, and what it said.
#[derive(Debug, Default)]
struct Votes {
    term: u64,
    by: BTreeMap<SiteName, (Time, RenewalAges)>,
}

impl GrantHistory {
    pub(super) fn new(voters: &Voters, now: Time) -> Self {
        let (listed, votes) = (ListedRenewals::new(now), Votes::default());
        GrantHistory { listed, voters: voters.clone(), votes }
    }
}

impl Node {
    /// Notes that this site, as leader, begins a round for the renewals of these members.
    pub(super) fn note_own_round(&mut self) {
        let Some(leadership) = &self.leadership else { return };
        let members = leadership.listed(None).cloned().collect();
        self.note_round(Some(members));
    }

    fn note_round(&mut self, members: Option<Vec<Member>>) {
        self.forget_former_voters();
        let keep = self.config.terms.length.times(2);
        self.history.listed.on_round(members, keep, self.now);
    }

    /// Forgets everything if others vote now than when it was noted, as if this site had just been started: the argument is about majorities
    /// of the same voters. Whoever learns of a change learns it after the leader that made it, and that leader's later rounds need a
    /// majority of the voters after the change; so what is noted as unknown until now includes every round that did not.
    pub(super) fn forget_former_voters(&mut self) {
        if self.history.voters != self.voters {
            self.history = GrantHistory::new(&self.voters, self.now);
        }
    }

    /// Adds to a message to another voter what this site says with it.
    pub(super) fn annotate(&mut self, mut message: RaftMessage) -> RaftMessage {
        match message.annotated() {
            Some(Annotated::Round) => {
                let round = message.context[..ROUND_BYTES].try_into().map(u64::from_be_bytes);
                // A round that is not the last one grants nothing any more.
                let listed = self.leadership.as_ref().map(|leadership| leadership.listed(round.ok()));
                append_list(&mut message.context, listed.into_iter().flatten());
            }
            Some(Annotated::Vote) => {
                self.forget_former_voters();
                message.context = self.history.listed.ages(self.now).encode();
            }
            Some(Annotated::RoundAnswer) | None => {}
        }
        message
    }

    /// Takes from a message of another voter what that says with it, before the message is handled.
    ///
    /// A round is noted whoever leads it: a voter that was away may not know yet that the leader votes, and answers it all the same.
    pub(super) fn take_annotation(&mut self, from: &SiteName, message: &mut RaftMessage) {
        let term = self.membership.as_ref().map_or(0, |membership| membership.term().0);
        let Some(annotated) = message.annotated().filter(|_| message.term >= term) else { return };
        match annotated {
            Annotated::Round if self.votes(from) || !mutant::is_on(Mutant::StrangersRoundIgnored) => {
                let members = read_list(&message.context[ROUND_BYTES..]);
                self.note_round(members);
            }
            Annotated::Vote if self.votes(from) => {
                let votes = &mut self.history.votes;
                if votes.term != message.term {
                    *votes = Votes { term: message.term, by: BTreeMap::new() };
                }
                let ages = RenewalAges::decode(&message.context);
                votes.by.insert(from.clone(), (self.now, ages));
            }
            // The answer of an older program to a round has the whole context.
            Annotated::Round | Annotated::RoundAnswer | Annotated::Vote => {}
        }
        message.remove_annotation();
    }

    /// Returns what this site, which has just been elected, knows of the grants of earlier leaders: from those who voted for it, and from
    /// itself. `None` if that is too few of them, or if who votes is about to change: then it waits for a whole lease.
    pub(super) fn inherited(&mut self, term: Term) -> Option<Inherited> {
        self.forget_former_voters();
        let GrantHistory { listed, voters, votes } = &self.history;
        let counted = self.membership.as_ref().map(Membership::voters);
        let is_changing = counted != Some(voters) || voters.is_joint();
        let said = Some(votes).filter(|votes| votes.term == term.0).map(|votes| &votes.by);
        let counts = |site: &SiteName| voters.voters.iter().any(|voter| voter.site == *site);
        let said = said.into_iter().flatten().filter(|(site, _)| counts(site));
        let said: Vec<&(Time, RenewalAges)> = said.map(|(_, said)| said).collect();
        if is_changing
            || 2 * (said.len() + 1) <= voters.voters.len()
            || mutant::is_on(Mutant::ElectionRestartsLeases)
        {
            return None;
        }
        let mut inherited = Inherited::default();
        for (received, ages) in said {
            inherited.add(ages.clone(), *received);
        }
        inherited.add(listed.ages(self.now), self.now);
        Some(inherited)
    }
}
