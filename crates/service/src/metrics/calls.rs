//! Counts API calls by service and code. Both come from fixed sets, whatever clients send.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use tonic::Code;

use super::page::Labels;
use crate::server::is_grpc;
use crate::sessions::Sessions;

/// The gRPC services that are served, or that etcd's clients ask for.
const GRPC: &[&str] = &[
    "meshlock.v1.Locks",
    "v3lockpb.Lock",
    "v3electionpb.Election",
    "etcdserverpb.KV",
    "etcdserverpb.Lease",
    "etcdserverpb.Watch",
    "etcdserverpb.Maintenance",
    "etcdserverpb.Auth",
    "etcdserverpb.Cluster",
];

/// Services of HTTP paths by prefix; a longer prefix comes before its beginning.
const HTTP: &[(&str, &str)] = &[
    ("/v1/sessions", "http"),
    ("/v1/locks", "http"),
    ("/v1/rules", "http"),
    ("/v1/status/", "consul"),
    ("/v1/status", "http"),
    ("/v1/", "consul"),
    ("/v3", "etcd_gateway"),
    ("/metrics", "operator"),
    ("/healthz", "operator"),
    ("/readyz", "operator"),
    ("/openapi.json", "operator"),
];

/// The service of all other paths.
const OTHER: &str = "other";

/// Result of a call: a gRPC code or an HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CallOutcome {
    Grpc(i32),
    Http(u16),
}

/// Number of calls by service and result.
#[derive(Debug, Default)]
pub(super) struct Calls(Mutex<BTreeMap<(&'static str, CallOutcome), u64>>);

impl Calls {
    fn add(&self, service: &'static str, out: CallOutcome) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *calls.entry((service, out)).or_default() += 1;
    }

    pub(super) fn counts(&self) -> Vec<(Labels, u64)> {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let labels = |service: &str, out: CallOutcome| {
            let code = match out {
                CallOutcome::Grpc(code) => format!("{:?}", Code::from(code)),
                CallOutcome::Http(status) => status.to_string(),
            };
            vec![("service", service.to_owned()), ("code", code)]
        };
        calls.iter().map(|(&(service, out), &count)| (labels(service, out), count)).collect()
    }
}

/// Counts a call when its answer begins. A streaming call counts as successful at that point.
pub(crate) async fn count(State(sessions): State<Sessions>, request: Request, next: Next) -> Response {
    let (is_grpc, service) = (is_grpc(request.headers()), service(request.uri().path()));
    let response = next.run(request).await;
    let status = response.headers().get("grpc-status");
    let code = status.and_then(|status| status.to_str().ok()?.parse().ok()).unwrap_or(0);
    let out = if is_grpc { CallOutcome::Grpc(code) } else { CallOutcome::Http(response.status().as_u16()) };
    sessions.meter().calls.add(service, out);
    response
}

fn service(path: &str) -> &'static str {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    if let Some(service) = GRPC.iter().find(|service| **service == first) {
        return service;
    }
    HTTP.iter().find(|(start, _)| path.starts_with(start)).map_or(OTHER, |(_, service)| service)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_belongs_to_the_service_that_answers_it_and_nonsense_to_none() {
        assert_eq!(service("/meshlock.v1.Locks/Acquire"), "meshlock.v1.Locks");
        assert_eq!(service("/etcdserverpb.Lease/LeaseGrant"), "etcdserverpb.Lease");
        assert_eq!(service("/v1/locks/jobs/acquire"), "http");
        assert_eq!((service("/v1/status"), service("/v1/status/leader")), ("http", "consul"));
        assert_eq!(service("/v1/kv/lock?acquire=1"), "consul");
        assert_eq!(service("/v3/lock/lock"), "etcd_gateway");
        assert_eq!(service("/metrics"), "operator");
        assert_eq!((service("/made/up"), service("")), (OTHER, OTHER));
    }

    #[test]
    fn codes_have_the_names_that_grpc_gives_them() {
        let calls = Calls::default();
        calls.add("v3lockpb.Lock", CallOutcome::Grpc(10));
        calls.add("http", CallOutcome::Http(409));
        let codes: Vec<String> = calls.counts().into_iter().map(|(labels, _)| labels[1].1.clone()).collect();
        assert_eq!(codes, ["409", "Aborted"]);
    }
}
