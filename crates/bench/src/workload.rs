//! The workload of recent papers about locks: many clients, many more locks, of which all are equally popular or few are wanted by
//! everyone, and holders that leave at once or stay for a moment.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::guarded::Guarded;
use super::peers::redis::{self, Redis};
use super::report::BenchReport;
use super::sides::{CENTRAL, DAEMONS, LIBRARY, PeerService};
use super::statistics::{jain, quantile};
use super::system::{LONG_EXPIRY, LockClient, System};
use super::systems::{central::Central, daemons::Daemons, library::Library};
use super::zipf::Zipf;
use super::{Arguments, note};

/// The number of locks, and of clients, which are spread over the sites.
const LOCKS: usize = 100_000;
const CLIENTS: usize = 64;

/// How popular the locks are: a name, and the exponent of Zipf's law.
const POPULARITIES: [(&str, f64); 2] = [("uniform", 0.0), ("Zipf 0.99", 0.99)];

/// How long a client holds a lock.
const HOLDS: [Duration; 2] = [Duration::ZERO, Duration::from_micros(20)];

/// The result of one run of one service.
#[derive(Debug, Serialize)]
pub(super) struct WorkloadRow {
    pub(super) popularity: &'static str,
    pub(super) locks: usize,
    pub(super) clients: usize,
    pub(super) held_micros: u128,
    pub(super) system: &'static str,
    #[serde(flatten)]
    pub(super) run: WorkloadRun,
}

/// What clients got in one run.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct WorkloadRun {
    /// How often a client entered, per second, all clients together.
    pub(super) entries_per_second: f64,
    /// Quantiles of the time from a request to its grant, in microseconds.
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
    /// Jain's fairness index of the clients' entries.
    pub(super) jain: f64,
}

/// What clients do in one run.
#[derive(Clone)]
pub(super) struct Workload {
    pub(super) clients: usize,
    pub(super) locks: Arc<Vec<(String, Guarded)>>,
    pub(super) popularity: Arc<Zipf>,
    pub(super) hold: Duration,
}

impl Workload {
    pub(super) fn new(clients: usize, locks: usize, exponent: f64, hold: Duration) -> Self {
        let named = |number| (format!("bench-{number}"), Guarded::default());
        let popularity = Arc::new(Zipf::new(locks, exponent));
        Workload { clients, locks: Arc::new((0..locks).map(named).collect()), popularity, hold }
    }

    /// Runs the clients for this time.
    pub(super) async fn run<S: System>(&self, system: &S, window: Duration) -> anyhow::Result<WorkloadRun> {
        let begin = Arc::new(Barrier::new(self.clients));
        let mut running = JoinSet::new();
        for number in 0..self.clients {
            let client = system.connect(number, LONG_EXPIRY).await?;
            let (workload, begin) = (self.clone(), begin.clone());
            running.spawn(async move {
                begin.wait().await;
                workload.client(client, number, window).await
            });
        }
        let (mut each, mut waited, mut entries_per_second) = (Vec::new(), Vec::new(), 0.0);
        while let Some(done) = running.join_next().await {
            let (micros, seconds) = done??;
            entries_per_second += micros.len() as f64 / seconds;
            each.push(micros.len() as u64);
            waited.extend(micros);
        }
        self.judge(waited.len() as u64)?;
        waited.sort_by(f64::total_cmp);
        let [p50, p99, p999] = [500, 990, 999].map(|thousandths| quantile(&waited, thousandths));
        Ok(WorkloadRun { entries_per_second, p50, p99, p999, jain: jain(&each) })
    }

    /// Runs one client. Returns how long it waited for each grant, in microseconds, and how many seconds it ran.
    async fn client(
        &self,
        mut client: impl LockClient,
        number: usize,
        window: Duration,
    ) -> anyhow::Result<(Vec<f64>, f64)> {
        let mut random = fastrand::Rng::with_seed(number as u64);
        let (mut micros, start) = (Vec::new(), Instant::now());
        // At least once, however slow the machine is.
        loop {
            let (lock, guarded) = &self.locks[self.popularity.draw(&mut random)];
            let asked = Instant::now();
            let fence = client.acquire(lock).await?;
            let granted = Instant::now();
            micros.push(granted.duration_since(asked).as_secs_f64() * 1e6);
            let entry = guarded.enter(number, fence);
            // Other clients go on meanwhile, as if each had a machine of its own.
            while granted.elapsed() < self.hold {
                tokio::task::yield_now().await;
            }
            guarded.exit(entry);
            client.release().await?;
            if start.elapsed() >= window {
                return Ok((micros, start.elapsed().as_secs_f64()));
            }
            tokio::task::yield_now().await;
        }
    }

    /// Has every lock acquired once, so that all of them exist.
    async fn warm_up<S: System>(&self, system: &S) -> anyhow::Result<()> {
        let mut running = JoinSet::new();
        for number in 0..self.clients {
            let mut client = system.connect(number, LONG_EXPIRY).await?;
            let workload = self.clone();
            running.spawn(async move {
                for (lock, guarded) in workload.locks.iter().skip(number).step_by(workload.clients) {
                    let fence = client.acquire(lock).await?;
                    guarded.count(number, fence);
                    client.release().await?;
                    tokio::task::yield_now().await;
                }
                anyhow::Ok(())
            });
        }
        while let Some(done) = running.join_next().await {
            done??;
        }
        self.judge(self.locks.len() as u64)
    }

    /// Checks that no update was lost, that no two clients had the same lock at once, and that fences only grew.
    fn judge(&self, entries: u64) -> anyhow::Result<()> {
        let counted: u64 = self.locks.iter().map(|(_, guarded)| guarded.entries()).sum();
        anyhow::ensure!(
            counted == entries,
            "the counters have {counted} of {entries} entries: updates were lost"
        );
        for (lock, guarded) in self.locks.iter() {
            guarded.judge(guarded.entries(), None).with_context(|| format!("the lock '{lock}'"))?;
        }
        Ok(())
    }
}

/// Measures our lock services, the central server and Redis, each of them started for this.
pub(super) async fn measure(
    arguments: &Arguments,
    program: &Path,
    peers: &[PeerService],
    report: &mut BenchReport,
) -> anyhow::Result<()> {
    let mut rows = one(arguments, LIBRARY, Library::start().await?).await?;
    rows.extend(one(arguments, DAEMONS, Daemons::start(program).await?).await?);
    rows.extend(one(arguments, CENTRAL, Central::start()?).await?);
    for peer in peers {
        let name = peer.name();
        rows.extend(match peer {
            PeerService::RedisPolling => {
                report.add_version(redis::version());
                one(arguments, name, Redis::<false>::start().await?).await?
            }
            PeerService::RedisTold => one(arguments, name, Redis::<true>::start().await?).await?,
            PeerService::Etcd | PeerService::ZooKeeper | PeerService::Redlock => Vec::new(),
        });
    }
    // Services are compared within a workload; their own order stays.
    let place = |row: &WorkloadRow| POPULARITIES.iter().position(|(name, _)| *name == row.popularity);
    rows.sort_by_key(|row| (place(row), row.held_micros));
    report.workload = rows;
    report.notes.push(
        "Workload: before the first run of a service every lock is acquired once. A client draws the next lock when it has released the last \
         one; it keeps a lock for at least the given time, in which it lets other clients run. The quantiles are of the time from request to grant."
            .to_owned(),
    );
    Ok(())
}

/// Runs every workload with one service.
async fn one<S: System>(
    arguments: &Arguments,
    name: &'static str,
    system: S,
) -> anyhow::Result<Vec<WorkloadRow>> {
    let locks = arguments.times(LOCKS);
    note(&format!("{CLIENTS} clients, {locks} locks: {name}"));
    let warm_up = Workload::new(CLIENTS, locks, 0.0, Duration::ZERO);
    warm_up.warm_up(&system).await.with_context(|| format!("{name}: every lock once"))?;
    let mut rows = Vec::new();
    for (popularity, exponent) in POPULARITIES {
        for hold in HOLDS {
            let run = Workload::new(CLIENTS, locks, exponent, hold).run(&system, arguments.window()).await;
            let run =
                run.with_context(|| format!("{name}: {CLIENTS} clients, {locks} locks, {popularity}"))?;
            let held_micros = hold.as_micros();
            rows.push(WorkloadRow { popularity, locks, clients: CLIENTS, held_micros, system: name, run });
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use meshlock_testing::{async_test, in_time};

    use super::*;

    #[test]
    fn clients_of_few_popular_locks_are_counted_and_exclude_each_other() {
        async_test(async {
            let central = Central::start().unwrap();
            let workload = Workload::new(8, 20, 0.99, Duration::from_micros(20));
            let window = Duration::from_millis(50);
            let run =
                in_time("eight clients use twenty locks", workload.run(&central, window)).await.unwrap();
            assert!(run.entries_per_second > 0.0 && run.jain > 0.0 && run.jain <= 1.0 + 1e-9, "{run:?}");
            assert!(0.0 < run.p50 && run.p50 <= run.p99 && run.p99 <= run.p999, "{run:?}");
        });
    }

    #[test]
    fn a_warm_up_uses_every_lock_once() {
        async_test(async {
            let central = Central::start().unwrap();
            let workload = Workload::new(3, 10, 0.0, Duration::ZERO);
            in_time("every lock is used", workload.warm_up(&central)).await.unwrap();
            assert!(workload.locks.iter().all(|(_, guarded)| guarded.entries() == 1));
            assert!(workload.judge(11).is_err(), "one update too few");
        });
    }
}
