//! A semaphore that allows three connections to a database, over all processes of all machines. The permit's number says which
//! connection of the pool to use.
//!
//! ```sh
//! cargo run -p meshlock --example connection_pool
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use meshlock::Cluster;

const CONNECTIONS: u32 = 3;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = Cluster::local(3)?;
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut clients = Vec::new();
    for client in 0..12 {
        let pool = cluster[client % 3].semaphore("database", CONNECTIONS);
        let (open, most) = (open.clone(), most.clone());
        clients.push(tokio::spawn(async move {
            for _ in 0..10 {
                let permit = pool.acquire().await.expect("the node runs");
                let now = open.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                assert!(permit.slot().is_some_and(|slot| slot < CONNECTIONS));
                tokio::task::yield_now().await;
                open.fetch_sub(1, Ordering::SeqCst);
            }
        }));
    }
    for client in clients {
        client.await?;
    }
    let most = most.load(Ordering::SeqCst);
    assert!(most <= CONNECTIONS as usize);
    eprintln!("120 uses by twelve clients of three sites, at most {most} at once");
    Ok(())
}
