//! Until when a client that a network can cut off may rely on what it was granted.
//!
//! ```text
//!  client   s ──────────── silence/(1+drift) ────────────▶ stops          on the client's clock
//!            ╲ ping        ▲ pong
//!  node       h ───────────────── silence·(1+drift) ────────────▶ ends the session    on the node's clock
//! ```
//!
//! The node ends a session that has been silent for this long, and others may then get what it held. The node counts from h, when it
//! received the ping; the client counts from s, when it sent the last ping that was answered. s is before h, so the client stops first,
//! even if its clock is the slowest and the node's the fastest that are allowed. And the client holds nothing for longer than the lease
//! of its node, whose end is given on the node's clock: at s that clock showed no more than the pong says.

use std::collections::VecDeque;

use meshlock_cluster::time::{Drift, Span, Time};
use meshlock_wire::clients::Contact;

/// Maximum number of unanswered pings to remember; older ones could hardly be answered in time.
const MAX_UNANSWERED: usize = 16;

/// A client's estimate of until when it may rely on what it holds.
#[derive(Clone, Debug)]
pub(crate) struct LeaseEstimate {
    contact: Option<Contact>,
    /// When the last answered message was sent, and a time that the node's clock showed then or later.
    said: Time,
    there: Time,
    /// The end of the node's lease, on its clock.
    lease_end: Option<Time>,
    unanswered: VecDeque<(u64, Time)>,
}

impl LeaseEstimate {
    /// Starts with the welcome of a node, whose clock showed `there`, to a hello that was sent at `said`.
    pub(crate) fn new(contact: Option<Contact>, said: Time, there: Time) -> Self {
        LeaseEstimate { contact, said, there, lease_end: None, unanswered: VecDeque::new() }
    }

    /// Returns the interval of pings. Three may get lost before the session is lost.
    pub(crate) fn ping_every(&self) -> Option<Span> {
        self.contact.map(|contact| contact.silence.part(4))
    }

    /// Notes that a ping with this number was sent.
    pub(crate) fn on_ping(&mut self, number: u64, now: Time) {
        if self.unanswered.len() == MAX_UNANSWERED {
            self.unanswered.pop_front();
        }
        self.unanswered.push_back((number, now));
    }

    /// Notes the answer to a ping, sent when the node's clock showed `there`.
    pub(crate) fn on_pong(&mut self, number: u64, there: Time) {
        while let Some((first, said)) = self.unanswered.pop_front() {
            if first == number {
                (self.said, self.there) = (self.said.max(said), self.there.max(there));
            }
            if first >= number {
                return;
            }
        }
    }

    /// Notes that the node has a lease until `end` on its clock.
    pub(crate) fn on_lease(&mut self, end: Time) {
        self.lease_end = Some(self.lease_end.map_or(end, |known| known.max(end)));
    }

    /// Returns how much faster one of the two clocks may run than the other.
    pub(crate) fn drift(&self) -> Drift {
        self.contact.map_or(Drift::from_ppm(0), |contact| contact.drift)
    }

    /// Returns when the last message was sent, on this machine's clock, that the node has answered.
    pub(crate) fn last_heard(&self) -> Time {
        self.said
    }

    /// Converts a time of the node's clock to a time of this machine's clock that is certainly not after it.
    pub(crate) fn local(&self, there: Time) -> Time {
        let drift = self.drift();
        if there >= self.there {
            self.said + drift.shrink(there.since(self.there))
        } else {
            self.said.before(drift.stretch(self.there.since(there)))
        }
    }

    /// Returns the time on this machine's clock until which the node certainly keeps the session, if it ends silent ones.
    pub(crate) fn session_end(&self) -> Option<Time> {
        self.contact.map(|contact| self.said + contact.drift.shrink(contact.silence))
    }

    /// Returns the time on this machine's clock before which nobody else has what the client holds.
    pub(crate) fn end(&self) -> Time {
        let lease = self.lease_end.map_or(self.said, |end| self.local(end));
        self.session_end().map_or(lease, |end| lease.min(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn at(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    fn estimate() -> LeaseEstimate {
        let contact = Contact { silence: Span::from_millis(2000), drift: Drift::from_ppm(1000) };
        // The node's clock is far ahead; hello was sent at 1 s.
        let mut estimate = LeaseEstimate::new(Some(contact), at(SECOND), at(500 * SECOND));
        estimate.on_lease(at(505 * SECOND));
        estimate
    }

    #[test]
    fn without_an_answer_a_client_stops_before_the_node_gives_its_locks_away() {
        let mut estimate = estimate();
        let stops = estimate.end();
        assert_eq!(stops, at(SECOND) + Span::from_micros(1_998_001));
        // The node counts from when hello was sent at the earliest, on a clock that may be the fastest.
        let slowest = Drift::from_ppm(1000).stretch(stops.since(at(SECOND)));
        assert!(slowest <= Span::from_millis(2000));
        estimate.on_ping(1, at(2 * SECOND));
        assert_eq!(estimate.end(), stops, "what is not answered extends nothing");
        estimate.on_pong(7, at(501 * SECOND));
        assert_eq!(estimate.end(), stops, "nor does an answer to what was not asked");
    }

    #[test]
    fn an_answer_counts_from_when_its_question_was_sent() {
        let mut estimate = estimate();
        estimate.on_ping(1, at(2 * SECOND));
        estimate.on_ping(2, at(3 * SECOND));
        estimate.on_pong(1, at(502 * SECOND));
        assert_eq!(estimate.end(), at(2 * SECOND) + Span::from_micros(1_998_001));
        estimate.on_pong(1, at(504 * SECOND));
        assert_eq!(estimate.end(), at(2 * SECOND) + Span::from_micros(1_998_001), "once");
    }

    #[test]
    fn the_end_of_the_nodes_lease_counts_if_it_is_sooner() {
        let mut estimate = estimate();
        estimate.on_ping(1, at(4 * SECOND));
        estimate.on_pong(1, at(504 * SECOND));
        // One second of lease is left at the node, which is a little less here.
        assert_eq!(estimate.end(), at(4 * SECOND) + Span::from_micros(999_000));
        estimate.on_lease(at(509 * SECOND));
        assert_eq!(estimate.end(), at(4 * SECOND) + Span::from_micros(1_998_001));
    }

    #[test]
    fn moments_of_the_past_are_not_taken_for_later_ones() {
        let estimate = estimate();
        assert_eq!(estimate.local(at(499 * SECOND)), at(0), "a fast clock may have shown it earlier");
        assert_eq!(estimate.local(at(500 * SECOND)), at(SECOND));
    }
}
