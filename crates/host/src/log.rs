//! Writes a node's notes to the log. With the target `meshlock::lock` at level debug it also follows every acquisition: one line wherever
//! a message is sent or handled for it, with its cause.

use meshlock_protocol::Message;
use tracing::Level;

use meshlock_cluster::cause::Cause;
use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::{ClientAnswer, ClientCall, Input, Node, Note, Packet};
use meshlock_cluster::table::{Acquire, LockEvent, Request};

/// The log target of lines about single acquisitions.
const LOCK: &str = "meshlock::lock";

/// Whether acquisitions are logged. If not, this check is all that logging costs.
fn follows_requests() -> bool {
    tracing::enabled!(target: LOCK, Level::DEBUG)
}

/// Logs an input that the node is about to handle.
pub(super) fn input(input: &Input, node: &Node) {
    if !follows_requests() {
        return;
    }
    let site = &node.me().site;
    match input {
        Input::Packet { from, packet } => {
            if let Some(message) = packet.content.lock_message() {
                let (lock, kind, cause) = (&message.lock, message.message.kind(), shown(message.cause));
                tracing::debug!(target: LOCK, %site, %from, %lock, kind, cause, "heard");
            }
        }
        Input::Call(ClientCall::Acquire(Acquire { request, lock, cause, .. })) => {
            let cause = cause.unwrap_or_else(|| node.table().cause(*request));
            tracing::debug!(target: LOCK, %site, %lock, request = request.0, %cause, "asked");
        }
        Input::Call(ClientCall::Release(request)) => {
            tracing::debug!(target: LOCK, %site, request = request.0, "gives back");
        }
        Input::Call(_) | Input::Time | Input::Connected(_) | Input::Persisted(_) => {}
    }
}

/// Logs that an acquisition ends with its session: it releases what it holds, or stops waiting.
pub(super) fn ends(site: &SiteName, request: Request) {
    if follows_requests() {
        tracing::debug!(target: LOCK, %site, request = request.0, "ends");
    }
}

/// Logs a packet that is sent.
pub(super) fn sends(site: &SiteName, to: &SiteName, packet: &Packet) {
    if !follows_requests() {
        return;
    }
    if let Some(message) = packet.content.lock_message() {
        let (lock, kind, cause) = (&message.lock, message.message.kind(), shown(message.cause));
        tracing::debug!(target: LOCK, %site, %to, %lock, kind, cause, "sends");
    }
}

/// Logs an answer to a client.
pub(super) fn tells(site: &SiteName, answer: &ClientAnswer) {
    let ClientAnswer::Lock(tell) = answer else { return };
    if !follows_requests() {
        return;
    }
    let (request, what) = match tell {
        LockEvent::Granted { request, fence, cause, by, .. } => {
            let (request, fence, by) = (request.0, fence.value(), shown(*by));
            return tracing::debug!(target: LOCK, %site, request, fence, %cause, by, "granted");
        }
        LockEvent::Lost { request, .. } => (request, "lost"),
        LockEvent::TimedOut { request } => (request, "timed out"),
        LockEvent::Busy { request } => (request, "busy"),
        LockEvent::Cancelled { request } => (request, "cancelled"),
        LockEvent::Refused { request, why } => {
            return tracing::debug!(target: LOCK, %site, request = request.0, "{why}");
        }
        LockEvent::Extended { .. } | LockEvent::Released { .. } => return,
    };
    tracing::debug!(target: LOCK, %site, request = request.0, "{what}");
}

/// Formats a cause for the log; `None` if it is unknown, as from a site that speaks version 1 of the wire format.
fn shown(cause: Option<Cause>) -> Option<String> {
    cause.map(|cause| cause.to_string())
}

/// Writes a note to the log.
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
                "the cluster agreed on other leases than are configured here, and uses the agreed ones"
            );
        }
        Note::DiskReplaced { by, .. } => {
            tracing::error!(
                %by,
                "this disk is not the one that this voter came with first: the site takes part, but does not vote; put the first \
                 disk back, or found the cluster again with empty disks if no majority of voters is left"
            );
        }
        Note::FirstStartWaits { silent } => {
            tracing::warn!(
                ?silent,
                "the first start of this cluster waits until more of these sites have answered"
            );
        }
        Note::TooOld(member) => {
            tracing::warn!(%member, "this incarnation is too old to be let in, and a later one is started; was the disk lost, or the clock set back?");
        }
        Note::EpochsExhausted => {
            tracing::error!("there is no number left for another view: found another cluster");
        }
        Note::Misbehaved { site, why } => tracing::warn!(%site, why, "a peer misbehaves"),
        Note::Leads(term) => tracing::info!(term = term.0, "leads"),
        Note::Granted(_) | Note::GaveUp(_) | Note::Proposed(_) => tracing::debug!(?note),
    }
}
