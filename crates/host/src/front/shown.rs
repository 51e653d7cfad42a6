//! How the holders and waiters of a lock are shown to clients and operators.
//!
//! The label of a client of the node is made of what the client has proved and of what it calls itself. That of a session of etcd's or
//! Consul's API also has the numbers from which other sites build the answers of these APIs: `consul session 4d 0 of oncall: deploy.sh`.
//! Who knows the number of a session can use it as far as its rights go, so not everybody who may watch a lock is told; and the value, which
//! the client has chosen, must not look as if it were proved. So every answer shows such a holder as it shows the others:
//! `oncall (label "deploy.sh")`. etcd's and Consul's own answers have the numbers, as their clients expect.

use meshlock_cluster::names::ClientLabel;
use meshlock_cluster::node::{LockQueue, TraceEvent, TraceLine};

/// How the labels of sessions begin, and what is shown of a session that has no value.
const SESSIONS: [(&str, &str); 5] = [
    ("consul session ", "Consul session"),
    ("consul permit ", "Consul session"),
    ("etcd lease ", "etcd lease"),
    ("etcd3 lease ", "etcd lease"),
    ("etcd key of ", "etcd lease"),
];

/// Returns the label by which people see a holder or a waiter.
#[must_use]
pub fn shown(label: &ClientLabel) -> ClientLabel {
    let session = SESSIONS.iter().find_map(|(start, what)| Some((label.as_str().strip_prefix(start)?, what)));
    let Some((rest, what)) = session else { return label.clone() };
    // A site of an earlier version does not say whose session it is.
    let numbers = rest.bytes().take_while(|byte| byte.is_ascii_hexdigit() || *byte == b' ').count();
    let owner = rest.split_once(" of ").filter(|(before, _)| before.len() <= numbers).map(|(_, owner)| owner);
    let (owner, value) = match owner {
        Some(owner) => owner.split_once(": ").unwrap_or((owner, "")),
        None => ("a client", rest.split_once(": ").map_or("", |(_, value)| value)),
    };
    match value.parse() {
        Ok(value) => ClientLabel::proved(&owner, &value),
        Err(_) => format!("{owner} ({what})").parse().unwrap_or_else(|_| label.clone()),
    }
}

/// Shows a label where there may be none.
pub(super) fn show(label: &mut Option<ClientLabel>) {
    *label = label.as_ref().map(shown);
}

pub(super) fn show_queue(queue: &mut LockQueue) {
    for site in &mut queue.sites {
        for holder in &mut site.lock.holders {
            show(&mut holder.label);
        }
        for waiter in &mut site.lock.waiters {
            show(&mut waiter.label);
        }
    }
}

/// Shows the labels in a line of a trace.
pub(crate) fn show_line(mut line: TraceLine) -> TraceLine {
    match &mut line.event {
        TraceEvent::Waits { who, .. }
        | TraceEvent::Holds { who, .. }
        | TraceEvent::Request { who, .. }
        | TraceEvent::Enter { who, .. } => show(who),
        TraceEvent::Cancel { .. }
        | TraceEvent::Release { .. }
        | TraceEvent::Send { .. }
        | TraceEvent::Receive { .. }
        | TraceEvent::View { .. }
        | TraceEvent::Fail
        | TraceEvent::Recover => {}
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_session_the_owner_and_the_value_are_shown_and_no_number() {
        for (label, expected) in [
            (
                "consul session 51494022549506fc 0 of local: deploy.sh, client oncall of s1",
                "local (label \"deploy.sh, client oncall of s1\")",
            ),
            ("consul permit 51494022549506fc 0 of uid:1000: x", "uid:1000 (label \"x\")"),
            ("consul permit 4d 2ddccbc058a50c18 of oncall", "oncall (Consul session)"),
            ("etcd lease 4d of oncall: a \"quoted\" of b: c", "oncall (label \"a 'quoted' of b: c\")"),
            ("etcd3 lease 4d of local", "local (etcd lease)"),
            ("etcd key of 4d of local: h", "local (label \"h\")"),
            ("etcd lease 4d: h of root", "a client (label \"h of root\")"),
            ("consul session 4d 0: h", "a client (label \"h\")"),
            (
                "uid:1000 (label \"consul session 4d 0 of x\")",
                "uid:1000 (label \"consul session 4d 0 of x\")",
            ),
        ] {
            assert_eq!(shown(&label.parse().unwrap()).as_str(), expected, "{label}");
        }
    }
}
