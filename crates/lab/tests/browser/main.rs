//! The page in a real browser: one for all scenarios, facts read from the page, not from its pixels.

#![allow(clippy::unwrap_used, reason = "the helpers of tests end a test that cannot go on, as tests do")]

mod driver;
mod scenarios;

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;

use driver::{Browser, Engine};
use meshlock_testing::in_time;
use scenarios::Scenario;

/// Serves the lab in a thread of its own.
fn serve() -> SocketAddr {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let listener = runtime.block_on(in_time("the lab listens", meshlock_lab::server::listen(0))).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        runtime.block_on(meshlock_lab::server::serve(listener, meshlock_lab::server::LabOptions::default()))
    });
    address
}

/// Plays every scenario that `wanted` accepts in one browser, also after one that fails.
fn play(engine: Engine, wanted: impl Fn(&Scenario) -> bool) {
    let Some(browser) = Browser::for_a_test(engine) else { return };
    let page = format!("http://{}", serve());
    let mut failed = Vec::new();
    for scenario in scenarios::all().filter(|scenario| wanted(scenario)) {
        eprintln!("scenario: {}", scenario.name);
        browser.resize(1280, 860);
        let played = std::panic::catch_unwind(AssertUnwindSafe(|| (scenario.run)(&browser, &page)));
        failed.extend(played.is_err().then_some(scenario.name));
    }
    assert!(failed.is_empty(), "{engine:?}: {}", failed.join("; "));
}

#[test]
fn the_page_shows_steps_forks_restores_and_never_stays_blank_in_chromium() {
    play(Engine::Chromium, |_| true);
}

#[test]
fn the_page_does_in_firefox_what_may_differ_there() {
    play(Engine::Firefox, |scenario| scenario.everywhere);
}

#[test]
fn the_page_does_in_web_kit_what_may_differ_there() {
    play(Engine::WebKit, |scenario| scenario.everywhere);
}

/// Left to `cargo xtask soak --only browsers`: the checker finds every erratum again for each browser.
#[test]
fn the_page_does_everything_in_every_browser() {
    for engine in [Engine::Chromium, Engine::Firefox, Engine::WebKit] {
        play(engine, |_| true);
    }
}
