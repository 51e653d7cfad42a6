//! Messages that have arrived at a site that is not ready for them, where receiving or sending costs time.
//!
//! A site receives one message after the other. With one processor it sends what a message causes before it receives the
//! next one, so the next one begins only when the first has been handled.

use std::collections::VecDeque;

use meshlock_protocol::{Algorithm, SiteId};

use super::agenda::Event;
use super::observer::RunObserver;
use super::{Checked, Envelope, Simulation};

/// The messages that have arrived and are not handled yet, by site. The first is being received.
#[derive(Clone, Debug)]
pub(super) struct Inboxes<M>(Vec<VecDeque<(SiteId, Envelope<M>)>>);

impl<M> Inboxes<M> {
    /// Empty inboxes of so many sites. They take no memory before a message waits.
    pub(super) fn of(sites: usize) -> Self {
        Inboxes((0..sites).map(|_| VecDeque::new()).collect())
    }
}

impl<A: Algorithm, W: RunObserver<A>> Simulation<'_, A, W> {
    /// A message reaches `to` and waits its turn.
    pub(super) fn arrive(&mut self, from: SiteId, to: SiteId, packet: Envelope<A::Message>) {
        let inbox = &mut self.inboxes.0[to.index()];
        inbox.push_back((from, packet));
        if inbox.len() == 1 {
            self.begin_to_receive(to);
        }
    }

    /// The first message of the inbox has been received: it is handled, and the next one is received.
    pub(super) fn receive_first(&mut self, at: SiteId) -> Checked {
        let inbox = &mut self.inboxes.0[at.index()];
        let (from, packet) = inbox.pop_front().expect("what is received has arrived");
        let goes_on = !inbox.is_empty();
        self.deliver(from, at, packet)?;
        if goes_on {
            self.begin_to_receive(at);
        }
        Ok(())
    }

    fn begin_to_receive(&mut self, at: SiteId) {
        let time = self.core.received_at(at);
        self.agenda.others.push(time, Event::Receive { at });
    }
}
