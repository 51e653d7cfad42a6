//! What a voter must not forget: as values to write, as what is read back at the start, and as the mirror in memory
//! that the `raft` crate reads.
//!
//! **What is asked of a disk.** The writes of one batch become durable together or not at all, and batches in their
//! order. A completed batch survives anything; of those that are not completed any number may survive a crash.

use std::collections::{BTreeMap, VecDeque};

use raft::eraftpb;
use raft::{Error, GetEntriesContext, RaftState, StorageError};
use serde::{Deserialize, Serialize};

use crate::founding::Founding;
use crate::names::{Incarnation, SiteName};
use crate::view::View;

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogEntry {
    /// Its place.
    pub index: u64,
    /// The term of the leader that put it there.
    pub term: u64,
    /// An encoded view, or nothing.
    pub data: Vec<u8>,
}

impl LogEntry {
    pub(super) fn from_raft(entry: eraftpb::Entry) -> Self {
        LogEntry { index: entry.index, term: entry.term, data: entry.data.to_vec() }
    }

    pub(super) fn into_raft(self) -> eraftpb::Entry {
        eraftpb::Entry { index: self.index, term: self.term, data: self.data.into(), ..Default::default() }
    }
}

/// The state after the entry `index`, in place of all entries up to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Saved {
    /// The last entry that the state includes.
    pub index: u64,
    /// Its term.
    pub term: u64,
    /// The state.
    pub view: View,
}

impl Default for Saved {
    /// How every cluster begins: as if one entry, of term 1, had made the view without members.
    fn default() -> Self {
        Saved { index: 1, term: 1, view: View::default() }
    }
}

impl Saved {
    pub(super) fn from_raft(snapshot: &eraftpb::Snapshot) -> Option<Self> {
        let view = postcard::from_bytes(&snapshot.data).ok()?;
        let metadata = snapshot.get_metadata();
        Some(Saved { index: metadata.index, term: metadata.term, view })
    }

    pub(super) fn to_raft(&self, voters: usize) -> eraftpb::Snapshot {
        let mut snapshot = eraftpb::Snapshot { data: encode(&self.view).into(), ..Default::default() };
        let metadata = snapshot.mut_metadata();
        metadata.index = self.index;
        metadata.term = self.term;
        metadata.set_conf_state(conf_state(voters));
        snapshot
    }
}

/// A view as the log carries it.
pub(super) fn encode(view: &View) -> Vec<u8> {
    postcard::to_stdvec(view).expect("a view is plain data")
}

/// The view after `view`, if the entry has one: a view follows only on the one before it, under the same terms.
pub(super) fn follow(view: &View, data: &[u8]) -> Option<View> {
    let next = Some(data)
        .filter(|data| !data.is_empty())
        .and_then(|data| postcard::from_bytes::<View>(data).ok())?;
    let follows = next.epoch.number() == view.epoch.number() + 1 && next.agrees_with(view);
    (follows && next.is_well_formed()).then_some(next)
}

fn conf_state(voters: usize) -> eraftpb::ConfState {
    let mut state = eraftpb::ConfState::default();
    state.set_voters((1..=voters as u64).collect());
    state
}

/// A voter's term and vote, and how far it knows the log to be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ballot {
    /// The term.
    pub term: u64,
    /// The voter that this one has voted for in it; 0 for none, as the `raft` crate has it.
    pub vote: u64,
    /// All entries up to this one are committed.
    pub commit: u64,
}

impl Default for Ballot {
    fn default() -> Self {
        Ballot { term: 1, vote: 0, commit: 1 }
    }
}

/// With which disks voters have come first. A disk is told from another one of the same site by the incarnation that wrote to it
/// first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Registrations {
    /// This disk.
    pub disk: Incarnation,
    /// Whether this site may vote with it.
    pub sworn: bool,
    /// The other voters' disks.
    pub roll: BTreeMap<SiteName, Incarnation>,
}

/// Something to be written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Write {
    /// What the cluster is: at the first start.
    Founding(Founding),
    /// What this site knows of voters' disks.
    Registrations(Registrations),
    /// The incarnation that begins.
    Incarnation(Incarnation),
    /// Term, vote, commit.
    Ballot(Ballot),
    /// Entries; whatever the log has at the index of the first one and behind it goes.
    Append(Vec<LogEntry>),
    /// The state, in place of the entries up to it; those behind it stay.
    Compact(Saved),
    /// The state as the leader sent it, in place of the whole log.
    Install(Saved),
}

/// Everything that is on a site's disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// What the cluster is; nothing before the first start.
    pub founding: Option<Founding>,
    /// What this site knows of voters' disks; nothing before the first start.
    pub registrations: Option<Registrations>,
    /// The last incarnation that has begun.
    pub incarnation: Incarnation,
    pub(super) ballot: Ballot,
    pub(super) saved: Saved,
    pub(super) entries: VecDeque<LogEntry>,
}

impl Disk {
    /// The state after the entry `index`, which is committed and in the log: what is saved, and what followed on it.
    pub(super) fn saved_up_to(&self, index: u64) -> Saved {
        let mut saved = self.saved.clone();
        for entry in self.entries.iter().take_while(|entry| entry.index <= index) {
            (saved.index, saved.term) = (entry.index, entry.term);
            if let Some(view) = follow(&saved.view, &entry.data) {
                saved.view = view;
            }
        }
        saved
    }

    /// What a write does to it.
    pub fn apply(&mut self, write: &Write) {
        match write {
            Write::Founding(founding) => self.founding = Some(founding.clone()),
            Write::Registrations(registrations) => self.registrations = Some(registrations.clone()),
            Write::Incarnation(incarnation) => self.incarnation = *incarnation,
            Write::Ballot(ballot) => self.ballot = *ballot,
            Write::Append(entries) => {
                let Some(first) = entries.first() else { return };
                while self.entries.back().is_some_and(|last| last.index >= first.index) {
                    self.entries.pop_back();
                }
                self.entries.extend(entries.iter().cloned());
            }
            Write::Compact(saved) => {
                while self.entries.front().is_some_and(|first| first.index <= saved.index) {
                    self.entries.pop_front();
                }
                self.saved = saved.clone();
            }
            Write::Install(saved) => {
                self.entries.clear();
                self.saved = saved.clone();
            }
        }
    }

    /// How many entries the log has.
    pub fn log_length(&self) -> usize {
        self.entries.len()
    }
}

/// The mirror that the `raft` crate reads: what the disk will have once all that was handed out is written.
#[derive(Debug)]
pub(super) struct Mirror {
    pub(super) disk: Disk,
    pub(super) voters: usize,
}

impl Mirror {
    fn first(&self) -> u64 {
        self.disk.saved.index + 1
    }

    fn entry(&self, index: u64) -> Option<&LogEntry> {
        self.disk.entries.get(usize::try_from(index.checked_sub(self.first())?).ok()?)
    }
}

impl raft::Storage for Mirror {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let Ballot { term, vote, commit } = self.disk.ballot;
        let hard_state = eraftpb::HardState { term, vote, commit, ..Default::default() };
        Ok(RaftState { hard_state, conf_state: conf_state(self.voters) })
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> raft::Result<Vec<eraftpb::Entry>> {
        if low < self.first() {
            return Err(Error::Store(StorageError::Compacted));
        }
        let most = max_size.into().unwrap_or(u64::MAX);
        let mut bytes = 0_u64;
        let mut found = Vec::new();
        for index in low..high {
            let entry = self.entry(index).ok_or(Error::Store(StorageError::Unavailable))?;
            bytes = bytes.saturating_add(entry.data.len() as u64 + 24);
            if bytes > most && !found.is_empty() {
                break;
            }
            found.push(entry.clone().into_raft());
        }
        Ok(found)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index == self.disk.saved.index {
            return Ok(self.disk.saved.term);
        }
        if index < self.disk.saved.index {
            return Err(Error::Store(StorageError::Compacted));
        }
        self.entry(index).map(|entry| entry.term).ok_or(Error::Store(StorageError::Unavailable))
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.first())
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.disk.saved.index + self.disk.entries.len() as u64)
    }

    fn snapshot(&self, request_index: u64, _: u64) -> raft::Result<eraftpb::Snapshot> {
        if self.disk.saved.index < request_index {
            return Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        }
        Ok(self.disk.saved.to_raft(self.voters))
    }
}
