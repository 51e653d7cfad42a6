//! The packets that nodes send each other.
//!
//! There are two ways from node to node. The messages of the algorithms and the census go over [links](crate::links):
//! exactly once, in order, between two incarnations. Everything else may be lost, repeated and reordered, and is asked
//! for again.
//!
//! The crate `wire` defines how a packet becomes bytes, in which version.

use meshlock_protocol::Epoch;
use meshlock_protocol::numbered;

use super::agreed_access::AccessRefusal;
use super::attendance::Absence;
use super::autopilot::{Claim, VoterRefusal};
use super::questions::{PeerQuestion, PeerReply, QuestionId};
use crate::access::{AccessDocument, AgreedAccess, ShownToken};
use crate::address::Address;
use crate::founding::ClusterId;
use crate::lease::Renewal;
use crate::links::Frame;
use crate::membership::message::RaftMessage;
use crate::membership::voters::Voters;
use crate::names::{Incarnation, LockName, Member, SiteName};
use crate::report::{SiteQueue, VoterRequest};
use crate::rules::RulesText;
use crate::table::{CensusPiece, LockMessage, PermitsOf};
use crate::time::{Span, Time};
use crate::view::View;

/// A packet from one node to another, with the cluster and the sender's incarnation. (The connection knows which site
/// it is.)
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    pub cluster: ClusterId,
    /// The incarnation of the sender.
    pub incarnation: Incarnation,
    pub route: Route,
    pub content: Content,
}

impl Packet {
    /// Returns a packet that goes directly to its receiver.
    pub fn direct(cluster: ClusterId, incarnation: Incarnation, content: Content) -> Self {
        Packet { cluster, incarnation, route: Route::Direct, content }
    }

    /// Returns the incarnation of the site at the other end of the connection, if the packet says it: one that was carried
    /// names the incarnation of the site that it comes from.
    pub fn incarnation_of_neighbour(&self) -> Option<Incarnation> {
        match self.route {
            Route::Direct | Route::To(_) => Some(self.incarnation),
            Route::From(_) => None,
        }
    }
}

/// The way of a packet from its sender to its receiver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// Over their own connection.
    Direct,
    /// To a carrier, which is to pass it on to this site. Versions 1 and 2 do not have it.
    To(SiteName),
    /// From a carrier, for this site. Versions 1 and 2 do not have it.
    From(SiteName),
}

/// How a site has heard another one lately.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Hearing {
    /// Over their own connection.
    Directly,
    /// Only through this carrier.
    Through(SiteName),
    /// Not at all.
    Nothing,
}

numbered! { Hearing {
    0 => Directly,
    1 => Through(carrier),
    2 => Nothing,
} }

/// The content of a packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// From voter to voter.
    Raft(RaftMessage),
    /// A frame on the link to this incarnation of the receiver.
    Link {
        /// The incarnation of the receiver that it is meant for.
        to: Incarnation,
        frame: Frame<LinkPayload>,
    },
    /// From a member to the leader: renew my lease.
    Renew {
        renewal: Renewal,
        /// The view that the member has installed.
        epoch: Epoch,
        /// The members that it has not been able to reach for a long time.
        unreachable: Vec<Member>,
        /// Whether it has a lease now, which shows whether it receives what it is sent.
        leased: bool,
        /// Whether a fresh view would let a lock run again that had more holders than permits, or make room for locks.
        drained: bool,
    },
    /// From the leader, after it has confirmed that it leads: the renewal is granted.
    Granted {
        /// The incarnation that asked: a later one counts its renewals from the start again.
        to: Incarnation,
        renewal: Renewal,
        /// The length of a lease by the leader's terms.
        length: Span,
    },
    /// From a site that is not in the view to the leader: let me join.
    Join {
        /// The view that the site has installed.
        epoch: Epoch,
        /// The members that answered it recently.
        reached: Vec<Member>,
        /// The site's own address.
        address: Address,
    },
    /// From the leader, after it has confirmed that it leads, to a site that asks to join: this incarnation is too old.
    ///
    /// If `last` is below `incarnation`, from any site to the two processes that use one name: `last` takes part, the other one is refused
    /// (`rival.rs`).
    TooOld {
        /// The incarnation that asked.
        incarnation: Incarnation,
        /// The last incarnation of its site that took part, or that is refused.
        last: Incarnation,
    },
    /// From a voter that has not voted yet to another one: record that this is my disk.
    Register {
        /// The first incarnation that wrote to it.
        disk: Incarnation,
    },
    /// Answer to [`Register`](Self::Register): the disk that is recorded for you.
    Registered {
        /// The first incarnation that wrote to it.
        disk: Incarnation,
    },
    /// From a member to the leader: I hold nothing and leave.
    Leave,
    /// From any member to the leader. Compare-and-set: replaces the rules if their version is still `base`.
    SetRules {
        /// The version of the rules that the request is based on.
        base: u64,
        rules: RulesText,
    },
    /// The answer of a site that does not lead.
    NotLeader {
        /// The leader, as far as the sender knows.
        leader: Option<SiteName>,
    },
    /// From the leader: the view that has been agreed on.
    View(View),
    /// Asks for a [`Pong`](Self::Pong), to test the connection.
    Ping,
    /// Answer to [`Ping`](Self::Ping).
    Pong,
    /// A question of any site of the cluster, on behalf of one of its clients.
    Ask { question: QuestionId, ask: PeerQuestion },
    /// The answer to a question.
    Reply { question: QuestionId, reply: PeerReply },
    /// Between two members that suspect their connection: how the sender hears the receiver. Versions 1 and 2 do not
    /// have it.
    Beat {
        /// When it was sent, by the sender's clock: the same beat may come several times, by different ways.
        sent: Time,
        hearing: Hearing,
    },
    /// From any site that knows it: who votes. Versions 1 to 3 do not have it, nor what follows.
    Voters(Voters),
    /// From a member to the leader, beside its request for a renewal: what the leader must know of it before it can vote.
    Claim(Claim),
    /// From a member to the leader, beside its claim, while first voters are not bound to disks: the disks with which they have
    /// registered at the sender. Versions before 6 do not have it.
    Recorded(Vec<(SiteName, Incarnation)>),
    /// From any member to the leader: change who votes.
    ChangeVoters(VoterRequest),
    /// The leader's answer to [`ChangeVoters`](Self::ChangeVoters), when it is done or refused.
    VotersChanged { request: VoterRequest, refused: Option<VoterRefusal> },
    /// From the leader: which voters are not there although their sites are members. Versions 1 to 4 do not have it.
    Absent(Absence),
    /// Like [`Join`](Self::Join), from a site that has a join token. Versions 1 to 4 do not have it, nor what follows.
    JoinWithToken {
        /// The view that the site has installed.
        epoch: Epoch,
        /// The members that answered it recently.
        reached: Vec<Member>,
        /// The site's own address.
        address: Address,
        /// The token itself: only voters are sent it, and they keep its hash.
        token: ShownToken,
    },
    /// From the leader to a site that may not take part, or that asks for a document that cannot be.
    AccessRefused {
        /// The incarnation that asked.
        to: Incarnation,
        why: AccessRefusal,
    },
    /// From the leader: the access document that has been agreed on.
    Access(AgreedAccess),
    /// The version of the document that the sender knows: from a member to the leader, beside its request for a renewal if there is a
    /// document; or from the leader, which `asks` a member whether its program knows such documents.
    AccessKnown { version: u64, asks: bool },
    /// From any member to the leader. Compare-and-set: replaces the document if its version is still `base`.
    SetAccess {
        /// The version of the document that the request is based on.
        base: u64,
        document: AccessDocument,
    },
    /// A call of the sender's client, which the receiver is to execute (`calls.rs`). Versions 1 to 5 do not have it, nor what follows.
    Call {
        /// The incarnation of the receiver that it is meant for.
        to: Incarnation,
        number: u64,
        body: Vec<u8>,
    },
    /// The answer to a [`Call`](Self::Call) of this incarnation.
    CallAnswer {
        /// The incarnation that has forwarded the call.
        to: Incarnation,
        number: u64,
        body: Vec<u8>,
    },
    /// From the site that has forwarded a call: it wants no answer any more.
    CallEnded {
        /// The incarnation of the receiver that it is meant for.
        to: Incarnation,
        number: u64,
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
    // 16 and 17 stand before the content of a carried packet (the crate `wire`).
    18 => Beat { sent, hearing },
    19 => Voters(value),
    20 => Claim(value),
    21 => ChangeVoters(value),
    22 => VotersChanged { request, refused },
    23 => Absent(value),
    25 => JoinWithToken { epoch, reached, address, token },
    26 => AccessRefused { to, why },
    27 => Access(value),
    28 => AccessKnown { version, asks },
    29 => SetAccess { base, document },
    30 => Call { to, number, body },
    31 => CallAnswer { to, number, body },
    32 => CallEnded { to, number },
    33 => Recorded(value),
} }

/// A message on a link. Its [`Frame`] says which view it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LinkPayload {
    /// One piece of the census: what the sender's clients hold.
    Census(CensusPiece),
    /// From a machine to a machine.
    Lock(LockMessage),
    /// One of the sender's clients has left this lock, which has more holders than permits.
    Left(LockName),
    /// About a lock whose permits its home hands out. Versions 1 and 2 do not have it.
    Permits(PermitsOf),
}

numbered! { LinkPayload {
    0 => Census(value),
    1 => Lock(value),
    2 => Left(value),
    3 => Permits(value),
} }

impl Content {
    /// Returns the message of a lock's machine in the packet, if there is one.
    pub fn lock_message(&self) -> Option<&LockMessage> {
        let Content::Link { frame: Frame::Data { body: LinkPayload::Lock(message), .. }, .. } = self else {
            return None;
        };
        Some(message)
    }

    /// Returns the message of a lock's machine in the packet mutably, if there is one.
    pub fn lock_message_mut(&mut self) -> Option<&mut LockMessage> {
        let Content::Link { frame: Frame::Data { body: LinkPayload::Lock(message), .. }, .. } = self else {
            return None;
        };
        Some(message)
    }

    /// Returns the piece of a census in the packet, if there is one.
    pub fn census_piece(&self) -> Option<&CensusPiece> {
        let Content::Link { frame: Frame::Data { body: LinkPayload::Census(piece), .. }, .. } = self else {
            return None;
        };
        Some(piece)
    }

    /// Returns the piece of a census in the packet mutably, if there is one.
    pub fn census_piece_mut(&mut self) -> Option<&mut CensusPiece> {
        let Content::Link { frame: Frame::Data { body: LinkPayload::Census(piece), .. }, .. } = self else {
            return None;
        };
        Some(piece)
    }

    /// Returns the report about a lock in the packet, if there is one.
    pub fn queue_report(&self) -> Option<&SiteQueue> {
        let Content::Reply { reply: PeerReply::Queue(queue), .. } = self else { return None };
        Some(queue)
    }

    /// Returns the report about a lock in the packet mutably, if there is one.
    pub fn queue_report_mut(&mut self) -> Option<&mut SiteQueue> {
        let Content::Reply { reply: PeerReply::Queue(queue), .. } = self else { return None };
        Some(queue)
    }

    /// Returns whether the packet has a message about permits.
    pub fn is_about_permits(&self) -> bool {
        matches!(self, Content::Link { frame: Frame::Data { body: LinkPayload::Permits(_), .. }, .. })
    }

    /// Returns whether the packet's content is a beat.
    pub fn is_beat(&self) -> bool {
        matches!(self, Content::Beat { .. })
    }

    /// Returns the message of a voter in the packet, if there is one.
    pub fn raft_message(&self) -> Option<&RaftMessage> {
        if let Content::Raft(message) = self { Some(message) } else { None }
    }

    /// Returns the message of a voter in the packet mutably, if there is one.
    pub fn raft_message_mut(&mut self) -> Option<&mut RaftMessage> {
        if let Content::Raft(message) = self { Some(message) } else { None }
    }

    /// Returns whether only a program can read it that knows changes of voters.
    pub fn is_about_voters(&self) -> bool {
        matches!(
            self,
            Content::Voters(_)
                | Content::Claim(_)
                | Content::Recorded(_)
                | Content::ChangeVoters(_)
                | Content::VotersChanged { .. }
        ) || self.raft_message().is_some_and(|message| !message.is_for_first_voters())
    }

    /// Returns whether the packet says which disks of first voters are recorded.
    pub fn is_records(&self) -> bool {
        matches!(self, Content::Recorded(_))
    }

    /// Returns whether the packet says which voters are not there.
    pub fn is_absence(&self) -> bool {
        matches!(self, Content::Absent(_))
    }

    /// Returns whether only a program can read it that knows the access document.
    pub fn is_about_access(&self) -> bool {
        matches!(
            self,
            Content::JoinWithToken { .. }
                | Content::AccessRefused { .. }
                | Content::Access(_)
                | Content::AccessKnown { .. }
                | Content::SetAccess { .. }
        ) || self.raft_message().is_some_and(RaftMessage::is_about_access)
    }

    /// Returns whether the packet is about a forwarded call.
    pub fn is_about_calls(&self) -> bool {
        matches!(self, Content::Call { .. } | Content::CallAnswer { .. } | Content::CallEnded { .. })
    }

    /// Returns the name of its kind, for counting.
    pub fn kind(&self) -> &'static str {
        match self {
            Content::Raft(_) => "raft",
            Content::Link { frame: Frame::Ack { .. }, .. } => "link ack",
            Content::Link { frame: Frame::Data { body, .. }, .. } => match body {
                LinkPayload::Census(_) => "census",
                LinkPayload::Lock(_) => "lock message",
                LinkPayload::Left(_) => "left",
                LinkPayload::Permits(_) => "permits",
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
            Content::Beat { .. } => "beat",
            Content::Voters(_) => "voters",
            Content::Claim(_) => "claim",
            Content::Recorded(_) => "recorded disks",
            Content::ChangeVoters(_) => "change voters",
            Content::VotersChanged { .. } => "voters changed",
            Content::Absent(_) => "absent voters",
            Content::JoinWithToken { .. } => "join with token",
            Content::AccessRefused { .. } => "access refused",
            Content::Access(_) => "access",
            Content::AccessKnown { .. } => "access known",
            Content::SetAccess { .. } => "set access",
            Content::Call { .. } => "call",
            Content::CallAnswer { .. } => "call answer",
            Content::CallEnded { .. } => "call ended",
        }
    }
}
