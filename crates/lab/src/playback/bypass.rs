//! How often others enter while a site waits, held against what the algorithm's source claims, as the checker does.

use std::collections::BTreeSet;

use meshlock_check::Verdict;
use meshlock_protocol::registry::info::{BypassClaim, Since};
use meshlock_protocol::{Algorithm, SiteId};

use super::Playback;

/// A wait in which others have entered more often than is claimed.
#[derive(Clone, Debug)]
pub(crate) struct Bypassed {
    pub(crate) verdict: Verdict,
    /// The step of the entry that was one too many.
    pub(crate) step: usize,
}

impl<A: Algorithm> Playback<A> {
    /// The first wait in which others have entered more often than is claimed.
    pub(crate) fn bypassed(&self) -> Option<&Bypassed> {
        self.bypassed.as_ref()
    }

    /// What is claimed of this run, or why nothing is.
    pub(crate) fn bypass_claim(&self) -> Result<BypassClaim, &'static str> {
        let claim = self.world.site(SiteId::new(0)).bypass_claim();
        let claim = claim.ok_or("no bound on the entries of others is claimed")?;
        if self.has_faults { Err("a bound is claimed for runs without faults only") } else { Ok(claim) }
    }

    /// The number of entries since the request that waits at `site` was made.
    pub(crate) fn passed(&self, site: SiteId) -> usize {
        self.entries_since(site, Some(self.hosts[site.index()].asked_at))
    }

    /// The number of entries since a moment of the wait of `site`, of which this is the number of entries until then.
    fn entries_since(&self, site: SiteId, before: Option<usize>) -> usize {
        let Some(before) = before.filter(|_| self.world.is_waiting(site)) else { return 0 };
        self.world.entries().len() - before
    }

    /// Starts counting for a request that `site` is about to make.
    pub(super) fn begin_wait(&mut self, site: SiteId) {
        let entries = self.world.entries().len();
        let host = &mut self.hosts[site.index()];
        (host.asked_at, host.heard_at) = (entries, None);
    }

    /// Notes whose requests have been heard, and the first wait that is longer than is claimed.
    pub(super) fn note_waits(&mut self) {
        let entries = self.world.entries().len();
        let sending: BTreeSet<SiteId> = self.channels.keys().map(|&(from, _)| from).collect();
        for site in SiteId::all(self.hosts.len()) {
            if self.world.is_waiting(site) && !sending.contains(&site) {
                self.hosts[site.index()].heard_at.get_or_insert(entries);
            }
        }
        if self.bypassed.is_none()
            && let Ok(claim) = self.bypass_claim()
        {
            self.bypassed = SiteId::all(self.hosts.len()).find_map(|site| self.judge_wait(site, claim));
        }
    }

    fn judge_wait(&self, site: SiteId, claim: BypassClaim) -> Option<Bypassed> {
        let host = &self.hosts[site.index()];
        let entries = match claim.since {
            Since::Call => self.passed(site),
            Since::Heard => self.entries_since(site, host.heard_at),
        };
        let entries = u32::try_from(entries).unwrap_or(u32::MAX);
        let allowed = claim.allowed(self.setup.cluster);
        (f64::from(entries) > allowed).then_some(Bypassed {
            verdict: Verdict::Bypassed { site, entries, allowed, since: claim.since },
            step: self.steps,
        })
    }
}
