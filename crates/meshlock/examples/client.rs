//! A program that gets its locks from a node through a Unix socket, without being a site itself: two workers take turns on one lock.
//!
//! ```sh
//! cargo run -p meshlock --example client
//! ```
//!
//! Usually the node is a process of its own (`meshlock node`). Here it runs in the same process, so that the example works by itself.

use std::path::Path;
use std::time::Duration;

use meshlock::{AcquireError, Client, Endpoint, Node};

/// Appends one line to the report, under the lock.
async fn work(name: &str, socket: &Path, report: &Path) -> Result<i64, Box<dyn std::error::Error>> {
    let client = Client::connect_as([Endpoint::socket(socket)], name).await?;
    let guard = client.lock_within("report", Duration::from_secs(10)).await?;
    // Nobody else can read or write the report until the guard is dropped. A real program would also stop if `guard.lost()` completes.
    let text = std::fs::read_to_string(report).unwrap_or_default();
    std::fs::write(report, format!("{text}{name} wrote this with fence {}\n", guard.fence()))?;
    Ok(guard.fence())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::temp_dir().join(format!("meshlock-example-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let (socket, report) = (dir.join("node.sock"), dir.join("report.txt"));
    let node = Node::builder().in_memory().socket(&socket).start()?;

    let client = Client::connect([Endpoint::socket(&socket)]).await?;
    let guard = client.lock("report").await?;
    // The node and all its clients exclude each other.
    assert!(matches!(node.try_lock("report").await, Err(AcquireError::Busy { .. })));
    let first = guard.fence();
    drop(guard);

    let (ann, bob) = tokio::join!(work("ann", &socket, &report), work("bob", &socket, &report));
    let (ann, bob) = (ann?, bob?);
    assert!(ann > first && bob > first && ann != bob, "every grant has a fence of its own");
    let text = std::fs::read_to_string(&report)?;
    assert_eq!(text.lines().count(), 2);
    eprint!("{text}");
    drop(node);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
