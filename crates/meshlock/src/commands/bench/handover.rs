//! From the release at one site to the grant at another, over loopback.

use std::time::{Duration, Instant};

use meshlock::Cluster;
use meshlock::node::shell::Security;
use meshlock::node::shell::tls::{Bearer, Identity, ca};

use super::reference::{spin, tcp_round_trip};
use super::{Goal, Reference, Row, median, wait_for};

/// How long a holder keeps the lock, so that the other one is certainly waiting by then.
const HOLD: Duration = Duration::from_micros(300);

pub(super) fn measure(times: usize, secured: bool) -> anyhow::Result<Row> {
    let directory = tempfile::tempdir()?;
    let cluster = cluster(directory.path(), secured)?;
    wait_for(cluster.ready())?;
    let mut sides = Vec::new();
    for side in 0..2 {
        let node = cluster[side].clone();
        sides.push(std::thread::spawn(move || -> anyhow::Result<Vec<(i64, Instant, Instant)>> {
            let mut held = Vec::with_capacity(times);
            for _ in 0..times {
                let guard = node.lock_blocking("bench")?;
                let granted = Instant::now();
                spin(HOLD);
                let fence = guard.fence();
                let released_at = Instant::now();
                drop(guard);
                held.push((fence, granted, released_at));
            }
            Ok(held)
        }));
    }
    let mut held = Vec::new();
    for (side, thread) in sides.into_iter().enumerate() {
        let of_side = thread.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
        held.extend(of_side.into_iter().map(|(fence, granted, released)| (fence, side, granted, released)));
    }
    held.sort_by_key(|(fence, ..)| *fence);
    let pairs = held.windows(2).filter(|pair| pair[0].1 != pair[1].1);
    let micros = pairs.map(|pair| pair[1].2.duration_since(pair[0].3).as_secs_f64() * 1e6).collect();
    let kind = if secured { "TLS" } else { "TCP" };
    Ok(Row {
        what: format!("hand-over between two sites, {kind}, median"),
        unit: "µs",
        ours: median(micros),
        reference: Some(Reference {
            what: "bare TCP round trip after such a pause",
            value: tcp_round_trip(64, times, HOLD)?,
        }),
        goal: Some(Goal::RatioAtMost(1.0)),
    })
}

fn cluster(directory: &std::path::Path, secured: bool) -> anyhow::Result<Cluster> {
    if !secured {
        return Ok(Cluster::local(2)?);
    }
    ca::init(directory, ca::AUTHORITY_DAYS)?;
    let mut failed = None;
    let cluster = Cluster::local_with(2, |site, setup| {
        let identity = ca::issue(directory, &Bearer::Site(site.clone()), ca::BEARER_DAYS)
            .map_err(anyhow::Error::from)
            .and_then(|files| Ok(Identity::load(&files)?));
        match identity {
            Ok(identity) => setup.security = Security::Tls(identity),
            Err(error) => failed = Some(error),
        }
    });
    failed.map_or_else(|| Ok(cluster?), Err)
}
