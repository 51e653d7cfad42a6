//! The right that each call requires: every HTTP route and every gRPC method, in one place. What is not listed is not
//! served.
//!
//! This is the first of two checks, before a request is read: whether the caller has the right for any lock at all.
//! The second check, with the name of the lock, is made by [sessions](crate::sessions), which all calls use.

use meshlock_cluster::access::Verb;
use meshlock_cluster::access::Verb::{Acquire, Admin, Break, Watch};

/// What a call requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing: the call reveals nothing about locks and changes nothing.
    Nothing,
    /// Nothing, and with a rate limit of its own: whether the site is alive or ready.
    Probe,
    /// Any right: which one exactly depends on the request.
    Something,
    Right(Verb),
    /// The right to acquire. Renewals have a rate limit of their own.
    Renewal,
    /// The right to acquire, or a session here: who has lost its right may still release what it holds. What only gives
    /// back is never refused because of the rate limit.
    Release,
    /// The same for calls that may release a lock or acquire one, such as Consul's keys. They count as requests, because
    /// which one it is shows only when they are read.
    AcquireOrRelease,
    /// The same for calls that may do anything, such as transactions: any right, or a session here.
    SomethingOrRelease,
}

impl Need {
    /// Returns whether the call may release what the caller holds.
    pub(super) fn may_release(self) -> bool {
        matches!(self, Release | AcquireOrRelease | SomethingOrRelease)
    }

    /// Returns whether everyone may make the call.
    pub(super) fn is_nothing(self) -> bool {
        matches!(self, Nothing | Probe)
    }
}

use Need::{AcquireOrRelease, Nothing, Probe, Release, Renewal, Right, Something, SomethingOrRelease};

/// Method, path and requirement. A gRPC method is a POST to its path.
pub(super) const ROUTES: &[(&str, &str, Need)] = &[
    ("GET", "/healthz", Probe),
    ("GET", "/readyz", Probe),
    // What etcd's clients ask first.
    ("GET", "/health", Probe),
    ("GET", "/version", Nothing),
    ("GET", "/openapi.json", Nothing),
    ("GET", "/metrics", Right(Watch)),
    // etcd's clients exchange a name and a password for a token first.
    ("POST", "/etcdserverpb.Auth/Authenticate", Nothing),
    ("POST", "/v3/auth/authenticate", Nothing),
    // Our own API as JSON.
    ("POST", "/v1/sessions", Right(Acquire)),
    ("GET", "/v1/sessions/{session}", Right(Acquire)),
    ("DELETE", "/v1/sessions/{session}", Release),
    ("POST", "/v1/sessions/{session}/keep-alive", Renewal),
    ("POST", "/v1/locks/{lock}/acquire", Right(Acquire)),
    ("POST", "/v1/locks/{lock}/release", Release),
    ("POST", "/v1/locks/{lock}/hold", Right(Acquire)),
    ("GET", "/v1/locks/{lock}/watch", Right(Watch)),
    ("GET", "/v1/locks/{lock}", Right(Watch)),
    ("POST", "/v1/locks/{lock}/break", Right(Break)),
    ("GET", "/v1/locks", Right(Watch)),
    ("GET", "/v1/changes", Right(Watch)),
    ("GET", "/v1/deadlocks", Right(Watch)),
    ("GET", "/v1/status", Something),
    ("GET", "/v1/rules", Right(Watch)),
    ("PUT", "/v1/rules", Right(Admin)),
    ("POST", "/v1/voters", Right(Admin)),
    // Our own API in gRPC.
    ("POST", "/meshlock.v1.Locks/OpenSession", Right(Acquire)),
    ("POST", "/meshlock.v1.Locks/GetSession", Right(Acquire)),
    ("POST", "/meshlock.v1.Locks/KeepAlive", Renewal),
    ("POST", "/meshlock.v1.Locks/EndSession", Release),
    ("POST", "/meshlock.v1.Locks/Acquire", Right(Acquire)),
    ("POST", "/meshlock.v1.Locks/Release", Release),
    ("POST", "/meshlock.v1.Locks/Hold", Right(Acquire)),
    ("POST", "/meshlock.v1.Locks/Watch", Right(Watch)),
    ("POST", "/meshlock.v1.Locks/Queue", Right(Watch)),
    ("POST", "/meshlock.v1.Locks/ListLocks", Right(Watch)),
    ("POST", "/meshlock.v1.Locks/WatchLocks", Right(Watch)),
    ("POST", "/meshlock.v1.Locks/ListDeadlocks", Right(Watch)),
    ("POST", "/meshlock.v1.Locks/Break", Right(Break)),
    ("POST", "/meshlock.v1.Locks/Status", Something),
    ("POST", "/meshlock.v1.Locks/GetRules", Right(Watch)),
    ("POST", "/meshlock.v1.Locks/SetRules", Right(Admin)),
    ("POST", "/meshlock.v1.Locks/ChangeVoters", Right(Admin)),
    // etcd's API in gRPC. Keys are read by clients that wait for a lock and by clients that watch one.
    ("POST", "/v3lockpb.Lock/Lock", Right(Acquire)),
    ("POST", "/v3lockpb.Lock/Unlock", Release),
    ("POST", "/etcdserverpb.Lease/LeaseGrant", Right(Acquire)),
    ("POST", "/etcdserverpb.Lease/LeaseRevoke", Release),
    ("POST", "/etcdserverpb.Lease/LeaseKeepAlive", Renewal),
    ("POST", "/etcdserverpb.Lease/LeaseTimeToLive", Right(Acquire)),
    ("POST", "/etcdserverpb.Lease/LeaseLeases", Right(Acquire)),
    ("POST", "/v3electionpb.Election/Campaign", Right(Acquire)),
    ("POST", "/v3electionpb.Election/Proclaim", Right(Acquire)),
    ("POST", "/v3electionpb.Election/Leader", Right(Watch)),
    ("POST", "/v3electionpb.Election/Observe", Right(Watch)),
    ("POST", "/v3electionpb.Election/Resign", Release),
    ("POST", "/etcdserverpb.KV/Range", Something),
    ("POST", "/etcdserverpb.KV/Put", Something),
    ("POST", "/etcdserverpb.KV/DeleteRange", AcquireOrRelease),
    ("POST", "/etcdserverpb.KV/Txn", SomethingOrRelease),
    ("POST", "/etcdserverpb.Watch/Watch", Something),
    ("POST", "/etcdserverpb.Maintenance/Status", Something),
    ("POST", "/etcdserverpb.Cluster/MemberList", Something),
    // etcd's API as JSON.
    ("POST", "/v3/lock/lock", Right(Acquire)),
    ("POST", "/v3/lock/unlock", Release),
    ("POST", "/v3/lease/grant", Right(Acquire)),
    ("POST", "/v3/lease/revoke", Release),
    ("POST", "/v3/kv/lease/revoke", Release),
    ("POST", "/v3/lease/keepalive", Renewal),
    ("POST", "/v3/lease/timetolive", Right(Acquire)),
    ("POST", "/v3/kv/lease/timetolive", Right(Acquire)),
    ("POST", "/v3/lease/leases", Right(Acquire)),
    ("POST", "/v3/kv/lease/leases", Right(Acquire)),
    ("POST", "/v3/election/campaign", Right(Acquire)),
    ("POST", "/v3/election/proclaim", Right(Acquire)),
    ("POST", "/v3/election/leader", Right(Watch)),
    ("POST", "/v3/election/observe", Right(Watch)),
    ("POST", "/v3/election/resign", Release),
    ("POST", "/v3/kv/range", Something),
    ("POST", "/v3/kv/put", Something),
    ("POST", "/v3/kv/deleterange", AcquireOrRelease),
    ("POST", "/v3/kv/txn", SomethingOrRelease),
    ("POST", "/v3/watch", Something),
    ("POST", "/v3/maintenance/status", Something),
    ("POST", "/v3/cluster/member/list", Something),
    // Consul's API. Keys are read by clients that wait for a lock and by clients that watch one.
    ("PUT", "/v1/session/create", Right(Acquire)),
    ("PUT", "/v1/session/destroy/{session}", Release),
    ("PUT", "/v1/session/renew/{session}", Renewal),
    ("GET", "/v1/session/info/{session}", Right(Acquire)),
    ("GET", "/v1/session/node/{node}", Right(Acquire)),
    ("GET", "/v1/session/list", Right(Acquire)),
    ("GET", "/v1/kv/", Something),
    ("GET", "/v1/kv/{*key}", Something),
    ("PUT", "/v1/kv/{*key}", AcquireOrRelease),
    ("DELETE", "/v1/kv/{*key}", AcquireOrRelease),
    ("GET", "/v1/agent/self", Something),
    ("GET", "/v1/status/leader", Something),
    ("GET", "/v1/status/peers", Something),
];

/// Returns what a call requires, if there is such a call. `HEAD` requires the same as `GET`.
pub(super) fn need(method: &str, path: &str) -> Option<Need> {
    let method = if method == "HEAD" { "GET" } else { method };
    let found = ROUTES.iter().find(|(of, at, _)| *at == path && *of == method);
    found.map(|(_, _, need)| *need)
}

/// Returns whether something is served at the path, possibly with another method.
pub(super) fn is_known(path: &str) -> bool {
    ROUTES.iter().any(|(_, at, _)| *at == path)
}
