//! A session whose node is the other end of a pair of sockets.

use std::io::Read;

use meshlock_cluster::time::{Drift, Span};
use meshlock_testing::{Deadline, WITHIN, eventually};
use meshlock_wire::clients::{Contact, LossKind, RefusalKind, VERSIONS, put_to_client, take_to_node};

use super::*;
use crate::request_state::Loss;

/// A request in a session with a node that is the other end of a pair of sockets.
fn request() -> (Arc<NodeSession>, Arc<RemoteRequest>, UnixStream) {
    let (ours, node) = UnixStream::pair().unwrap();
    let connection = Connection::new(NodeEndpoint::Socket("node.sock".into()), ours);
    let session = NodeSession::start(connection, 0).unwrap();
    let request = session.acquire("jobs".parse().unwrap(), Wait::Forever, None).unwrap();
    (session, request, node)
}

fn send(node: &mut UnixStream, messages: &[ToClient]) {
    let mut bytes = Vec::new();
    for message in messages {
        put_to_client(message, VERSIONS.1, &mut bytes);
    }
    node.write_all(&bytes).unwrap();
}

fn granted(tag: Tag, lease_end: Time) -> ToClient {
    let margin = Span::from_millis(500);
    ToClient::Granted { tag, fence: 7, slot: None, lease_end, margin }
}

fn loss(request: &RemoteRequest) -> Option<Loss> {
    if let RequestState::Lost { why, .. } = request.state() { Some(why) } else { None }
}

#[test]
fn an_extension_that_has_arrived_counts_before_the_deadline() {
    let (_session, request, mut node) = request();
    let (tag, hour) = (request.tag(), Span::from_millis(3_600_000));
    // So much that what follows is not read together with the grant.
    let long = ToClient::Refused { tag: 0, kind: RefusalKind::Other, why: "x".repeat(17 << 10) };
    let extended = ToClient::Extended { lease_end: now() + hour };
    let lost = ToClient::Lost { tag, act_by: now(), why: LossKind::Broken };
    send(&mut node, &[granted(tag, now().before(hour)), long, extended, lost]);
    eventually("the lock is lost", || loss(&request).is_some());
    assert_eq!(loss(&request), Some(Loss::Told(LossKind::Broken)), "and not before, by the clock");
}

#[test]
fn a_lock_that_is_lost_stays_lost_when_the_connection_ends() {
    let (session, request, mut node) = request();
    let tag = request.tag();
    let lost = ToClient::Lost { tag, act_by: now(), why: LossKind::Leaving };
    send(&mut node, &[granted(tag, now() + Span::from_millis(3_600_000)), lost]);
    drop(node);
    eventually("the session is over", || !session.is_open());
    assert_eq!(loss(&request), Some(Loss::Told(LossKind::Leaving)));
}

#[test]
fn a_session_stays_in_touch_and_is_not_relied_on_for_longer_than_the_node_keeps_it() {
    let (ours, mut node) = UnixStream::pair().unwrap();
    let mut connection = Connection::new(NodeEndpoint::Socket("node.sock".into()), ours);
    let contact = Contact { silence: Span::from_millis(2000), drift: Drift::from_ppm(0) };
    connection.set_contact(contact);
    let session = NodeSession::start(connection, 0).unwrap();
    let request = session.acquire("jobs".parse().unwrap(), Wait::Forever, None).unwrap();
    send(&mut node, &[granted(request.tag(), now() + Span::from_millis(3_600_000))]);
    let (mut bytes, mut pings, deadline) = (Vec::new(), 0, Deadline::default());
    let mut promised = false;
    node.set_read_timeout(Some(WITHIN)).unwrap();
    while pings < 3 {
        deadline.check("three pings");
        let mut scratch = [0; 1024];
        let count = node.read(&mut scratch).unwrap();
        bytes.extend_from_slice(&scratch[..count]);
        while let Some((message, length)) = take_to_node(&bytes).unwrap() {
            bytes.drain(..length);
            promised |= message == ToNode::StayInTouch;
            if let ToNode::Ping(tag) = message {
                assert!(promised && loss(&request).is_none());
                pings += 1;
                send(&mut node, &[ToClient::Pong { tag, time: now() }]);
            }
        }
    }
    // Nothing is answered any more, and the lease that the node has told would last for an hour.
    eventually("the lock is lost", || loss(&request).is_some());
    assert_eq!(loss(&request), Some(Loss::NodeSilent));
}
