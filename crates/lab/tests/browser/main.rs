//! The page in a real browser: one for all scenarios, facts read from the page, not from its pixels.

#![allow(clippy::unwrap_used, reason = "the helpers of tests end a test that cannot go on, as tests do")]

mod driver;
mod scenarios;

use std::net::SocketAddr;

use driver::Browser;
use meshlock_testing::in_time;

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

#[test]
fn the_page_shows_steps_forks_restores_and_never_stays_blank() {
    let Some(browser) = Browser::for_a_test() else { return };
    let page = format!("http://{}", serve());
    for (name, scenario) in scenarios::ALL {
        eprintln!("scenario: {name}");
        scenario(&browser, &page);
    }
}
