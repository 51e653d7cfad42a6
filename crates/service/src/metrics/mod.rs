//! `GET /metrics`: the metrics of a site for Prometheus.
//!
//! Everything is counted where it happens, in plain numbers; a scrape copies and formats them. No label is the name
//! of a lock or of a client, so the number of series depends only on this program and on the members of the view.

mod calls;
mod families;
mod page;

use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use meshlock_host::front::Front;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::sessions::Sessions;
use calls::Calls;
pub(crate) use calls::count;
use families::Snapshot;

/// Why a session of the APIs ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    /// Its client ended it.
    Closed,
    /// It was not renewed in time.
    Expired,
    /// The call that it was made for ended.
    CallEnded,
    /// This site stopped.
    Stopped,
    /// Its client was revoked.
    Revoked,
    /// It goes on at another site, because this one leaves.
    Moved,
}

impl SessionEnd {
    const ALL: [SessionEnd; 6] = [
        SessionEnd::Closed,
        SessionEnd::Expired,
        SessionEnd::CallEnded,
        SessionEnd::Stopped,
        SessionEnd::Revoked,
        SessionEnd::Moved,
    ];

    fn label(self) -> &'static str {
        match self {
            SessionEnd::Closed => "closed",
            SessionEnd::Expired => "expired",
            SessionEnd::CallEnded => "call_ended",
            SessionEnd::Stopped => "stopped",
            SessionEnd::Revoked => "revoked",
            SessionEnd::Moved => "moved",
        }
    }

    /// The same for people.
    pub(crate) fn why(self) -> &'static str {
        match self {
            SessionEnd::Closed => "its client ended it",
            SessionEnd::Expired => "it was not renewed",
            SessionEnd::CallEnded => "the call that it was for has ended",
            SessionEnd::Stopped => "the site stops",
            SessionEnd::Revoked => "its client or certificate was revoked",
            SessionEnd::Moved => "it goes on at another site",
        }
    }
}

/// Counters of the APIs.
#[derive(Debug, Default)]
pub(crate) struct ApiMeter {
    ends: [AtomicU64; SessionEnd::ALL.len()],
    calls: Calls,
    forwarded: [AtomicU64; 2],
    executed: AtomicU64,
    mirrored: AtomicU64,
}

impl ApiMeter {
    /// Counts a call that was forwarded to another site, and whether it was answered.
    pub(crate) fn forwarded(&self, answered: bool) {
        self.forwarded[usize::from(answered)].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a call that was executed for another site.
    pub(crate) fn executed(&self) {
        self.executed.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes how many sessions of another site are mirrored here.
    pub(crate) fn set_mirrored(&self, sessions: usize) {
        self.mirrored.store(sessions as u64, Ordering::Relaxed);
    }

    pub(crate) fn session_ended(&self, end: SessionEnd) {
        self.ends[end as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn session_ends(&self, end: SessionEnd) -> u64 {
        self.ends[end as usize].load(Ordering::Relaxed)
    }
}

/// Returns the route of the metrics page.
pub(crate) fn routes(sessions: &Sessions) -> Router {
    let sessions = sessions.clone();
    Router::new().route("/metrics", get(|| async move { page(&sessions) }))
}

/// Renders the metrics page of a node that serves no API.
pub fn metrics_of(front: &Front) -> String {
    text(front, None).unwrap_or_default()
}

/// Renders the metrics page.
pub(crate) fn text(front: &Front, sessions: Option<&Sessions>) -> Result<String, std::fmt::Error> {
    let (mut text, mut registry) = (String::new(), Registry::with_prefix("meshlock"));
    registry.register_collector(Box::new(Snapshot::take(front, sessions)));
    encode(&mut text, &registry)?;
    Ok(text)
}

fn page(sessions: &Sessions) -> Response {
    match text(sessions.front(), Some(sessions)) {
        Ok(text) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
