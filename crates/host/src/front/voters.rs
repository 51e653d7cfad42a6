//! Who votes, and whether the cluster survives that a site stops, for operators and machines.

use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::{Node, StopEffect, VotersReport};

use super::Front;

/// Whether the cluster grants locks, and how far it is from not doing so, as this site knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterHealth {
    /// Whether this site grants locks now: then a leader and a majority of the voters were there a moment ago.
    pub grants: bool,
    pub voters: VotersReport,
    /// The members that may be stopped now without stopping the cluster.
    pub may_stop: Vec<SiteName>,
}

impl Front {
    /// Returns who votes, and which of them are there.
    pub fn voters(&self) -> VotersReport {
        self.node().look(Node::voters_report)
    }

    /// Returns whether the cluster grants locks, and which sites may be stopped.
    pub fn cluster_health(&self) -> ClusterHealth {
        let grants = self.is_ready();
        self.node().look(|node| {
            let voters = node.voters_report();
            let may_stop = |site: &SiteName| {
                grants && matches!(voters.if_stopped(site), StopEffect::None | StopEffect::Spare(_))
            };
            let members = node.view().members.iter().map(|member| member.site.clone());
            let may_stop = members.filter(may_stop).collect();
            ClusterHealth { grants, voters, may_stop }
        })
    }

    /// Writes to the log what it means for the others that this site stops. It cannot ask.
    pub(super) fn warn_of_stop(&self) {
        let (voters, is_alone) =
            self.node().look(|node| (node.voters_report(), node.view().members.len() < 2));
        if is_alone {
            return;
        }
        let (site, up, quorum, all) = (self.site(), voters.up(), voters.quorum(), voters.voters.len());
        match voters.if_stopped(site) {
            StopEffect::Stops => tracing::warn!(
                %site,
                up,
                quorum,
                voters = all,
                "this site stops, and with it the cluster: too few voters are left to decide anything, so that all leases end and no \
                 lock is granted; start this site again, or another voter. `meshlock site may-stop NAME` says so before"
            ),
            StopEffect::Spare(0) => {
                tracing::info!(%site, up, quorum, voters = all, "this site stops, and no other voter may fail until it is back");
            }
            StopEffect::Spare(_) | StopEffect::None | StopEffect::Stopped => {}
        }
    }
}
