//! An asynchronous alarm on the clock that leases are counted on. Other timers stop while the machine is suspended; this one fires as
//! soon as the machine is awake again if its time has passed.

use std::io;
use std::os::fd::OwnedFd;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use meshlock_cluster::time::Time;

/// A timer that can be awaited.
pub(super) struct AsyncAlarm(AsyncFd<OwnedFd>);

impl AsyncAlarm {
    /// Creates an alarm on the current Tokio runtime.
    #[allow(
        deprecated,
        reason = "an owned descriptor stays the same; what takes its place needs unsafe code"
    )]
    pub(super) fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        Ok(AsyncAlarm(AsyncFd::with_interest(timer, Interest::READABLE)?))
    }

    /// Waits until `due`. A new call replaces the time of an earlier one that has not completed.
    pub(super) async fn until(&self, due: Time) -> io::Result<()> {
        let value = moment(due);
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::ABSTIME, &once)?;
        let mut rings = [0; 8];
        // Setting the timer clears an earlier expiry. Readiness that was noted before that is stale, so the read is retried.
        loop {
            if let Ok(read) =
                self.0.readable().await?.try_io(|timer| Ok(rustix::io::read(timer, &mut rings)?))
            {
                return read.map(|_| ());
            }
        }
    }
}

/// Converts a time to the system's form. It is at least one microsecond, because zero would disarm the timer.
fn moment(due: Time) -> Timespec {
    let micros = due.micros().clamp(1, u64::try_from(i64::MAX / 1000).unwrap_or(u64::MAX));
    let part = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    Timespec { tv_sec: part(micros / 1_000_000), tv_nsec: part(micros % 1_000_000 * 1000) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meshlock_cluster::time::Span;
    use meshlock_system::now;
    use meshlock_testing::async_test;

    #[test]
    fn an_alarm_rings_at_its_time_and_not_before() {
        async_test(async {
            let alarm = AsyncAlarm::new().unwrap();
            let due = now() + Span::from_millis(3);
            alarm.until(due).await.unwrap();
            assert!(now() >= due);
        });
    }

    #[test]
    fn an_alarm_for_a_moment_that_has_passed_rings_at_once_and_can_be_set_again() {
        async_test(async {
            let alarm = AsyncAlarm::new().unwrap();
            alarm.until(Time::ZERO).await.unwrap();
            let never = alarm.until(Time::from_micros(u64::MAX));
            assert!(tokio::time::timeout(std::time::Duration::ZERO, never).await.is_err());
            alarm.until(now()).await.unwrap();
        });
    }
}
