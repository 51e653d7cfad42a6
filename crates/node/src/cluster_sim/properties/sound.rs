//! A node's own invariants hold after every step, and no correct peer is blamed for anything.

use super::{Verdict, broken};
use crate::cluster_sim::clock::Moment;
use crate::node::{Node, Note};

/// The table's numbered invariants and those of every machine in it.
pub(in crate::cluster_sim) fn check(node: &Node, now: Moment) -> Verdict {
    let invariants = node.table().check_invariants();
    invariants.or_else(|why| broken("sound", now, format!("{} breaks {why}", node.me())))
}

/// All peers here are correct.
pub(in crate::cluster_sim) fn on_note(machine: usize, note: &Note, now: Moment) -> Verdict {
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
        Note::EpochsExhausted => broken("sound", now, format!("s{machine} has run out of epochs")),
        Note::OtherCluster { .. }
        | Note::DiskReplaced { .. }
        | Note::FirstStartWaits { .. }
        | Note::TooOld(_)
        | Note::OtherTerms { .. }
        | Note::Opened(_)
        | Note::Excluded { .. }
        | Note::Granted(_)
        | Note::GaveUp(_)
        | Note::Proposed(_)
        | Note::Leads(_) => Ok(()),
    }
}

/// A voter is refused for its disk only if it has lost one.
pub(in crate::cluster_sim) fn on_replaced(machine: usize, lost_disk: bool, now: Moment) -> Verdict {
    if lost_disk {
        return Ok(());
    }
    broken("sound", now, format!("s{machine} does not vote, though its disk is the first one"))
}
