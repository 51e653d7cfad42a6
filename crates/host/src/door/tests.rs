//! What a client's connection costs the node: how often an acquisition takes the node's lock, and what a client may send and keep. The
//! client and its connection run on the test's thread, so that nothing else is counted.

use std::sync::Arc;

use meshlock_cluster::access::{Access, Principal, RuleText, Verb};
use meshlock_cluster::node::Config;
use meshlock_cluster::table::Wait;
use meshlock_cluster::time::{Span, Time};
use meshlock_system::{ProcessOwner, now};
use meshlock_testing::{async_test, eventually_async, in_time};
use meshlock_wire::clients::{RefusalKind, ToClient, ToNode, VERSIONS, put_to_node, take_to_client};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use super::connected_client::ConnectedClient;
use super::presence::{Door, Newcomer};
use crate::channel::{Channel, Stream};
use crate::engine::{Engine, NodeSetup, locks_taken};
use crate::front::Front;
use crate::gate::{Audit, Each, Gate, Policy};
use crate::meter::SessionEnd;
use crate::trust::Trust;

/// Starts a cluster of one site and waits until it can grant locks.
async fn ready(gate: Gate) -> (Engine, Front) {
    let site: meshlock_cluster::names::SiteName = "a".parse().unwrap();
    let engine = Engine::start(NodeSetup::new(Config::new(site.clone(), vec![site]))).unwrap();
    let front = Front::new(engine.clone(), std::sync::Arc::new(gate));
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
    let (_engine, front) = ready(Gate::default()).await;
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
        let (_engine, front) = ready(Gate::default()).await;
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

/// Connects a client of this machine, which says hello.
async fn greeted(front: &Front) -> TestClient<UnixStream> {
    let (here, there) = UnixStream::pair().unwrap();
    let channel = Channel::new(Stream::Unix(here), None);
    tokio::spawn(ConnectedClient::talk(front.clone(), channel, local_door(0, Principal::Local)));
    let mut client = TestClient { stream: there, bytes: Vec::new() };
    client.send(&ToNode::Hello { version: VERSIONS.1, who: "a test".parse().unwrap() }).await;
    assert!(matches!(client.next().await, ToClient::Welcome { .. }));
    client
}

/// Reads messages until one is as wanted; the node's own renewals may come before it.
async fn skip_to(client: &mut TestClient<UnixStream>, is_wanted: impl Fn(&ToClient) -> bool) {
    for _ in 0..100 {
        if is_wanted(&client.next().await) {
            return;
        }
    }
    panic!("a hundred other messages");
}

/// Returns the extensions that the client is told before the answer to a ping that it sends now.
async fn extensions(client: &mut TestClient<UnixStream>) -> Vec<Time> {
    let mut told = Vec::new();
    client.send(&ToNode::Ping(99)).await;
    loop {
        let message = client.next().await;
        if let ToClient::Extended { lease_end } = message {
            told.push(lease_end);
        } else {
            assert!(matches!(message, ToClient::Pong { .. }), "{message:?}");
            return told;
        }
    }
}

#[test]
fn a_renewal_is_told_to_clients_that_hold_something_and_have_not_lost_it() {
    async_test(async {
        let (_engine, front) = ready(Gate::default()).await;
        let (mut holder, mut idle) = (greeted(&front).await, greeted(&front).await);
        holder.send(&acquire(1, "jobs")).await;
        assert!(matches!(holder.next().await, ToClient::Granted { tag: 1, .. }));
        // Later than any renewal that the node makes meanwhile.
        let far = now() + Span::from_millis(3_600_000);
        front.node().shared.renewals.on_renewed(far);
        skip_to(&mut holder, |message| *message == ToClient::Extended { lease_end: far }).await;
        assert_eq!(extensions(&mut idle).await, []);
        assert_eq!(extensions(&mut idle).await, [], "nor later");
        extensions(&mut holder).await;
        let broken = front.break_lock(&front.in_process(), "jobs".parse().unwrap()).await.unwrap();
        assert_eq!(broken.cut_off.len(), 1);
        skip_to(&mut holder, |message| matches!(message, ToClient::Lost { tag: 1, .. })).await;
        front.node().shared.renewals.on_renewed(far + Span::from_millis(1));
        let mut watching = front.node().renewals();
        in_time("the renewal is passed on", watching.wait_for(|end| *end > far)).await.unwrap();
        assert_eq!(extensions(&mut holder).await, [], "what is lost is not extended");
        assert_eq!(extensions(&mut holder).await, [], "nor later");
    });
}

#[test]
fn an_acquisition_over_tcp_takes_the_nodes_lock_once() {
    async_test(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (here, address) = listener.accept().await.unwrap();
        let door = Door::Network {
            address,
            silence: Span::from_millis(60_000),
            newcomer: Newcomer::alone(),
            trust: Trust::default(),
        };
        assert_eq!(locks_for_an_acquisition(door, Stream::Tcp(here), there).await, 1);
    });
}

#[test]
fn a_client_that_has_promised_to_stay_in_touch_loses_what_it_holds_when_it_is_silent() {
    async_test(async {
        let (_engine, front) = ready(Gate::default()).await;
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

/// A client over TCP at a node whose rules give `local` these rights.
struct Served {
    client: TestClient<TcpStream>,
    talk: tokio::task::JoinHandle<()>,
    front: Front,
    _engine: Engine,
}

async fn served(verbs: &[Verb], each: Each) -> Served {
    let rule = RuleText { principal: "local".to_owned(), locks: "*".to_owned(), verbs: verbs.to_vec() };
    let policy = Policy { access: Access::new(&[rule]).unwrap(), ..Policy::default() };
    let (engine, front) = ready(Gate::new(policy, each, Audit::default())).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (here, address) = listener.accept().await.unwrap();
    let door = Door::Network {
        address,
        silence: Span::from_millis(60_000),
        newcomer: Newcomer::alone(),
        trust: Trust::default(),
    };
    let channel = Channel::new(Stream::Tcp(here), None);
    let talk = tokio::spawn(ConnectedClient::talk(front.clone(), channel, door));
    let mut client = TestClient { stream, bytes: Vec::new() };
    client.send(&ToNode::Hello { version: VERSIONS.1, who: "a test".parse().unwrap() }).await;
    Served { client, talk, front, _engine: engine }
}

fn acquire(tag: u64, lock: &str) -> ToNode {
    ToNode::Acquire { tag, lock: lock.parse().unwrap(), wait: Wait::Forever, permits: None }
}

#[test]
fn a_client_without_any_right_is_told_so_at_its_greeting() {
    async_test(async {
        let mut served = served(&[], Each::default()).await;
        let ToClient::Refused { tag: 0, kind, why } = served.client.next().await else {
            panic!("it is let in")
        };
        assert_eq!(kind, RefusalKind::Denied);
        assert!(why.starts_with("'local' may not acquire: no [[access]] rule"), "{why}");
        in_time("the connection is closed", served.talk).await.unwrap();
    });
}

#[test]
fn a_client_that_may_not_change_the_rules_sends_short_messages_only() {
    async_test(async {
        let mut served = served(&[Verb::Acquire, Verb::Watch, Verb::Break], Each::default()).await;
        assert!(matches!(served.client.next().await, ToClient::Welcome { .. }));
        let begun = [&100_000_u32.to_le_bytes()[..], &[0; 60]].concat();
        served.client.stream.write_all(&begun).await.unwrap();
        let ToClient::Refused { tag: 0, why, .. } = served.client.next().await else {
            panic!("it may go on")
        };
        assert!(why.starts_with("a message of 100000 bytes; at most 4096 are allowed"), "{why}");
    });
}

#[test]
fn what_a_client_has_sent_of_a_message_counts_and_has_a_limit() {
    async_test(async {
        let (each, part) = (Each { buffered_bytes: 100_000, ..Each::default() }, vec![0; 60_000]);
        let mut served = served(&[Verb::Acquire, Verb::Admin], each).await;
        assert!(matches!(served.client.next().await, ToClient::Welcome { .. }));
        served.client.stream.write_all(&[&1_000_000_u32.to_le_bytes()[..], &part].concat()).await.unwrap();
        let counted = || served.front.buffered_bytes() == 60_004;
        eventually_async("it is counted", tokio::time::sleep, counted).await;
        served.client.stream.write_all(&part).await.unwrap();
        let ToClient::Refused { tag: 0, why, .. } = served.client.next().await else {
            panic!("it may go on")
        };
        assert!(why.starts_with("this site keeps 100000 bytes for 'local', the limit"), "{why}");
        drop(served.client);
        let counted = || served.front.buffered_bytes() == 0;
        eventually_async("it counts no more", tokio::time::sleep, counted).await;
    });
}

#[test]
fn answers_that_a_client_does_not_read_count_and_have_a_limit() {
    async_test(async {
        let each = Each { buffered_bytes: 1 << 20, ..Each::default() };
        let mut served = served(&[Verb::Watch], each).await;
        assert!(matches!(served.client.next().await, ToClient::Welcome { .. }));
        // As many questions as it takes: their answers first fill the system's buffers.
        let mut questions = Vec::new();
        (1..2000).for_each(|tag| put_to_node(&ToNode::Status { tag }, &mut questions));
        let ends = || served.front.node().readings().session_ends(SessionEnd::CutOff);
        let asking = async { while served.client.stream.write_all(&questions).await.is_ok() {} };
        let what = "a client that reads nothing is cut off";
        tokio::select! {
            () = eventually_async(what, tokio::time::sleep, || ends() == 1) => {}
            () = async { asking.await; std::future::pending().await } => {}
        }
        let counted = || served.front.buffered_bytes() == 0;
        eventually_async("nothing is kept for it", tokio::time::sleep, counted).await;
    });
}

#[test]
fn locks_and_waiters_of_a_client_are_limited() {
    async_test(async {
        let each = Each { locks: 3, waiters: 1, ..Each::default() };
        let mut served = served(&[Verb::Acquire], each).await;
        assert!(matches!(served.client.next().await, ToClient::Welcome { .. }));
        for (tag, lock, refused) in [
            (1, "a", None),
            (3, "a", Some("'local' waits 1 times for 'a', the limit for one client")),
            (4, "b", None),
            (5, "c", Some("'local' holds 3 locks or waits for them, the limit for one client")),
        ] {
            served.client.send(&acquire(tag, lock)).await;
            match (served.client.next().await, refused) {
                (ToClient::Granted { tag: of, .. }, None) => assert_eq!(of, tag),
                (ToClient::Refused { tag: of, kind, why }, Some(expected)) => {
                    assert_eq!((of, kind), (tag, RefusalKind::TooManyOpen));
                    assert!(why.starts_with(expected), "{why}");
                }
                (other, _) => panic!("{other:?}"),
            }
            if tag == 1 {
                // One that waits.
                served.client.send(&acquire(2, "a")).await;
            }
        }
        served.client.send(&ToNode::Release(4)).await;
        assert!(matches!(served.client.next().await, ToClient::Released(4)));
        served.client.send(&acquire(6, "c")).await;
        assert!(
            matches!(served.client.next().await, ToClient::Granted { tag: 6, .. }),
            "what was given back"
        );
    });
}
