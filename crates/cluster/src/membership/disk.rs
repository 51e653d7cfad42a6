//! A voter's durable state: the writes, what is read back at the start, and the mirror in memory that the `raft` crate
//! reads.
//!
//! **Requirements on a disk.** The writes of one batch become durable together or not at all, and batches become
//! durable in order. A completed batch survives anything; of the batches that are not completed, any number may survive
//! a crash.

use std::collections::{BTreeMap, VecDeque};

use meshlock_protocol::Epoch;
use raft::eraftpb;
use raft::{Error, GetEntriesContext, RaftState, StorageError};
use serde::{Deserialize, Serialize};

use super::access;
use super::voters::{VoterChange, Voters};
use crate::access::AgreedAccess;
use crate::founding::Founding;
use crate::names::{Incarnation, SiteName};
use crate::view::View;

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogEntry {
    pub index: u64,
    /// The term of the leader that appended it.
    pub term: u64,
    /// An encoded view, [change of voters](VoterChange) or [access document](access), or empty.
    pub data: Vec<u8>,
}

impl LogEntry {
    /// The `raft` crate counts a change of voters differently from other entries, and reads it in a format of its own. Ours travels as
    /// its context.
    pub(super) fn from_raft(entry: eraftpb::Entry) -> Self {
        let is_change = entry.get_entry_type() == eraftpb::EntryType::EntryConfChangeV2;
        let data = if is_change { entry.context } else { entry.data };
        LogEntry { index: entry.index, term: entry.term, data: data.to_vec() }
    }

    pub(super) fn into_raft(self) -> eraftpb::Entry {
        let is_change = VoterChange::read(&self.data).is_some_and(|change| change.is_for_raft());
        let mut entry = eraftpb::Entry { index: self.index, term: self.term, ..Default::default() };
        if is_change {
            entry.set_entry_type(eraftpb::EntryType::EntryConfChangeV2);
            entry.context = self.data.into();
        } else {
            entry.data = self.data.into();
        }
        entry
    }
}

/// A snapshot: the state after the entry `index`, in place of all entries up to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Saved {
    /// The last entry that the state includes.
    pub index: u64,
    pub term: u64,
    pub view: View,
    /// Who votes; `None` if nothing has changed since the founding. (It is written and sent beside the rest, because older programs do not
    /// know it.)
    #[serde(skip)]
    pub voters: Option<Voters>,
    /// The access document; `None` before the first one. (Written and sent beside the rest, too.)
    #[serde(skip)]
    pub access: Option<AgreedAccess>,
}

impl Default for Saved {
    /// The initial state of every cluster: as if one entry, of term 1, had made the view without members.
    fn default() -> Self {
        Saved { index: 1, term: 1, view: View::default(), voters: None, access: None }
    }
}

impl Saved {
    pub(super) fn from_raft(snapshot: &eraftpb::Snapshot) -> Option<Self> {
        let (view, voters, access) = postcard::from_bytes(&snapshot.data).ok()?;
        let metadata = snapshot.get_metadata();
        Some(Saved { index: metadata.index, term: metadata.term, view, voters, access })
    }

    /// Converts to a snapshot of the `raft` crate; `founding` are the first voters.
    pub(super) fn to_raft(&self, founding: &Voters) -> eraftpb::Snapshot {
        let data =
            postcard::to_stdvec(&(&self.view, &self.voters, &self.access)).expect("a state is plain data");
        let mut snapshot = eraftpb::Snapshot { data: data.into(), ..Default::default() };
        let metadata = snapshot.mut_metadata();
        metadata.index = self.index;
        metadata.term = self.term;
        metadata.set_conf_state(self.voters(founding).conf_state());
        snapshot
    }

    /// Returns who votes; `founding` are the first voters.
    pub(super) fn voters<'a>(&'a self, founding: &'a Voters) -> &'a Voters {
        self.voters.as_ref().unwrap_or(founding)
    }

    /// Takes in the next entry.
    fn apply(&mut self, entry: &LogEntry, founding: &Voters) {
        (self.index, self.term) = (entry.index, entry.term);
        if let Some(change) = VoterChange::read(&entry.data) {
            if let Some(voters) = self.voters(founding).after(&change, entry.index) {
                self.voters = Some(voters);
            }
        } else if access::is_access(&entry.data) {
            self.access = access::follow(self.access.as_ref(), &entry.data).or(self.access.take());
        } else if let Some(view) = follow(&self.view, &entry.data) {
            self.view = view;
        }
    }
}

/// Encodes a view as the log carries it.
pub fn encode(view: &View) -> Vec<u8> {
    postcard::to_stdvec(view).expect("a view is plain data")
}

/// The first bytes of a first view with an epoch of its own, before the view. No epoch is read from them: a program that knows no such
/// views takes the entry for an invalid one.
const FIRST_MARK: [u8; 5] = [0xff, 0xff, 0xff, 0xff, 0xfe];

/// Encodes the view that follows on one of the epoch `last`. A first view whose epoch is not 1 is marked as the first: two leaders may
/// each propose one, from clocks that differ, and the second must not pass for the one after the first.
pub fn encode_after(last: Epoch, view: &View) -> Vec<u8> {
    if last == Epoch::default() && view.epoch.number() != 1 {
        return postcard::to_extend(view, FIRST_MARK.to_vec()).expect("a view is plain data");
    }
    encode(view)
}

/// Returns whether the data of an entry is a first view with an epoch of its own.
pub fn is_marked_first(data: &[u8]) -> bool {
    data.starts_with(&FIRST_MARK)
}

/// Returns the view after `view`, if the entry has one that is valid: a view follows only on the one before it, under
/// the same terms. A first view that is marked as such has any epoch, and follows on no view.
pub fn follow(view: &View, data: &[u8]) -> Option<View> {
    let is_first = is_marked_first(data);
    let bytes = data.strip_prefix(&FIRST_MARK).unwrap_or(data);
    let next = Some(bytes)
        .filter(|data| !data.is_empty())
        .and_then(|data| postcard::from_bytes::<View>(data).ok())?;
    let follows = if is_first {
        view.epoch == Epoch::default() && next.epoch > view.epoch
    } else {
        next.epoch.number() == view.epoch.number() + 1
    };
    (follows && next.agrees_with(view) && next.is_well_formed()).then_some(next)
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
    /// This disk becomes that of the voter with this id. Whatever this site had agreed on under another id is removed.
    VoterId(u64),
    /// Who votes, as another site has said. A site whose log says it does not write it.
    Known(Voters),
    /// The access document, as another site has said.
    KnownAccess(AgreedAccess),
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
    /// The id under which this site votes, or will; `None` for the one that the founding gives it.
    pub(crate) voter_id: Option<u64>,
    /// Who votes, as another site has said.
    pub(crate) known: Option<Voters>,
    /// The access document, as another site has said.
    pub(crate) known_access: Option<AgreedAccess>,
    /// The last incarnation that has begun.
    pub(crate) incarnation: Incarnation,
    pub(super) ballot: Ballot,
    pub(super) saved: Saved,
    pub(super) entries: VecDeque<LogEntry>,
}

impl Disk {
    /// Returns the identity of the cluster; `None` before the first start.
    pub fn founding(&self) -> Option<&Founding> {
        self.founding.as_ref()
    }

    /// Returns the first incarnation that wrote to this disk.
    pub fn identity(&self) -> Option<Incarnation> {
        self.registrations.as_ref().map(|registrations| registrations.disk)
    }

    /// Returns whether its site votes with it, or will or has done so, under another id than the founding gives.
    pub fn votes_under_other_id(&self) -> bool {
        self.voter_id.is_some()
    }

    /// Returns whether it says that other voters than the first ones vote, or did.
    pub fn knows_other_voters(&self) -> bool {
        self.voter_id.is_some() || self.known.is_some() || self.saved.voters.is_some()
    }

    /// Returns who votes after each entry of the log, also those that are not committed, and before the first one; for the simulation,
    /// which must not take away more disks than the cluster can lose.
    pub fn possible_voters(&self, founding: &Voters) -> Vec<Voters> {
        let mut saved = self.saved.clone();
        let mut all = vec![saved.voters(founding).clone()];
        for entry in &self.entries {
            saved.apply(entry, founding);
            if saved.voters(founding) != &all[all.len() - 1] {
                all.push(saved.voters(founding).clone());
            }
        }
        all
    }

    /// Applies a write.
    pub fn apply(&mut self, write: &DiskWrite) {
        match write {
            DiskWrite::Founding(founding) => self.founding = Some(founding.clone()),
            DiskWrite::Registrations(registrations) => self.registrations = Some(registrations.clone()),
            DiskWrite::VoterId(id) => {
                self.voter_id = Some(*id);
                (self.ballot, self.saved) = (Ballot::default(), Saved::default());
                self.entries.clear();
            }
            DiskWrite::Known(voters) => self.known = Some(voters.clone()),
            DiskWrite::KnownAccess(access) => self.known_access = Some(access.clone()),
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

    /// Returns the state after the last entry of the log, committed or not; `founding` are the first voters.
    pub(super) fn last_state(&self, founding: &Voters) -> Saved {
        let mut saved = self.saved.clone();
        for entry in &self.entries {
            saved.apply(entry, founding);
        }
        saved
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
    /// The first voters.
    pub(super) founding: Voters,
    /// The last entry that this voter has applied.
    pub(super) applied: u64,
}

impl Mirror {
    /// Returns the state after the entry `index`, which is committed and in the log: the snapshot with the views and voters that followed
    /// it.
    pub(super) fn saved_up_to(&self, index: u64) -> Saved {
        let mut saved = self.disk.saved.clone();
        for entry in self.disk.entries.iter().take_while(|entry| entry.index <= index) {
            saved.apply(entry, &self.founding);
        }
        saved
    }

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
        let conf_state = self.disk.saved.voters(&self.founding).conf_state();
        Ok(RaftState { hard_state, conf_state })
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
        // As new as possible: a learner takes only a state in which it is one, and was admitted after the log was cut.
        Ok(self.saved_up_to(self.applied).to_raft(&self.founding))
    }
}
