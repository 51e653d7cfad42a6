//! Power failures, full disks and failing disks.

use super::platter::Platter;
use super::*;

/// The file of the site `a` after the first batch, and a directory to open it in.
fn after_the_first_batch() -> (tempfile::TempDir, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path()).unwrap();
    store.write(&two_batches()[0]).unwrap();
    drop(store);
    let bytes = fs::read(dir.path().join(FILE)).unwrap();
    (dir, bytes)
}

fn open_on(platter: &Platter, dir: &Path) -> (Store, Disk) {
    Store::open_with(dir, &site("a"), platter.opener()).unwrap()
}

/// The disk before and after the second batch.
fn before_and_after() -> (Disk, Disk) {
    let [first, second] = two_batches();
    let mut before = Disk::default();
    apply(&mut before, &first);
    let mut after = before.clone();
    apply(&mut after, &second);
    (before, after)
}

#[test]
fn after_a_power_failure_a_batch_is_there_completely_or_not_at_all() {
    let (dir, bytes) = after_the_first_batch();
    let (before, after) = before_and_after();
    assert_ne!(before, after);
    let [_, second] = two_batches();
    let (mut lost, mut kept) = (0, 0);
    for operations in 0.. {
        let mut finished = false;
        for seed in 0..8 {
            let platter = Platter::with(bytes.clone());
            let (mut store, disk) = open_on(&platter, dir.path());
            assert_eq!(disk, before);
            platter.fail_after(operations, io::ErrorKind::Other);
            finished = store.write(&second).is_ok();
            drop(store);
            platter.lose_power(&mut fastrand::Rng::with_seed(seed));
            let (_, disk) = open_on(&platter, dir.path());
            assert!(disk == after || (disk == before && !finished), "{operations} operations, seed {seed}");
            *(if disk == after { &mut kept } else { &mut lost }) += 1;
        }
        if finished {
            break;
        }
    }
    assert!(lost > 0 && kept > 0, "both ends were met: {lost} lost, {kept} kept");
}

#[test]
fn a_full_disk_is_an_error_and_the_same_batch_is_written_when_there_is_room() {
    let (dir, bytes) = after_the_first_batch();
    let (_, after) = before_and_after();
    let [_, second] = two_batches();
    for operations in 0.. {
        let platter = Platter::with(bytes.clone());
        let (mut store, _) = open_on(&platter, dir.path());
        platter.fail_after(operations, io::ErrorKind::StorageFull);
        let finished = store.write(&second);
        if let Err(error) = &finished {
            assert!(error.is_passing(), "after {operations} operations: {error}");
            assert!(error.to_string().contains("no room on the disk"), "{error}");
            let again = store.write(&second).unwrap_err();
            assert!(again.is_passing(), "after {operations} operations, again: {again}");
            platter.heal();
            store.write(&second).unwrap();
        }
        drop(store);
        platter.heal();
        assert_eq!(open_on(&platter, dir.path()).1, after, "after {operations} operations");
        if finished.is_ok() {
            assert!(operations > 4, "the disk was full at several moments");
            break;
        }
    }
}

#[test]
fn after_a_failure_of_the_disk_nothing_more_is_written() {
    let (dir, bytes) = after_the_first_batch();
    let (before, _) = before_and_after();
    let [_, second] = two_batches();
    let platter = Platter::with(bytes);
    let (mut store, _) = open_on(&platter, dir.path());
    platter.fail_after(0, io::ErrorKind::Other);
    let error = store.write(&second).unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }) && !error.is_passing(), "{error}");
    platter.heal();
    let error = store.write(&second).unwrap_err();
    assert!(matches!(error, StoreError::Closed { .. }) && !error.is_passing(), "{error}");
    drop(store);
    assert_eq!(open_on(&platter, dir.path()).1, before);
}
