//! Writes a node's notes to the log. With the target `meshlock::lock` at level debug it also follows every acquisition: one line wherever
//! a message is sent or handled for it, with its cause.

use std::time::{SystemTime, UNIX_EPOCH};

use meshlock_protocol::{Epoch, Message};
use tracing::Level;

use meshlock_cluster::access::AccessDocument;
use meshlock_cluster::cause::Cause;
use meshlock_cluster::fence_floor;
use meshlock_cluster::names::{Member, SiteName};
use meshlock_cluster::node::{Age, ClientAnswer, ClientCall, Departure, Input, Node, Note, Packet};
use meshlock_cluster::table::{Acquire, LockEvent, Request};

/// Number of views after which the log warns again that they come too fast.
const VIEWS_PER_WARNING: u32 = 64;

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
                tracing::debug!(target: LOCK, %site, %from, %lock, kind, cause, "message received");
            }
        }
        Input::Call(ClientCall::Acquire(Acquire { request, lock, cause, .. })) => {
            let cause = cause.unwrap_or_else(|| node.table().cause(*request));
            tracing::debug!(target: LOCK, %site, %lock, request = request.0, %cause, "lock requested");
        }
        Input::Call(ClientCall::Release(request)) => {
            tracing::debug!(target: LOCK, %site, request = request.0, "lock released");
        }
        Input::Call(_)
        | Input::Time
        | Input::Connected { .. }
        | Input::Persisted(_)
        | Input::WallClock(_) => {}
    }
}

/// Logs that an acquisition ends with its session: it releases what it holds, or stops waiting.
pub(super) fn ends(site: &SiteName, request: Request) {
    if follows_requests() {
        tracing::debug!(target: LOCK, %site, request = request.0, "acquisition ended with its session");
    }
}

/// Logs a packet that is sent.
pub(super) fn sends(site: &SiteName, to: &SiteName, packet: &Packet) {
    if !follows_requests() {
        return;
    }
    if let Some(message) = packet.content.lock_message() {
        let (lock, kind, cause) = (&message.lock, message.message.kind(), shown(message.cause));
        tracing::debug!(target: LOCK, %site, %to, %lock, kind, cause, "message sent");
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
        LockEvent::Unavailable { request, why } => {
            return tracing::debug!(target: LOCK, %site, request = request.0, "not available: {why}");
        }
        LockEvent::ModeChanged { request, mode, fence } => {
            let (request, fence) = (request.0, fence.value());
            return tracing::debug!(target: LOCK, %site, request, fence, %mode, "mode changed");
        }
        LockEvent::Refused { request, why } | LockEvent::ModeRefused { request, why } => {
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

/// Logs that a member has gone.
fn departed(member: &Member, how: Departure) {
    match how {
        Departure::Said => tracing::info!(%member, "a site has left the cluster"),
        Departure::Unknown => tracing::info!(%member, "a site is no longer a member"),
        Departure::GivenUp => {
            tracing::warn!(%member, "a site was given up: it has failed or is cut off, and its lease has run out");
        }
    }
}

/// Warns, every few views, if the epoch is so far ahead of the clock that a cluster founded again by the clock would give lower fences.
fn warn_if_ahead(epoch: Epoch, now: SystemTime) {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let ahead = fence_floor::ahead(epoch, seconds).filter(|ahead| *ahead > fence_floor::MUCH);
    if let Some(ahead) = ahead.filter(|_| epoch.number().is_multiple_of(VIEWS_PER_WARNING)) {
        tracing::warn!(
            ahead,
            "views have come faster than one in four minutes: a cluster that is founded again would not have higher fences by the clock \
             alone; keep backups (`meshlock backup`)"
        );
    }
}

/// Warns of what a site should not lack: protected connections to the others, and a disk.
pub(super) fn warn_of_setup(site: &SiteName, is_unprotected: bool, has_no_disk: bool) {
    if is_unprotected {
        tracing::warn!(
            "connections between sites are not protected: anyone who reaches the port can pass for any site"
        );
    }
    if has_no_disk {
        tracing::warn!(
            %site,
            "this site keeps nothing on a disk: once it is restarted it never votes again, so that restarting the sites one after \
             the other costs the cluster its voters; give it a data directory"
        );
    }
}

/// Writes a note to the log.
pub(super) fn note(note: &Note) {
    match note {
        Note::Installed(view) => {
            tracing::info!(epoch = view.epoch.number(), members = ?view.members, "view installed");
            warn_if_ahead(view.epoch, SystemTime::now());
        }
        Note::Opened(epoch) => tracing::info!(epoch = epoch.number(), "view open"),
        Note::CannotOpen { epoch, why } => {
            tracing::error!(
                epoch = epoch.number(),
                why,
                "cannot apply the rules of this view; upgrade meshlock on this site"
            );
        }
        Note::Excluded { epoch, member } => {
            tracing::warn!(epoch = epoch.number(), %member, "excluded from the view: all locks held at this site are lost");
        }
        Note::OtherCluster { site, cluster } => {
            tracing::error!(
                %site,
                %cluster,
                "ignored a packet of another cluster; compare `cluster` and `sites` in the configuration of both sites"
            );
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
                "this is not the disk that this voter registered first: the site is a member but does not vote; put the first disk \
                 back, or found the cluster again with empty disks if no majority of voters is left"
            );
        }
        Note::FirstStartWaits { silent } => {
            tracing::warn!(
                ?silent,
                "the first start of this cluster waits until more of these sites have answered"
            );
        }
        Note::VotersChanged(_)
        | Note::BecomesVoter { .. }
        | Note::VotesNoMore { .. }
        | Note::Doubted { .. } => voting(note),
        Note::AccessAgreed(_) | Note::NotAdmitted { .. } | Note::JoinRefused { .. } => access(note),
        Note::TooOld(member) => {
            tracing::warn!(%member, "this incarnation is too old to join, so the site starts a later one; check whether its disk was lost or its clock set back");
        }
        Note::Misbehaved { site, why } => {
            tracing::warn!(%site, why, "a peer sent something that no correct site sends; compare its version and look at its log");
        }
        Note::Leads(term) => tracing::info!(term = term.0, "this site is now the leader"),
        Note::LeadershipLost(_)
        | Note::LeaseEnded(_)
        | Note::LeaseRegained { .. }
        | Note::QuorumLost(_)
        | Note::QuorumRegained
        | Note::Departed { .. }
        | Note::Detour { .. }
        | Note::DetourEnded { .. }
        | Note::NameUsedTwice { .. }
        | Note::NameTaken { .. }
        | Note::NoFenceFloor { .. }
        | Note::EpochsExhausted
        | Note::DiskIsOld { .. } => trouble(note),
        Note::Granted(_) | Note::GaveUp(_) | Note::Proposed(_) => tracing::debug!(?note),
    }
}

/// Writes a note about an outage to the log: what this site has lost or has again, who has gone, and who is there twice.
#[expect(clippy::wildcard_enum_match_arm, reason = "`note` writes all others")]
fn trouble(note: &Note) {
    match note {
        Note::EpochsExhausted => {
            tracing::error!("the cluster has used up all view numbers: found a new cluster");
        }
        Note::LeadershipLost(term) => {
            tracing::warn!(
                term = term.0,
                "this site no longer leads: another one was elected, or too few voters answer"
            );
        }
        Note::LeaseEnded(voters) => {
            tracing::warn!(%voters, "the lease of this site has ended: it grants nothing, and what its clients held is lost");
        }
        Note::LeaseRegained { after } => {
            tracing::warn!(after = %Age(*after), "this site has a lease again, and grants locks");
        }
        Note::QuorumLost(voters) => {
            tracing::warn!(%voters, "the quorum is lost: without more than half of the voters nobody is granted a lock");
        }
        Note::QuorumRegained => tracing::warn!("the quorum is regained: there is a leader again"),
        Note::Departed { member, how } => departed(member, *how),
        Note::Detour { site, via } => {
            tracing::warn!(%site, %via, "this site cannot reach another one directly: its packets go through a third one");
        }
        Note::DetourEnded { site } => tracing::warn!(%site, "this site reaches another one directly again"),
        Note::NameUsedTwice { member, refused } => {
            tracing::warn!(
                %member,
                %refused,
                "another process runs under the name of a site that takes part, and is refused; stop one of them"
            );
        }
        Note::NameTaken { member, address } => {
            let (site, address) = (&member.site, address.as_ref().map(ToString::to_string));
            let place = address.map_or_else(String::new, |address| format!(" at {address}"));
            tracing::warn!(
                %member,
                "another process runs as {site}{place}, and this one is refused; stop one of them"
            );
        }
        Note::NoFenceFloor { old } => {
            tracing::warn!(
                %old,
                "the cluster is founded without a fence floor, because a voter runs an older program: if a cluster was lost before, \
                 fences start again; stop all sites, upgrade, and found it with empty disks"
            );
        }
        Note::DiskIsOld { by } => {
            tracing::error!(
                %by,
                "the disk of this site is older than what this site has confirmed to another voter: it was put back from an old copy, \
                 or has lost writes; this site cannot vote with it. Stop this site, and put its newest disk back or empty its data \
                 directory"
            );
        }
        _ => {}
    }
}

/// Writes a note about the access document to the log.
#[expect(clippy::wildcard_enum_match_arm, reason = "`note` writes all others")]
fn access(note: &Note) {
    match note {
        Note::AccessAgreed(access) => {
            let AccessDocument { rules, tokens, revoked, sites, removed, admission, .. } = &access.document;
            tracing::info!(
                version = access.version,
                rules = rules.len(),
                tokens = tokens.len(),
                revoked = revoked.len(),
                admission = admission.name(),
                sites = sites.len(),
                removed = removed.len(),
                "the cluster's access document applies here; `meshlock access show` shows it"
            );
        }
        Note::NotAdmitted { site, by, why } => {
            tracing::error!(%site, %by, "this site is not let into the cluster: {}", why.about(site));
        }
        Note::JoinRefused { site, why } => {
            tracing::warn!(%site, "a site is not let into the cluster: {}", why.about(site));
        }
        _ => {}
    }
}

/// Writes a note about who votes to the log.
#[expect(clippy::wildcard_enum_match_arm, reason = "`note` writes all others")]
fn voting(note: &Note) {
    match note {
        Note::VotersChanged(voters) => {
            let names: Vec<String> = voters.sites().iter().map(ToString::to_string).collect();
            let (names, under_way) = (names.join(", "), voters.is_joint() || !voters.learners.is_empty());
            tracing::info!(voters = %names, under_way, "the voters were changed");
        }
        Note::BecomesVoter { id, .. } => {
            tracing::info!(id, "this site was chosen as a voter and takes in the log");
        }
        Note::Doubted { site, why } => tracing::info!(%site, why, "a packet was ignored"),
        Note::VotesNoMore { id } => tracing::info!(id, "this site does not vote any more under this number"),
        _ => {}
    }
}
