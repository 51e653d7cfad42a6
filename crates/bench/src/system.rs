//! The interface of the lock services that are measured, and the measuring loops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::guarded::Guarded;
use super::statistics::{jain, median};

/// How long a lock outlives a client that is silent: leases, sessions, expiries. Meshlock's own default, used for all services.
pub(super) const EXPIRY: Duration = Duration::from_secs(5);

/// The same for clients that are not killed: longer than any measurement.
pub(super) const LONG_EXPIRY: Duration = Duration::from_secs(30);

/// The lock for which all clients compete.
const LOCK: &str = "bench";

/// A client of a lock service, which holds one lock at a time.
pub(super) trait LockClient: Send + 'static {
    /// Waits for a lock. Returns its fence if the service has fences: a number larger than those of all earlier holders.
    fn acquire(&mut self, lock: &str) -> impl Future<Output = anyhow::Result<Option<i64>>> + Send;

    /// Releases the lock.
    fn release(&mut self) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// Ends a holder in the way a kill would.
pub(super) type Kill = Box<dyn FnOnce() + Send>;

/// A lock service. Dropping it ends its processes.
pub(super) trait System: Sync {
    /// The clients of the service.
    type Client: LockClient;

    /// Whether other clients get the locks of clients that are killed.
    const TAKES_OVER: bool = true;

    /// Connects a new client to the site or server `number`, modulo their count. Its locks expire `expiry` after it was killed.
    fn connect(
        &self,
        number: usize,
        expiry: Duration,
    ) -> impl Future<Output = anyhow::Result<Self::Client>> + Send;

    /// Returns the processes of the service, if it does not run in this process.
    fn processes(&self) -> Vec<u32>;

    /// Acquires a lock at the first site, and returns a function that kills its holder. By default it closes the holder's connection,
    /// which is what a server notices of a killed client.
    fn hold(&self, lock: &'static str) -> impl Future<Output = anyhow::Result<Kill>> + Send {
        async move {
            let mut holder = self.connect(0, EXPIRY).await?;
            holder.acquire(lock).await?;
            Ok(Box::new(move || drop(holder)) as Kill)
        }
    }

    /// Kills the first site or server, if the service can survive that. Returns whether it can.
    fn kill_first(&mut self) -> bool;
}

/// The result of a contended run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contended {
    pub(super) entries_per_second: f64,
    pub(super) jain: f64,
}

/// Returns the median time that one client without competitors takes to acquire and release a lock, in microseconds.
pub(super) async fn uncontended<S: System>(system: &S, window: Duration) -> anyhow::Result<f64> {
    let mut client = system.connect(0, LONG_EXPIRY).await?;
    let guarded = Guarded::default();
    // The first acquisition brings the lock to this site, or creates it.
    once(&mut client, LOCK, &guarded, 0).await?;
    let (mut micros, start) = (Vec::new(), Instant::now());
    while start.elapsed() < window {
        let begun = Instant::now();
        once(&mut client, LOCK, &guarded, 0).await?;
        micros.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    guarded.judge(micros.len() as u64 + 1, None)?;
    Ok(median(micros))
}

/// Measures clients that all acquire one lock again and again.
pub(super) async fn contended<S: System>(
    system: &S,
    clients: usize,
    window: Duration,
) -> anyhow::Result<Contended> {
    let (guarded, done) = (Arc::new(Guarded::default()), Arc::new(AtomicBool::new(false)));
    // All clients, and this task, which measures the time.
    let begin = Arc::new(Barrier::new(clients + 1));
    let mut running = JoinSet::new();
    for number in 0..clients {
        let mut client = system.connect(number, LONG_EXPIRY).await?;
        let (guarded, done, begin) = (guarded.clone(), done.clone(), begin.clone());
        running.spawn(async move {
            let mut entered = 0_u64;
            // Counting starts when every client has had the lock once: until then connections warm up.
            once(&mut client, LOCK, &guarded, number).await?;
            begin.wait().await;
            while !done.load(Ordering::Relaxed) {
                guarded.until_another_entered(number, &done).await;
                once(&mut client, LOCK, &guarded, number).await?;
                entered += 1;
                tokio::task::yield_now().await;
            }
            guarded.leave();
            anyhow::Ok(entered)
        });
    }
    begin.wait().await;
    let start = Instant::now();
    tokio::time::sleep(window).await;
    // A run without an entry, as on a machine that is very busy, would measure nothing.
    tokio::select! {
        () = guarded.until_entries(clients as u64 + 1) => {}
        Some(ended) = running.join_next() => {
            ended?.context("a client ended before the run did")?;
        }
    }
    done.store(true, Ordering::Relaxed);
    let seconds = start.elapsed().as_secs_f64();
    let counted = guarded.entries();
    guarded.leave();
    let mut each = Vec::with_capacity(clients);
    while let Some(entered) = running.join_next().await {
        each.push(entered??);
    }
    guarded.judge(each.iter().sum::<u64>() + clients as u64, Some(clients as u64))?;
    let entries = counted.saturating_sub(clients as u64) as f64;
    Ok(Contended { entries_per_second: entries / seconds, jain: jain(&each) })
}

/// Acquires the lock, counts the entry, and releases the lock.
async fn once(
    client: &mut impl LockClient,
    lock: &str,
    guarded: &Guarded,
    number: usize,
) -> anyhow::Result<()> {
    let fence = client.acquire(lock).await?;
    guarded.count(number, fence);
    client.release().await
}
