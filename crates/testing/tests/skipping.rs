//! A test that is skipped, as whoever runs the tests sees it: this program is started again for one of its tests.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::process::{Command, Output};

use meshlock_testing::{BoundedCommand, needs_program, skip};

/// Set where this program was started by its own test.
const STARTED: &str = "MESHLOCK_TESTING_STARTED";

fn is_started() -> bool {
    std::env::var_os(STARTED).is_some()
}

/// Runs one of the tests below, with this file of skipped tests, where every test must run or not.
fn run(test: &str, log: &std::path::Path, all: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(STARTED, "yes").env_remove("NEXTEST_TEST_NAME");
    command.env("MESHLOCK_SKIPPED_LOG", log).env("MESHLOCK_ALL_TESTS", all);
    // Where tests run one after the other their thread has not the name of the test.
    command.env("RUST_TEST_THREADS", "2").output_in_time()
}

#[test]
fn lacks_a_program() {
    if is_started() {
        assert!(!needs_program("no-such-program"));
    }
}

#[test]
fn lacks_something_else() {
    if is_started() {
        skip("a small disk", "mount one");
    }
}

#[test]
fn a_skipped_test_is_written_down_and_fails_where_every_test_must_run() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("skipped");
    for (test, says) in [
        ("lacks_a_program", "the program no-such-program; apt-get install no-such-program"),
        ("lacks_something_else", "a small disk; mount one"),
    ] {
        let skipped = run(test, &log, "");
        let said = String::from_utf8_lossy(&skipped.stderr).into_owned();
        assert!(
            skipped.status.success() && said.contains(&format!("SKIPPED skipping::{test}: {says}")),
            "{said}"
        );
        let failed = run(test, &log, "1");
        let said = String::from_utf8_lossy(&failed.stderr).into_owned();
        assert!(!failed.status.success(), "{said}");
        assert!(
            said.contains(&format!("so skipping::{test} must run, and this is missing: {says}")),
            "{said}"
        );
    }
    let lines = std::fs::read_to_string(&log).unwrap();
    let tests: Vec<&str> = lines.lines().map(|line| line.split_once('\t').unwrap().0).collect();
    let [first, second] = ["skipping::lacks_a_program", "skipping::lacks_something_else"];
    assert_eq!(tests, [first, first, second, second], "{lines}");
}
