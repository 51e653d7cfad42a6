//! Malformed requests for every call of every API: nothing panics, refusals are client errors, and nothing grows
//! beyond its limits. Calls that would wait are dropped, like calls of clients that go away.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use meshlock_cluster::access::Pace;
use meshlock_wire::fuzz;
use prost::Message;

use super::super::routes::ROUTES;
use super::*;
use crate::proto::etcdserverpb::{
    Compare, LeaseGrantRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, compare, request_op,
};
use crate::proto::meshlock::{AcquireRequest, HoldRequest, LockRequest};
use crate::proto::v3lockpb::LockRequest as EtcdLock;

/// Number of mutated requests for each call, unless `MESHLOCK_FUZZ_CASES` is set. They are drawn from `MESHLOCK_FUZZ_SEED`, or 0.
const CASES: usize = 150;

/// How often a call is polled before its client goes away.
const LOOKS: usize = 40;

/// Typical JSON bodies.
const JSON: &[&str] = &[
    "{}",
    r#"{"name":"YQ==","lease":7587848390789}"#,
    r#"{"ID":"5","TTL":"60"}"#,
    r#"{"lock":"a","session":"5","try":true,"wait_ms":0,"permits":2,"ttl_ms":500,"label":"me"}"#,
    r#"{"compare":[{"target":"CREATE","key":"YS81","createRevision":"0"}],"success":[{"requestPut":{"key":"YS81","lease":"5"}}],"failure":[{"requestRange":{"key":"YS81"}}]}"#,
    r#"{"create_request":{"key":"YS8=","range_end":"YTA=","start_revision":"1"}}"#,
    r#"{"rules":[{"pattern":"a*","algorithm":"maekawa","permits":1}],"default":{"algorithm":"naimi-trehel"}}"#,
    r#"{"Limit":2,"Holders":{"1b2d71dd-acfd-8a22-8700-6d6573686c6b":true}}"#,
    r#"{"Name":"n","TTL":"15s","LockDelay":"15s","Behavior":"delete","Checks":["serfHealth"]}"#,
    r#"{"key":"YQ==","range_end":"Yg==","max_create_revision":"9223372036854775807","sort_order":"DESCEND"}"#,
];

/// Typical keys of Consul's API with query parameters.
const CONSUL: [&str; 6] = [
    "a",
    "a?acquire=1b2d71dd-acfd-8a22-8700-6d6573686c6b&flags=7",
    "a/.lock?cas=0",
    "%F0?release=x",
    "a?recurse&index=1&wait=1s",
    "a/1b2d71dd-acfd-8a22-8700-6d6573686c6b?cas=%00",
];

/// Typical gRPC messages, framed: a compression flag, the length, the message.
fn messages() -> Vec<Vec<u8>> {
    let (key, lease) = (b"a/5".to_vec(), 5);
    let txn = TxnRequest {
        compare: vec![Compare {
            key: key.clone(),
            target: 1,
            target_union: Some(compare::TargetUnion::CreateRevision(0)),
            ..Compare::default()
        }],
        success: vec![RequestOp {
            request: Some(request_op::Request::RequestPut(PutRequest {
                key: key.clone(),
                lease,
                ..PutRequest::default()
            })),
        }],
        failure: vec![RequestOp {
            request: Some(request_op::Request::RequestRange(RangeRequest {
                key: key.clone(),
                ..RangeRequest::default()
            })),
        }],
    };
    let lock = || "a".to_owned();
    let all = [
        txn.encode_to_vec(),
        EtcdLock { name: b"a".to_vec(), lease }.encode_to_vec(),
        LeaseGrantRequest { ttl: 60, id: lease }.encode_to_vec(),
        RangeRequest { key: b"a/".to_vec(), range_end: b"a0".to_vec(), ..RangeRequest::default() }
            .encode_to_vec(),
        AcquireRequest {
            lock: lock(),
            session: "5".to_owned(),
            permits: Some(2),
            ..AcquireRequest::default()
        }
        .encode_to_vec(),
        HoldRequest { lock: lock(), r#try: true, ..HoldRequest::default() }.encode_to_vec(),
        LockRequest { lock: lock() }.encode_to_vec(),
    ];
    let framed = |message: Vec<u8>| {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        [&[0], &length[..], &message].concat()
    };
    all.map(framed).to_vec()
}

/// Polls a call a few times. The node answers on the caller's own thread, so most calls need no more.
async fn briefly<T>(call: impl Future<Output = T>) -> Option<T> {
    let mut call = pin!(call);
    for _ in 0..LOOKS {
        let looked: Poll<T> = Pin::as_mut(&mut call).poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(came) = looked {
            return Some(came);
        }
        tokio::task::yield_now().await;
    }
    None
}

#[test]
fn no_request_brings_the_server_down_or_makes_it_keep_more_than_it_may() {
    async_test(async {
        let pace = Pace { rate: 1_000_000, burst: 1_000_000 };
        let server = TestServer::with(&[("anyone", "*", &ALL)], &[], Each { pace, ..Each::default() });
        // Until the node is a member, some calls correctly fail with a server error.
        in_time("the node is a member", server.sessions.front().node().until(|state| state.open)).await;
        let json: Vec<Vec<u8>> = JSON.iter().map(|text| text.as_bytes().to_vec()).collect();
        let cases = std::env::var("MESHLOCK_FUZZ_CASES").map_or(CASES, |text| text.parse().unwrap());
        let round: u64 = std::env::var("MESHLOCK_FUZZ_SEED").map_or(0, |text| text.parse().unwrap());
        let (mut answered, mut refused) = (0, 0);
        for (seed, (method, path, _)) in ROUTES.iter().enumerate() {
            let is_grpc = path.rsplit_once('/').is_some_and(|(service, _)| service.contains('.'));
            let (kind, models) =
                if is_grpc { ("application/grpc", messages()) } else { ("application/json", json.clone()) };
            let mut inputs = Vec::new();
            fuzz::drive(&models, round << 32 | seed as u64, cases, |bytes| inputs.push(bytes.to_vec()));
            for (at, bytes) in inputs.into_iter().enumerate() {
                let path = path
                    .replace("{lock}", ["a", "%00", "b%2Fc", "%F0"][at % 4])
                    .replace("{session}", ["5", "x"][at % 2])
                    .replace("{*key}", CONSUL[at % CONSUL.len()]);
                let request = Request::builder().method(*method).uri(&path).header("content-type", kind);
                let mut request = request.body(Body::from(bytes)).unwrap();
                request.extensions_mut().insert(RemoteClient::unknown());
                let Some(response) = briefly(server.router.clone().call(request)).await else { continue };
                let (parts, body) = response.unwrap().into_parts();
                // etcd's gateway answers with a server error for unknown leases, and Consul for unknown sessions.
                let may_fail =
                    ["/v3/", "/v1/kv/", "/v1/session/"].iter().any(|start| path.starts_with(start));
                assert!(may_fail || !parts.status.is_server_error(), "{method} {path}: {}", parts.status);
                if parts.status.is_success() {
                    answered += 1;
                } else {
                    refused += 1;
                }
                let _ = briefly(to_bytes(body, 1 << 20)).await;
            }
        }
        assert!(answered > 1000 && refused > 1000, "{answered} answered, {refused} refused");
        let limits = ApiLimits::default();
        let (leases, keys) = server.sessions.registry().counts();
        assert!(leases <= limits.sessions && keys <= limits.keys, "{leases} sessions, {keys} keys");
    });
}
