//! What programs use: a node in their own process, and the locks that it gets them.

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
