//! Who can be asked: what one site knows of failures and returns, the others' and its own.

use crate::{SiteId, SiteSet, invariant};

use super::Judged;

/// Which incarnation of a site: 0 from the start, one more after each return. The one thing that a site keeps on stable storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Incarnation(u32);

impl Incarnation {
    /// The incarnation `number`.
    pub const fn at(number: u32) -> Self {
        Incarnation(number)
    }

    /// How often the site had returned before.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// Which sites are arbiters now, as far as this site knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Presence {
    /// This site's own incarnation.
    incarnation: Incarnation,
    /// Failed, and not heard of since; or, since this site's own return, not heard of at all.
    failed: SiteSet,
    /// Run again, but are not arbiters yet.
    returning: SiteSet,
    /// Who has not welcomed this site since its own return. While there are some it is no arbiter.
    unwelcomed_by: SiteSet,
    /// Whom this site will welcome when its process leaves.
    owed: SiteSet,
    /// The last incarnation of each site that has said HELLO, in order of the sites.
    incarnations: Vec<(SiteId, Incarnation)>,
}

impl Presence {
    /// Nobody has failed.
    pub fn all() -> Self {
        Presence::default()
    }

    /// This site has failed and returned, and knows nothing of the others.
    #[must_use]
    pub fn returned(&self, me: SiteId, sites: usize) -> Self {
        let (incarnation, others) =
            (Incarnation(self.incarnation.0.saturating_add(1)), SiteSet::all_but(me, sites));
        Presence { incarnation, failed: others.clone(), unwelcomed_by: others, ..Presence::default() }
    }

    /// This site's own incarnation.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The last incarnation that `site` has told of.
    pub fn incarnation_of(&self, site: SiteId) -> Incarnation {
        self.place(site).map_or(Incarnation::default(), |at| self.incarnations[at].1)
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

    /// Whether all that comes from `site`, but HELLO and WELCOME, was meant for this site's former incarnation.
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

    /// `peer` runs again, in this incarnation of its own. True if that is news.
    pub fn on_hello(&mut self, peer: SiteId, incarnation: Incarnation) -> Result<bool, &'static str> {
        if incarnation <= self.incarnation_of(peer) {
            return Ok(false);
        }
        // A site that was itself down may have missed that the peer failed again.
        if !self.failed.remove(peer) && !self.returning.contains(peer) && !self.is_unwelcomed_by(peer) {
            return Err("a return without a failure");
        }
        self.returning.insert(peer);
        match self.place(peer) {
            Ok(at) => self.incarnations[at].1 = incarnation,
            Err(at) => self.incarnations.insert(at, (peer, incarnation)),
        }
        Ok(true)
    }

    /// `peer` uses no permission of an incarnation of this site before `incarnation`. True if that is news.
    pub fn on_welcome(
        &mut self,
        peer: SiteId,
        incarnation: Incarnation,
        arbiter: bool,
    ) -> Result<bool, &'static str> {
        if incarnation < self.incarnation {
            return Ok(false);
        }
        if incarnation > self.incarnation || !self.unwelcomed_by.remove(peer) {
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
        self.incarnations.binary_search_by_key(&site, |&(site, _)| site)
    }

    /// The numbered invariants of what is known.
    pub fn check_invariants(&self) -> Judged {
        invariant!(!self.failed.intersects(&self.returning), "P1: a site that returns is no longer failed");
        invariant!(!self.owed.intersects(&self.failed), "P2: nobody welcomes a failed site");
        Ok(())
    }
}
