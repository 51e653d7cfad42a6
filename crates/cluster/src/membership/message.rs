//! What voters say to each other, as a type of our own.
//!
//! The `raft` crate has one fat message whose fields change meaning with its kind, in a format whose reader recurses as
//! deep as the sender likes. On the wire and on disk we use this mirror of it: bounded, typed, and without the kinds
//! that a correct voter never sends.

use meshlock_protocol::numbered;
use raft::eraftpb;
use serde::{Deserialize, Serialize};

use super::disk::{LogEntry, Saved};

/// The kinds that voters send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// From the leader: append these entries.
    Append,
    /// Done, or not: my log differs.
    AppendResponse,
    /// From a candidate: vote for me.
    RequestVote,
    /// Here is my vote, or not.
    RequestVoteResponse,
    /// From a candidate to be: would you vote for me?
    RequestPreVote,
    /// I would, or not.
    RequestPreVoteResponse,
    /// From the leader, to one whose log is too far behind: the state itself.
    Snapshot,
    /// From the leader: I still lead.
    Heartbeat,
    /// You do.
    HeartbeatResponse,
}

numbered! { Kind {
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

const KINDS: [(Kind, eraftpb::MessageType); 9] = [
    (Kind::Append, eraftpb::MessageType::MsgAppend),
    (Kind::AppendResponse, eraftpb::MessageType::MsgAppendResponse),
    (Kind::RequestVote, eraftpb::MessageType::MsgRequestVote),
    (Kind::RequestVoteResponse, eraftpb::MessageType::MsgRequestVoteResponse),
    (Kind::RequestPreVote, eraftpb::MessageType::MsgRequestPreVote),
    (Kind::RequestPreVoteResponse, eraftpb::MessageType::MsgRequestPreVoteResponse),
    (Kind::Snapshot, eraftpb::MessageType::MsgSnapshot),
    (Kind::Heartbeat, eraftpb::MessageType::MsgHeartbeat),
    (Kind::HeartbeatResponse, eraftpb::MessageType::MsgHeartbeatResponse),
];

/// What one voter tells another. The fields mean what they mean in the `raft` crate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RaftMessage {
    /// Which kind.
    pub kind: Kind,
    /// The sender's term.
    pub term: u64,
    /// The term of the entry before the first one.
    pub log_term: u64,
    /// The index of the entry before the first one, or the one that is answered.
    pub index: u64,
    /// Entries to append.
    pub entries: Vec<LogEntry>,
    /// Up to where the sender has committed, as far as the receiver may know.
    pub commit: u64,
    /// The term of that.
    pub commit_term: u64,
    /// The state, for one that is too far behind.
    pub snapshot: Option<Box<Saved>>,
    /// Whether the answer is no.
    pub reject: bool,
    /// Where the logs may agree.
    pub reject_hint: u64,
    /// Which confirmation of leadership a heartbeat belongs to.
    pub context: Vec<u8>,
}

impl RaftMessage {
    /// From what the `raft` crate wants sent; nothing for kinds that never leave a site.
    pub(super) fn from_raft(mut message: eraftpb::Message) -> Option<Self> {
        let (kind, _) = KINDS.into_iter().find(|(_, theirs)| *theirs == message.get_msg_type())?;
        let snapshot = if kind == Kind::Snapshot {
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
        })
    }

    /// For the `raft` crate, with the ids that the two sites have there; `voters` is how many there are.
    pub(super) fn into_raft(self, from: u64, to: u64, voters: usize) -> eraftpb::Message {
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
            message.set_snapshot(saved.to_raft(voters));
        }
        message
    }
}
