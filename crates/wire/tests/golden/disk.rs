//! What a disk keeps.

use meshlock_cluster::membership::disk::{Ballot, LogEntry, Registrations, Saved, Write};
use meshlock_cluster::names::Incarnation;
use meshlock_wire::disk::encode;

use super::samples::{founding, site, view};
use super::{Sample, compare};

/// Each write, and the records that it makes.
fn records(write: &Write) -> Vec<Sample> {
    let one = |name: &str, bytes| vec![(name.to_owned(), bytes)];
    match write {
        Write::Founding(founding) => one("founding", encode(founding)),
        Write::Registrations(registrations) => one("registrations", encode(registrations)),
        Write::Incarnation(incarnation) => one("incarnation", encode(incarnation)),
        Write::Ballot(ballot) => one("ballot", encode(ballot)),
        Write::Append(entries) => entries.iter().flat_map(|entry| one("log entry", encode(entry))).collect(),
        Write::Compact(saved) => one("saved state", encode(saved)),
        Write::Install(saved) => one("saved state of a leader", encode(saved)),
    }
}

#[test]
fn every_record_on_disk_has_its_bytes() {
    let saved = Saved { index: 4, term: 2, view: view() };
    let roll = [(site("b"), Incarnation::new(9))].into_iter().collect();
    let writes = [
        Write::Founding(founding()),
        Write::Registrations(Registrations { disk: Incarnation::new(7), sworn: true, roll }),
        Write::Incarnation(Incarnation::new(300)),
        Write::Ballot(Ballot { term: 3, vote: 1, commit: 4 }),
        Write::Append(vec![LogEntry { index: 5, term: 3, data: vec![1, 2] }]),
        Write::Compact(saved.clone()),
        Write::Install(saved),
    ];
    compare("disk.txt", &writes.iter().flat_map(records).collect::<Vec<_>>());
}
