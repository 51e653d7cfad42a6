//! How often a client's acquisition takes the node's lock. The client and its connection run on the test's thread, so that nothing else
//! is counted.

use meshlock_cluster::node::Config;
use meshlock_cluster::table::Wait;
use meshlock_cluster::time::Span;
use meshlock_testing::{async_test, in_time};
use meshlock_wire::clients::{ToClient, ToNode, VERSIONS, put_to_node, take_to_client};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use super::connected_client::ConnectedClient;
use super::presence::{Door, Newcomer};
use crate::channel::{Channel, Stream};
use crate::engine::{Engine, NodeSetup, locks_taken};
use crate::front::Front;

/// Starts a cluster of one site and waits until it can grant locks.
async fn ready() -> (Engine, Front) {
    let site: meshlock_cluster::names::SiteName = "a".parse().unwrap();
    let engine = Engine::start(NodeSetup::new(Config::new(site.clone(), vec![site]))).unwrap();
    let front = Front::new(engine.clone(), std::sync::Arc::default());
    in_time("the node can grant locks", front.until_ready()).await;
    (engine, front)
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
        let locks = locks_for_an_acquisition(Door::Local { owner: None }, Stream::Unix(here), there).await;
        assert_eq!(locks, 1);
    });
}

#[test]
fn an_acquisition_over_tcp_takes_the_nodes_lock_once() {
    async_test(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (here, address) = listener.accept().await.unwrap();
        let door = Door::Network { address, silence: Span::from_millis(60_000), newcomer: Newcomer::alone() };
        assert_eq!(locks_for_an_acquisition(door, Stream::Tcp(here), there).await, 1);
    });
}
