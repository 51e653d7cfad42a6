//! A node's own invariants hold after every step, what it sends can be read, no correct peer is reported as misbehaving, and links
//! neither break nor refuse what a correct peer sends.

use super::{CheckResult, PropertyViolation, broken};
use crate::clock::Moment;
use meshlock_cluster::membership::disk::Disk;
use meshlock_cluster::node::{Config, Node, Note, Packet};
use meshlock_cluster::time::Time;
use meshlock_wire::sites::{as_read, decode_packet, encode_packet};

/// Checks the links, the table's numbered invariants and those of every machine in it.
pub(crate) fn check(node: &Node, now: Moment) -> CheckResult {
    let tally = node.link_tally();
    if tally.refused + tally.broken > 0 {
        return broken(
            "sound",
            now,
            format!("{} has refused a message or broken a link: {tally:?}", node.me()),
        );
    }
    let invariants = node.table().check_invariants();
    invariants.or_else(|why| broken("sound", now, format!("{} breaks {why}", node.me())))
}

/// Checks that no site still remembers a number of permits that no rule gives, long after its last user has gone.
pub(crate) fn check_unmarked(marked: &[usize], now: Moment) -> CheckResult {
    if marked.is_empty() {
        return Ok(());
    }
    broken("sound", now, format!("sites {marked:?} remember semaphores that nobody uses"))
}

/// Checks a note, knowing that all peers here are correct.
pub(crate) fn on_note(machine: usize, note: &Note, now: Moment) -> CheckResult {
    match note {
        Note::Misbehaved { site, why } => {
            broken("sound", now, format!("s{machine} blames {site}, which is correct: {why}"))
        }
        Note::CannotOpen { epoch, why } => {
            let what =
                format!("s{machine} cannot open view {}, whose rules all sites know: {why}", epoch.number());
            broken("sound", now, what)
        }
        Note::Installed(view) => {
            let unknown = view.members.iter().find(|member| view.address(&member.site).is_none());
            let what = |member| format!("s{machine} installs a view in which {member} has no address");
            unknown.map_or(Ok(()), |member| broken("sound", now, what(member)))
        }
        Note::DiskIsOld { by } => {
            broken("sound", now, format!("the disk of s{machine} lacks what it has confirmed to {by}"))
        }
        Note::NoFenceFloor { old } => broken(
            "sound",
            now,
            format!("s{machine} leaves out its floor for {old}, in a run of one version"),
        ),
        Note::EpochsExhausted => broken("sound", now, format!("s{machine} has run out of epochs")),
        Note::OtherCluster { .. }
        | Note::DiskReplaced { .. }
        | Note::FirstStartWaits { .. }
        | Note::TooOld(_)
        | Note::NameUsedTwice { .. }
        | Note::NameTaken { .. }
        | Note::OtherTerms { .. }
        | Note::Opened(_)
        | Note::Excluded { .. }
        | Note::Granted(_)
        | Note::GaveUp(_)
        | Note::Proposed(_)
        | Note::Leads(_)
        | Note::LeadershipLost(_)
        | Note::LeaseEnded(_)
        | Note::LeaseRegained { .. }
        | Note::QuorumLost(_)
        | Note::QuorumRegained
        | Note::Detour { .. }
        | Note::DetourEnded { .. }
        | Note::VotersChanged(_)
        | Note::BecomesVoter { .. }
        | Note::AccessAgreed(_)
        | Note::NotAdmitted { .. }
        | Note::JoinRefused { .. }
        | Note::VotesNoMore { .. }
        | Note::Doubted { .. }
        | Note::Departed { .. } => Ok(()),
    }
}

/// Returns a packet as its receiver reads it, in the version that both speak, after checking that it is within the size
/// that receivers accept and equal to what was sent, as far as that version can say it.
pub(crate) fn travel(packet: Packet, version: u16, now: Moment) -> Result<Packet, PropertyViolation> {
    let bytes = encode_packet(&packet, version);
    let sent = as_read(packet, version);
    let why = match decode_packet(&bytes, version) {
        Ok(read) if read == sent => return Ok(read),
        Ok(read) => format!("{sent:?} was read as {read:?}"),
        Err(error) => format!("a {} packet cannot be read: {error}", sent.content.kind()),
    };
    broken("sound", now, why).map(|()| sent)
}

/// Checks that no node starts with this configuration and this disk.
pub(crate) fn check_refused(config: &Config, disk: Disk, now: Moment) -> CheckResult {
    let config = config.clone().check().expect("drawn to be sound");
    match Node::start(config, disk, Time::ZERO, &mut Vec::new()) {
        Err(_) => Ok(()),
        Ok(node) => broken("sound", now, format!("{} starts with a disk of another cluster", node.me())),
    }
}

/// Checks that a voter is refused for its disk only if it has lost one.
pub(crate) fn on_replaced(machine: usize, lost_disk: bool, now: Moment) -> CheckResult {
    if lost_disk {
        return Ok(());
    }
    broken("sound", now, format!("s{machine} does not vote, though its disk is the first one"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use meshlock_cluster::founding::Founding;
    use meshlock_cluster::names::{Incarnation, Member};
    use meshlock_cluster::node::Content;
    use meshlock_cluster::view::View;
    use meshlock_wire::sites::VERSIONS;

    #[test]
    fn a_packet_that_is_longer_than_receivers_accept_is_a_violation() {
        let members = |count: usize| {
            let members = (0..count).map(|at| Member {
                site: format!("a-site-with-quite-a-long-name-{at}").parse().unwrap(),
                incarnation: Incarnation::new(1),
            });
            let view = View { members: members.collect(), ..View::default() };
            let founding = Founding::new("here".parse().unwrap(), &["a".parse().unwrap()]);
            let (cluster, incarnation) = (founding.id(), Incarnation::new(1));
            Packet::direct(cluster, incarnation, Content::View(view))
        };
        assert_eq!(travel(members(3), VERSIONS.1, Moment(0)).unwrap(), members(3));
        let violation = travel(members(200_000), VERSIONS.1, Moment(0)).unwrap_err();
        assert!(violation.what.contains("a view packet cannot be read"), "{violation}");
    }
}
