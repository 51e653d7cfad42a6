//! Rate limits: a token bucket that refills at a fixed rate and allows a burst after a quiet period.

use crate::time::{Span, Time};

/// Number of units that one request takes out of a bucket.
const REQUEST: u64 = 1_000_000;

/// A rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Requests per second.
    pub rate: u32,
    /// Requests that are allowed at once after a quiet period.
    pub burst: u32,
}

/// A token bucket, in millionths of a request: at a rate of one request per second it gains one unit per microsecond.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    left: u64,
    at: Time,
}

impl Bucket {
    /// Returns a full bucket, for a caller that has made no requests yet.
    pub fn full(pace: Pace, now: Time) -> Self {
        Bucket { left: pace.most(), at: now }
    }

    /// Takes one request out of the bucket, or returns how long to wait until the next one is allowed.
    pub fn take(&mut self, pace: Pace, now: Time) -> Result<(), Span> {
        self.left = self.earned(pace, now);
        self.at = self.at.max(now);
        if let Some(left) = self.left.checked_sub(REQUEST) {
            self.left = left;
            return Ok(());
        }
        Err(Span::from_micros((REQUEST - self.left).div_ceil(u64::from(pace.rate.max(1)))))
    }

    /// Takes `requests` requests out of the bucket without checking whether that many are left.
    pub fn spend(&mut self, requests: u32) {
        self.left = self.left.saturating_sub(u64::from(requests) * REQUEST);
    }

    /// Returns whether the bucket is full, so that dropping it loses no information.
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
