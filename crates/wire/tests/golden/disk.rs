//! What a disk keeps.

use meshlock_cluster::membership::disk::{Ballot, DiskWrite, LogEntry, Registrations, Saved};
use meshlock_cluster::names::Incarnation;
use meshlock_wire::disk::encode;

use super::samples::{founding, site, view};
use super::{Sample, compare};

/// Each write, and the records that it makes.
fn records(write: &DiskWrite) -> Vec<Sample> {
    let one = |name: &str, bytes| vec![(name.to_owned(), bytes)];
    match write {
        DiskWrite::Founding(founding) => one("founding", encode(founding)),
        DiskWrite::Registrations(registrations) => one("registrations", encode(registrations)),
        DiskWrite::Incarnation(incarnation) => one("incarnation", encode(incarnation)),
        DiskWrite::Ballot(ballot) => one("ballot", encode(ballot)),
        DiskWrite::Append(entries) => {
            entries.iter().flat_map(|entry| one("log entry", encode(entry))).collect()
        }
        DiskWrite::Compact(saved) => one("saved state", encode(saved)),
        DiskWrite::Install(saved) => one("saved state of a leader", encode(saved)),
    }
}

#[test]
fn every_record_on_disk_has_its_bytes() {
    let saved = Saved { index: 4, term: 2, view: view() };
    let others = [(site("b"), Incarnation::new(9))].into_iter().collect();
    let writes = [
        DiskWrite::Founding(founding()),
        DiskWrite::Registrations(Registrations { disk: Incarnation::new(7), may_vote: true, others }),
        DiskWrite::Incarnation(Incarnation::new(300)),
        DiskWrite::Ballot(Ballot { term: 3, vote: 1, commit: 4 }),
        DiskWrite::Append(vec![LogEntry { index: 5, term: 3, data: vec![1, 2] }]),
        DiskWrite::Compact(saved.clone()),
        DiskWrite::Install(saved),
    ];
    compare("disk.txt", &writes.iter().flat_map(records).collect::<Vec<_>>());
}
