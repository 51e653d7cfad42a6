//! What stands beside the drawing: it keeps up, keeps the focus, judges the run that is shown, and speaks the papers' words.

use meshlock_lab::gallery;

use crate::driver::{Browser, keys};

use super::{AT, in_one, scenario};

pub(super) const ALL: [super::Scenario; 10] = [
    scenario("facts are judged for the run that is shown", facts_of_a_fork),
    scenario("one question is in flight, for what differs only", differences),
    scenario("the focus stays when panels are renewed", focus),
    scenario("what happens is told in the papers' words", narration),
    scenario("a site that waits says for what, and one that is inside how it got there", reasons),
    in_one("a message's causal past ends where it was sent", causal_past),
    scenario("arrows between the same sites lie apart", arrows),
    in_one("a kind of message has one colour in every view", colours),
    in_one("an algorithm is chosen in sight, and another one at once", choosing),
    in_one("events are a list of text with the drawing's selection", events),
];

fn facts_of_a_fork(browser: &Browser, page: &str) {
    let entry = gallery::entry("chapter-9-3").unwrap();
    browser.open(&format!("{page}/#/gallery/figure/{}", entry.id));
    let holding = |browser: &Browser, holds: &str| {
        let texts = format!(
            "[...document.querySelectorAll(\".facts li[data-holds='{holds}']\")].map((one) => one.textContent)"
        );
        browser.value(&texts).as_array().unwrap().len()
    };
    browser.press(keys::END);
    assert_eq!((holding(browser, "true"), holding(browser, "false")), (entry.facts.len(), 0));
    // S0 fails before it enters: nothing of what the figure says later comes true.
    browser.press(keys::HOME);
    for _ in 0..4 {
        browser.press(keys::RIGHT);
    }
    browser.click("[data-act='f0']");
    assert_eq!((browser.text(AT).as_str(), holding(browser, "later")), ("5", entry.facts.len()));
    // It ends when nothing is on its way any more.
    for _ in 0..12 {
        browser.press(keys::RIGHT);
    }
    let judged = |says: &str| {
        browser.text(&format!(
            "[...document.querySelectorAll('.facts li')].find((one) => one.textContent === {says:?}).dataset.holds"
        ))
    };
    assert_eq!(browser.text(AT), "12");
    assert_eq!(
        (judged("S0 is inside, S1 waits").as_str(), judged("S1 is inside").as_str()),
        ("false", "false")
    );
    assert_eq!(judged("12 messages: 3(N−1) for each entry"), "later");
    assert!(browser.text("document.getElementById('scene').textContent").contains("Not the figure's run"));
    // The figure itself is as it was.
    browser.press('[');
    browser.press(keys::END);
    assert_eq!(holding(browser, "true"), entry.facts.len());
}

/// The questions about moments so far: how many, and the sizes of their answers.
const ASKED: &str = "performance.getEntriesByType('resource').filter((one) => one.name.includes('/api/moment')).map((one) => one.decodedBodySize)";

fn differences(browser: &Browser, page: &str) {
    browser.open(&format!("{page}/#/run?algo=lamport&n=50&load=saturated&until=400&at=200"));
    let sizes = |browser: &Browser| -> Vec<u64> {
        browser.value(ASKED).as_array().unwrap().iter().map(|size| size.as_u64().unwrap()).collect()
    };
    let whole = *sizes(browser).last().unwrap();
    let before = sizes(browser).len();
    // All at once: while one answer is awaited, only the last position is asked for next.
    browser.value("(() => { for (let at = 0; at < 40; at++) document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true })); return true; })()");
    browser.settle();
    assert_eq!(browser.text(AT), "240");
    let asked = sizes(browser).len() - before;
    assert!(asked <= 2, "{asked} questions for 40 steps");
    browser.press(keys::RIGHT);
    let one = *sizes(browser).last().unwrap();
    assert!(one * 10 < whole, "a step is {one} bytes, the whole moment {whole}");
}

fn focus(browser: &Browser, page: &str) {
    browser.open(&format!("{page}/#/run?algo=central&n=3&load=hand"));
    let focused = "(document.activeElement.closest('[data-site]')?.dataset.site ?? document.activeElement.closest('[data-pending]')?.id ?? document.activeElement.tagName)";
    browser.value("(document.querySelector(\"[data-act='q1']\").focus(), true)");
    browser.press(keys::ENTER);
    assert_eq!(browser.text(AT), "1");
    assert_eq!(browser.text(focused), "1", "the button has gone; its row has the focus");
    // Where the element stays, it keeps the focus itself.
    browser.value("(document.querySelector(\"[data-act='f2']\").focus(), true)");
    browser.press('d');
    assert_eq!(browser.text("document.activeElement.dataset.act"), "f2");
    assert_eq!(browser.text(AT), "2");
    // What was chosen and typed stays, too.
    browser.value("(() => { const box = document.querySelector('#box-network'); box.closest('details').open = true; box.querySelectorAll('select')[1].value = '2'; return true; })()");
    browser.press('d');
    assert_eq!(browser.text("document.querySelectorAll('#box-network select')[1].value"), "2");
    browser.click("#box-network [data-act='cut']");
    assert_eq!(browser.count("[data-cut='0-2']"), 1);
}

fn narration(browser: &Browser, page: &str) {
    browser.open(&format!(
        "{page}/#/run?algo=suzuki-kasami&n=3&load=hand&acts=0q0.q1.q2.d1-0.d2-0.x0&until=6&at=6"
    ));
    let told = browser.text("document.getElementById('box-told').textContent");
    assert!(told.contains("S0 sends TOKEN(LN = [0,0,0], Q = [S2]) to S1"), "{told}");
    browser.press('2');
    assert_eq!(browser.count("[data-list='RN']"), 1);
    assert_eq!(browser.count("[data-list='LN']"), 0, "the token is on its way");
    browser.press('d');
    browser.press('d');
    browser.press('d');
    assert_eq!(
        browser.count("[data-list='LN']"),
        1,
        "{}",
        browser.text("document.getElementById('box-state').textContent")
    );
    assert_eq!(
        browser.text("document.querySelector(\"[data-told='token queue Q'] td + td\").textContent"),
        "S2"
    );
}

fn arrows(browser: &Browser, page: &str) {
    // S0 is inside; S1 has asked it: S1 is its father and its next.
    browser.open(&format!("{page}/#/run?algo=naimi-trehel&n=3&load=hand&acts=0q0.q1.d1-0&until=3&at=3"));
    let path = |name: &str| {
        browser.text(&format!("document.querySelector(\"[data-arrow='{name}:0-1'] path\").getAttribute('d')"))
    };
    assert_ne!(path("father"), path("next"));
    assert!(!path("father").is_empty());
}

fn colours(browser: &Browser, page: &str) {
    browser.open(&format!("{page}/#/run?algo=maekawa:deadlock=fail&n=7&load=saturated&until=300&at=0"));
    let class = "[...document.querySelectorAll('.legend span')].find((one) => one.textContent === 'FAILED').className";
    let of_run = browser.text(class);
    assert!(of_run.starts_with("kind-"), "{of_run}");
    browser.open(&format!("{page}/#/trace"));
    let load = "fetch('/api/trace?algo=maekawa:deadlock=fail&n=7&load=saturated&until=300').then((answer) => answer.text()).then((text) => { \
                const box = document.querySelector('input[type=file]'); const list = new DataTransfer(); \
                list.items.add(new File([text], 'run.jsonl')); box.files = list.files; box.dispatchEvent(new Event('change')); \
                return new Promise((done) => { const look = () => document.querySelector('.legend span') ? done('yes') : setTimeout(look, 10); look(); }); })";
    assert_eq!(browser.promised(load), "yes");
    assert_eq!(browser.text(class), of_run);
}

fn reasons(browser: &Browser, page: &str) {
    let why = |browser: &Browser| browser.text("document.getElementById('box-why').textContent");
    // S0 and S1 ask; S0 precedes and enters with both replies.
    let acts = "0q0.q1.d0-1.d0-2.d2-0.d1-0.d1-0";
    browser.open(&format!("{page}/#/run?algo=ricart-agrawala&n=3&load=hand&acts={acts}&until=7&at=2&site=1"));
    assert!(why(browser).contains("It has asked in step 2, with the timestamp (1,S1)"), "{}", why(browser));
    assert!(why(browser).contains("S0 does not know yet: REQUEST(ts 1) is on its way since step 2."));
    browser.press(keys::END);
    let said = "S0, which has got the request in step 6, has it in its deferred, and it is inside.";
    assert!(why(browser).contains(said), "{}", why(browser));
    assert!(why(browser).contains("S2 does not know yet"), "{}", why(browser));
    browser.press('1');
    assert!(why(browser).contains("How did S0 get in?It has entered in step 7"), "{}", why(browser));
    assert!(why(browser).contains("REPLY(to ts 1) from S2 in step 5, sent in step 4"), "{}", why(browser));
    browser.click("#box-why .step");
    assert_eq!(browser.text(AT), "7");
    // A token, and a place in its queue.
    browser.open(&format!(
        "{page}/#/run?algo=suzuki-kasami&n=3&load=hand&acts=0q0.q1.q2.d1-0.d2-0.x0.d0-1&until=7&at=7&site=2"
    ));
    assert!(why(browser).contains("The token is at S1, which is inside."), "{}", why(browser));
    assert!(why(browser).contains("It is number 1 of the token queue Q at S1."), "{}", why(browser));
}

fn causal_past(browser: &Browser, page: &str) {
    browser.open(&format!("{page}/#/run?algo=central&n=3&load=hand"));
    // S1's request is sent in step 0; S0, which gets it in step 2, has done something of its own before that.
    let acts = "0q1.q2.d2-0.d1-0";
    let past = format!(
        "Promise.all([import('/assets/diagram.js'), import('/assets/model.js'), fetch('/api/run?algo=central&n=3&load=hand&until=4&acts={acts}').then((answer) => answer.json())])\
         .then(([{{ Diagram }}, {{ Model }}, answer]) => {{ const model = new Model(answer); \
         const diagram = new Diagram(document.querySelector('canvas'), {{ step() {{}}, message() {{}}, hover() {{}} }}); \
         diagram.show(model, 4, 0); const message = model.messages.find((one) => one.from === 1); \
         diagram.point({{ message }}); return [message.received, ...diagram.edge]; }})"
    );
    assert_eq!(browser.promised(&past), serde_json::json!([3, -1, 0, -1]));
}

fn choosing(browser: &Browser, page: &str) {
    browser.open(&format!("{page}/#/gallery"));
    assert_eq!(browser.count("[data-algorithm]"), meshlock_protocol::registry::ALL.len() as u64);
    let raymond = browser.text("document.querySelector(\"[data-algorithm='raymond']\").href");
    browser.open(&raymond);
    let drawn =
        |browser: &Browser| browser.text("document.querySelector('.run canvas').getAttribute('aria-label')");
    assert!(drawn(browser).contains("of raymond: 5 sites"), "{}", drawn(browser));
    // The choice is in sight although the rest of the setup is folded.
    let seen = "(() => { const box = document.querySelector('[name=algo]').getBoundingClientRect(); return box.height > 0 && box.bottom <= innerHeight && !document.querySelector('#box-setup details').open; })()";
    assert_eq!(browser.value(seen), true);
    browser.press('1');
    browser.value("(() => { const box = document.querySelector('[name=algo]'); box.value = 'maekawa'; box.dispatchEvent(new Event('change', { bubbles: true })); return true; })()");
    browser.settle();
    assert!(drawn(browser).contains("of maekawa: 5 sites"), "{}", drawn(browser));
    assert!(browser.text("location.hash").contains("algo=maekawa"));
    // It is a change like others.
    browser.click("#undo");
    assert!(drawn(browser).contains("of raymond"), "{}", drawn(browser));
    assert_eq!(browser.text("document.querySelector('[name=algo]').value"), "raymond");
}

fn events(browser: &Browser, page: &str) {
    browser
        .open(&format!("{page}/#/run?algo=central&n=3&load=hand&acts=0q1.q2.d2-0.d1-0&until=4&at=1&site=0"));
    browser.click("#box-events summary");
    let selected = |browser: &Browser| {
        browser.text("document.querySelector(\"#events [aria-selected='true']\").textContent")
    };
    let site = |browser: &Browser| {
        browser.text("document.querySelector(\"[data-site][aria-current='true']\").dataset.site")
    };
    assert_eq!(browser.count("#events [role='option']"), 5);
    assert!(selected(browser).starts_with("1 S1 requests"), "{}", selected(browser));
    // By keyboard; the drawing goes along, to the site at which it happens.
    browser.value("(document.getElementById('events').focus(), true)");
    browser.press(keys::DOWN);
    assert_eq!((browser.text(AT).as_str(), site(browser).as_str()), ("2", "2"));
    assert!(selected(browser).starts_with("2 S2 requests"), "{}", selected(browser));
    browser.press(keys::END);
    assert_eq!((browser.text(AT).as_str(), site(browser).as_str()), ("4", "0"));
    assert_eq!(
        browser.text("document.getElementById('events').getAttribute('aria-activedescendant')"),
        "event-4"
    );
    assert_eq!(browser.text("document.activeElement.id"), "events", "the focus stays");
    // The other way round: what is stepped elsewhere is selected here.
    browser.press(keys::LEFT);
    assert!(selected(browser).starts_with("3 S0 receives"), "{}", selected(browser));
    browser.click("#event-1");
    assert_eq!((browser.text(AT).as_str(), site(browser).as_str()), ("1", "1"));
}
