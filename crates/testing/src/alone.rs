//! Tests that measure their whole process, such as its memory or its descriptors. `cargo test` runs the tests of a file as threads of
//! one process, where one would measure the others too.

use std::process::Command;

use crate::bounded::TEST_LIMIT;
use crate::command::BoundedCommand;

/// Set in a process that was started for one test.
const ALONE: &str = "MESHLOCK_TEST_ALONE";

/// Runs the body of the calling test in a process in which no other test runs. Panics with what that process printed if the test fails
/// there.
#[track_caller]
pub fn in_own_process(body: impl FnOnce()) {
    let is_alone = [ALONE, "NEXTEST"].into_iter().any(|name| std::env::var_os(name).is_some());
    let thread = std::thread::current();
    match thread.name() {
        Some(test) if test != "main" && !is_alone => start_again(test),
        // The harness uses its main thread for tests if it runs one at a time.
        _ => body(),
    }
}

#[track_caller]
fn start_again(test: &str) {
    let program = std::env::current_exe().expect("a process knows its program");
    let mut command = Command::new(program);
    command.args(["--exact", test, "--nocapture"]).env(ALONE, "1");
    let output = command.output_within(TEST_LIMIT);
    let printed = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let has_passed = output.status.success() && printed[0].contains("1 passed");
    assert!(has_passed, "{test} fails in a process of its own:\n{}\n{}", printed[0], printed[1]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_runs_in_a_process_of_its_own() {
        let parent = std::process::id();
        let variable = "MESHLOCK_TEST_PARENT";
        if let Ok(id) = std::env::var(variable) {
            // This is the process that the test below has started.
            return in_own_process(|| assert_ne!(id, std::process::id().to_string()));
        }
        let mut command = Command::new(std::env::current_exe().expect("a program"));
        command
            .args(["--exact", "alone::tests::a_test_runs_in_a_process_of_its_own"])
            .env(variable, parent.to_string());
        // As under plain `cargo test`, whose process then starts another one.
        command.env_remove("NEXTEST").env("RUST_TEST_THREADS", "2");
        assert!(command.output_in_time().status.success());
    }

    #[test]
    fn a_test_that_fails_there_fails_here() {
        let panic = std::panic::catch_unwind(|| start_again("no::such::test")).expect_err("no test is run");
        let message = panic.downcast_ref::<String>().expect("a text");
        assert!(message.starts_with("no::such::test fails in a process of its own:"), "{message}");
    }
}
