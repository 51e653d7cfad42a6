//! Where a node stands: whether it can grant locks, and until when what its clients hold is safe.

use std::time::Duration;

use meshlock_cluster::lease::Terms;
use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::Node;
use meshlock_cluster::table::{Outage, Wait};
use meshlock_cluster::time::{Drift, Span, Time};

use meshlock_system::now;

use super::{Front, NotGranted};

/// Interval for checking whether the site has a lease.
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Front {
    /// Whether this site is a member and may grant locks.
    pub fn is_ready(&self) -> bool {
        self.node().published().may_grant()
    }

    /// Returns why this site grants nothing at present, for whoever decides whether to send it clients; `None` if it grants locks.
    pub fn why_not_ready(&self) -> Option<String> {
        if !self.is_ready() {
            let why = "it is not a member of the cluster, or has no lease; see GET /v1/status";
            return Some(why.to_owned());
        }
        if self.is_leaving() {
            return Some("it leaves the cluster, and takes no new requests".to_owned());
        }
        // Anybody may ask, so the file is not named.
        let why = "its audit log is required and cannot be written; its own log says why";
        self.audit().check().err().map(|_| why.to_owned())
    }

    /// Returns what is wrong with the site's disk, if the last write to it failed. Until it accepts writes again the site cannot vote, lead
    /// or join; it still grants locks while it has a lease.
    pub fn disk_failure(&self) -> Option<String> {
        let disk = &self.node().published().disk;
        disk.complaint(now()).filter(|_| disk.is_failing())
    }

    /// Returns what is wrong with the site's disk: that it fails, or that it is slow.
    pub fn disk_complaint(&self) -> Option<String> {
        self.node().published().disk.complaint(now())
    }

    /// Returns why no client of this site could be served now, even if its lock were free; `None` if they could.
    pub fn outage(&self) -> Option<Outage> {
        self.node().look(Node::outage)
    }

    /// Returns why a lock was not granted in the time that its caller was willing to wait, where something other than the node has
    /// limited that time.
    pub fn not_in_time(&self, wait: Wait) -> NotGranted {
        match self.outage() {
            Some(outage) => NotGranted::Unavailable(outage),
            None if wait == Wait::Try => NotGranted::Busy,
            None => NotGranted::TimedOut,
        }
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

    /// Returns the end of the site's lease. Nobody else holds what its clients hold before then, and none of them was told a later time.
    pub fn lease_end(&self) -> Option<Time> {
        self.node().look(|node| node.lease().end())
    }

    /// Returns for how long nobody else can hold what this site's clients hold, even if the site fails or is cut off now. It is
    /// shortened for a client whose clock runs slower than this one.
    pub fn safe_for(&self) -> Span {
        let published = self.node().published();
        published.drift().shrink(published.lease_left())
    }

    /// Returns the bound on clock drift that the cluster has agreed on.
    pub(crate) fn drift(&self) -> Drift {
        self.node().published().drift()
    }

    /// Returns how long the site's leases last.
    pub fn lease_length(&self) -> Span {
        self.node().look(|node| node.lease().terms().length)
    }

    /// Returns the terms of the site's leases, which the cluster has agreed on, without the node's lock. A node that has just been started
    /// may not have said them yet; then all of them are zero.
    pub fn lease_terms(&self) -> Terms {
        self.node().published().terms()
    }

    /// Returns the epoch of the installed view, which may have just been replaced.
    pub fn epoch(&self) -> u32 {
        self.node().published().epoch()
    }

    /// Returns whether this site has begun to leave the cluster.
    pub fn is_leaving(&self) -> bool {
        self.node().state().leaving
    }

    /// Returns whether this site is a member of the view that it has installed.
    pub fn is_member(&self) -> bool {
        self.node().look(|node| node.view().contains(node.me()))
    }

    /// Returns the name of the cluster.
    pub fn cluster_name(&self) -> String {
        self.node().look(|node| node.cluster_name().to_string())
    }

    /// Returns the members of the installed view.
    pub fn members(&self) -> Vec<SiteName> {
        self.node().look(|node| node.view().members.iter().map(|member| member.site.clone()).collect())
    }
}
