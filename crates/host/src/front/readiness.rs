//! Whether a node can grant locks, and until when what its clients hold is safe.

use std::time::Duration;

use meshlock_cluster::node::Node;
use meshlock_cluster::time::{Span, Time};
use meshlock_system::now;

use super::Front;

/// Interval for checking whether the site has a lease.
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Front {
    /// Whether this site is a member and may grant locks.
    pub fn is_ready(&self) -> bool {
        let has_lease = |node: &Node| node.lease().is_comfortable(now());
        self.node().look(|node| node.is_open() && node.view().contains(node.me()) && has_lease(node))
    }

    /// Waits until this site is a member and may grant locks.
    pub async fn until_ready(&self) {
        loop {
            self.node().until(|state| state.open).await;
            if self.is_ready() {
                return;
            }
            if !self.node().sleep(LOOK_EVERY).await {
                // A node that has stopped never becomes ready.
                return std::future::pending().await;
            }
        }
    }

    /// Returns the end of the site's lease. Nobody else holds what its clients hold before then.
    pub fn lease_end(&self) -> Option<Time> {
        self.node().look(|node| node.lease().end())
    }

    /// Returns for how long nobody else can hold what this site's clients hold, even if the site fails or is cut off now. It is
    /// shortened for a client whose clock runs slower than this one.
    pub fn safe_for(&self) -> Span {
        self.node().look(|node| {
            let lease = node.lease();
            lease.end().map_or(Span::ZERO, |end| lease.terms().drift.shrink(end.since(now())))
        })
    }
}
