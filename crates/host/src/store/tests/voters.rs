//! Who votes and the access document, on the disk: both are read back, a new id removes what another voter had promised, and older programs refuse the file.

use meshlock_cluster::access::{AccessDocument, AgreedAccess};
use meshlock_cluster::membership::voters::{VoterChange, Voters};
use redb::{ReadableDatabase, TableDefinition};

use super::*;

fn voters(changed_at: u64) -> Voters {
    Voters { changed_at, ..Voters::founding(&[site("a"), site("b")]) }
}

fn change(index: u64) -> LogEntry {
    let change = VoterChange::Settle { id: 1, disk: Incarnation::new(7) };
    LogEntry { index, term: 1, data: change.encode() }
}

/// Returns the format that the file says it has.
fn format(dir: &Path) -> Vec<u8> {
    let transaction = open_file(&dir.join(FILE)).unwrap().begin_read().unwrap();
    let table = TableDefinition::<&str, &[u8]>::new("meshlock identity");
    transaction.open_table(table).unwrap().get("format").unwrap().unwrap().value().to_vec()
}

#[test]
fn whatever_says_that_voters_have_changed_is_read_back_and_raises_the_format() {
    let with_voters = Saved { voters: Some(voters(9)), ..saved(9) };
    for batch in [
        vec![DiskWrite::Known(voters(5))],
        vec![DiskWrite::VoterId(4)],
        vec![DiskWrite::Append(vec![change(2)])],
        vec![DiskWrite::Install(with_voters.clone()), ballot(1, 9)],
        vec![DiskWrite::Install(with_voters), ballot(1, 9), DiskWrite::Install(saved(9))],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, mut disk) = open(dir.path()).unwrap();
        store.write(&[founding(2), DiskWrite::Append(vec![entry(2, 3)])]).unwrap();
        store.write(&[DiskWrite::Append(Vec::new())]).unwrap();
        drop(store);
        assert_eq!(format(dir.path()), [1], "nothing has changed yet");
        let (mut store, _) = open(dir.path()).unwrap();
        store.write(&batch).unwrap();
        drop(store);
        apply(&mut disk, &[founding(2), DiskWrite::Append(vec![entry(2, 3)])]);
        apply(&mut disk, &batch);
        assert_eq!(open(dir.path()).unwrap().1, disk, "{batch:?}");
        assert_eq!(format(dir.path()), [2], "{batch:?}");
    }
}

#[test]
fn an_access_document_is_read_back_wherever_it_is_and_raises_the_format_further() {
    let mut document = AccessDocument { revoked: vec!["client/x".to_owned()], ..AccessDocument::default() };
    document.remove(&site("b"));
    let access = AgreedAccess { version: 1, document };
    let with_access = Saved { voters: Some(voters(9)), access: Some(access.clone()), ..saved(9) };
    let entry_of =
        LogEntry { index: 2, term: 1, data: meshlock_cluster::membership::access::encode(&access) };
    for batch in [
        vec![DiskWrite::KnownAccess(access)],
        vec![DiskWrite::Append(vec![entry_of])],
        vec![DiskWrite::Install(with_access.clone()), ballot(1, 9)],
        // A later change of voters does not lower it again.
        vec![DiskWrite::Install(with_access), ballot(1, 9), DiskWrite::VoterId(4)],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, mut disk) = open(dir.path()).unwrap();
        store.write(&[founding(2)]).unwrap();
        store.write(&batch).unwrap();
        drop(store);
        apply(&mut disk, &[founding(2)]);
        apply(&mut disk, &batch);
        assert_eq!(open(dir.path()).unwrap().1, disk, "{batch:?}");
        assert_eq!(format(dir.path()), [3], "{batch:?}");
    }
}

#[test]
fn a_new_voter_begins_without_what_another_voter_had_promised() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, mut disk) = open(dir.path()).unwrap();
    let with_voters = Saved { voters: Some(voters(9)), ..saved(9) };
    let before =
        [founding(2), DiskWrite::Install(with_voters), DiskWrite::Append(vec![entry(10, 3)]), ballot(7, 10)];
    let after = [DiskWrite::VoterId(4)];
    for batch in [&before[..], &after[..]] {
        store.write(batch).unwrap();
        apply(&mut disk, batch);
    }
    drop(store);
    let read = open(dir.path()).unwrap().1;
    assert_eq!(read, disk);
    let mut fresh = Disk::default();
    apply(&mut fresh, &[founding(2), DiskWrite::VoterId(4)]);
    assert_eq!(read, fresh);
}
