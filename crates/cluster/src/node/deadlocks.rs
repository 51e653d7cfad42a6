//! Deadlocks between locks: who waits for whom in the whole cluster, as all members say twice; and the request that is refused, where the
//! rule of its lock says so.
//!
//! ```text
//!  a client here has waited for a second, holds something else, and its lock's rule says `on-deadlock=refuse`
//!      a ── who waits for whom? ──▶ all members ── twice ──▶ the same circle both times
//!      the first site (by name) of those that could refuse a request of it ── refuse the youngest ──▶ that one's site
//! ```
//!
//! Every site with such a client looks, once a second, and only one of them decides: so of two requests that close a circle at the same
//! time one is refused. What is lost on its way is decided again a second later, because nothing else ends a deadlock.

use super::packet::Content;
use super::questions::{PeerQuestion, Replies, SearchFor};
use super::{ClientAnswer, Node, NodeOutput};
use crate::names::{Member, SiteName};
use crate::report::{Deadlock, Deadlocks, Party, PartyWait, SiteWaits, StuckParty, deadlocks};
use crate::table::{LockEvent, Request, RequestRefusal, Session};
use crate::time::Span;

/// After a request has waited for this long, it is looked whether it is part of a deadlock; and how often after that.
pub(super) const LOOK_EVERY: Span = Span::from_millis(1000);

impl Node {
    /// Handles a client's question for the deadlocks of the cluster.
    pub(super) fn on_ask_for_deadlocks(&mut self, request: Request, out: &mut Vec<NodeOutput>) {
        if self.has_too_many_questions() {
            let why = RequestRefusal::TooManyQuestions;
            return out.push(NodeOutput::Answer(ClientAnswer::Lock(LockEvent::Refused { request, why })));
        }
        self.search(SearchFor::Client(request), None, out);
    }

    /// Looks for deadlocks, if a client here may have to be refused.
    pub(super) fn look_for_deadlocks(&mut self, out: &mut Vec<NodeOutput>) {
        if self.now < self.next_look || !self.may_send {
            return;
        }
        self.next_look = self.now + LOOK_EVERY;
        if self.table.has_long_waits(LOOK_EVERY, self.lease_clock()) {
            self.search(SearchFor::Victim, None, out);
        }
    }

    /// Asks all members who waits for whom: for the first time, or for the second time with what the first has shown.
    fn search(&mut self, by: SearchFor, earlier: Option<Vec<Deadlock>>, out: &mut Vec<NodeOutput>) {
        let mut replies = Replies::Waits { by, earlier, sites: Vec::new() };
        let reply = self.reply(&PeerQuestion::Waits, out);
        replies.add(&self.me.site, reply);
        self.ask_all(by.request(), &PeerQuestion::Waits, replies, self.others(), out);
    }

    /// Returns what this site says of its parties.
    pub(super) fn site_waits(&self) -> SiteWaits {
        let (parties, more) = self.table.waits(self.lease_clock());
        SiteWaits { site: self.me.site.clone(), incarnation: self.me.incarnation, parties, more }
    }

    /// Handles the replies of one round.
    pub(super) fn on_waits(
        &mut self,
        by: SearchFor,
        earlier: Option<Vec<Deadlock>>,
        sites: &[SiteWaits],
        missing: Vec<SiteName>,
        out: &mut Vec<NodeOutput>,
    ) {
        let found = deadlocks(sites);
        let is_cut = sites.iter().any(|site| site.more);
        let confirmed: Vec<Deadlock> = match earlier {
            None if !found.is_empty() => return self.search(by, Some(found), out),
            None => Vec::new(),
            Some(earlier) => found
                .into_iter()
                .filter(|found| earlier.iter().any(|earlier| found.is_same(earlier)))
                .collect(),
        };
        match by {
            SearchFor::Client(request) => {
                let deadlocks = Box::new(Deadlocks { found: confirmed, missing, is_cut });
                out.push(NodeOutput::Answer(ClientAnswer::Deadlocks { request, deadlocks }));
            }
            SearchFor::Victim => {
                for deadlock in confirmed {
                    self.refuse_victim(&deadlock, out);
                }
            }
        }
    }

    /// Has the youngest request of a deadlock refused, if it is for this site to say so.
    fn refuse_victim(&mut self, deadlock: &Deadlock, out: &mut Vec<NodeOutput>) {
        let Some((decider, StuckParty { site, incarnation, .. }, PartyWait { request, .. })) =
            deadlock.victim()
        else {
            return;
        };
        if *decider != self.me.site {
            return;
        }
        let member = Member { site: site.clone(), incarnation: *incarnation };
        let request = *request;
        if member == self.me {
            self.in_table(out, |table, _, out| {
                table.refuse_deadlocked(Request(request), out);
            });
        } else {
            let question = self.next_question();
            let ask = PeerQuestion::Refuse { member, request };
            self.send(site.clone(), Content::Ask { question, ask }, out);
        }
    }

    /// Says which party the client of a session is.
    pub(super) fn join_party(&mut self, session: Session, party: Party) {
        self.table.join_party(session, party);
    }
}
