//! Measures a lock whose token is at this site, acquired and released within the process.

use std::time::Instant;

use meshlock::Node;

use super::report::{Goal, GoalRow};
use super::statistics::median;

/// How many acquisitions are timed together: reading the clock takes time as well.
const BATCH: usize = 1000;

pub(super) fn measure(times: usize) -> anyhow::Result<GoalRow> {
    let node = Node::local()?;
    drop(node.lock_blocking("bench")?);
    // The median of the batches: in some of them another program may have the core.
    let mut batches = Vec::with_capacity(times / BATCH);
    for _ in 0..times.div_ceil(BATCH) {
        let start = Instant::now();
        for _ in 0..BATCH {
            drop(node.lock_blocking("bench")?);
        }
        batches.push(start.elapsed().as_secs_f64() * 1e6 / BATCH as f64);
    }
    Ok(GoalRow {
        what: "acquire and release, in process, token here".to_owned(),
        unit: "µs",
        ours: median(batches),
        reference: None,
        goal: Some(Goal::Below(1.0)),
    })
}
