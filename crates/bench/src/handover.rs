//! Measures the time from the release at one site to the grant at another, over loopback.
//!
//! A holder keeps the lock for some time, so that the other client is certainly waiting when it releases. Meanwhile the other core may
//! go to sleep, and the longer it sleeps the later it wakes. So there are two such times, a short and a long one, and the bare round
//! trips for comparison are made after the same pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use meshlock::{Cluster, Tls};
use meshlock_tls::{Bearer, Identity, ca};

use super::reference::{SIZE, loopback_round_trip, spin};
use super::report::{Goal, GoalRow, Reference};
use super::statistics::median;

/// How long a holder keeps the lock.
const HOLDS: [Duration; 2] = [Duration::from_micros(20), Duration::from_micros(300)];

/// The thread on which a client runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClientThread {
    /// The thread of its site.
    Site,
    /// A thread of its own, which must be woken.
    Own,
}

/// How long one series of hand-overs may take; a single one takes about a millionth of it.
const WITHIN: Duration = Duration::from_secs(30);

/// Counts how often the lock has gone from one site to the other.
struct HandoverCount {
    begun: Instant,
    wanted: usize,
    last: AtomicUsize,
    hand_overs: AtomicUsize,
}

impl HandoverCount {
    fn new(wanted: usize) -> Arc<Self> {
        let (last, hand_overs) = (AtomicUsize::new(usize::MAX), AtomicUsize::new(0));
        Arc::new(HandoverCount { begun: Instant::now(), wanted, last, hand_overs })
    }

    /// Counts that a site has the lock. Returns whether there were enough hand-overs, or the time is over.
    fn count(&self, site: usize) -> bool {
        let moved = self.last.swap(site, Ordering::Relaxed) != site;
        let before = self.hand_overs.fetch_add(usize::from(moved), Ordering::Relaxed);
        before >= self.wanted || self.begun.elapsed() > WITHIN
    }
}

/// The time during which a site held the lock.
struct HeldInterval {
    fence: i64,
    site: usize,
    granted: Instant,
    released: Instant,
}

pub(super) fn measure(times: usize) -> anyhow::Result<Vec<GoalRow>> {
    let mut rows = Vec::new();
    for secured in [false, true] {
        let directory = tempfile::tempdir()?;
        let (cluster, identities) = cluster(directory.path(), secured)?;
        super::wait_for(cluster.ready())?;
        for hold in HOLDS {
            let tls = match &identities[..] {
                [one, other] => Some((one.call(&"site-2".parse()?)?, other.answer()?)),
                _ => None,
            };
            let bare = loopback_round_trip(tls, SIZE, times, hold)?;
            for thread in [ClientThread::Site, ClientThread::Own] {
                rows.push(row(secured, hold, thread, median_hand_over(&cluster, times, hold, thread)?, bare));
            }
        }
    }
    Ok(rows)
}

fn row(secured: bool, hold: Duration, thread: ClientThread, ours: f64, bare: f64) -> GoalRow {
    let kind = if secured { "TLS" } else { "TCP" };
    let (whose, most) = match thread {
        ClientThread::Site => ("the site's", 0.75),
        ClientThread::Own => ("its own", 1.0),
    };
    let micros = hold.as_micros();
    GoalRow {
        what: format!("hand-over, {kind}, median; held {micros} µs, client on {whose} thread"),
        unit: "µs",
        ours,
        reference: Some(Reference {
            what: format!("bare {kind} round trip after {micros} µs"), value: bare
        }),
        goal: Some(Goal::RatioAtMost(most)),
    }
}

/// Returns the median time from a release to the grant at the other site, in microseconds.
fn median_hand_over(
    cluster: &Cluster,
    times: usize,
    hold: Duration,
    thread: ClientThread,
) -> anyhow::Result<f64> {
    let held = match thread {
        ClientThread::Own => on_own_threads(cluster, times, hold)?,
        ClientThread::Site => on_the_sites_threads(cluster, times, hold)?,
    };
    let mut held: Vec<HeldInterval> = held.into_iter().flatten().collect();
    held.sort_by_key(|held| held.fence);
    let pairs = held.windows(2).filter(|pair| pair[0].site != pair[1].site);
    let micros: Vec<f64> =
        pairs.map(|pair| pair[1].granted.duration_since(pair[0].released).as_secs_f64() * 1e6).collect();
    anyhow::ensure!(micros.len() >= times, "only {} hand-overs in {} grants", micros.len(), held.len());
    Ok(median(micros))
}

fn on_own_threads(cluster: &Cluster, times: usize, hold: Duration) -> anyhow::Result<Vec<Vec<HeldInterval>>> {
    let counter = HandoverCount::new(times);
    let client = |site: usize| {
        let (node, counter) = (cluster[site].clone(), counter.clone());
        std::thread::spawn(move || -> anyhow::Result<Vec<HeldInterval>> {
            let mut held = Vec::with_capacity(times);
            loop {
                let guard = node.lock_blocking("bench")?;
                let granted = Instant::now();
                let enough = counter.count(site);
                spin(hold);
                let (fence, released) = (guard.fence(), Instant::now());
                drop(guard);
                held.push(HeldInterval { fence, site, granted, released });
                if enough {
                    return Ok(held);
                }
            }
        })
    };
    let clients = [client(0), client(1)];
    clients
        .into_iter()
        .map(|client| client.join().map_err(|_| anyhow::anyhow!("a client panicked"))?)
        .collect()
}

fn on_the_sites_threads(
    cluster: &Cluster,
    times: usize,
    hold: Duration,
) -> anyhow::Result<Vec<Vec<HeldInterval>>> {
    let counter = HandoverCount::new(times);
    let client = |site: usize| {
        let (node, counter) = (cluster[site].clone(), counter.clone());
        cluster[site].front().node().tasks().spawn(async move {
            let mut held = Vec::with_capacity(times);
            loop {
                let guard = node.lock("bench").await?;
                let granted = Instant::now();
                let enough = counter.count(site);
                // Does not sleep, but lets the thread handle the other site's request meanwhile.
                while granted.elapsed() < hold {
                    tokio::task::yield_now().await;
                }
                let (fence, released) = (guard.fence(), Instant::now());
                drop(guard);
                held.push(HeldInterval { fence, site, granted, released });
                if enough {
                    return anyhow::Ok(held);
                }
            }
        })
    };
    let clients = [client(0), client(1)];
    clients.into_iter().map(|client| super::wait_for(client)??).collect()
}

/// Starts two sites. Returns them with their certificates if they use TLS.
fn cluster(directory: &std::path::Path, secured: bool) -> anyhow::Result<(Cluster, Vec<Identity>)> {
    if !secured {
        return Ok((Cluster::local(2)?, Vec::new()));
    }
    ca::init(directory, ca::AUTHORITY_DAYS)?;
    let mut files = Vec::new();
    for site in ["site-1", "site-2"] {
        files.push(ca::issue(directory, &Bearer::Site(site.parse()?), ca::BEARER_DAYS)?);
    }
    let tls = files.iter().map(|files| Tls::from_files(&files.authority, &files.certificate, &files.key));
    let mut tls = tls.collect::<Result<Vec<_>, _>>()?.into_iter();
    let cluster = Cluster::local_with(2, |_, builder| match tls.next() {
        Some(tls) => builder.tls(tls),
        None => builder,
    })?;
    Ok((cluster, files.iter().map(Identity::load).collect::<Result<_, _>>()?))
}
