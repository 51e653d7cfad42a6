//! Uses one of three connections. The permit's number says which.

use std::time::Duration;

use meshlock::Client;

use super::watch::watch;
use super::{LostInTurn, Turn};

pub(crate) async fn turn(client: &Client) -> Turn {
    let permit = client.semaphore("examples/pool", 3).acquire().await?;
    let _watch = watch(&permit);
    let connection = permit.slot().ok_or("the permits of this semaphore have no numbers")?;
    tokio::select! {
        () = use_it(connection) => Ok(()),
        _ = permit.lost() => Err(LostInTurn.into()),
    }
}

async fn use_it(connection: u32) {
    tokio::time::sleep(Duration::from_millis(10)).await;
    println!("done pool {connection}");
}
