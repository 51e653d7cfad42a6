//! Whether the timestamps of one site's entries rise, where the algorithm promises the order of timestamps.
//!
//! What a site entered with before is not part of its state, and to keep it would make more states of many. So the local steps that the
//! search has learnt are looked at alone: for each local state, the largest timestamp of an entry on any way to it. If every entry has a
//! larger one, the timestamps rise in every run. If not, that way may not belong to any run, because the ways of the sites do not fit each
//! other; then the search is made again with the last entries kept.

use meshlock_protocol::registry::info::Order;

use crate::property::Property;
use crate::table::Table;

/// A step of one site: the numbers of its local states before and after, and whether it enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LocalStep {
    pub(crate) before: u32,
    pub(crate) after: u32,
    pub(crate) enters: bool,
}

impl Table {
    /// Whether the search has to be made again with last entries kept.
    pub(crate) fn must_keep_entries(&self) -> bool {
        let bounds = &self.bounds;
        // Relative timestamps say nothing about those of earlier entries.
        self.info.order == Order::Timestamp
            && bounds.properties.contains(Property::Order)
            && !bounds.is_endless()
            && !bounds.keeps_entries
            && !self.timestamps_rise()
    }

    fn timestamps_rise(&self) -> bool {
        let mut steps: Vec<LocalStep> = self.local_steps().filter(|step| step.before != step.after).collect();
        steps.sort_unstable();
        // 0 before the first entry, else its clock and one more.
        let mut last = vec![0_u64; self.local_states()];
        let mut open: Vec<u32> = Vec::new();
        let mut is_open = vec![true; last.len()];
        open.extend(0..u32::try_from(last.len()).expect("fewer than 2^32 local states"));
        while let Some(before) = open.pop() {
            is_open[before as usize] = false;
            let first = steps.partition_point(|step| step.before < before);
            for step in steps[first..].iter().take_while(|step| step.before == before) {
                let known = last[before as usize];
                let entered = if step.enters { self.facts(step.after).timestamp } else { None };
                let entered = entered.map(|timestamp| timestamp.clock.value().saturating_add(1));
                if entered.is_some_and(|entered| entered <= known) {
                    return false;
                }
                let now = entered.unwrap_or(known);
                if now > last[step.after as usize] {
                    last[step.after as usize] = now;
                    if !std::mem::replace(&mut is_open[step.after as usize], true) {
                        open.push(step.after);
                    }
                }
            }
        }
        true
    }
}
