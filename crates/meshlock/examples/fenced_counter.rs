//! A counter that several sites increment under one lock. The counter itself refuses writers with an old fence, so that even a program
//! that was suspended for longer than its lease cannot overwrite later values.
//!
//! ```sh
//! cargo run -p meshlock --example fenced_counter
//! ```

use std::sync::{Arc, Mutex};

use meshlock::Cluster;

/// Stands for whatever the lock protects: a row, a file, a device.
#[derive(Default)]
struct Counter {
    value: u64,
    last_fence: i64,
}

impl Counter {
    fn write(&mut self, value: u64, fence: i64) -> Result<(), String> {
        if fence < self.last_fence {
            return Err(format!(
                "fence {fence} is older than {}: someone else holds the lock",
                self.last_fence
            ));
        }
        (self.value, self.last_fence) = (value, fence);
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = Cluster::local(3)?;
    let counter = Arc::new(Mutex::new(Counter::default()));
    let mut clients = Vec::new();
    for client in 0..6 {
        let (node, counter) = (cluster[client % 3].clone(), counter.clone());
        clients.push(tokio::spawn(async move {
            for _ in 0..100 {
                let guard = node.lock("counter").await.expect("the node runs");
                let value = counter.lock().expect("nobody panicked").value;
                tokio::task::yield_now().await;
                let written = counter.lock().expect("nobody panicked").write(value + 1, guard.fence());
                written.expect("the lock was not lost");
            }
        }));
    }
    for client in clients {
        client.await?;
    }
    let counter = counter.lock().expect("nobody panicked");
    assert_eq!(counter.value, 600);
    eprintln!(
        "600 increments by six clients of three sites, none lost; the last fence was {}",
        counter.last_fence
    );
    Ok(())
}
