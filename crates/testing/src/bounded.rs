//! Whole tests with a limit, for tests that wait in many places: one that does not end fails with its name, also under plain
//! `cargo test`, which has no limit of its own.

use std::time::Duration;

use crate::skip::test_name;
use crate::wait::{WITHIN, first_some};

/// How long a whole test may take. It is longer than [`WITHIN`], so that a wait inside the test fails first and says what did not come.
pub const TEST_LIMIT: Duration = WITHIN.saturating_mul(3);

/// The number of steps after which [`within_steps`] gives up: far more than any test needs.
const MAX_STEPS: usize = 1_000_000;

/// Runs an asynchronous test on a runtime of its own, instead of `#[tokio::test]`. Panics with the test's name if it takes longer
/// than [`TEST_LIMIT`].
///
/// A body that blocks its thread is not interrupted: its blocking waits need a limit of their own.
///
/// ```
/// meshlock_testing::async_test(async {
///     assert_eq!(std::future::ready(1).await, 1);
/// });
/// ```
#[track_caller]
pub fn async_test(body: impl Future<Output = ()>) {
    async_within(TEST_LIMIT, body);
}

#[track_caller]
fn async_within(limit: Duration, body: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("the system has a descriptor and a thread left");
    let ended = runtime.block_on(async { tokio::time::timeout(limit, body).await });
    // A blocking task that is stuck would keep an ordinary drop waiting for ever.
    runtime.shutdown_background();
    if ended.is_err() {
        too_long(limit);
    }
}

/// Runs a test that blocks its thread, such as in `lock_blocking`, on another thread. Panics as the test does, or with its name if it
/// takes longer than [`TEST_LIMIT`].
#[track_caller]
pub fn blocking_test(body: impl FnOnce() + Send + 'static) {
    blocking_within(TEST_LIMIT, body);
}

#[track_caller]
fn blocking_within(limit: Duration, body: impl FnOnce() + Send + 'static) {
    // The name is the one by which the test is skipped and its panics are reported.
    let name = std::thread::current().name().unwrap_or("test").to_owned();
    let thread = std::thread::Builder::new().name(name).spawn(body).expect("the system has a thread left");
    if first_some(limit, || thread.is_finished().then_some(())).is_none() {
        too_long(limit);
    }
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[track_caller]
fn too_long(limit: Duration) -> ! {
    panic!("not within {} s: the end of {}", limit.as_secs(), test_name())
}

/// Calls `step` until it returns true. Panics with `what` after a million steps. For state machines without a clock, where a wait is
/// a loop that would otherwise spin for ever.
#[track_caller]
pub fn within_steps(what: &str, mut step: impl FnMut() -> bool) {
    let is_done = std::iter::repeat_with(&mut step).take(MAX_STEPS).any(|done| done);
    assert!(is_done, "not within {MAX_STEPS} steps: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the message with which `run` panics.
    fn message_of(run: impl FnOnce() + std::panic::UnwindSafe) -> String {
        let panic = std::panic::catch_unwind(run).expect_err("it panics");
        let formatted = panic.downcast_ref::<String>().cloned();
        formatted.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).expect("a text")
    }

    #[test]
    fn a_test_that_ends_is_run_once() {
        let mut runs = 0;
        async_test(async { runs += 1 });
        assert_eq!(runs, 1);
        let (sender, runs) = std::sync::mpsc::channel();
        blocking_test(move || {
            sender.send(std::thread::current().name().map(str::to_owned)).expect("it is read");
        });
        let names: Vec<_> = runs.iter().collect();
        assert_eq!(names, [std::thread::current().name().map(str::to_owned)]);
    }

    #[test]
    fn a_test_that_does_not_end_fails_with_its_name() {
        let expected = "not within 0 s: the end of \
            meshlock_testing::bounded::tests::a_test_that_does_not_end_fails_with_its_name";
        let limit = Duration::from_millis(5);
        assert_eq!(message_of(|| async_within(limit, std::future::pending())), expected);
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let stuck = move || {
            let _ = receiver.recv_timeout(WITHIN);
        };
        assert_eq!(message_of(std::panic::AssertUnwindSafe(|| blocking_within(limit, stuck))), expected);
        drop(sender);
    }

    #[test]
    fn a_test_on_another_thread_panics_as_its_own() {
        assert_eq!(message_of(|| blocking_test(|| panic!("of its own"))), "of its own");
    }

    #[test]
    fn steps_are_taken_until_one_is_the_last() {
        let mut steps = 0;
        within_steps("the third step", || {
            steps += 1;
            steps == 3
        });
        assert_eq!(steps, 3);
        let message = message_of(|| within_steps("a step that is the last", || false));
        assert_eq!(message, "not within 1000000 steps: a step that is the last");
    }
}
