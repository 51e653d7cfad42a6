//! What nodes say to each other.
//!
//! Two ways lead from node to node. What the algorithms and the census need goes over [links](crate::links): exactly
//! once, in order, between two lives. Everything else may be lost, repeated and reordered, and is asked for again.
//!
//! How a packet becomes bytes, in which version, is the business of the crate `wire`.

use meshlock_protocol::Epoch;
use meshlock_protocol::numbered;
use serde::{Deserialize, Serialize};

use super::questions::{Ask, Question, Reply};
use crate::address::Address;
use crate::founding::ClusterId;
use crate::lease::Renewal;
use crate::links::Frame;
use crate::membership::message::RaftMessage;
use crate::names::{Incarnation, LockName, Member, SiteName};
use crate::rules::RulesText;
use crate::table::{Census, LockMessage};
use crate::time::Span;
use crate::view::View;

/// What one node sends another, with its cluster and the incarnation of the sender. (Which site it is, the connection knows.)
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Packet {
    /// The cluster that sender and receiver belong to.
    pub cluster: ClusterId,
    /// The incarnation of the sender.
    pub incarnation: Incarnation,
    /// What it says.
    pub content: Content,
}

/// What a packet says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// From voter to voter.
    Raft(RaftMessage),
    /// Something on the link to this incarnation of the receiver.
    Link {
        /// The incarnation of the receiver that it is meant for.
        to: Incarnation,
        /// What travels on the link.
        frame: Frame<LinkMessage>,
    },
    /// From a member to the leader: let my lease last longer.
    Renew {
        /// Which of the member's renewals.
        renewal: Renewal,
        /// The view that the member knows.
        epoch: Epoch,
        /// Whom it has not been able to reach for long.
        unreachable: Vec<Member>,
        /// Whether it has a lease now: whether it hears what it is told.
        leased: bool,
        /// Whether a fresh view would let a lock run again that had more holders than permits, or make room for locks.
        drained: bool,
    },
    /// From the leader, which has confirmed that it leads: it does.
    Granted {
        /// The incarnation that asked: a later one counts its renewals from the start again.
        to: Incarnation,
        /// Which renewal.
        renewal: Renewal,
        /// How long the leader takes a lease to be.
        length: Span,
    },
    /// From a site that is not in the view, to the leader: let me in.
    Join {
        /// The view that the site knows.
        epoch: Epoch,
        /// The members that answered it lately.
        reached: Vec<Member>,
        /// Where the site is reached.
        address: Address,
    },
    /// From the leader, which has confirmed that it leads, to a site that wants in: a incarnation as early as this is over.
    TooOld {
        /// The incarnation that asked.
        incarnation: Incarnation,
        /// The last incarnation of its site that took part, or that is refused.
        last: Incarnation,
    },
    /// From a voter that has not voted yet, to another one: write down that this is my disk.
    Register {
        /// The incarnation that wrote to it first.
        disk: Incarnation,
    },
    /// The answer: this is the disk that I have in writing for you.
    Registered {
        /// The incarnation that wrote to it first.
        disk: Incarnation,
    },
    /// From a member, to the leader: I hold nothing and leave.
    Leave,
    /// From any member, to the leader: change the rules, if they have changed so often.
    SetRules {
        /// How often the rules had changed when this was asked for.
        base: u64,
        /// The new ones.
        rules: RulesText,
    },
    /// The answer of a site that does not lead.
    NotLeader {
        /// Who does, as far as it knows.
        leader: Option<SiteName>,
    },
    /// From the leader: what has been agreed on.
    View(View),
    /// Can you hear me?
    Ping,
    /// I can.
    Pong,
    /// From any site of the cluster, for one of its clients.
    Ask {
        /// Which question.
        question: Question,
        /// What is asked.
        ask: Ask,
    },
    /// What the sender knows of it.
    Reply {
        /// Which question it was.
        question: Question,
        /// The reply.
        reply: Reply,
    },
}

numbered! { Content {
    0 => Raft(value),
    1 => Link { to, frame },
    2 => Renew { renewal, epoch, unreachable, leased, drained },
    3 => Granted { to, renewal, length },
    4 => Join { epoch, reached, address },
    5 => TooOld { incarnation, last },
    6 => Register { disk },
    7 => Registered { disk },
    8 => Leave,
    9 => SetRules { base, rules },
    10 => NotLeader { leader },
    11 => View(value),
    12 => Ping,
    13 => Pong,
    14 => Ask { question, ask },
    15 => Reply { question, reply },
} }

/// What travels on links, with the view that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LinkMessage {
    /// The view.
    pub epoch: Epoch,
    /// What is said.
    pub payload: LinkPayload,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LinkPayload {
    /// What my clients hold: one piece of it.
    Census {
        /// Locks that they hold.
        holdings: Census,
        /// Whether this is all, with the pieces before.
        last: bool,
    },
    /// From a machine to a machine.
    Lock(LockMessage),
    /// One of my clients has left this lock, which has more holders than permits.
    Left(LockName),
}

numbered! { LinkPayload {
    0 => Census { holdings, last },
    1 => Lock(value),
    2 => Left(value),
} }

impl Content {
    /// The message of a lock's machine that it brings, if it does.
    pub fn lock_message(&self) -> Option<&LockMessage> {
        let Content::Link { frame: Frame::Data { body, .. }, .. } = self else { return None };
        let LinkPayload::Lock(message) = &body.payload else { return None };
        Some(message)
    }

    /// The same, to be changed.
    pub fn lock_message_mut(&mut self) -> Option<&mut LockMessage> {
        let Content::Link { frame: Frame::Data { body, .. }, .. } = self else { return None };
        let LinkPayload::Lock(message) = &mut body.payload else { return None };
        Some(message)
    }

    /// The name of its kind, for counting.
    pub fn kind(&self) -> &'static str {
        match self {
            Content::Raft(_) => "raft",
            Content::Link { frame: Frame::Ack { .. }, .. } => "link ack",
            Content::Link { frame: Frame::Data { body, .. }, .. } => match body.payload {
                LinkPayload::Census { .. } => "census",
                LinkPayload::Lock(_) => "lock message",
                LinkPayload::Left(_) => "left",
            },
            Content::Renew { .. } => "renew",
            Content::Granted { .. } => "lease granted",
            Content::Join { .. } => "join",
            Content::TooOld { .. } => "too old",
            Content::Register { .. } => "register",
            Content::Registered { .. } => "registered",
            Content::Leave => "leave",
            Content::SetRules { .. } => "set rules",
            Content::NotLeader { .. } => "not leader",
            Content::View(_) => "view",
            Content::Ping => "ping",
            Content::Pong => "pong",
            Content::Ask { .. } => "ask",
            Content::Reply { .. } => "reply",
        }
    }
}
