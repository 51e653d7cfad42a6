//! Frame times while a run of 100,000 events is scrolled and zoomed in a real browser, and how far the panels are behind while 50 sites
//! are played at 20 steps a second: `cargo bench -p meshlock-lab --bench scroll`.
//!
//! It fails if a frame takes 50 ms or longer, or if the panels are two steps behind or more.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]

#[path = "../tests/browser/driver/mod.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod driver;

use driver::{Browser, Engine};
use meshlock_lab::server::LabOptions;

/// A script that scrolls through the whole run in 240 frames, zooms out and in again, and returns the times between frames.
const SCROLL: &str = "(async () => { const canvas = document.querySelector('canvas'); const gaps = [], paints = []; \
    const frame = () => new Promise((done) => requestAnimationFrame(done)); let last = await frame(); \
    const turn = async (how) => { canvas.dispatchEvent(new WheelEvent('wheel', { bubbles: true, cancelable: true, ...how })); \
      const now = await frame(); gaps.push(now - last); last = now; paints.push(Number(canvas.dataset.frame)); }; \
    for (let at = 0; at < 120; at++) await turn({ deltaY: 9000 }); \
    for (let at = 0; at < 40; at++) await turn({ deltaY: 60, ctrlKey: true }); \
    for (let at = 0; at < 40; at++) await turn({ deltaY: -300 }); \
    for (let at = 0; at < 40; at++) await turn({ deltaY: -60, ctrlKey: true }); \
    return { gaps, paints, events: Number(canvas.dataset.events) }; })()";

/// A script that plays 100 steps, and returns how long that took, how many moments the panels have shown, and how many steps they were behind at most.
const PLAY: &str = "(async () => { const main = document.getElementById('main'), where = document.getElementById('where'); \
    const shown = []; const at = () => Number(where.textContent.split(' ')[0]); \
    new MutationObserver(() => { if (main.dataset.at !== '') shown.push(at() - Number(main.dataset.at)); }).observe(main, { attributes: true, attributeFilter: ['data-at'] }); \
    const speed = document.querySelector('[aria-label=Speed]'); speed.value = '20'; speed.dispatchEvent(new Event('change')); \
    const start = performance.now(), first = at(); document.getElementById('play').click(); \
    while (at() < first + 100) await new Promise((done) => requestAnimationFrame(done)); \
    document.getElementById('play').click(); \
    return { seconds: (performance.now() - start) / 1000, shown: shown.length, behind: Math.max(...shown) }; })()";

/// Plays algorithms with 50 sites.
fn play(browser: &Browser, page: &str) {
    for algorithm in ["lamport", "ricart-agrawala", "maekawa", "suzuki-kasami"] {
        browser.open(&format!("{page}/#/run?algo={algorithm}&n=50&load=saturated&until=2000&at=1000"));
        let measured = browser.promised(PLAY);
        println!(
            "{algorithm}, 50 sites: 100 steps in {:.1} s, {} moments shown, {} steps behind at most",
            measured["seconds"].as_f64().unwrap_or_default(),
            measured["shown"],
            measured["behind"]
        );
        assert!(measured["behind"].as_u64().is_some_and(|behind| behind < 2), "the panels do not keep up");
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let listener = runtime.block_on(meshlock_lab::server::listen(0)).expect("a port");
    let page = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        runtime.block_on(meshlock_lab::server::serve(listener, LabOptions::default()))
    });
    let browser = Browser::start(Engine::Chromium).expect("chromium and chromedriver");
    browser.resize(1440, 900);
    play(&browser, &page);
    browser.open(&format!("{page}/#/run?algo=ricart-agrawala&n=8&load=saturated&until=60000&at=30000"));
    let measured = browser.promised(SCROLL);
    let sorted = |name: &str| -> Vec<f64> {
        let mut times: Vec<f64> =
            measured[name].as_array().expect("times").iter().filter_map(|time| time.as_f64()).collect();
        times.sort_by(f64::total_cmp);
        times
    };
    let (gaps, paints) = (sorted("gaps"), sorted("paints"));
    let at = |times: &[f64], share: usize| times[(times.len() - 1) * share / 100];
    println!("{} events, {} frames", measured["events"], gaps.len());
    println!(
        "between frames: median {:.1} ms, 99 % {:.1} ms, longest {:.1} ms",
        at(&gaps, 50),
        at(&gaps, 99),
        at(&gaps, 100)
    );
    println!(
        "drawing: median {:.1} ms, 99 % {:.1} ms, longest {:.1} ms",
        at(&paints, 50),
        at(&paints, 99),
        at(&paints, 100)
    );
    assert!(measured["events"].as_u64().is_some_and(|events| events >= 100_000), "fewer than 100,000 events");
    assert!(at(&gaps, 100) < 50.0, "a frame took 50 ms or longer");
}
