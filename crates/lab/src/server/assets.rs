//! The page's files, embedded in the program: nothing is built, and nothing is fetched from elsewhere.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::answer::Failure;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

macro_rules! assets {
    ($($name:literal: $kind:expr,)*) => {
        &[$(($name, $kind, include_str!(concat!("../../assets/", $name)))),*]
    };
}

/// Name, type, text.
const ASSETS: &[(&str, &str, &str)] = assets! {
    "style.css": STYLE,
    "act_panels.js": SCRIPT,
    "address.js": SCRIPT,
    "api.js": SCRIPT,
    "arrows.js": SCRIPT,
    "caption.js": SCRIPT,
    "colours.js": SCRIPT,
    "compare.js": SCRIPT,
    "diagram.js": SCRIPT,
    "dom.js": SCRIPT,
    "events.js": SCRIPT,
    "export.js": SCRIPT,
    "forks.js": SCRIPT,
    "gallery.js": SCRIPT,
    "help.js": SCRIPT,
    "induction.js": SCRIPT,
    "keys.js": SCRIPT,
    "layouts.js": SCRIPT,
    "live_view.js": SCRIPT,
    "main.js": SCRIPT,
    "model.js": SCRIPT,
    "moment_panels.js": SCRIPT,
    "moments.js": SCRIPT,
    "pictures.js": SCRIPT,
    "plot.js": SCRIPT,
    "quorum.js": SCRIPT,
    "run_frame.js": SCRIPT,
    "run_view.js": SCRIPT,
    "setup_form.js": SCRIPT,
    "svg_pen.js": SCRIPT,
    "tip.js": SCRIPT,
    "trace_panels.js": SCRIPT,
    "trace_view.js": SCRIPT,
    "why.js": SCRIPT,
};

pub(super) async fn index() -> Response {
    ([(header::CONTENT_TYPE, HTML)], include_str!("../../assets/index.html")).into_response()
}

pub(super) async fn asset(Path(name): Path<String>) -> Response {
    match ASSETS.iter().find(|(known, ..)| *known == name) {
        Some(&(_, kind, text)) => ([(header::CONTENT_TYPE, kind)], text).into_response(),
        None => missing().await,
    }
}

pub(super) async fn missing() -> Response {
    Failure::new(StatusCode::NOT_FOUND, "there is nothing at this address; the page is at /".to_owned())
        .into_response()
}
