//! Where the two halves of a site put what they say: to other sites through the outbox, to each other at once.

use smallvec::SmallVec;

use crate::{Clock, Outbox, SiteId};

use super::Message;

/// The outgoing mail of one step. What a site says to itself is no message: it stays here, and the site hands it
/// over before the step ends.
#[derive(Debug)]
pub struct Post<'a, M = Message> {
    me: SiteId,
    /// The site's clock; handlers raise it once they have accepted a message.
    pub clock: Clock,
    out: &'a mut Outbox<M>,
    home: SmallVec<[M; 4]>,
}

impl<'a, M: crate::Message> Post<'a, M> {
    /// The mail of the site `me`, whose clock shows `clock`.
    pub fn new(me: SiteId, clock: Clock, out: &'a mut Outbox<M>) -> Self {
        Post { me, clock, out, home: SmallVec::new() }
    }

    /// Whose mail it is.
    pub fn me(&self) -> SiteId {
        self.me
    }

    /// Says `message` to `to`, which may be this site.
    pub fn send(&mut self, to: SiteId, message: M) {
        if to == self.me {
            self.home.push(message);
        } else {
            self.out.send(to, message);
        }
    }

    /// Says `message` to all other sites of `0..sites`.
    pub fn broadcast(&mut self, sites: usize, message: M) {
        self.out.broadcast(self.me, sites, &message);
    }

    /// Lets the process of this site in.
    pub fn enter(&mut self) {
        self.out.enter();
    }

    /// Asks the host for one of `of` alternatives.
    pub fn choose(&mut self, of: usize) -> usize {
        self.out.choose(of)
    }

    /// The oldest message of this site to itself that it has not yet handled.
    pub fn take_home(&mut self) -> Option<M> {
        (!self.home.is_empty()).then(|| self.home.remove(0))
    }
}
