//! What a node notes, as lines of the log.

use crate::node::Note;

/// Writes a note down.
pub(super) fn note(note: &Note) {
    match note {
        Note::Installed(view) => {
            tracing::info!(epoch = view.epoch.number(), members = ?view.members, "view installed");
        }
        Note::Opened(epoch) => tracing::info!(epoch = epoch.number(), "view open"),
        Note::CannotOpen { epoch, why } => {
            tracing::error!(
                epoch = epoch.number(),
                why,
                "cannot follow the rules of this view; is this program older?"
            );
        }
        Note::Excluded { epoch, member } => {
            tracing::warn!(epoch = epoch.number(), %member, "left out of the view: everything held here is lost");
        }
        Note::OtherCluster { site, cluster } => {
            tracing::error!(%site, %cluster, "a site of another cluster speaks; compare the configurations");
        }
        Note::OtherTerms { agreed, configured } => {
            tracing::warn!(
                ?agreed,
                ?configured,
                "the cluster agreed on other leases than are configured here: it goes by those"
            );
        }
        Note::DiskReplaced { by, .. } => {
            tracing::error!(
                %by,
                "this disk is not the one that this voter came with first: it takes part, but does not vote; put the first disk \
                 back, or found the cluster anew with empty disks if no majority of voters is left"
            );
        }
        Note::FirstStartWaits { silent } => {
            tracing::warn!(
                ?silent,
                "the first start of this cluster waits until more of these sites have answered"
            );
        }
        Note::TooOld(member) => {
            tracing::warn!(%member, "this life is too old to be let in, a later one begins; was the disk lost, or the clock set back?");
        }
        Note::EpochsExhausted => {
            tracing::error!("there is no number left for another view: found another cluster");
        }
        Note::Misbehaved { site, why } => tracing::warn!(%site, why, "a peer misbehaves"),
        Note::Leads(term) => tracing::info!(term = term.0, "leads"),
        Note::Granted(_) | Note::GaveUp(_) | Note::Proposed(_) => tracing::debug!(?note),
    }
}
