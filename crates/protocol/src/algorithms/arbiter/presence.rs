//! Who can be asked: what one site knows of failures and returns, the others' and its own.

use crate::{SiteId, SiteSet, invariant};

use super::Judged;

/// Which life of a site: 0 from the start, one more after each return. The one thing that a site keeps on stable storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Life(u32);

impl Life {
    /// The life `number`.
    pub const fn at(number: u32) -> Self {
        Life(number)
    }
}

/// Which sites are arbiters now, as far as this site knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Presence {
    /// This site's own.
    life: Life,
    /// Failed, and not heard of since; or, since this site's own return, not heard of at all.
    failed: SiteSet,
    /// Run again, but are not arbiters yet.
    returning: SiteSet,
    /// Who has not welcomed this site since its own return. While there are some it is no arbiter.
    unwelcomed_by: SiteSet,
    /// Whom this site will welcome when its process leaves.
    owed: SiteSet,
    /// The last life of each site that has said HELLO, in order of the sites.
    lives: Vec<(SiteId, Life)>,
}

impl Presence {
    /// Nobody has failed.
    pub fn all() -> Self {
        Presence::default()
    }

    /// This site has failed and returned, and knows nothing of the others.
    #[must_use]
    pub fn returned(&self, me: SiteId, sites: usize) -> Self {
        let (life, others) = (Life(self.life.0.saturating_add(1)), SiteSet::all_but(me, sites));
        Presence { life, failed: others.clone(), unwelcomed_by: others, ..Presence::default() }
    }

    /// This site's own life.
    pub fn life(&self) -> Life {
        self.life
    }

    /// The last life that `site` has told of.
    pub fn life_of(&self, site: SiteId) -> Life {
        self.place(site).map_or(Life::default(), |at| self.lives[at].1)
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

    /// Whether all that comes from `site`, but HELLO and WELCOME, was meant for this site's former life.
    pub fn is_unwelcomed_by(&self, site: SiteId) -> bool {
        self.unwelcomed_by.contains(site)
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

    /// `peer` runs again, in this life of its own. True if that is news.
    pub fn on_hello(&mut self, peer: SiteId, life: Life) -> Result<bool, &'static str> {
        if life <= self.life_of(peer) {
            return Ok(false);
        }
        // A site that was itself down may have missed that the peer failed again.
        if !self.failed.remove(peer) && !self.returning.contains(peer) && !self.is_unwelcomed_by(peer) {
            return Err("a return without a failure");
        }
        self.returning.insert(peer);
        match self.place(peer) {
            Ok(at) => self.lives[at].1 = life,
            Err(at) => self.lives.insert(at, (peer, life)),
        }
        Ok(true)
    }

    /// `peer` uses no permission of a life of this site before `life`. True if that is news.
    pub fn on_welcome(&mut self, peer: SiteId, life: Life, arbiter: bool) -> Result<bool, &'static str> {
        if life < self.life {
            return Ok(false);
        }
        if life > self.life || !self.unwelcomed_by.remove(peer) {
            return Err("a welcome without a return");
        }
        self.failed.remove(peer);
        if arbiter {
            self.returning.remove(peer);
        } else {
            self.returning.insert(peer);
        }
        Ok(true)
    }

    /// `peer` is an arbiter again.
    pub fn on_ready(&mut self, peer: SiteId) -> Judged {
        if self.returning.remove(peer) { Ok(()) } else { Err("an arbiter that never was away") }
    }

    /// The welcome of `peer` waits until the process of this site has left.
    pub fn owe(&mut self, peer: SiteId) {
        self.owed.insert(peer);
    }

    /// The process has left: whom to welcome now.
    pub fn take_owed(&mut self) -> SiteSet {
        std::mem::take(&mut self.owed)
    }

    fn place(&self, site: SiteId) -> Result<usize, usize> {
        self.lives.binary_search_by_key(&site, |&(site, _)| site)
    }

    /// The numbered invariants of what is known.
    pub fn check_invariants(&self) -> Judged {
        invariant!(!self.failed.intersects(&self.returning), "P1: a site that returns is no longer failed");
        invariant!(!self.owed.intersects(&self.failed), "P2: nobody welcomes a failed site");
        Ok(())
    }
}
