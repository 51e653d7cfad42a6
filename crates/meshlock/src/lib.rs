//! Distributed mutual exclusion without a lock server.
//!
//! A [`Node`] is one site of a cluster, in your own process. It gets you locks and semaphores that no two processes of the
//! cluster hold at once, over connections to the other sites and nothing else.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let node = meshlock::Node::local()?; // a cluster of one: locks among the threads and tasks of this process
//!
//! let guard = node.lock_blocking("orders")?;
//! write_to_database(guard.fence()); // whatever the lock protects refuses a smaller fence than it has seen
//! drop(guard); // and the next one has it
//! # Ok(())
//! # }
//! # fn write_to_database(fence: i64) { assert!(fence > 0); }
//! ```
//!
//! With async, and several sites:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = meshlock::Cluster::local(3)?; // three sites in this process, for tests
//!
//! let guard = cluster[0].lock("orders").await?;
//! let busy = cluster[1].try_lock("orders").await;
//! assert!(matches!(busy, Err(meshlock::AcquireError::Busy { .. })));
//!
//! tokio::select! {
//!     () = guard.lost() => {} // cut off from the others: stop, within `guard.margin()`
//!     () = work() => {}
//! }
//! # Ok(())
//! # }
//! # async fn work() {}
//! ```
//!
//! `meshlock_host::Setup` describes a site of a real cluster: where it listens, where the others are, its certificate and
//! its disk. The algorithms themselves are in `meshlock_protocol`, as pure state machines, to be driven by a host of your own.

mod blocking;
mod cluster;
mod guard;
mod node;
mod semaphore;
mod wish;

pub use cluster::Cluster;
pub use guard::{Guard, Guards};
pub use node::{AcquireError, Node};
pub use semaphore::Semaphore;
