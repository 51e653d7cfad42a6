//! Our own API about who votes: the change of it, and what probes say about it.

use meshlock_cluster::access::{Subject, Verb};
use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::{VoterRefusal, VoterRequest, VoterState, VotersReport};
use meshlock_host::front::{Admitted, ClusterHealth, VotersNotChanged};
use serde_json::{Value, json};
use tonic::{Code, Status};

use super::Own;
use super::errors::{api_error, bad, unanswered};
use crate::proto::meshlock::{ChangeVotersRequest, Voter, Voters};

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Converts the report.
pub(super) fn voters_of(report: &VotersReport) -> Voters {
    let voter = |voter: &VoterState| Voter {
        site: voter.site.to_string(),
        number: voter.id,
        state: voter.presence.label().to_owned(),
    };
    Voters {
        voters: report.voters.iter().map(voter).collect(),
        quorum: count(report.quorum()),
        up: count(report.up()),
        failures_survived: i32::try_from(report.margin()).unwrap_or(i32::MIN),
        missing: report.missing().iter().map(|voter| voter.site.to_string()).collect(),
        change: report.change().unwrap_or_default(),
        learners: report.learners.iter().map(ToString::to_string).collect(),
        automatic: report.automatic,
    }
}

/// Reads which change is asked for.
fn change_of(request: &ChangeVotersRequest) -> Result<VoterRequest, Status> {
    let site = |field: &str, name: &str| -> Result<Option<SiteName>, Status> {
        let parsed = (!name.is_empty()).then(|| name.parse()).transpose();
        parsed.map_err(|error: <SiteName as std::str::FromStr>::Err| bad(format!("'{field}': {error}")))
    };
    match (site("promote", &request.promote)?, site("demote", &request.demote)?) {
        (Some(new), Some(old)) => Ok(VoterRequest::Replace { old, new }),
        (Some(site), None) => Ok(VoterRequest::Promote(site)),
        (None, Some(site)) => Ok(VoterRequest::Demote(site)),
        (None, None) => Err(bad("give 'promote', 'demote' or both, each with the name of a site")),
    }
}

impl Own {
    pub(super) async fn ask_for_voters(
        &self,
        caller: &Admitted,
        request: ChangeVotersRequest,
    ) -> Result<Voters, Status> {
        let change = change_of(&request)?;
        self.sessions.front().change_voters(caller, change).await.map_err(|error| match error {
            VotersNotChanged::Refused(VoterRefusal::Busy) => api_error("busy", Code::Aborted, error),
            VotersNotChanged::Refused(_) => api_error("voters", Code::FailedPrecondition, error),
            VotersNotChanged::NotAnswered(error) => unanswered(error),
        })?;
        Ok(voters_of(&self.sessions.front().voters()))
    }

    /// Returns what a probe says about the cluster. Anybody may ask how many voters there are; who they are is for callers with any right.
    pub(super) fn cluster_document(&self, caller: Option<&Admitted>) -> (ClusterHealth, Value) {
        let front = self.sessions.front();
        let health = front.cluster_health();
        let voters = &health.voters;
        let mut document = json!({
            "grants": health.grants,
            "voters": voters.voters.len(),
            "voters_up": voters.up(),
            "quorum": voters.quorum(),
            "failures_survived": voters.margin(),
            "changing": voters.is_changing(),
            "may_stop": health.may_stop.contains(front.site()),
        });
        let all = [Verb::Acquire, Verb::Watch, Verb::Break, Verb::Admin];
        let may_see = |caller: &Admitted| all.iter().any(|verb| front.may(caller, *verb, Subject::Some));
        if caller.is_some_and(may_see) {
            let missing: Vec<&SiteName> = voters.missing().iter().map(|voter| &voter.site).collect();
            document["missing"] = json!(missing);
            document["sites_that_may_stop"] = json!(health.may_stop);
        }
        (health, document)
    }
}
