//! The gallery's questions.

use axum::Json;
use axum::extract::Path;
use serde_json::{Value, json};

use super::answer::{Failure, work};
use crate::gallery::{self, Entry};

/// Everything that is in the gallery, by name and title.
pub(super) async fn list() -> Json<Value> {
    let about = |entry: &Entry| json!({ "id": entry.id, "source": entry.source, "title": entry.title, "caption": entry.caption });
    let entries: Vec<Value> = gallery::entries().map(about).collect();
    let errata: Vec<_> = gallery::errata().collect();
    Json(json!({ "entries": entries, "errata": errata }))
}

/// A prepared run: where it is found, what to see, which facts hold.
pub(super) async fn entry(Path(id): Path<String>) -> Result<Json<Value>, Failure> {
    work(move || {
        let entry = gallery::entry(&id).ok_or_else(|| unknown(&id))?;
        let setup = entry.setup().map_err(Failure::usage)?;
        let facts = entry.judge().map_err(Failure::usage)?;
        Ok(Json(json!({
            "id": entry.id, "source": entry.source, "title": entry.title, "caption": entry.caption,
            "scenes": entry.scenes, "facts": facts, "address": setup.to_string(),
        })))
    })
    .await
}

/// An erratum's counterexample.
pub(super) async fn erratum(Path(id): Path<String>) -> Result<Json<Value>, Failure> {
    work(move || {
        let found = gallery::erratum(&id).ok_or_else(|| unknown(&id))?;
        serde_json::to_value(found).map(Json).map_err(Failure::usage)
    })
    .await
}

fn unknown(id: &str) -> Failure {
    let shown: String = id.chars().take(60).collect();
    Failure::usage(format!("the gallery has nothing named '{shown}'"))
}
