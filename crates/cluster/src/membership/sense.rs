//! Plausibility checks of voters' messages. The `raft` crate takes correct voters for granted, and panics where they
//! are not.
//!
//! A voter that lies consistently can still make the others agree on nonsense; only its certificate protects against
//! that.

use raft::{Raft, RaftLog, StateRole, Storage};

use super::message::{RaftKind, RaftMessage};

/// Upper bound for terms and log indexes: there is room to count on from there.
const MAX_INDEX: u64 = u64::MAX >> 1;

/// Why a message cannot be handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Implausible {
    /// No correct voter sends it.
    Peer(&'static str),
    /// A correct voter sends it if this voter's own disk lacks what this voter has confirmed before.
    OwnDiskIsOld,
}

impl From<&'static str> for Implausible {
    fn from(why: &'static str) -> Self {
        Implausible::Peer(why)
    }
}

/// Checks a message to this voter.
pub(super) fn check<S: Storage>(message: &RaftMessage, voter: &Raft<S>) -> Result<(), Implausible> {
    // A leader commits at a voter only what that voter has confirmed to have on its disk.
    if message.kind == RaftKind::Heartbeat
        && message.term >= voter.term
        && (voter.raft_log.last_index() + 1..=MAX_INDEX).contains(&message.commit)
    {
        return Err(Implausible::OwnDiskIsOld);
    }
    Ok(check_peer(message, voter)?)
}

/// Checks that a correct voter could have sent the message, and returns what is wrong with it.
fn check_peer<S: Storage>(message: &RaftMessage, voter: &Raft<S>) -> Result<(), &'static str> {
    let log = &voter.raft_log;
    let snapshot = message.snapshot.as_ref();
    let numbers = [message.term, message.index, message.commit, message.log_term];
    let of_snapshot = snapshot.map_or([0; 2], |saved| [saved.index, saved.term]);
    if numbers.into_iter().chain(of_snapshot).any(|number| number > MAX_INDEX) {
        return Err("a term or an index beyond any that votes can reach");
    }
    if message.term == 0 {
        return Err("a message without a term");
    }
    if (message.kind == RaftKind::Snapshot) != snapshot.is_some() {
        return Err("a snapshot message without its snapshot, or another one with it");
    }
    if snapshot.is_some_and(|saved| saved.term > message.term || saved.term == 0 || saved.index == 0) {
        return Err("a snapshot of nothing, or of a later term than its sender's");
    }
    if message.voters().is_some_and(|voters| !voters.is_well_formed()) {
        return Err("a snapshot with voters that cannot be");
    }
    if message.access().is_some_and(|access| !access.is_well_formed()) {
        return Err("a snapshot with an access document that cannot be");
    }
    if message.term < voter.term {
        // A late message has no effect: what it says about the log was true once.
        return Ok(());
    }
    match message.kind {
        // A former leader may have sent more than its own disk has kept.
        RaftKind::AppendResponse
            if voter.state == StateRole::Leader && !message.reject && message.index > log.last_index() =>
        {
            Err("a voter that has what was never sent to it")
        }
        RaftKind::Append => check_entries(message, log),
        RaftKind::AppendResponse
        | RaftKind::RequestVote
        | RaftKind::RequestVoteResponse
        | RaftKind::RequestPreVote
        | RaftKind::RequestPreVoteResponse
        | RaftKind::Snapshot
        | RaftKind::Heartbeat
        | RaftKind::HeartbeatResponse => Ok(()),
    }
}

/// Checks that entries follow the one that they are said to follow, and do not contradict committed entries.
fn check_entries<S: Storage>(message: &RaftMessage, log: &RaftLog<S>) -> Result<(), &'static str> {
    let (mut index, mut term) = (message.index, message.log_term);
    for entry in &message.entries {
        index += 1;
        if entry.index != index || entry.term < term || entry.term > message.term {
            return Err("entries of a log that no leader can have");
        }
        term = entry.term;
        let agreed = index <= log.committed && index >= log.first_index();
        if agreed && !log.match_term(index, term) {
            return Err("entries that contradict what was agreed on");
        }
    }
    Ok(())
}
