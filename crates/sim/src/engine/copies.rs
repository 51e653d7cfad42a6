//! Copies of one message that a site sends to several others in one step, and that arrive one after the other at the same time.
//!
//! They wait as one event: with ten thousand sites a broadcast takes the room of one message. The order of events, and so the
//! run, is the same as if each copy waited by itself.

use meshlock_protocol::{Algorithm, Message as _, SiteId};

use super::observer::RunObserver;
use super::{Checked, Envelope, Simulation};
use crate::queue::time_of;
use crate::time::Time;

/// Copies of a message for all sites from `next` to `last`, except the sender.
#[derive(Clone, Debug)]
pub(super) struct Copies<M> {
    from: SiteId,
    next: SiteId,
    last: SiteId,
    packet: Envelope<M>,
}

impl<M: Eq> Copies<M> {
    /// The site after `site`, except the sender.
    #[inline]
    fn after(&self, site: SiteId) -> SiteId {
        let next = site.index() + 1;
        SiteId::new(if next == self.from.index() { next + 1 } else { next })
    }

    /// Adds a copy for `to`, if the message is the same and `to` comes next. Returns whether it was added.
    #[inline]
    fn add(&mut self, to: SiteId, message: &M) -> bool {
        let is_next = self.after(self.last) == to && self.packet.message == *message;
        if is_next {
            self.last = to;
        }
        is_next
    }
}

impl<A: Algorithm, W: RunObserver<A>> Simulation<'_, A, W> {
    /// Sends `message` as one more copy of what the step under way has sent last, if it is one. Returns whether it is.
    #[inline]
    pub(super) fn send_copy(&mut self, from: SiteId, to: SiteId, message: &A::Message) -> bool {
        if !self.may_copy {
            return false;
        }
        let Some(copies) = self.agenda.messages.last_mut() else { return false };
        let is_copy = copies.add(to, message);
        if is_copy {
            let _ = self.agenda.others.next_key(Time::ZERO);
            self.core.count_copy(from);
            self.core.add_tokens(|| message.tokens());
        }
        is_copy
    }

    /// Sends a message that arrives after all that were sent before it.
    #[expect(
        clippy::inline_always,
        reason = "measured: a message is written where it waits, not copied there"
    )]
    #[inline(always)]
    pub(super) fn transmit_in_order(
        &mut self,
        arrival: Time,
        from: SiteId,
        to: SiteId,
        packet: Envelope<A::Message>,
    ) {
        let key = self.agenda.others.next_key(arrival);
        self.agenda.messages.push(key, Copies { from, next: to, last: to, packet });
        // Each line of a trace, and of the last events, is about one message; and what is lost is lost by itself.
        self.may_copy = !W::IS_TRACE && self.core.is_undisturbed();
    }

    /// Delivers the first copy of the first message.
    pub(super) fn deliver_first(&mut self) -> Checked {
        self.core.advance(time_of(self.agenda.messages.first()))?;
        let copies = self.agenda.messages.first_mut().expect("a message is due");
        let (from, to) = (copies.from, copies.next);
        if to == copies.last {
            let packet = self.agenda.messages.pop().expect("a message is due").packet;
            return self.deliver(from, to, packet);
        }
        copies.next = copies.after(to);
        let packet = copies.packet.clone();
        self.deliver(from, to, packet)
    }
}
