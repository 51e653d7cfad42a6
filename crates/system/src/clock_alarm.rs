//! An alarm on the clock that leases are counted on, which also runs while the machine is suspended.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use meshlock_cluster::time::Time;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// A timer whose file descriptor becomes readable when its time has come.
#[derive(Debug)]
pub struct ClockAlarm(OwnedFd);

impl ClockAlarm {
    /// Creates an alarm that is not set.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(ClockAlarm(timerfd_create(TimerfdClockId::Boottime, flags)?))
    }

    /// Sets the alarm to this time, or disables it.
    pub fn set(&self, until: Option<Time>) -> io::Result<()> {
        let micros = until.map_or(0, Time::micros);
        let nanos = i64::try_from(micros % 1_000_000 * 1000).unwrap_or(0);
        let at = Timespec { tv_sec: i64::try_from(micros / 1_000_000).unwrap_or(i64::MAX), tv_nsec: nanos };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let setting = Itimerspec { it_interval: never, it_value: at };
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &setting)?;
        Ok(())
    }
}

impl AsFd for ClockAlarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
