//! Leader election: one of several sites does the work, and when it stops another one takes over. The holder of the lock leads until it
//! releases or loses the lock.
//!
//! ```sh
//! cargo run -p meshlock --example leader_election
//! ```

use std::time::Duration;

use meshlock::{Cluster, Node};
use tokio::sync::mpsc;

/// Waits for leadership and leads for one term. A leader watches for the loss of its lock while it works.
async fn stand(site: usize, node: Node, told: mpsc::UnboundedSender<String>) {
    let Ok(leadership) = node.lock("leader").await else { return };
    let _ = told.send(format!("site {site} leads, with fence {}", leadership.fence()));
    let term = Duration::from_millis(50);
    tokio::select! {
        loss = leadership.lost() => { let _ = told.send(format!("site {site} has stopped: {}", loss.reason)); }
        () = tokio::time::sleep(term) => { let _ = told.send(format!("site {site} steps down")); }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = Cluster::local(3)?;
    let (told, mut events) = mpsc::unbounded_channel();
    for (site, node) in cluster.nodes().iter().enumerate() {
        tokio::spawn(stand(site, node.clone(), told.clone()));
    }
    drop(told);
    while let Some(event) = events.recv().await {
        eprintln!("{event}");
    }
    Ok(())
}
