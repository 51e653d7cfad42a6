//! From the release at one site to the grant at another, over loopback.
//!
//! A holder keeps the lock for a while, so that the other one is certainly waiting when it lets go. Meanwhile the other core may fall
//! asleep and wake late, the later the longer the while. So there are two, a short and a long one, and the bare round trips beside each
//! are made after the same while.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use meshlock::{Cluster, Tls};
use meshlock_tls::{Bearer, Identity, ca};

use super::reference::{loopback_round_trip, spin};
use super::report::{Goal, Reference, Row, median};

/// How long a holder keeps the lock.
const HOLDS: [Duration; 2] = [Duration::from_micros(20), Duration::from_micros(300)];

/// About what a hand-over and its acknowledgement have, in bytes.
const SIZE: usize = 64;

/// Where the clients run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// On the thread of their site.
    Site,
    /// On a thread of their own, which has to be woken.
    Own,
}

/// How long one rhythm may take altogether; a hand-over takes a millionth of it.
const WITHIN: Duration = Duration::from_secs(30);

/// How often the lock has gone from one site to the other.
struct Tally {
    begun: Instant,
    wanted: usize,
    last: AtomicUsize,
    hand_overs: AtomicUsize,
}

impl Tally {
    fn new(wanted: usize) -> Arc<Self> {
        let (last, hand_overs) = (AtomicUsize::new(usize::MAX), AtomicUsize::new(0));
        Arc::new(Tally { begun: Instant::now(), wanted, last, hand_overs })
    }

    /// A site has the lock. Says whether that is enough.
    fn count(&self, site: usize) -> bool {
        let moved = self.last.swap(site, Ordering::Relaxed) != site;
        let before = self.hand_overs.fetch_add(usize::from(moved), Ordering::Relaxed);
        before >= self.wanted || self.begun.elapsed() > WITHIN
    }
}

/// When a site had the lock.
struct Held {
    fence: i64,
    site: usize,
    granted: Instant,
    released: Instant,
}

pub(super) fn measure(times: usize) -> anyhow::Result<Vec<Row>> {
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
            for place in [Place::Site, Place::Own] {
                rows.push(row(secured, hold, place, one_rhythm(&cluster, times, hold, place)?, bare));
            }
        }
    }
    Ok(rows)
}

fn row(secured: bool, hold: Duration, place: Place, ours: f64, bare: f64) -> Row {
    let kind = if secured { "TLS" } else { "TCP" };
    let whose = match place {
        Place::Site => "the site's",
        Place::Own => "its own",
    };
    let micros = hold.as_micros();
    Row {
        what: format!("hand-over, {kind}, median; held {micros} µs, client on {whose} thread"),
        unit: "µs",
        ours,
        reference: Some(Reference {
            what: format!("bare {kind} round trip after {micros} µs"), value: bare
        }),
        goal: Some(Goal::RatioAtMost(1.0)),
    }
}

/// The median time from a release to the other's grant, in microseconds.
fn one_rhythm(cluster: &Cluster, times: usize, hold: Duration, place: Place) -> anyhow::Result<f64> {
    let held = match place {
        Place::Own => on_own_threads(cluster, times, hold)?,
        Place::Site => on_the_sites_threads(cluster, times, hold)?,
    };
    let mut held: Vec<Held> = held.into_iter().flatten().collect();
    held.sort_by_key(|held| held.fence);
    let pairs = held.windows(2).filter(|pair| pair[0].site != pair[1].site);
    let micros: Vec<f64> =
        pairs.map(|pair| pair[1].granted.duration_since(pair[0].released).as_secs_f64() * 1e6).collect();
    anyhow::ensure!(micros.len() >= times, "only {} hand-overs in {} grants", micros.len(), held.len());
    Ok(median(micros))
}

fn on_own_threads(cluster: &Cluster, times: usize, hold: Duration) -> anyhow::Result<Vec<Vec<Held>>> {
    let tally = Tally::new(times);
    let client = |site: usize| {
        let (node, tally) = (cluster[site].clone(), tally.clone());
        std::thread::spawn(move || -> anyhow::Result<Vec<Held>> {
            let mut held = Vec::with_capacity(times);
            loop {
                let guard = node.lock_blocking("bench")?;
                let granted = Instant::now();
                let enough = tally.count(site);
                spin(hold);
                let (fence, released) = (guard.fence(), Instant::now());
                drop(guard);
                held.push(Held { fence, site, granted, released });
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

fn on_the_sites_threads(cluster: &Cluster, times: usize, hold: Duration) -> anyhow::Result<Vec<Vec<Held>>> {
    let tally = Tally::new(times);
    let client = |site: usize| {
        let (node, tally) = (cluster[site].clone(), tally.clone());
        cluster[site].front().node().tasks().spawn(async move {
            let mut held = Vec::with_capacity(times);
            loop {
                let guard = node.lock("bench").await?;
                let granted = Instant::now();
                let enough = tally.count(site);
                // Awake, but the thread has to hear of the other's wish meanwhile.
                while granted.elapsed() < hold {
                    tokio::task::yield_now().await;
                }
                let (fence, released) = (guard.fence(), Instant::now());
                drop(guard);
                held.push(Held { fence, site, granted, released });
                if enough {
                    return anyhow::Ok(held);
                }
            }
        })
    };
    let clients = [client(0), client(1)];
    clients.into_iter().map(|client| super::wait_for(client)??).collect()
}

/// Two sites, and what they identify themselves with if they are secured.
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
