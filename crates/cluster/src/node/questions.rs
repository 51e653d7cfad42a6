//! Questions to the whole cluster: who holds a lock and who waits for it; and the order to take a lock away.
//!
//! ```text
//!  client ── query ──▶ a ── ask ──▶ b, c     a answers when all members of its view have replied, or after a while:
//!                      a ◀─ reply ─ b, c     then with the names of those who have not
//! ```
//!
//! Questions travel in packets of their own, beside the links: they may be lost, cost the locks' path nothing, and need
//! neither a lease nor an open view, because they are asked when something is wrong.

use meshlock_protocol::numbered;
use std::collections::{BTreeSet, VecDeque};

use meshlock_protocol::Fence;
use serde::{Deserialize, Serialize};

use super::packet::Content;
use super::queue::{LockQueue, SiteLocks, SiteQueue, Standing};
use super::{Answer, Node, Output};
use crate::names::{ClientLabel, ClusterName, Incarnation, LockName, Member, SiteName};
use crate::rules::Rules;
use crate::table::{Counts, HeldLock, HolderReport, LockEvent, MAX_LISTED, Refusal, Request};
use crate::time::{Span, Time};
use crate::view::View;

/// How many questions of one site may wait for replies.
pub const MAX_QUESTIONS: usize = 64;

/// Which question: never used twice, because no incarnation of a site is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Question {
    /// The incarnation that asks.
    pub incarnation: Incarnation,
    /// How many it had asked before.
    pub number: u64,
}

/// What a member is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Who holds this lock and who waits for it?
    Queue(LockName),
    /// Take it away from whoever holds it: from whom?
    Break(LockName),
    /// How are you, and which locks are in use?
    Locks,
    /// This incarnation of a site is to leave the cluster: is that you? (A later one was started on purpose.)
    Leave(Member),
}

numbered! { Ask {
    0 => Queue(value),
    1 => Break(value),
    2 => Locks,
    3 => Leave(value),
} }

/// What the member replies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// This is all I know.
    Queue(SiteQueue),
    /// It was taken away from these clients.
    Broken(Vec<HolderReport>),
    /// So I am, and these are in use.
    Locks(SiteLocks),
    /// Whether it is me, who leaves then.
    Leaves(bool),
}

numbered! { Reply {
    0 => Queue(value),
    1 => Broken(value),
    2 => Locks(value),
    3 => Leaves(value),
} }

/// A client from which a lock was taken away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutOff {
    /// Its site.
    pub site: SiteName,
    /// Who it says it is.
    pub label: Option<ClientLabel>,
    /// The number of its grant, which whatever the lock protects should refuse once it has seen a larger one.
    pub fence: Fence,
}

/// What a site says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// This incarnation of the site.
    pub member: Member,
    /// The cluster.
    pub cluster: ClusterName,
    /// The sites that it began with, in their order.
    pub sites: Vec<SiteName>,
    /// The view that it has installed.
    pub view: View,
    /// How far it is with it.
    pub standing: Standing,
    /// Who leads, as far as it knows.
    pub leader: Option<SiteName>,
    /// How long its lease still lasts; none if it has none.
    pub lease_left: Option<Span>,
    /// Whether it is about to leave.
    pub leaving: bool,
    /// How much it has.
    pub counts: Counts,
    /// The first [`MAX_LISTED`] locks that its clients hold.
    pub held: Vec<HeldLock>,
}

/// All questions of this site that wait for replies, oldest first: their time is over in the same order.
#[derive(Debug, Default)]
pub(super) struct Questions {
    waiting: VecDeque<Waiting>,
    asked: u64,
}

#[derive(Debug)]
struct Waiting {
    question: Question,
    request: Request,
    until: Time,
    missing: BTreeSet<SiteName>,
    replies: Replies,
}

#[derive(Debug)]
enum Replies {
    Queue(LockName, Vec<SiteQueue>),
    Broken(Vec<CutOff>),
    Locks(Vec<SiteLocks>),
    Leaves(bool),
}

impl Questions {
    /// When the oldest question is answered as far as it can be.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.waiting.front().map(|waiting| waiting.until)
    }
}

impl Replies {
    fn to(ask: &Ask) -> Self {
        match ask {
            Ask::Queue(lock) => Replies::Queue(lock.clone(), Vec::new()),
            Ask::Break(_) => Replies::Broken(Vec::new()),
            Ask::Locks => Replies::Locks(Vec::new()),
            Ask::Leave(_) => Replies::Leaves(false),
        }
    }

    /// Adds what `site` replied, if that is an answer to the question and within bounds.
    fn add(&mut self, site: &SiteName, reply: Reply) -> bool {
        match (self, reply) {
            (Replies::Queue(_, queues), Reply::Queue(queue)) if queue.site == *site && queue.is_bounded() => {
                queues.push(queue);
                true
            }
            (Replies::Broken(all), Reply::Broken(holders)) if holders.len() <= MAX_LISTED => {
                let cut_off = |HolderReport { label, fence, .. }| CutOff { site: site.clone(), label, fence };
                all.extend(holders.into_iter().map(cut_off));
                true
            }
            (Replies::Locks(all), Reply::Locks(locks)) if locks.site == *site && locks.is_bounded() => {
                all.push(locks);
                true
            }
            (Replies::Leaves(leaves), Reply::Leaves(does)) => {
                *leaves |= does;
                true
            }
            (
                Replies::Queue(..) | Replies::Broken(_) | Replies::Locks(_) | Replies::Leaves(_),
                Reply::Queue(_) | Reply::Broken(_) | Reply::Locks(_) | Reply::Leaves(_),
            ) => false,
        }
    }
}

impl Node {
    /// A client asks something that all members have to be asked.
    pub(super) fn on_question(&mut self, request: Request, ask: Ask, out: &mut Vec<Output>) {
        if self.questions.waiting.len() >= MAX_QUESTIONS {
            let why = Refusal::TooManyQuestions;
            return out.push(Output::Answer(Answer::Lock(LockEvent::Refused { request, why })));
        }
        let reply = self.reply(&ask, out);
        let others = self.others();
        let mut replies = Replies::to(&ask);
        replies.add(&self.me.site, reply);
        self.questions.asked += 1;
        let question = Question { incarnation: self.me.incarnation, number: self.questions.asked };
        let missing = others.iter().cloned().collect();
        let until = self.now + self.config.tick.times(10);
        let asked = Waiting { question, request, until, missing, replies };
        // Nobody can be asked before the disk knows of this incarnation.
        if others.is_empty() || !self.may_speak {
            return self.conclude(asked, out);
        }
        self.questions.waiting.push_back(asked);
        for site in others {
            self.send(site, Content::Ask { question, ask: ask.clone() }, out);
        }
    }

    /// A member asks. One that was a member a moment ago may do so too, and is not blamed, but told nothing.
    pub(super) fn on_ask(&mut self, from: &Member, question: Question, ask: &Ask, out: &mut Vec<Output>) {
        let known = self.view.member(&from.site).is_some() || self.config.sites.contains(&from.site);
        if known && self.may_speak {
            let reply = self.reply(ask, out);
            self.send(from.site.clone(), Content::Reply { question, reply }, out);
        }
    }

    /// A member replies: perhaps the last one.
    pub(super) fn on_reply(
        &mut self,
        from: SiteName,
        question: Question,
        reply: Reply,
        out: &mut Vec<Output>,
    ) {
        let Some(at) = self.questions.waiting.iter().position(|waiting| waiting.question == question) else {
            return;
        };
        let waiting = &mut self.questions.waiting[at];
        if !waiting.missing.contains(&from) {
            return;
        }
        if !waiting.replies.add(&from, reply) {
            return Node::misbehaved(
                from,
                "a reply to another question than was asked, or without bounds",
                out,
            );
        }
        waiting.missing.remove(&from);
        if waiting.missing.is_empty()
            && let Some(waiting) = self.questions.waiting.remove(at)
        {
            self.conclude(waiting, out);
        }
    }

    /// Answers the questions that have waited long enough.
    pub(super) fn pass_time_for_questions(&mut self, out: &mut Vec<Output>) {
        while self.questions.next_due().is_some_and(|until| until <= self.now)
            && let Some(waiting) = self.questions.waiting.pop_front()
        {
            self.conclude(waiting, out);
        }
    }

    /// Does what is asked, as far as this site goes.
    pub(super) fn reply(&mut self, ask: &Ask, out: &mut Vec<Output>) -> Reply {
        match ask {
            Ask::Queue(lock) => Reply::Queue(SiteQueue {
                site: self.me.site.clone(),
                epoch: self.view.epoch,
                standing: self.standing(),
                leased: self.lease.is_comfortable(self.now),
                leaving: self.leaving.is_some(),
                lock: self.table.report(lock, self.now),
            }),
            Ask::Break(lock) => {
                let mut cut_off = Vec::new();
                self.in_table(out, |table, lease_clock, out| {
                    cut_off = table.take_away(lock, lease_clock, out);
                });
                Reply::Broken(cut_off)
            }
            Ask::Locks => Reply::Locks(self.locks()),
            Ask::Leave(member) => {
                let is_me = *member == self.me;
                if is_me {
                    self.begin_to_leave(None, out);
                }
                Reply::Leaves(is_me)
            }
        }
    }

    fn conclude(&self, waiting: Waiting, out: &mut Vec<Output>) {
        let Waiting { request, missing, replies, .. } = waiting;
        let missing = missing.into_iter().collect();
        let answer = match replies {
            Replies::Queue(lock, mut sites) => {
                sites.sort_by(|a, b| a.site.cmp(&b.site));
                let rules = self.table.rules().cloned().or_else(|| Rules::new(self.view.rules.clone()).ok());
                let rule = rules.as_ref().map(|rules| rules.rule(&lock));
                let (algorithm, permits) =
                    rule.map_or((None, 1), |rule| (Some(rule.spec.info.name.to_owned()), rule.permits));
                let queue = LockQueue { epoch: self.view.epoch, algorithm, permits, sites, missing };
                Answer::Queue { request, queue }
            }
            Replies::Broken(cut_off) => Answer::Broken { request, cut_off, missing },
            Replies::Locks(mut sites) => {
                sites.sort_by(|a, b| a.site.cmp(&b.site));
                Answer::Locks { request, sites, missing }
            }
            Replies::Leaves(leaves) => Answer::Leaves { request, leaves },
        };
        out.push(Output::Answer(answer));
    }

    /// How this site is, and which of its locks are in use.
    fn locks(&self) -> SiteLocks {
        let (locks, locks_in_all) = self.table.in_use(self.now);
        let counts = self.table.counts();
        SiteLocks {
            site: self.me.site.clone(),
            standing: self.standing(),
            lease_left: self.lease_left(),
            leaving: self.leaving.is_some(),
            sessions: counts.sessions as u64,
            granted: self.table.granted(),
            locks,
            locks_in_all,
        }
    }

    fn lease_left(&self) -> Option<Span> {
        self.lease.end().filter(|_| self.lease.is_valid(self.now)).map(|end| end.since(self.now))
    }

    /// What this site says of itself.
    pub(super) fn overview(&self) -> Overview {
        let leads = self.leads().is_some().then_some(&self.me.site);
        Overview {
            member: self.me.clone(),
            cluster: self.config.cluster.clone(),
            sites: self.config.sites.clone(),
            view: self.view.clone(),
            standing: self.standing(),
            leader: leads.or(self.believed_leader()).cloned(),
            lease_left: self.lease_left(),
            leaving: self.leaving.is_some(),
            counts: self.table.counts(),
            held: self.table.held(self.now),
        }
    }

    fn standing(&self) -> Standing {
        if self.is_open() {
            return Standing::Open;
        }
        if !self.view.contains(&self.me) {
            return Standing::Outside;
        }
        let silent = self.change.silent(&self.view, &self.me);
        let silent: Vec<SiteName> = silent.take(MAX_LISTED).map(|member| member.site.clone()).collect();
        if silent.is_empty() { Standing::CannotOpen } else { Standing::Awaits(silent) }
    }
}
