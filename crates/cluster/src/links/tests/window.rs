//! The window, what is sent again, and peers that are held back.

use super::*;

/// Two ends of a link and the frames on their way, each of which takes [`DELAY`].
struct Pair {
    sender: Links<u32>,
    receiver: Links<u32>,
    /// When each frame arrives, and whether at the receiver.
    wire: VecDeque<(Time, bool, Frame<u32>)>,
    now: Time,
    arrived: Vec<u32>,
    acceptance: Acceptance,
    /// Loses frames to the receiver, or to the sender.
    lossy: [bool; 2],
}

const DELAY: Span = Span::from_micros(10);

impl Pair {
    fn new(limits: LinkLimits) -> Self {
        Pair {
            sender: Links::new(TIMEOUTS, limits),
            receiver: Links::new(TIMEOUTS, limits),
            wire: VecDeque::new(),
            now: Time::ZERO,
            arrived: Vec::new(),
            acceptance: Acceptance::Take,
            lossy: [false, false],
        }
    }

    fn send(&mut self, bodies: std::ops::Range<u32>, epoch: Epoch) {
        let mut out = Vec::new();
        for body in bodies {
            self.sender.send(&member("b", 1), epoch, body, self.now, &mut out);
        }
        self.post(out);
    }

    fn post(&mut self, out: Outgoing<u32>) {
        for (to, frame) in out {
            let to_receiver = to.site.as_str() == "b";
            if !self.lossy[usize::from(!to_receiver)] {
                self.wire.push_back((self.now + DELAY, to_receiver, frame));
            }
        }
    }

    fn reconnect(&mut self) {
        self.wire.clear();
        let mut out = Vec::new();
        self.sender.on_connected(&member("b", 1).site, self.now, &mut out);
        self.receiver.on_connected(&member("a", 1).site, self.now, &mut out);
        self.post(out);
    }

    /// Returns when something happens next.
    fn next_due(&self) -> Option<Time> {
        let arrives = self.wire.front().map(|(at, ..)| *at);
        [arrives, self.sender.next_due(), self.receiver.next_due()].into_iter().flatten().min()
    }

    /// Lets time pass until then.
    fn pass_until(&mut self, end: u64) {
        while let Some(due) = self.next_due().filter(|due| *due <= at(end)) {
            self.now = due.max(self.now);
            let mut out = Vec::new();
            if let Some((_, to_receiver, frame)) = self.wire.pop_front_if(|(at, ..)| *at <= self.now) {
                if to_receiver {
                    let acceptance = self.acceptance;
                    let from = member("a", 1);
                    let taken = self.receiver.receive(&from, frame, self.now, &mut out, |_, _| acceptance);
                    self.arrived.extend(taken.unwrap().map(|(_, body)| body));
                } else {
                    self.sender.take(&member("b", 1), frame, self.now, &mut out);
                }
            }
            self.sender.on_time(self.now, &mut out);
            self.receiver.on_time(self.now, &mut out);
            self.post(out);
        }
        self.now = at(end);
    }

    fn is_unreachable(&self) -> bool {
        self.sender.unreachable(self.now).count() > 0
    }
}

fn window(window: usize) -> LinkLimits {
    LinkLimits { window, ack_every: window as u64 / 2, ..LinkLimits::default() }
}

#[test]
fn a_window_of_messages_is_on_its_way_and_an_acknowledgement_sends_on_at_once() {
    let (mut at_a, b, mut out) = (Links::new(TIMEOUTS, window(4)), member("b", 1), Vec::new());
    for body in 1..=10 {
        at_a.send(&b, epoch(), body, at(0), &mut out);
    }
    let numbers = |out: &mut Outgoing<u32>| -> Vec<u64> {
        let number = |(_, frame)| match frame {
            Frame::Data { number, .. } => number,
            Frame::Ack { .. } => 0,
        };
        out.drain(..).map(number).collect()
    };
    assert_eq!(numbers(&mut out), [1, 2, 3, 4]);
    assert_eq!((at_a.tally().waited, at_a.last_sent(&b)), (6, 10));
    at_a.take(&b, Frame::Ack { ack: 3 }, at(1), &mut out);
    assert_eq!(numbers(&mut out), [5, 6, 7]);
    at_a.take(&b, data(1, 7, 0), at(2), &mut out);
    assert_eq!(numbers(&mut out), [8, 9, 10]);
    assert_eq!(at_a.tally().sent_again, 0);
}

#[test]
fn a_window_of_bytes_is_on_its_way_and_a_longer_message_goes_alone() {
    let (b, mut out) = (member("b", 1), Vec::new());
    for (window_bytes, in_flight) in [(3 * WEIGHT, 3), (4 * WEIGHT - 1, 3), (1, 1)] {
        let mut at_a = Links::new(TIMEOUTS, LinkLimits { window_bytes, ..LinkLimits::default() });
        for body in 0..10 {
            at_a.send(&b, epoch(), body, at(0), &mut out);
        }
        assert_eq!(out.drain(..).count(), in_flight, "{window_bytes} bytes");
        assert_eq!(at_a.tally().waited_for_bytes, 10 - in_flight as u64);
        at_a.take(&b, Frame::Ack { ack: in_flight as u64 }, at(1), &mut out);
        assert_eq!(out.drain(..).count(), in_flight, "{window_bytes} bytes");
    }
}

#[test]
fn a_receiver_acknowledges_many_messages_or_bytes_at_once() {
    let (a, mut out) = (member("a", 1), Vec::new());
    let many = LinkLimits { ack_every: 5, ..LinkLimits::default() };
    let heavy = LinkLimits { window_bytes: 8 * 5 * WEIGHT, ..LinkLimits::default() };
    for limits in [many, heavy] {
        let mut at_b = Links::new(TIMEOUTS, limits);
        for number in 1..=5 {
            assert!(!at_b.owes_ack());
            at_b.take(&a, data(number, 0, 0), at(number), &mut out);
        }
        assert!(at_b.owes_ack());
        at_b.on_time(at(5), &mut out);
        assert_eq!(std::mem::take(&mut out), [(a.clone(), Frame::Ack { ack: 5 })]);
        assert!(!at_b.owes_ack());
    }
}

/// Returns how many of 1600 messages have arrived after as many round trips as they have windows, and one more.
fn drained_in_time() -> usize {
    let mut pair = Pair::new(window(16));
    pair.send(0..1600, epoch());
    pair.pass_until((1600 / 16 + 1) * 20);
    assert_eq!(pair.sender.tally().sent_again, 0);
    pair.arrived.len()
}

#[test]
fn a_backlog_drains_a_window_in_each_round_trip() {
    assert_eq!(drained_in_time(), 1600);
    let caught = mutant::with(Mutant::AckDoesNotSendOn, drained_in_time);
    assert!(caught < 100, "{caught}");
}

#[test]
fn a_peer_that_goes_on_acknowledging_is_reached_however_long_a_message_has_waited() {
    let reached = || {
        let mut pair = Pair::new(window(4));
        pair.send(0..1000, epoch());
        (1..200).all(|step| {
            pair.pass_until(step * 20);
            !pair.is_unreachable()
        })
    };
    assert!(reached());
    assert!(!mutant::with(Mutant::UnreachableByAge, reached));
}

#[test]
fn after_a_timeout_only_a_few_messages_are_sent_again_to_a_peer_that_has_all_of_them() {
    let mut pair = Pair::new(window(100));
    pair.lossy = [false, true];
    pair.send(0..100, epoch());
    pair.pass_until(90);
    assert_eq!(pair.arrived.len(), 100);
    pair.lossy = [false, false];
    pair.pass_until(1000);
    assert_eq!((pair.sender.tally().sent_again, pair.sender.next_due()), (25, None));
}

#[test]
fn after_a_loss_within_a_connection_the_rest_follows_without_another_timeout() {
    let mut pair = Pair::new(window(100));
    pair.send(0..10, epoch());
    pair.lossy = [true, false];
    pair.send(10..20, epoch());
    pair.lossy = [false, false];
    pair.send(20..100, epoch());
    // The timeout after the acknowledgement of the first ten; the probe, and an acknowledgement that comes alone; the rest.
    pair.pass_until(40 + 100 + 10 + 20 + 10 + 10);
    assert_eq!(pair.arrived, (0..100).collect::<Vec<_>>());
    pair.pass_until(2000);
    assert_eq!((pair.sender.tally().sent_again, pair.sender.next_due()), (90, None), "each of them once");
}

#[test]
fn messages_that_are_only_slow_are_not_all_sent_again() {
    let mut pair = Pair::new(window(100));
    pair.send(0..100, epoch());
    let slow: Vec<_> = pair.wire.drain(..).map(|(_, to, frame)| (at(450), to, frame)).collect();
    pair.lossy = [true, false];
    pair.pass_until(400);
    let probes = pair.sender.tally().sent_again;
    pair.lossy = [false, false];
    pair.wire.extend(slow);
    pair.pass_until(2000);
    assert_eq!(pair.arrived, (0..100).collect::<Vec<_>>());
    assert_eq!((pair.sender.tally().sent_again, pair.sender.next_due()), (probes, None));
    assert_eq!(probes, 2 * 25);
}

#[test]
fn a_new_connection_is_first_asked_what_has_arrived_and_then_brings_the_rest() {
    for lost in [[false, true], [true, true]] {
        let mut pair = Pair::new(window(100));
        pair.lossy = lost;
        pair.send(0..60, epoch());
        pair.pass_until(20);
        pair.lossy = [true, true];
        pair.send(60..120, epoch());
        pair.pass_until(30);
        pair.lossy = [false, false];
        pair.reconnect();
        // The first part and its acknowledgement, then the rest.
        pair.pass_until(30 + 10 + 10 + 10);
        assert_eq!(pair.arrived, (0..120).collect::<Vec<_>>(), "{lost:?}");
        pair.pass_until(1000);
        assert_eq!(pair.sender.tally().sent_again, if lost[0] { 100 } else { 50 + 40 }, "{lost:?}");
        assert_eq!(pair.sender.next_due(), None);
    }
}

#[test]
fn a_peer_that_is_held_back_stops_at_its_window_and_goes_on_when_it_is_released() {
    let mut pair = Pair::new(window(10));
    pair.acceptance = Acceptance::Hold;
    pair.send(0..100, epoch());
    for step in 1..100 {
        pair.pass_until(step * 100);
        assert!(!pair.is_unreachable(), "it answers: step {step}");
    }
    assert_eq!(pair.arrived, (0..10).collect::<Vec<_>>());
    pair.acceptance = Acceptance::Take;
    pair.receiver.release(&member("a", 1).site, pair.now);
    pair.pass_until(10_000 + 11 * 20);
    assert_eq!(pair.arrived, (0..100).collect::<Vec<_>>());
    assert_eq!(pair.receiver.tally().held, 1);
    let round_trip = pair.sender.slowest_round_trip();
    assert!(round_trip <= Some(Span::from_micros(60)), "it was held back, not slow: {round_trip:?}");
}

#[test]
fn messages_of_an_earlier_view_are_dropped_if_they_were_not_sent() {
    let mut pair = Pair::new(window(4));
    let newer = Epoch::new(4).unwrap();
    pair.send(0..10, epoch());
    pair.sender.drop_void(epoch());
    assert_eq!(pair.sender.tally().void, 0);
    pair.sender.drop_void(newer);
    assert_eq!(pair.sender.tally().void, 6);
    pair.send(10..20, newer);
    assert_eq!(pair.sender.last_sent(&member("b", 1)), 14);
    pair.pass_until(1000);
    assert_eq!(pair.arrived, (0..4).chain(10..20).collect::<Vec<_>>());
    assert_eq!(pair.sender.next_due(), None);
}
