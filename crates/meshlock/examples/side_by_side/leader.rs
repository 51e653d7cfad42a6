//! Leads for one term, or until it is not the leader any more.

use std::time::Duration;

use meshlock::Client;

use super::watch::watch;
use super::{LostInTurn, Turn};

pub(crate) async fn turn(client: &Client) -> Turn {
    let leadership = client.lock("examples/leader").await?;
    let _watch = watch(&leadership);
    tokio::select! {
        () = tokio::time::sleep(term()) => {} // its work
        _ = leadership.lost() => return Err(LostInTurn.into()),
    }
    println!("done leader");
    Ok(())
}

/// How long a leader works: 100 ms, or what `MESHLOCK_TERM` says.
fn term() -> Duration {
    let term = std::env::var("MESHLOCK_TERM").ok().and_then(|text| text.parse().ok());
    Duration::from_millis(term.unwrap_or(100))
}
