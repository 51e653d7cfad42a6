//! Meshlock's API over gRPC, with messages written by hand with the field numbers of `proto/meshlock/v1.proto`: a change of a number
//! there breaks programs of users, and this test.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included: what fails must stop them")]

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use axum::http::uri::PathAndQuery;
use meshlock_cluster::node::Config;
use meshlock_host::front::Front;
use meshlock_host::{Engine, NodeSetup};
use meshlock_service::{ApiLimits, Serving};
use meshlock_testing::{Deadline, in_time};
use prost::Message;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

#[derive(Clone, PartialEq, Message)]
struct Acquire {
    #[prost(string, tag = "1")]
    lock: String,
    #[prost(string, tag = "2")]
    session: String,
    #[prost(bool, tag = "3")]
    r#try: bool,
    #[prost(uint32, optional, tag = "4")]
    wait_ms: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct Grant {
    #[prost(string, tag = "1")]
    lock: String,
    #[prost(string, tag = "2")]
    session: String,
    #[prost(int64, tag = "3")]
    fence: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Release {
    #[prost(string, tag = "1")]
    lock: String,
    #[prost(string, tag = "2")]
    session: String,
}

#[derive(Clone, PartialEq, Message)]
struct Lock {
    #[prost(string, tag = "1")]
    lock: String,
}

#[derive(Clone, PartialEq, Message)]
struct Holder {
    #[prost(string, tag = "1")]
    site: String,
    #[prost(int64, tag = "3")]
    fence: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Holders {
    #[prost(string, tag = "1")]
    lock: String,
    #[prost(message, repeated, tag = "2")]
    holders: Vec<Holder>,
}

#[derive(Clone, PartialEq, Message)]
struct HoldEvent {
    #[prost(message, optional, tag = "1")]
    granted: Option<Grant>,
}

#[derive(Clone, PartialEq, Message)]
struct ListLocks {
    #[prost(string, tag = "1")]
    pattern: String,
    #[prost(string, tag = "2")]
    after: String,
    #[prost(uint32, tag = "3")]
    limit: u32,
}

#[derive(Clone, PartialEq, Message)]
struct LockInUse {
    #[prost(string, tag = "1")]
    lock: String,
    #[prost(string, tag = "4")]
    mode: String,
    #[prost(message, repeated, tag = "5")]
    holders: Vec<Holder>,
}

#[derive(Clone, PartialEq, Message)]
struct LockPage {
    #[prost(message, repeated, tag = "1")]
    locks: Vec<LockInUse>,
    #[prost(string, tag = "2")]
    next: String,
}

#[derive(Clone, PartialEq, Message)]
struct LockChange {
    #[prost(string, tag = "1")]
    lock: String,
    #[prost(string, tag = "2")]
    change: String,
    #[prost(int64, tag = "5")]
    fence: i64,
}

#[derive(Clone, PartialEq, Message)]
struct LockChanges {
    #[prost(message, repeated, tag = "1")]
    changes: Vec<LockChange>,
    #[prost(uint64, tag = "2")]
    missed: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Empty {}

struct Client(Grpc<Channel>);

impl Client {
    async fn call<Q, A>(&mut self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        self.0.ready().await.unwrap();
        let (path, codec) = (PathAndQuery::from_static(path), ProstCodec::<Q, A>::default());
        self.0.unary(Request::new(request), path, codec).await.map(tonic::Response::into_inner)
    }

    async fn stream<A: Message + Default + 'static>(
        &mut self,
        path: &'static str,
        lock: &str,
    ) -> Streaming<A> {
        self.0.ready().await.unwrap();
        let request = Request::new(Lock { lock: lock.to_owned() });
        let (path, codec) = (PathAndQuery::from_static(path), ProstCodec::<Lock, A>::default());
        self.0.server_streaming(request, path, codec).await.unwrap().into_inner()
    }
}

fn acquire(lock: &str, session: &str) -> Acquire {
    Acquire { lock: lock.to_owned(), session: session.to_owned(), r#try: true, wait_ms: None }
}

/// Runs a scenario against a node of one site.
fn with_api<F: Future<Output = ()>>(scenario: impl FnOnce(Client) -> F) {
    let site: meshlock_cluster::names::SiteName = "local".parse().unwrap();
    let engine = Engine::start(NodeSetup::new(Config::new(site.clone(), vec![site]))).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let setup = meshlock_service::ApiSetup { listener, limits: ApiLimits::default() };
    let serving = Serving::start(&Front::new((*engine).clone(), Arc::default()), setup).unwrap();
    let endpoint = Endpoint::from_shared(format!("http://{}", serving.address())).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(in_time("the scenario ends", async {
        scenario(Client(Grpc::new(endpoint.connect().await.unwrap()))).await;
    }));
}

#[test]
fn locks_are_acquired_refused_and_released() {
    with_api(|mut client| async move {
        // The first call waits until the node is ready.
        let first = Acquire { r#try: false, ..acquire("jobs", "") };
        let held: Grant = client.call("/meshlock.v1.Locks/Acquire", first).await.unwrap();
        assert!(held.fence > 0 && !held.session.is_empty());
        let busy =
            client.call::<_, Grant>("/meshlock.v1.Locks/Acquire", acquire("jobs", "")).await.unwrap_err();
        assert_eq!(
            (busy.code(), busy.metadata().get("meshlock-code").unwrap().to_str().unwrap()),
            (Code::Aborted, "busy")
        );
        let release = Release { lock: "jobs".to_owned(), session: held.session };
        client.call::<_, Empty>("/meshlock.v1.Locks/Release", release.clone()).await.unwrap();
        let again = client.call::<_, Empty>("/meshlock.v1.Locks/Release", release).await.unwrap_err();
        assert_eq!(again.code(), Code::NotFound);
        let next: Grant = client.call("/meshlock.v1.Locks/Acquire", acquire("jobs", "")).await.unwrap();
        assert!(next.fence > held.fence);
    });
}

#[test]
fn a_lock_that_is_held_by_a_call_is_seen_and_ends_with_the_call() {
    with_api(|mut client| async move {
        let mut hold: Streaming<HoldEvent> = client.stream("/meshlock.v1.Locks/Hold", "jobs").await;
        let granted = hold.message().await.unwrap().unwrap().granted.unwrap();
        let mut watch: Streaming<Holders> = client.stream("/meshlock.v1.Locks/Watch", "jobs").await;
        let seen = watch.message().await.unwrap().unwrap();
        assert_eq!((seen.holders.len(), seen.holders[0].fence), (1, granted.fence));
        drop(hold);
        let deadline = Deadline::default();
        while !watch.message().await.unwrap().unwrap().holders.is_empty() {
            deadline.check("the watch shows that nobody holds the lock");
        }
    });
}

#[test]
fn an_unknown_call_is_refused_with_the_calls_that_exist() {
    with_api(|mut client| async move {
        for path in ["/meshlock.v1.Locks/Fly", "/etcdserverpb.Auth/UserAdd", "/etcdserverpb.KV/Compact"] {
            let refused = client.call::<_, Empty>(path, Empty {}).await.unwrap_err();
            assert_eq!(refused.code(), Code::Unimplemented, "{path}");
            assert!(refused.message().starts_with("Meshlock keeps locks, not data"), "{path}: {refused:?}");
        }
    });
}

#[test]
fn locks_are_listed_page_by_page_and_what_happens_to_them_is_told() {
    with_api(|mut client| async move {
        // The only field of the request is its first one, as that of a lock.
        let mut changes: Streaming<LockChanges> = client.stream("/meshlock.v1.Locks/WatchLocks", "").await;
        let begun = in_time("the watch begins", changes.message()).await.unwrap().unwrap();
        assert_eq!(begun, LockChanges { changes: Vec::new(), missed: 0 });
        let held: Grant = client.call("/meshlock.v1.Locks/Acquire", acquire("b", "")).await.unwrap();
        let _: Grant = client.call("/meshlock.v1.Locks/Acquire", acquire("a", "")).await.unwrap();
        let told = in_time("it is told", changes.message()).await.unwrap().unwrap();
        let expected = LockChange { lock: "b".to_owned(), change: "acquired".to_owned(), fence: held.fence };
        assert_eq!(told.changes[0], expected);
        let list = |after: &str| ListLocks { pattern: String::new(), after: after.to_owned(), limit: 1 };
        let first: LockPage = client.call("/meshlock.v1.Locks/ListLocks", list("")).await.unwrap();
        assert_eq!((first.locks[0].lock.as_str(), first.next.as_str()), ("a", "a"));
        let second: LockPage = client.call("/meshlock.v1.Locks/ListLocks", list("a")).await.unwrap();
        let [lock] = &second.locks[..] else { panic!("one lock: {second:?}") };
        assert_eq!(
            (lock.lock.as_str(), lock.mode.as_str(), lock.holders[0].fence),
            ("b", "exclusive", held.fence)
        );
        assert_eq!(second.next, "");
    });
}
