//! What nodes say to each other.
//!
//! Two ways lead from node to node. What the algorithms and the census need goes over [links](crate::links): exactly
//! once, in order, between two lives. Everything else may be lost, repeated and reordered, and is asked for again.
//!
//! There are two versions of how a packet is written. Version 2 may have, behind a message of a lock's machine, the number of the
//! [cause](crate::cause) that it was sent for; version 1 has nothing there. So whoever reads version 2 reads version 1 too.

use meshlock_protocol::Epoch;
use serde::{Deserialize, Serialize};

use super::questions::{Ask, Question, Reply};
use crate::address::Address;
use crate::cause::Cause;
use crate::founding::ClusterId;
use crate::lease::Renewal;
use crate::links::Frame;
use crate::membership::message::RaftMessage;
use crate::names::{Incarnation, LockName, Member, SiteName};
use crate::rules::RulesText;
use crate::table::{Census, LockMessage};
use crate::time::Span;
use crate::view::View;

/// What one node sends another, with its cluster and the life of the sender. (Which site it is, the connection knows.)
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Packet {
    /// The cluster that sender and receiver belong to.
    pub cluster: ClusterId,
    /// The life of the sender.
    pub incarnation: Incarnation,
    /// What it says.
    pub content: Content,
}

/// Why bytes from the network are not a packet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Longer than anything that a node sends.
    #[error("a packet of {bytes} bytes; at most {} are allowed", Packet::MOST_BYTES)]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// Not in the form of a packet.
    #[error("not a packet: {0}")]
    Malformed(#[from] postcard::Error),
    /// What stands behind a packet is no cause.
    #[error("behind a packet stands a cause that is none")]
    Cause,
    /// A packet, and something behind it.
    #[error("{bytes} bytes behind the end of a packet")]
    Trailing {
        /// How many.
        bytes: usize,
    },
}

/// The lowest and the highest version of the wire that this program speaks.
pub const VERSIONS: (u16, u16) = (1, 2);

/// The first version that carries causes.
const CARRIES_CAUSES: u16 = 2;

impl Packet {
    /// How long a packet may be. The largest are a view of a thousand members and a piece of a census.
    pub const MOST_BYTES: usize = 4 << 20;

    /// As it travels in the newest version.
    pub fn encode(&self) -> Vec<u8> {
        self.append(VERSIONS.1, Vec::new())
    }

    /// Behind `bytes`, as it travels in this version.
    pub fn append(&self, version: u16, bytes: Vec<u8>) -> Vec<u8> {
        let bytes = postcard::to_extend(self, bytes).expect("a packet is plain data");
        match self.content.lock_message().and_then(|message| message.cause) {
            Some(cause) if version >= CARRIES_CAUSES => {
                postcard::to_extend(&cause.number(), bytes).expect("a number is plain data")
            }
            Some(_) | None => bytes,
        }
    }

    /// From what has come over the network in the newest version.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        Packet::decode_as(VERSIONS.1, bytes)
    }

    /// From what has come over the network in this version.
    pub fn decode_as(version: u16, bytes: &[u8]) -> Result<Self, WireError> {
        if bytes.len() > Packet::MOST_BYTES {
            return Err(WireError::TooLong { bytes: bytes.len() });
        }
        let (mut packet, mut rest): (Packet, _) = postcard::take_from_bytes(bytes)?;
        if version >= CARRIES_CAUSES
            && !rest.is_empty()
            && let Some(message) = packet.content.lock_message_mut()
        {
            let (number, behind) = postcard::take_from_bytes(rest)?;
            message.cause = Some(Cause::new(number).ok_or(WireError::Cause)?);
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(WireError::Trailing { bytes: rest.len() });
        }
        Ok(packet)
    }
}

/// What a packet says.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Content {
    /// From voter to voter.
    Raft(RaftMessage),
    /// Something on the link to this life of the receiver.
    Link {
        /// The life of the receiver that it is meant for.
        to: Incarnation,
        /// What travels on the link.
        frame: Frame<Letter>,
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
        /// The life that asked: a later one counts its renewals from the start again.
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
    /// From the leader, which has confirmed that it leads, to a site that wants in: a life as early as this is over.
    TooOld {
        /// The life that asked.
        life: Incarnation,
        /// The last life of its site that took part, or that is refused.
        last: Incarnation,
    },
    /// From a voter that has not voted yet, to another one: write down that this is my disk.
    Register {
        /// The life that wrote to it first.
        disk: Incarnation,
    },
    /// The answer: this is the disk that I have in writing for you.
    Registered {
        /// The life that wrote to it first.
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

/// What travels on links, with the view that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Letter {
    /// The view.
    pub epoch: Epoch,
    /// What is said.
    pub matter: Matter,
}

/// What a letter says.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Matter {
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

impl Content {
    /// The message of a lock's machine that it brings, if it does.
    pub fn lock_message(&self) -> Option<&LockMessage> {
        let Content::Link { frame: Frame::Data { body, .. }, .. } = self else { return None };
        let Matter::Lock(message) = &body.matter else { return None };
        Some(message)
    }

    fn lock_message_mut(&mut self) -> Option<&mut LockMessage> {
        let Content::Link { frame: Frame::Data { body, .. }, .. } = self else { return None };
        let Matter::Lock(message) = &mut body.matter else { return None };
        Some(message)
    }

    /// The name of its kind, for counting.
    pub fn kind(&self) -> &'static str {
        match self {
            Content::Raft(_) => "raft",
            Content::Link { frame: Frame::Ack { .. }, .. } => "link ack",
            Content::Link { frame: Frame::Data { body, .. }, .. } => match body.matter {
                Matter::Census { .. } => "census",
                Matter::Lock(_) => "lock message",
                Matter::Left(_) => "left",
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

/// A packet with a message of a lock's machine, for tests and fuzzers.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn lock_packet(cause: Option<Cause>) -> Packet {
    use meshlock_protocol::algorithms::central;
    use meshlock_protocol::registry::AnyMessage;
    use meshlock_protocol::{Count, FenceClock};

    let message = LockMessage {
        lock: "jobs".parse().expect("a name"),
        from_lane: 0,
        to_lane: 0,
        stamp: FenceClock::new(Epoch::default()).stamp(),
        message: AnyMessage::Central(central::Message::Grant { number: Count::default() }),
        cause,
    };
    let body = Letter { epoch: Epoch::default(), matter: Matter::Lock(message) };
    let frame = Frame::Data { number: 1, ack: 0, body };
    let content = Content::Link { to: Incarnation::new(2), frame };
    let cluster = crate::founding::Founding::new("x".parse().expect("a name"), &[]).id();
    Packet { cluster, incarnation: Incarnation::new(3), content }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_two_carries_causes_and_version_one_does_not() {
        let (with, without) = (lock_packet(Cause::new(7)), lock_packet(None));
        assert_eq!(Packet::decode_as(2, &with.append(2, Vec::new())), Ok(with.clone()));
        assert_eq!(Packet::decode_as(1, &with.append(1, Vec::new())), Ok(without.clone()));
        assert_eq!(with.append(1, Vec::new()), without.append(2, Vec::new()));
        // What was written before it was known to whom.
        assert_eq!(Packet::decode_as(2, &with.append(1, Vec::new())), Ok(without));
    }

    #[test]
    fn what_is_no_cause_is_refused_and_version_one_knows_none() {
        let bytes = lock_packet(Cause::new(7)).append(2, Vec::new());
        assert_eq!(Packet::decode_as(1, &bytes), Err(WireError::Trailing { bytes: 1 }));
        let mut zero = bytes.clone();
        *zero.last_mut().unwrap() = 0;
        assert_eq!(Packet::decode_as(2, &zero), Err(WireError::Cause));
        let more = [bytes.as_slice(), &[1]].concat();
        assert_eq!(Packet::decode_as(2, &more), Err(WireError::Trailing { bytes: 1 }));
        let endless = [&bytes[..bytes.len() - 1], &[0xff; 11]].concat();
        assert!(matches!(Packet::decode_as(2, &endless), Err(WireError::Malformed(_))));
    }
}
