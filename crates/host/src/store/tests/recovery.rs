//! A directory whose state is replaced as a whole.

use super::*;
use crate::store::recovery::StoppedSite;

fn contents() -> Vec<DiskWrite> {
    vec![founding(3), DiskWrite::Install(saved(7)), ballot(4, 7), DiskWrite::Append(vec![entry(8, 20)])]
}

fn replacement() -> Vec<DiskWrite> {
    vec![founding(1), DiskWrite::Install(saved(9)), ballot(5, 9)]
}

fn filled(dir: &Path) -> Disk {
    let (mut store, _) = open(dir).unwrap();
    store.write(&contents()).unwrap();
    let mut disk = Disk::default();
    apply(&mut disk, &contents());
    disk
}

#[test]
fn the_state_is_replaced_as_a_whole_and_the_old_one_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let old = filled(dir.path());
    let stopped = StoppedSite::open(dir.path(), &site("a")).unwrap();
    assert_eq!(*stopped.disk(), old);
    let kept = stopped.replace(&replacement(), 17).unwrap();
    let mut new = Disk::default();
    apply(&mut new, &replacement());
    assert_eq!(open(dir.path()).unwrap().1, new);
    // The copy is a whole state: put back into a directory of its own it is the old one.
    let other = tempfile::tempdir().unwrap();
    fs::copy(&kept, other.path().join(FILE)).unwrap();
    assert_eq!(open(other.path()).unwrap().1, old);
}

#[test]
fn a_directory_in_use_or_without_a_state_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let refused = |dir: &Path| StoppedSite::open(dir, &site("a")).map(|_| ()).unwrap_err().to_string();
    assert!(refused(&missing).contains("there is no state of a site") && !missing.exists());
    let old = filled(dir.path());
    let running = open(dir.path()).unwrap();
    assert!(refused(dir.path()).contains("is in use by"));
    drop(running);
    assert!(StoppedSite::open(dir.path(), &site("b")).is_err(), "it is another site's");
    assert_eq!(open(dir.path()).unwrap().1, old);
}

#[test]
fn a_replacement_that_did_not_come_to_its_end_leaves_the_old_state() {
    let dir = tempfile::tempdir().unwrap();
    let old = filled(dir.path());
    // As after a crash while the new file was written, or before it got its name.
    put_in_place(dir.path(), &dir.path().join("state.redb.other"), &site("a"), &replacement()).unwrap();
    fs::rename(dir.path().join("state.redb.other"), dir.path().join(NEW_FILE)).unwrap();
    assert_eq!(open(dir.path()).unwrap().1, old);
    fs::write(dir.path().join(NEW_FILE), "half of a file").unwrap();
    assert_eq!(open(dir.path()).unwrap().1, old);
    // A copy that exists stops it before anything has changed.
    fs::write(dir.path().join(format!("{FILE}.before-recovery-17")), "").unwrap();
    let stopped = StoppedSite::open(dir.path(), &site("a")).unwrap();
    assert!(stopped.replace(&replacement(), 17).is_err());
    assert_eq!(open(dir.path()).unwrap().1, old);
    let stopped = StoppedSite::open(dir.path(), &site("a")).unwrap();
    stopped.replace(&replacement(), 18).unwrap();
    assert_ne!(open(dir.path()).unwrap().1, old);
}

#[test]
fn a_first_view_with_an_epoch_of_its_own_makes_a_file_that_older_programs_refuse() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path()).unwrap();
    let format = |store: &Store| {
        let Condition::Open(database) = &store.condition else { panic!("it is open") };
        tables::format_of(database).unwrap()
    };
    let view = |number| View { epoch: meshlock_protocol::Epoch::new(number).unwrap(), ..View::default() };
    for (epoch, expected) in [(1, 1), (500, 3)] {
        let data = meshlock_cluster::membership::disk::encode_after(View::default().epoch, &view(epoch));
        store.write(&[DiskWrite::Append(vec![LogEntry { index: 2, term: 2, data }])]).unwrap();
        assert_eq!(format(&store), expected, "epoch {epoch}");
    }
}
