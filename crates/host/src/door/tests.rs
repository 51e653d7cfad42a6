//! How often a client's acquisition takes the node's lock. The client and its connection run on the test's thread, so that nothing else
//! is counted.

use std::sync::{Arc, Mutex};

use meshlock_cluster::access::{Access, Principal, RuleText, Verb};
use meshlock_cluster::node::Config;
use meshlock_cluster::table::Wait;
use meshlock_cluster::time::Span;
use meshlock_system::ProcessOwner;
use meshlock_testing::{async_test, in_time};
use meshlock_wire::clients::{RefusalKind, ToClient, ToNode, VERSIONS, put_to_node, take_to_client};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use super::connected_client::ConnectedClient;
use super::presence::Door;
use crate::channel::{Channel, Stream};
use crate::engine::{Engine, NodeSetup, locks_taken};
use crate::front::Front;
use crate::gate::Policy;

/// Starts a cluster of one site and waits until it can grant locks.
async fn ready() -> (Engine, Front) {
    let site: meshlock_cluster::names::SiteName = "a".parse().unwrap();
    let engine = Engine::start(NodeSetup::new(Config::new(site.clone(), vec![site]))).unwrap();
    let front = Front::new(engine.clone(), std::sync::Arc::default());
    in_time("the node can grant locks", front.until_ready()).await;
    (engine, front)
}

/// Returns the door of a client of this machine.
fn local_door(user: u32, principal: Principal) -> Door {
    let peer = ProcessOwner { process: None, user };
    Door::Local { peer, principal, keep_alives: Arc::default(), _counted: None }
}

/// The other end of a client's connection.
struct TestClient<S> {
    stream: S,
    bytes: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> TestClient<S> {
    async fn send(&mut self, message: &ToNode) {
        let mut bytes = Vec::new();
        put_to_node(message, &mut bytes);
        self.stream.write_all(&bytes).await.unwrap();
    }

    async fn next(&mut self) -> ToClient {
        loop {
            if let Some((message, length)) = take_to_client(&self.bytes).unwrap() {
                self.bytes.drain(..length);
                return message;
            }
            let read = in_time("a message", self.stream.read_buf(&mut self.bytes)).await.unwrap();
            assert!(read > 0, "the node has closed the connection");
        }
    }
}

/// Returns how often the node's lock is taken from the request for a free lock until the node waits for the next message.
async fn locks_for_an_acquisition(
    door: Door,
    here: Stream,
    there: impl AsyncRead + AsyncWrite + Unpin,
) -> u64 {
    let (_engine, front) = ready().await;
    let talk = tokio::spawn(ConnectedClient::talk(front, Channel::new(here, None), door));
    let mut client = TestClient { stream: there, bytes: Vec::new() };
    client.send(&ToNode::Hello { version: VERSIONS.1, who: "a test".parse().unwrap() }).await;
    assert!(matches!(client.next().await, ToClient::Welcome { .. }));
    let before = locks_taken();
    let (tag, lock) = (1, "jobs".parse().unwrap());
    client.send(&ToNode::Acquire { tag, lock, wait: Wait::Forever, permits: None }).await;
    assert!(matches!(client.next().await, ToClient::Granted { tag: 1, .. }));
    // The answer shows that the connection waits for messages again.
    client.send(&ToNode::Ping(2)).await;
    assert!(matches!(client.next().await, ToClient::Pong { tag: 2, .. }));
    let locks = locks_taken() - before;
    drop(client);
    in_time("the session's end", talk).await.unwrap();
    locks
}

#[test]
fn an_acquisition_over_a_unix_socket_takes_the_nodes_lock_once() {
    async_test(async {
        let (here, there) = UnixStream::pair().unwrap();
        let door = local_door(0, Principal::Local);
        let locks = locks_for_an_acquisition(door, Stream::Unix(here), there).await;
        assert_eq!(locks, 1);
    });
}

#[test]
fn another_user_has_the_rights_that_rules_give_it_and_is_shown_by_its_number() {
    async_test(async {
        let (_engine, front) = ready().await;
        let verbs = vec![Verb::Acquire, Verb::Watch];
        let rule = RuleText { principal: "uid:4321".to_owned(), locks: "jobs".to_owned(), verbs };
        front.set_policy(Policy { access: Access::new(&[rule]).unwrap(), ..Policy::default() });
        let (here, there) = UnixStream::pair().unwrap();
        let door = local_door(4321, Principal::User(4321));
        let talk = ConnectedClient::talk(front, Channel::new(Stream::Unix(here), None), door);
        let talk = tokio::spawn(talk);
        let mut client = TestClient { stream: there, bytes: Vec::new() };
        let who = "deploy.sh, client oncall".parse().unwrap();
        client.send(&ToNode::Hello { version: VERSIONS.1, who }).await;
        assert!(matches!(client.next().await, ToClient::Welcome { .. }));
        let acquire = |tag, lock: &str| {
            let (lock, wait) = (lock.parse().unwrap(), Wait::Try);
            ToNode::Acquire { tag, lock, wait, permits: None }
        };
        client.send(&acquire(1, "other")).await;
        let refused = client.next().await;
        let ToClient::Refused { tag: 1, kind: RefusalKind::Denied, why } = &refused else {
            panic!("{refused:?}")
        };
        assert!(why.starts_with("'uid:4321' may not acquire 'other'"), "{why}");
        client.send(&acquire(2, "jobs")).await;
        assert!(matches!(client.next().await, ToClient::Granted { tag: 2, .. }));
        client.send(&ToNode::Queue { tag: 3, lock: "jobs".parse().unwrap() }).await;
        let answer = client.next().await;
        let ToClient::Queue { queue, .. } = &answer else { panic!("{answer:?}") };
        let label = queue.sites[0].lock.holders[0].label.as_ref().unwrap();
        assert_eq!(label.as_str(), r#"uid:4321 (label "deploy.sh, client oncall")"#);
        drop(client);
        in_time("the session's end", talk).await.unwrap();
    });
}

#[test]
fn an_acquisition_over_tcp_takes_the_nodes_lock_once() {
    async_test(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (here, address) = listener.accept().await.unwrap();
        let door = Door::Network { address, silence: Span::from_millis(60_000), slot: Mutex::new(None) };
        assert_eq!(locks_for_an_acquisition(door, Stream::Tcp(here), there).await, 1);
    });
}

#[test]
fn a_client_that_has_promised_to_stay_in_touch_loses_what_it_holds_when_it_is_silent() {
    async_test(async {
        let (_engine, front) = ready().await;
        let mut clients = Vec::new();
        for promises in [true, false] {
            let (here, there) = UnixStream::pair().unwrap();
            let door = local_door(0, Principal::Local);
            tokio::spawn(ConnectedClient::talk(front.clone(), Channel::new(Stream::Unix(here), None), door));
            let mut client = TestClient { stream: there, bytes: Vec::new() };
            client.send(&ToNode::Hello { version: VERSIONS.1, who: "a test".parse().unwrap() }).await;
            let ToClient::Welcome { contact: Some(contact), .. } = client.next().await else {
                panic!("it is told how to stay in touch")
            };
            assert!(contact.silence > Span::ZERO);
            if promises {
                client.send(&ToNode::StayInTouch).await;
            }
            let (tag, lock) = (1, "jobs".parse().unwrap());
            client.send(&ToNode::Acquire { tag, lock, wait: Wait::Forever, permits: None }).await;
            clients.push(client);
        }
        assert!(matches!(clients[0].next().await, ToClient::Granted { tag: 1, .. }));
        // It says nothing more, as if it was stopped. The other one has not promised to say anything.
        assert!(matches!(clients[1].next().await, ToClient::Granted { tag: 1, .. }));
    });
}
