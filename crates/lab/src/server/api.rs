//! The requests about runs.

#![expect(clippy::unnecessary_wraps, reason = "all answers have one type, so that one handler serves them")]

use std::fmt::Write as _;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use meshlock_protocol::Info;
use meshlock_protocol::registry::ALL;
use meshlock_protocol::registry::info::{Channels, Kind, Order, Permits, Range};
use serde_json::{Value, json};

use super::answer::{Failure, Lab, PageRequest, as_json};
use crate::moment::changes;
use crate::run::End;
use crate::setup::{MAX_SITES, MAX_STEPS};
use crate::{compare, import, workbench};

/// Every algorithm with its options, and the limits of a run.
pub(super) fn algorithms(_: &Lab, _: &PageRequest) -> Result<Response, Failure> {
    let all: Vec<Value> = ALL.iter().map(|info| about(info)).collect();
    Ok(as_json(json!({ "algorithms": all, "max_sites": MAX_SITES, "max_steps": MAX_STEPS })))
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
                Range::Open { policies, any } => [policies, &[any]].concat(),
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
pub(super) fn run(lab: &Lab, request: &PageRequest) -> Result<Response, Failure> {
    let run = lab.cache.run(&request.parts).map_err(Failure::usage)?;
    let (end, refused) = match run.end() {
        End::Until => ("until", None),
        End::Nothing => ("nothing", None),
        End::Refused(why) => ("refused", Some(why.to_string())),
    };
    let (spec, setup) = (run.spec(), run.setup());
    Ok(as_json(json!({
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
}

/// Everything at one step of a run; or what differs from another step, if the page has that.
pub(super) fn moment(lab: &Lab, request: &PageRequest) -> Result<Response, Failure> {
    let step = |given: &String| given.parse().map_err(|_| Failure::usage(format!("'{given}' is no step")));
    let at = request.parts.get("at").map_or(Ok(0), step)?;
    let base = request.parts.get("base").map(step).transpose()?;
    let run = lab.cache.run(&request.parts).map_err(Failure::usage)?;
    Ok(match base {
        None => as_json(&*run.moment(at)),
        Some(base) => {
            let base = run.moment(base);
            as_json(run.moment(at).since(&base))
        }
    })
}

/// A run in the trace format.
pub(super) fn trace(lab: &Lab, request: &PageRequest) -> Result<Response, Failure> {
    let run = lab.cache.run(&request.parts).map_err(Failure::usage)?;
    let mut text = Vec::new();
    run.write_trace(&mut text).map_err(Failure::usage)?;
    Ok(download("application/x-ndjson", "run.jsonl", text))
}

/// A run's lines as comma-separated values.
pub(super) fn csv(lab: &Lab, request: &PageRequest) -> Result<Response, Failure> {
    let lines = lab.cache.run(&request.parts).map_err(Failure::usage)?.columns();
    let mut text = String::from("step,time,kind,site,peer,number,message\n");
    let number = |value: i64| if value < 0 { String::new() } else { value.to_string() };
    for at in 0..lines.len() {
        let message = usize::try_from(lines.text[at]).map_or("", |text| lines.texts[text].as_str());
        let (step, time, kind) = (lines.step[at], lines.time[at], lines.kinds[lines.what[at]]);
        let (site, peer, sent) = (lines.site[at], number(lines.peer[at]), number(lines.number[at]));
        let message = message.replace('"', "\"\"");
        let _ = writeln!(text, "{step},{time},{kind},{site},{peer},{sent},\"{message}\"");
    }
    Ok(download("text/csv; charset=utf-8", "run.csv", text.into_bytes()))
}

pub(super) fn download(kind: &'static str, name: &'static str, text: Vec<u8>) -> Response {
    let disposition = format!("attachment; filename=\"{name}\"");
    ([(header::CONTENT_TYPE, kind.to_owned()), (header::CONTENT_DISPOSITION, disposition)], text)
        .into_response()
}

/// A sweep of algorithms over load or size.
pub(super) fn compare(_: &Lab, request: &PageRequest) -> Result<Response, Failure> {
    let points = compare::sweep(&request.parts).map_err(Failure::usage)?;
    Ok(as_json(json!({ "points": points })))
}

/// The papers' tables and figures.
pub(super) fn experiments(_: &Lab, _: &PageRequest) -> Result<Response, Failure> {
    Ok(as_json(json!({ "experiments": compare::experiments() })))
}

/// One of the papers' tables or figures, run again.
pub(super) fn experiment(_: &Lab, request: &PageRequest) -> Result<Response, Failure> {
    compare::experiment(&request.id).map(as_json).map_err(Failure::usage)
}

/// A quorum system, built and judged.
pub(super) fn quorum(_: &Lab, request: &PageRequest) -> Result<Response, Failure> {
    workbench::judge(&request.parts).map(as_json).map_err(Failure::usage)
}

/// A trace that was written elsewhere.
pub(super) fn import(_: &Lab, request: &PageRequest) -> Result<Response, Failure> {
    import::import(&request.text).map(as_json).map_err(Failure::usage)
}

/// The fields of a state in a trace. The body is the state before, on a line of its own, and the state.
pub(super) fn fields(_: &Lab, request: &PageRequest) -> Result<Response, Failure> {
    let (before, now) = request.text.split_once('\n').unwrap_or(("", &request.text));
    Ok(as_json(json!({ "fields": changes(now, before) })))
}
