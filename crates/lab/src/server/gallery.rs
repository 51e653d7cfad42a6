//! The requests about the gallery.

#![expect(clippy::unnecessary_wraps, reason = "all answers have one type, so that one handler serves them")]

use axum::response::Response;
use serde_json::{Value, json};

use super::answer::{Failure, Lab, PageRequest, as_json};
use crate::gallery::{self, PreparedRun};

/// Everything in the gallery, by name and title.
pub(super) fn list(_: &Lab, _: &PageRequest) -> Result<Response, Failure> {
    let about = |entry: &PreparedRun| json!({ "id": entry.id, "source": entry.source, "title": entry.title, "caption": entry.caption });
    let entries: Vec<Value> = gallery::entries().map(about).collect();
    let errata: Vec<_> = gallery::errata().collect();
    Ok(as_json(json!({ "entries": entries, "errata": errata })))
}

/// A prepared run: its address, its scenes and its facts.
pub(super) fn entry(_: &Lab, request: &PageRequest) -> Result<Response, Failure> {
    let entry = gallery::entry(&request.id).ok_or_else(|| unknown(&request.id))?;
    let setup = entry.setup().map_err(Failure::usage)?;
    let facts: Vec<Value> =
        entry.facts.iter().map(|fact| json!({ "step": fact.step, "says": fact.says })).collect();
    Ok(as_json(json!({
        "id": entry.id, "source": entry.source, "title": entry.title, "caption": entry.caption,
        "scenes": entry.scenes, "facts": facts, "address": setup.to_string(),
    })))
}

/// Which facts of a prepared run hold in the run of this address, which may be a fork of it.
pub(super) fn facts(lab: &Lab, request: &PageRequest) -> Result<Response, Failure> {
    let entry = gallery::entry(&request.id).ok_or_else(|| unknown(&request.id))?;
    let run = lab.cache.run(&request.parts).map_err(Failure::usage)?;
    let holds: Vec<Option<bool>> = entry.judge(&*run).iter().map(|fact| fact.holds).collect();
    Ok(as_json(json!({ "facts": holds })))
}

/// An erratum's counterexample.
pub(super) fn erratum(_: &Lab, request: &PageRequest) -> Result<Response, Failure> {
    gallery::erratum(&request.id).map(as_json).ok_or_else(|| unknown(&request.id))
}

fn unknown(id: &str) -> Failure {
    let shown: String = id.chars().take(60).collect();
    Failure::usage(format!("the gallery has nothing named '{shown}'"))
}
