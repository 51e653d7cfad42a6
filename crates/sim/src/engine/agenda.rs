//! What is still to happen in a run: one order over messages, exits and everything else.

use meshlock_protocol::SiteId;

use super::Envelope;
use super::copies::Copies;
use super::core::{HostEvent, Schedule};
use crate::queue::{EventQueue, Lane};
use crate::time::Time;

/// What happens at some time, except what waits in a lane.
#[derive(Clone, Debug)]
pub(super) enum Event<M> {
    /// A message reaches the site, which has yet to receive it.
    Arrive { from: SiteId, to: SiteId, packet: Envelope<M> },
    /// The first message in the inbox of this site has been received.
    Receive { at: SiteId },
    /// A message is processed.
    Deliver { from: SiteId, to: SiteId, packet: Envelope<M> },
    /// Something that no message causes.
    Host(HostEvent),
}

/// Everything that is still to happen.
#[derive(Clone, Debug)]
pub(super) struct Agenda<M> {
    /// Messages that all take the same time.
    pub(super) messages: Lane<Copies<M>>,
    /// The exits of critical sections that all take the same time, by site and incarnation.
    pub(super) exits: Lane<(SiteId, u32)>,
    pub(super) others: EventQueue<Event<M>>,
}

impl<M> Default for Agenda<M> {
    fn default() -> Self {
        Agenda { messages: Lane::default(), exits: Lane::default(), others: EventQueue::default() }
    }
}

impl<M> Schedule for Agenda<M> {
    fn at(&mut self, time: Time, event: HostEvent) {
        self.others.push(time, Event::Host(event));
    }

    fn exit_at(&mut self, time: Time, site: SiteId, incarnation: u32) {
        if self.exits.takes(time) {
            self.exits.push(self.others.next_key(time), (site, incarnation));
        } else {
            self.at(time, HostEvent::Exit(site, incarnation));
        }
    }
}
