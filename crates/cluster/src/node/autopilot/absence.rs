//! Which voters are not there although their sites are members, as the leader knows it (`node/attendance.rs` says what for).

use super::super::attendance::Absence;
use super::{Pilot, Situation};
use crate::time::Span;

impl Pilot {
    /// Returns which voters are absent, if the members have to be told now.
    pub(in super::super) fn absence_to_tell(
        &mut self,
        at: Situation<'_>,
        repeat_after: Span,
    ) -> Option<Absence> {
        let absence = self.absence(at);
        let (told, when) = &self.absence_told;
        let is_due = !absence.is_empty() && when.is_none_or(|when| at.now.since(when) >= repeat_after);
        if absence == *told && !is_due {
            return None;
        }
        self.absence_told = (absence.clone(), Some(at.now));
        Some(absence)
    }

    /// Returns which voters are absent. A leader that was just elected does not know, and who has just become a member has not said
    /// anything yet.
    fn absence(&self, at: Situation<'_>) -> Absence {
        let mut absence = Absence::default();
        let is_recent = |since: Option<&_>| since.is_none_or(|since| at.now.since(*since) < at.timing.fresh);
        if is_recent(self.since.as_ref()) {
            return absence;
        }
        for voter in at.voters.deciding() {
            let Some(member) = at.view.member(&voter.site) else { continue };
            let is_new = is_recent(self.member_since.get(member));
            if is_new || self.is_there(voter, at) || absence.contains(voter.id) {
                continue;
            }
            let is_idle = self.claims.get(member).is_some_and(|(claim, when)| {
                claim.acts_as != Some(voter.id) && at.now.since(*when) <= at.timing.fresh
            });
            if is_idle { absence.idle.push(voter.id) } else { absence.silent.push(voter.id) }
        }
        absence
    }
}
