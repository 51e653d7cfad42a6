//! Voters that do not write what is committed: their disks are full, stuck or too slow.
//!
//! The site of such a voter renews its lease and says that it acts as the voter, but it acknowledges no entry, because an entry is
//! acknowledged when it is on the disk. The leader sees that. Such a voter cannot be counted on: nothing could be agreed on if the others
//! were one fewer. While nothing is agreed on, nobody writes, and a disk that is full is not noticed.

use std::collections::BTreeMap;

use super::{Pilot, Situation};
use crate::membership::voters::{Voter, Voters};
use crate::mutant::{self, Mutant};
use crate::time::Time;

/// What voters have not acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct Lagging {
    /// For each voter that lacks a committed entry: the index of one that it lacks, and since when it has.
    lacks: BTreeMap<u64, (u64, Time)>,
}

impl Pilot {
    /// Notes how far each voter has acknowledged the log, of which everything up to `committed` is committed.
    pub(in super::super) fn note_progress(
        &mut self,
        voters: &Voters,
        committed: u64,
        acknowledged: impl Fn(u64) -> u64,
        now: Time,
    ) {
        let lacks = &mut self.lagging.lacks;
        lacks.retain(|id, _| voters.deciding().any(|voter| voter.id == *id));
        for voter in voters.deciding() {
            let has = acknowledged(voter.id);
            if has >= committed {
                lacks.remove(&voter.id);
                continue;
            }
            let lacking = lacks.entry(voter.id).or_insert((committed, now));
            if has >= lacking.0 {
                // It is behind, but goes on.
                *lacking = (committed, now);
            }
        }
    }

    /// Returns whether the voter has lacked the same entry for so long that its disk must be the cause.
    pub(super) fn lags(&self, voter: &Voter, at: Situation<'_>) -> bool {
        let since = self.lagging.lacks.get(&voter.id).map(|(_, since)| *since);
        since.is_some_and(|since| at.now.since(since) > at.timing.fresh)
            && !mutant::is_on(Mutant::LaggingVoterCounts)
    }
}
