//! A request whose node is the other end of a pair of sockets.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use meshlock_cluster::time::Span;
use meshlock_cluster::view::View;
use meshlock_wire::clients::{LossKind, VERSIONS, put_to_client, take_to_node};

use super::*;
use crate::request_state::{Loss, NotGranted};

const MARGIN: Span = Span::from_millis(500);
const HOUR: Span = Span::from_millis(3_600_000);

/// The tag of the request, which is the first one of its connection.
const TAG: Tag = 1;

const HELD: RequestState = RequestState::Held { fence: 7, slot: None, margin: MARGIN };

/// The node's end of the connection, whose clock is the client's.
struct FakeNode(UnixStream);

impl FakeNode {
    fn send(&mut self, messages: &[ToClient]) {
        let mut bytes = Vec::new();
        for message in messages {
            put_to_client(message, VERSIONS.1, &mut bytes);
        }
        self.0.write_all(&bytes).unwrap();
    }

    /// Returns the next message of the client, which it has sent already.
    fn next(&mut self) -> ToNode {
        let mut bytes = vec![0; 4];
        self.0.read_exact(&mut bytes).unwrap();
        let length = u32::from_le_bytes(bytes[..].try_into().unwrap());
        bytes.resize(4 + length as usize, 0);
        self.0.read_exact(&mut bytes[4..]).unwrap();
        take_to_node(&bytes).unwrap().unwrap().0
    }
}

fn request() -> (PolledRequest, FakeNode) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let connection = Connection::new(NodeEndpoint::Socket("node.sock".into()), ours);
    let request = PolledRequest::send(connection, "jobs".parse().unwrap(), Wait::Try, Some(2)).unwrap();
    let mut node = FakeNode(theirs);
    let (lock, wait) = ("jobs".parse().unwrap(), Wait::Try);
    assert_eq!(node.next(), ToNode::Acquire { tag: TAG, lock, wait, permits: Some(2) });
    assert_eq!((request.state(), request.due()), (&RequestState::Waiting, None));
    (request, node)
}

fn granted(lease_end: Time) -> ToClient {
    ToClient::Granted { tag: TAG, fence: 7, slot: None, lease_end, margin: MARGIN }
}

fn refused(tag: Tag) -> ToClient {
    ToClient::Refused { tag, kind: RefusalKind::Denied, why: "no".to_owned() }
}

/// A request that is held with a lease that ended an hour ago, as after this process was stopped for long.
fn held_long_ago() -> (PolledRequest, FakeNode) {
    let (mut request, mut node) = request();
    node.send(&[granted(now().before(HOUR))]);
    request.on_readable().unwrap();
    assert_eq!(request.state(), &HELD);
    assert!(request.due().unwrap() < now());
    (request, node)
}

#[test]
fn one_call_handles_all_messages_that_came_together() {
    let (mut request, mut node) = request();
    let lease_end = now() + HOUR;
    node.send(&[granted(now()), ToClient::Extended { lease_end }]);
    request.on_readable().unwrap();
    assert_eq!(request.state(), &HELD);
    assert!(request.due().unwrap() > now() && request.is_still_held());
    node.send(&[ToClient::Lost { tag: TAG, act_by: Time::ZERO, why: LossKind::Broken }]);
    request.on_readable().unwrap();
    let lost = RequestState::Lost { act_by: Time::ZERO, why: Loss::Told(LossKind::Broken) };
    assert_eq!((request.state(), request.due()), (&lost, None));
    assert!(request.descriptor().is_some(), "the session goes on");
}

#[test]
fn an_extension_that_nobody_has_read_counts_before_the_deadline() {
    let (mut request, mut node) = held_long_ago();
    let extended = |lease_end| ToClient::Extended { lease_end };
    node.send(&[extended(now().before(HOUR)), extended(now() + HOUR)]);
    request.catch_up().unwrap();
    request.lose_if_due(now());
    assert_eq!(request.state(), &HELD);
    assert!(request.is_still_held());
}

#[test]
fn a_loss_that_nobody_has_read_counts_before_the_deadline() {
    let (mut request, mut node) = held_long_ago();
    let act_by = Time::ZERO;
    node.send(&[ToClient::Lost { tag: TAG, act_by, why: LossKind::Leaving }]);
    request.catch_up().unwrap();
    request.lose_if_due(now());
    assert_eq!(request.state(), &RequestState::Lost { act_by, why: Loss::Told(LossKind::Leaving) });
}

#[test]
fn a_lock_of_a_node_that_says_nothing_is_lost() {
    let (mut request, _node) = held_long_ago();
    assert!(!request.is_still_held(), "no time is left");
    request.catch_up().unwrap();
    assert_eq!(request.state(), &HELD);
    request.lose_if_due(now());
    assert!(matches!(request.state(), RequestState::Lost { why: Loss::NodeSilent, .. }));
}

#[test]
fn the_end_of_the_connection_is_an_error_once_and_the_state_says_what_it_means() {
    let (mut request, node) = request();
    drop(node);
    assert!(matches!(request.on_readable(), Err(ConnectionError::Closed(_))));
    assert_eq!(request.state(), &RequestState::Ended(NotGranted::Disconnected));
    let (mut request, node) = held_long_ago();
    drop(node);
    assert!(matches!(request.catch_up(), Err(ConnectionError::Closed(_))));
    assert!(matches!(request.state(), RequestState::Lost { why: Loss::Disconnected, .. }));
    assert!(request.descriptor().is_none() && request.descriptors().next().is_none());
    assert!(matches!(request.guard(1), Err(ConnectionError::Closed(_))));
    assert!(request.catch_up().is_ok() && !request.is_still_held(), "nothing is left to catch up with");
}

#[test]
fn a_lock_that_was_lost_together_with_its_grant_is_not_held() {
    let (mut request, mut node) = request();
    node.send(&[granted(now() + HOUR)]);
    drop(node);
    request.on_readable().unwrap();
    assert_eq!(request.state(), &HELD);
    assert!(!request.is_still_held());
    assert!(matches!(request.state(), RequestState::Lost { why: Loss::Disconnected, .. }));
}

#[test]
fn answers_to_other_questions_are_kept_until_they_are_taken() {
    let (mut request, mut node) = request();
    request.ask_queue().unwrap();
    assert_eq!(node.next(), ToNode::Queue { tag: 2, lock: "jobs".parse().unwrap() });
    request.guard(12).unwrap();
    assert_eq!(node.next(), ToNode::Guard { group: 12 });
    let queue = LockQueue {
        epoch: View::default().epoch,
        algorithm: None,
        permits: 2,
        sites: vec![],
        missing: vec![],
    };
    // As a node refuses to end processes.
    let guard = ToClient::Refused { tag: 0, kind: RefusalKind::BadRequest, why: "no".to_owned() };
    node.send(&[ToClient::Queue { tag: 2, queue: queue.clone() }, guard]);
    request.on_readable().unwrap();
    assert_eq!((request.take_queue(), request.take_queue()), (Some(queue), None));
    let refusal = request.take_guard_refusal();
    assert_eq!((refusal.as_deref(), request.take_guard_refusal()), (Some("no"), None));
    assert_eq!((request.state(), request.dismissal()), (&RequestState::Waiting, None));
    // As a node says why it is about to end the session.
    node.send(&[refused(0)]);
    request.on_readable().unwrap();
    assert_eq!((request.take_guard_refusal(), request.dismissal()), (None, Some("no")));
}

#[test]
fn only_a_refusal_without_a_reason_makes_it_ask_whether_the_node_leaves() {
    let (mut request, mut node) = request();
    assert!(request.is_leaving(RefusalKind::Leaving).unwrap());
    assert!(!request.is_leaving(RefusalKind::Permits).unwrap());
    // The answer to the next question, which the client may not ask.
    node.send(&[refused(2)]);
    assert!(!request.is_leaving(RefusalKind::Other).unwrap());
    assert_eq!(node.next(), ToNode::Status { tag: 2 });
}
