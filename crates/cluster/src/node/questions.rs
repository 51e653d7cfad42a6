//! Questions to the whole cluster: who holds a lock and who waits for it; and the order to take a lock away.
//!
//! ```text
//!  client ── query ──▶ a ── ask ──▶ b, c     a answers when all members of its view have replied, or after a while:
//!                      a ◀─ reply ─ b, c     then with the names of those who have not
//! ```
//!
//! Questions travel in packets of their own, beside the links: they may be lost, do not slow the locks down, and need
//! neither a lease nor an open view, because they are asked when something is wrong.

use meshlock_protocol::numbered;
use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use super::packet::Content;
use super::{ClientAnswer, Node, NodeOutput};
use crate::names::{ClusterName, Incarnation, LockName, Member, SiteName};
use crate::report::{
    ChangeCursor, CutOff, Deadlock, LockQueue, PageQuestion, SiteChanges, SiteLocks, SitePage, SiteQueue,
    SiteWaits, Standing, VotersReport, drop_mirrored, merge,
};
use crate::rules::Rules;
use crate::table::{Counts, HeldLock, HolderReport, LockEvent, MAX_LISTED, Request, RequestRefusal};
use crate::time::{Span, Time};
use crate::view::View;

/// What the algorithm of a semaphore that no rule names is called in reports: one site hands out the permits.
const WITHOUT_RULE: &str = "central";

/// Identifies a question. It is never used twice, because no incarnation of a site is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct QuestionId {
    /// The incarnation that asks.
    pub incarnation: Incarnation,
    /// The number of questions that it asked before.
    pub number: u64,
}

/// A question to a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PeerQuestion {
    /// Who holds this lock and who waits for it?
    Queue(LockName),
    /// Take the lock away from its holders, and report who they were.
    Break(LockName),
    /// How are you, and which locks are in use?
    Locks,
    /// This incarnation of a site is to leave the cluster: is that you? (A later one was started on purpose.)
    Leave(Member),
    /// Which locks are in use after this name? Versions before 7 do not have it, nor what follows.
    Page(PageQuestion),
    /// What has happened to locks after this cursor?
    Changes(Option<ChangeCursor>),
    /// Which clients hold something and wait for something else?
    Waits,
    /// Refuse this request of this incarnation: it is the youngest one of a deadlock.
    Refuse { member: Member, request: u64 },
}

numbered! { PeerQuestion {
    0 => Queue(value),
    1 => Break(value),
    2 => Locks,
    3 => Leave(value),
    4 => Page(value),
    5 => Changes(value),
    6 => Waits,
    7 => Refuse { member, request },
} }

/// A member's reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PeerReply {
    /// All that the member knows of the lock.
    Queue(SiteQueue),
    /// The clients that the lock was taken away from.
    Broken(Vec<HolderReport>),
    /// The member's state and its locks in use.
    Locks(SiteLocks),
    /// Whether the member is the one that was asked to leave; then it leaves.
    Leaves(bool),
    /// The first locks that are in use. Versions before 7 do not have it, nor what follows.
    Page(SitePage),
    /// What has happened to locks.
    Changes(SiteChanges),
    /// The clients that hold something and wait for something else.
    Waits(SiteWaits),
    /// Whether a request was refused.
    Refused(bool),
}

numbered! { PeerReply {
    0 => Queue(value),
    1 => Broken(value),
    2 => Locks(value),
    3 => Leaves(value),
    4 => Page(value),
    5 => Changes(value),
    6 => Waits(value),
    7 => Refused(value),
} }

/// The state of a site, as it reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// This incarnation of the site.
    pub member: Member,
    pub cluster: ClusterName,
    /// The initial sites of the cluster, in their order.
    pub sites: Vec<SiteName>,
    /// The view that it has installed.
    pub view: View,
    /// Its progress with that view.
    pub standing: Standing,
    /// The leader, as far as it knows.
    pub leader: Option<SiteName>,
    /// How long its lease still lasts; `None` if it has none.
    pub lease_left: Option<Span>,
    /// Whether it is leaving.
    pub leaving: bool,
    pub counts: Counts,
    /// Who votes, and which of them are there.
    pub voters: VotersReport,
    /// The first [`MAX_LISTED`] locks that its clients hold.
    pub held: Vec<HeldLock>,
}

/// All questions of this site that wait for replies, oldest first, which is also the order of their deadlines.
#[derive(Debug, Default)]
pub(super) struct Questions {
    waiting: VecDeque<Waiting>,
    asked: u64,
}

#[derive(Debug)]
struct Waiting {
    question: QuestionId,
    request: Request,
    until: Time,
    missing: BTreeSet<SiteName>,
    /// Members whose programs are too old to be asked: they are missing, and nobody waits for them.
    unable: Vec<SiteName>,
    replies: Replies,
}

/// What the members have replied so far, by what they were asked.
#[derive(Debug)]
pub(super) enum Replies {
    Queue(LockName, Vec<SiteQueue>),
    Broken(Vec<CutOff>),
    Locks(Vec<SiteLocks>),
    Leaves(bool),
    Page(PageQuestion, Vec<SitePage>),
    Changes(Option<SiteChanges>),
    /// Who waits for whom, and what the round before has shown.
    Waits {
        by: SearchFor,
        earlier: Option<Vec<Deadlock>>,
        sites: Vec<SiteWaits>,
    },
}

/// Who looks for deadlocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchFor {
    /// A client that wants to know them.
    Client(Request),
    /// This site, which may have to refuse a request.
    Victim,
}

impl SearchFor {
    /// Returns the request that is answered; one that no client has, if there is none.
    pub(super) fn request(self) -> Request {
        match self {
            SearchFor::Client(request) => request,
            SearchFor::Victim => Request(0),
        }
    }
}

impl PeerQuestion {
    /// Returns whether only a program can answer it that knows pages of locks.
    fn is_listing(&self) -> bool {
        match self {
            PeerQuestion::Page(_)
            | PeerQuestion::Changes(_)
            | PeerQuestion::Waits
            | PeerQuestion::Refuse { .. } => true,
            PeerQuestion::Queue(_)
            | PeerQuestion::Break(_)
            | PeerQuestion::Locks
            | PeerQuestion::Leave(_) => false,
        }
    }
}

impl Content {
    /// Returns whether only a program can read it that knows pages of locks, or what came with them.
    pub fn is_about_listings(&self) -> bool {
        let is_listed = |reply: &PeerReply| match reply {
            PeerReply::Page(_) | PeerReply::Changes(_) | PeerReply::Waits(_) | PeerReply::Refused(_) => true,
            PeerReply::Queue(_) | PeerReply::Broken(_) | PeerReply::Locks(_) | PeerReply::Leaves(_) => false,
        };
        matches!(self, Content::Ask { ask, .. } if ask.is_listing())
            || matches!(self, Content::Reply { reply, .. } if is_listed(reply))
    }
}

impl Questions {
    /// Returns when the oldest question is answered with the replies that are there.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.waiting.front().map(|waiting| waiting.until)
    }
}

impl Replies {
    fn to(ask: &PeerQuestion) -> Self {
        match ask {
            PeerQuestion::Queue(lock) => Replies::Queue(lock.clone(), Vec::new()),
            PeerQuestion::Break(_) => Replies::Broken(Vec::new()),
            PeerQuestion::Locks => Replies::Locks(Vec::new()),
            PeerQuestion::Leave(_) => Replies::Leaves(false),
            PeerQuestion::Page(question) => Replies::Page(question.clone(), Vec::new()),
            PeerQuestion::Changes(_) => Replies::Changes(None),
            PeerQuestion::Waits | PeerQuestion::Refuse { .. } => {
                Replies::Waits { by: SearchFor::Victim, earlier: None, sites: Vec::new() }
            }
        }
    }

    /// Adds the reply of `site`, if it answers the question and is within bounds.
    pub(super) fn add(&mut self, site: &SiteName, reply: PeerReply) -> bool {
        match (self, reply) {
            (Replies::Queue(_, queues), PeerReply::Queue(queue))
                if queue.site == *site && queue.is_bounded() =>
            {
                queues.push(queue);
                true
            }
            (Replies::Broken(all), PeerReply::Broken(holders)) if holders.len() <= MAX_LISTED => {
                let cut_off = |HolderReport { label, fence, .. }| CutOff { site: site.clone(), label, fence };
                all.extend(holders.into_iter().map(cut_off));
                true
            }
            (Replies::Locks(all), PeerReply::Locks(locks)) if locks.site == *site && locks.is_bounded() => {
                all.push(locks);
                true
            }
            (Replies::Leaves(leaves), PeerReply::Leaves(does)) => {
                *leaves |= does;
                true
            }
            (Replies::Page(question, pages), PeerReply::Page(page))
                if page.site == *site && page.answers(question) =>
            {
                pages.push(page);
                true
            }
            (Replies::Changes(of_site), PeerReply::Changes(changes)) if changes.is_bounded() => {
                *of_site = Some(changes);
                true
            }
            (Replies::Waits { sites, .. }, PeerReply::Waits(waits))
                if waits.site == *site && waits.is_bounded() =>
            {
                sites.push(waits);
                true
            }
            (
                Replies::Queue(..)
                | Replies::Broken(_)
                | Replies::Locks(_)
                | Replies::Leaves(_)
                | Replies::Page(..)
                | Replies::Changes(_)
                | Replies::Waits { .. },
                PeerReply::Queue(_)
                | PeerReply::Broken(_)
                | PeerReply::Locks(_)
                | PeerReply::Leaves(_)
                | PeerReply::Page(_)
                | PeerReply::Changes(_)
                | PeerReply::Waits(_)
                | PeerReply::Refused(_),
            ) => false,
        }
    }
}

impl Node {
    /// Handles a client's call for which all members have to be asked.
    pub(super) fn on_question(&mut self, request: Request, ask: PeerQuestion, out: &mut Vec<NodeOutput>) {
        if self.has_too_many_questions() {
            let why = RequestRefusal::TooManyQuestions;
            return out.push(NodeOutput::Answer(ClientAnswer::Lock(LockEvent::Refused { request, why })));
        }
        let reply = self.reply(&ask, out);
        let mut replies = Replies::to(&ask);
        replies.add(&self.me.site, reply);
        self.ask_all(request, &ask, replies, self.others(), out);
    }

    /// Asks one site for its changes after a cursor, or this one.
    pub(super) fn on_ask_for_changes(
        &mut self,
        request: Request,
        site: SiteName,
        after: Option<ChangeCursor>,
        out: &mut Vec<NodeOutput>,
    ) {
        let ask = PeerQuestion::Changes(after);
        if site == self.me.site {
            let changes = Some(self.table.changes_after(after, self.me.incarnation, self.now));
            return out.push(NodeOutput::Answer(ClientAnswer::Changes { request, changes }));
        }
        if self.has_too_many_questions() {
            let why = RequestRefusal::TooManyQuestions;
            return out.push(NodeOutput::Answer(ClientAnswer::Lock(LockEvent::Refused { request, why })));
        }
        self.ask_all(request, &ask, Replies::to(&ask), vec![site], out);
    }

    /// Asks these sites, and answers at once if there is nobody to ask.
    pub(super) fn ask_all(
        &mut self,
        request: Request,
        ask: &PeerQuestion,
        replies: Replies,
        sites: Vec<SiteName>,
        out: &mut Vec<NodeOutput>,
    ) {
        let is_unable = |site: &SiteName| {
            ask.is_listing() && self.old_programs.get(site).is_some_and(|program| !program.lists_locks)
        };
        let (unable, others): (Vec<SiteName>, Vec<SiteName>) = sites.into_iter().partition(is_unable);
        let question = self.next_question();
        let missing = others.iter().cloned().collect();
        let until = self.now + self.config.tick.times(10);
        let asked = Waiting { question, request, until, missing, unable, replies };
        // Nobody can be asked before this incarnation is on disk.
        if others.is_empty() || !self.may_send {
            return self.conclude(asked, out);
        }
        self.questions.waiting.push_back(asked);
        for site in others {
            self.send(site, Content::Ask { question, ask: ask.clone() }, out);
        }
    }

    /// Returns the number of the next question of this incarnation.
    pub(super) fn next_question(&mut self) -> QuestionId {
        self.questions.asked += 1;
        QuestionId { incarnation: self.me.incarnation, number: self.questions.asked }
    }

    /// Handles a member's question. A site that was a member a moment ago may ask too, and is not reported, but gets no
    /// reply.
    pub(super) fn on_ask(
        &mut self,
        from: &Member,
        question: QuestionId,
        ask: &PeerQuestion,
        out: &mut Vec<NodeOutput>,
    ) {
        let known = self.view.member(&from.site).is_some() || self.config.sites.contains(&from.site);
        if known && self.may_send {
            let reply = self.reply(ask, out);
            self.send(from.site.clone(), Content::Reply { question, reply }, out);
        }
    }

    /// Handles a member's reply, which may be the last one.
    pub(super) fn on_reply(
        &mut self,
        from: SiteName,
        question: QuestionId,
        reply: PeerReply,
        out: &mut Vec<NodeOutput>,
    ) {
        if let PeerReply::Queue(queue) = &reply
            && self.on_inquiry_reply(&from, question, queue, out)
        {
            return;
        }
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
                "a reply to another question than was asked, or beyond its bounds",
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
    pub(super) fn pass_time_for_questions(&mut self, out: &mut Vec<NodeOutput>) {
        while self.questions.next_due().is_some_and(|until| until <= self.now)
            && let Some(waiting) = self.questions.waiting.pop_front()
        {
            self.conclude(waiting, out);
        }
    }

    /// Does what is asked, at this site, and returns the reply.
    pub(super) fn reply(&mut self, ask: &PeerQuestion, out: &mut Vec<NodeOutput>) -> PeerReply {
        match ask {
            PeerQuestion::Queue(lock) => PeerReply::Queue(SiteQueue {
                site: self.me.site.clone(),
                epoch: self.view.epoch,
                standing: self.standing(),
                leased: self.lease.is_comfortable(self.now),
                leaving: self.leaving.is_some(),
                lock: self.table.report(lock, self.now),
                settled: self.table.settled(lock),
            }),
            PeerQuestion::Break(lock) => {
                let mut cut_off = Vec::new();
                self.in_table(out, |table, lease_clock, out| {
                    cut_off = table.take_away(lock, lease_clock, out);
                });
                PeerReply::Broken(cut_off)
            }
            PeerQuestion::Locks => PeerReply::Locks(self.locks()),
            PeerQuestion::Page(question) => {
                let (entries, more) = self.table.page(question, self.now);
                PeerReply::Page(SitePage { site: self.me.site.clone(), entries, more })
            }
            PeerQuestion::Changes(after) => {
                PeerReply::Changes(self.table.changes_after(*after, self.me.incarnation, self.now))
            }
            PeerQuestion::Waits => PeerReply::Waits(self.site_waits()),
            PeerQuestion::Refuse { member, request } => {
                let (is_me, mut refused) = (*member == self.me, false);
                if is_me {
                    let request = Request(*request);
                    self.in_table(out, |table, _, out| refused = table.refuse_deadlocked(request, out));
                }
                PeerReply::Refused(refused)
            }
            PeerQuestion::Leave(member) => {
                let is_me = *member == self.me;
                if is_me {
                    self.begin_to_leave(None, out);
                }
                PeerReply::Leaves(is_me)
            }
        }
    }

    /// Returns whether so many questions wait for replies that no client may ask one more.
    pub(super) fn has_too_many_questions(&self) -> bool {
        self.questions.waiting.len() >= self.config.limits.questions
    }

    fn conclude(&mut self, waiting: Waiting, out: &mut Vec<NodeOutput>) {
        let Waiting { request, missing, unable, replies, .. } = waiting;
        let missing: BTreeSet<SiteName> = missing.into_iter().chain(unable).collect();
        let missing = missing.into_iter().collect();
        let answer = match replies {
            Replies::Queue(lock, mut sites) => {
                sites.sort_by(|a, b| a.site.cmp(&b.site));
                let rules = self.known_rules();
                let rule = rules.as_ref().map(|rules| rules.rule(&lock));
                let (algorithm, permits) =
                    rule.map_or((None, 1), |rule| (Some(rule.spec.info.name.to_owned()), rule.permits));
                // Where no rule gives the number of permits, the home of the name hands them out. This site has heard of it only if it
                // is the home or has asked it.
                let settled = self.table.settled(&lock);
                let settled = settled.or_else(|| sites.iter().find_map(|queue| queue.settled));
                let (algorithm, permits) = match settled {
                    Some(settled) if settled != permits => (Some(WITHOUT_RULE.to_owned()), settled),
                    Some(_) | None => (algorithm, permits),
                };
                drop_mirrored(&mut sites, permits);
                let queue = LockQueue { epoch: self.view.epoch, algorithm, permits, sites, missing };
                ClientAnswer::Queue { request, queue }
            }
            Replies::Broken(cut_off) => ClientAnswer::Broken { request, cut_off, missing },
            Replies::Locks(mut sites) => {
                sites.sort_by(|a, b| a.site.cmp(&b.site));
                ClientAnswer::Locks { request, sites, missing }
            }
            Replies::Leaves(leaves) => ClientAnswer::Leaves { request, leaves },
            Replies::Page(question, pages) => {
                let rules = self.known_rules();
                let algorithm = |lock: &LockName, permits| {
                    let rule = rules.as_ref()?.rule(lock);
                    let name = if rule.permits == permits { rule.spec.info.name } else { WITHOUT_RULE };
                    Some(name.to_owned())
                };
                let page = Box::new(merge(&question, pages, missing, algorithm));
                ClientAnswer::Page { request, page }
            }
            Replies::Changes(changes) => ClientAnswer::Changes { request, changes },
            Replies::Waits { by, earlier, sites } => return self.on_waits(by, earlier, &sites, missing, out),
        };
        out.push(NodeOutput::Answer(answer));
    }

    /// Returns the rules of the view, if this program knows them.
    fn known_rules(&self) -> Option<Rules> {
        self.table.rules().cloned().or_else(|| Rules::new(self.view.rules.clone()).ok())
    }

    /// Returns the state of this site and which of its locks are in use.
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

    /// Returns the overview of this site.
    pub(super) fn overview(&self) -> Overview {
        let leads = self.leads().is_some().then_some(&self.me.site);
        Overview {
            member: self.me.clone(),
            cluster: self.config.cluster.clone(),
            sites: self.config.sites.clone(),
            view: self.view.clone(),
            standing: self.standing(),
            leader: leads.or(self.assumed_leader()).cloned(),
            lease_left: self.lease_left(),
            leaving: self.leaving.is_some(),
            counts: self.table.counts(),
            voters: self.voters_report(),
            held: self.table.held(self.now),
        }
    }

    pub(super) fn standing(&self) -> Standing {
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
