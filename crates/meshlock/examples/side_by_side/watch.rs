//! Notes for how long a program believes in its lock.

use std::time::{SystemTime, UNIX_EPOCH};

use meshlock::Guard;

/// When it is dropped, it prints the lock, its fence, the permit's number, and the first and the last moment at which the client said
/// that the lock is held, in microseconds. Tests look whether such times of different programs overlap.
pub(crate) fn watch(guard: &Guard) -> Watch<'_> {
    Watch { guard, from: now() }
}

/// What `watch` returns.
pub(crate) struct Watch<'a> {
    guard: &'a Guard,
    from: u128,
}

fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros())
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let Watch { guard, from } = self;
        // The time is taken before the question: the lock was held then if it is held now.
        let at = now();
        let until = if guard.is_lost() { *from } else { at };
        println!("held {} {} {} {from} {until}", guard.name(), guard.fence(), guard.slot().unwrap_or(0));
    }
}
