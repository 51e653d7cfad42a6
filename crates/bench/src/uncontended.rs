//! A lock whose token is here, taken and given back within the process.

use std::time::Instant;

use meshlock::Node;

use super::report::{Goal, Row, median};

/// How many are timed together: reading the clock takes time too.
const BATCH: usize = 1000;

pub(super) fn measure(times: usize) -> anyhow::Result<Row> {
    let node = Node::local()?;
    drop(node.lock_blocking("bench")?);
    // The median of the batches: another program has the core in some of them.
    let mut batches = Vec::with_capacity(times / BATCH);
    for _ in 0..times.div_ceil(BATCH) {
        let start = Instant::now();
        for _ in 0..BATCH {
            drop(node.lock_blocking("bench")?);
        }
        batches.push(start.elapsed().as_secs_f64() * 1e6 / BATCH as f64);
    }
    Ok(Row {
        what: "acquire and release, in process, token here".to_owned(),
        unit: "µs",
        ours: median(batches),
        reference: None,
        goal: Some(Goal::Below(1.0)),
    })
}
