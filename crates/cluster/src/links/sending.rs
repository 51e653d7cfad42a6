//! The sending half of a link: the queue, the window, and what is sent again.
//!
//! ```text
//!             first              next                in_flight
//!               │ unacknowledged   │ to be sent again    │ never sent
//!  acknowledged ├──────────────────┴─────────────────────┼──────────────▶
//!               └──────── at most the window ────────────┘
//! ```
//!
//! `next` is behind `in_flight` only while messages are sent again.

use std::collections::VecDeque;

use meshlock_protocol::Epoch;

use super::limits::{LinkLimits, LinkTally, Weigh};
use super::{LinkFault, LinkTimeouts};
use crate::mutant::{self, Mutant};
use crate::time::{Span, Time};

/// Maximum number of times in a row that the time before messages are sent again is doubled. After an outage that did not break
/// the connection, a link is silent for at most that long, which must be much less than a lease.
const MAX_DOUBLINGS: u32 = 1;

/// Capacity of the queue that is kept while it is empty.
const KEPT_CAPACITY: usize = 1024;

/// A message that is not acknowledged.
#[derive(Clone, Debug)]
pub(super) struct Unacknowledged<B> {
    /// When it was first sent; before that, when it was queued.
    pub(super) since: Time,
    /// Whether it was sent again.
    pub(super) again: bool,
    weight: u32,
    epoch: Epoch,
    body: B,
}

/// The first few of many messages, sent again to learn which of them the peer has.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// The number of the last of them.
    up_to: u64,
    /// Whether they were sent because of a new connection: then everything after them that was sent before is probably lost.
    reconnected: bool,
}

/// What an acknowledgement has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    /// When the last of the acknowledged messages was first sent.
    pub(super) since: Time,
    /// Whether it is certain to which of several transmissions it is the answer.
    pub(super) is_certain: bool,
}

/// The messages to a peer.
#[derive(Clone, Debug)]
pub(super) struct Sending<B> {
    /// Those that were sent and are not acknowledged, then those that were not sent.
    queue: VecDeque<Unacknowledged<B>>,
    queue_bytes: usize,
    /// The number of the first message in the queue.
    first: u64,
    /// How many of the queue were sent.
    in_flight: usize,
    in_flight_bytes: usize,
    /// The place in the queue of the message that is sent next.
    next: usize,
    probe: Option<Probe>,
    /// When the peer last showed that messages reach it; or when the first message was sent after all were acknowledged.
    heard: Time,
    /// When messages are sent again next.
    due: Time,
    /// How many times in a row they were.
    again: u32,
    /// Since when messages have been sent again without an acknowledgement of a new one.
    again_since: Option<Time>,
    broken: bool,
}

impl<B: Clone + Weigh> Sending<B> {
    pub(super) fn new() -> Self {
        Sending {
            queue: VecDeque::new(),
            queue_bytes: 0,
            first: 1,
            in_flight: 0,
            in_flight_bytes: 0,
            next: 0,
            probe: None,
            heard: Time::ZERO,
            due: Time::ZERO,
            again: 0,
            again_since: None,
            broken: false,
        }
    }

    /// Returns the number of the last message that was queued.
    pub(super) fn last(&self) -> u64 {
        self.first + self.queue.len() as u64 - 1
    }

    /// Queues a message, or breaks the link if too many are queued.
    pub(super) fn push(
        &mut self,
        epoch: Epoch,
        body: B,
        now: Time,
        limits: &LinkLimits,
        tally: &mut LinkTally,
    ) {
        if self.broken {
            return;
        }
        let weight = u32::try_from(body.weight()).unwrap_or(u32::MAX);
        let queue_bytes = self.queue_bytes + weight as usize;
        if self.queue.len() >= limits.queue || queue_bytes > limits.queue_bytes {
            *self = Sending { first: self.first, broken: true, ..Sending::new() };
            tally.broken += 1;
            return;
        }
        self.queue_bytes = queue_bytes;
        self.queue.push_back(Unacknowledged { since: now, again: false, weight, epoch, body });
        if self.in_flight + 1 < self.queue.len() || !self.fits(self.in_flight, limits) {
            tally.waited += 1;
            tally.waited_for_bytes += u64::from(self.in_flight < limits.window && self.probe.is_none());
        }
    }

    /// Returns whether the message at `place` may be sent for the first time.
    fn fits(&self, place: usize, limits: &LinkLimits) -> bool {
        let weight = self.queue.get(place).map_or(0, |queued| queued.weight as usize);
        place == 0 || place < limits.window && self.in_flight_bytes + weight <= limits.window_bytes
    }

    /// Returns the next message that may be sent now, with its number and epoch.
    pub(super) fn take_next(
        &mut self,
        now: Time,
        timeouts: LinkTimeouts,
        limits: &LinkLimits,
        tally: &mut LinkTally,
    ) -> Option<(u64, Epoch, B)> {
        let (place, number) = (self.next, self.first + self.next as u64);
        let is_first_time = place >= self.in_flight;
        if place >= self.queue.len()
            || self.probe.is_some_and(|probe| number > probe.up_to)
            || is_first_time && !self.fits(place, limits)
        {
            return None;
        }
        let queued = &mut self.queue[place];
        if is_first_time {
            if !mutant::is_on(Mutant::UnreachableByAge) {
                queued.since = now;
            }
            self.in_flight += 1;
            self.in_flight_bytes += queued.weight as usize;
        } else {
            queued.again = true;
            tally.sent_again += 1;
        }
        self.next += 1;
        let (epoch, body) = (queued.epoch, queued.body.clone());
        if place == 0 && is_first_time {
            self.on_sign_of_life(now, timeouts);
            self.again_since = None;
        }
        Some((number, epoch, body))
    }

    /// Handles an acknowledgement of all messages up to `ack`, which came `alone` or with a message. Returns what it answers, if
    /// it acknowledges anything new.
    pub(super) fn on_ack(
        &mut self,
        ack: u64,
        alone: bool,
        now: Time,
        timeouts: LinkTimeouts,
    ) -> Result<Option<Answered>, LinkFault> {
        let sent = self.first + self.in_flight as u64 - 1;
        if ack > sent {
            // After the link broke, messages that it dropped may still be acknowledged.
            return if self.broken { Ok(None) } else { Err(LinkFault::AcknowledgesTheFuture { ack, sent }) };
        }
        if ack < self.first {
            // An acknowledgement alone is sent only because something has arrived. If it is none of a new message, the peer has
            // received again what it cannot acknowledge yet: it is there.
            if alone && ack + 1 == self.first && self.in_flight > 0 {
                self.on_sign_of_life(now, timeouts);
            }
            return Ok(None);
        }
        let count = usize::try_from(ack + 1 - self.first).unwrap_or(usize::MAX).min(self.in_flight);
        let (mut bytes, mut last) = (0, None);
        for acknowledged in self.queue.drain(..count) {
            bytes += acknowledged.weight as usize;
            last = Some((acknowledged.since, acknowledged.again));
        }
        // The last of them is what the acknowledgement answers; those before may have been acknowledged late.
        let answered =
            last.map(|(since, again)| Answered { since, is_certain: !again && self.again_since.is_none() });
        self.queue_bytes -= bytes;
        self.in_flight_bytes -= bytes;
        self.in_flight -= count;
        self.next = self.next.saturating_sub(count);
        self.first = ack + 1;
        self.end_probe(ack);
        // The peer makes progress: what is still missing gets the full timeout again.
        self.on_sign_of_life(now, timeouts);
        self.again_since = None;
        if self.queue.is_empty() && self.queue.capacity() > KEPT_CAPACITY {
            self.queue.shrink_to(KEPT_CAPACITY);
        }
        Ok(answered)
    }

    /// Ends the probe if all of it is acknowledged. What follows is sent again if it is lost. It is not lost if the peer has
    /// received more of it than the probe: then the probe was needless, because the network is only slow.
    fn end_probe(&mut self, ack: u64) {
        if let Some(probe) = self.probe.take_if(|probe| ack >= probe.up_to)
            && ack > probe.up_to
            && !probe.reconnected
        {
            self.next = self.in_flight;
        }
    }

    fn on_sign_of_life(&mut self, now: Time, timeouts: LinkTimeouts) {
        self.heard = now;
        self.due = now + timeouts.resend_after;
        self.again = 0;
    }

    /// Returns when messages are to be sent again, if any are unacknowledged.
    pub(super) fn due(&self) -> Option<Time> {
        (self.in_flight > 0).then_some(self.due)
    }

    /// Sends the first messages again, because they were not acknowledged in time.
    pub(super) fn on_timeout(&mut self, now: Time, timeouts: LinkTimeouts, limits: &LinkLimits) {
        self.again = (self.again + 1).min(MAX_DOUBLINGS);
        self.again_since.get_or_insert(now);
        self.due = now + timeouts.resend_after.times(1 << self.again);
        // Less than what a peer acknowledges at once: so an acknowledgement of exactly the probe is an answer to it.
        self.send_again(limits.ack_every / 2, false);
    }

    /// Sends what is unacknowledged again over a new connection, first as much as the peer acknowledges at once.
    pub(super) fn on_connected(&mut self, now: Time, timeouts: LinkTimeouts, limits: &LinkLimits) {
        if mutant::is_on(Mutant::ReconnectDropsOne) && self.in_flight > 0 {
            let dropped = self.queue.pop_front().map_or(0, |dropped| dropped.weight as usize);
            self.queue_bytes -= dropped;
            self.in_flight_bytes -= dropped;
            self.in_flight -= 1;
            self.first += 1;
        }
        self.due = now + timeouts.resend_after;
        self.again = 0;
        self.again_since.get_or_insert(now);
        self.send_again(limits.ack_every, true);
    }

    fn send_again(&mut self, count: u64, reconnected: bool) {
        let count = usize::try_from(count).unwrap_or(usize::MAX).max(1);
        let reconnected = reconnected || self.probe.is_some_and(|probe| probe.reconnected);
        self.next = 0;
        let up_to = self.first + count as u64 - 1;
        self.probe = (count < self.in_flight).then_some(Probe { up_to, reconnected });
    }

    /// Drops the messages of views before `epoch` that were never sent. What was sent keeps its number, and is kept.
    pub(super) fn drop_void(&mut self, epoch: Epoch, tally: &mut LinkTally) {
        let kept = if mutant::is_on(Mutant::VoidDropsSent) { 0 } else { self.in_flight };
        let is_void = |queued: &Unacknowledged<B>| queued.epoch < epoch;
        if !self.queue.iter().skip(kept).any(is_void) {
            return;
        }
        let unsent = self.queue.split_off(kept);
        let before = unsent.len();
        self.queue.extend(unsent.into_iter().filter(|queued| !is_void(queued)));
        tally.void += (kept + before - self.queue.len()) as u64;
        self.queue_bytes = self.queue.iter().map(|queued| queued.weight as usize).sum();
        if kept < self.in_flight {
            self.in_flight = self.in_flight.min(self.queue.len());
            self.in_flight_bytes =
                self.queue.iter().take(self.in_flight).map(|queued| queued.weight as usize).sum();
            self.next = self.next.min(self.queue.len());
        }
    }

    /// Returns for how long the peer has shown no sign that messages reach it, if any are unacknowledged.
    pub(super) fn silence(&self, now: Time) -> Option<Span> {
        (self.in_flight > 0).then(|| now.since(self.heard))
    }

    /// Returns whether the peer has shown for too long no sign that messages reach it, or the link is broken.
    ///
    /// Time in which this site did not run does not count: whoever was paused has not read what came meanwhile. So the silence
    /// goes on for a while after messages were sent again.
    pub(super) fn is_unreachable(&self, now: Time, timeouts: LinkTimeouts) -> bool {
        let silent = self.silence(now).is_some_and(|silence| silence >= timeouts.unreachable_after);
        let asked_again = self.again_since.is_some_and(|since| now.since(since) >= timeouts.resend_after);
        let by_age = mutant::is_on(Mutant::UnreachableByAge)
            && self.queue.front().is_some_and(|oldest| now.since(oldest.since) >= timeouts.unreachable_after);
        self.broken || silent && asked_again || by_age
    }
}
