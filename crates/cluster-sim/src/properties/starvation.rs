//! Once faults have stopped, everyone who wants in gets in, within a bound.
//!
//! **The bound**, from the moment at which faults stop. Clocks run fast or right, so that nothing that a node waits for on
//! its own clock takes longer in truth. All that time is spent on settling, on being inside, or on the way from one holder
//! to the next:
//!
//! > settle + Σ (hold + way), over all turns that clients had in the calm
//!
//! *settle* is how long it takes until a view is open that does not change any more:
//!
//! > max(resend, disk + elections) + max(find, silence + leases) + rejoin + changes
//!
//! | what | how long | why |
//! |---|---|---|
//! | resend | 8 · resend_after | a swallowed message is sent again after that at the latest; meanwhile voters elect |
//! | disk | one slow write | what a slow disk was given before the calm |
//! | elections | 2 · (2 · election + voters) ticks | the last voter's timeout and its handicap; and once more, for a leader that only some hear gives up |
//! | find | (2 + voters) · renew_every | two questions without an answer, then every voter is asked; meanwhile leases run out |
//! | silence | max(L, unreachable_after + renew_every) | until the leader knows that a member does not hear it, or that two do not hear each other |
//! | leases | L · (1 + drift) | until the lease of such a member, or of an old incarnation, is certainly over |
//! | rejoin | 5 · renew_every + gather | a member that was left out learns it, pings, asks to be let in, and perhaps once more because its incarnation is too old |
//! | changes | 2 · machines · (4 trips + 2 writes) | a view for each that goes and each that comes: proposed, written, agreed on, told, opened by a census |
//!
//! Whoever got in before the calm, and may be held up between its look at the clock and its write, is out again by then.
//! *way* is what a client and its node need to speak and rest, and two trips for each site: no algorithm passes a permit on by
//! more. The number of turns is bounded too: whoever has had its turn in the calm wants no other, and only a client that lost
//! its lock while views settled, or had its first turn before the calm, has a second.

use super::{Verdict, broken};
use crate::clock::Moment;
use crate::settings::Settings;
use meshlock_cluster::membership::MAX_VOTERS;

/// How long a client is held up at most between its look at the clock and its write, in microseconds.
pub(crate) const LONGEST_HOLD_UP: u64 = 5_000_000;

/// How long one write takes at most on a disk that is slow, in microseconds.
pub(crate) const SLOWEST_WRITE: u64 = 800_000;

/// A client's way to its node and back, its write and its rest, in microseconds.
const CLIENT: u64 = 12_000;

/// What the bound is made of, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    settle: u64,
    way: u64,
    /// Not more than this is allowed for all turns together.
    most: u64,
    /// What the turns in the calm have taken so far.
    turns: u64,
}

impl Bound {
    pub(crate) fn new(settings: &Settings) -> Self {
        let config = settings.config(0, 1);
        let (machines, voters) = (settings.machines as u64, config.sites.len().min(MAX_VOTERS) as u64);
        let (trip, terms) = (settings.delay, settings.terms);
        let renew_every = terms.renew_every.micros();
        let resend = config.patience.resend_after.times(8).micros();
        let elections = 2 * config.tick.times(2 * config.pace.election as u64 + voters).micros();
        let find = (2 + voters) * renew_every;
        let silence = terms.length.micros().max(config.patience.unreachable_after.micros() + renew_every);
        let leases = terms.drift.stretch(terms.length).micros();
        let rejoin = 5 * renew_every + config.tick.times(2).micros();
        let changes = 2 * machines * (4 * trip + 2 * settings.disk);
        let quiet = resend.max(SLOWEST_WRITE + elections) + find.max(silence + leases) + rejoin + changes;
        let settle = quiet.max(LONGEST_HOLD_UP + settings.hold);
        let way = CLIENT + 2 * machines * trip;
        let most = 2 * settings.clients as u64 * machines * (settings.hold + way);
        Bound { settle, way, most, turns: way }
    }

    /// A client got in and will stay so long.
    pub(crate) fn on_turn(&mut self, hold: u64) {
        self.turns += hold + self.way;
    }

    /// How long it may take in the calm until everyone has been served.
    pub(crate) fn micros(&self) -> u64 {
        self.settle + self.turns.min(self.most)
    }
}

/// Nobody is left when the bound is over.
pub(crate) fn check(waiting: &[String], now: Moment) -> Verdict {
    if waiting.is_empty() {
        return Ok(());
    }
    broken("starvation", now, format!("still not served: {}", waiting.join(", ")))
}
