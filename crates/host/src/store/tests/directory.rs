//! Directories: permissions, locking, and content that is refused.

use std::os::unix::fs::PermissionsExt;

use redb::TableDefinition;

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn created_files_are_accessible_to_their_owner_only() {
    let above = tempfile::tempdir().unwrap();
    let dir = above.path().join("data/a");
    let _store = open(&dir).unwrap();
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&dir.join(FILE)), 0o600);
    assert!(!dir.join(NEW_FILE).exists());
}

#[test]
fn a_second_store_is_refused_while_the_first_is_open_and_told_which_process_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path()).unwrap();
    let error = refusal(dir.path());
    let me = std::process::id();
    assert!(matches!(error, StoreError::InUse { by: Some(by), .. } if by == me), "{error}");
    assert!(
        error.to_string().contains(&format!("is in use by process {me}; stop that one first")),
        "{error}"
    );
    drop(first);
    assert!(open(dir.path()).is_ok());
}

#[test]
fn a_lock_file_without_a_number_names_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let _first = open(dir.path()).unwrap();
    fs::write(dir.path().join("lock"), "\u{0}no number").unwrap();
    let error = refusal(dir.path());
    assert!(error.to_string().contains("is in use by another process"), "{error}");
}

#[test]
fn another_sites_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).unwrap());
    let error = Store::open(dir.path(), &site("b")).map(|_| ()).unwrap_err();
    assert!(matches!(&error, StoreError::OtherSite { found, .. } if found == "a"), "{error}");
    assert!(error.to_string().contains("belongs to the site 'a', not to 'b'; give each site"), "{error}");
}

#[test]
fn a_file_of_something_else_is_refused_and_left_alone() {
    for text in ["", "x", "a message to my aunt, which is long enough to be a header of something else"] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE);
        fs::write(&file, text).unwrap();
        let error = refusal(dir.path());
        assert!(matches!(error, StoreError::Foreign { .. }), "'{text}': {error}");
        assert!(error.to_string().contains("move it away, or choose another directory"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
}

#[test]
fn a_database_of_another_program_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::create(dir.path().join(FILE)).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(TableDefinition::<u64, u64>::new("prices")).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let error = refusal(dir.path());
    assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
    assert!(error.to_string().contains("a database of another program"), "{error}");
}

/// Writes `bytes` into a table of the site's file, bypassing the store.
fn tamper(dir: &Path, table: &str, key: &str, bytes: &[u8]) {
    drop(open(dir).unwrap());
    let database = open_file(&dir.join(FILE)).unwrap();
    let mut transaction = database.begin_write().unwrap();
    transaction.set_two_phase_commit(true);
    transaction.open_table(TableDefinition::<&str, &[u8]>::new(table)).unwrap().insert(key, bytes).unwrap();
    transaction.commit().unwrap();
}

#[test]
fn a_newer_format_is_refused_with_its_number() {
    for (table, key, bytes, newest) in
        [("meshlock identity", "format", &[4][..], 3), ("state", "ballot", &[2, 0, 0], 1)]
    {
        let dir = tempfile::tempdir().unwrap();
        tamper(dir.path(), table, key, bytes);
        let error = refusal(dir.path());
        let StoreError::Newer { found, known, .. } = error else { panic!("{error}") };
        assert_eq!((found, known), (bytes[0], newest));
        let said = format!("written in format {found}, by a newer meshlock");
        assert!(error.to_string().contains(&said), "{error}");
    }
}

#[test]
fn records_that_no_voter_writes_are_damage() {
    for (table, key, bytes, says) in [
        ("meshlock identity", "format", &[0][..], "its format is not a number"),
        ("state", "incarnation", &[1], "incarnation cannot be read"),
        ("state", "ballot", &[1, 1, 0, 9], "entry 9 is committed, and there are 1 to 1"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        tamper(dir.path(), table, key, bytes);
        let error = refusal(dir.path());
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains(says), "{error}");
        assert!(error.to_string().contains("start the site with an empty one"), "{error}");
    }
}

#[test]
fn a_log_with_a_gap_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path()).unwrap();
    store.write(&[DiskWrite::Append(vec![entry(2, 1), entry(4, 1)])]).unwrap();
    drop(store);
    let error = refusal(dir.path());
    assert!(error.to_string().contains("entry 4 is where 3 should be"), "{error}");
}

#[test]
fn an_unfinished_file_that_a_crash_left_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(NEW_FILE), "half of it").unwrap();
    assert_eq!(open(dir.path()).unwrap().1, Disk::default());
    assert!(!dir.path().join(NEW_FILE).exists());
}

#[test]
fn a_file_in_the_place_of_the_directory_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = refusal(file.path());
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
    assert!(error.to_string().starts_with(&file.path().display().to_string()), "{error}");
}
