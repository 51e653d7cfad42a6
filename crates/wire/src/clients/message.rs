//! The messages of clients and nodes.
//!
//! The types are apart from the node's own, so that the node can change without the bytes. A client numbers its requests and
//! questions itself (*tags*), and never uses a number twice on one connection.
//!
//! **Time.** A client counts on its own clock. The node names moments of its clock; the [`Welcome`](ToClient::Welcome) and each
//! [`Pong`](ToClient::Pong) say what time it was there. A client that notes when it asked knows that the node's clock then showed
//! no more than that, and so never relies on a lock for longer than it has it.
//!
//! **Silence.** A client on the node's own machine is gone when its connection is. One that is reached over a network may be cut
//! off, which looks like silence from both ends: the [`Welcome`](ToClient::Welcome) says after how much silence the node ends
//! the session ([`Contact`]); the client makes sure that it has stopped before.

use meshlock_cluster::names::{ClientLabel, ClusterName, LockName, SiteName};
use meshlock_cluster::node::{CutOff, LockQueue, SiteLocks, Standing, TraceLine};
use meshlock_cluster::rules::RulesText;
use meshlock_cluster::table::Wait;
use meshlock_cluster::time::{Drift, Span, Time};
use meshlock_cluster::view::View;
use meshlock_protocol::numbered;
use serde::{Deserialize, Serialize};

use super::reason::{LossKind, RefusalKind};

/// The most requests and questions that a connection may have open.
pub const MAX_OPEN: usize = 4096;

/// A client's number for a request or a question. What is about neither has the number 0.
pub type Tag = u64;

/// What a client says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToNode {
    /// The first message.
    Hello {
        /// The highest version that the client speaks; it also speaks the one before.
        version: u16,
        /// How other clients and operators know it.
        who: ClientLabel,
    },
    /// Asks what time it is, and shows that the client is there.
    Ping(Tag),
    /// Asks for a lock, or for a permit.
    Acquire {
        tag: Tag,
        lock: LockName,
        wait: Wait,
        /// How many permits the client expects the lock to have, if it does: where no rule names the lock, one is made.
        permits: Option<u32>,
    },
    /// Stops waiting, or gives back what was granted meanwhile.
    Cancel(Tag),
    /// Gives a lock back.
    Release(Tag),
    /// Asks the node to kill this process group of its machine before a lock that the session loses can be someone else's, in case
    /// the client itself is gone. Refused over a network.
    Guard { group: i32 },
    /// Asks who holds a lock and who waits for it.
    Queue { tag: Tag, lock: LockName },
    /// Asks how the site is.
    Status { tag: Tag },
    /// Takes a lock away from its holders.
    Break { tag: Tag, lock: LockName },
    /// Replaces the cluster's rules.
    SetRules { tag: Tag, rules: RulesText },
    /// Asks how all members are, and which locks are in use.
    Locks { tag: Tag },
    /// Makes a site leave the cluster, this one or another.
    Remove { tag: Tag, site: SiteName },
    /// Makes this site leave the cluster.
    Leave { tag: Tag },
    /// Asks to be told all that happens at the site, until the request is cancelled.
    Watch {
        tag: Tag,
        /// Which locks: a name, or the beginning of names and `*`.
        pattern: String,
        /// Whether with the machines' states.
        states: bool,
    },
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
} }

/// What a node says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToClient {
    /// The answer to Hello.
    Welcome {
        /// The version that both speak from here on.
        version: u16,
        site: SiteName,
        /// What time it is there.
        time: Time,
        /// How the client has to keep in touch, if a network is between the two.
        contact: Option<Contact>,
    },
    /// The answer to Ping.
    Pong {
        tag: Tag,
        /// What time it is there.
        time: Time,
    },
    /// The client has the lock.
    Granted {
        tag: Tag,
        /// The number to hand to whatever the lock protects.
        fence: i64,
        /// Which permit, where they are numbered.
        slot: Option<u32>,
        /// The lock is safe until then, on the node's clock, unless an extension is told.
        lease_end: Time,
        /// How long before that its loss is told.
        margin: Span,
    },
    /// Everything that the session holds and has not lost is safe until then, on the node's clock.
    Extended { lease_end: Time },
    /// The lock is lost; until `act_by`, on the node's clock, nobody else has it.
    Lost { tag: Tag, act_by: Time, why: LossKind },
    /// The same in version 2, which does not say why.
    LostV2 { tag: Tag, act_by: Time },
    /// The lock was given back.
    Released(Tag),
    /// The client does not wait any more, because it said so.
    Cancelled(Tag),
    /// The lock was not granted in the time that the client was ready to wait.
    TimedOut(Tag),
    /// Someone else has the lock, and the client did not want to wait.
    Busy(Tag),
    /// It cannot be done.
    Refused {
        tag: Tag,
        kind: RefusalKind,
        /// Why, for people, and what would be right.
        why: String,
    },
    /// The same in version 2, which has no kinds.
    RefusedV2 { tag: Tag, why: String },
    /// Who holds a lock and who waits for it.
    Queue { tag: Tag, queue: LockQueue },
    /// How the site is.
    Status { tag: Tag, status: Box<Status> },
    /// A lock was taken away.
    Broken {
        tag: Tag,
        /// From whom.
        cut_off: Vec<CutOff>,
        /// Members that have not answered.
        missing: Vec<SiteName>,
    },
    /// The rules hold from this view on.
    RulesSet { tag: Tag, epoch: u32 },
    /// How all members are, and which locks are in use.
    Locks {
        tag: Tag,
        /// What the members say, in the order of their names.
        sites: Vec<SiteLocks>,
        /// Members that have not answered.
        missing: Vec<SiteName>,
    },
    /// A site was told to leave.
    Leaves {
        tag: Tag,
        /// Whether it has heard it.
        leaves: bool,
    },
    /// The site is no member any more.
    Left(Tag),
    /// What happened at the site.
    Traced {
        tag: Tag,
        /// What the calendar clock of its machine showed when the clock of the lines' times showed nothing, in microseconds.
        origin: u64,
        /// In the order in which it happened.
        lines: Vec<TraceLine>,
        /// How many lines before these are lost, because they were not taken in time.
        lost: u64,
    },
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
} }

impl ToClient {
    /// The request or question that it answers.
    pub fn tag(&self) -> Option<Tag> {
        match self {
            ToClient::Welcome { .. } | ToClient::Extended { .. } => None,
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
            | ToClient::Broken { tag, .. }
            | ToClient::RulesSet { tag, .. }
            | ToClient::Locks { tag, .. }
            | ToClient::Leaves { tag, .. }
            | ToClient::Left(tag)
            | ToClient::Traced { tag, .. } => Some(*tag),
        }
    }
}

/// How a client that is reached over a network keeps its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    /// After so long without a message from the client the node ends its session, and others may have what it held. The node
    /// counts from when it received something, the client from when it *sent* what was answered last.
    pub silence: Span,
    /// By how much one clock may run faster than the other.
    pub drift: Drift,
}

/// How a site is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub site: SiteName,
    pub incarnation: u64,
    pub cluster: ClusterName,
    /// The sites that the cluster began with, in their order.
    pub sites: Vec<SiteName>,
    /// The view that it has installed.
    pub view: View,
    /// How far it is with it.
    pub standing: Standing,
    /// Who leads, as far as it knows.
    pub leader: Option<SiteName>,
    pub lease_left: Option<Span>,
    /// Whether it is about to leave the cluster.
    pub leaving: bool,
    /// Number of locks that it keeps, in use or idle.
    pub locks: u64,
    /// Number of grants that its clients have and have not given back.
    pub holders: u64,
    pub waiters: u64,
    pub sessions: u64,
    /// The first hundred locks that its clients hold.
    pub held: Vec<HeldEntry>,
}

/// A lock that a client of the site holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldEntry {
    pub lock: LockName,
    pub who: Option<ClientLabel>,
    pub fence: i64,
    pub age: Span,
}
