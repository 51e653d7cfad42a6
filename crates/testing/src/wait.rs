//! Waits that end: a test that waits for something that never comes fails with what it waited for, instead of hanging.

use std::os::fd::AsFd;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

/// How long a test waits for something before it fails: far longer than anything takes on a busy machine.
pub const WITHIN: Duration = Duration::from_mins(2);

/// The pause after the first look that finds nothing. Each pause is twice as long as the one before: what is soon there is
/// soon found, and looks that start a process do not keep a core busy.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// The longest pause between two looks.
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// The pauses between looks.
fn pauses() -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(FIRST_PAUSE), |pause| Some((*pause * 2).min(MAX_PAUSE)))
}

#[track_caller]
fn too_late(what: &str) -> ! {
    panic!("not within {} s: {what}", WITHIN.as_secs())
}

/// Waits until `holds`; panics with `what` if that takes too long.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    eventually_some(what, || holds().then_some(()));
}

/// Waits until `look` returns something, which is returned; panics with `what` if that takes too long.
#[track_caller]
pub fn eventually_some<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    first_some(WITHIN, look).unwrap_or_else(|| too_late(what))
}

/// Returns what `look` returns first, if it returns something within so long.
pub fn first_some<T>(within: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    for pause in pauses() {
        if let Some(found) = look() {
            return Some(found);
        }
        if start.elapsed() > within {
            break;
        }
        std::thread::park_timeout(pause);
    }
    None
}

/// Waits until `holds`, letting other tasks of the runtime work; panics with `what` if that takes too long. `pause` is a sleep of the
/// caller's runtime.
pub async fn eventually_async<F: Future<Output = ()>>(
    what: &str,
    pause: impl Fn(Duration) -> F,
    mut holds: impl FnMut() -> bool,
) {
    let deadline = Deadline::default();
    for next in pauses() {
        if holds() {
            return;
        }
        deadline.check(what);
        pause(next).await;
    }
}

/// Waits for a future, on a tokio runtime that has its timers enabled; panics with `what` if that takes too long.
pub async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(WITHIN, future).await.unwrap_or_else(|_| too_late(what))
}

/// Waits for the end of a thread and returns what it returned, or panics as it did; panics with `what` if it does not end.
#[track_caller]
pub fn joined<T>(what: &str, thread: JoinHandle<T>) -> T {
    eventually(what, || thread.is_finished());
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Waits until a descriptor can be read or is at its end; panics with `what` if that takes too long. A process's descriptor can be
/// read when the process has ended.
#[track_caller]
pub fn until_readable(what: &str, descriptor: impl AsFd) {
    let deadline = Deadline::default();
    loop {
        let left = Timespec::try_from(deadline.left()).expect("it is short");
        // A signal may interrupt it.
        match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&left)) {
            Ok(ready) if ready > 0 => return,
            Ok(_) | Err(_) => deadline.check(what),
        }
    }
}

/// When a wait ends that consists of several, such as for a message that comes after others.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Default for Deadline {
    /// Begins now.
    fn default() -> Self {
        Deadline(Instant::now() + WITHIN)
    }
}

impl Deadline {
    /// Returns how much time is left.
    pub fn left(&self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Whether no time is left.
    pub fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    /// Panics with `what` if no time is left.
    #[track_caller]
    pub fn check(&self, what: &str) {
        if self.is_over() {
            too_late(what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_what_was_found_or_with_nothing() {
        let mut looks = 0;
        let found = eventually_some("the third look", || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(found, 3);
        assert_eq!(first_some(Duration::ZERO, || None::<u8>), None);
    }

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let some: Vec<Duration> = pauses().take(20).collect();
        assert_eq!(some[..3], [1, 2, 4].map(Duration::from_millis));
        assert!(some.is_sorted() && some[19] == MAX_PAUSE, "{some:?}");
    }

    #[test]
    fn a_thread_is_joined_and_its_panic_goes_on() {
        assert_eq!(joined("it returns", std::thread::spawn(|| 7)), 7);
        let panics = std::thread::spawn(|| joined("it panics", std::thread::spawn(|| panic!("of its own"))));
        let panic = panics.join().expect_err("it panics");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"of its own"));
    }

    #[test]
    fn a_descriptor_is_readable_when_something_is_there_or_nobody_is_left_to_write() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        std::io::Write::write_all(&mut &writer, b"x").expect("there is room");
        until_readable("a byte", &reader);
        std::io::Read::read_exact(&mut &reader, &mut [0]).expect("a byte");
        drop(writer);
        until_readable("the end", &reader);
    }

    #[test]
    fn a_deadline_that_is_over_panics_with_what_was_waited_for() {
        let past = Deadline(Instant::now());
        assert!(past.is_over() && !Deadline::default().is_over());
        let panic = std::panic::catch_unwind(|| past.check("a message")).expect_err("it is over");
        let said = panic.downcast_ref::<String>().expect("a text");
        assert_eq!(said, "not within 120 s: a message");
    }

    #[test]
    fn a_future_is_waited_for() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.expect("a runtime");
        assert_eq!(runtime.block_on(in_time("it is ready", async { 7 })), 7);
        let mut looks = 0;
        runtime.block_on(eventually_async("the second look", tokio::time::sleep, || {
            looks += 1;
            looks == 2
        }));
        assert_eq!(looks, 2);
    }
}
