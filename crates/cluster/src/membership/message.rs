//! The messages between voters, as a type of our own.
//!
//! The `raft` crate has one large message type whose fields change their meaning with its kind, in a format whose
//! decoder recurses as deep as the sender likes. On the wire and on disk we use this mirror of it: bounded, typed, and
//! without the kinds that a correct voter never sends.

use meshlock_protocol::numbered;
use raft::eraftpb;
use serde::{Deserialize, Serialize};

use super::access;
use super::disk::{LogEntry, Saved};
use super::voters::{VoterChange, Voters};
use crate::access::AgreedAccess;
use crate::names::Incarnation;

/// The kinds of messages that voters send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RaftKind {
    /// From the leader: append these entries.
    Append,
    /// Answer to [`Append`](Self::Append): done, or rejected because the logs differ.
    AppendResponse,
    /// From a candidate: vote for me.
    RequestVote,
    /// Answer to [`RequestVote`](Self::RequestVote): granted or rejected.
    RequestVoteResponse,
    /// From a voter that is about to become a candidate: would you vote for me?
    RequestPreVote,
    /// Answer to [`RequestPreVote`](Self::RequestPreVote): yes or no.
    RequestPreVoteResponse,
    /// From the leader to a voter whose log is too far behind: the state itself.
    Snapshot,
    /// From the leader: I still lead.
    Heartbeat,
    /// Answer to [`Heartbeat`](Self::Heartbeat).
    HeartbeatResponse,
}

numbered! { RaftKind {
    0 => Append,
    1 => AppendResponse,
    2 => RequestVote,
    3 => RequestVoteResponse,
    4 => RequestPreVote,
    5 => RequestPreVoteResponse,
    6 => Snapshot,
    7 => Heartbeat,
    8 => HeartbeatResponse,
} }

const KINDS: [(RaftKind, eraftpb::MessageType); 9] = [
    (RaftKind::Append, eraftpb::MessageType::MsgAppend),
    (RaftKind::AppendResponse, eraftpb::MessageType::MsgAppendResponse),
    (RaftKind::RequestVote, eraftpb::MessageType::MsgRequestVote),
    (RaftKind::RequestVoteResponse, eraftpb::MessageType::MsgRequestVoteResponse),
    (RaftKind::RequestPreVote, eraftpb::MessageType::MsgRequestPreVote),
    (RaftKind::RequestPreVoteResponse, eraftpb::MessageType::MsgRequestPreVoteResponse),
    (RaftKind::Snapshot, eraftpb::MessageType::MsgSnapshot),
    (RaftKind::Heartbeat, eraftpb::MessageType::MsgHeartbeat),
    (RaftKind::HeartbeatResponse, eraftpb::MessageType::MsgHeartbeatResponse),
];

/// The voters between which a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ends {
    /// The id of the sender.
    pub from: u64,
    /// The id of the receiver.
    pub to: u64,
    /// The receiver's disk, if the sender knows it: a site that was just admitted learns from it that the id is its own.
    pub disk: Option<Incarnation>,
}

/// A message from one voter to another. The fields have the meaning that they have in the `raft` crate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RaftMessage {
    pub kind: RaftKind,
    pub term: u64,
    /// The term of the entry before the first one.
    pub log_term: u64,
    /// The index of the entry before the first one, or the one that is answered.
    pub index: u64,
    pub entries: Vec<LogEntry>,
    /// The sender's commit index, as far as the receiver may know it.
    pub commit: u64,
    pub commit_term: u64,
    /// The state, for a voter that is too far behind.
    pub snapshot: Option<Box<Saved>>,
    /// Whether a request is rejected.
    pub reject: bool,
    /// The highest index at which the logs may agree.
    pub reject_hint: u64,
    /// The round of leadership confirmation that a heartbeat belongs to, and what voters say with heartbeats and votes
    /// (`node/inheritance.rs`).
    pub context: Vec<u8>,
    /// The voters between which it goes; `None` if both are first voters and have their places in the list of the founding. (It is sent
    /// beside the rest, because older programs do not know it.)
    #[serde(skip)]
    pub ends: Option<Ends>,
}

/// The messages of Raft with which voters say something about leases, in the context (`node/inheritance.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Annotated {
    /// A heartbeat of a round of confirmation: its context begins with the round's number, and whose renewals the round is for follows.
    Round,
    /// The answer to a heartbeat: the round's number at most.
    RoundAnswer,
    /// A vote for the receiver: how long ago rounds were for which members.
    Vote,
}

/// Length of a round's number in the context of its heartbeats.
pub(crate) const ROUND_BYTES: usize = 8;

impl RaftMessage {
    /// Returns what voters say with it, if it is one of the messages with which they say something.
    pub(crate) fn annotated(&self) -> Option<Annotated> {
        match self.kind {
            RaftKind::Heartbeat => (self.context.len() >= ROUND_BYTES).then_some(Annotated::Round),
            RaftKind::HeartbeatResponse => Some(Annotated::RoundAnswer),
            RaftKind::RequestVoteResponse => (!self.reject).then_some(Annotated::Vote),
            RaftKind::Append
            | RaftKind::AppendResponse
            | RaftKind::RequestVote
            | RaftKind::RequestPreVote
            | RaftKind::RequestPreVoteResponse
            | RaftKind::Snapshot => None,
        }
    }

    /// Removes what voters say about leases: so older programs send it.
    pub fn remove_annotation(&mut self) {
        match self.annotated() {
            Some(Annotated::Round | Annotated::RoundAnswer) => self.context.truncate(ROUND_BYTES),
            Some(Annotated::Vote) => self.context.clear(),
            None => {}
        }
    }

    /// Returns whether a program can read it that knows only the first voters.
    pub fn is_for_first_voters(&self) -> bool {
        let changes = self.entries.iter().any(|entry| VoterChange::is_change(&entry.data));
        self.ends.is_none() && !changes && self.voters().is_none()
    }

    /// Returns whether it has an access document, which older programs do not know.
    pub fn is_about_access(&self) -> bool {
        self.access().is_some() || self.entries.iter().any(|entry| access::is_access(&entry.data))
    }

    /// Returns the access document of the snapshot in it, if there is one.
    pub fn access(&self) -> Option<&AgreedAccess> {
        self.snapshot.as_ref()?.access.as_ref()
    }

    /// Sets the access document of the snapshot in it.
    pub fn set_access(&mut self, access: AgreedAccess) {
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.access = Some(access);
        }
    }

    /// Returns who votes by the snapshot in it, if anything has changed since the founding.
    pub fn voters(&self) -> Option<&Voters> {
        self.snapshot.as_ref()?.voters.as_ref()
    }

    /// Sets what older programs do not know.
    pub fn set_beside(&mut self, ends: Option<Ends>, voters: Option<Voters>) {
        self.ends = ends;
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.voters = voters;
        }
    }

    /// Converts a message of the `raft` crate; returns `None` for kinds that never leave a site.
    pub(super) fn from_raft(mut message: eraftpb::Message) -> Option<Self> {
        let (kind, _) = KINDS.into_iter().find(|(_, theirs)| *theirs == message.get_msg_type())?;
        let snapshot = if kind == RaftKind::Snapshot {
            Some(Box::new(Saved::from_raft(message.get_snapshot())?))
        } else {
            None
        };
        Some(RaftMessage {
            kind,
            term: message.term,
            log_term: message.log_term,
            index: message.index,
            entries: message.take_entries().into_iter().map(LogEntry::from_raft).collect(),
            commit: message.commit,
            commit_term: message.commit_term,
            snapshot,
            reject: message.reject,
            reject_hint: message.reject_hint,
            context: message.context.to_vec(),
            ends: None,
        })
    }

    /// Converts to a message of the `raft` crate, with the ids that the two sites have there; `founding` are the first voters.
    pub(super) fn into_raft(self, from: u64, to: u64, founding: &Voters) -> eraftpb::Message {
        let mut message = eraftpb::Message::default();
        let (_, kind) = KINDS.into_iter().find(|(ours, _)| *ours == self.kind).expect("every kind is listed");
        message.set_msg_type(kind);
        message.from = from;
        message.to = to;
        message.term = self.term;
        message.log_term = self.log_term;
        message.index = self.index;
        message.set_entries(self.entries.into_iter().map(LogEntry::into_raft).collect());
        message.commit = self.commit;
        message.commit_term = self.commit_term;
        message.reject = self.reject;
        message.reject_hint = self.reject_hint;
        message.context = self.context.into();
        if let Some(saved) = self.snapshot {
            message.set_snapshot(saved.to_raft(founding));
        }
        message
    }
}
