//! The node's answers in the words of the clients' protocol.

use meshlock_cluster::node::{Answer, Overview};
use meshlock_cluster::table::{HeldLock, MOST_LISTED, Tell};
use meshlock_wire::clients::{Held, MOST_BYTES, Queue, Status, Tag, ToClient};

/// What the client that asked under `tag` is told, and whether that is the last of it.
pub(super) fn answered(tag: Tag, answer: &Answer) -> Option<(ToClient, bool)> {
    if let Answer::Lock(tell) = answer {
        return told(tag, tell);
    }
    Some((fitted(in_words(tag, answer)?), true))
}

/// Shortens what would not fit a frame: each site lists fewer, and says as before how many there are.
fn fitted(mut message: ToClient) -> ToClient {
    let mut most = MOST_LISTED;
    while most > 0 && length_of(&message) > MOST_BYTES {
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
        Some(tag) if length_of(&message) > MOST_BYTES => {
            ToClient::Refused { tag, why: format!("the answer is longer than {MOST_BYTES} bytes") }
        }
        Some(_) | None => message,
    }
}

fn length_of(message: &ToClient) -> usize {
    postcard::experimental::serialized_size(message).unwrap_or(usize::MAX)
}

fn in_words(tag: Tag, answer: &Answer) -> Option<ToClient> {
    let message = match answer {
        // These have ways of their own.
        Answer::Lock(_) | Answer::Traced { .. } => return None,
        Answer::Queue { epoch, algorithm, permits, sites, missing, .. } => {
            let queue = Queue {
                epoch: epoch.number(),
                algorithm: algorithm.map(str::to_owned),
                permits: *permits,
                sites: sites.clone(),
                missing: missing.clone(),
            };
            ToClient::Queue { tag, queue }
        }
        Answer::Overview { overview, .. } => ToClient::Status { tag, status: Box::new(status(overview)) },
        Answer::Broken { cut_off, missing, .. } => {
            ToClient::Broken { tag, cut_off: cut_off.clone(), missing: missing.clone() }
        }
        Answer::Locks { sites, missing, .. } => {
            ToClient::Locks { tag, sites: sites.clone(), missing: missing.clone() }
        }
        Answer::Leaves { leaves, .. } => ToClient::Leaves { tag, leaves: *leaves },
        Answer::RulesSet { epoch, .. } => ToClient::RulesSet { tag, epoch: epoch.number() },
        Answer::RulesRefused { why, .. } => ToClient::Refused { tag, why: why.clone() },
        Answer::Left { .. } => ToClient::Left(tag),
    };
    Some(message)
}

fn told(tag: Tag, tell: &Tell) -> Option<(ToClient, bool)> {
    Some(match *tell {
        Tell::Granted { fence, slot, lease_end, margin, .. } => {
            (ToClient::Granted { tag, fence: fence.value(), slot, lease_end, margin }, false)
        }
        Tell::Lost { act_by, .. } => (ToClient::Lost { tag, act_by }, false),
        Tell::Released { .. } => (ToClient::Released(tag), true),
        Tell::Cancelled { .. } => (ToClient::Cancelled(tag), true),
        Tell::TimedOut { .. } => (ToClient::TimedOut(tag), true),
        Tell::Busy { .. } => (ToClient::Busy(tag), true),
        Tell::Refused { why, .. } => (ToClient::Refused { tag, why: why.to_owned() }, true),
        Tell::Extended { .. } => return None,
    })
}

/// The site's state as clients are told it.
fn status(overview: &Overview) -> Status {
    let held = |HeldLock { lock, holder }: &HeldLock| Held {
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
    }
}
