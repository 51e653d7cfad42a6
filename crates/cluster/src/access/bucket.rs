//! How fast somebody may ask: so many requests a second, and a store for those who were quiet before.

use crate::time::{Span, Time};

/// How much of the store one request takes.
const REQUEST: u64 = 1_000_000;

/// How fast requests may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// A second.
    pub rate: u32,
    /// At once, after a pause.
    pub burst: u32,
}

/// What somebody has left, in millionths of a request: as many as one earns in a microsecond for each request of the rate.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    left: u64,
    at: Time,
}

impl Bucket {
    /// Of somebody who was quiet.
    pub fn full(pace: Pace, now: Time) -> Self {
        Bucket { left: pace.most(), at: now }
    }

    /// One more request; or how long to wait before the next.
    pub fn take(&mut self, pace: Pace, now: Time) -> Result<(), Span> {
        self.left = self.earned(pace, now);
        self.at = self.at.max(now);
        if let Some(left) = self.left.checked_sub(REQUEST) {
            self.left = left;
            return Ok(());
        }
        Err(Span::from_micros((REQUEST - self.left).div_ceil(u64::from(pace.rate.max(1)))))
    }

    /// So many requests more, without being asked.
    pub fn spend(&mut self, requests: u32) {
        self.left = self.left.saturating_sub(u64::from(requests) * REQUEST);
    }

    /// Whether nothing would be forgotten with it.
    pub fn is_full(&self, pace: Pace, now: Time) -> bool {
        self.earned(pace, now) == pace.most()
    }

    fn earned(&self, pace: Pace, now: Time) -> u64 {
        let earned = now.since(self.at).micros().saturating_mul(u64::from(pace.rate));
        self.left.saturating_add(earned).min(pace.most())
    }
}

impl Pace {
    fn most(self) -> u64 {
        u64::from(self.burst.max(1)) * REQUEST
    }
}
