//! How long a lock stays with a holder that was killed.

use std::time::{Duration, Instant};

use super::system::{Client, EXPIRY, System};

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Killed {
    /// Whoever holds the lock.
    Client,
    /// The site or server that it is connected to, and itself.
    Site,
}

/// How long the wait may last; more means that nobody takes over.
const WITHIN: Duration = Duration::from_mins(1);

/// Seconds from the kill until a client of the second site has the lock; none where nobody takes over.
pub(super) async fn measure<S: System>(system: &mut S, killed: Killed) -> anyhow::Result<Option<f64>> {
    if !S::TAKES_OVER {
        return Ok(None);
    }
    let lock = match killed {
        Killed::Client => "bench-client-killed",
        Killed::Site => "bench-site-killed",
    };
    // Longer than the wait: it must not lose its turn itself.
    let mut waiter = system.connect(1, super::system::LONG_EXPIRY).await?;
    let kill = system.hold(lock).await?;
    let waiting = tokio::spawn(async move {
        waiter.acquire(lock).await?;
        let granted = Instant::now();
        // Not given back until it is known that it was had.
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
