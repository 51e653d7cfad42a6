//! The messages of clients and nodes.
//!
//! The types are separate from the node's own, so that the node can change without the bytes. A client numbers its
//! requests and questions itself (*tags*), and never uses a number twice on one connection.
//!
//! **Time.** A client uses its own clock. The node gives times of its clock; the [`Welcome`](ToClient::Welcome) and
//! each [`Pong`](ToClient::Pong) contain the node's current time. A client that records when it asked knows that the
//! node's clock then showed no more than that, and so never relies on a lock for longer than it has it.
//!
//! **Silence.** A client on the node's own machine is gone when its connection is; a program that can be stopped
//! promises to [stay in touch](ToNode::StayInTouch) as well. One that is reached over a network
//! may be cut off, which looks like silence from both ends: the [`Welcome`](ToClient::Welcome) says after how much
//! silence the node ends the session ([`Contact`]); the client makes sure that it has stopped before.

use meshlock_cluster::access::{AccessDocument, AgreedAccess};
use meshlock_cluster::claim::Proof;
use meshlock_cluster::names::{ClientLabel, ClusterName, LockName, SiteName};
use meshlock_cluster::report::{
    CutOff, Deadlocks, LockPage, LockQueue, Party, SiteChange, SiteLocks, Standing, TraceLine, VoterRequest,
    VotersReport,
};
use meshlock_cluster::rules::RulesText;
use meshlock_cluster::table::Wait;
use meshlock_cluster::time::{Drift, Span, Time};
use meshlock_cluster::view::View;
use meshlock_protocol::numbered;
use serde::{Deserialize, Serialize};

use super::reason::{LossKind, RefusalKind};
use crate::diagnosis::AskedSite;

/// Maximum number of requests and questions that a connection may have open.
pub const MAX_OPEN: usize = 4096;

/// A client's number for a request or a question. Messages that are about neither have the number 0.
pub type Tag = u64;

/// A message from a client to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToNode {
    /// The first message.
    Hello {
        /// The highest version that the client speaks; it also speaks the one before.
        version: u16,
        /// The client's label for other clients and operators.
        who: ClientLabel,
    },
    /// Asks for the node's time, and shows that the client is alive.
    Ping(Tag),
    /// Asks for a lock, or for a permit.
    Acquire {
        tag: Tag,
        lock: LockName,
        wait: Wait,
        /// How many clients may hold the lock at a time, as the client understands it: one, if it does not say.
        permits: Option<u32>,
    },
    /// Stops waiting, or releases what was granted meanwhile.
    Cancel(Tag),
    /// Releases a lock.
    Release(Tag),
    /// Asks the node to kill processes of its machine before a lock that the session loses can be granted to another
    /// client, in case the client itself is gone. The first time, before the client asks for a lock, `group` is a child
    /// of the client's process, and everything below that is meant; later it is a process group whose leader is below
    /// it. All others are refused, and so is everything over a network.
    Guard { group: i32 },
    /// Asks who holds a lock and who waits for it.
    Queue { tag: Tag, lock: LockName },
    /// Asks for the state of the site.
    Status { tag: Tag },
    /// Takes a lock away from its holders.
    Break { tag: Tag, lock: LockName },
    /// Replaces the cluster's rules.
    SetRules { tag: Tag, rules: RulesText },
    /// Asks for the state of all members, and which locks are in use.
    Locks { tag: Tag },
    /// Makes a site leave the cluster, this one or another.
    Remove { tag: Tag, site: SiteName },
    /// Makes this site leave the cluster.
    Leave { tag: Tag },
    /// Asks for a trace of everything that happens at the site, until the request is cancelled.
    Watch {
        tag: Tag,
        /// Which locks: a name, or a prefix of names followed by `*`.
        pattern: String,
        /// Whether the trace contains the machines' states.
        states: bool,
    },
    /// Instead of Hello, on a connection of its own: keeps the sessions that the same process has opened on this machine
    /// until the connection is closed. The node answers nothing, and closes the connection if anything follows.
    KeepAlive,
    /// Promises to send something at least once in the time that the [`Welcome`](ToClient::Welcome) of a node of this
    /// machine gave. From here on the node ends the session when it has been silent for longer.
    StayInTouch,
    /// Changes who votes. Versions 2 to 4 do not have it.
    ChangeVoters { tag: Tag, change: VoterRequest },
    /// Asks for the cluster's access document. Versions 2 to 4 do not have it, nor the next one.
    Access { tag: Tag },
    /// Compare-and-set: replaces the cluster's access document if its version is still `base`.
    SetAccess { tag: Tag, base: u64, document: Box<AccessDocument> },
    /// Asks for what the site says of itself to whoever looks for what is wrong. In version 5.
    Diagnose {
        tag: Tag,
        /// Whether it also asks every other site that it knows an address of, directly.
        others: bool,
    },
    /// Asks for a proof of the lock that was granted for the request of this tag. In version 6, as the next one.
    Prove { tag: Tag },
    /// Claims a lock that the client holds through another site, or through a connection that was cut.
    Claim {
        tag: Tag,
        proof: Box<Proof>,
        /// How long ago the client sent the last message that the other site has answered; `None` if that site has certainly ended, or has
        /// said that it [leaves](ToClient::Leaving).
        contact: Option<Span>,
    },
    /// Asks which locks are in use in the whole cluster, page by page. In version 7, as all that follow.
    LockPage {
        tag: Tag,
        /// Which locks: a name, or a prefix of names followed by `*`.
        pattern: String,
        /// Only names after this one.
        after: Option<LockName>,
        /// Maximum number of locks.
        limit: u32,
    },
    /// Asks for what happens to locks in the whole cluster, from now on and until the request is cancelled.
    Changes {
        tag: Tag,
        /// Which locks: a name, or a prefix of names followed by `*`.
        pattern: String,
    },
    /// Asks for the deadlocks of the cluster.
    Deadlocks { tag: Tag },
    /// Says that all requests of this connection are those of this party, for deadlocks between locks. A client chooses the number at
    /// random, or is told it by the one that it runs below.
    Party { party: Party },
}

numbered! { ToNode {
    0 => Hello { version, who },
    1 => Ping(tag),
    2 => Acquire { tag, lock, wait, permits },
    3 => Cancel(tag),
    4 => Release(tag),
    5 => Guard { group },
    6 => Queue { tag, lock },
    7 => Status { tag },
    8 => Break { tag, lock },
    9 => SetRules { tag, rules },
    10 => Locks { tag },
    11 => Remove { tag, site },
    12 => Leave { tag },
    13 => Watch { tag, pattern, states },
    14 => KeepAlive,
    15 => StayInTouch,
    16 => ChangeVoters { tag, change },
    20 => Access { tag },
    21 => SetAccess { tag, base, document },
    26 => Diagnose { tag, others },
    30 => Prove { tag },
    31 => Claim { tag, proof, contact },
    32 => LockPage { tag, pattern, after, limit },
    33 => Changes { tag, pattern },
    34 => Deadlocks { tag },
    35 => Party { party },
} }

/// A message from a node to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToClient {
    /// The answer to Hello.
    Welcome {
        /// The version that both speak from here on.
        version: u16,
        site: SiteName,
        /// The node's time.
        time: Time,
        /// How the client has to keep in touch, if there is a network between the two; or on the node's own machine, if
        /// it [promises to](ToNode::StayInTouch).
        contact: Option<Contact>,
    },
    /// The answer to Ping.
    Pong {
        tag: Tag,
        /// The node's time.
        time: Time,
    },
    /// The client has the lock.
    Granted {
        tag: Tag,
        /// The number to pass to the resource that the lock protects.
        fence: i64,
        /// Which permit, where they are numbered.
        slot: Option<u32>,
        /// The lock is safe until then, on the node's clock, unless an extension follows.
        lease_end: Time,
        /// How long before that the client is told that it has lost the lock.
        margin: Span,
    },
    /// Everything that the session holds and has not lost is safe until then, on the node's clock.
    Extended { lease_end: Time },
    /// The lock is lost; nobody else gets it before `act_by`, on the node's clock.
    Lost { tag: Tag, act_by: Time, why: LossKind },
    /// The same in version 2, which does not say why.
    LostV2 { tag: Tag, act_by: Time },
    /// The lock was released.
    Released(Tag),
    /// The client has stopped waiting, because it cancelled.
    Cancelled(Tag),
    /// The lock was not granted in the time that the client was willing to wait.
    TimedOut(Tag),
    /// Someone else has the lock, and the client did not want to wait.
    Busy(Tag),
    /// The request was invalid or could not be served.
    Refused {
        tag: Tag,
        kind: RefusalKind,
        /// The reason for people, and what would be right.
        why: String,
    },
    /// The same in version 2, which has no kinds.
    RefusedV2 { tag: Tag, why: String },
    /// The holders and waiters of a lock.
    Queue { tag: Tag, queue: LockQueue },
    /// The state of the site.
    Status { tag: Tag, status: Box<Status> },
    /// The same in version 4, for a site whose disk fails.
    StatusWithDisk {
        tag: Tag,
        status: Box<Status>,
        /// What is wrong with the disk.
        disk: String,
    },
    /// A lock was taken away.
    Broken {
        tag: Tag,
        /// The former holders.
        cut_off: Vec<CutOff>,
        /// Members that have not answered.
        missing: Vec<SiteName>,
    },
    /// The rules apply from this view on.
    RulesSet { tag: Tag, epoch: u32 },
    /// The state of all members, and which locks are in use.
    Locks {
        tag: Tag,
        /// The members' replies, in the order of their names.
        sites: Vec<SiteLocks>,
        /// Members that have not answered.
        missing: Vec<SiteName>,
    },
    /// A site was told to leave.
    Leaves {
        tag: Tag,
        /// Whether the site has confirmed.
        leaves: bool,
    },
    /// The site is no longer a member.
    Left(Tag),
    /// Part of a trace of the site.
    Traced {
        tag: Tag,
        /// The calendar time of the site's machine, in microseconds, at time zero of the clock that the lines use.
        origin: u64,
        /// In the order in which it happened.
        lines: Vec<TraceLine>,
        /// Number of lines before these that were dropped, because they were not read in time.
        lost: u64,
    },
    /// The state of the site in version 5, with who votes.
    StatusWithVoters {
        tag: Tag,
        status: Box<Status>,
        /// What is wrong with the disk.
        disk: Option<String>,
        voters: Box<VotersReport>,
    },
    /// The voters were changed as requested, or already were so.
    VotersChanged(Tag),
    /// The voters were not changed.
    VotersRefused {
        tag: Tag,
        /// The reason for people, and what to do.
        why: String,
        /// Whether the reason is that another change is under way: then it is worth asking again.
        busy: bool,
    },
    /// The cluster's access document, as the site knows it.
    Access { tag: Tag, access: Box<AgreedAccess> },
    /// The cluster has the requested access document, as this version.
    AccessSet { tag: Tag, version: u64 },
    /// What sites say of themselves: first the one that was asked, then those that it has asked. In version 5.
    Diagnoses { tag: Tag, sites: Vec<AskedSite> },
    /// The proof of a lock that the client holds, with which it can [claim](ToNode::Claim) the lock at another site. In version 6, as
    /// all that follow.
    Proof { tag: Tag, proof: Box<Proof> },
    /// The claim is accepted, and not settled before a view without the other site: until then the lock is safe as long as the site's
    /// lease lasts, and for no longer than `left`.
    Claimed {
        tag: Tag,
        fence: i64,
        /// Which permit, where they are numbered.
        slot: Option<u32>,
        /// The lock is safe until then, on the node's clock, unless an extension follows.
        lease_end: Time,
        /// The lock is safe for no longer than this, counted from when the client *sent* the claim (the site counts from when the claim
        /// came), unless the claim is settled before.
        left: Option<Span>,
        /// How long before either the client is told that it has lost the lock.
        margin: Span,
    },
    /// The claim is settled: the client holds the lock through this site, and can ask for a new proof.
    Settled { tag: Tag, lease_end: Time },
    /// This site leaves its cluster. It keeps whatever the client has a proof of until a view without it, so that the client can claim
    /// it at another site.
    Leaving,
    /// Locks that are in use. In version 7, as all that follow.
    LockPage { tag: Tag, page: Box<LockPage> },
    /// What has happened to locks, in the order in which it happened at each site.
    Changes {
        tag: Tag,
        changes: Vec<SiteChange>,
        /// At least so many before these were missed, because they were not read in time or a site did not answer.
        missed: u64,
    },
    /// The deadlocks of the cluster.
    Deadlocks { tag: Tag, deadlocks: Box<Deadlocks> },
}

numbered! { ToClient {
    0 => Welcome { version, site, time, contact },
    1 => Pong { tag, time },
    2 => Granted { tag, fence, slot, lease_end, margin },
    3 => Extended { lease_end },
    4 => LostV2 { tag, act_by },
    5 => Released(tag),
    6 => Cancelled(tag),
    7 => TimedOut(tag),
    8 => Busy(tag),
    9 => RefusedV2 { tag, why },
    10 => Queue { tag, queue },
    11 => Status { tag, status },
    12 => Broken { tag, cut_off, missing },
    13 => RulesSet { tag, epoch },
    14 => Locks { tag, sites, missing },
    15 => Leaves { tag, leaves },
    16 => Left(tag),
    17 => Traced { tag, origin, lines, lost },
    18 => Lost { tag, act_by, why },
    19 => Refused { tag, kind, why },
    20 => StatusWithDisk { tag, status, disk },
    21 => StatusWithVoters { tag, status, disk, voters },
    22 => VotersChanged(tag),
    23 => VotersRefused { tag, why, busy },
    26 => Access { tag, access },
    27 => AccessSet { tag, version },
    32 => Diagnoses { tag, sites },
    36 => Proof { tag, proof },
    37 => Claimed { tag, fence, slot, lease_end, left, margin },
    38 => Settled { tag, lease_end },
    39 => Leaving,
    40 => LockPage { tag, page },
    41 => Changes { tag, changes, missed },
    42 => Deadlocks { tag, deadlocks },
} }

impl ToClient {
    /// Returns the request or question that the message answers.
    pub fn tag(&self) -> Option<Tag> {
        match self {
            ToClient::Welcome { .. } | ToClient::Extended { .. } | ToClient::Leaving => None,
            ToClient::Pong { tag, .. }
            | ToClient::Granted { tag, .. }
            | ToClient::Lost { tag, .. }
            | ToClient::LostV2 { tag, .. }
            | ToClient::Released(tag)
            | ToClient::Cancelled(tag)
            | ToClient::TimedOut(tag)
            | ToClient::Busy(tag)
            | ToClient::Refused { tag, .. }
            | ToClient::RefusedV2 { tag, .. }
            | ToClient::Queue { tag, .. }
            | ToClient::Status { tag, .. }
            | ToClient::StatusWithDisk { tag, .. }
            | ToClient::Broken { tag, .. }
            | ToClient::RulesSet { tag, .. }
            | ToClient::Locks { tag, .. }
            | ToClient::Leaves { tag, .. }
            | ToClient::Left(tag)
            | ToClient::Traced { tag, .. }
            | ToClient::StatusWithVoters { tag, .. }
            | ToClient::VotersChanged(tag)
            | ToClient::VotersRefused { tag, .. }
            | ToClient::Access { tag, .. }
            | ToClient::AccessSet { tag, .. }
            | ToClient::Diagnoses { tag, .. }
            | ToClient::Proof { tag, .. }
            | ToClient::Claimed { tag, .. }
            | ToClient::LockPage { tag, .. }
            | ToClient::Changes { tag, .. }
            | ToClient::Deadlocks { tag, .. }
            | ToClient::Settled { tag, .. } => Some(*tag),
        }
    }
}

/// How a client that is reached over a network keeps its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    /// After this long without a message from the client the node ends its session, and others may get what it held.
    /// The node counts from when it received something, the client from when it *sent* the last message that was
    /// answered.
    pub silence: Span,
    /// How much faster one clock may run than the other.
    pub drift: Drift,
}

/// The state of a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub site: SiteName,
    pub incarnation: u64,
    pub cluster: ClusterName,
    /// The initial sites of the cluster, in their order.
    pub sites: Vec<SiteName>,
    /// The view that it has installed.
    pub view: View,
    /// Its progress with that view.
    pub standing: Standing,
    /// The leader, as far as it knows.
    pub leader: Option<SiteName>,
    pub lease_left: Option<Span>,
    /// Whether it is leaving the cluster.
    pub leaving: bool,
    /// Number of locks that it keeps, in use or idle.
    pub locks: u64,
    /// Number of grants that its clients have and have not released.
    pub holders: u64,
    pub waiters: u64,
    pub sessions: u64,
    /// The first hundred locks that its clients hold.
    pub held: Vec<HeldEntry>,
    /// What is wrong with its disk, if the last write failed. It has a message of its own on the wire, and versions before 4 do not
    /// have it.
    #[serde(skip)]
    pub disk: Option<String>,
    /// Who votes, and which of them are there. It has a message of its own on the wire, and versions before 5 do not have it.
    #[serde(skip)]
    pub voters: Option<VotersReport>,
}

/// A lock that a client of the site holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldEntry {
    pub lock: LockName,
    pub who: Option<ClientLabel>,
    pub fence: i64,
    pub age: Span,
}
