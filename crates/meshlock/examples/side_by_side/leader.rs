//! Leads for one term, or until it is not the leader any more.

use std::time::Duration;

use meshlock::Client;

use super::watch::watch;
use super::{LostInTurn, Turn};

pub(crate) async fn turn(client: &Client) -> Turn {
    let leadership = client.lock("examples/leader").await?;
    let _watch = watch(&leadership);
    tokio::select! {
        () = tokio::time::sleep(Duration::from_millis(100)) => {} // its work
        _ = leadership.lost() => return Err(LostInTurn.into()),
    }
    println!("done leader");
    Ok(())
}
