//! What happens when sites fail and come back, for all coteries that survive it.
//!
//! **A site fails** (Agrawal and El Abbadi: its quorums are replaced by others). Which quorums two sites form does not
//! depend on what they know of failures: all of them are of one coterie, so every two meet. Hence each site may learn
//! of a failure at its own time.
//! - An arbiter forgets the failed site: what it had is free.
//! - A requester that waits counts the failed arbiter no more, and asks whom the coterie gives instead. What it has
//!   from others it keeps. If no quorum is left it waits and yields to everyone, until a return makes one possible.
//! - A process that is inside on the permission of a failed arbiter stays inside: the arbiter gives it to nobody else
//!   while it is down, and the next paragraph is for when it is not.
//!
//! **A site comes back** with nothing: no clock, no idea whom its former incarnation had permitted. Were it an arbiter
//! at once, it could permit a second site while the first is still inside on the permission of its former incarnation:
//! *exclusion would fail*. So a return takes three steps. The number of its incarnation is all that a site keeps on
//! stable storage.
//! 1. HELLO to all. Whoever hears it knows that the site runs, but does not ask it yet.
//! 2. WELCOME from each, once its process is not inside. It promises that no permission of the former incarnation is
//!    used: one that waited was counted out when the failure became known, and one that was inside has left. A site
//!    that fails meanwhile uses nothing either: its failure counts as its WELCOME.
//! 3. READY to all, after the last WELCOME: the arbiter is there again, its permission free.
//!
//! Until then its own process may already ask and enter, by a quorum of those that have welcomed it as arbiters. A site
//! that is down and stays down keeps others that come back later from step 3, since they cannot know that it is not
//! inside: they go on counting as failed arbiters. (In the node a view change settles it.)
//!
//! **Assumes** that a failure is told to every running site after all that the failed one had sent to it, and before
//! the failed one runs again; and, for a return, FIFO: so what was sent to the former incarnation comes before the
//! WELCOME, and is dropped until then.

use crate::mutant::{self, Mutant};
use crate::{Clock, Phase, SiteId};

use super::{Arbiter, Coterie, Incarnation, Judged, Message, Post, QuorumSite, Requester};

impl<C: Coterie> QuorumSite<C> {
    pub(super) fn on_failure(&mut self, peer: SiteId, post: &mut Post<'_>) {
        let was_arbiter = self.presence.is_arbiter();
        self.presence.on_failure(peer);
        self.arbiter.forget(peer, post);
        if self.requester.lose(peer) {
            self.form_quorum(post);
        }
        self.become_arbiter_unless(was_arbiter, post);
    }

    pub(super) fn on_return(&mut self, post: &mut Post<'_>) {
        let sites = self.sites();
        post.clock = Clock::ZERO;
        self.requester = Requester::new(self.rules());
        self.arbiter = Arbiter::new(self.rules(), None);
        self.presence = self.presence.returned(self.me, sites);
        post.broadcast(sites, Message::Hello { incarnation: self.presence.incarnation() });
    }

    /// Handles HELLO (step 1): answers at once, or when the process has left. A site that returns has lost any earlier
    /// HELLO.
    pub(super) fn on_hello(&mut self, from: SiteId, incarnation: Incarnation, post: &mut Post<'_>) -> Judged {
        if !self.presence.on_hello(from, incarnation)? {
            return Ok(());
        }
        if self.presence.is_unwelcomed_by(from) {
            post.send(from, Message::Hello { incarnation: self.presence.incarnation() });
        }
        if self.requester.phase() == Phase::Executing {
            self.presence.owe(from);
        } else {
            self.welcome(from, post);
        }
        Ok(())
    }

    /// Handles WELCOME (step 2): the sender may be asked if it is an arbiter, and if it was the last, this site too.
    pub(super) fn on_welcome(
        &mut self,
        from: SiteId,
        incarnation: Incarnation,
        (arbiter, clock): (bool, Clock),
        post: &mut Post<'_>,
    ) -> Judged {
        let was_arbiter = self.presence.is_arbiter();
        if self.presence.on_welcome(from, incarnation, arbiter)? {
            post.clock.observe(clock);
            self.become_arbiter_unless(was_arbiter, post);
            self.try_again(post);
        }
        Ok(())
    }

    /// Handles READY (step 3): the sender may be asked.
    pub(super) fn on_ready(&mut self, from: SiteId, post: &mut Post<'_>) -> Judged {
        self.presence.on_ready(from)?;
        self.try_again(post);
        Ok(())
    }

    /// The process has left: no permission of anyone's former incarnation is used here any more.
    pub(super) fn welcome_the_owed(&mut self, post: &mut Post<'_>) {
        for site in self.presence.take_owed().iter() {
            self.welcome(site, post);
            if mutant::is_on(Mutant::ArbiterOwesOn) {
                self.presence.owe(site);
            }
        }
    }

    fn welcome(&self, site: SiteId, post: &mut Post<'_>) {
        let (incarnation, arbiter) = (self.presence.incarnation_of(site), self.presence.is_arbiter());
        post.send(site, Message::Welcome { incarnation, arbiter, clock: post.clock });
    }

    /// Step 3, if the last welcome has just come.
    fn become_arbiter_unless(&mut self, was_arbiter: bool, post: &mut Post<'_>) {
        if !was_arbiter && self.presence.is_arbiter() {
            post.broadcast(self.sites(), Message::Ready);
            self.try_again(post);
        }
    }

    /// Someone can be asked who could not: enough for those who found no quorum?
    fn try_again(&mut self, post: &mut Post<'_>) {
        if self.requester.is_stuck() {
            self.form_quorum(post);
        }
    }

    fn form_quorum(&mut self, post: &mut Post<'_>) {
        if let Some(request) = self.requester.timestamp() {
            let quorum = self.choose(request.clock, post);
            self.requester.form(quorum.as_ref(), post);
        }
    }
}
