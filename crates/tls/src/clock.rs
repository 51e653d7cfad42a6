//! The wall clock, by which certificates are judged.

use std::time::{Duration, SystemTime};

use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;

/// Returns the time of the wall clock. A clock that is set before 1970 gives 1970, in which no certificate is valid yet.
pub fn wall_clock() -> UnixTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    UnixTime::since_unix_epoch(since.unwrap_or(Duration::ZERO))
}

/// The wall clock for handshakes. The one of `rustls` panics before 1970.
#[derive(Debug)]
pub(super) struct WallClock;

impl TimeProvider for WallClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(wall_clock())
    }
}
