//! Distributed mutual exclusion without a lock server.
//!
//! This crate is what people add to their programs, and the home of the one binary `meshlock`. At this stage it gives
//! access to the protocol core: every algorithm as a pure state machine, to be driven by a host of your own.
//!
//! ```
//! use meshlock::protocol::algorithms::ricart_agrawala::RicartAgrawala;
//! use meshlock::protocol::{SiteId, world::World};
//!
//! let [first, second] = SiteId::first();
//! let mut world = World::<RicartAgrawala>::of(2);
//! let _ = world.request(first);
//! let _ = world.deliver(first, second); // the REQUEST
//! let _ = world.deliver(second, first); // the REPLY
//! assert!(world.inside().contains(first));
//! ```

mod library;

pub use library::{AcquireError, Cluster, Guard, Guards, Node, Semaphore};
pub use meshlock_node as node;
pub use meshlock_protocol as protocol;
