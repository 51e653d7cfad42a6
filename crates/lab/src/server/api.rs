//! The questions that the page asks about runs.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use meshlock_protocol::Info;
use meshlock_protocol::registry::ALL;
use meshlock_protocol::registry::info::{Channels, Kind, Order, Permits, Range};
use serde_json::{Value, json};

use super::answer::{Failure, work};
use super::cache::Cache;
use crate::compare;
use crate::moment::{Moment, changes};
use crate::run::End;
use crate::setup::{MOST_SITES, MOST_STEPS, Parts};
use crate::workbench;

/// Every algorithm with its options, and what a run may be.
pub(super) async fn algorithms() -> Json<Value> {
    let all: Vec<Value> = ALL.iter().map(|info| about(info)).collect();
    Json(json!({ "algorithms": all, "most_sites": MOST_SITES, "most_steps": MOST_STEPS }))
}

/// What the page says of an algorithm.
fn about(info: &Info) -> Value {
    let options: Vec<Value> = info
        .options
        .iter()
        .map(|option| {
            let words = match option.range {
                Range::Flag => vec!["no", "yes"],
                Range::Choice(words) | Range::WordsOr { words, .. } => words.to_vec(),
                Range::Integer { .. } => Vec::new(),
            };
            let free = matches!(option.range, Range::Integer { .. } | Range::WordsOr { .. });
            json!({
                "name": option.name, "about": option.about, "default": option.default,
                "takes": option.range.to_string(), "words": words, "free": free,
            })
        })
        .collect();
    let messages: Vec<Value> =
        info.messages.iter().map(|message| json!({ "kind": message.kind, "about": message.about })).collect();
    json!({
        "name": info.name,
        "title": info.title,
        "source": info.source,
        "kind": match info.kind {
            Kind::Permission => "permissions",
            Kind::Quorum => "quorums",
            Kind::Token => "token",
        },
        "many_permits": info.permits != Permits::One,
        "fifo": info.channels == Channels::Fifo,
        "timestamp_order": info.order == Order::Timestamp,
        "failures": {
            "crash": info.failures.crash,
            "recovery": info.failures.recovery,
            "partition": info.failures.partition,
        },
        "assumes": info.assumes,
        "departures": info.departures,
        "options": options,
        "messages": messages,
    })
}

/// A run's lines and facts.
pub(super) async fn run(
    State(cache): State<Arc<Cache>>,
    Query(parts): Query<Parts>,
) -> Result<Json<Value>, Failure> {
    work(move || {
        let run = cache.run(&parts).map_err(Failure::usage)?;
        let (end, refused) = match run.end() {
            End::Until => ("until", None),
            End::Nothing => ("nothing", None),
            End::Refused(why) => ("refused", Some(why.to_string())),
        };
        let spec = run.spec();
        let setup = run.setup();
        Ok(Json(json!({
            "address": setup.to_string(),
            "algorithm": about(spec.info),
            "spec": spec.to_string(),
            "sites": setup.cluster.sites,
            "permits": setup.cluster.permits,
            "holders": setup.holders,
            "steps": run.steps(),
            "end": end,
            "refused": refused,
            "lines": run.columns(),
        })))
    })
    .await
}

/// Everything at one step of a run.
pub(super) async fn moment(
    State(cache): State<Arc<Cache>>,
    Query(parts): Query<Parts>,
) -> Result<Json<Moment>, Failure> {
    work(move || {
        let given = parts.get("at").map_or("0", String::as_str);
        let at = given.parse().map_err(|_| Failure::usage(format!("'{given}' is no step")))?;
        let run = cache.run(&parts).map_err(Failure::usage)?;
        Ok(Json(run.moment(at)))
    })
    .await
}

/// A run in the trace format.
pub(super) async fn trace(
    State(cache): State<Arc<Cache>>,
    Query(parts): Query<Parts>,
) -> Result<Response, Failure> {
    let text = work(move || {
        let run = cache.run(&parts).map_err(Failure::usage)?;
        let mut text = Vec::new();
        run.write_trace(&mut text).map_err(Failure::usage)?;
        Ok(text)
    })
    .await?;
    Ok(download("application/x-ndjson", "run.jsonl", text))
}

/// A run's lines as comma-separated values.
pub(super) async fn csv(
    State(cache): State<Arc<Cache>>,
    Query(parts): Query<Parts>,
) -> Result<Response, Failure> {
    let text = work(move || {
        let lines = cache.run(&parts).map_err(Failure::usage)?.columns();
        let mut text = String::from("step,time,kind,site,peer,number,message\n");
        let number = |value: i64| if value < 0 { String::new() } else { value.to_string() };
        for at in 0..lines.len() {
            let message = usize::try_from(lines.text[at]).map_or("", |text| lines.texts[text].as_str());
            let (step, time, kind) = (lines.step[at], lines.time[at], lines.kinds[lines.what[at]]);
            let (site, peer, sent) = (lines.site[at], number(lines.peer[at]), number(lines.number[at]));
            let message = message.replace('"', "\"\"");
            let _ = writeln!(text, "{step},{time},{kind},{site},{peer},{sent},\"{message}\"");
        }
        Ok(text)
    })
    .await?;
    Ok(download("text/csv; charset=utf-8", "run.csv", text.into_bytes()))
}

pub(super) fn download(kind: &'static str, name: &'static str, text: Vec<u8>) -> Response {
    let disposition = format!("attachment; filename=\"{name}\"");
    ([(header::CONTENT_TYPE, kind.to_owned()), (header::CONTENT_DISPOSITION, disposition)], text)
        .into_response()
}

/// A sweep of algorithms over load or size.
pub(super) async fn compare(Query(parts): Query<Parts>) -> Result<Json<Value>, Failure> {
    work(move || {
        let points = compare::sweep(&parts).map_err(Failure::usage)?;
        Ok(Json(json!({ "points": points })))
    })
    .await
}

/// The papers' tables and figures.
pub(super) async fn experiments() -> Json<Value> {
    Json(json!({ "experiments": compare::experiments() }))
}

/// One of them, run again.
pub(super) async fn experiment(Path(id): Path<String>) -> Result<Json<Value>, Failure> {
    work(move || compare::experiment(&id).map(Json).map_err(Failure::usage)).await
}

/// A quorum system, built and judged.
pub(super) async fn quorum(Query(parts): Query<Parts>) -> Result<Json<Value>, Failure> {
    work(move || workbench::judge(&parts).map(Json).map_err(Failure::usage)).await
}

/// A trace that was written elsewhere.
pub(super) async fn import(text: String) -> Result<Json<Value>, Failure> {
    work(move || crate::import::import(&text).map(Json).map_err(Failure::usage)).await
}

/// A state that a trace tells, and in the line before it the one that it told before, as names and values.
pub(super) async fn fields(text: String) -> Json<Value> {
    let (before, now) = text.split_once('\n').unwrap_or(("", &text));
    Json(json!({ "fields": changes(now, before) }))
}
