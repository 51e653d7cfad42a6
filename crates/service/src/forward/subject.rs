//! What a request is about, and so which site has to execute it: pure. Whatever is not listed here is executed where it arrives.

use axum::http::Method;
use meshlock_cluster::names::SiteName;
use meshlock_wire::sites::calls::CallSubject;
use prost::Message;
use serde::de::DeserializeOwned;

use super::messages::grpc_message;
use crate::consul;
use crate::etcd;
use crate::proto::etcdserverpb::{
    DeleteRangeRequest, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, LeaseTimeToLiveRequest,
    RangeRequest, TxnRequest,
};
use crate::proto::meshlock::{AcquireRequest, ReleaseRequest, SessionRequest};
use crate::proto::v3electionpb::{CampaignRequest, LeaderKey, ProclaimRequest, ResignRequest};
use crate::proto::v3lockpb::{LockRequest, UnlockRequest};

/// How the request says what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forwardable {
    // etcd
    Lock,
    Unlock,
    Campaign,
    Proclaim,
    Resign,
    LeaseGrant,
    LeaseRevoke,
    LeaseTimeToLive,
    LeaseKeepAlive,
    Range,
    DeleteRange,
    Txn,
    // Consul
    ConsulSession,
    ConsulNode,
    ConsulKey,
    // our own API
    Session,
    Acquire,
    Release,
}

/// Calls with the same path in gRPC and as JSON, by the two paths. The newer versions of etcd's clients use the first of the latter.
const MESSAGES: &[(&str, &str, Forwardable)] = &[
    ("/v3lockpb.Lock/Lock", "/v3/lock/lock", Forwardable::Lock),
    ("/v3lockpb.Lock/Unlock", "/v3/lock/unlock", Forwardable::Unlock),
    ("/v3electionpb.Election/Campaign", "/v3/election/campaign", Forwardable::Campaign),
    ("/v3electionpb.Election/Proclaim", "/v3/election/proclaim", Forwardable::Proclaim),
    ("/v3electionpb.Election/Resign", "/v3/election/resign", Forwardable::Resign),
    ("/etcdserverpb.Lease/LeaseGrant", "/v3/lease/grant", Forwardable::LeaseGrant),
    ("/etcdserverpb.Lease/LeaseRevoke", "/v3/lease/revoke", Forwardable::LeaseRevoke),
    ("/etcdserverpb.Lease/LeaseRevoke", "/v3/kv/lease/revoke", Forwardable::LeaseRevoke),
    ("/etcdserverpb.Lease/LeaseTimeToLive", "/v3/lease/timetolive", Forwardable::LeaseTimeToLive),
    ("/etcdserverpb.Lease/LeaseTimeToLive", "/v3/kv/lease/timetolive", Forwardable::LeaseTimeToLive),
    ("/etcdserverpb.KV/Range", "/v3/kv/range", Forwardable::Range),
    ("/etcdserverpb.KV/DeleteRange", "/v3/kv/deleterange", Forwardable::DeleteRange),
    ("/etcdserverpb.KV/Txn", "/v3/kv/txn", Forwardable::Txn),
    ("/meshlock.v1.Locks/GetSession", "", Forwardable::Session),
    ("/meshlock.v1.Locks/KeepAlive", "", Forwardable::Session),
    ("/meshlock.v1.Locks/EndSession", "", Forwardable::Session),
    ("/meshlock.v1.Locks/Acquire", "", Forwardable::Acquire),
    ("/meshlock.v1.Locks/Release", "", Forwardable::Release),
];

/// The path of etcd's keep-alive. As a stream of gRPC it is not forwarded whole, but message by message, each as a stream of one.
pub(crate) const KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";

/// Returns how a request says what it is about, if it may be one for another site.
pub(super) fn forwardable(path: &str) -> Option<Forwardable> {
    // etcd's earlier names of the same paths.
    let renamed = ["/v3beta/", "/v3alpha/"].iter().find_map(|old| path.strip_prefix(old));
    let renamed = renamed.map(|rest| format!("/v3/{rest}"));
    let path = renamed.as_deref().unwrap_or(path);
    let listed = MESSAGES.iter().find(|(grpc, json, _)| *grpc == path || *json == path);
    if let Some((_, _, kind)) = listed.filter(|_| !path.is_empty()) {
        return Some(*kind);
    }
    let (kind, rest) = [
        ("/v3/lease/keepalive", Forwardable::LeaseKeepAlive),
        ("/v1/session/destroy/", Forwardable::ConsulSession),
        ("/v1/session/renew/", Forwardable::ConsulSession),
        ("/v1/session/info/", Forwardable::ConsulSession),
        ("/v1/session/node/", Forwardable::ConsulNode),
        ("/v1/kv/", Forwardable::ConsulKey),
        ("/v1/sessions/", Forwardable::Session),
        ("/v1/locks/", Forwardable::Acquire),
    ]
    .into_iter()
    .find_map(|(start, kind)| Some((kind, path.strip_prefix(start)?)))?;
    let is_lock = kind == Forwardable::Acquire;
    match rest.rsplit_once('/') {
        Some((_, "acquire")) if is_lock => Some(Forwardable::Acquire),
        Some((_, "release")) if is_lock => Some(Forwardable::Release),
        Some(_) | None if is_lock => None,
        Some(_) | None => Some(kind),
    }
}

/// Returns whether a request at this path may be executed for another site.
pub(super) fn is_executed(path: &str) -> bool {
    path == KEEP_ALIVE || path == etcd::LEASES || forwardable(path).is_some()
}

/// Returns whether a call changes something, and so has a line in the audit log.
pub(super) fn is_audited(kind: Forwardable, method: &Method, path: &str) -> bool {
    match kind {
        Forwardable::LeaseTimeToLive | Forwardable::LeaseKeepAlive | Forwardable::Range => false,
        Forwardable::Session => {
            !path.ends_with("/keep-alive") && !path.ends_with("/KeepAlive") && *method != Method::GET
        }
        Forwardable::ConsulSession => !path.starts_with("/v1/session/renew/") && *method != Method::GET,
        Forwardable::ConsulKey | Forwardable::ConsulNode => *method != Method::GET,
        Forwardable::Lock
        | Forwardable::Unlock
        | Forwardable::Campaign
        | Forwardable::Proclaim
        | Forwardable::Resign
        | Forwardable::LeaseGrant
        | Forwardable::LeaseRevoke
        | Forwardable::DeleteRange
        | Forwardable::Txn
        | Forwardable::Acquire
        | Forwardable::Release => true,
    }
}

/// A request whose body was read.
pub(super) struct WholeRequest<'a> {
    pub(super) method: &'a Method,
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    pub(super) is_grpc: bool,
    pub(super) body: &'a [u8],
}

impl WholeRequest<'_> {
    /// Reads the message of a call. What cannot be read is left to the handler, which says why.
    fn message<Q: Message + Default + DeserializeOwned>(&self) -> Option<Q> {
        if self.is_grpc {
            return Q::decode(grpc_message(self.body)?).ok();
        }
        if self.body.is_empty() { Some(Q::default()) } else { serde_json::from_slice(self.body).ok() }
    }

    /// Returns the last part of the path, as it was meant.
    fn last_of_path(&self, start: &str) -> Option<String> {
        let rest = self.path.strip_prefix(start)?;
        let rest = rest.split('/').next()?;
        consul::percent_decoded(rest)
    }
}

fn lease(number: i64) -> Option<CallSubject> {
    (number > 0).then_some(CallSubject::Lease(number))
}

fn own_session(session: &str) -> Option<CallSubject> {
    lease(i64::from_str_radix(session, 16).ok()?)
}

fn leader(leader: Option<LeaderKey>) -> Option<CallSubject> {
    let LeaderKey { key, lease: number, .. } = leader?;
    lease(number).or_else(|| (!key.is_empty()).then_some(CallSubject::Key(key)))
}

/// Returns what a request is about, and the site that it names, if it names one.
pub(super) fn subject(
    kind: Forwardable,
    request: &WholeRequest<'_>,
) -> Option<(CallSubject, Option<SiteName>)> {
    let key = |key: Vec<u8>| (!key.is_empty()).then_some(CallSubject::Key(key));
    let subject = match kind {
        Forwardable::Lock => lease(request.message::<LockRequest>()?.lease),
        Forwardable::Unlock => key(request.message::<UnlockRequest>()?.key),
        Forwardable::Campaign => lease(request.message::<CampaignRequest>()?.lease),
        Forwardable::Proclaim => leader(request.message::<ProclaimRequest>()?.leader),
        Forwardable::Resign => leader(request.message::<ResignRequest>()?.leader),
        // A number that another site has granted is taken: that site says so.
        Forwardable::LeaseGrant => lease(request.message::<LeaseGrantRequest>()?.id),
        Forwardable::LeaseRevoke => lease(request.message::<LeaseRevokeRequest>()?.id),
        Forwardable::LeaseTimeToLive => lease(request.message::<LeaseTimeToLiveRequest>()?.id),
        Forwardable::LeaseKeepAlive => lease(request.message::<LeaseKeepAliveRequest>()?.id),
        Forwardable::Range => etcd::subject_of_range(request.message::<RangeRequest>()?),
        Forwardable::DeleteRange => {
            let DeleteRangeRequest { key: name, range_end, .. } = request.message()?;
            key(name).filter(|_| range_end.is_empty())
        }
        Forwardable::Txn => etcd::subject_of_txn(request.message::<TxnRequest>()?),
        Forwardable::ConsulSession => {
            let start = request.path.rsplit_once('/').map(|(start, _)| format!("{start}/"))?;
            lease(consul::lease_of(&request.last_of_path(&start)?)?)
        }
        Forwardable::ConsulNode => {
            let node: SiteName = request.last_of_path("/v1/session/node/")?.parse().ok()?;
            return Some((CallSubject::Site, Some(node)));
        }
        Forwardable::ConsulKey => {
            let name = consul::percent_decoded(request.path.strip_prefix("/v1/kv/")?)?;
            consul::subject_of_key(request.method, &name, request.query)
        }
        Forwardable::Session if request.is_grpc => own_session(&request.message::<SessionRequest>()?.session),
        Forwardable::Session => own_session(&request.last_of_path("/v1/sessions/")?),
        Forwardable::Acquire => own_session(&request.message::<AcquireRequest>()?.session),
        Forwardable::Release => own_session(&request.message::<ReleaseRequest>()?.session),
    };
    subject.map(|subject| (subject, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::messages::grpc_request;

    fn of(method: &str, target: &str, body: &str) -> Option<CallSubject> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = WholeRequest { method: &method, path, query, is_grpc: false, body: body.as_bytes() };
        subject(forwardable(path)?, &request).map(|(subject, _)| subject)
    }

    fn of_grpc(path: &str, message: &impl Message) -> Option<CallSubject> {
        let body = grpc_request(path, message).body;
        let request = WholeRequest { method: &Method::POST, path, query: "", is_grpc: true, body: &body };
        subject(forwardable(path)?, &request).map(|(subject, _)| subject)
    }

    #[expect(clippy::unnecessary_wraps, reason = "it is compared with an optional one")]
    fn key(name: &str) -> Option<CallSubject> {
        Some(CallSubject::Key(name.as_bytes().to_vec()))
    }

    #[test]
    fn calls_of_etcd_are_about_a_lease_or_a_key() {
        let lease = Some(CallSubject::Lease(77));
        assert_eq!(of("POST", "/v3/lock/lock", r#"{"name":"am9icw==","lease":"77"}"#), lease);
        assert_eq!(of("POST", "/v3beta/lock/lock", r#"{"name":"am9icw==","lease":"77"}"#), lease);
        assert_eq!(of("POST", "/v3/lease/keepalive", r#"{"ID":"77"}"#), lease);
        assert_eq!(of("POST", "/v3/lease/grant", r#"{"TTL":"10"}"#), None, "it has no number yet");
        let lock = LockRequest { name: b"jobs".to_vec(), lease: 77 };
        assert_eq!(of_grpc("/v3lockpb.Lock/Lock", &lock), lease);
        assert_eq!(
            of_grpc("/v3lockpb.Lock/Unlock", &UnlockRequest { key: b"jobs/4d".to_vec() }),
            key("jobs/4d")
        );
        assert_eq!(of_grpc("/v3lockpb.Lock/Lock", &LockRequest { lease: 0, ..lock }), None);
    }

    #[test]
    fn reads_are_about_a_key_with_a_lease_or_about_who_asks() {
        let whole = "am9icy8xYjJkNzFkZGFjZmRhMjI3";
        assert_eq!(
            of("POST", "/v3/kv/range", &format!(r#"{{"key":"{whole}"}}"#)),
            key("jobs/1b2d71ddacfda227")
        );
        // `jobs/` to `jobs0`.
        let range = r#"{"key":"am9icy8=","range_end":"am9iczA=","max_create_revision":"6"}"#;
        let created = CallSubject::Created { lock: "jobs".parse().unwrap(), revision: 7 };
        assert_eq!(of("POST", "/v3/kv/range", range), Some(created));
        assert_eq!(of("POST", "/v3/kv/range", r#"{"key":"am9icy8=","range_end":"am9iczA="}"#), None);
        assert_eq!(
            of("POST", "/v3/kv/range", r#"{"key":"am9icw=="}"#),
            None,
            "any site can say who holds it"
        );
    }

    #[test]
    fn calls_of_consul_and_our_own_are_about_their_session() {
        let session = "1b2d71dd-acfd-8a22-8700-6d6573686c6b";
        let lease = Some(CallSubject::Lease(0x1b2d_71dd_acfd_a227));
        for (method, target) in [
            ("PUT", format!("/v1/session/renew/{session}")),
            ("PUT", format!("/v1/session/destroy/{session}?dc=1")),
            ("PUT", format!("/v1/kv/jobs?acquire={session}&flags=7")),
            ("PUT", format!("/v1/kv/a%2Fb/c?release={session}")),
            ("GET", format!("/v1/kv/pool/{session}")),
            ("DELETE", "/v1/sessions/1b2d71ddacfda227".to_owned()),
            ("POST", "/v1/sessions/1b2d71ddacfda227/keep-alive".to_owned()),
        ] {
            assert_eq!(of(method, &target, ""), lease, "{method} {target}");
        }
        assert_eq!(of("DELETE", "/v1/kv/jobs", ""), Some(CallSubject::Lock("jobs".parse().unwrap())));
        assert_eq!(of("GET", "/v1/kv/jobs", ""), None);
        assert_eq!(of("PUT", "/v1/session/create", ""), None);
        let body = r#"{"session":"1b2d71ddacfda227"}"#;
        assert_eq!(of("POST", "/v1/locks/a%2Fb/acquire", body), lease);
        assert_eq!(of("POST", "/v1/locks/jobs/release", body), lease);
        assert_eq!(of("POST", "/v1/locks/jobs/break", body), None);
        assert_eq!(of("POST", "/v1/locks/jobs/acquire", "{}"), None, "it makes a session");
    }

    #[test]
    fn nonsense_is_about_nothing() {
        for target in
            ["/v3/lock/lock", "/v3/kv/txn", "/v1/kv/", "/v1/kv/%zz?acquire=x", "/v1/sessions/x", "/"]
        {
            assert_eq!(of("POST", target, "{"), None, "{target}");
        }
        let compressed = [&[1, 0, 0, 0, 0][..], b""].concat();
        let request =
            WholeRequest { method: &Method::POST, path: "", query: "", is_grpc: true, body: &compressed };
        assert_eq!(subject(Forwardable::Lock, &request), None);
        assert!(!is_executed("/meshlock.v1.Locks/SetRules") && !is_executed("/v1/session/create"));
        assert!(is_executed(KEEP_ALIVE) && !is_executed(""));
    }
}
