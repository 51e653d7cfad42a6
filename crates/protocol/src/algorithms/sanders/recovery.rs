//! Local recovery (section 7.1): each site changes its own copy of the structure, and nobody is told.

use crate::{Outbox, SiteSet};

use super::slip::Slip;
use super::{Message, Sanders, SandersState};

impl Sanders {
    /// Section 7.1: the sites in `failed` have failed; this site was told, or read it in a REQUEST. The request set
    /// changes first, so that a grant that falls free now cannot let this site in too early.
    pub(super) fn learn(&mut self, failed: &SiteSet, out: &mut Outbox<Message>) {
        if failed.is_subset(&self.failed) {
            return;
        }
        let before = self.failed.clone();
        self.failed.union_with(failed);
        self.ask_additions(&before, out);
        self.arbiter.forget(failed);
        self.grant_next(out);
        self.enter_if_all_granted(out);
    }

    /// Section 7.1, steps 1 to 4, for the one who asks: changes the request set and, if a request is waiting, puts
    /// it to all sites that have come to rely on being asked. One that was asked before then may have granted
    /// without having to remember it: its grant no longer counts.
    fn ask_additions(&mut self, before: &SiteSet, out: &mut Outbox<Message>) {
        let (rules, me) = (self.rules.clone(), self.me);
        let (structure, mend) = (&rules.structure, rules.mend());
        let after = structure.request_without(me, &self.failed, mend);
        let asked = std::mem::replace(&mut self.request_set, after);
        let SandersState::Waiting { request, missing, blocked, inquired } = &mut self.state else { return };
        let request = request.clock;
        let waited = missing.intersects(&self.failed);
        for set in [missing, blocked, inquired] {
            set.subtract(&self.failed);
        }
        let relies = |site, failed: &SiteSet| structure.must_ask(me, site, failed, mend);
        let alive = structure.all().filter(|&site| site != me && !self.failed.contains(site));
        for site in alive.filter(|&site| relies(site, &self.failed) && !relies(site, before)) {
            let again = asked.contains(site);
            // As printed only who waits for the failed site asks, and never again.
            if rules.slips.has(Slip::SilentRecovery) && (again || !waited) {
                continue;
            }
            let round = self.rounds[site.index()].saturating_add(u32::from(again));
            self.rounds[site.index()] = round;
            out.send(site, self.request_message(request, round));
            if let SandersState::Waiting { missing, blocked, .. } = &mut self.state {
                missing.insert(site);
                blocked.remove(site);
            }
        }
    }
}
