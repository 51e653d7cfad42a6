//! What a disk keeps.

use std::fmt::Debug;

use meshlock_cluster::access::AgreedAccess;
use meshlock_cluster::membership::access as agreed;
use meshlock_cluster::membership::disk::{self, Ballot, DiskWrite, LogEntry, Registrations, Saved};
use meshlock_cluster::membership::voters::VoterChange;
use meshlock_cluster::names::Incarnation;
use meshlock_cluster::view::View;
use meshlock_wire::disk::{decode, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::samples::{access, epoch, founding, site, view, view_of_different_permits, voters};
use super::{DISK_ADVICE, Sample, compare, covers, label};

fn record<T: Serialize + DeserializeOwned + Clone + PartialEq + Debug + 'static>(
    name: &str,
    value: &T,
) -> Sample {
    Sample::new(name, encode(value), value.clone(), decode::<T>)
}

/// Each write, and the records that it makes.
fn records(write: &DiskWrite) -> Vec<Sample> {
    match write {
        DiskWrite::Founding(founding) => vec![record("founding", founding)],
        DiskWrite::Registrations(registrations) => vec![record("registrations", registrations)],
        DiskWrite::VoterId(id) => vec![record("voter id", id)],
        DiskWrite::Known(voters) => vec![record("known voters", voters)],
        DiskWrite::KnownAccess(access) => vec![record("known access document", access)],
        DiskWrite::Incarnation(incarnation) => vec![record("incarnation", incarnation)],
        DiskWrite::Ballot(ballot) => vec![record("ballot", ballot)],
        DiskWrite::Append(entries) => entries.iter().map(|entry| record("log entry", entry)).collect(),
        DiskWrite::Compact(saved) => vec![record("saved state", saved)],
        DiskWrite::Install(saved) => vec![record("saved state of a leader", saved)],
    }
}

/// An entry as voters append it: its data is a view, which follows on the one before it.
fn entry_of_a_view() -> Sample {
    let next = view_of_different_permits();
    let entry = LogEntry { index: 6, term: 3, data: disk::encode(&next) };
    let read = move |bytes: &[u8]| {
        let entry: LogEntry = decode(bytes).map_err(|error| format!("{error:?}"))?;
        let before = View { epoch: epoch(next.epoch.number() - 1), ..next.clone() };
        let view = disk::follow(&before, &entry.data);
        if view.as_ref() == Some(&next) { Ok(entry) } else { Err(format!("its view is read as {view:?}")) }
    };
    Sample::new("log entry of a view", encode(&entry), entry, read)
}

/// Entries that change the voters, one of each kind.
fn entries_of_changes() -> Vec<Sample> {
    let disk = Incarnation::new(300);
    let changes = [
        VoterChange::Settle { id: 1, disk },
        VoterChange::Admit { site: site("d"), disk, replaced: Some(2), wanted: 1 },
        VoterChange::Dismiss { id: 4 },
        VoterChange::Enter { remove: Some(2), on_request: true },
        VoterChange::Leave,
    ];
    let names: Vec<String> = changes.iter().map(|change| label("VoterChange", change)).collect();
    covers::<VoterChange>("VoterChange", names.iter().map(String::as_str));
    let sample = |change: VoterChange| {
        let entry = LogEntry { index: 6, term: 3, data: change.encode() };
        let name = format!("log entry of {}", label("VoterChange", &change));
        let read = move |bytes: &[u8]| {
            let entry: LogEntry = decode(bytes).map_err(|error| format!("{error:?}"))?;
            let read = VoterChange::read(&entry.data);
            if read.as_ref() == Some(&change) { Ok(entry) } else { Err(format!("it is read as {read:?}")) }
        };
        Sample::new(name, encode(&entry), entry, read)
    };
    changes.map(sample).into_iter().collect()
}

/// An entry whose data is an access document, which follows on the one before it.
fn entry_of_an_access_document() -> Sample {
    let next = access();
    let entry = LogEntry { index: 6, term: 3, data: agreed::encode(&next) };
    let read = move |bytes: &[u8]| {
        let entry: LogEntry = decode(bytes).map_err(|error| format!("{error:?}"))?;
        let before = AgreedAccess { version: next.version - 1, ..AgreedAccess::default() };
        let read = agreed::follow(Some(&before), &entry.data);
        if read.as_ref() == Some(&next) { Ok(entry) } else { Err(format!("it is read as {read:?}")) }
    };
    Sample::new("log entry of an access document", encode(&entry), entry, read)
}

#[test]
fn every_record_on_disk_has_its_bytes() {
    let saved = Saved { index: 4, term: 2, view: view(), voters: None, access: None };
    let others = [(site("b"), Incarnation::new(9))].into_iter().collect();
    let writes = [
        DiskWrite::Founding(founding()),
        DiskWrite::Registrations(Registrations { disk: Incarnation::new(7), may_vote: true, others }),
        DiskWrite::VoterId(300),
        DiskWrite::Known(voters()),
        DiskWrite::KnownAccess(access()),
        DiskWrite::Incarnation(Incarnation::new(300)),
        DiskWrite::Ballot(Ballot { term: 3, vote: 1, commit: 4 }),
        DiskWrite::Append(vec![LogEntry { index: 5, term: 3, data: vec![1, 2] }]),
        DiskWrite::Compact(saved.clone()),
        DiskWrite::Install(saved),
    ];
    let mut samples: Vec<Sample> = writes.iter().flat_map(records).collect();
    let saved = Saved { index: 4, term: 2, view: view_of_different_permits(), voters: None, access: None };
    samples.push(record("saved state with permits for one site", &saved));
    samples.push(entry_of_a_view());
    samples.push(record("voters of a saved state", &voters()));
    samples.extend(entries_of_changes());
    samples.push(record("access document of a saved state", &access()));
    samples.push(entry_of_an_access_document());
    compare("disk.txt", DISK_ADVICE, &samples);
}
