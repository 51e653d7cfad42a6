//! What clients and nodes say to each other: frames of a length (u32, little-endian) and a message.
//!
//! The types are apart from the node's own, so that the node can change without the wire. A client numbers its wishes and
//! questions itself (*tags*), and never uses a number twice on one connection.
//!
//! **Time.** A client counts on its own clock. The node says moments of its clock; the [`Welcome`](ToClient::Welcome) and
//! each [`Pong`](ToClient::Pong) say what time it was there, so a client that notes when it asked knows that the node's
//! clock then showed no more than that, and never believes in a lock for longer than it has it.
//!
//! **Silence.** A client of the node's own machine is gone when its connection is. One that is reached over a network may be
//! cut off, which looks like silence from both ends: the [`Welcome`](ToClient::Welcome) says after how much of it the node ends
//! the session ([`Contact`]), and the client's estimate of its lease is how the client makes sure that it has stopped before.

use serde::{Deserialize, Serialize};

use meshlock_cluster::names::{ClientLabel, ClusterName, LockName, SiteName};
use meshlock_cluster::node::{CutOff, SiteLocks, SiteQueue, Standing, TraceLine};
use meshlock_cluster::rules::RulesText;
use meshlock_cluster::time::{Drift, Span, Time};
use meshlock_cluster::view::View;

/// The version of this protocol.
pub const VERSION: u16 = 2;

/// How long a frame may be: a queue of a hundred sites with a hundred clients each fits.
pub const MOST_BYTES: usize = 4 << 20;

/// How many wishes and questions a connection may have open.
pub const MOST_OPEN: usize = 4096;

/// A client's number for a wish or a question.
pub type Tag = u64;

/// How long a client is ready to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Patience {
    /// As long as it takes.
    Forever,
    /// So long from when the node hears of it.
    Within(Span),
    /// Not at all for another holder.
    Try,
}

/// What a client says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToNode {
    /// The first thing: who it is.
    Hello {
        /// Which version of the protocol it speaks.
        version: u16,
        /// What others are told who is in front of them.
        who: ClientLabel,
    },
    /// What time is it?
    Ping(Tag),
    /// A lock, or a permit.
    Acquire {
        /// The wish.
        tag: Tag,
        /// Which lock.
        lock: LockName,
        /// How long to wait.
        patience: Patience,
        /// How many permits the client believes the lock to have, if it does: where no rule names the lock, one is made.
        permits: Option<u32>,
    },
    /// Not to wait any more, or to give back what came meanwhile.
    Cancel(Tag),
    /// To give a lock back.
    Release(Tag),
    /// When this session loses something, to end this process group of the node's machine before the lock can be someone
    /// else's, in case the client itself is gone. Refused over a network.
    Guard {
        /// The process group.
        group: i32,
    },
    /// Who holds a lock and who waits.
    Queue {
        /// The question.
        tag: Tag,
        /// Which lock.
        lock: LockName,
    },
    /// How the site is.
    Status {
        /// The question.
        tag: Tag,
    },
    /// To take a lock away from its holders.
    Break {
        /// The order.
        tag: Tag,
        /// Which lock.
        lock: LockName,
    },
    /// Other rules.
    SetRules {
        /// The wish.
        tag: Tag,
        /// The rules.
        rules: RulesText,
    },
    /// How all members are, and which locks are in use.
    Locks {
        /// The question.
        tag: Tag,
    },
    /// That a site leaves the cluster, this one or another.
    Remove {
        /// The order.
        tag: Tag,
        /// Which site.
        site: SiteName,
    },
    /// That the site leaves the cluster.
    Leave {
        /// The wish.
        tag: Tag,
    },
    /// To be told all that happens at the site, until the wish is cancelled.
    Watch {
        /// The wish.
        tag: Tag,
        /// Which locks: a name, or the beginning of names and `*`.
        pattern: String,
        /// Whether with the machines' states.
        states: bool,
    },
}

/// What a node says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToClient {
    /// The answer to Hello.
    Welcome {
        /// Which version of the protocol it speaks.
        version: u16,
        /// Which site it is.
        site: SiteName,
        /// What time it is there.
        time: Time,
        /// How the client has to keep in touch, if a network is between the two.
        contact: Option<Contact>,
    },
    /// The answer to Ping.
    Pong {
        /// Which one.
        tag: Tag,
        /// What time it is there.
        time: Time,
    },
    /// The client has the lock.
    Granted {
        /// Which wish.
        tag: Tag,
        /// The number to hand to whatever the lock protects.
        fence: i64,
        /// Which permit, where they are numbered.
        slot: Option<u32>,
        /// Until when, on the node's clock, unless it is told of an extension.
        lease_end: Time,
        /// How long before that it is told to stop.
        margin: Span,
    },
    /// Everything that the session holds and has not lost is safe until then.
    Extended {
        /// Until when, on the node's clock.
        lease_end: Time,
    },
    /// The lock is lost.
    Lost {
        /// Which wish.
        tag: Tag,
        /// Until then, on the node's clock, nobody else has it.
        act_by: Time,
    },
    /// The lock was given back.
    Released(Tag),
    /// The client does not wait any more, because it said so.
    Cancelled(Tag),
    /// It did not get the lock in time.
    TimedOut(Tag),
    /// It would have had to wait.
    Busy(Tag),
    /// It cannot be done.
    Refused {
        /// What.
        tag: Tag,
        /// Why, and what would be right.
        why: String,
    },
    /// Who holds a lock and who waits.
    Queue {
        /// Which question.
        tag: Tag,
        /// The queue.
        queue: Queue,
    },
    /// How the site is.
    Status {
        /// Which question.
        tag: Tag,
        /// How it is.
        status: Box<Status>,
    },
    /// A lock was taken away.
    Broken {
        /// Which order.
        tag: Tag,
        /// From whom.
        cut_off: Vec<CutOff>,
        /// Members that have not answered.
        missing: Vec<SiteName>,
    },
    /// The rules hold from this view on.
    RulesSet {
        /// Which wish.
        tag: Tag,
        /// The view.
        epoch: u32,
    },
    /// How all members are, and which locks are in use.
    Locks {
        /// Which question.
        tag: Tag,
        /// What the members say, in the order of their names.
        sites: Vec<SiteLocks>,
        /// Those that did not answer.
        missing: Vec<SiteName>,
    },
    /// A site was told to leave.
    Leaves {
        /// Which order.
        tag: Tag,
        /// Whether it has heard it.
        leaves: bool,
    },
    /// The site is no member any more.
    Left(Tag),
    /// What happened at the site.
    Traced {
        /// Which wish.
        tag: Tag,
        /// What the calendar clock of its machine showed when the clock of the lines' times showed nothing, in microseconds.
        origin: u64,
        /// In the order in which it happened.
        lines: Vec<TraceLine>,
        /// How many lines there were before these that are lost, because they were not taken in time.
        lost: u64,
    },
}

impl ToClient {
    /// The wish or question that it answers.
    pub fn tag(&self) -> Option<Tag> {
        match self {
            ToClient::Welcome { .. } | ToClient::Extended { .. } => None,
            ToClient::Pong { tag, .. }
            | ToClient::Granted { tag, .. }
            | ToClient::Lost { tag, .. }
            | ToClient::Released(tag)
            | ToClient::Cancelled(tag)
            | ToClient::TimedOut(tag)
            | ToClient::Busy(tag)
            | ToClient::Refused { tag, .. }
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
    /// After so long without a word from the client the node ends its session, and others may have what it held. The node counts
    /// from when it heard something, the client from when it *said* what was answered last.
    pub silence: Span,
    /// By how much one clock may run faster than the other.
    pub drift: Drift,
}

/// A lock's queue over the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// The view of the site that was asked.
    pub epoch: u32,
    /// The algorithm that the lock runs.
    pub algorithm: Option<String>,
    /// How many may hold it at once.
    pub permits: u32,
    /// What the members say.
    pub sites: Vec<SiteQueue>,
    /// The members that did not answer.
    pub missing: Vec<SiteName>,
}

/// How a site is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Its name.
    pub site: SiteName,
    /// Which life of it.
    pub incarnation: u64,
    /// Its cluster.
    pub cluster: ClusterName,
    /// The sites that the cluster began with, in their order.
    pub sites: Vec<SiteName>,
    /// The view that it has installed.
    pub view: View,
    /// How far it is with it.
    pub standing: Standing,
    /// Who leads, as far as it knows.
    pub leader: Option<SiteName>,
    /// How long its lease still lasts.
    pub lease_left: Option<Span>,
    /// Whether it is about to leave.
    pub leaving: bool,
    /// Locks that it keeps, in use or idle.
    pub locks: u64,
    /// Clients that hold something here.
    pub holders: u64,
    /// Clients that wait here.
    pub waiters: u64,
    /// Clients that are connected.
    pub sessions: u64,
    /// Locks that its clients hold, the first hundred: name, who, fence, since.
    pub held: Vec<Held>,
}

/// A lock that a client of the site holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The lock.
    pub lock: LockName,
    /// Who holds it.
    pub who: Option<ClientLabel>,
    /// The number of the grant.
    pub fence: i64,
    /// For how long.
    pub age: Span,
}
