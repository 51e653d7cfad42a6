//! Sessions: leases under another name, with a time to live as Consul's rules have it.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use meshlock_cluster::time::Span;
use meshlock_host::front::Admitted;
use meshlock_system::now;
use serde::Serialize;
use serde_json::{Map, Value};

use super::blocking::Answer;
use super::calls::Waits;
use super::errors::Fault;
use super::records::About;
use super::{Consul, duration, ids};
use crate::sessions::NotHeld;
use crate::sessions::registry::{Lasts, LeaseId};

/// The shortest and the longest time to live. A session without one lasts as long as the longest, unless it is renewed.
const LEAST_TTL: Span = Span::from_millis(10_000);
const MAX_TTL: Span = Span::from_millis(86_400_000);
const WITHOUT_A_TTL: &str = "24h";

/// For how long after a session's end nobody else gets its locks, if the client does not say, and at most.
const LOCK_DELAY: Span = Span::from_millis(15_000);
const MAX_LOCK_DELAY: Span = Span::from_millis(60_000);

/// For so long at least a client without a TTL is given to hear that it has lost a lock.
const LEAST_SILENCE: Span = Span::from_millis(10_000);

/// How long a session's name may be, in bytes.
const MAX_NAME: usize = 4096;

/// The check that every node of Consul has: here, that the site is a member.
const NODE_CHECK: &str = "serfHealth";

/// What a client wants of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NewKey {
    name: String,
    behavior: &'static str,
    lock_delay: Span,
    ttl: Option<(String, Span)>,
}

/// A session as Consul shows it.
#[derive(Hash, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Session {
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
    pub(super) fn create(&self, caller: &Admitted, body: &[u8]) -> Result<Response, Fault> {
        let wanted = NewKey::read(body, self.sessions.site().as_str())?;
        let delay = wanted.lock_delay.min(MAX_LOCK_DELAY);
        // Without a TTL a client has not said when it stops by itself: the delay is what Consul would give it.
        let silence = wanted.ttl.is_none().then(|| delay.max(LEAST_SILENCE));
        let (ttl, lasts) = wanted.ttl.unwrap_or_else(|| (WITHOUT_A_TTL.to_owned(), MAX_TTL));
        let granted = self.sessions.grant(caller, Lasts::For(lasts), None);
        let lease = granted.map_err(|error| self.not_held(&NotHeld::Registry(error)))?;
        self.sessions.set_delay(lease, delay, silence);
        let id = ids::session(lease);
        let created = self.indexes().of(&format!("session {id}"), &(), None).created;
        let NewKey { name, behavior, lock_delay, .. } = wanted;
        if self.records().is_crowded() {
            self.forget_sessions();
        }
        self.records().add(lease, About { name, behavior, lock_delay, ttl, created });
        self.touch();
        Ok(axum::Json(serde_json::json!({ "ID": id })).into_response())
    }

    /// Ends a session; one that is not there is ended already.
    pub(super) fn destroy(&self, caller: &Admitted, session: &str) -> Result<Response, Fault> {
        let lease = match Consul::lease(session) {
            Ok(lease) => lease,
            Err(_) if ids::is_uuid(session) => return Ok(axum::Json(true).into_response()),
            Err(fault) => return Err(fault),
        };
        if self.is_alive(caller, lease) {
            self.sessions.retire(caller, lease);
            self.touch();
        } else if self.elsewhere(lease).is_some() {
            return Err(self.no_session(lease));
        }
        Ok(axum::Json(true).into_response())
    }

    pub(super) fn renew(&self, caller: &Admitted, session: &str) -> Result<Response, Fault> {
        let lease = match Consul::lease(session) {
            Ok(lease) => lease,
            Err(_) if ids::is_uuid(session) => return Err(not_found(session)),
            Err(fault) => return Err(fault),
        };
        if self.is_alive(caller, lease) && self.sessions.renew(caller, lease).is_some() {
            return Ok(axum::Json(self.session(caller, lease).as_slice()).into_response());
        }
        // Of another site's session nobody here can say that it is over.
        Err(if self.elsewhere(lease).is_some() { self.no_session(lease) } else { not_found(session) })
    }

    pub(super) async fn info(
        &self,
        caller: &Admitted,
        session: &str,
        waits: Option<Waits>,
    ) -> Result<Response, Fault> {
        let lease = match Consul::lease(session) {
            Ok(lease) => Some(lease),
            Err(_) if ids::is_uuid(session) => None,
            Err(fault) => return Err(fault),
        };
        if let Some(lease) = lease.filter(|&lease| !self.is_alive(caller, lease))
            && self.elsewhere(lease).is_some()
        {
            return Err(self.no_session(lease));
        }
        let found = || lease.and_then(|lease| self.session(caller, lease));
        let look = || self.listed(&format!("info {session}"), found().as_slice());
        Ok(self.read_here(caller, waits, look).await.into_response())
    }

    /// All sessions of the caller at this site: those of others are theirs to list.
    pub(super) async fn list(&self, caller: &Admitted, waits: Option<Waits>) -> Response {
        self.read_here(caller, waits, || {
            self.listed(&format!("sessions of {}", caller.principal), &self.sessions(caller))
        })
        .await
        .into_response()
    }

    /// The sessions of a node: ours are all of one.
    pub(super) async fn list_of(
        &self,
        caller: &Admitted,
        node: &str,
        waits: Option<Waits>,
    ) -> Result<Response, Fault> {
        if node == self.sessions.site().as_str() {
            return Ok(self.list(caller, waits).await);
        }
        let is_member = self
            .sessions
            .front()
            .node()
            .look(|it| it.view().members.iter().any(|member| member.site.as_str() == node));
        if is_member {
            return Err(Fault::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("meshlock: the site '{node}' keeps its sessions itself; use its address for them"),
            ));
        }
        Ok(self.listed("no sessions", &[]).into_response())
    }

    fn listed(&self, what: &str, sessions: &[Session]) -> Answer {
        Answer::json(self.indexes().of(what, &sessions, None).modified, &sessions)
    }

    /// The caller's session, if it is there.
    fn session(&self, caller: &Admitted, lease: LeaseId) -> Option<Session> {
        if !self.is_alive(caller, lease) {
            return None;
        }
        self.records().about(lease).map(|about| Session::of(lease, about, self.sessions.site().as_str()))
    }

    /// All sessions of the caller that are there.
    fn sessions(&self, caller: &Admitted) -> Vec<Session> {
        let alive = self.sessions.registry().leases_of(&caller.principal, now());
        let records = self.records();
        let show =
            |lease: LeaseId| Some(Session::of(lease, records.about(lease)?, self.sessions.site().as_str()));
        alive.into_iter().filter_map(show).collect()
    }

    /// Forgets what is known of sessions that are over.
    pub(super) fn forget_sessions(&self) {
        let known = self.records().ids();
        let mut over = known;
        {
            let (registry, now) = (self.sessions.registry(), now());
            over.retain(|&lease| !registry.is_alive(lease, now));
        }
        self.records().forget(&over);
    }

    /// The lease of a session of the caller that is not over.
    pub(super) fn living(&self, caller: &Admitted, session: &str) -> Result<LeaseId, Fault> {
        let lease = Consul::lease(session)?;
        if self.is_alive(caller, lease) { Ok(lease) } else { Err(self.no_session(lease)) }
    }

    /// Whether it is a session of the caller, and not over.
    pub(super) fn is_alive(&self, caller: &Admitted, lease: LeaseId) -> bool {
        let is_there = self.sessions.registry().lease(lease, &caller.principal, now()).is_some();
        is_there && self.records().about(lease).is_some()
    }

    /// Whether it is a session that is not over, whosever it is.
    pub(super) fn is_anyones(&self, lease: LeaseId) -> bool {
        let is_there = self.sessions.registry().is_alive(lease, now());
        is_there && self.records().about(lease).is_some()
    }
}

impl Session {
    fn of(lease: LeaseId, about: &About, site: &str) -> Self {
        Session {
            id: ids::session(lease),
            name: about.name.clone(),
            node: site.to_owned(),
            lock_delay: about.lock_delay.micros().saturating_mul(1000),
            behavior: about.behavior,
            ttl: about.ttl.clone(),
            node_checks: [NODE_CHECK],
            service_checks: None,
            create_index: about.created,
            modify_index: about.created,
        }
    }
}

fn not_found(session: &str) -> Fault {
    Fault::new(StatusCode::NOT_FOUND, format!("Session id '{session}' not found"))
}

impl NewKey {
    /// Reads what is wanted. Names of fields are written in any case, and those that nobody knows are passed over, as with Consul.
    fn read(body: &[u8], site: &str) -> Result<Self, Fault> {
        let mut wanted =
            NewKey { name: String::new(), behavior: "release", lock_delay: LOCK_DELAY, ttl: None };
        if body.is_empty() {
            return Ok(wanted);
        }
        let unreadable = |error: serde_json::Error| Fault::bad(format!("Request decode failed: {error}"));
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
                    return Err(Fault::not_a_lock("a session depends on the checks of a service"));
                }
                _ => {}
            }
        }
        Ok(wanted)
    }
}

fn text<'a>(field: &str, value: &'a Value) -> Result<&'a str, Fault> {
    value.as_str().ok_or_else(|| Fault::bad(format!("Request decode failed: {field:.40} is not text")))
}

fn name(value: &Value) -> Result<String, Fault> {
    let name = text("Name", value)?;
    if name.len() > MAX_NAME {
        return Err(Fault::bad(format!(
            "the name of a session has at most {MAX_NAME} bytes, and this one has {}",
            name.len()
        )));
    }
    Ok(name.to_owned())
}

fn own_node(node: &str, site: &str) -> Result<(), Fault> {
    if node.is_empty() || node == site {
        return Ok(());
    }
    Err(Fault::bad(format!(
        "Missing node registration: a session belongs to the site that creates it, which is '{site}' and not '{node:.64}'"
    )))
}

fn behavior(text: &str) -> Result<&'static str, Fault> {
    match text {
        "" | "release" => Ok("release"),
        "delete" => Ok("delete"),
        other => Err(Fault::bad(format!("Invalid Behavior setting '{other:.40}': give release or delete"))),
    }
}

fn ttl(text: &str) -> Result<Option<(String, Span)>, Fault> {
    if text.is_empty() {
        return Ok(None);
    }
    let span = duration::read(text).ok_or_else(|| {
        Fault::bad(format!("Session TTL '{text:.40}' invalid: give a duration such as 15s"))
    })?;
    match span {
        Span::ZERO => Ok(None),
        span if (LEAST_TTL..=MAX_TTL).contains(&span) => Ok(Some((text.to_owned(), span))),
        _ => Err(Fault::bad(format!("Invalid Session TTL '{text:.40}', must be between [10s=24h0m0s]"))),
    }
}

/// A duration, or a number: of seconds if it is small, of nanoseconds if it is not.
fn lock_delay(value: &Value) -> Result<Span, Fault> {
    let span = match value {
        Value::String(text) => duration::read(text),
        Value::Number(number) => match number.as_u64() {
            Some(seconds @ 0..1000) => Some(Span::from_millis(seconds * 1000)),
            Some(nanos) => Some(Span::from_micros(nanos / 1000)),
            None => None,
        },
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    span.ok_or_else(|| Fault::bad("LockDelay is not understood: give a duration such as 15s"))
}

/// A site knows of no checks but that it is a member itself.
fn no_checks(value: &Value) -> Result<(), Fault> {
    let is_ours = |check: &Value| check.as_str() == Some(NODE_CHECK);
    match value.as_array() {
        Some(checks) if checks.iter().all(is_ours) => Ok(()),
        Some(_) | None => Err(Fault::not_a_lock("a session depends on health checks; give it a TTL instead")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<NewKey, Fault> {
        NewKey::read(body.as_bytes(), "here")
    }

    #[test]
    fn what_is_not_said_is_as_with_consul() {
        let plain = NewKey { name: String::new(), behavior: "release", lock_delay: LOCK_DELAY, ttl: None };
        for body in ["", "{}", "null", r#"{"TTL":"0s","Checks":["serfHealth"],"Node":"here","Unknown":[1]}"#]
        {
            assert_eq!(read(body), Ok(plain.clone()), "{body}");
        }
    }

    #[test]
    fn fields_are_known_in_any_case() {
        let body = r#"{"name":"n","TTL":"1m","behavior":"delete","lockdelay":"0s","NodeChecks":[],"ServiceChecks":[]}"#;
        let ttl = Some(("1m".to_owned(), Span::from_millis(60_000)));
        let wanted = NewKey { name: "n".to_owned(), behavior: "delete", lock_delay: Span::ZERO, ttl };
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
