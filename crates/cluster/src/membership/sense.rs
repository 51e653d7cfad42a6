//! Whether what a voter says can come from a correct one. The `raft` crate takes that for granted, and panics where it is not so.
//!
//! A voter that lies well can still make the others agree on nonsense: that is what its certificate is for.

use raft::{Raft, RaftLog, StateRole, Storage};

use super::message::{Kind, RaftMessage};

/// No term, and no log, gets this far: there is room to count on from there.
const FARTHEST: u64 = u64::MAX >> 1;

/// Says what is wrong with a message to this voter.
pub(super) fn check<S: Storage>(message: &RaftMessage, voter: &Raft<S>) -> Result<(), &'static str> {
    let log = &voter.raft_log;
    let snapshot = message.snapshot.as_ref();
    let numbers = [message.term, message.index, message.commit, message.log_term];
    let of_snapshot = snapshot.map_or([0; 2], |saved| [saved.index, saved.term]);
    if numbers.into_iter().chain(of_snapshot).any(|number| number > FARTHEST) {
        return Err("a message from farther than any vote can have come");
    }
    if message.term == 0 {
        return Err("a message without a term");
    }
    if (message.kind == Kind::Snapshot) != snapshot.is_some() {
        return Err("a snapshot message without its snapshot, or another one with it");
    }
    if snapshot.is_some_and(|saved| saved.term > message.term || saved.term == 0 || saved.index == 0) {
        return Err("a snapshot of nothing, or of a later term than its sender's");
    }
    if message.term < voter.term {
        // Late, and not listened to: what it says of the log was so once.
        return Ok(());
    }
    match message.kind {
        Kind::Heartbeat if message.commit > log.last_index() => {
            Err("a heartbeat that commits what was never sent here")
        }
        // Who does not lead any more may have sent more than its disk has kept.
        Kind::AppendResponse
            if voter.state == StateRole::Leader && !message.reject && message.index > log.last_index() =>
        {
            Err("a voter that has what was never sent to it")
        }
        Kind::Append => check_entries(message, log),
        Kind::AppendResponse
        | Kind::RequestVote
        | Kind::RequestVoteResponse
        | Kind::RequestPreVote
        | Kind::RequestPreVoteResponse
        | Kind::Snapshot
        | Kind::Heartbeat
        | Kind::HeartbeatResponse => Ok(()),
    }
}

/// Entries follow the one that they are said to follow, and do not contradict what was agreed on.
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
