//! How claims become holds of this site, and are settled or given up when the view opens.

use std::collections::BTreeMap;

use super::{ClaimEvent, PendingClaim};
use crate::claim::ProvedHold;
use crate::mutant::{self, Mutant};
use crate::names::{LockName, Member};
use crate::table::clients::Hold;
use crate::table::holdings::HeldLane;
use crate::table::opening::HoldersByPermits;
use crate::table::tally::ClaimOutcome;
use crate::table::{LeaseClock, LocalView, LockKey, LockTable, LossReason, TableAlarm, TableOutput};

impl LockTable {
    /// Reacts to a view with these members, of which this site is one, being installed: claims on an incarnation that is not
    /// among them become holds, also those that have ended but whose clients may not have stopped yet.
    pub(crate) fn install(&mut self, members: &[Member]) {
        self.claims.installed = members.to_vec();
        if mutant::is_on(Mutant::StandingClaimForgotten) {
            let standing = self.claims.pending.iter().filter(|(_, claim)| claim.is_standing);
            for request in standing.map(|((_, request), _)| *request).collect::<Vec<_>>() {
                self.drop_claim(request);
            }
        }
        let is_due = |claim: &PendingClaim| {
            let is_gone = !members.contains(&claim.hold.holder);
            let counts = claim.stop_by.is_none() || !mutant::is_on(Mutant::EndedClaimNotCounted);
            counts && (is_gone || mutant::is_on(Mutant::ClaimCountedEarly))
        };
        let due = self.claims.pending.iter().filter(|(_, claim)| is_due(claim));
        for (session, request) in due.map(|(key, _)| *key).collect::<Vec<_>>() {
            let Some(claim) = self.claims.pending.get(&(session, request)).cloned() else { continue };
            self.drop_claim(request);
            let (key, cause) = (claim.key(), self.cause(request));
            let at = self.locks.get_index_of(&key).unwrap_or_else(|| self.insert(&key));
            let ProvedHold { fence, slot, mode, .. } = claim.hold;
            let stop_by = claim.stop_by.map(Box::new);
            if let Some(stop_by) = claim.stop_by {
                self.losing += 1;
                self.alarms.insert((stop_by, TableAlarm::Lost(key.clone(), request)));
            }
            let (lane, upgrades) = (0, false);
            let since = claim.since;
            let hold = Hold { request, fence, slot, since, stop_by, lane, mode, upgrades, cause };
            self.locks[at].clients.wake(&mut self.spare).holds.push(hold);
            self.locks[at].clients.rest(&mut self.spare);
            self.requests.insert(request, (session, key));
            self.sessions.entry(session).or_default().requests.insert(request);
            // Its client does not know yet, and relies on the claim although it may be cut off: that is like having a proof.
            if !mutant::is_on(Mutant::SettledUnheard) {
                self.proved.insert(request);
            }
            self.claims.unsettled.insert(request);
            self.tally.claimed(ClaimOutcome::Settled);
        }
    }

    /// Settles the claims that became holds, now that the view is open, or gives them up where the name has more holders than permits.
    /// `held` are the holders of the names that have several.
    pub(in crate::table) fn settle_claims(
        &mut self,
        local_view: &LocalView,
        held: &BTreeMap<LockName, HoldersByPermits>,
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
    ) {
        for request in std::mem::take(&mut self.claims.unsettled) {
            let Some((_, key)) = self.requests.get(&request).cloned() else { continue };
            let Some(hold) = self.locks.get(&key).and_then(|lock| lock.hold(request)) else { continue };
            if hold.stop_by.is_some() {
                continue;
            }
            let (fence, slot) = (hold.fence, hold.slot);
            let is_contested = held.get(&key.name).is_some_and(|held| {
                is_contested(local_view, &key, slot, held) && !mutant::is_on(Mutant::ClaimKeptInConflict)
            });
            if let Some(lease_end) = lease_clock.lease_end.filter(|_| !is_contested) {
                let margin = self.table_config.margin;
                let settled = ClaimEvent::Settled { request, fence, slot, lease_end, margin };
                out.push(TableOutput::Claim(settled));
            } else {
                let why = if is_contested { LossReason::Conflict } else { LossReason::LeaseEnd };
                self.take_from([(request, key)].into_iter(), why, lease_clock, out);
            }
        }
    }
}

/// Returns whether a claimed hold has too many others beside it: more than the permits or than its site's share, some that count on
/// another number of permits, or one with the same slot.
fn is_contested(local_view: &LocalView, key: &LockKey, slot: Option<u32>, held: &HoldersByPermits) -> bool {
    let Some(of_key) = held.get(&key.permits).filter(|_| held.len() == 1) else { return true };
    if local_view.rule(key).is_some() && local_view.plan(&key.name).is_shared() {
        let modes = of_key.iter().flat_map(|(_, lanes)| lanes).map(|lane| lane.mode);
        return !HeldLane::admit_each_other(modes);
    }
    let rule = local_view.rules.rule(&key.name);
    let per_site = if rule.permits == key.permits { rule.per_site } else { key.permits };
    let all = of_key.iter().map(|(_, slots)| slots.len()).sum::<usize>();
    let here = of_key.iter().find(|(place, _)| *place == local_view.me).map_or(0, |(_, slots)| slots.len());
    let lanes = of_key.iter().flat_map(|(_, lanes)| lanes);
    let same = lanes.filter(|other| slot.is_some() && other.slot == slot);
    all > key.permits as usize || here > per_site as usize || same.count() > 1
}
