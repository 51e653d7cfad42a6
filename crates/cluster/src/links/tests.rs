//! Exactly-once, in-order delivery through every kind of loss; bounds; which peers are reported.

mod window;

use std::collections::VecDeque;

use super::*;
use crate::names::Incarnation;

const TIMEOUTS: LinkTimeouts = LinkTimeouts {
    ack_within: Span::from_micros(20),
    resend_after: Span::from_micros(100),
    unreachable_after: Span::from_micros(1000),
};

/// The weight of every message.
const WEIGHT: usize = 10;

impl Weigh for u32 {
    fn weight(&self) -> usize {
        WEIGHT
    }
}

fn member(site: &str, incarnation: u64) -> Member {
    Member { site: site.parse().unwrap(), incarnation: Incarnation::new(incarnation) }
}

fn at(micros: u64) -> Time {
    Time::from_micros(micros)
}

fn links() -> Links<u32> {
    Links::new(TIMEOUTS, LinkLimits::default())
}

/// The epoch of most messages: links pass it on.
fn epoch() -> Epoch {
    Epoch::new(3).unwrap()
}

fn data(number: u64, ack: u64, body: u32) -> Frame<u32> {
    Frame::Data { number, ack, epoch: epoch(), body }
}

impl Links<u32> {
    /// Takes a frame that may be delivered, and returns what is delivered.
    fn take(&mut self, from: &Member, frame: Frame<u32>, now: Time, out: &mut Outgoing<u32>) -> Option<u32> {
        self.receive(from, frame, now, out, |_, _| Acceptance::Take).unwrap().map(|(_, body)| body)
    }
}

#[test]
fn acknowledgements_ride_on_messages_and_come_alone_only_when_there_are_none() {
    let (a, b) = (member("a", 1), member("b", 1));
    let (mut at_a, mut at_b, mut out) = (links(), links(), Vec::new());
    at_a.send(&b, epoch(), 7, at(0), &mut out);
    assert_eq!(std::mem::take(&mut out), [(b.clone(), data(1, 0, 7))]);
    assert_eq!(at_b.take(&a, data(1, 0, 7), at(1), &mut out), Some(7));
    at_b.send(&a, epoch(), 8, at(2), &mut out);
    assert_eq!(std::mem::take(&mut out), [(a.clone(), data(1, 1, 8))]);
    assert_eq!(
        at_b.next_due(),
        Some(at(102)),
        "no acknowledgement is due, only its own message may need resending"
    );
    assert_eq!(at_a.take(&b, data(1, 1, 8), at(3), &mut out), Some(8));
    assert_eq!(at_a.next_due(), Some(at(23)));
    at_a.on_time(at(23), &mut out);
    assert_eq!(out, [(b, Frame::Ack { ack: 1 })]);
    assert_eq!(at_a.next_due(), None);
}

#[test]
fn a_duplicate_is_dropped_and_answered_and_a_gap_waits() {
    let a = member("a", 1);
    let (mut at_b, mut out) = (links(), Vec::new());
    assert_eq!(at_b.take(&a, data(2, 0, 8), at(0), &mut out), None);
    assert_eq!(at_b.take(&a, data(1, 0, 7), at(0), &mut out), Some(7));
    at_b.on_time(at(20), &mut out);
    out.clear();
    assert_eq!(at_b.take(&a, data(1, 0, 7), at(30), &mut out), None);
    assert!(at_b.owes_ack());
    at_b.on_time(at(30), &mut out);
    assert_eq!(out, [(a.clone(), Frame::Ack { ack: 1 })]);
    assert_eq!(at_b.take(&a, data(2, 0, 8), at(31), &mut out), Some(8));
}

#[test]
fn a_message_that_is_refused_is_answered_but_not_acknowledged_and_is_sent_again() {
    let a = member("a", 1);
    let (mut at_b, mut out) = (links(), Vec::new());
    let refused = at_b.receive(&a, data(1, 0, 7), at(0), &mut out, |_, _| Acceptance::Refuse);
    assert_eq!((refused, at_b.tally().refused), (Ok(None), 1));
    at_b.on_time(at(0), &mut out);
    assert_eq!(out, [(a.clone(), Frame::Ack { ack: 0 })]);
    assert_eq!(at_b.take(&a, data(1, 0, 7), at(1), &mut out), Some(7));
}

#[test]
fn a_newer_incarnation_gets_a_new_link_and_an_older_one_is_ignored() {
    let (old, new) = (member("a", 1), member("a", 2));
    let (mut at_b, mut out) = (links(), Vec::new());
    assert_eq!(at_b.take(&old, data(1, 0, 7), at(0), &mut out), Some(7));
    assert_eq!(at_b.take(&new, data(1, 0, 9), at(0), &mut out), Some(9));
    assert_eq!(at_b.take(&old, data(2, 0, 8), at(0), &mut out), None);
    at_b.send(&old, epoch(), 1, at(0), &mut out);
    assert_eq!(out, []);
}

#[test]
fn an_acknowledgement_of_a_message_that_was_never_sent_is_refused() {
    let (mut at_a, b, mut out) = (links(), member("b", 1), Vec::new());
    let refused = at_a.receive(&b, Frame::Ack { ack: 3 }, at(0), &mut out, |_, _| Acceptance::Take);
    assert_eq!(refused, Err(LinkFault::AcknowledgesTheFuture { ack: 3, sent: 0 }));
    // A message that waits in the queue was not sent either.
    let mut at_a = Links::new(TIMEOUTS, LinkLimits { window: 2, ..LinkLimits::default() });
    for body in 0..3 {
        at_a.send(&b, epoch(), body, at(0), &mut out);
    }
    let refused = at_a.receive(&b, Frame::Ack { ack: 3 }, at(0), &mut out, |_, _| Acceptance::Take);
    assert_eq!(refused, Err(LinkFault::AcknowledgesTheFuture { ack: 3, sent: 2 }));
}

#[test]
fn a_peer_is_unreachable_after_a_silence_until_it_acknowledges() {
    let b = member("b", 1);
    let (mut at_a, mut out) = (links(), Vec::new());
    at_a.send(&b, epoch(), 7, at(0), &mut out);
    at_a.on_time(at(100), &mut out);
    assert_eq!(at_a.unreachable(at(999)).count(), 0);
    assert_eq!(at_a.unreachable(at(1000)).collect::<Vec<_>>(), [&b]);
    assert_eq!(at_a.take(&b, Frame::Ack { ack: 1 }, at(1001), &mut out), None);
    assert_eq!(at_a.unreachable(at(5000)).count(), 0);
}

#[test]
fn a_site_that_was_paused_asks_again_before_it_calls_a_peer_unreachable() {
    let b = member("b", 1);
    let (mut at_a, mut out) = (links(), Vec::new());
    at_a.send(&b, epoch(), 7, at(0), &mut out);
    assert_eq!(at_a.unreachable(at(5000)).count(), 0, "the answer may have come during the pause");
    at_a.on_time(at(5000), &mut out);
    assert_eq!(at_a.unreachable(at(5099)).count(), 0);
    assert_eq!(at_a.unreachable(at(5100)).count(), 1);
}

#[test]
fn a_link_with_too_many_unacknowledged_messages_or_bytes_breaks_for_good() {
    let b = member("b", 1);
    let few = LinkLimits { window: 4, queue: 20, ..LinkLimits::default() };
    let light = LinkLimits { window: 4, queue_bytes: 20 * WEIGHT, ..LinkLimits::default() };
    for limits in [few, light] {
        let (mut at_a, mut out) = (Links::new(TIMEOUTS, limits), Vec::new());
        for body in 0..20 {
            at_a.send(&b, epoch(), body, at(0), &mut out);
        }
        assert_eq!((out.len(), at_a.tally().broken), (4, 0));
        assert_eq!(at_a.unreachable(at(0)).count(), 0);
        at_a.send(&b, epoch(), 20, at(0), &mut out);
        assert_eq!(at_a.tally().broken, 1);
        assert_eq!(at_a.unreachable(at(0)).collect::<Vec<_>>(), [&b]);
        assert_eq!(at_a.take(&b, Frame::Ack { ack: 3 }, at(1), &mut out), None);
        assert_eq!(at_a.unreachable(at(1)).collect::<Vec<_>>(), [&b]);
        out.clear();
        at_a.on_connected(&b.site, at(2), &mut out);
        assert_eq!((std::mem::take(&mut out), at_a.next_due()), (Vec::new(), None));
        // Only a new incarnation of the peer gets a new link.
        at_a.send(&member("b", 2), epoch(), 1, at(3), &mut out);
        assert_eq!(out, [(member("b", 2), data(1, 0, 1))]);
    }
}

/// Sends `count` messages over a network that loses whole connections, and returns what arrived, and how many were refused. Some
/// of the messages wait at the receiver for a while, which then holds its peer back.
fn through_broken_connections(seed: u64, count: u32, limits: LinkLimits) -> (Vec<u32>, u64) {
    let mut draw = fastrand::Rng::with_seed(seed);
    let (a, b) = (member("a", 1), member("b", 1));
    let (mut at_a, mut at_b) = (Links::new(TIMEOUTS, limits), Links::new(TIMEOUTS, limits));
    let (mut to_b, mut to_a) = (VecDeque::new(), VecDeque::new());
    let (mut late_to_b, mut late_to_a) = (VecDeque::new(), VecDeque::new());
    let (mut arrived, mut next, mut waiting, mut out) = (Vec::new(), 0, 0, Vec::new());
    for step in 0..20_000 {
        let now = at(step * 7);
        match draw.u32(..100) {
            0..30 if next < count => {
                at_a.send(&b, epoch(), next, now, &mut out);
                next += 1;
            }
            // The connection breaks: some of what is on its way is lost, and the rest may arrive after what the new
            // connection carries.
            30 => {
                to_b.truncate(if draw.bool() { 0 } else { draw.usize(..=to_b.len()) });
                to_a.truncate(if draw.bool() { 0 } else { draw.usize(..=to_a.len()) });
                if draw.bool() {
                    late_to_b = std::mem::take(&mut to_b);
                    late_to_a = std::mem::take(&mut to_a);
                }
                at_a.on_connected(&b.site, now, &mut out);
                at_b.on_connected(&a.site, now, &mut out);
            }
            31..65 => {
                if let Some(frame) = to_b.pop_front() {
                    // A frame may also come twice.
                    if draw.usize(..20) == 0 {
                        to_b.push_back(Frame::clone(&frame));
                    }
                    let keep = |_: Epoch, _: &u32| limits.keep(waiting, WEIGHT);
                    let taken = at_b.receive(&a, frame, now, &mut out, keep).unwrap();
                    waiting += taken.map_or(0, |_| WEIGHT);
                    arrived.extend(taken.map(|(_, body)| body));
                }
            }
            65..95 => {
                if let Some(frame) = to_a.pop_front() {
                    at_a.take(&b, frame, now, &mut out);
                }
            }
            95 => {
                waiting = 0;
                at_b.release(&a.site, now);
            }
            _ => {
                at_a.on_time(now, &mut out);
                at_b.on_time(now, &mut out);
            }
        }
        for (to, frame) in out.drain(..) {
            if to == b { to_b.push_back(frame) } else { to_a.push_back(frame) }
        }
        to_b.append(&mut late_to_b);
        to_a.append(&mut late_to_a);
    }
    (arrived, at_b.tally().refused)
}

fn narrow() -> LinkLimits {
    LinkLimits {
        window: 8,
        window_bytes: 6 * WEIGHT,
        ack_every: 3,
        early_bytes: 5 * WEIGHT,
        ..LinkLimits::default()
    }
}

#[test]
fn every_message_arrives_once_and_in_order_whatever_connections_do() {
    let all: Vec<u32> = (0..500).collect();
    for seed in 0..50 {
        for limits in [LinkLimits::default(), narrow()] {
            let (arrived, refused) = through_broken_connections(seed, 500, limits);
            assert_eq!(arrived, all, "seed {seed}");
            assert_eq!(refused, 0, "seed {seed}: nothing of a correct peer is refused");
        }
    }
}

#[test]
fn a_receiver_that_holds_nobody_back_is_caught() {
    let run = || through_broken_connections(1, 500, narrow());
    assert!(mutant::with(Mutant::NobodyHeldBack, run).1 > 0);
}

#[test]
fn a_link_that_drops_one_message_on_reconnection_is_caught() {
    let all: Vec<u32> = (0..500).collect();
    // If only the oldest unacknowledged message is dropped each time, and it had already arrived, nothing is lost.
    let arrived = |seed| {
        let limits = LinkLimits::default();
        mutant::with(Mutant::ReconnectDropsOne, || through_broken_connections(seed, 500, limits))
    };
    let caught = (0..50).filter(|&seed| arrived(seed).0 != all).count();
    assert!(caught >= 45, "{caught} of 50");
}
