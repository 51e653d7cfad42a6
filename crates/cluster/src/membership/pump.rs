//! Carries out what the `raft` crate asks for: writes, then messages, then what is committed.

use raft::{SnapshotStatus, eraftpb};

use super::disk::{self, Ballot, DiskWrite, LogEntry, Saved};
use super::message::{Ends, RaftMessage};
use super::voters::VoterChange;
use super::writing::Batch;
use super::{Membership, MembershipOutput, RaftToken, Round, access};
use crate::mutant::{self, Mutant};

impl Membership {
    /// Finishes a batch that the disk has, and all before it. A snapshot in it counts as applied from now on.
    pub(super) fn on_written(&mut self, done: Batch, out: &mut Vec<MembershipOutput>) {
        self.raw.on_persist_ready(done.number);
        if let Some(index) = done.installs {
            self.raw.advance_apply_to(index);
        }
        self.send(done.then_send, out);
    }

    /// Carries out what the `raft` crate asks for, until it asks for nothing more.
    pub(super) fn pump(&mut self, out: &mut Vec<MembershipOutput>) {
        self.on_new_role();
        while self.raw.has_ready() {
            let mut ready = self.raw.ready();
            let messages = ready.take_messages();
            let of_state =
                |message: &&eraftpb::Message| message.get_msg_type() == eraftpb::MessageType::MsgSnapshot;
            let sent_state: Vec<u64> = messages.iter().filter(of_state).map(|message| message.to).collect();
            self.send(messages, out);
            let writes = self.store(&ready, out);
            let (number, must_sync) = (ready.number(), ready.must_sync());
            let mut then_send = ready.take_persisted_messages();
            if mutant::is_on(Mutant::SendBeforePersist) {
                self.send(std::mem::take(&mut then_send), out);
            }
            let installs = Some(ready.snapshot()).filter(|snapshot| !snapshot.is_empty());
            let installs = installs.map(|snapshot| snapshot.get_metadata().index);
            let committed = ready.take_committed_entries();
            for read in ready.take_read_states() {
                let round = read.request_ctx.as_slice().try_into().map(u64::from_be_bytes);
                let round = Round(round.expect("this site's own context"));
                self.confirmed.push_back((read.index, round));
            }
            self.raw.advance_append_async(ready);
            self.lazy.extend(writes);
            if must_sync {
                let writes = std::mem::take(&mut self.lazy);
                out.push(MembershipOutput::Persist { token: RaftToken(number), writes });
            }
            let batch = Batch { number, needs_disk: must_sync, installs, then_send };
            if must_sync || !self.writing.is_empty() {
                self.writing.push(batch);
            } else {
                self.on_written(batch, out);
            }
            self.apply(committed, out);
            for to in sent_state {
                // Nobody reports whether the snapshot arrives, and until somebody does the leader sends that voter
                // nothing more. So it counts as arrived; if it has not, the voter's answer to the next message shows
                // that.
                self.raw.report_snapshot(to, SnapshotStatus::Finish);
            }
        }
        self.report_confirmed(out);
    }

    /// Brings the mirror up to date and returns the writes that bring the disk up to date.
    fn store(&mut self, ready: &raft::Ready, out: &mut Vec<MembershipOutput>) -> Vec<DiskWrite> {
        let mut writes = Vec::new();
        if let Some(saved) = Some(ready.snapshot()).filter(|snapshot| !snapshot.is_empty()) {
            let saved = Saved::from_raft(saved).expect("checked when it was received");
            self.on_applied(saved.index);
            let voters = saved.voters(&self.raw.store().founding).clone();
            self.on_voters(voters, out);
            if let Some(access) = saved.access.clone() {
                self.on_access(access, out);
            }
            if saved.view.epoch > self.view.epoch {
                self.view = saved.view.clone();
                out.push(MembershipOutput::Agreed(self.view.clone()));
            }
            writes.push(DiskWrite::Install(saved));
        }
        if !ready.entries().is_empty() {
            writes
                .push(DiskWrite::Append(ready.entries().iter().cloned().map(LogEntry::from_raft).collect()));
        }
        if let Some(hard) = ready.hs() {
            writes.push(DiskWrite::Ballot(Ballot { term: hard.term, vote: hard.vote, commit: hard.commit }));
        }
        for write in &writes {
            self.raw.mut_store().disk.apply(write);
        }
        writes
    }

    fn send(&self, messages: Vec<eraftpb::Message>, out: &mut Vec<MembershipOutput>) {
        for message in messages {
            let (id, founding) = (message.to, &self.raw.store().founding);
            // A voter that was just removed, or a leader that it only heard of, may have no site here. Raft copes with lost messages.
            let Some(to) = self.site(id).cloned() else { continue };
            let are_first = founding.by_id(self.id).is_some() && founding.by_id(id).is_some();
            let disk = self.voters.by_id(id).and_then(|voter| voter.disk);
            let ends = (!are_first).then_some(Ends { from: self.id, to: id, disk });
            if let Some(message) = RaftMessage::from_raft(message) {
                out.push(MembershipOutput::Send { to, message: RaftMessage { ends, ..message } });
            }
        }
    }

    /// Applies committed entries: a view follows only on the one before it.
    fn apply(&mut self, committed: Vec<eraftpb::Entry>, out: &mut Vec<MembershipOutput>) {
        let Some(last) = committed.last().map(|entry| entry.index) else { return };
        for entry in committed {
            let LogEntry { index, data, .. } = LogEntry::from_raft(entry);
            if let Some(change) = VoterChange::read(&data) {
                self.apply_change(&change, index, out);
            } else if access::is_access(&data) {
                if let Some(next) = access::follow(self.access.as_ref(), &data) {
                    self.on_access(next, out);
                }
            } else if let Some(view) = disk::follow(&self.view, &data) {
                self.view = view;
                out.push(MembershipOutput::Agreed(self.view.clone()));
            }
        }
        self.on_applied(last);
        self.raw.advance_apply_to(last);
        self.step_down_if_removed();
        self.compact();
    }

    fn on_applied(&mut self, index: u64) {
        self.applied = index;
        self.raw.mut_store().applied = index;
    }

    /// Replaces the older half of a long log by a snapshot. The newer half stays, so that a voter that is slightly
    /// behind needs only those entries.
    fn compact(&mut self) {
        let cut = self.applied.saturating_sub(self.max_log_entries as u64 / 2);
        let store = self.raw.mut_store();
        if store.disk.log_length() <= self.max_log_entries || cut <= store.disk.saved.index {
            return;
        }
        let write = DiskWrite::Compact(store.saved_up_to(cut));
        store.disk.apply(&write);
        self.lazy.push(write);
    }

    fn report_confirmed(&mut self, out: &mut Vec<MembershipOutput>) {
        while self.confirmed.front().is_some_and(|(index, _)| *index <= self.applied) {
            let (_, round) = self.confirmed.pop_front().expect("there is a first");
            if self.leads().is_some() {
                out.push(MembershipOutput::Confirmed(round));
            }
        }
    }
}
