//! A lock whose token is here, taken and given back within the process.

use std::time::Instant;

use meshlock::Node;

use super::report::{Goal, Row};

pub(super) fn measure(times: usize) -> anyhow::Result<Row> {
    let node = Node::local()?;
    drop(node.lock_blocking("bench")?);
    let start = Instant::now();
    for _ in 0..times {
        drop(node.lock_blocking("bench")?);
    }
    let micros = start.elapsed().as_secs_f64() * 1e6 / times as f64;
    Ok(Row {
        what: "acquire and release, in process, token here".to_owned(),
        unit: "µs",
        ours: micros,
        reference: None,
        goal: Some(Goal::Below(1.0)),
    })
}
