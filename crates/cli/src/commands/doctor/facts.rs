//! What was asked, and what the sites have said.

use meshlock_cluster::membership::MAX_VOTERS;
use meshlock_cluster::names::{ClusterName, SiteName};
use meshlock_cluster::node::Standing;
use meshlock_wire::clients::Status;
use meshlock_wire::diagnosis::Diagnosis;

use crate::commands::standing;

/// Everything that the verdict depends on.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// The calendar time here, in seconds since 1970.
    pub(super) now: u64,
    pub(super) asked: Vec<Asked>,
}

/// One site that was asked.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// Its name, if it is known.
    pub(super) site: Option<SiteName>,
    /// Where it was asked, for people.
    pub(super) at: String,
    /// What it said, or why it said nothing.
    pub(super) answer: Result<SiteFacts, String>,
}

/// What a site has said.
#[derive(Clone, Debug)]
pub(super) struct SiteFacts {
    pub(super) site: SiteName,
    pub(super) cluster: ClusterName,
    pub(super) founders: Vec<SiteName>,
    pub(super) voters: Vec<SiteName>,
    pub(super) epoch: u32,
    pub(super) members: Vec<SiteName>,
    pub(super) leader: Option<SiteName>,
    pub(super) leaving: bool,
    /// Why it could not grant a lock.
    pub(super) outage: Option<String>,
    pub(super) disk: Option<String>,
    /// By how many microseconds its calendar is ahead of the one here, and how many of them are uncertain.
    pub(super) ahead: Option<(i64, u64)>,
    /// The whole report, or why there is only a status.
    pub(super) report: Result<Box<Diagnosis>, String>,
}

impl SiteFacts {
    /// Takes over a site's report.
    pub(super) fn of_report(report: Box<Diagnosis>, ahead: (i64, u64)) -> Self {
        SiteFacts {
            site: report.site.clone(),
            cluster: report.cluster.clone(),
            founders: report.founders.clone(),
            voters: report.voters.clone(),
            epoch: report.epoch,
            members: report.members.clone(),
            leader: report.leader.clone(),
            leaving: report.leaving,
            outage: report.outage.clone(),
            disk: report.disk.clone(),
            ahead: Some(ahead),
            report: Ok(report),
        }
    }

    /// Makes the most of a status, from a site that tells no more.
    pub(super) fn of_status(status: &Status, why: String) -> Self {
        let outage = match (&status.standing, status.lease_left) {
            (Standing::Open, Some(_)) => None,
            (Standing::Open, None) => Some("it has no lease".to_owned()),
            (other @ (Standing::Awaits(_) | Standing::CannotOpen | Standing::Outside), _) => {
                Some(format!("it {}", standing(other)))
            }
        };
        SiteFacts {
            site: status.site.clone(),
            cluster: status.cluster.clone(),
            founders: status.sites.clone(),
            voters: voters_of(status),
            epoch: status.view.epoch.number(),
            members: status.view.members.iter().map(|member| member.site.clone()).collect(),
            leader: status.leader.clone(),
            leaving: status.leaving,
            outage,
            disk: status.disk.clone(),
            ahead: None,
            report: Err(why),
        }
    }

    /// Returns whether it can grant locks to new clients.
    pub(super) fn serves(&self) -> bool {
        self.outage.is_none() && !self.leaving
    }
}

/// Returns the sites that vote, by a status. That of an older node names only the sites that the cluster was founded with, of which the
/// first ones vote.
fn voters_of(status: &Status) -> Vec<SiteName> {
    if let Some(voters) = &status.voters {
        return voters.voters.iter().map(|voter| voter.site.clone()).collect();
    }
    status.sites.iter().take(MAX_VOTERS).cloned().collect()
}

impl Facts {
    /// Returns what the sites that have answered said.
    pub(super) fn answers(&self) -> impl Iterator<Item = &SiteFacts> {
        self.asked.iter().filter_map(|asked| asked.answer.as_ref().ok())
    }

    /// Returns whether the site has answered.
    pub(super) fn has_answered(&self, site: &SiteName) -> bool {
        self.answers().any(|answer| answer.site == *site)
    }
}
