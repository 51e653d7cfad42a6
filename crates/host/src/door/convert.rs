//! Converts the node's types to messages to clients.

use meshlock_cluster::node::Overview;
use meshlock_cluster::table::{ClaimRefusal, HeldLock, MAX_LISTED, RequestRefusal};
use meshlock_system::now;
use meshlock_wire::clients::{HeldEntry, MAX_MESSAGE_BYTES, RefusalKind, Status, Tag, ToClient};

use crate::front::{AcquireEvent, ClaimNews, Ended, LockGrant, NotAnswered, NotGranted};

/// Converts an event of the request `tag`.
pub(super) fn event(tag: Tag, event: &AcquireEvent) -> ToClient {
    match event {
        AcquireEvent::Granted(LockGrant { fence, slot, lease_end, margin, .. }) => ToClient::Granted {
            tag,
            fence: fence.value(),
            slot: *slot,
            lease_end: *lease_end,
            margin: *margin,
        },
        AcquireEvent::Lost { act_by, why } => ToClient::Lost { tag, act_by: *act_by, why: (*why).into() },
        AcquireEvent::Ended(Ended::Released) => ToClient::Released(tag),
        AcquireEvent::Ended(Ended::Cancelled | Ended::SessionOver) => ToClient::Cancelled(tag),
        AcquireEvent::Ended(Ended::NotGranted(NotGranted::Busy)) => ToClient::Busy(tag),
        AcquireEvent::Ended(Ended::NotGranted(NotGranted::TimedOut)) => ToClient::TimedOut(tag),
        AcquireEvent::Ended(Ended::NotGranted(error)) => {
            let kind = match error {
                NotGranted::Denied(_) => RefusalKind::Denied,
                NotGranted::Permits(_) => RefusalKind::Permits,
                NotGranted::Limit(_) => RefusalKind::TooManyOpen,
                NotGranted::Unavailable(_) | NotGranted::Unaudited(_) => RefusalKind::Unavailable,
                NotGranted::Refused(refusal) => kind_of_refusal(*refusal),
                NotGranted::NotClaimed(ClaimRefusal::Leaving) => RefusalKind::Leaving,
                NotGranted::NotClaimed(why) if why.is_of_this_site() => RefusalKind::Unavailable,
                NotGranted::NotClaimed(_) => RefusalKind::BadRequest,
                NotGranted::Busy | NotGranted::TimedOut => RefusalKind::Other,
            };
            ToClient::Refused { tag, kind, why: error.to_string() }
        }
    }
}

/// Converts what happens to a claim, or a proof, of the request `tag`.
pub(super) fn claim_news(tag: Tag, news: &ClaimNews) -> ToClient {
    match news {
        ClaimNews::Pending { grant: LockGrant { fence, slot, lease_end, margin, .. }, until } => {
            ToClient::Claimed {
                tag,
                fence: fence.value(),
                slot: *slot,
                lease_end: *lease_end,
                // What is left of it becomes less on its way to the client, which counts from when it sent the claim.
                left: until.map(|until| until.since(now())),
                margin: *margin,
            }
        }
        ClaimNews::Settled(grant) => ToClient::Settled { tag, lease_end: grant.lease_end },
        ClaimNews::Proof(proof) => ToClient::Proof { tag, proof: proof.clone() },
    }
}

/// Returns the machine-readable reason for an unanswered question.
pub(super) fn kind_of(error: &NotAnswered) -> RefusalKind {
    match error {
        NotAnswered::Denied(_) => RefusalKind::Denied,
        NotAnswered::Refused(_) => RefusalKind::Other,
        NotAnswered::Unavailable(_) => RefusalKind::Unavailable,
        NotAnswered::Stopping => RefusalKind::Leaving,
    }
}

/// Returns the machine-readable reason for a refusal.
pub(super) fn kind_of_refusal(refusal: RequestRefusal) -> RefusalKind {
    match refusal {
        RequestRefusal::TooManyLocks => RefusalKind::TooManyLocks,
        RequestRefusal::MakingRoom => RefusalKind::MakingRoom,
        RequestRefusal::Leaving => RefusalKind::Leaving,
        RequestRefusal::DuplicateRequest | RequestRefusal::UnknownRequest | RequestRefusal::NotHeld => {
            RefusalKind::BadRequest
        }
        RequestRefusal::TooManyQuestions | RequestRefusal::TooManyWatches => RefusalKind::TooManyOpen,
        RequestRefusal::PermitsInUse { .. }
        | RequestRefusal::PermitsByRule { .. }
        | RequestRefusal::TooManyPermits { .. }
        | RequestRefusal::OlderMember { .. } => RefusalKind::Permits,
        RequestRefusal::ExclusiveOnly { .. }
        | RequestRefusal::NoPriorities { .. }
        | RequestRefusal::ModeOfMany { .. }
        | RequestRefusal::OlderMemberModes
        | RequestRefusal::UpgradeOfShared { .. } => RefusalKind::Other,
        RequestRefusal::Failed => RefusalKind::Failed,
        RequestRefusal::Deadlock => RefusalKind::Deadlock,
    }
}

/// Shortens a message that would not fit into a frame: each site lists fewer entries, and still says how many there are.
pub(super) fn fitted(mut message: ToClient) -> ToClient {
    let mut most = MAX_LISTED;
    while most > 0 && length_of(&message) > MAX_MESSAGE_BYTES {
        most /= 2;
        if let ToClient::Queue { queue, .. } = &mut message {
            for site in &mut queue.sites {
                site.lock.holders.truncate(most);
                site.lock.waiters.truncate(most);
            }
        } else if let ToClient::Locks { sites, .. } = &mut message {
            for site in sites {
                site.locks.truncate(most);
            }
        }
    }
    match message.tag() {
        Some(tag) if length_of(&message) > MAX_MESSAGE_BYTES => {
            let why = format!("the answer is longer than {MAX_MESSAGE_BYTES} bytes");
            ToClient::Refused { tag, kind: RefusalKind::Other, why }
        }
        Some(_) | None => message,
    }
}

fn length_of(message: &ToClient) -> usize {
    postcard::experimental::serialized_size(message).unwrap_or(usize::MAX)
}

/// Converts the site's status.
pub(super) fn status(overview: &Overview, disk: Option<String>) -> Status {
    let held = |HeldLock { lock, holder }: &HeldLock| HeldEntry {
        lock: lock.clone(),
        who: holder.label.clone(),
        fence: holder.fence.value(),
        age: holder.age,
    };
    Status {
        site: overview.member.site.clone(),
        incarnation: overview.member.incarnation.number(),
        cluster: overview.cluster.clone(),
        sites: overview.sites.clone(),
        view: overview.view.clone(),
        standing: overview.standing.clone(),
        leader: overview.leader.clone(),
        lease_left: overview.lease_left,
        leaving: overview.leaving,
        locks: overview.counts.locks as u64,
        holders: overview.counts.holders as u64,
        waiters: overview.counts.waiters as u64,
        sessions: overview.counts.sessions as u64,
        held: overview.held.iter().map(held).collect(),
        disk,
        voters: Some(overview.voters.clone()),
    }
}
