//! Once faults have stopped, every client that wants a lock gets it, within a bound.
//!
//! **The bound**, from the moment at which faults stop. Clocks run fast or right, so that nothing that a node waits for
//! on its own clock takes longer in true time. All that time is spent on settling, on holding, or on the way from one
//! holder to the next:
//!
//! > settle + Σ (hold + way), over all turns that clients had in the calm
//!
//! *settle* is how long it takes until a view is open that does not change any more:
//!
//! > max(resend, disk + elections) + max(find, silence + leases) + rejoin + changes
//!
//! | what | how long | why |
//! |---|---|---|
//! | resend | 2 · resend_after | a dropped message is sent again after that at the latest; meanwhile voters elect |
//! | disk | one slow write | what a slow disk was given before the calm; a stuck one completes everything at the calm |
//! | elections | 2 · (2 · election + voters) ticks | the last voter's timeout and its handicap; and once more, for a leader that only some voters can reach, or whose disk is stuck for good, and that gives up |
//! | find | (2 + voters) · renew_every | two questions without an answer, then every voter is asked; meanwhile leases run out |
//! | silence | max(L, unreachable_after + renew_every) | until the leader knows that a member does not receive from it, or that two members do not reach each other |
//! | leases | L · (1 + drift) | until the lease of such a member, or of an old incarnation, is certainly over |
//! | rejoin | 5 · renew_every + gather | an excluded member learns it, pings, asks to join, and perhaps once more because its incarnation is too old |
//! | changes | 2 · machines · (4 trips + 2 writes) | a view for each member that leaves and each that joins: proposed, written, agreed on, sent, opened by a census |
//!
//! Where clients move from site to site, the resume window comes on top, 2·L·(1 + drift): so long a site keeps what such a client could prove and
//! does not want any more. In the calm they give back what they hold.
//!
//! A client that entered before the calm, and may be delayed between its look at the clock and its write, has left by
//! then. *way* is the time that a client and its node need to communicate and rest, and two trips for each site: no
//! algorithm passes a permit on by more. The number of turns is bounded too: a client that has had its turn in the calm
//! wants no other, and only a client that lost its lock while views settled, or had its first turn before the calm, has
//! a second.

use super::{CheckResult, broken};
use crate::clock::Moment;
use crate::settings::SeedSettings;
use meshlock_cluster::membership::MAX_VOTERS;

/// Maximum delay of a client between its look at the clock and its write, in microseconds.
pub(crate) const MAX_DELAYED_WRITE: u64 = 5_000_000;

/// Maximum duration of one write on a slow disk, in microseconds.
pub(crate) const MAX_SLOW_WRITE: u64 = 800_000;

/// Time for a client's call to its node and the answer, its write and its rest, in microseconds.
const CLIENT: u64 = 12_000;

/// The parts of the bound, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    settle: u64,
    /// How long it takes at most to leave a member out that is not heard, and to let it in again.
    round: u64,
    way: u64,
    /// Maximum for all turns together.
    most: u64,
    /// The turns in the calm so far.
    turns: u64,
}

impl Bound {
    pub(crate) fn new(settings: &SeedSettings) -> Self {
        let config = settings.config(0, 1);
        let voters = if settings.changes_voters() { MAX_VOTERS } else { config.sites.len().min(MAX_VOTERS) };
        let (machines, voters) = (settings.machines as u64, voters as u64);
        let (trip, terms) = (settings.trip(), settings.terms);
        let renew_every = terms.renew_every.micros();
        let resend = config.link_timeouts.resend_after.times(2).micros();
        let elections = 2 * config.tick.times(2 * config.pace.election as u64 + voters).micros();
        let find = (2 + voters) * renew_every;
        let silence = terms
            .length
            .micros()
            .max(config.link_timeouts_by(terms).unreachable_after.micros() + renew_every);
        let leases = terms.drift.stretch(terms.length).micros();
        let rejoin = 5 * renew_every + config.tick.times(2).micros();
        let changes = 2 * machines * (4 * trip + 2 * settings.disk);
        let quiet = resend.max(MAX_SLOW_WRITE + elections) + find.max(silence + leases) + rejoin + changes;
        let settle = quiet.max(MAX_DELAYED_WRITE + settings.hold);
        let way = CLIENT + 2 * machines * trip;
        let settle = settle + moved(settings, way);
        let most = 2 * settings.clients as u64 * machines * (settings.hold + way);
        Bound { settle, round: silence + leases + rejoin, way, most, turns: way }
    }

    /// Adds the turn of a client that entered and will hold the lock for `hold`.
    pub(crate) fn on_turn(&mut self, hold: u64) {
        self.turns += hold + self.way;
    }

    /// Returns how long it may take in the calm until a view is open that does not change any more.
    pub(crate) fn settle(&self) -> u64 {
        self.settle
    }

    /// Returns how long one round takes of a circle in which a member is left out and comes back.
    pub(crate) fn round(&self) -> u64 {
        self.round
    }

    /// Returns how long it may take in the calm until every client has been served.
    pub(crate) fn micros(&self) -> u64 {
        self.settle + self.turns.min(self.most)
    }
}

/// Returns for how long movers may keep others waiting in the calm.
fn moved(settings: &SeedSettings, way: u64) -> u64 {
    if settings.movers == 0 {
        return 0;
    }
    let window = settings.terms.drift.stretch(settings.terms.resume_window()).micros();
    // A session whose client has died ends after the resume window at the latest; then its mirror may count on it for as long.
    let windows = if settings.wire_clients > 0 { 3 } else { 1 };
    windows * window + (settings.movers + settings.wire_clients) as u64 * way
}

/// Checks that no client still waits when the bound is reached.
pub(crate) fn check(waiting: &[String], now: Moment) -> CheckResult {
    if waiting.is_empty() {
        return Ok(());
    }
    broken("starvation", now, format!("still not served: {}", waiting.join(", ")))
}
