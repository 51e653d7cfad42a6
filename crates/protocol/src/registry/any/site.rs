//! [`AnySite`] as a [`Site`], and its messages. Both print exactly as what is inside them.

use std::fmt;

use super::super::{of_message, of_site};
use super::{AnyMessage, AnySite, Scratch, SiteCall};
use crate::{Demand, Message, Mode, Numbers, Outbox, Site, SiteId, SiteSet};

impl AnySite {
    /// Makes one call with an outbox for this call only.
    fn call_once(&mut self, call: SiteCall<'_>, out: &mut Outbox<AnyMessage>) {
        self.dispatch(call, &mut Scratch::default(), out);
    }
}

impl Site for AnySite {
    type Message = AnyMessage;

    fn request(&mut self, out: &mut Outbox<AnyMessage>) {
        self.request_as(Demand::PLAIN, out);
    }

    fn request_as(&mut self, demand: Demand, out: &mut Outbox<AnyMessage>) {
        self.call_once(SiteCall::Request(demand), out);
    }

    fn receive(&mut self, from: SiteId, message: AnyMessage, out: &mut Outbox<AnyMessage>) {
        self.dispatch_message(from, message, &mut Scratch::default(), out);
    }

    fn release(&mut self, out: &mut Outbox<AnyMessage>) {
        self.call_once(SiteCall::Release, out);
    }

    fn release_and_request(&mut self, out: &mut Outbox<AnyMessage>) {
        self.release_and_request_as(Demand::PLAIN, out);
    }

    fn release_and_request_as(&mut self, demand: Demand, out: &mut Outbox<AnyMessage>) {
        self.call_once(SiteCall::ReleaseAndRequest(demand), out);
    }

    fn change_mode(&mut self, to: Mode, out: &mut Outbox<AnyMessage>) {
        self.call_once(SiteCall::ChangeMode(to), out);
    }

    fn peer_failed(&mut self, peer: SiteId, out: &mut Outbox<AnyMessage>) {
        self.call_once(SiteCall::PeerFailed(peer), out);
    }

    fn peer_recovered(&mut self, peer: SiteId, out: &mut Outbox<AnyMessage>) {
        self.call_once(SiteCall::PeerRecovered(peer), out);
    }

    fn restart(&mut self, out: &mut Outbox<AnyMessage>) {
        self.call_once(SiteCall::Restart, out);
    }

    fn partitioned(&mut self, away: &SiteSet, out: &mut Outbox<AnyMessage>) {
        self.call_once(SiteCall::Partitioned(away), out);
    }

    fn reunited(&mut self, back: &SiteSet, out: &mut Outbox<AnyMessage>) {
        self.call_once(SiteCall::Reunited(back), out);
    }

    fn wake(&mut self, out: &mut Outbox<AnyMessage>) {
        self.call_once(SiteCall::Wake, out);
    }
}

impl fmt::Debug for AnySite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        of_site!(self, site => fmt::Debug::fmt(site, f))
    }
}

impl fmt::Debug for AnyMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        of_message!(self, message => fmt::Debug::fmt(message, f))
    }
}

impl fmt::Display for AnyMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        of_message!(self, message => fmt::Display::fmt(message, f))
    }
}

impl Message for AnyMessage {
    fn kind(&self) -> &'static str {
        of_message!(self, message => message.kind())
    }

    fn words(&self) -> usize {
        of_message!(self, message => message.words())
    }

    fn tokens(&self) -> usize {
        of_message!(self, message => message.tokens())
    }

    fn numbers(&mut self, from: SiteId, to: SiteId, numbers: &mut Numbers<'_>) {
        of_message!(self, message => message.numbers(from, to, numbers));
    }
}
