//! The calls of clients to a node, and the answers.

use meshlock_protocol::{Epoch, Mode};

use super::autopilot::VoterRefusal;
use super::calls::CallMessage;
use super::packet::Content;
use super::questions::{Overview, PeerQuestion};
use super::{Node, NodeOutput, RulesWanted};
use crate::access::AccessDocument;
use crate::claim::Proof;
use crate::mutant::{self, Mutant};
use crate::names::{ClientLabel, LockName, Member, SiteName};
use crate::report::{
    Age, ChangeCursor, CutOff, Deadlocks, LockPage, LockQueue, PageQuestion, Party, SiteChanges, SiteLocks,
    TraceLine, VoterRequest,
};
use crate::rules::{Rules, RulesText};
use crate::table::{
    Acquire, ClaimEvent, LockClaim, LockEvent, LockTable, Request, RequestRefusal, Session, TraceWatch, Wait,
};
use crate::time::{Span, Time};

/// How long a change of rules may take before its client is told that it could not be done.
const RULES_WITHIN: Span = Span::from_millis(5000);

/// A client's call.
#[derive(Clone, Debug)]
pub enum ClientCall {
    /// Acquire a lock.
    Acquire(Acquire),
    /// Stop waiting, or release the lock if it was granted meanwhile.
    Cancel(Request),
    /// Release a lock.
    Release(Request),
    /// Go on in another mode without releasing the lock: exclusive in place of upgradeable when all others have left, or any weaker one
    /// at once. To ask for the mode that the client has gives up an upgrade.
    ChangeMode { request: Request, to: Mode },
    /// The client is gone.
    SessionEnded(Session),
    /// Give the session a label, until the session ends.
    Introduce {
        session: Session,
        who: ClientLabel,
        /// After this long the client has received what it was told, or has stopped by itself using what it holds: zero
        /// for a client of this machine, longer for one that a network can cut off.
        reacts_within: Span,
    },
    /// Ask who holds a lock and who waits for it, in the whole cluster.
    Query { request: Request, lock: LockName },
    /// Ask for the state of this site.
    Overview { request: Request },
    /// Take a lock away from its holders, in the whole cluster.
    Break { request: Request, lock: LockName },
    /// Ask for the state of all members, and which locks are in use.
    Locks { request: Request },
    /// Say which party the client of a session is, for deadlocks between locks.
    JoinParty { session: Session, party: Party },
    /// Ask for the deadlocks of the cluster.
    Deadlocks { request: Request },
    /// Ask which locks are in use in the whole cluster, page by page.
    Page { request: Request, question: PageQuestion },
    /// Ask a site what has happened to locks there after a cursor; without one, from when on it keeps that.
    Changes { request: Request, site: SiteName, after: Option<ChangeCursor> },
    /// Make a site leave the cluster: another one, or this one.
    Remove { request: Request, site: SiteName },
    /// Change who votes.
    ChangeVoters { request: Request, change: VoterRequest },
    /// Compare-and-set: replace the cluster's access document if its version is still `base`.
    SetAccess { request: Request, base: u64, document: Box<AccessDocument> },
    /// Change the rules of the whole cluster.
    SetRules { request: Request, rules: RulesText },
    /// Make this site leave the cluster. No client gets a lock here any more, and waiting clients are told so. Holders
    /// may keep their locks as long as the lease lasts, which is not renewed, and are told before its end as always.
    /// When nothing is held any more, the lease is given up, and the others need not wait for its end.
    Leave { request: Request },
    /// Receive a trace of everything that happens here, until the client ends it or its session ends.
    Watch(TraceWatch),
    /// Take away everything that clients hold here: they have the margin of a lease to stop.
    TakeAllAway,
    /// The client's connection was cut, and it may still run: unlike at the [end](ClientCall::SessionEnded) of a session, what it can
    /// prove is kept for the resume window ([`Terms::resume_window`](crate::lease::Terms::resume_window)).
    SessionCut {
        session: Session,
        /// When something of the client was received last, on this machine's clock.
        last_contact: Time,
        /// For how long the client may still rely on what it cannot prove.
        relies_for: Span,
    },
    /// Give the client a proof of a lock that it holds, with which it can claim the lock elsewhere. From now on the lock is kept for it
    /// when its connection is cut.
    Prove { request: Request },
    /// Claim a lock, with its proof.
    Claim(Box<LockClaim>),
    /// Prepare to leave: no client gets a lock here any more, and nothing that a client has a proof of is given to others, whoever releases
    /// it. All clients are told ([`ClientAnswer::Leaving`]). The lease is still renewed, so that they have time to claim what they hold
    /// elsewhere, until the site [leaves](ClientCall::Leave).
    Freeze,
    /// From now on this host executes calls that other members forward, or does not.
    ServeCalls(bool),
    /// Send another member a message about a forwarded call. Nothing happens if that is not possible
    /// ([`Node::forwards_to`]).
    SendCall { to: Member, message: CallMessage },
}

/// An answer to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientAnswer {
    /// An event of a lock.
    Lock(LockEvent),
    /// The holders and waiters of a lock.
    Queue {
        request: Request,
        queue: LockQueue,
    },
    /// The state of this site.
    Overview {
        request: Request,
        overview: Box<Overview>,
    },
    /// A lock was taken away.
    Broken {
        request: Request,
        /// The former holders. They have been told, and may take the margin of a lease to stop, or the time within
        /// which they react if that is longer; nobody else gets the lock before.
        cut_off: Vec<CutOff>,
        /// Members that have not confirmed: repeat the call, unless they are gone.
        missing: Vec<SiteName>,
    },
    /// The requested rules apply from this view on.
    RulesSet {
        request: Request,
        epoch: Epoch,
    },
    RulesRefused {
        request: Request,
        why: String,
    },
    /// The cluster has the requested access document, as this version.
    AccessSet {
        request: Request,
        version: u64,
    },
    AccessRefused {
        request: Request,
        why: String,
    },
    /// The voters were changed as requested, or already were so.
    VotersChanged {
        request: Request,
    },
    /// The voters were not changed.
    VotersRefused {
        request: Request,
        why: VoterRefusal,
    },
    /// The cluster could not do it in time.
    Unavailable {
        request: Request,
        /// The reason for people, and whether it may still be done.
        why: String,
    },
    /// The state of all members, and which locks are in use.
    Locks {
        request: Request,
        /// The members' replies, in the order of their names.
        sites: Vec<SiteLocks>,
        /// The members that did not reply.
        missing: Vec<SiteName>,
    },
    /// Locks that are in use in the whole cluster.
    Page {
        request: Request,
        page: Box<LockPage>,
    },
    /// What has happened to locks at a site; `None` if it has not replied.
    Changes {
        request: Request,
        changes: Option<SiteChanges>,
    },
    /// The deadlocks of the cluster.
    Deadlocks {
        request: Request,
        deadlocks: Box<Deadlocks>,
    },
    /// A site was told to leave.
    Leaves {
        request: Request,
        /// Whether the site has confirmed.
        leaves: bool,
    },
    /// Part of a trace of this site.
    Traced {
        request: Request,
        /// In the order in which it happened.
        lines: Vec<TraceLine>,
        /// Number of lines that were dropped.
        lost: u64,
    },
    /// This site is no longer a member.
    Left {
        request: Request,
    },
    /// The proof of a lock; `None` if the client does not hold it, or has lost it, or this site gives no proofs. Nobody but the client
    /// may see it.
    Proof {
        request: Request,
        proof: Option<Box<Proof>>,
    },
    /// An event of a claim.
    Claim(ClaimEvent),
    /// This site leaves. It concerns every session: whatever the client has a proof of stays reserved for it until a view without this
    /// site, so that it can be claimed elsewhere as [reserved for ever](crate::claim::Reserved::Forever).
    Leaving,
}

impl Node {
    pub(super) fn on_call(&mut self, call: ClientCall, out: &mut Vec<NodeOutput>) {
        match call {
            ClientCall::Acquire(wanted) if self.leaving.is_some() || self.table.is_frozen() => {
                self.in_table(out, |table, _, out| {
                    table.refuse(wanted.request, RequestRefusal::Leaving, out);
                });
            }
            ClientCall::Acquire(wanted) => {
                if wanted.wait != Wait::Forever {
                    self.table.set_reply_timeout(self.reply_timeout());
                }
                self.in_table(out, |table, lease_clock, out| table.acquire(wanted, lease_clock, out));
            }
            ClientCall::Cancel(request) if self.end_watch(request, out) => {}
            ClientCall::Watch(watch) => self.on_watch(watch, out),
            ClientCall::Cancel(request) => {
                self.in_table(out, |table, lease_clock, out| table.cancel(request, lease_clock, out));
            }
            ClientCall::Release(request) => {
                self.in_table(out, |table, lease_clock, out| table.release(request, lease_clock, out));
            }
            ClientCall::ChangeMode { request, to } => {
                self.in_table(out, |table, lease_clock, out| {
                    table.change_mode(request, to, lease_clock, out);
                });
            }
            ClientCall::SessionEnded(_) if mutant::is_on(Mutant::GoneClientKeepsLocks) => {}
            ClientCall::SessionEnded(session) => {
                self.table.unwatch(|watch| watch.session == session);
                self.in_table(out, |table, lease_clock, out| {
                    table.on_session_ended(session, lease_clock, out);
                });
            }
            ClientCall::Introduce { session, who, reacts_within } => {
                self.table.introduce(session, who, reacts_within);
            }
            ClientCall::Query { request, lock } => self.on_question(request, PeerQuestion::Queue(lock), out),
            ClientCall::Break { request, lock } => self.on_question(request, PeerQuestion::Break(lock), out),
            ClientCall::Locks { request } => self.on_question(request, PeerQuestion::Locks, out),
            ClientCall::JoinParty { session, party } => self.join_party(session, party),
            ClientCall::Deadlocks { request } => self.on_ask_for_deadlocks(request, out),
            ClientCall::Page { request, question } => {
                self.on_question(request, PeerQuestion::Page(question), out);
            }
            ClientCall::Changes { request, site, after } => {
                self.on_ask_for_changes(request, site, after, out);
            }
            ClientCall::Remove { request, site } => self.on_remove(request, &site, out),
            ClientCall::Overview { request } => {
                let overview = Box::new(self.overview());
                out.push(NodeOutput::Answer(ClientAnswer::Overview { request, overview }));
            }
            ClientCall::SetRules { request, rules } => self.on_set_rules(request, rules, out),
            ClientCall::SetAccess { request, base, document } => {
                self.on_set_access(request, base, *document, out);
            }
            ClientCall::ChangeVoters { request, change } => self.on_change_voters(request, change, out),
            ClientCall::Leave { request } => self.begin_to_leave(Some(request), out),
            ClientCall::TakeAllAway => self.in_table(out, LockTable::take_all_away),
            ClientCall::SessionCut { session, last_contact, relies_for } => {
                self.table.unwatch(|watch| watch.session == session);
                self.in_table(out, |table, lease_clock, out| {
                    table.on_session_cut(session, last_contact, relies_for, lease_clock, out);
                });
            }
            ClientCall::Prove { request } => self.on_prove(request, out),
            ClientCall::Claim(claim) => self.on_claim(&claim, out),
            ClientCall::Freeze => self.freeze(out),
            ClientCall::ServeCalls(serves) => self.serves_calls = serves,
            ClientCall::SendCall { to, message } => self.send_call(to, message, out),
        }
    }

    /// Asks a member to leave; nothing is asked of a site that is none.
    fn on_remove(&mut self, request: Request, site: &SiteName, out: &mut Vec<NodeOutput>) {
        let member = self.view.members.iter().find(|member| member.site == *site).cloned();
        match member {
            Some(member) => self.on_question(request, PeerQuestion::Leave(member), out),
            None => out.push(NodeOutput::Answer(ClientAnswer::Leaves { request, leaves: false })),
        }
    }

    /// Makes this site leave; `asked` is answered when it has left.
    pub(super) fn begin_to_leave(&mut self, asked: Option<Request>, out: &mut Vec<NodeOutput>) {
        self.leaving.get_or_insert_default().extend(asked);
        self.freeze(out);
        if self.view.contains(&self.me) {
            self.reach_out(out);
        } else {
            self.tell_that_it_has_left(out);
        }
    }

    pub(super) fn tell_that_it_has_left(&mut self, out: &mut Vec<NodeOutput>) {
        let asked = self.leaving.as_mut().map(std::mem::take).unwrap_or_default();
        out.extend(asked.into_iter().map(|request| NodeOutput::Answer(ClientAnswer::Left { request })));
    }

    /// Handles a call to change the rules, which are checked before any other site receives them.
    fn on_set_rules(&mut self, request: Request, rules: RulesText, out: &mut Vec<NodeOutput>) {
        let refuse = |why: String| NodeOutput::Answer(ClientAnswer::RulesRefused { request, why });
        if self.rules_wanted.is_some() {
            return out
                .push(refuse("another change of rules is under way; ask again when it is done".to_owned()));
        }
        if self.view.epoch == Epoch::default() {
            let why = "this site does not know the cluster's rules yet; ask again when it takes part";
            return out.push(refuse(why.to_owned()));
        }
        if rules == self.view.rules {
            let epoch = self.view.epoch;
            return out.push(NodeOutput::Answer(ClientAnswer::RulesSet { request, epoch }));
        }
        let members = self.view.members.len().max(1);
        match Rules::new(rules).and_then(|rules| rules.fit(members).map(|()| rules)) {
            Ok(rules) => {
                let base = self.view.rules_version;
                let (rules, until) = (rules.text().clone(), self.now + RULES_WITHIN);
                self.rules_wanted = Some(RulesWanted { request, base, rules, until, is_sent: false });
                // Asked now, and again with every renewal until a view has them.
                self.reach_out(out);
            }
            Err(error) => out.push(refuse(error.to_string())),
        }
    }

    /// Sends the rules that a client asked for to the probable leader, unless too few voters are reachable: then nobody can change them,
    /// and what is not sent cannot take effect after the client has been told that it was not done.
    pub(super) fn send_rules(&mut self, leader: &SiteName, out: &mut Vec<NodeOutput>) {
        if !self.voters_in_reach().is_majority() && !self.lease.is_valid(self.now) {
            return;
        }
        let Some(wanted) = &mut self.rules_wanted else { return };
        wanted.is_sent = true;
        let content = Content::SetRules { base: wanted.base, rules: wanted.rules.clone() };
        self.send(leader.clone(), content, out);
    }

    /// Gives up a change of rules that takes too long. This site does not ask for it again.
    pub(super) fn give_up_rules_if_due(&mut self, out: &mut Vec<NodeOutput>) {
        let now = self.now;
        let Some(wanted) = self.rules_wanted.take_if(|wanted| wanted.until <= now) else { return };
        let why = self.outage().map_or_else(
            || format!("the cluster has not agreed on it within {}", Age(RULES_WITHIN)),
            |outage| outage.to_string(),
        );
        let what = if wanted.is_sent {
            "the change of rules may still take effect; look at `meshlock rules show` before you repeat it"
        } else {
            "the rules were not changed; repeat the command when a majority of the voters is reachable"
        };
        let (request, why) = (wanted.request, format!("{why}; {what}"));
        out.push(NodeOutput::Answer(ClientAnswer::Unavailable { request, why }));
    }

    /// Answers a call to change the rules, after a view has been installed: does it have those rules?
    pub(super) fn answer_rules(&mut self, out: &mut Vec<NodeOutput>) {
        let Some(wanted) = &self.rules_wanted else { return };
        let RulesWanted { request, base, .. } = *wanted;
        if wanted.rules == self.view.rules {
            out.push(NodeOutput::Answer(ClientAnswer::RulesSet { request, epoch: self.view.epoch }));
        } else if self.view.rules_version != base {
            let why = "someone else changed the rules meanwhile; look at them and ask again".to_owned();
            out.push(NodeOutput::Answer(ClientAnswer::RulesRefused { request, why }));
        } else {
            return;
        }
        self.rules_wanted = None;
    }
}
