//! Measures how long it takes until another client gets the lock of a killed holder.

use std::time::{Duration, Instant};

use super::system::{EXPIRY, LockClient, System};

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Killed {
    /// The client that holds the lock.
    Client,
    /// The site or server to which that client is connected, and the client itself.
    Site,
}

/// How long the wait may last; after that, it is assumed that no other client gets the lock.
const WITHIN: Duration = Duration::from_mins(1);

/// Returns the seconds from the kill until a client of the second site has the lock, or `None` if no other client can get it.
pub(super) async fn measure<S: System>(system: &mut S, killed: Killed) -> anyhow::Result<Option<f64>> {
    if !S::TAKES_OVER {
        return Ok(None);
    }
    let lock = match killed {
        Killed::Client => "bench-client-killed",
        Killed::Site => "bench-site-killed",
    };
    // A long expiry: the waiter must not expire itself.
    let mut waiter = system.connect(1, super::system::LONG_EXPIRY).await?;
    let kill = system.hold(lock).await?;
    let waiting = tokio::spawn(async move {
        waiter.acquire(lock).await?;
        let granted = Instant::now();
        // The client is returned, so that it keeps the lock until the time is known.
        anyhow::Ok((granted, waiter))
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    anyhow::ensure!(!waiting.is_finished(), "the lock is not exclusive");
    if killed == Killed::Site && !system.kill_first() {
        kill();
        waiting.abort();
        return Ok(None);
    }
    let start = Instant::now();
    kill();
    let (granted, mut waiter) = tokio::time::timeout(WITHIN.max(4 * EXPIRY), waiting).await???;
    waiter.release().await?;
    Ok(Some(granted.duration_since(start).as_secs_f64()))
}
