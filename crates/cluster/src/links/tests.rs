//! Exactly-once, in-order delivery through every kind of loss; bounds; which peers are reported.

use super::*;
use crate::names::Incarnation;

const TIMEOUTS: LinkTimeouts = LinkTimeouts {
    ack_within: Span::from_micros(20),
    resend_after: Span::from_micros(100),
    unreachable_after: Span::from_micros(1000),
};

fn member(site: &str, incarnation: u64) -> Member {
    Member { site: site.parse().unwrap(), incarnation: Incarnation::new(incarnation) }
}

fn at(micros: u64) -> Time {
    Time::from_micros(micros)
}

fn links() -> Links<u32> {
    Links::new(TIMEOUTS)
}

/// The epoch of all messages: links pass it on.
fn epoch() -> Epoch {
    Epoch::new(3).unwrap()
}

fn data(number: u64, ack: u64, body: u32) -> Frame<u32> {
    Frame::Data { number, ack, epoch: epoch(), body }
}

#[test]
fn acknowledgements_ride_on_messages_and_come_alone_only_when_there_are_none() {
    let (a, b) = (member("a", 1), member("b", 1));
    let (mut at_a, mut at_b, mut out) = (links(), links(), Vec::new());
    at_a.send(&b, epoch(), 7, at(0), &mut out);
    assert_eq!(std::mem::take(&mut out), [(b.clone(), data(1, 0, 7))]);
    assert_eq!(at_b.receive(&a, data(1, 0, 7), at(1), |_, _| true), Ok(Some((epoch(), 7))));
    at_b.send(&a, epoch(), 8, at(2), &mut out);
    assert_eq!(std::mem::take(&mut out), [(a.clone(), data(1, 1, 8))]);
    assert_eq!(
        at_b.next_due(),
        Some(at(102)),
        "no acknowledgement is due, only its own message may need resending"
    );
    assert_eq!(at_a.receive(&b, data(1, 1, 8), at(3), |_, _| true), Ok(Some((epoch(), 8))));
    assert_eq!(at_a.next_due(), Some(at(23)));
    at_a.on_time(at(23), &mut out);
    assert_eq!(out, [(b, Frame::Ack { ack: 1 })]);
    assert_eq!(at_a.next_due(), None);
}

#[test]
fn a_duplicate_is_dropped_and_answered_and_a_gap_waits() {
    let a = member("a", 1);
    let (mut at_b, mut out) = (links(), Vec::new());
    assert_eq!(at_b.receive(&a, data(2, 0, 8), at(0), |_, _| true), Ok(None));
    assert_eq!(at_b.receive(&a, data(1, 0, 7), at(0), |_, _| true), Ok(Some((epoch(), 7))));
    at_b.on_time(at(20), &mut out);
    out.clear();
    assert_eq!(at_b.receive(&a, data(1, 0, 7), at(30), |_, _| true), Ok(None));
    at_b.on_time(at(30), &mut out);
    assert_eq!(out, [(a.clone(), Frame::Ack { ack: 1 })]);
    assert_eq!(at_b.receive(&a, data(2, 0, 8), at(31), |_, _| true), Ok(Some((epoch(), 8))));
}

#[test]
fn a_message_that_is_not_accepted_is_not_acknowledged_and_is_sent_again() {
    let a = member("a", 1);
    let mut at_b = links();
    assert_eq!(at_b.receive(&a, data(1, 0, 7), at(0), |_, _| false), Ok(None));
    assert_eq!(at_b.next_due(), None);
    assert_eq!(at_b.receive(&a, data(1, 0, 7), at(1), |_, _| true), Ok(Some((epoch(), 7))));
}

#[test]
fn a_newer_incarnation_gets_a_new_link_and_an_older_one_is_ignored() {
    let (old, new) = (member("a", 1), member("a", 2));
    let (mut at_b, mut out) = (links(), Vec::new());
    assert_eq!(at_b.receive(&old, data(1, 0, 7), at(0), |_, _| true), Ok(Some((epoch(), 7))));
    assert_eq!(at_b.receive(&new, data(1, 0, 9), at(0), |_, _| true), Ok(Some((epoch(), 9))));
    assert_eq!(at_b.receive(&old, data(2, 0, 8), at(0), |_, _| true), Ok(None));
    at_b.send(&old, epoch(), 1, at(0), &mut out);
    assert_eq!(out, []);
}

#[test]
fn an_acknowledgement_of_a_message_that_was_never_sent_is_refused() {
    let mut at_a = links();
    let refused = at_a.receive(&member("b", 1), Frame::Ack { ack: 3 }, at(0), |_, _| true);
    assert_eq!(refused, Err(LinkFault::AcknowledgesTheFuture { ack: 3, sent: 0 }));
}

#[test]
fn a_peer_is_unreachable_while_its_oldest_message_waits_too_long() {
    let b = member("b", 1);
    let (mut at_a, mut out) = (links(), Vec::new());
    at_a.send(&b, epoch(), 7, at(0), &mut out);
    assert_eq!(at_a.unreachable(at(999)).count(), 0);
    assert_eq!(at_a.unreachable(at(1000)).collect::<Vec<_>>(), [&b]);
    assert_eq!(at_a.receive(&b, Frame::Ack { ack: 1 }, at(1001), |_, _| true), Ok(None));
    assert_eq!(at_a.unreachable(at(5000)).count(), 0);
}

#[test]
fn a_link_with_too_many_unacknowledged_messages_breaks_for_good() {
    let b = member("b", 1);
    let (mut at_a, mut out) = (links(), Vec::new());
    for number in 0..=MAX_UNACKNOWLEDGED {
        at_a.send(&b, epoch(), u32::try_from(number).unwrap(), at(0), &mut out);
    }
    assert_eq!(out.len(), MAX_UNACKNOWLEDGED);
    assert_eq!(at_a.unreachable(at(0)).collect::<Vec<_>>(), [&b]);
    assert_eq!(at_a.receive(&b, Frame::Ack { ack: 5 }, at(1), |_, _| true), Ok(None));
    assert_eq!(at_a.unreachable(at(1)).collect::<Vec<_>>(), [&b]);
    out.clear();
    at_a.on_connected(&b.site, at(2), &mut out);
    assert_eq!(out, []);
    // Only a new incarnation of the peer gets a new link.
    at_a.send(&member("b", 2), epoch(), 1, at(3), &mut out);
    assert_eq!(out, [(member("b", 2), data(1, 0, 1))]);
}

/// Sends `count` messages over a network that loses whole connections, and returns what arrived.
fn through_broken_connections(seed: u64, count: u32) -> Vec<u32> {
    let mut draw = fastrand::Rng::with_seed(seed);
    let (a, b) = (member("a", 1), member("b", 1));
    let (mut at_a, mut at_b) = (Links::new(TIMEOUTS), Links::new(TIMEOUTS));
    let (mut to_b, mut to_a) = (VecDeque::new(), VecDeque::new());
    let (mut arrived, mut next, mut out) = (Vec::new(), 0, Vec::new());
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
                at_a.on_connected(&b.site, now, &mut out);
                at_b.on_connected(&a.site, now, &mut out);
            }
            31..65 => {
                if let Some(frame) = to_b.pop_front() {
                    arrived.extend(at_b.receive(&a, frame, now, |_, _| true).unwrap().map(|(_, body)| body));
                }
            }
            65..95 => {
                if let Some(frame) = to_a.pop_front() {
                    at_a.receive(&b, frame, now, |_, _| true).unwrap();
                }
            }
            _ => {
                at_a.on_time(now, &mut out);
                at_b.on_time(now, &mut out);
            }
        }
        for (to, frame) in out.drain(..) {
            if to == b { to_b.push_back(frame) } else { to_a.push_back(frame) }
        }
    }
    arrived
}

#[test]
fn every_message_arrives_once_and_in_order_whatever_connections_do() {
    let all: Vec<u32> = (0..500).collect();
    for seed in 0..50 {
        assert_eq!(through_broken_connections(seed, 500), all, "seed {seed}");
    }
}

#[test]
fn a_link_that_drops_one_message_on_reconnection_is_caught() {
    let all: Vec<u32> = (0..500).collect();
    // If only the oldest unacknowledged message is dropped each time, and it had already arrived, nothing is lost.
    let arrived = |seed| mutant::with(Mutant::ReconnectDropsOne, || through_broken_connections(seed, 500));
    let caught = (0..50).filter(|&seed| arrived(seed) != all).count();
    assert!(caught >= 45, "{caught} of 50");
}
