//! Counterexamples of proofs: what `meshlock prove --counterexamples FILE` writes is shown as states, messages, a step and a clause.

use serde_json::{Value, json};

use crate::driver::{Browser, keys};

use super::in_one;

pub(super) const ALL: [super::Scenario; 2] = [
    in_one("a counterexample of a proof is opened, and read by keyboard", counterexamples),
    in_one("a counterexample that nobody could have found is refused", refused),
];

/// A file with two: a step that breaks a clause, and a state that does.
fn file() -> Value {
    let fact = |symbol: &str, of: &[&str], value: Option<&str>| json!({ "symbol": symbol, "of": of, "value": value });
    let message = |kind: &str, from: Option<&str>, to: &str, carries: &[&str]| json!({ "kind": kind, "from": from, "to": to, "carries": carries });
    let clock = fact("clock", &["site0"], Some("time1"));
    let state = |messages: &[Value], facts: &[Value]| json!({ "messages": messages, "facts": facts });
    let step = json!({
        "model": "ricart-agrawala", "wrong": "a waiting site replies at once <b>to everyone</b>", "erratum": "lodha-figure-1-highest-seen",
        "sites": ["site0", "site1"],
        "clause": { "name": "permitted_precedes", "why": "A permitted request precedes.", "fails_for": [["i", "site1"], ["j", "site0"]] },
        "before": state(
            &[message("REQUEST", Some("site1"), "site0", &["time1"]), message("TOKEN", None, "site1", &[])],
            &[clock.clone(), fact("waiting", &["site0"], None), fact("missing", &["site0", "site1"], None), fact("zero", &[], Some("time0"))],
        ),
        "step": { "action": "reply", "rule": "Step (b).", "parameters": [["i", "site0"], ["j", "site1"], ["t", "time1"]] },
        "after": state(
            &[message("REPLY", Some("site0"), "site1", &["time1"]), message("TOKEN", None, "site1", &[])],
            &[fact("clock", &["site0"], Some("time2")), fact("waiting", &["site0"], None), fact("missing", &["site0", "site1"], None), fact("zero", &[], Some("time0"))],
        ),
    });
    let alone = json!({
        "model": "census", "wrong": null, "erratum": null, "sites": ["site0"],
        "clause": { "name": "all_have_stopped", "why": "All have stopped.", "fails_for": [] },
        "before": state(&[], &[clock]), "step": null, "after": null,
    });
    json!({ "counterexamples": [step, alone] })
}

/// Opens `file` with the page's own button; ends when the page shows what `shown` selects.
fn choose(browser: &Browser, page: &str, file: &Value, shown: &str) {
    browser.open(&format!("{page}/#/trace"));
    let load = format!(
        "new Promise((done) => {{ const box = document.querySelector('input[type=file]'); const list = new DataTransfer(); \
         list.items.add(new File([JSON.stringify({file})], 'counterexamples.json')); box.files = list.files; \
         box.dispatchEvent(new Event('change')); const look = () => document.querySelector({shown:?}) ? done('yes') : setTimeout(look, 10); look(); }})"
    );
    assert_eq!(browser.promised(&load), "yes");
}

fn counterexamples(browser: &Browser, page: &str) {
    choose(browser, page, &file(), ".induction h2");
    let title = |browser: &Browser| browser.text("document.querySelector('.induction h2').textContent");
    assert_eq!(title(browser), "reply(S0, S1, time1) breaks permitted_precedes");
    let text = |id: &str| browser.text(&format!("document.getElementById('{id}').textContent"));
    assert_eq!(text("induction-rule"), "Step reply: Step (b). Here i = S0, j = S1, t = time1.");
    let clause = "Clause permitted_precedes: A permitted request precedes. It fails for i = S1, j = S0.";
    assert_eq!(text("induction-clause"), clause);
    // Arrows from site to site in both states; what is not in the other one is marked.
    let arrow = |picture: &str, message: &str, changed: bool| {
        let selector =
            format!("[data-picture='{picture}'] [data-message='{message}'][data-changed='{changed}']");
        (browser.count(&format!("{selector} path")), browser.count(&format!("{selector} .label")))
    };
    assert_eq!(arrow("Before the step", "REQUEST:S1-S0", true), (1, 1));
    assert_eq!(arrow("After the step", "REPLY:S0-S1", true), (1, 1));
    assert_eq!(arrow("After the step", "TOKEN:-S1", false), (1, 1), "its sender is not known");
    assert_eq!(
        (arrow("After the step", "REQUEST:S1-S0", true), browser.count(".states circle.node")),
        ((0, 0), 4)
    );
    assert_eq!(browser.count("[data-picture='Before the step'] .node[data-phase='waiting']"), 1);
    // The facts of each site before and after.
    let row = |group: &str, fact: &str| {
        let cells = format!(
            "[...document.querySelector(\"[data-group='{group}'] [data-fact='{fact}']\").cells].map((one) => one.textContent).join(' | ')"
        );
        browser.text(&cells)
    };
    assert_eq!(row("S0", "clock"), "clock | time1 | time2");
    assert_eq!(row("S0", "missing(S1)"), "missing(S1) | yes | yes");
    assert_eq!(row("All sites", "zero"), "zero | time0 | time0");
    assert_eq!(row("Messages", "REPLY(time1) from S0 to S1"), "REPLY(time1) from S0 to S1 | no | on its way");
    assert_eq!(browser.count("tr[data-changed='true']"), 3);
    // What the file says is text, never a part of the page.
    assert_eq!(browser.count(".induction b"), 0);
    // By keyboard: the next one, and back.
    browser.press(keys::RIGHT);
    assert_eq!(title(browser), "This state breaks all_have_stopped");
    assert_eq!(browser.count("[data-picture]"), 1);
    browser.press(keys::RIGHT);
    browser.press(keys::LEFT);
    assert_eq!(title(browser), "reply(S0, S1, time1) breaks permitted_precedes");
    let unnamed = "[...document.querySelectorAll('button, a, select, input, .induction svg')].filter((one) => \
                   !(one.textContent.trim() || one.getAttribute('aria-label') || one.labels?.length || one.title)).length";
    assert_eq!(browser.value(unnamed), 0, "everything that can be reached has a name");
    // A phone's width is enough.
    browser.resize(390, 844);
    let wide = "Math.max(document.documentElement.scrollWidth, document.getElementById('main').scrollWidth) - innerWidth";
    assert!(browser.value(wide).as_i64().unwrap() <= 0);
    browser.resize(1280, 860);
}

fn refused(browser: &Browser, page: &str) {
    let mut file = file();
    file["counterexamples"][0]["before"]["messages"][0]["to"] = json!("site9");
    choose(browser, page, &file, "[data-problem]");
    let said = browser.text("document.querySelector('[data-problem]').dataset.problem");
    assert!(said.contains("'site9', which is none of its sites"), "{said}");
}
