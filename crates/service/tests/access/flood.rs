//! Limits on what one client can do to others. The tests count answers and do not depend on time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

use axum::http::uri::PathAndQuery;
use meshlock_cluster::access::{Pace, Verb};
use meshlock_cluster::node::Config;
use meshlock_host::front::Front;
use meshlock_host::gate::Each;
use meshlock_host::{Engine, NodeSetup};
use meshlock_service::{ApiLimits, PrincipalLimits, Serving};
use meshlock_testing::{
    Deadline, WITHIN, connect_from, eventually, in_own_process, in_time, joined, silent_connections,
};
use prost::Message;
use rustix::net::{AddressFamily, SocketType, sockopt};
use serde_json::{Value, json};
use tonic::client::Grpc;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

use crate::{gate, policy};

struct Api {
    serving: Serving,
    _engine: Engine,
}

impl Api {
    /// Starts a node with its API and tokens of three clients, which may do everything.
    fn start(limits: ApiLimits, each: Each) -> Self {
        let site: meshlock_cluster::names::SiteName = "local".parse().unwrap();
        let engine = Engine::start(NodeSetup::new(Config::new(site.clone(), vec![site]))).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let verbs = [Verb::Acquire, Verb::Watch, Verb::Break, Verb::Admin];
        let names = ["flood", "other", "slow"].map(|name| (name, name));
        let gate = gate(policy(&[("*", "*", &verbs)], &names), each);
        let setup = meshlock_service::ApiSetup { listener, limits };
        let front = Front::new((*engine).clone(), gate);
        Api { serving: Serving::start(&front, setup).unwrap(), _engine: engine }
    }

    fn client(&self, token: &'static str) -> Client {
        Client::over(TcpStream::connect(self.serving.address()).unwrap(), token)
    }
}

/// A connection with a minimal HTTP client.
struct Client {
    stream: BufReader<TcpStream>,
    token: &'static str,
}

impl Client {
    fn over(stream: TcpStream, token: &'static str) -> Self {
        stream.set_read_timeout(Some(WITHIN)).unwrap();
        Client { stream: BufReader::new(stream), token }
    }

    fn send(&mut self, method: &str, path: &str, body: &str) {
        let Client { stream, token } = self;
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.get_mut().write_all(request.as_bytes()).unwrap();
    }

    /// Reads the head of an answer. Returns its status and the length of its body, if it has one.
    fn head(&mut self) -> (u16, Option<usize>) {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        let mut length = None;
        loop {
            line.clear();
            assert_ne!(self.stream.read_line(&mut line).unwrap(), 0, "the answer ends within its head");
            match line.trim_end().split_once(": ") {
                Some((key, value)) if key.eq_ignore_ascii_case("content-length") => {
                    length = Some(value.parse().unwrap());
                }
                Some(_) => {}
                None => return (status, length),
            }
        }
    }

    fn ask(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.send(method, path, &body.to_string());
        let (status, length) = self.head();
        let mut body = vec![0; length.unwrap()];
        self.stream.read_exact(&mut body).unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    fn acquire(&mut self, lock: &str) -> String {
        let (status, held) = self.ask("POST", &format!("/v1/locks/{lock}/acquire"), &json!({}));
        assert_eq!(status, 200, "{held}");
        held["session"].as_str().unwrap().to_owned()
    }

    /// Ends the session, which releases its locks.
    fn end(&mut self, session: &str) {
        assert_eq!(self.ask("DELETE", &format!("/v1/sessions/{session}"), &json!({})).0, 200);
    }
}

/// Returns the resident memory of this process, server and clients together.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

#[test]
fn a_flood_of_connections_and_requests_leaves_room_for_others() {
    in_own_process(|| {
        let each = Each { connections: 20, pace: Pace { rate: 50, burst: 500 }, ..Each::default() };
        let one = PrincipalLimits { sessions: 50, ..ApiLimits::default().each };
        let api = Api::start(ApiLimits { each: one, ..ApiLimits::default() }, each);
        let first = api.client("other").acquire("ready");
        let before = resident_bytes();

        let mut flood: Vec<Client> = (0..40).map(|_| api.client("flood")).collect();
        let mut refused = 0;
        flood.retain_mut(|client| {
            let (status, said) = client.ask("GET", "/v1/rules", &json!({}));
            if status == 429 {
                assert_eq!(said["code"], "too_many");
                assert!(
                    said["message"].as_str().unwrap().starts_with("'flood' has 20 connections"),
                    "{said}"
                );
                refused += 1;
            }
            status == 200
        });
        assert_eq!((flood.len(), refused), (20, 20));

        let flooding: Vec<_> = flood
            .into_iter()
            .map(|mut client| {
                let ask = move || client.ask("POST", "/v1/sessions", &json!({})).0;
                thread::spawn(move || std::iter::repeat_with(ask).take(500).collect::<Vec<u16>>())
            })
            .collect();
        let mut other = api.client("other");
        for _ in 0..100 {
            let session = other.acquire("busy");
            other.end(&session);
        }
        let answers: Vec<u16> =
            flooding.into_iter().flat_map(|thread| joined("every request is answered", thread)).collect();
        let count = |status: u16| answers.iter().filter(|answer| **answer == status).count();
        assert_eq!(answers.len(), 10_000);
        assert_eq!(count(200) + count(429), 10_000);
        assert_eq!(count(200), 50, "its sessions, and no more");
        other.end(&first);
        let grown = resident_bytes().saturating_sub(before);
        assert!(grown < 64 << 20, "{grown} bytes more");
    });
}

#[test]
fn one_client_s_watches_and_waits_leave_room_for_others() {
    let one = PrincipalLimits { waiters_of_a_lock: 3, watched_locks: 2, ..ApiLimits::default().each };
    let limits = ApiLimits { watched_locks: 3, waiters_of_a_lock: 4, each: one, ..ApiLimits::default() };
    let api = Api::start(limits, Each::default());
    let mut other = api.client("other");
    let held = other.acquire("a");
    let watch = |who, lock: &str| {
        let mut client = api.client(who);
        client.send("GET", &format!("/v1/locks/{lock}/watch"), "");
        let status = client.head().0;
        (status, client)
    };
    let watching: Vec<_> = ["a", "b", "c"].map(|lock| watch("flood", lock)).into();
    assert_eq!(watching.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [200, 200, 429]);
    assert_eq!(watch("other", "d").0, 200);

    let mut waiting: Vec<Client> = (0..4).map(|_| api.client("flood")).collect();
    for client in &mut waiting {
        client.send("POST", "/v1/locks/a/acquire", "{}");
    }
    // The last of the four to arrive is refused; the other three wait.
    let queue = |other: &mut Client| {
        other.ask("GET", "/v1/locks/a", &json!({})).1["waiters"].as_array().unwrap().len()
    };
    eventually("three wait", || queue(&mut other) >= 3);
    let mut last = api.client("flood");
    let (status, said) = last.ask("POST", "/v1/locks/a/acquire", &json!({}));
    assert_eq!((status, &said["code"]), (429, &json!("too_many")));
    assert!(said["message"].as_str().unwrap().contains("'flood' waits 3 times for 'a'"), "{said}");
    let mut slow = api.client("slow");
    slow.send("POST", "/v1/locks/a/acquire", "{}");
    eventually("four wait", || queue(&mut other) >= 4);
    other.end(&held);
}

#[test]
fn silent_connections_do_not_keep_other_clients_out() {
    let api = Api::start(ApiLimits { connections: 64, ..ApiLimits::default() }, Each::default());
    let address = api.serving.address();
    let mut first = api.client("other");
    assert_eq!(first.ask("GET", "/v1/rules", &json!({})).0, 200);
    // More than there are places, and from each network more than its share.
    let silent = silent_connections(address, 6, 20);
    assert_eq!(first.ask("GET", "/v1/rules", &json!({})).0, 200, "whoever has been served stays");
    let of_that_network = connect_from([127, 200, 0, 7].into(), address);
    for stream in [TcpStream::connect(address).unwrap(), of_that_network] {
        assert_eq!(Client::over(stream, "other").ask("GET", "/v1/rules", &json!({})).0, 200);
    }
    let evicted = || {
        let metrics = api.serving.metrics();
        let line = "meshlock_connections_evicted_total{port=\"api\"} ";
        metrics.lines().find_map(|found| found.strip_prefix(line)).unwrap().parse::<usize>().unwrap()
    };
    assert!(evicted() >= silent.len() - 64, "{}", evicted());
}

/// Returns the name of a lock whose events are long.
fn long_name() -> String {
    "x".repeat(255)
}

/// Acquires and releases a watched lock until another lock can be watched: then the watch of the first one has been ended.
fn until_cut_off(api: &Api, lock: &str) {
    let mut other = api.client("other");
    let deadline = Deadline::default();
    loop {
        deadline.check("the watch of a client that reads nothing is ended");
        let session = other.acquire(lock);
        other.end(&session);
        let mut next = api.client("other");
        next.send("GET", "/v1/locks/next/watch", "");
        if next.head().0 == 200 {
            return;
        }
    }
}

fn impatient() -> ApiLimits {
    ApiLimits { watched_locks: 1, slow_reader: std::time::Duration::from_millis(50), ..ApiLimits::default() }
}

/// Limits without a request rate.
fn without_pace() -> Each {
    Each { pace: Pace { rate: u32::MAX, burst: u32::MAX }, ..Each::default() }
}

#[test]
fn a_connection_that_reads_nothing_is_cut_off() {
    let api = Api::start(impatient(), without_pace());
    let lock = long_name();
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_recv_buffer_size(&socket, 1024).unwrap();
    rustix::net::connect(&socket, &api.serving.address()).unwrap();
    let mut slow = Client::over(TcpStream::from(socket), "slow");
    slow.send("GET", &format!("/v1/locks/{lock}/watch"), "");
    // The watch has begun when its first line arrives.
    assert_eq!(slow.head().0, 200);
    until_cut_off(&api, &lock);
    let mut rest = Vec::new();
    // Bytes that were on their way arrive, or the connection is reset; in either case it ends.
    let _ = slow.stream.read_to_end(&mut rest);
    assert!(rest.len() < 1 << 20, "{}", rest.len());
}

#[derive(Clone, PartialEq, Message)]
struct Lock {
    #[prost(string, tag = "1")]
    lock: String,
}

#[derive(Clone, PartialEq, Message)]
struct Any {}

#[test]
fn a_call_that_reads_nothing_is_ended_although_its_connection_is_read() {
    let api = Api::start(impatient(), without_pace());
    let (lock, address): (_, SocketAddr) = (long_name(), api.serving.address());
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    // The window of the connection is larger than that of the call.
    let endpoint = endpoint.initial_stream_window_size(1024).initial_connection_window_size(1 << 20);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut call = runtime.block_on(in_time("the call is answered", async {
        let mut grpc = Grpc::new(endpoint.connect().await.unwrap());
        grpc.ready().await.unwrap();
        let mut request = tonic::Request::new(Lock { lock: lock.clone() });
        request.metadata_mut().insert("authorization", "Bearer slow".parse().unwrap());
        let path = PathAndQuery::from_static("/meshlock.v1.Locks/Watch");
        let call = grpc.server_streaming(request, path, ProstCodec::<Lock, Any>::default()).await.unwrap();
        call.into_inner()
    }));
    until_cut_off(&api, &lock);
    let why = runtime.block_on(in_time("the call is ended", async {
        loop {
            match call.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it ends without a reason"),
                Err(why) => return why,
            }
        }
    }));
    assert_eq!(why.code(), tonic::Code::ResourceExhausted, "{why:?}");
    assert!(why.message().starts_with("what was sent has not been read for 0.05 s"), "{why:?}");
}
