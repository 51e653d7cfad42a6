//! A voter's durable state: the writes, what is read back at the start, and the mirror in memory that the `raft` crate
//! reads.
//!
//! **Requirements on a disk.** The writes of one batch become durable together or not at all, and batches become
//! durable in order. A completed batch survives anything; of the batches that are not completed, any number may survive
//! a crash.

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
    pub index: u64,
    /// The term of the leader that appended it.
    pub term: u64,
    /// An encoded view, or empty.
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

/// A snapshot: the state after the entry `index`, in place of all entries up to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Saved {
    /// The last entry that the state includes.
    pub index: u64,
    pub term: u64,
    pub view: View,
}

impl Default for Saved {
    /// The initial state of every cluster: as if one entry, of term 1, had made the view without members.
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

/// Encodes a view as the log carries it.
pub fn encode(view: &View) -> Vec<u8> {
    postcard::to_stdvec(view).expect("a view is plain data")
}

/// Returns the view after `view`, if the entry has one that is valid: a view follows only on the one before it, under
/// the same terms.
pub fn follow(view: &View, data: &[u8]) -> Option<View> {
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

/// A voter's term and vote, and how far it knows the log to be committed (Raft's hard state).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ballot {
    pub term: u64,
    /// The voter that this one has voted for in this term; 0 for none, as in the `raft` crate.
    pub vote: u64,
    /// All entries up to this one are committed.
    pub commit: u64,
}

impl Default for Ballot {
    fn default() -> Self {
        Ballot { term: 1, vote: 0, commit: 1 }
    }
}

/// The disks with which voters first registered. A disk is told apart from another disk of the same site by the first
/// incarnation that wrote to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Registrations {
    /// The identity of this disk.
    pub disk: Incarnation,
    /// Whether this site may vote with this disk.
    pub may_vote: bool,
    /// The other voters' disks.
    pub others: BTreeMap<SiteName, Incarnation>,
}

/// One write to the disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DiskWrite {
    /// The identity of the cluster, written at the first start.
    Founding(Founding),
    /// What this site knows of the voters' disks.
    Registrations(Registrations),
    /// The incarnation that begins.
    Incarnation(Incarnation),
    Ballot(Ballot),
    /// Entries to append; entries that the log has from the index of the first one on are removed.
    Append(Vec<LogEntry>),
    /// A snapshot that replaces the entries up to it; those after it stay.
    Compact(Saved),
    /// A snapshot as the leader sent it, which replaces the whole log.
    Install(Saved),
}

/// The contents of a site's disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// The identity of the cluster; `None` before the first start.
    pub(crate) founding: Option<Founding>,
    /// What this site knows of the voters' disks; `None` before the first start.
    pub(crate) registrations: Option<Registrations>,
    /// The last incarnation that has begun.
    pub(crate) incarnation: Incarnation,
    pub(super) ballot: Ballot,
    pub(super) saved: Saved,
    pub(super) entries: VecDeque<LogEntry>,
}

impl Disk {
    /// Returns the state after the entry `index`, which is committed and in the log: the snapshot with the views that
    /// followed it.
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

    /// Applies a write.
    pub fn apply(&mut self, write: &DiskWrite) {
        match write {
            DiskWrite::Founding(founding) => self.founding = Some(founding.clone()),
            DiskWrite::Registrations(registrations) => self.registrations = Some(registrations.clone()),
            DiskWrite::Incarnation(incarnation) => self.incarnation = *incarnation,
            DiskWrite::Ballot(ballot) => self.ballot = *ballot,
            DiskWrite::Append(entries) => {
                let Some(first) = entries.first() else { return };
                while self.entries.back().is_some_and(|last| last.index >= first.index) {
                    self.entries.pop_back();
                }
                self.entries.extend(entries.iter().cloned());
            }
            DiskWrite::Compact(saved) => {
                while self.entries.front().is_some_and(|first| first.index <= saved.index) {
                    self.entries.pop_front();
                }
                self.saved = saved.clone();
            }
            DiskWrite::Install(saved) => {
                self.entries.clear();
                self.saved = saved.clone();
            }
        }
    }

    /// Returns the number of entries in the log.
    pub(crate) fn log_length(&self) -> usize {
        self.entries.len()
    }
}

/// The mirror that the `raft` crate reads: what the disk will contain once all writes that were handed out are done.
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
