//! One node: membership, lease, links and lock table composed into one machine.
//!
//! *Inputs*: [`Node::handle`] takes a time and what happened at it ([`Input`]). *Outputs*: it appends the effects to
//! carry out ([`NodeOutput`]). *Getters*: the rest. [`Node::next_due`] says when the node must be called again even if
//! nothing happens.
//!
//! Before an input is handled, everything that was due by then is done: a lease that ended while the machine was paused
//! has ended before any message is read.
//!
//! **Invariants**
//! - N1: machines run only in the view that was installed last, and only after the census of all its members.
//! - N2: nothing of a view other than that one reaches them.
//! - N3: an incarnation of this site sends nothing before it is on disk.
//! - N4: a site that finds itself left out of a view loses everything and begins a new incarnation.

mod agreed_access;
mod attendance;
mod autopilot;
mod calls;
mod change;
mod claims;
mod clients;
mod closing;
mod config;
mod deadlocks;
mod detour;
mod health;
mod inheritance;
mod leader;
mod leading;
mod letters;
mod note;
mod outage;
mod packet;
mod questions;
mod registration;
mod rival;
mod start;
mod talk;
#[cfg(test)]
mod tests;
mod trace;
mod types;
mod voting;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use meshlock_protocol::Epoch;

use crate::access::{AgreedAccess, JoinRefusal};
use crate::address::Address;
use crate::claim::ClaimKey;
use crate::founding::ClusterId;
use crate::lease::MemberLease;
use crate::links::{Links, Outgoing};
use crate::membership::disk::DiskWrite;
use crate::membership::voters::Voters;
use crate::membership::{self, Membership};
use crate::mutant::{self, Mutant};
use crate::names::{ClusterName, Incarnation, Member, SiteName};
pub use crate::report::{
    Age, ChangeCursor, ChangeKind, CutOff, Deadlock, Deadlocks, InLine, LockChange, LockPage, LockQueue,
    LockSummary, MAX_PAGE, NameFilter, PageQuestion, SiteChange, SiteChanges, SiteLocks, SitePage, SiteQueue,
    Standing, StopEffect, TraceEvent, TraceLine, VoterPresence, VoterRequest, VoterState, VotersReport, Why,
    line,
};
use crate::rules::{Rules, RulesText};
use crate::table::{self, LeaseClock, LockTable, Request};
use crate::time::Time;
use crate::view::View;
use agreed_access::AccessWanted;
pub use agreed_access::{AccessRefusal, ChangeRefusal};
pub use attendance::Absence;
use attendance::Attendance;
pub use autopilot::{Claim, VoterRefusal};
pub use calls::{CallMessage, CallPart, MAX_CALL_BYTES};
use change::ViewChange;
pub use clients::{ClientAnswer, ClientCall};
pub use config::{Checked, Config, ConfigError, NodeLimits, Voting};
use detour::Detours;
pub use health::Health;
use inheritance::GrantHistory;
use leader::{LeaderTiming, Leadership};
pub use note::{Departure, Note};
use outage::{LastHeard, LockInquiry};
pub use packet::{Content, Hearing, LinkPayload, Packet, Route};
use questions::Questions;
pub use questions::{Overview, PeerQuestion, PeerReply, QuestionId};
use registration::VoterRegistration;
pub use types::{Abilities, Input, NodeOutput, WriteToken};
use voting::VotersWanted;

/// After this many requests without an answer another site is asked.
const MAX_UNANSWERED: u32 = 2;

/// The purpose of a batch of writes.
#[derive(Clone, Debug)]
enum Purpose {
    /// Nothing waits for it.
    Record,
    Raft(membership::RaftToken),
    /// The registration of this voter's disk is written.
    Registered(SiteName),
    /// This site may act as the voter with this id.
    VoterId(u64),
    /// This incarnation may send.
    Incarnation(Incarnation),
}

/// One node.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact about the node that has nothing to do with the others"
)]
pub struct Node {
    config: Config,
    cluster: ClusterId,
    /// The first voters.
    founding: Voters,
    /// Who votes, as far as this site knows.
    voters: Voters,
    /// The id under which this disk is, or will be, that of a voter, if it is not the one that the founding gives.
    voter_id: Option<u64>,
    /// Sites whose program knows less than this one, and what it knows.
    old_programs: BTreeMap<SiteName, Abilities>,
    /// What the leader says of voters that are not there.
    attendance: Attendance,
    /// The access document, as far as this site knows.
    access: AgreedAccess,
    access_wanted: Option<AccessWanted>,
    /// Why this site may not take part, as it was noted last.
    noted_refusal: Option<JoinRefusal>,
    /// The second since 1970, as the host has said last.
    wall_clock: Option<u64>,
    registration: VoterRegistration,
    first_rules: Rules,
    now: Time,
    me: Member,
    /// Whether this incarnation is on disk.
    may_send: bool,
    /// The requests to answer when this site has left, if it is leaving.
    leaving: Option<Vec<Request>>,
    membership: Option<Membership>,
    lease: MemberLease,
    /// The end of the lease for which clients have been told that they lost their locks.
    noticed: Option<Time>,
    links: Links<LinkPayload>,
    table: LockTable,
    view: View,
    /// Whether this program knows the algorithms that the rules of the view name.
    knows_rules: bool,
    change: ViewChange,
    leadership: Option<Leadership>,
    /// When there may be work for a leader: as soon as something happened that a leader reacts to, or when a time is
    /// reached. Every tick counts as such an event, calls of clients do not.
    lead_at: Time,
    /// The leader, as another site said.
    leader_hint: Option<SiteName>,
    /// The site that the last request to the leader was sent to, until it grants something.
    asked: Option<SiteName>,
    /// Number of requests to the leader since it last answered.
    unanswered: u32,
    hurry: Hurry,
    /// The members that have answered this site while it asks to join, and when.
    answered_at: BTreeMap<Member, Time>,
    rules_wanted: Option<RulesWanted>,
    voters_wanted: Option<VotersWanted>,
    questions: Questions,
    /// Questions who holds a lock, oldest first.
    inquiries: VecDeque<LockInquiry>,
    /// How often one of these was forgotten for a newer one.
    forgotten_inquiries: u64,
    heard: LastHeard,
    detours: Detours,
    history: GrantHistory,
    /// The incarnation of another process under this site's name that was noted last.
    noted_rival: Option<Incarnation>,
    /// Members that have said that they leave.
    leavers: BTreeSet<Member>,
    /// Whether the host executes calls that other members forward.
    serves_calls: bool,
    /// Since when this site has had no lease, if it had one before.
    lease_lost_at: Option<Time>,
    has_lost_quorum: bool,
    /// The view in which the leader was told that a fresh one is needed.
    told_stale: Option<Epoch>,
    next_tick: Time,
    /// When it is looked for deadlocks next.
    next_look: Time,
    writing: VecDeque<(WriteToken, Purpose)>,
    last_token: WriteToken,
    /// Buffers for the outputs of the table and the links, kept between calls.
    wanted: Vec<table::TableOutput>,
    posted: Outgoing<LinkPayload>,
    /// The link number of the message that is being handled, for traces.
    arrived: u64,
    /// The keys of the other members, as far as they are known.
    claim_keys: BTreeMap<Member, ClaimKey>,
}

/// Requests to the leader that do not wait for their time, each once until the next one is due.
#[derive(Clone, Copy, Debug, Default)]
struct Hurry {
    /// Whether a new leader was asked early.
    asked: bool,
    /// Whether this site, which asks to join, has said early that it reaches everyone.
    joined: bool,
    /// Whether the site that was asked last said that it does not lead.
    too_early: bool,
}

/// New rules that a client here asked for.
#[derive(Clone, Debug)]
struct RulesWanted {
    request: Request,
    base: u64,
    rules: RulesText,
    /// When the client is told that it could not be done.
    until: Time,
    /// Whether some leader may have received them.
    is_sent: bool,
}

impl Node {
    /// Handles an input at the time `now`.
    pub fn handle(&mut self, now: Time, input: Input, out: &mut Vec<NodeOutput>) {
        self.now = self.now.max(now);
        self.pass_time(out);
        match input {
            Input::Time => {}
            Input::Packet { from, packet } => self.on_packet(from, packet, out),
            Input::Connected { site, abilities } => {
                self.detours.on_connected(&site, abilities.carries);
                self.on_abilities(&site, abilities);
                self.post(out, |links, now, post| links.on_connected(&site, now, post));
            }
            Input::Persisted(token) => self.on_persisted(token, out),
            Input::Call(call) => self.on_call(call, out),
            Input::WallClock(second) => self.wall_clock = Some(second),
        }
        if self.told_stale != Some(self.view.epoch) && self.table.wants_fresh_view(self.now) {
            self.told_stale = Some(self.view.epoch);
            self.table.on_fresh_view_asked(self.now);
            self.reach_out(out);
        }
        self.ask_new_leader(out);
        self.lead_if_due(out);
    }

    fn lead_if_due(&mut self, out: &mut Vec<NodeOutput>) {
        if self.now < self.lead_at {
            return;
        }
        self.lead_at = Time::from_micros(u64::MAX);
        self.lead(out);
        let leader = self.leadership.as_ref().zip(self.membership.as_ref());
        let due = leader.and_then(|(leadership, membership)| {
            leadership.next_due(membership.view(), self.now, self.timing())
        });
        self.lead_at = due.map_or(self.lead_at, |due| due.min(self.lead_at));
    }

    /// Returns when the node must be called next if nothing happens before.
    pub fn next_due(&self) -> Time {
        let lease = [self.lease.notice_at(), self.lease.end()].into_iter().flatten();
        let lease = lease.filter(|due| *due > self.now);
        let leader = Some(self.lead_at).filter(|due| *due > self.now);
        let questions = self.questions.next_due();
        let rules = self.rules_wanted.as_ref().map(|wanted| wanted.until);
        let voters = self.voters_wanted.as_ref().map(VotersWanted::until);
        let access = self.access_wanted.as_ref().map(AccessWanted::until);
        let others = [self.links.next_due(), self.table.next_due(), questions, leader, rules, voters, access];
        let others = others.into_iter().flatten();
        lease.chain(others).fold(self.next_tick.min(self.lease.next_renewal()), Time::min)
    }

    /// Returns this incarnation of the site.
    pub fn me(&self) -> &Member {
        &self.me
    }

    /// Returns the name of the cluster.
    pub fn cluster_name(&self) -> &ClusterName {
        &self.config.cluster
    }

    /// Returns the initial sites of the cluster, in their order.
    pub fn founders(&self) -> &[SiteName] {
        &self.config.sites
    }

    /// Returns the address where others reach this site.
    pub fn address(&self) -> &Address {
        &self.config.address
    }

    /// Returns the view that was installed last.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns whether the machines of that view run.
    pub fn is_open(&self) -> bool {
        self.change.is_open()
    }

    /// Returns the lock table.
    pub fn table(&self) -> &LockTable {
        &self.table
    }

    /// Returns the lease of this site.
    pub fn lease(&self) -> &MemberLease {
        &self.lease
    }

    /// Returns the term in which this site leads, if it assumes that it does.
    pub fn leads(&self) -> Option<membership::Term> {
        self.membership.as_ref()?.leads()
    }

    /// Returns whether this site votes, as far as it knows: it is one of the voters, and this is the voter's disk.
    pub fn has_vote(&self) -> bool {
        self.membership.as_ref().is_some_and(Membership::votes)
    }

    fn lease_clock(&self) -> LeaseClock {
        let lease_end = self.lease.end().filter(|_| self.lease.is_comfortable(self.now));
        LeaseClock { now: self.now, lease_end }
    }

    fn timing(&self) -> LeaderTiming {
        let Config { tick, terms, .. } = &self.config;
        LeaderTiming {
            gather: tick.times(2),
            gather_leaving: tick.part(2),
            expected: self.config.sites.len(),
            forget_joiner: terms.length,
            retry_round: tick.times(3),
            max_past: self.config.max_past,
        }
    }

    /// Does everything that is due.
    fn pass_time(&mut self, out: &mut Vec<NodeOutput>) {
        if let (Some(notice), Some(end)) = (self.lease.notice_at(), self.lease.end())
            && self.now >= notice
            && self.noticed != Some(end)
        {
            self.noticed = Some(end);
            if !mutant::is_on(Mutant::LapseKeepsLocks) {
                self.in_table(out, |table, lease_clock, out| table.on_notice(end, lease_clock.now, out));
            }
        }
        self.note_lease_end(out);
        self.in_table(out, |table, lease_clock, out| table.on_time(lease_clock, out));
        if self.now >= self.next_tick {
            // However long the pause was, it counts as one tick: the other sites' clocks have not stopped.
            self.next_tick = self.now + self.config.tick;
            self.table.drop_unwanted_changes(self.now);
            self.look_for_deadlocks(out);
            self.in_membership(out, |membership, out| membership.on_tick(out));
            self.register(out);
            self.note_quorum(out);
            self.check_routes(out);
        }
        if self.now >= self.lease.next_renewal() {
            (self.hurry.asked, self.hurry.joined) = (false, false);
            self.reach_out(out);
        }
        self.post(out, Links::on_time);
        self.pass_time_for_questions(out);
        self.give_up_rules_if_due(out);
        self.give_up_voters_if_due(out);
        self.give_up_access_if_due(out);
    }

    fn on_persisted(&mut self, token: WriteToken, out: &mut Vec<NodeOutput>) {
        while self.writing.front().is_some_and(|(first, _)| *first <= token) {
            let (_, purpose) = self.writing.pop_front().expect("there is a first");
            match purpose {
                Purpose::Record => {}
                Purpose::Registered(site) => self.on_written_down(site, out),
                Purpose::VoterId(id) => self.on_voter_id_written(id),
                Purpose::Raft(token) => {
                    self.in_membership(out, |membership, out| membership.on_persisted(token, out));
                }
                Purpose::Incarnation(incarnation) => {
                    if incarnation == self.me.incarnation {
                        self.may_send = true;
                        self.register(out);
                        self.reach_out(out);
                    }
                }
            }
        }
    }

    fn in_membership(
        &mut self,
        out: &mut Vec<NodeOutput>,
        act: impl FnOnce(&mut Membership, &mut Vec<membership::MembershipOutput>),
    ) {
        let Some(membership) = &mut self.membership else { return };
        self.lead_at = Time::ZERO;
        let mut wanted = Vec::new();
        act(membership, &mut wanted);
        for output in wanted {
            match output {
                membership::MembershipOutput::Send { to, message } => {
                    let message = self.annotate(message);
                    self.send(to, Content::Raft(message), out);
                }
                membership::MembershipOutput::Persist { token, writes } => {
                    self.persist(writes, Purpose::Raft(token), out);
                }
                membership::MembershipOutput::Agreed(view) => self.on_agreed(view, out),
                membership::MembershipOutput::VotersChanged(voters) => self.on_voters_agreed(voters, out),
                membership::MembershipOutput::AccessAgreed(access) => self.on_access_agreed(access, out),
                membership::MembershipOutput::Confirmed(round) => self.on_confirmed(round, out),
            }
        }
    }

    fn persist(&mut self, writes: Vec<DiskWrite>, purpose: Purpose, out: &mut Vec<NodeOutput>) {
        self.last_token = WriteToken(self.last_token.0 + 1);
        self.writing.push_back((self.last_token, purpose));
        out.push(NodeOutput::Persist { token: self.last_token, writes });
    }
}
