//! What clients of etcd's API are told about their time, and at the end of the service: over gRPC, with etcd's field numbers.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included: what fails must stop them")]

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use axum::http::uri::PathAndQuery;
use meshlock_cluster::lease::Terms;
use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::Config;
use meshlock_cluster::table::Wait;
use meshlock_cluster::time::Span;
use meshlock_host::front::{AcquireParams, AcquireState, Ended, Front, NotGranted, Owner};
use meshlock_host::{Engine, NodeSetup};
use meshlock_service::{ApiLimits, Serving};
use meshlock_system::now;
use meshlock_testing::{Deadline, eventually_async, in_time};
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

/// `LeaseGrantRequest`.
#[derive(Clone, PartialEq, Message)]
struct GrantRequest {
    #[prost(int64, tag = "1")]
    ttl: i64,
}

/// `LeaseGrantResponse`, and `LeaseKeepAliveResponse`.
#[derive(Clone, PartialEq, Message)]
struct Lease {
    #[prost(int64, tag = "2")]
    id: i64,
    #[prost(int64, tag = "3")]
    ttl: i64,
}

/// `LeaseTimeToLiveResponse`.
#[derive(Clone, PartialEq, Message)]
struct TimeToLive {
    #[prost(int64, tag = "3")]
    ttl: i64,
    #[prost(int64, tag = "4")]
    granted: i64,
}

/// `LeaseKeepAliveRequest`, `LeaseTimeToLiveRequest`.
#[derive(Clone, PartialEq, Message)]
struct LeaseRequest {
    #[prost(int64, tag = "1")]
    id: i64,
}

#[derive(Clone, PartialEq, Message)]
struct LockRequest {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(int64, tag = "2")]
    lease: i64,
}

#[derive(Clone, PartialEq, Message)]
struct LockResponse {
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Create {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    create: Option<Create>,
}

#[derive(Clone, PartialEq, Message)]
struct WatchResponse {
    #[prost(bool, tag = "3")]
    created: bool,
}

#[derive(Clone)]
struct Client(Grpc<Channel>);

impl Client {
    async fn of(serving: &Serving) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{}", serving.address())).unwrap();
        Client(Grpc::new(endpoint.connect().await.unwrap()))
    }

    async fn call<Q, A>(&mut self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        self.0.ready().await.unwrap();
        let (path, codec) = (PathAndQuery::from_static(path), ProstCodec::<Q, A>::default());
        self.0.unary(Request::new(request), path, codec).await.map(tonic::Response::into_inner)
    }

    /// Opens a stream in both directions, with the metadata `hasleader` if the client wants one.
    async fn stream<Q, A>(
        &mut self,
        path: &'static str,
        needs_leader: bool,
    ) -> (mpsc::Sender<Q>, Streaming<A>)
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let (ask, asked) = mpsc::channel(16);
        let mut request = Request::new(ReceiverStream::new(asked));
        if needs_leader {
            request.metadata_mut().insert("hasleader", "true".parse().unwrap());
        }
        self.0.ready().await.unwrap();
        let (path, codec) = (PathAndQuery::from_static(path), ProstCodec::<Q, A>::default());
        (ask, self.0.streaming(request, path, codec).await.unwrap().into_inner())
    }

    async fn keep_alive(&mut self, needs_leader: bool) -> (mpsc::Sender<LeaseRequest>, Streaming<Lease>) {
        self.stream("/etcdserverpb.Lease/LeaseKeepAlive", needs_leader).await
    }

    async fn grant(&mut self, ttl: i64) -> Result<Lease, Status> {
        self.call("/etcdserverpb.Lease/LeaseGrant", GrantRequest { ttl }).await
    }

    async fn lock(&mut self, lease: i64) -> Result<LockResponse, Status> {
        self.call("/v3lockpb.Lock/Lock", LockRequest { name: b"jobs".to_vec(), lease }).await
    }
}

fn serve(engine: &Engine) -> (Front, Serving) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let setup = meshlock_service::ApiSetup { listener, limits: ApiLimits::default() };
    let front = Front::new((**engine).clone(), Arc::default());
    let serving = Serving::start(&front, setup).unwrap();
    (front, serving)
}

/// Starts the sites of a cluster.
fn sites(count: usize, terms: Terms) -> Vec<(Engine, Front, Serving)> {
    let names: Vec<SiteName> = (0..count).map(|at| format!("site-{at}").parse().unwrap()).collect();
    let listeners: Vec<TcpListener> =
        names.iter().map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
    let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap().to_string());
    let book: BTreeMap<SiteName, String> = names.iter().cloned().zip(addresses).collect();
    let start = |(name, listener): (&SiteName, TcpListener)| {
        let mut config = Config { terms, ..Config::new(name.clone(), names.clone()) };
        config.address = book[name].parse().unwrap();
        let mut setup = NodeSetup::new(config);
        (setup.listen, setup.addresses) = (Some(listener), book.clone());
        let engine = Engine::start(setup).unwrap();
        let (front, serving) = serve(&engine);
        (engine, front, serving)
    };
    names.iter().zip(listeners).map(start).collect()
}

fn run(scenario: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(in_time("the scenario ends", scenario));
}

#[test]
fn a_minute_is_asked_for_and_what_the_site_can_promise_is_told() {
    let sites = sites(1, Terms::default());
    let (_, front, serving) = &sites[0];
    run(async {
        let mut client = Client::of(serving).await;
        let granted = client.grant(60).await.unwrap();
        assert!((1..=2).contains(&granted.ttl), "{granted:?}");
        let short = client.grant(2).await.unwrap();
        assert!((1..=2).contains(&short.ttl), "{short:?}");
        let (ask, mut answers) = client.keep_alive(false).await;
        ask.send(LeaseRequest { id: granted.id }).await.unwrap();
        let told = answers.message().await.unwrap().unwrap();
        assert!((1..=2).contains(&told.ttl), "{told:?}");
        let left = front.lease_end().unwrap().since(now());
        assert!(Span::from_millis(u64::try_from(told.ttl).unwrap() * 1000) < left + Span::from_millis(100));
        let request = LeaseRequest { id: granted.id };
        let left: TimeToLive = client.call("/etcdserverpb.Lease/LeaseTimeToLive", request).await.unwrap();
        assert!((0..=2).contains(&left.ttl) && (0..=2).contains(&left.granted), "{left:?}");
    });
}

#[test]
fn who_keeps_a_lease_alive_is_told_without_asking_that_its_lock_was_taken_away() {
    let sites = sites(1, Terms::default());
    let (_, front, serving) = &sites[0];
    run(async {
        let mut client = Client::of(serving).await;
        let (lost, other) = (client.grant(60).await.unwrap().id, client.grant(60).await.unwrap().id);
        let (ask, mut answers) = client.keep_alive(false).await;
        for id in [lost, other] {
            ask.send(LeaseRequest { id }).await.unwrap();
            assert_eq!(answers.message().await.unwrap().unwrap().id, id);
        }
        client.lock(lost).await.unwrap();
        front.break_lock(&front.in_process(), "jobs".parse().unwrap()).await.unwrap();
        let told = answers.message().await.unwrap().unwrap();
        assert_eq!((told.id, told.ttl), (lost, 0));
        // The other one goes on.
        ask.send(LeaseRequest { id: other }).await.unwrap();
        let told = answers.message().await.unwrap().unwrap();
        assert!(told.id == other && told.ttl > 0, "{told:?}");
    });
}

#[test]
fn a_service_that_ends_says_so_to_all_and_gives_no_lock_away() {
    let mut sites = sites(1, Terms::default());
    let (_engine, front, serving) = sites.remove(0);
    run(async {
        let mut client = Client::of(&serving).await;
        let (first, second) = (client.grant(60).await.unwrap().id, client.grant(60).await.unwrap().id);
        let (ask, mut answers) = client.keep_alive(false).await;
        ask.send(LeaseRequest { id: first }).await.unwrap();
        assert!(answers.message().await.unwrap().unwrap().ttl > 0);
        client.lock(first).await.unwrap();
        let (watch, mut watched) = client.stream("/etcdserverpb.Watch/Watch", false).await;
        let create = Some(Create { key: b"jobs".to_vec() });
        watch.send(WatchRequest { create }).await.unwrap();
        assert!(watched.message().await.unwrap().map(|said: WatchResponse| said.created).unwrap());
        let mut waiting = client.clone();
        let waits = tokio::spawn(async move { waiting.lock(second).await });
        let is_waiting = || front.node().look(|node| node.table().counts().waiters) > 0;
        eventually_async("the other client waits", tokio::time::sleep, is_waiting).await;
        let lease_end = front.lease_end().unwrap();
        let stopped = tokio::task::spawn_blocking(move || drop(serving));
        let told = answers.message().await.unwrap().unwrap();
        assert_eq!((told.id, told.ttl), (first, 0));
        for status in [answers.message().await.unwrap_err(), watched.message().await.unwrap_err()] {
            assert_eq!((status.code(), status.message()), (Code::Unavailable, "etcdserver: server stopped"));
        }
        let refused = waits.await.unwrap().unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
        stopped.await.unwrap();
        // Nobody knows whether the holder has heard it, so that the lock stays taken for as long as the holder may believe in it.
        let take = |wait| {
            let (label, silence) = ("next".parse().unwrap(), None);
            let wanted = AcquireParams { lock: "jobs".parse().unwrap(), wait, permits: None, cause: None };
            front.acquire(&front.in_process(), Owner::Own { label, silence, party: None }, wanted, ())
        };
        let state = take(Wait::Try).until(|state| *state != AcquireState::Waiting).await;
        assert_eq!(state, AcquireState::Ended(Ended::NotGranted(NotGranted::Busy)));
        let state = take(Wait::Forever).until(|state| *state != AcquireState::Waiting).await;
        assert!(matches!(state, AcquireState::Held(_)), "{state:?}");
        assert!(now() >= lease_end, "it is free when the lease is over that the site had then");
    });
}

#[test]
fn what_is_told_shrinks_with_the_lease_and_streams_that_want_a_leader_end_with_it() {
    let [length, margin, renew_every] = [4000, 300, 500].map(Span::from_millis);
    let mut sites = sites(2, Terms { length, margin, renew_every, ..Terms::default() });
    let other = sites.pop().unwrap();
    let (engine, front, serving) = &sites[0];
    run(async {
        in_time("both take part", engine.until(|state| state.open && state.members == 2)).await;
        let mut client = Client::of(serving).await;
        let id = client.grant(60).await.unwrap().id;
        client.lock(id).await.unwrap();
        let (ask, mut answers) = client.keep_alive(true).await;
        let (_asks_nothing, mut patient) = client.keep_alive(false).await;
        let gone = tokio::task::spawn_blocking(move || drop(other));
        let (deadline, mut told) = (Deadline::default(), Vec::new());
        let end = loop {
            deadline.check("the site has no lease");
            let _ = ask.send(LeaseRequest { id }).await;
            match answers.message().await {
                Ok(Some(lease)) if lease.ttl > 0 => {
                    let until = now() + Span::from_millis(u64::try_from(lease.ttl).unwrap() * 1000);
                    let promised = front.lease_end().unwrap();
                    assert!(
                        until <= promised,
                        "told {} s when {:?} are left",
                        lease.ttl,
                        promised.since(now())
                    );
                    told.push(lease.ttl);
                }
                Ok(_) => {}
                Err(status) => break status,
            }
        };
        assert_eq!((end.code(), end.message()), (Code::Unavailable, "etcdserver: no leader"));
        assert!(told.contains(&2) && told.contains(&1), "{told:?}");
        gone.await.unwrap();
        // It has renewed nothing, so that there is nothing to tell it.
        let more = tokio::time::timeout(std::time::Duration::ZERO, patient.message()).await;
        assert!(more.is_err(), "a stream that does not ask for a leader goes on: {more:?}");
    });
}

#[test]
fn a_cluster_whose_leases_are_too_short_for_seconds_says_so() {
    let [length, margin, renew_every] = [1500, 100, 250].map(Span::from_millis);
    let sites = sites(1, Terms { length, margin, renew_every, ..Terms::default() });
    run(async {
        let refused = Client::of(&sites[0].2).await.grant(60).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        let why = "meshlock: this cluster's leases are too short for an API that counts in whole seconds: lease.length (1500 ms)";
        assert!(refused.message().starts_with(why), "{refused:?}");
    });
}
