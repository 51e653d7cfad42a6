//! The file of a site that a program of yesterday has written, and the names in it.
//!
//! `recorded/format-1.redb` is the file of `a`, one of two sites, after some changes of the rules, closed in good order; the log had
//! been cut once. It is never changed: a new format gets a file of its own, and this one is still read.

use meshlock_cluster::lease::Terms;
use meshlock_cluster::membership::disk;
use meshlock_cluster::names::Member;
use meshlock_cluster::rules::{Clause, RulesText};
use meshlock_cluster::time::{Drift, Span};
use meshlock_protocol::Epoch;
use redb::{ReadableDatabase, ReadableTable, TableDefinition, TableHandle};

use super::*;

const RECORDED: &[u8] = include_bytes!("recorded/format-1.redb");

const ADVICE: &str = "Sites of yesterday could not start again. Names and records that were written once must stay readable; \
                      a change needs a new format that is written beside them: see docs/compatibility.md";

const A: Incarnation = Incarnation::new(1_882_132_951_609_638_912);
const B: Incarnation = Incarnation::new(1_882_132_951_621_173_248);

/// The view that the entry of this index made.
fn view(index: u32) -> View {
    let epoch = index - 2;
    let member = |name: &str, incarnation| Member { site: site(name), incarnation };
    let (a, b) = (member("a", A), member("b", B));
    let (members, past) = match epoch {
        ..74 => (vec![a, b], vec![]),
        74 => (vec![a], vec![b]),
        75.. => (vec![], vec![a, b]),
    };
    let address = |number: usize| format!("127.77.1.{number}:7400").parse().unwrap();
    let addresses = members.iter().zip(1..).map(|(member, number)| (member.site.clone(), address(number)));
    let pool = Clause { algorithm: "srimani-reddy".to_owned(), permits: 3 + epoch % 2, per_site: 2 };
    let mut rules = vec![("pool/*".to_owned(), pool)];
    if epoch > 72 {
        rules[0].1.permits = 3;
        rules.push(("tree".to_owned(), Clause::exclusive("raymond")));
    }
    View {
        epoch: Epoch::new(epoch).unwrap(),
        addresses: addresses.collect(),
        members,
        past,
        floor: Incarnation::new(0),
        terms: Terms {
            length: Span::from_millis(5000),
            drift: Drift::from_ppm(1000),
            margin: Span::from_millis(500),
            renew_every: Span::from_millis(1000),
        },
        rules: RulesText { rules, default: Clause::exclusive("naimi-trehel") },
        rules_version: u64::from(epoch.min(73) - 2),
    }
}

#[test]
fn the_file_of_a_site_of_yesterday_is_read_as_it_was_meant_and_written_on() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(FILE), RECORDED).unwrap();
    let (mut store, disk) = open(dir.path()).unwrap_or_else(|error| panic!("{error}. {ADVICE}"));
    let entry = |index| LogEntry { index: u64::from(index), term: 2, data: disk::encode(&view(index)) };
    let others = [(site("b"), B)].into_iter().collect();
    let mut meant = Disk::default();
    apply(
        &mut meant,
        &[
            DiskWrite::Founding(Founding::new("meshlock".parse().unwrap(), &[site("a"), site("b")])),
            DiskWrite::Registrations(Registrations { disk: A, may_vote: true, others }),
            DiskWrite::Incarnation(A),
            DiskWrite::Install(Saved { index: 34, term: 2, view: view(34), voters: None, access: None }),
            DiskWrite::Append((35..=77).map(entry).collect()),
            DiskWrite::Ballot(Ballot { term: 2, vote: 1, commit: 76 }),
        ],
    );
    assert_eq!(disk, meant, "{ADVICE}");
    let batch = [
        ballot(3, 77),
        DiskWrite::Compact(Saved { index: 76, term: 2, view: view(76), voters: None, access: None }),
    ];
    store.write(&batch).unwrap();
    drop(store);
    apply(&mut meant, &batch);
    assert_eq!(open(dir.path()).unwrap().1, meant);
}

/// The names of the tables of a file, and the keys of those whose keys are names.
fn names(file: &Path) -> (Vec<String>, Vec<String>) {
    let transaction = open_file(file).unwrap().begin_read().unwrap();
    let mut tables: Vec<String> =
        transaction.list_tables().unwrap().map(|table| table.name().to_owned()).collect();
    tables.sort();
    let mut keys = Vec::new();
    for name in ["meshlock identity", "state"] {
        let table = transaction.open_table(TableDefinition::<&str, &[u8]>::new(name)).unwrap();
        keys.extend(table.iter().unwrap().map(|row| format!("{name}: {}", row.unwrap().0.value())));
    }
    transaction.open_table(TableDefinition::<u64, &[u8]>::new("log")).unwrap();
    (tables, keys)
}

#[test]
fn the_names_of_tables_and_keys_are_part_of_the_format() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path()).unwrap();
    for batch in two_batches() {
        store.write(&batch).unwrap();
    }
    drop(store);
    let (tables, keys) = names(&dir.path().join(FILE));
    assert_eq!(tables, ["log", "meshlock identity", "state"], "{ADVICE}");
    let wanted = [
        "meshlock identity: format",
        "meshlock identity: site",
        "state: ballot",
        "state: founding",
        "state: incarnation",
        "state: pledges",
        "state: saved",
    ];
    assert_eq!(keys, wanted, "{ADVICE}");
}
