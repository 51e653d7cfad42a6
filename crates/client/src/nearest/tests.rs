//! Which of several nodes is preferred. The nodes are threads that answer as a test says.

use std::net::TcpListener;
use std::thread::JoinHandle;

use meshlock_testing::{Deadline, blocking_test, joined};
use meshlock_wire::clients::{RefusalKind, put_to_client, take_to_node};

use super::*;

fn welcome() -> ToClient {
    ToClient::Welcome { version: VERSIONS.1, site: "a".parse().unwrap(), time: now(), contact: None }
}

fn refusal(why: &str) -> ToClient {
    ToClient::Refused { tag: 0, kind: RefusalKind::Denied, why: why.to_owned() }
}

/// A node that answers its first greeting with this, or not at all, and waits for the end of the connection.
fn serve(mut stream: impl Read + Write, answer: Option<ToClient>) {
    let (mut bytes, mut scratch, deadline) = (Vec::new(), [0; 1000], Deadline::default());
    loop {
        deadline.check("the client ends its connection");
        let count = stream.read(&mut scratch).expect("the connection ends in order");
        if count == 0 {
            return;
        }
        bytes.extend_from_slice(&scratch[..count]);
        if let (Some((ToNode::Hello { .. }, _)), Some(answer)) = (take_to_node(&bytes).unwrap(), &answer) {
            let mut said = Vec::new();
            put_to_client(answer, VERSIONS.1, &mut said);
            stream.write_all(&said).unwrap();
            bytes.clear();
        }
    }
}

/// Starts a node, whose thread ends with its first connection.
fn node(answer: Option<ToClient>) -> (NodeEndpoint, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = at(&listener);
    (endpoint, std::thread::spawn(move || serve(listener.accept().unwrap().0, answer)))
}

fn at(listener: &TcpListener) -> NodeEndpoint {
    let address = listener.local_addr().unwrap().to_string().parse().unwrap();
    NodeEndpoint::Tcp { address, security: Security::Plain }
}

fn order_of(endpoints: &[NodeEndpoint]) -> Vec<usize> {
    order(endpoints, &"test".parse().unwrap())
}

#[test]
fn a_node_that_answers_is_preferred_to_one_that_does_not_and_nothing_is_left_behind() {
    blocking_test(|| {
        let (silent, first) = node(None);
        let (answers, second) = node(Some(welcome()));
        assert_eq!(order_of(&[silent, answers]), [1, 0]);
        // Both see the end of their connection.
        joined("the silent node sees the end", first);
        joined("the other one sees the end", second);
    });
}

#[test]
fn a_node_that_cannot_be_reached_or_refuses_is_passed_over() {
    blocking_test(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let nobody = at(&listener);
        drop(listener);
        let (refuses, _) = node(Some(refusal("not you")));
        let nowhere = NodeEndpoint::Socket("/nowhere.sock".into());
        let (answers, _) = node(Some(welcome()));
        assert_eq!(order_of(&[nobody, refuses, nowhere, answers])[0], 3);
    });
}

#[test]
fn a_node_of_version_2_and_a_socket_of_this_machine_are_asked_too() {
    blocking_test(|| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.sock");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let local = std::thread::spawn(move || serve(listener.accept().unwrap().0, Some(welcome())));
        let (silent, _first) = node(None);
        assert_eq!(order_of(&[silent, NodeEndpoint::Socket(path)]), [1, 0]);
        joined("the node sees the end", local);
        let (silent, _first) = node(None);
        let (old, _) = node(Some(refusal(&format!("{REFUSAL_BY_V2} only"))));
        assert_eq!(order_of(&[silent, old]), [1, 0]);
    });
}

#[test]
fn a_single_node_is_not_asked() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    assert_eq!(order_of(&[at(&listener)]), [0]);
    assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn a_node_that_has_just_ended_comes_after_all_others() {
    blocking_test(|| {
        let (answers, _) = node(Some(welcome()));
        let (silent, _first) = node(None);
        let endpoints = [answers, silent];
        let who: ClientLabel = "test".parse().unwrap();
        assert_eq!(NodeChoice::NearestAfter(0).order(&endpoints, &who), [1, 0]);
        assert_eq!(NodeChoice::FirstFrom(2).order(&endpoints, &who), [0, 1], "nobody is asked");
        assert_eq!(NodeChoice::Nearest.order(&[], &who), [0; 0]);
    });
}
