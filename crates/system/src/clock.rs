//! This machine's clock.

use rustix::time::{ClockId, clock_gettime};

use meshlock_cluster::time::Time;

/// Returns the time on the clock that leases are counted on. It never jumps, and it runs while the machine is suspended.
pub fn now() -> Time {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_nsec).unwrap_or(0) / 1000;
    Time::from_micros(seconds.saturating_mul(1_000_000).saturating_add(micros))
}

/// Returns the stamp of a node's start: the milliseconds of the calendar clock. If that clock was set back and the site has also lost its
/// disk, the leader tells it that its incarnation is too old.
pub fn stamp() -> u64 {
    let time = clock_gettime(ClockId::Realtime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let millis = u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000;
    seconds.saturating_mul(1000).saturating_add(millis)
}

/// Returns the calendar time in microseconds since 1970. It is used only to compare what several sites report.
pub fn wall() -> u64 {
    let time = clock_gettime(ClockId::Realtime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_nsec).unwrap_or(0) / 1000;
    seconds.saturating_mul(1_000_000).saturating_add(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_does_not_run_backwards() {
        let first = now();
        assert!(first.micros() > 0 && now() >= first);
    }
}
