//! Waits that end: a test that waits for something that never comes fails with what it waited for, instead of hanging.

use std::time::{Duration, Instant};

/// How long a test waits for something before it fails: far longer than anything takes on a busy machine.
pub const WITHIN: Duration = Duration::from_mins(2);

/// How long to pause between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `holds`; panics with `what` if that takes too long.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    eventually_some(what, || holds().then_some(()));
}

/// Waits until `look` returns something, which is returned; panics with `what` if that takes too long.
#[track_caller]
pub fn eventually_some<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    first_some(WITHIN, look).unwrap_or_else(|| panic!("not within {} s: {what}", WITHIN.as_secs()))
}

/// What `look` returns first, if it returns something within so long.
pub fn first_some<T>(within: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if start.elapsed() > within {
            return None;
        }
        std::thread::park_timeout(PAUSE);
    }
}

/// Waits until `holds`, letting other tasks of the runtime work; panics with `what` if that takes too long. `pause` is a sleep of the
/// caller's runtime.
pub async fn eventually_async<F: Future<Output = ()>>(
    what: &str,
    pause: impl Fn(Duration) -> F,
    mut holds: impl FnMut() -> bool,
) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < WITHIN, "not within {} s: {what}", WITHIN.as_secs());
        pause(PAUSE).await;
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
}
