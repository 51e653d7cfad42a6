//! Distributed mutual exclusion without a lock server.
//!
//! A [`Node`] is one site of a cluster, in your own process. It provides locks and semaphores that exclude all processes of the cluster,
//! and needs nothing but connections to the other sites.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let node = meshlock::Node::local()?; // a cluster of one site: locks for the threads and tasks of this process
//!
//! let guard = node.lock_blocking("orders")?;
//! write_to_database(guard.fence()); // the database refuses a fence that is smaller than one it has seen
//! drop(guard); // releases the lock
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
//! cluster.ready().await; // all of them take part
//!
//! let guard = cluster[0].lock("orders").await?;
//! let busy = cluster[1].try_lock("orders").await;
//! assert!(matches!(busy, Err(meshlock::AcquireError::Busy { .. })));
//!
//! tokio::select! {
//!     loss = guard.lost() => eprintln!("{}", loss.reason), // stop within `guard.margin()`
//!     () = work() => {}
//! }
//! # Ok(())
//! # }
//! # async fn work() {}
//! ```
//!
//! If a node runs in another process (`meshlock node`), a [`Client`] gets the same locks from it:
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use meshlock::{Client, Endpoint};
//!
//! let client = Client::connect([Endpoint::socket("/run/meshlock/db-1.sock")]).await?;
//! let guard = client.lock("orders").await?;
//! # Ok(())
//! # }
//! ```
//!
//! - [`Node::builder`] describes a site of a real cluster: its address, the other sites, its certificate and its data directory.
//! - [`Guard`] is a held lock, with its [fence](Guard::fence); it reports when the lock is [lost](Guard::lost).
//! - [`Semaphore`] is a lock that several clients may hold at once.
//! - With the feature `api` a node also serves programs in other languages, and clients of etcd and Consul.
//! - Without the default feature `node` there are only [`Client`], its guards and semaphores, and about half of the crates to compile.
//!
//! Every `async` method has a twin without async, `…_blocking`, that needs no runtime; and the futures work under any executor, because
//! threads of the node or of the client do the work and count the time.

mod blocking;
#[cfg(feature = "node")]
mod builder;
mod client;
#[cfg(feature = "node")]
mod cluster;
#[cfg(feature = "node")]
pub mod config;
mod error;
mod guard;
mod guards;
#[cfg(feature = "node")]
mod join;
mod locking;
#[cfg(feature = "node")]
mod node;
#[cfg(feature = "node")]
mod protection;
mod semaphore;
mod tls;

pub use blocking::block_on;
#[cfg(feature = "node")]
pub use builder::NodeBuilder;
pub use client::{AddressError, Client, Endpoint};
#[cfg(feature = "node")]
pub use cluster::Cluster;
pub use error::{AcquireError, ConnectError, NameError, Refusal};
#[cfg(feature = "node")]
pub use error::{DataFault, FoundingFault, StartError};
pub use guard::{Guard, Loss, LossReason, Lost};
pub use guards::Guards;
#[cfg(feature = "node")]
pub use node::{Node, View};
pub use semaphore::Semaphore;
pub use tls::{CertificateCause, Tls, TlsError};

/// Compiles and runs the examples of the guides together with those of this crate.
#[cfg(all(doctest, feature = "api"))]
#[doc = include_str!("../../../docs/library.md")]
#[doc = include_str!("../../../docs/cookbook.md")]
struct Guides;
