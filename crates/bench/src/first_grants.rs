//! Measures the first moments of a cluster: fifty clients want one lock as soon as all servers say that they are ready.
//!
//! The time starts when the last server says so, and includes that every client connects and has a lease granted, as the first program of a
//! user would have to. It ends with the fiftieth grant.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::try_join_all;

use super::guarded::Guarded;
use super::note;
use super::peers::etcd::Etcd;
use super::report::{Goal, GoalRow, Reference};
use super::sides::PeerService;
use super::statistics::median;
use super::system::{LONG_EXPIRY, LockClient, System};
use super::systems::etcd_api::EtcdApi;

/// How many clients want the lock, each of them once.
pub(super) const CLIENTS: usize = 50;

/// The first grants of one cluster, in milliseconds.
#[derive(Clone, Copy)]
struct FirstGrants {
    /// From the moment when all servers are ready until all clients have had the lock.
    all: f64,
    /// The longest time between two grants.
    longest_gap: f64,
}

/// Returns the rows of the goals, from the medians of so many fresh clusters of each kind.
pub(super) async fn measure(program: &Path, with_etcd: bool, times: usize) -> anyhow::Result<Vec<GoalRow>> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 1..=times {
        note(&format!("the first grants of a fresh cluster, {round} of {times}"));
        ours.push(first_grants(&EtcdApi::start(program).await?).await?);
        if with_etcd {
            theirs.push(first_grants(&Etcd::start().await?).await?);
        }
    }
    let row = |what: String, goal: Option<Goal>, figure: fn(&FirstGrants) -> f64| {
        let of = |grants: &[FirstGrants]| median(grants.iter().map(figure).collect());
        let name = PeerService::Etcd.name().to_owned();
        let reference = with_etcd.then(|| Reference { what: name, value: of(&theirs) });
        GoalRow { what, unit: "ms", ours: of(&ours), goal: reference.as_ref().and(goal), reference }
    };
    Ok(vec![
        row(
            format!("first {CLIENTS} contended grants after a start, etcd API"),
            Some(Goal::RatioAtMost(1.0)),
            |grants| grants.all,
        ),
        row("longest time between two of them".to_owned(), None, |grants| grants.longest_gap),
    ])
}

async fn first_grants<S: System>(system: &S) -> anyhow::Result<FirstGrants> {
    let (guarded, start) = (Arc::new(Guarded::default()), Instant::now());
    let clients = (0..CLIENTS).map(|number| {
        let guarded = guarded.clone();
        async move {
            let mut client = system.connect(number, LONG_EXPIRY).await?;
            let fence = client.acquire("first").await?;
            let granted = start.elapsed().as_secs_f64() * 1e3;
            guarded.count(number, fence);
            client.release().await?;
            anyhow::Ok(granted)
        }
    });
    let mut granted = try_join_all(clients).await?;
    guarded.judge(CLIENTS as u64, None)?;
    granted.sort_by(f64::total_cmp);
    let longest_gap = granted.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
    Ok(FirstGrants { all: granted.last().copied().unwrap_or(f64::NAN), longest_gap })
}
