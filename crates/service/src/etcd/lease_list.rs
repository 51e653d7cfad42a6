//! The list of a client's leases: those of all sites, in the order in which they end, as with etcd.
//!
//! Sites tell each other when a lease ends by the calendar: the order is as good as their clocks agree, and nothing but the order of
//! this list depends on it.

use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::try_join_all;
use meshlock_cluster::names::SiteName;
use meshlock_host::front::Admitted;
use meshlock_system::now;
use tonic::Status;

use super::Etcd;
use crate::proto::etcdserverpb::{LeaseLeasesRequest, LeaseLeasesResponse, LeaseStatus};

/// The path of the call, which other members are asked for their part.
pub(crate) const LEASES: &str = "/etcdserverpb.Lease/LeaseLeases";

/// Puts leases in the order in which they end. Those that end with a connection come last.
fn in_order(mut leases: Vec<LeaseStatus>) -> Vec<LeaseStatus> {
    leases.sort_by_key(|lease| if lease.ends_micros == 0 { i64::MAX } else { lease.ends_micros });
    leases
}

impl Etcd {
    /// Returns the caller's leases of this site, with the end of each, for another member.
    pub(super) fn leases_here(&self, caller: &Admitted) -> LeaseLeasesResponse {
        LeaseLeasesResponse { header: self.plain_header(), leases: self.own_leases(caller) }
    }

    /// Returns the caller's leases of all sites. A list that lacks a site's would look complete, so all members have to answer.
    pub(super) async fn leases_anywhere(&self, caller: &Admitted) -> Result<LeaseLeasesResponse, Status> {
        let members = self.sessions.front().other_members();
        let others = members.iter().map(|member| self.leases_at(caller, &member.site));
        let mut leases = self.own_leases(caller);
        leases.extend(try_join_all(others).await?.into_iter().flatten());
        let mut leases = in_order(leases);
        for lease in &mut leases {
            lease.ends_micros = 0;
        }
        Ok(LeaseLeasesResponse { header: self.plain_header(), leases })
    }

    fn own_leases(&self, caller: &Admitted) -> Vec<LeaseStatus> {
        let (at, today) = (now(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        let registry = self.sessions.registry();
        let status = |id| {
            let left = registry.lease(id, &caller.principal, at).and_then(|lease| lease.left(at));
            let end = left.map(|left| today.as_micros().saturating_add(u128::from(left.micros())));
            LeaseStatus {
                id: id.number(),
                ends_micros: end.map_or(0, |end| i64::try_from(end).unwrap_or(i64::MAX)),
            }
        };
        registry.leases_of(&caller.principal, at).into_iter().map(status).collect()
    }

    /// Returns the caller's leases of another member, with the end of each.
    async fn leases_at(&self, caller: &Admitted, site: &SiteName) -> Result<Vec<LeaseStatus>, Status> {
        let answer: Option<LeaseLeasesResponse> =
            self.sessions.at_site(caller, site, LEASES, &LeaseLeasesRequest {}).await?;
        Ok(answer.map_or_else(Vec::new, |answer| answer.leases))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_listed_as_they_end_and_those_without_an_end_come_last() {
        let lease = |id, ends_micros| LeaseStatus { id, ends_micros };
        let listed = in_order(vec![lease(1, 0), lease(2, 30), lease(3, 10), lease(4, 20)]);
        assert_eq!(listed.into_iter().map(|lease| lease.id).collect::<Vec<_>>(), [3, 4, 2, 1]);
    }
}
