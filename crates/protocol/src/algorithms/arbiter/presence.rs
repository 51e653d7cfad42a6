//! Who can be asked: what one site knows of failures and returns, the others' and its own.

use crate::{SiteId, SiteSet, invariant};

use super::Judged;

/// Which sites are arbiters now, as far as this site knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Presence {
    /// Failed, and not heard of since; or, since this site's own return, not heard of at all.
    failed: SiteSet,
    /// Run again, but are not arbiters yet.
    returning: SiteSet,
    /// Who has not welcomed this site since its own return. While there are some it is no arbiter.
    unwelcomed_by: SiteSet,
    /// Whom this site will welcome when its process leaves.
    owed: SiteSet,
}

impl Presence {
    /// Nobody has failed.
    pub fn all() -> Self {
        Presence::default()
    }

    /// This site has returned and knows nothing of the others.
    pub fn returned(me: SiteId, sites: usize) -> Self {
        let others = SiteSet::all_but(me, sites);
        Presence { failed: others.clone(), unwelcomed_by: others, ..Presence::default() }
    }

    /// Whether this site is an arbiter.
    pub fn is_arbiter(&self) -> bool {
        self.unwelcomed_by.is_empty()
    }

    /// Whether no failure is known.
    pub fn is_complete(&self) -> bool {
        self.is_arbiter() && self.failed.is_empty() && self.returning.is_empty()
    }

    /// Whether a welcome is owed to anyone.
    pub fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Whether `site` has failed, as far as is known here.
    pub fn has_failed(&self, site: SiteId) -> bool {
        self.failed.contains(site)
    }

    /// Who must not be asked, seen from `me`.
    pub fn absent(&self, me: SiteId) -> SiteSet {
        let mut absent = self.failed.clone();
        absent.union_with(&self.returning);
        if !self.is_arbiter() {
            absent.insert(me);
        }
        absent
    }

    /// `peer` has failed: whatever it used is void, so it need not welcome this site any more.
    pub fn on_failure(&mut self, peer: SiteId) {
        self.failed.insert(peer);
        self.returning.remove(peer);
        self.owed.remove(peer);
        self.unwelcomed_by.remove(peer);
    }

    /// `peer` runs again. It uses no permission of anyone, so it need not welcome this site either.
    pub fn on_hello(&mut self, peer: SiteId) -> Judged {
        if !self.failed.remove(peer) {
            return Err("a return without a failure");
        }
        self.returning.insert(peer);
        self.unwelcomed_by.remove(peer);
        Ok(())
    }

    /// `peer` uses no permission of this site's former life.
    pub fn on_welcome(&mut self, peer: SiteId, arbiter: bool) -> Judged {
        if !self.unwelcomed_by.remove(peer) {
            return Err("a welcome without a return");
        }
        if self.failed.remove(peer) && !arbiter {
            self.returning.insert(peer);
        }
        Ok(())
    }

    /// `peer` is an arbiter again.
    pub fn on_ready(&mut self, peer: SiteId) -> Judged {
        // A READY may overtake the WELCOME that would have told of the peer's own return.
        if self.returning.remove(peer) || self.failed.remove(peer) {
            Ok(())
        } else {
            Err("an arbiter that never was away")
        }
    }

    /// The welcome of `peer` waits until the process of this site has left.
    pub fn owe(&mut self, peer: SiteId) {
        self.owed.insert(peer);
    }

    /// The process has left: whom to welcome now.
    pub fn take_owed(&mut self) -> SiteSet {
        std::mem::take(&mut self.owed)
    }

    /// The numbered invariants of what is known.
    pub fn check_invariants(&self) -> Judged {
        invariant!(!self.failed.intersects(&self.returning), "P1: a site that returns is no longer failed");
        invariant!(self.owed.intersection(&self.failed).is_empty(), "P2: nobody welcomes a failed site");
        Ok(())
    }
}
