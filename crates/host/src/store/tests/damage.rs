//! Files with flipped bits, or without their end.

use super::platter::Platter;
use super::*;

/// A file with two batches, closed cleanly or as left behind by a killed process.
fn file(killed: bool) -> (tempfile::TempDir, Vec<u8>, Disk) {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).unwrap());
    let platter = Platter::with(fs::read(dir.path().join(FILE)).unwrap());
    let (mut store, mut disk) = Store::open_with(dir.path(), &site("a"), platter.opener()).unwrap();
    for batch in two_batches() {
        store.write(&batch).unwrap();
        apply(&mut disk, &batch);
    }
    let while_it_runs = platter.content().now.clone();
    drop(store);
    let bytes = if killed { while_it_runs } else { platter.content().now.clone() };
    (dir, bytes, disk)
}

/// Opens a changed copy of the file. Returns the disk or a typed error.
fn open_changed(dir: &Path, bytes: Vec<u8>) -> Result<Disk, StoreError> {
    let platter = Platter::with(bytes);
    Store::open_with(dir, &site("a"), platter.opener()).map(|(_, disk)| disk)
}

/// The bit with which `redb` marks which of its two commits counts. No checksum covers it: if it flips in the file of a killed process, the
/// last batch is missing. In a file that was closed cleanly the flip is detected.
const WHICH_COMMIT: (usize, u32) = (9, 0);

#[test]
fn a_flipped_bit_is_found_or_does_no_harm() {
    for killed in [false, true] {
        let (dir, bytes, disk) = file(killed);
        let mut draw = fastrand::Rng::with_seed(7);
        let start = (0..64).flat_map(|at| (0..8).map(move |bit| (at, bit)));
        let used: Vec<usize> = (64..bytes.len()).filter(|at| bytes[*at] != 0).collect();
        let rest: Vec<_> = (0..250).map(|_| (used[draw.usize(..used.len())], draw.u32(..8))).collect();
        for (at, bit) in start.chain(rest).filter(|place| !killed || *place != WHICH_COMMIT) {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            match open_changed(dir.path(), changed) {
                Ok(read) => assert_eq!(read, disk, "killed {killed}, byte {at}, bit {bit}"),
                Err(StoreError::Damaged { .. } | StoreError::Foreign { .. } | StoreError::Newer { .. }) => {}
                Err(other) => panic!("killed {killed}, byte {at}, bit {bit}: {other}"),
            }
        }
    }
}

/// The one flip that does harm. This test shows whether a new version of the database still has the problem.
#[test]
fn one_bit_of_a_killed_process_file_hides_the_last_batch() {
    let (dir, mut bytes, _) = file(true);
    let (at, bit) = WHICH_COMMIT;
    bytes[at] ^= 1 << bit;
    let mut before = Disk::default();
    apply(&mut before, &two_batches()[0]);
    assert_eq!(open_changed(dir.path(), bytes).unwrap(), before);
}

/// A changed entry is always detected. Old copies of a page stay in the file until its space is reused, and it is not visible from outside
/// which copy counts, so all of them are changed.
#[test]
fn a_flipped_bit_in_an_entry_of_the_log_is_found_always() {
    for killed in [false, true] {
        let (dir, bytes, _) = file(killed);
        for index in [11, 20, 24] {
            let size = if index < 20 { 200 } else { 900 };
            let record = meshlock_wire::disk::encode(&entry(index, size));
            let copies: Vec<usize> =
                (0..bytes.len() - record.len()).filter(|at| bytes[*at..].starts_with(&record)).collect();
            assert!(!copies.is_empty(), "entry {index} is in the file");
            for place in (0..record.len()).step_by(37) {
                let mut changed = bytes.clone();
                for at in &copies {
                    changed[at + place] ^= 1 << (place % 8);
                }
                let error = open_changed(dir.path(), changed).map(|_| ()).unwrap_err();
                assert!(
                    matches!(error, StoreError::Damaged { .. }),
                    "killed {killed}, byte {place}: {error}"
                );
            }
        }
    }
}

#[test]
fn a_file_without_its_end_is_found() {
    for killed in [false, true] {
        let (dir, bytes, _) = file(killed);
        let odd = (1..40).map(|part| bytes.len() * part / 40 + part);
        let whole_pages = (1..40).map(|part| bytes.len() / 4096 * part / 40 * 4096);
        for length in odd.chain(whole_pages).chain([1, 9, 64, 320, 4096]) {
            fs::write(dir.path().join(FILE), &bytes[..length]).unwrap();
            let error = refusal(dir.path());
            let is_typed = matches!(error, StoreError::Damaged { .. } | StoreError::Foreign { .. });
            assert!(is_typed, "killed {killed}, {length} bytes: {error}");
        }
    }
}
