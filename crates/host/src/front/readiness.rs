//! Whether a node serves, and for how long what its clients hold is safe.

use std::time::Duration;

use meshlock_cluster::node::Node;
use meshlock_cluster::time::{Span, Time};
use meshlock_system::now;
use tokio::time::sleep;

use super::Front;

/// How often to look whether the site has a lease; not any more once it has.
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Front {
    /// Whether this site takes part and may give clients something.
    pub fn is_ready(&self) -> bool {
        let has_lease = |node: &Node| node.lease().is_comfortable(now());
        self.node().look(|node| node.is_open() && node.view().contains(node.me()) && has_lease(node))
    }

    /// Waits until this site takes part and may give clients something.
    pub async fn until_ready(&self) {
        loop {
            self.node().until(|state| state.open).await;
            if self.is_ready() {
                return;
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// The end of the site's lease: until then nobody else has what its clients hold.
    pub fn lease_end(&self) -> Option<Time> {
        self.node().look(|node| node.lease().end())
    }

    /// For how long from now on nobody else can have what clients of this site hold, whatever becomes of it and of the way to it;
    /// on a clock that may run slower than this one.
    pub fn safe_for(&self) -> Span {
        self.node().look(|node| {
            let lease = node.lease();
            lease.end().map_or(Span::ZERO, |end| lease.terms().drift.shrink(end.since(now())))
        })
    }
}
