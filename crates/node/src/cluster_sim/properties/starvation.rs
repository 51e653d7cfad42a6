//! Once faults have stopped, everyone who wants in gets in, within a bound.

use super::{Verdict, broken};
use crate::cluster_sim::clock::Moment;

/// How long it may take in the calm until everyone has been served, in microseconds: leases run out (twice: once for the
/// old life of a restarted site, once more behind a lost leader), a leader is elected, every client holds its longest.
pub(in crate::cluster_sim) const fn bound(clients: u64, longest_hold: u64) -> u64 {
    30_000_000 + clients * (longest_hold + 1_000_000)
}

/// Nobody is left when the bound is over.
pub(in crate::cluster_sim) fn check(waiting: &[String], now: Moment) -> Verdict {
    if waiting.is_empty() {
        return Ok(());
    }
    broken("starvation", now, format!("still not served: {}", waiting.join(", ")))
}
