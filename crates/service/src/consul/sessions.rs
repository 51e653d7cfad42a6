//! Consul sessions. A session is a lease of the registry with a time to live as Consul defines it.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::future::try_join_all;
use meshlock_cluster::names::SiteName;
use meshlock_cluster::time::Span;
use meshlock_host::front::Admitted;
use meshlock_system::now;
use serde::Serialize;
use serde_json::{Map, Value};

use super::blocking::IndexedAnswer;
use super::calls::Waits;
use super::errors::ConsulError;
use super::records::SessionOptions;
use super::{Consul, duration, ids};
use crate::sessions::AcquireError;
use crate::sessions::registry::{LeaseDuration, LeaseId};

/// The shortest and the longest time to live. A session without one lasts for the longest time unless it is renewed.
const MIN_TTL: Span = Span::from_millis(10_000);
const MAX_TTL: Span = Span::from_millis(86_400_000);
const WITHOUT_A_TTL: &str = "24h";

/// The default and the maximum of the lock delay: for how long after a session's end nobody else gets its locks.
const LOCK_DELAY: Span = Span::from_millis(15_000);
const MAX_LOCK_DELAY: Span = Span::from_millis(60_000);

/// Minimum time for a client without a TTL to notice that it has lost a lock.
const MIN_SILENCE: Span = Span::from_millis(10_000);

/// Maximum length of a session's name in bytes.
const MAX_NAME: usize = 4096;

/// The check that every Consul node has. Here it means that the site is a member.
const NODE_CHECK: &str = "serfHealth";

/// A parsed request to create a session.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SessionRequest {
    name: String,
    behavior: &'static str,
    lock_delay: Span,
    ttl: Option<(String, Span)>,
}

/// A session in Consul's JSON.
#[derive(Hash, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SessionEntry {
    #[serde(rename = "ID")]
    id: String,
    name: String,
    node: String,
    /// In nanoseconds.
    lock_delay: u64,
    behavior: &'static str,
    #[serde(rename = "TTL")]
    ttl: String,
    node_checks: [&'static str; 1],
    service_checks: Option<[&'static str; 0]>,
    create_index: u64,
    modify_index: u64,
}

impl Consul {
    pub(super) fn create(&self, caller: &Admitted, body: &[u8]) -> Result<Response, ConsulError> {
        let wanted = SessionRequest::read(body, self.sessions.site().as_str())?;
        let delay = wanted.lock_delay.min(MAX_LOCK_DELAY);
        // A client without a TTL has not said when it stops by itself, so it is given the delay, as with Consul.
        let silence = wanted.ttl.is_none().then(|| delay.max(MIN_SILENCE));
        let (ttl, lasts) = wanted.ttl.unwrap_or_else(|| (WITHOUT_A_TTL.to_owned(), MAX_TTL));
        let granted = self.sessions.grant(caller, LeaseDuration::For(lasts), None);
        let lease = granted.map_err(|error| self.not_held(&AcquireError::Registry(error)))?;
        self.sessions.set_delay(lease, delay, silence);
        let id = ids::session(lease);
        let created = self.indexes().of(&format!("session {id}"), &(), None).created;
        let SessionRequest { name, behavior, lock_delay, .. } = wanted;
        if self.records().needs_cleanup() {
            self.forget_sessions();
        }
        self.records().add(lease, SessionOptions { name, behavior, lock_delay, ttl, lasts, created });
        self.touch();
        Ok(axum::Json(serde_json::json!({ "ID": id })).into_response())
    }

    /// Ends a session. Ending one that does not exist succeeds.
    pub(super) fn destroy(&self, caller: &Admitted, session: &str) -> Result<Response, ConsulError> {
        let lease = match Consul::lease(session) {
            Ok(lease) => lease,
            Err(_) if ids::is_uuid(session) => return Ok(axum::Json(true).into_response()),
            Err(fault) => return Err(fault),
        };
        if self.is_alive(caller, lease) {
            self.sessions.retire(caller, lease);
            self.touch();
        }
        Ok(axum::Json(true).into_response())
    }

    pub(super) async fn renew(&self, caller: &Admitted, session: &str) -> Result<Response, ConsulError> {
        let lease = match Consul::lease(session) {
            Ok(lease) => lease,
            Err(_) if ids::is_uuid(session) => return Err(not_found(session)),
            Err(fault) => return Err(fault),
        };
        if self.is_alive(caller, lease) && self.sessions.renew(caller, lease).is_some() {
            let promise = self.sessions.until_promised().await;
            // It may have been lost meanwhile.
            if let Some(renewed) = self.session(caller, lease) {
                promise.ok_or_else(ConsulError::no_leader)?;
                return Ok(axum::Json([renewed]).into_response());
            }
        }
        if self.sessions.is_elsewhere(lease) {
            return Err(ConsulError::no_leader());
        }
        Err(not_found(session))
    }

    pub(super) async fn info(
        &self,
        caller: &Admitted,
        session: &str,
        waits: Option<Waits>,
    ) -> Result<Response, ConsulError> {
        let lease = match Consul::lease(session) {
            Ok(lease) => Some(lease),
            Err(_) if ids::is_uuid(session) => None,
            Err(fault) => return Err(fault),
        };
        let found = || lease.and_then(|lease| self.session(caller, lease));
        let look = || self.listed(&format!("info {session}"), found().as_slice());
        Ok(self.read_here(caller, waits, look).await.into_response())
    }

    /// Lists the caller's sessions at this site. Sessions of others are not shown.
    async fn list_here(&self, caller: &Admitted, waits: Option<Waits>) -> IndexedAnswer {
        self.read_here(caller, waits, || {
            self.listed(&format!("sessions of {}", caller.principal), &self.sessions(caller))
        })
        .await
    }

    /// Lists the caller's sessions of all sites. A query that waits is answered when one of this site changes. A list that lacks a
    /// site's would look complete, so all members have to answer.
    pub(super) async fn list(
        &self,
        caller: &Admitted,
        waits: Option<Waits>,
    ) -> Result<Response, ConsulError> {
        let here = self.list_here(caller, waits).await;
        let members = self.sessions.front().other_members();
        if members.is_empty() {
            return Ok(here.into_response());
        }
        let others =
            try_join_all(members.iter().map(|member| self.sessions_at(caller, &member.site))).await?;
        let own = self.sessions(caller).into_iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>();
        let own = own.expect("a session consists of text and numbers");
        let all: Vec<Value> = own.into_iter().chain(others.into_iter().flatten()).collect();
        Ok(IndexedAnswer::json(here.index, &all).into_response())
    }

    /// Returns the caller's sessions of another member.
    pub(super) async fn sessions_at(
        &self,
        caller: &Admitted,
        site: &SiteName,
    ) -> Result<Vec<Value>, ConsulError> {
        let unanswered = |why: &str| {
            let message =
                format!("meshlock: the sessions of the site '{site}' are not known: {why}; try again");
            ConsulError::new(StatusCode::SERVICE_UNAVAILABLE, message)
        };
        let answer = self.sessions.get_at_site(caller, site, &format!("/v1/session/node/{site}")).await;
        let Some(answer) = answer.map_err(|status| unanswered(status.message()))? else {
            return Ok(Vec::new());
        };
        match (answer.status, serde_json::from_slice(&answer.body)) {
            (200, Ok(sessions)) => Ok(sessions),
            _ => Err(unanswered(&String::from_utf8_lossy(&answer.body))),
        }
    }

    /// Lists the sessions of a node. This site keeps only its own.
    pub(super) async fn list_of(
        &self,
        caller: &Admitted,
        node: &str,
        waits: Option<Waits>,
    ) -> Result<Response, ConsulError> {
        if node == self.sessions.site().as_str() {
            return Ok(self.list_here(caller, waits).await.into_response());
        }
        let members = self.sessions.front().members();
        if members.iter().any(|site| site.as_str() == node) {
            return Err(ConsulError::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("meshlock: the site '{node}' keeps its sessions itself; use its address for them"),
            ));
        }
        Ok(self.listed("no sessions", &[]).into_response())
    }

    fn listed(&self, what: &str, sessions: &[SessionEntry]) -> IndexedAnswer {
        IndexedAnswer::json(self.indexes().of(what, &sessions, None).modified, &sessions)
    }

    /// Returns the caller's session, if it is not over.
    fn session(&self, caller: &Admitted, lease: LeaseId) -> Option<SessionEntry> {
        if !self.is_alive(caller, lease) {
            return None;
        }
        let promise = self.sessions.promise_for(lease);
        self.records()
            .options(lease)
            .map(|options| SessionEntry::of(lease, options, self.sessions.site().as_str(), promise))
    }

    /// Returns all sessions of the caller that are not over.
    fn sessions(&self, caller: &Admitted) -> Vec<SessionEntry> {
        let alive = self.sessions.registry().leases_of(&caller.principal, now());
        let promised = alive.into_iter().map(|lease| (lease, self.sessions.promise_for(lease)));
        let promised: Vec<(LeaseId, Span)> = promised.collect();
        let records = self.records();
        let show = |(lease, promise): (LeaseId, Span)| {
            Some(SessionEntry::of(lease, records.options(lease)?, self.sessions.site().as_str(), promise))
        };
        promised.into_iter().filter_map(show).collect()
    }

    /// Forgets the records of sessions that are over.
    pub(super) fn forget_sessions(&self) {
        let known = self.records().ids();
        let mut over = known;
        {
            let (registry, now) = (self.sessions.registry(), now());
            over.retain(|&lease| !registry.is_alive(lease, now));
        }
        self.records().forget(&over);
    }

    /// Returns the lease of the caller's session, if it is not over.
    pub(super) fn live_lease(&self, caller: &Admitted, session: &str) -> Result<LeaseId, ConsulError> {
        let lease = Consul::lease(session)?;
        if self.is_alive(caller, lease) { Ok(lease) } else { Err(Consul::no_session(lease)) }
    }

    /// Returns whether it is a session of the caller that is not over.
    pub(super) fn is_alive(&self, caller: &Admitted, lease: LeaseId) -> bool {
        let is_there = self.sessions.registry().lease(lease, &caller.principal, now()).is_some();
        is_there && self.records().options(lease).is_some()
    }

    /// Returns whether it is a session that is not over, regardless of its owner.
    pub(super) fn is_alive_for_anyone(&self, lease: LeaseId) -> bool {
        let is_there = self.sessions.registry().is_alive(lease, now());
        is_there && self.records().options(lease).is_some()
    }
}

impl SessionEntry {
    fn of(lease: LeaseId, options: &SessionOptions, site: &str, promise: Span) -> Self {
        SessionEntry {
            id: ids::session(lease),
            name: options.name.clone(),
            node: site.to_owned(),
            lock_delay: options.lock_delay.micros().saturating_mul(1000),
            behavior: options.behavior,
            ttl: told(options, promise),
            node_checks: [NODE_CHECK],
            service_checks: None,
            create_index: options.created,
            modify_index: options.created,
        }
    }
}

/// Returns the time to live that a client is told: what it asked for, but no more than this site promises.
fn told(options: &SessionOptions, promise: Span) -> String {
    if options.lasts <= promise {
        return options.ttl.clone();
    }
    match promise.micros() / 1000 {
        millis @ 1000.. => format!("{}s", millis / 1000),
        // Clients would renew a session without a pause that lasts for no time.
        millis => format!("{}ms", millis.max(1)),
    }
}

fn not_found(session: &str) -> ConsulError {
    ConsulError::new(StatusCode::NOT_FOUND, format!("Session id '{session}' not found"))
}

impl SessionRequest {
    /// Parses a request. As with Consul, the case of field names does not matter and unknown fields are ignored.
    fn read(body: &[u8], site: &str) -> Result<Self, ConsulError> {
        let mut wanted =
            SessionRequest { name: String::new(), behavior: "release", lock_delay: LOCK_DELAY, ttl: None };
        if body.is_empty() {
            return Ok(wanted);
        }
        let unreadable =
            |error: serde_json::Error| ConsulError::bad(format!("Request decode failed: {error}"));
        let fields: Option<Map<String, Value>> = serde_json::from_slice(body).map_err(unreadable)?;
        for (field, value) in fields.unwrap_or_default() {
            if value.is_null() {
                continue;
            }
            match field.to_ascii_lowercase().as_str() {
                "name" => wanted.name = name(&value)?,
                "node" => own_node(text(&field, &value)?, site)?,
                "behavior" => wanted.behavior = behavior(text(&field, &value)?)?,
                "ttl" => wanted.ttl = ttl(text(&field, &value)?)?,
                "lockdelay" => wanted.lock_delay = lock_delay(&value)?,
                "checks" | "nodechecks" => no_checks(&value)?,
                "servicechecks" if value.as_array().is_none_or(|checks| !checks.is_empty()) => {
                    return Err(ConsulError::not_a_lock("a session depends on the checks of a service"));
                }
                _ => {}
            }
        }
        Ok(wanted)
    }
}

fn text<'a>(field: &str, value: &'a Value) -> Result<&'a str, ConsulError> {
    value.as_str().ok_or_else(|| ConsulError::bad(format!("Request decode failed: {field:.40} is not text")))
}

fn name(value: &Value) -> Result<String, ConsulError> {
    let name = text("Name", value)?;
    if name.len() > MAX_NAME {
        return Err(ConsulError::bad(format!(
            "the name of a session has at most {MAX_NAME} bytes, and this one has {}",
            name.len()
        )));
    }
    Ok(name.to_owned())
}

fn own_node(node: &str, site: &str) -> Result<(), ConsulError> {
    if node.is_empty() || node == site {
        return Ok(());
    }
    Err(ConsulError::bad(format!(
        "Missing node registration: a session belongs to the site that creates it, which is '{site}' and not '{node:.64}'"
    )))
}

fn behavior(text: &str) -> Result<&'static str, ConsulError> {
    match text {
        "" | "release" => Ok("release"),
        "delete" => Ok("delete"),
        other => {
            Err(ConsulError::bad(format!("Invalid Behavior setting '{other:.40}': give release or delete")))
        }
    }
}

fn ttl(text: &str) -> Result<Option<(String, Span)>, ConsulError> {
    if text.is_empty() {
        return Ok(None);
    }
    let span = duration::read(text).ok_or_else(|| {
        ConsulError::bad(format!("Session TTL '{text:.40}' invalid: give a duration such as 15s"))
    })?;
    match span {
        Span::ZERO => Ok(None),
        span if (MIN_TTL..=MAX_TTL).contains(&span) => Ok(Some((text.to_owned(), span))),
        _ => {
            Err(ConsulError::bad(format!("Invalid Session TTL '{text:.40}', must be between [10s=24h0m0s]")))
        }
    }
}

/// Parses a lock delay: a duration, or a number, which means seconds if it is below 1000 and nanoseconds otherwise.
fn lock_delay(value: &Value) -> Result<Span, ConsulError> {
    let span = match value {
        Value::String(text) => duration::read(text),
        Value::Number(number) => match number.as_u64() {
            Some(seconds @ 0..1000) => Some(Span::from_millis(seconds * 1000)),
            Some(nanos) => Some(Span::from_micros(nanos / 1000)),
            None => None,
        },
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    span.ok_or_else(|| ConsulError::bad("LockDelay is not understood: give a duration such as 15s"))
}

/// Refuses health checks: the only check here is that the site is a member.
fn no_checks(value: &Value) -> Result<(), ConsulError> {
    let is_ours = |check: &Value| check.as_str() == Some(NODE_CHECK);
    match value.as_array() {
        Some(checks) if checks.iter().all(is_ours) => Ok(()),
        Some(_) | None => {
            Err(ConsulError::not_a_lock("a session depends on health checks; give it a TTL instead"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<SessionRequest, ConsulError> {
        SessionRequest::read(body.as_bytes(), "here")
    }

    #[test]
    fn what_is_not_said_is_as_with_consul() {
        let plain =
            SessionRequest { name: String::new(), behavior: "release", lock_delay: LOCK_DELAY, ttl: None };
        for body in ["", "{}", "null", r#"{"TTL":"0s","Checks":["serfHealth"],"Node":"here","Unknown":[1]}"#]
        {
            assert_eq!(read(body), Ok(plain.clone()), "{body}");
        }
    }

    #[test]
    fn fields_are_known_in_any_case() {
        let body = r#"{"name":"n","TTL":"1m","behavior":"delete","lockdelay":"0s","NodeChecks":[],"ServiceChecks":[]}"#;
        let ttl = Some(("1m".to_owned(), Span::from_millis(60_000)));
        let wanted = SessionRequest { name: "n".to_owned(), behavior: "delete", lock_delay: Span::ZERO, ttl };
        assert_eq!(read(body), Ok(wanted));
        let delay = |body| read(body).unwrap().lock_delay;
        assert_eq!(delay(r#"{"LockDelay":5}"#), Span::from_millis(5000));
        assert_eq!(delay(r#"{"LockDelay":5000000000}"#), Span::from_millis(5000));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let long = format!(r#"{{"Name":"{}"}}"#, "x".repeat(5000));
        for (body, words) in [
            ("{", "Request decode failed"),
            ("[]", "Request decode failed"),
            (r#"{"TTL":15}"#, "TTL is not text"),
            (r#"{"TTL":"5s"}"#, "must be between [10s=24h0m0s]"),
            (r#"{"TTL":"25h"}"#, "must be between [10s=24h0m0s]"),
            (r#"{"TTL":"soon"}"#, "Session TTL 'soon' invalid"),
            (r#"{"Behavior":"keep"}"#, "Invalid Behavior setting 'keep'"),
            (r#"{"LockDelay":"x"}"#, "LockDelay is not understood"),
            (r#"{"LockDelay":-1}"#, "LockDelay is not understood"),
            (r#"{"Node":"there"}"#, "which is 'here' and not 'there'"),
            (r#"{"Checks":["web"]}"#, "give it a TTL instead"),
            (r#"{"ServiceChecks":[{"ID":"web"}]}"#, "checks of a service"),
            (&long, "at most 4096 bytes"),
        ] {
            let fault = read(body).unwrap_err();
            assert!(fault.message.contains(words), "{body:.60}: {fault:?}");
        }
    }
}
