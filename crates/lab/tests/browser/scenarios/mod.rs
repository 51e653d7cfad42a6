//! What a person does with the page, and what must be seen.

use meshlock_check::Property;
use meshlock_check::errata::{Evidence, find};
use meshlock_lab::gallery;

use crate::driver::{Browser, keys};

mod history;
mod induction;
mod panels;

/// What a person does, and what must be seen.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// Plays it in a browser; the text is where the page is.
    pub(crate) run: fn(&Browser, &str),
    /// Whether CI plays it in every browser: it depends on what browsers do differently, and is short.
    pub(crate) everywhere: bool,
}

/// One that CI plays in every browser.
const fn scenario(name: &'static str, run: fn(&Browser, &str)) -> Scenario {
    Scenario { name, run, everywhere: true }
}

/// One that CI plays in Chromium only.
const fn in_one(name: &'static str, run: fn(&Browser, &str)) -> Scenario {
    Scenario { name, run, everywhere: false }
}

/// Every scenario.
pub(crate) fn all() -> impl Iterator<Item = &'static Scenario> {
    GENERAL.iter().chain(&history::ALL).chain(&panels::ALL).chain(&induction::ALL)
}

const GENERAL: &[Scenario] = &[
    in_one("every prepared run shows its figure's facts", prepared_runs),
    in_one("every erratum is shown", errata),
    scenario("stepping back and forth returns to the same state", stepping),
    scenario("the keyboard alone is enough", keyboard),
    scenario("acting in the past forks the run", forking),
    scenario("a shared address restores the run with its forks", sharing),
    in_one("what is exported is valid", exports),
    in_one("nonsense gets a message", nonsense),
    scenario("a trace that was written elsewhere is drawn", importing),
    in_one("algorithms are compared", comparing),
    in_one("quorums are built and judged", quorums),
    scenario("a phone's width is enough, in light and dark", phone),
];

const STATE: &str = "document.querySelector('[data-state]').dataset.state";
const AT: &str = "document.getElementById('main').dataset.at";

fn prepared_runs(browser: &Browser, page: &str) {
    for entry in gallery::entries() {
        browser.open(&format!("{page}/#/gallery/figure/{}", entry.id));
        browser.settle();
        assert_eq!(browser.text("document.querySelector('.caption h2').textContent"), entry.title);
        let first = entry.scenes[0];
        browser.click(&format!("[data-scene='{}']", first.step));
        assert_eq!(browser.text("document.getElementById('scene').textContent"), first.text);
        browser.press(keys::END);
        let holding = browser.count(".facts li[data-holds='true']");
        assert_eq!(
            holding,
            entry.facts.len() as u64,
            "{}: {}",
            entry.id,
            browser.text("document.querySelector('.facts').innerHTML")
        );
    }
}

fn errata(browser: &Browser, page: &str) {
    for erratum in gallery::errata() {
        browser.open(&format!("{page}/#/gallery/erratum/{}", erratum.id));
        browser.settle();
        if browser.count(".run") == 0 {
            assert_eq!(browser.text("document.querySelector('.page h1').textContent"), erratum.title);
            assert!(browser.count("table tr, [data-problem]") > 0, "{}", erratum.id);
            continue;
        }
        assert_eq!(browser.text("document.querySelector('.caption h2').textContent"), erratum.title);
        // It opens where it goes wrong, and says what does.
        let wrong = |what: &str| browser.text(&format!("document.getElementById('goes-wrong').{what}"));
        assert_eq!(browser.text(AT), wrong("dataset.step"), "{}", erratum.id);
        if let Evidence::Exploration { property, .. } = find(erratum.id).unwrap().evidence {
            assert_eq!(wrong("dataset.property"), property.name(), "{}", erratum.id);
        }
        let named = format!("{}”", wrong("dataset.property"));
        assert!(wrong("textContent").contains(&named), "{}: {}", erratum.id, wrong("textContent"));
        browser.press(keys::END);
        let starves = matches!(
            find(erratum.id).unwrap().evidence,
            Evidence::Exploration { property: Property::Starvation, .. }
        );
        assert!(
            starves || browser.count("[data-light='broken']") > 0,
            "{}: no lamp is broken at the end",
            erratum.id
        );
    }
}

fn stepping(browser: &Browser, page: &str) {
    browser.open(&format!("{page}/#/run?algo=maekawa&n=5&seed=3&until=90&at=0"));
    let mut states = vec![browser.text(STATE)];
    for _ in 0..12 {
        browser.press(keys::RIGHT);
        states.push(browser.text(STATE));
    }
    for step in (0..12).rev() {
        browser.press(keys::LEFT);
        assert_eq!(browser.text(STATE), states[step], "step {step}");
    }
    assert!(
        states.windows(2).filter(|pair| pair[0] != pair[1]).count() > 8,
        "the states differ from step to step"
    );
    browser.press('n');
    assert_eq!(browser.count("[data-site][data-phase='inside']"), 1);
    // The entry has changed something at the site that entered.
    let inside = browser.text("document.querySelector(\"[data-site][data-phase='inside']\").dataset.site");
    browser.press(char::from_digit(inside.parse::<u32>().unwrap() + 1, 10).unwrap());
    assert!(browser.count("tr[data-changed='true']") > 0);
}

fn keyboard(browser: &Browser, page: &str) {
    browser.open(&format!("{page}/#/run?algo=central&n=3&load=hand"));
    // A presenter's remote sends Page Down and Page Up.
    for key in ['2', 'q', 'd', 'd'] {
        browser.press(key);
    }
    assert_eq!((browser.text(AT).as_str(), browser.count("[data-site='1'][data-phase='inside']")), ("3", 1));
    browser.press(keys::PAGE_UP);
    assert_eq!(browser.text(AT), "2");
    browser.press(keys::PAGE_DOWN);
    browser.press('x');
    assert_eq!(browser.count("[data-site='1'][data-phase='idle']"), 1);
    browser.press(keys::HOME);
    assert_eq!(browser.text(AT), "0");
    browser.press('?');
    assert_eq!(browser.value("document.getElementById('help-box').open"), true);
    browser.press(keys::ESCAPE);
    assert_eq!(browser.value("document.getElementById('help-box').open"), false);
    let unnamed = "[...document.querySelectorAll('button, a, select, input, canvas')].filter((one) => \
                   !(one.textContent.trim() || one.getAttribute('aria-label') || one.labels?.length || one.title)).length";
    assert_eq!(browser.value(unnamed), 0, "everything that can be reached has a name");
}

fn forking(browser: &Browser, page: &str) {
    browser.open(&format!("{page}/#/run?algo=raymond&n=5&until=120&seed=2&at=20"));
    let before = browser.text(STATE);
    assert_eq!(browser.count("[role='tab']"), 1);
    browser.click("[data-site='2'] [data-act='f2']");
    assert_eq!(browser.count("[role='tab']"), 2);
    assert_eq!((browser.text(AT).as_str(), browser.count("[data-site='2'][data-phase='failed']")), ("21", 1));
    browser.press('[');
    assert_eq!((browser.text(AT).as_str(), browser.text(STATE)), ("20", before));
    browser.press(']');
    assert_eq!(browser.text(AT), "21");
    // What is impossible changes nothing and is said.
    browser.press('1');
    let phase = browser.text("document.querySelector(\"[data-site='0']\").dataset.phase");
    browser.press(if phase == "inside" { 'q' } else { 'x' });
    assert!(browser.text("document.getElementById('toast').textContent").contains("cannot"));
    assert_eq!(browser.count("[role='tab']"), 2);
}

fn sharing(browser: &Browser, page: &str) {
    browser.open(&format!("{page}/#/run?algo=suzuki-kasami&n=4&until=100&seed=5&at=15"));
    browser.click("[data-act^='f']");
    browser.press(keys::RIGHT);
    let seen = |browser: &Browser| (browser.text(STATE), browser.text(AT), browser.count("[role='tab']"));
    let (address, before) = (browser.text("location.href"), seen(browser));
    assert_eq!(before.2, 2);
    browser.open(&address);
    assert_eq!(seen(browser), before);
    assert_eq!(browser.text("location.href"), address);
}

fn exports(browser: &Browser, page: &str) {
    browser.open(&format!("{page}/#/run?algo=lamport&n=3&until=40&at=20"));
    let svg = "import('/assets/export.js').then(async ({ svgOf }) => { const { Diagram } = await import('/assets/diagram.js'); \
               const { Model } = await import('/assets/model.js'); const answer = await (await fetch('/api/run?algo=lamport&n=3&until=40')).json(); \
               const diagram = new Diagram(document.querySelector('canvas'), { step() {}, message() {}, hover() {} }); \
               diagram.show(new Model(answer), 20, 0); const text = svgOf(diagram); \
               const read = new DOMParser().parseFromString(text, 'image/svg+xml'); \
               return [read.querySelector('parsererror') === null, read.querySelectorAll('path').length, read.querySelectorAll('text').length]; })";
    let drawn = browser.promised(svg);
    assert_eq!(drawn[0], true, "{drawn}");
    assert!(drawn[1].as_u64().unwrap() > 30 && drawn[2].as_u64().unwrap() > 5, "{drawn}");
    assert!(
        browser.text("document.querySelector('canvas').toDataURL()").starts_with("data:image/png;base64,")
    );
    let trace =
        browser.promised("fetch(document.getElementById('trace').href).then((answer) => answer.text())");
    let lines = trace.as_str().unwrap().lines();
    let kinds: Vec<_> = lines
        .map(|line| serde_json::from_str::<meshlock_sim::trace::Written>(line).unwrap().kind.name())
        .collect();
    assert!(kinds.contains(&"enter") && kinds.contains(&"send"));
    let csv = browser.promised("fetch(document.getElementById('csv').href).then((answer) => answer.text())");
    let csv = csv.as_str().unwrap();
    assert!(csv.starts_with("step,time,kind,site,peer,number,message\n"));
    assert!(csv.lines().skip(1).all(|line| line.splitn(7, ',').count() == 7));
}

fn nonsense(browser: &Browser, page: &str) {
    for (address, says) in [
        ("#/run?algo=maekava", "did you mean 'maekawa'"),
        ("#/run?n=1000000", "from 1 to 64"),
        ("#/run?n=0", "from 1 to 64"),
        ("#/run?algo=maekawa&k=3", "one permit"),
        ("#/run?acts=zzz", "is no act"),
        ("#/run?until=99999999999999999999", "from 0 to 60000"),
        ("#/run?algo=raymond:tree=9-9", "tree"),
        ("#/run?holders=7&n=3", "site 7 does not exist"),
        ("#/nowhere", "there is no view"),
        ("#/live", "attached to no cluster"),
        ("#/gallery/figure/none", "nothing named"),
        ("#/gallery/erratum/none", "nothing named"),
        ("#/gallery/x/y", "has no 'x'"),
        ("#/compare?algos=x", "unknown algorithm"),
        ("#/compare?experiment=x", "no experiment"),
        ("#/quorum?build=x", "build cannot be"),
        ("#/quorum?build=sets&sets=%00%FF", ""),
    ] {
        browser.open(&format!("{page}/{address}"));
        let said = browser.text("document.querySelector('[data-problem]')?.dataset.problem");
        assert!(!said.is_empty() && said.contains(says), "{address}: '{said}'");
    }
    let missing =
        browser.promised("fetch('/nothing').then((answer) => answer.json()).then((body) => body.error)");
    assert!(missing.as_str().unwrap().contains("nothing at this address"));
}

fn importing(browser: &Browser, page: &str) {
    browser.open(&format!("{page}/#/trace"));
    let load = "fetch('/api/trace?algo=raymond&n=4&until=60').then((answer) => answer.text()).then((text) => { \
                const box = document.querySelector('input[type=file]'); const list = new DataTransfer(); \
                list.items.add(new File([text], 'run.jsonl')); box.files = list.files; box.dispatchEvent(new Event('change')); \
                return new Promise((done) => { const look = () => document.querySelector('canvas')?.dataset.events ? done(document.querySelector('canvas').dataset.events) : setTimeout(look, 10); look(); }); })";
    let events = browser.promised(load);
    assert!(events.as_str().unwrap().parse::<u64>().unwrap() > 60, "{events}");
    browser.press(keys::RIGHT);
    assert!(browser.text("document.getElementById('box-told').textContent").contains("Line 1"));
    assert_eq!(browser.count("[data-states='none']"), 1, "that there are no states is said");
    let states = r"[['Request', 'X { want: 1, seen: 0 }'], ['Enter', 'X { want: 1, seen: 2 }']].map(([kind, state], at) =>
        JSON.stringify({ time: at, kind: kind.toLowerCase(), site: 1, lock: 'sim', state })).concat([JSON.stringify({ time: 2, kind: 'lost', site: 1, lock: '', count: 5 })]).join('\n')";
    let load = format!(
        "Promise.resolve({states}).then((text) => {{ const box = document.querySelector('input[type=file]'); \
                const list = new DataTransfer(); list.items.add(new File([text], 'states.jsonl')); box.files = list.files; \
                box.dispatchEvent(new Event('change')); return new Promise((done) => {{ const look = () => \
                document.querySelector('canvas')?.dataset.events === '3' ? done('yes') : setTimeout(look, 10); look(); }}); }})"
    );
    assert_eq!(browser.promised(&load), "yes");
    browser.press(keys::END);
    browser.press(keys::LEFT);
    assert_eq!(browser.text("document.querySelector('[data-lock]').dataset.holders"), "S1");
    browser.press(keys::END);
    assert!(
        browser.text("document.getElementById('box-told').textContent").contains("5 lines of S1 are lost")
    );
    assert_eq!(browser.count("[data-lock]"), 0, "who is inside is not known any more");
    browser.press(keys::DOWN);
    let shown = "new Promise((done) => { const look = () => document.querySelector(\"[data-states='shown']\") ? \
                 done([...document.querySelectorAll('[data-field]')].map((row) => [row.dataset.field, row.dataset.changed])) : setTimeout(look, 10); look(); })";
    assert_eq!(browser.promised(shown), serde_json::json!([["want", "false"], ["seen", "true"]]));
}

fn comparing(browser: &Browser, page: &str) {
    browser.open(&format!("{page}/#/compare?algos=central,raymond&n=5&rates=0.05,0.2&entries=300"));
    assert_eq!((browser.count("#points tbody tr"), browser.count("[data-plot]")), (4, 3));
    assert_eq!(browser.count(".small-run canvas"), 2);
    browser.open(&format!("{page}/#/compare?experiment=singhal-1989-table-2"));
    assert!(browser.count("#rows tbody tr") > 10 && browser.count("[data-published='true']") > 0);
}

fn quorums(browser: &Browser, page: &str) {
    browser.open(&format!("{page}/#/quorum?build=plane&order=3"));
    assert_eq!(browser.count("#checks li[data-holds='true']"), 5);
    let load: f64 = browser.text("document.getElementById('figures').dataset.load").parse().unwrap();
    assert!((load - 4.0 / 13.0).abs() < 1e-9);
    browser.open(&format!("{page}/#/quorum?build=sets&sets=0.1/2.3"));
    assert_eq!(browser.count("#checks li[data-holds='false']"), 1);
    browser.open(&format!("{page}/#/quorum?build=grid&n=9"));
    browser.click("#simulate");
    assert!(
        browser
            .text("document.querySelector('canvas').getAttribute('aria-label')")
            .contains("maekawa:quorums=grid")
    );
}

fn phone(browser: &Browser, page: &str) {
    browser.resize(390, 844);
    for view in [
        "#/gallery",
        "#/gallery/figure/chapter-9-17",
        "#/gallery/erratum/suzuki-kasami-step-b",
        "#/run?algo=raymond&n=5&until=60&at=20",
        "#/compare?algos=central&n=4&entries=200",
        "#/quorum",
        "#/trace",
        "#/live",
    ] {
        browser.open(&format!("{page}/{view}"));
        let wide = "Math.max(document.documentElement.scrollWidth, document.getElementById('main').scrollWidth) - innerWidth";
        let wide = browser.value(wide).as_i64().unwrap();
        assert!(wide <= 0, "{view} is {wide} pixels too wide");
        let controls = "(() => { const box = document.querySelector('.controls')?.getBoundingClientRect(); return !box || (box.top >= 0 && box.bottom <= innerHeight); })()";
        assert_eq!(browser.value(controls), true, "{view}: what one presses is in sight");
    }
    let paper = "getComputedStyle(document.body).backgroundColor";
    let before = browser.text(paper);
    browser.click("#theme");
    assert_ne!(browser.text(paper), before);
    browser.click("#theme");
    browser.resize(1280, 860);
}
