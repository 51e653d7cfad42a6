//! Negotiation of the version of the format between a client and a node.
//!
//! A client says the highest version that it speaks, and also speaks the one before. The node answers with the highest
//! that both speak: so a node serves clients that are one version older and one newer, and a cluster can be upgraded
//! one program after the other. In version 3 a refusal has a kind and a loss has a reason; in version 4 an outage is a kind
//! of its own. In version 5 a status says who votes, and clients can change that. In version 6 a client can claim at another site what it
//! holds. In version 7 it can ask for pages of locks, for what happens to locks and for deadlocks, and a
//! deadlock is a kind of refusal of its own.

use super::message::ToClient;
use super::reason::{LossKind, RefusalKind};

/// The lowest and the highest version of the format between clients and nodes that this program speaks.
pub const VERSIONS: (u16, u16) = (2, 7);

/// The first version in which refusals have kinds and losses have reasons.
const HAS_REASONS: u16 = 3;

/// The first version in which an outage is a kind of refusal, and a status says what is wrong with the disk.
const HAS_OUTAGES: u16 = 4;

/// The first version in which a status says who votes, and in which voters can be changed.
pub const HAS_VOTERS: u16 = 5;
/// The first version in which the cluster's access document can be read and changed.
pub const HAS_ACCESS: u16 = 5;
/// The first version in which a node can be asked what it says of itself to whoever looks for what is wrong.
pub const HAS_DIAGNOSES: u16 = 5;

/// The first version in which a client can ask for proofs of what it holds, and claim it at another site. A node sends nothing of that
/// to a client that has not asked.
pub const HAS_CLAIMS: u16 = 6;

/// The first version in which a client can ask for pages of locks, for what happens to locks and for deadlocks, and is told of a deadlock as
/// such.
pub const HAS_LISTINGS: u16 = 7;

/// The beginning of a version 2 node's refusal of any other version; such a node is asked again in version 2.
pub const REFUSAL_BY_V2: &str = "this node speaks version 2 to clients";

/// Returns the version that a node speaks with a client whose highest is `theirs`; `None` if there is no common one.
pub fn common_version(theirs: u16) -> Option<u16> {
    let version = theirs.min(VERSIONS.1);
    (version >= VERSIONS.0).then_some(version)
}

/// Converts a message to this version; returns `None` if it needs no conversion.
pub(super) fn to_version(version: u16, message: &ToClient) -> Option<ToClient> {
    if version >= HAS_VOTERS
        && let Some(status) = with_voters(message)
    {
        return Some(status);
    }
    if version >= HAS_OUTAGES {
        return with_disk(message).or_else(|| without_kinds(version, message));
    }
    if version >= HAS_REASONS {
        return without_kinds(version, message);
    }
    if let ToClient::Lost { tag, act_by, .. } = *message {
        return Some(ToClient::LostV2 { tag, act_by });
    }
    if let ToClient::Refused { tag, why, .. } = message {
        return Some(ToClient::RefusedV2 { tag: *tag, why: why.clone() });
    }
    None
}

/// Converts a status that says who votes.
fn with_voters(message: &ToClient) -> Option<ToClient> {
    let ToClient::Status { tag, status } = message else { return None };
    let (disk, voters) = (status.disk.clone(), status.voters.clone()?);
    Some(ToClient::StatusWithVoters { tag: *tag, status: status.clone(), disk, voters: Box::new(voters) })
}

/// Converts the status of a site whose disk fails.
fn with_disk(message: &ToClient) -> Option<ToClient> {
    let ToClient::Status { tag, status } = message else { return None };
    let disk = status.disk.clone()?;
    Some(ToClient::StatusWithDisk { tag: *tag, status: status.clone(), disk })
}

/// Converts a refusal whose kind this version does not know.
fn without_kinds(version: u16, message: &ToClient) -> Option<ToClient> {
    if let ToClient::Refused { tag, kind, why } = message
        && (*kind == RefusalKind::Unavailable && version < HAS_OUTAGES
            || *kind == RefusalKind::Deadlock && version < HAS_LISTINGS)
    {
        return Some(ToClient::Refused { tag: *tag, kind: RefusalKind::Other, why: why.clone() });
    }
    None
}

/// Converts a message of any version to the newest.
pub(super) fn to_newest(message: ToClient) -> ToClient {
    if let ToClient::LostV2 { tag, act_by } = message {
        return ToClient::Lost { tag, act_by, why: LossKind::Unknown };
    }
    if let ToClient::RefusedV2 { tag, why } = message {
        return ToClient::Refused { tag, kind: RefusalKind::Other, why };
    }
    if let ToClient::StatusWithDisk { tag, mut status, disk } = message {
        status.disk = Some(disk);
        return ToClient::Status { tag, status };
    }
    if let ToClient::StatusWithVoters { tag, mut status, disk, voters } = message {
        (status.disk, status.voters) = (disk, Some(*voters));
        return ToClient::Status { tag, status };
    }
    message
}

#[cfg(test)]
mod tests {
    use meshlock_cluster::report::{Standing, VotersReport};
    use meshlock_cluster::time::Time;
    use meshlock_cluster::view::View;

    use super::super::Status;
    use super::*;

    #[test]
    fn older_versions_down_to_the_lowest_and_all_newer_ones_are_served() {
        let versions = [1, 2, 3, 4, 5, 6, 7, 8, u16::MAX].map(common_version);
        assert_eq!(versions, [None, Some(2), Some(3), Some(4), Some(5), Some(6), Some(7), Some(7), Some(7)]);
    }

    #[test]
    fn version_2_is_told_of_a_loss_and_a_refusal_without_their_reasons() {
        let lost = ToClient::Lost { tag: 1, act_by: Time::ZERO, why: LossKind::Broken };
        assert_eq!(to_version(3, &lost), None, "as it is");
        let old = to_version(2, &lost).unwrap();
        assert_eq!(old, ToClient::LostV2 { tag: 1, act_by: Time::ZERO });
        assert_eq!(to_newest(old), ToClient::Lost { tag: 1, act_by: Time::ZERO, why: LossKind::Unknown });
        let refused = ToClient::Refused { tag: 2, kind: RefusalKind::Denied, why: "no".to_owned() };
        let old = to_version(2, &refused).unwrap();
        assert_eq!(old, ToClient::RefusedV2 { tag: 2, why: "no".to_owned() });
        let kind = RefusalKind::Other;
        assert_eq!(to_newest(old), ToClient::Refused { tag: 2, kind, why: "no".to_owned() });
        assert_eq!(to_version(2, &ToClient::Busy(1)), None);
    }

    #[test]
    fn a_failing_disk_is_told_from_version_4_on_and_a_status_without_one_has_the_same_bytes_as_before() {
        let healthy = status(None);
        assert_eq!((to_version(4, &healthy), to_version(3, &healthy)), (None, None));
        let failing = status(Some("full"));
        assert_eq!(to_version(3, &failing), None, "the field is not written");
        assert_eq!(to_newest(to_version(4, &failing).unwrap()), failing);
    }

    #[test]
    fn who_votes_is_told_from_version_5_on_with_what_is_wrong_with_the_disk() {
        for disk in [None, Some("full")] {
            let ToClient::Status { tag, mut status } = status(disk) else { unreachable!("it is a status") };
            status.voters = Some(VotersReport { automatic: true, ..VotersReport::default() });
            let newest = ToClient::Status { tag, status };
            assert_eq!(to_newest(to_version(5, &newest).unwrap()), newest);
            let old = to_version(4, &newest).map(to_newest);
            assert_eq!(old.is_some(), disk.is_some(), "version 4 has the disk and not the voters");
        }
    }

    fn status(disk: Option<&str>) -> ToClient {
        let status = Status {
            site: "a".parse().unwrap(),
            incarnation: 1,
            cluster: "prod".parse().unwrap(),
            sites: Vec::new(),
            view: View::default(),
            standing: Standing::Open,
            leader: None,
            lease_left: None,
            leaving: false,
            locks: 0,
            holders: 0,
            waiters: 0,
            sessions: 0,
            held: Vec::new(),
            disk: disk.map(str::to_owned),
            voters: None,
        };
        ToClient::Status { tag: 3, status: Box::new(status) }
    }

    #[test]
    fn version_6_is_told_of_a_deadlock_as_a_refusal_for_another_reason() {
        let refused = |kind| ToClient::Refused { tag: 2, kind, why: "a deadlock".to_owned() };
        let deadlock = refused(RefusalKind::Deadlock);
        assert_eq!(to_version(7, &deadlock), None, "as it is");
        for version in 3..7 {
            assert_eq!(to_version(version, &deadlock), Some(refused(RefusalKind::Other)), "{version}");
        }
    }

    #[test]
    fn version_3_is_told_of_an_outage_as_a_refusal_for_another_reason() {
        let refused = |kind| ToClient::Refused { tag: 2, kind, why: "s1 has no lease".to_owned() };
        let outage = refused(RefusalKind::Unavailable);
        assert_eq!(to_version(4, &outage), None, "as it is");
        assert_eq!(to_version(3, &outage), Some(refused(RefusalKind::Other)));
        let v2 = ToClient::RefusedV2 { tag: 2, why: "s1 has no lease".to_owned() };
        assert_eq!(to_version(2, &outage), Some(v2));
    }
}
