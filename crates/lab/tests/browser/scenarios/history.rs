//! The address bar and what a person did: it rests, it can be undone, and nothing is lost without asking.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::driver::{Browser, keys};

use super::{AT, STATE, scenario};

pub(super) const ALL: [super::Scenario; 6] = [
    scenario("the address is written when it rests", resting),
    scenario("a side effect that fails does not end the page", refusing),
    scenario("acts, forks and settings are undone and done again", undoing),
    scenario("what was undone is not dropped without asking", asking),
    scenario("odd addresses get a message", odd_addresses),
    scenario("a page of another site is refused", other_sites),
];

/// A script that counts how often the address is written, in browsers that run the tests' scripts as the page's own.
const COUNT: &str = "(() => { const own = History.prototype.replaceState; window.written = 0; \
                     History.prototype.replaceState = function (...given) { window.written += 1; return own.apply(this, given); }; return true; })()";

/// A script that presses the arrow key so often, faster than anybody can.
fn press_often(browser: &Browser, times: u32) {
    browser.value(&format!(
        "(() => {{ for (let at = 0; at < {times}; at++) document.body.dispatchEvent(new KeyboardEvent('keydown', {{ key: 'ArrowRight', bubbles: true, cancelable: true }})); return true; }})()"
    ));
    browser.settle();
}

fn resting(browser: &Browser, page: &str) {
    browser.open(&format!("{page}/#/run?algo=raymond&n=5&until=300&at=0"));
    browser.value(COUNT);
    press_often(browser, 150);
    assert_eq!(browser.text(AT), "150");
    assert!(browser.text("location.hash").contains("at=150"), "{}", browser.text("location.hash"));
    assert!(browser.value("window.written ?? 1").as_u64().unwrap() <= 2, "150 steps are one address");
    // Also one step after the other: WebKit refuses the 101st change of the address within ten seconds.
    for _ in 0..120 {
        press_often(browser, 1);
    }
    assert_eq!((browser.text(AT).as_str(), browser.count("[data-problem]")), ("270", 0));
}

fn refusing(browser: &Browser, page: &str) {
    browser.open(&format!("{page}/#/run?algo=raymond&n=5&until=300&at=0"));
    let refuse = "(() => { for (const how of ['replaceState', 'pushState']) History.prototype[how] = () => { throw new DOMException('too often', 'SecurityError'); }; return true; })()";
    browser.value(refuse);
    press_often(browser, 5);
    browser.click("[data-act^='f']");
    assert_eq!((browser.text(AT).as_str(), browser.count("[role='tab']")), ("6", 2));
    // What goes wrong elsewhere is said, and the run stays.
    browser.value("window.dispatchEvent(new ErrorEvent('error', { message: 'of something else' }))");
    assert!(browser.text("document.getElementById('toast').textContent").contains("of something else"));
    assert_eq!((browser.count(".run canvas"), browser.count("[data-problem]")), (1, 0));
}

/// Goes back or forth in the browser's own history, and waits.
fn travel(browser: &Browser, by: i32) {
    let gone = format!(
        "new Promise((done) => {{ addEventListener('popstate', () => setTimeout(done, 0), {{ once: true }}); history.go({by}); }})"
    );
    browser.promised(&gone);
    browser.settle();
}

fn undoing(browser: &Browser, page: &str) {
    browser.open(&format!("{page}/#/run?algo=raymond&n=5&until=120&seed=2&at=20"));
    let seen = |browser: &Browser| (browser.text(STATE), browser.text(AT), browser.count("[role='tab']"));
    // Chromium first forgets those of its last fifty addresses where nobody has pressed a key: the tests' clicks do not count.
    browser.press('1');
    let first = seen(browser);
    browser.click("[data-site='2'] [data-act='f2']");
    browser.press('1');
    let forked = seen(browser);
    assert_eq!((forked.1.as_str(), forked.2), ("21", 2));
    // Another setup takes the place of the run; it is one step back with its forks.
    browser.value("(() => { document.querySelector('[name=n]').value = 3; return true; })()");
    browser.click("#start");
    let other = seen(browser);
    assert_eq!((browser.count("[data-site]"), other.2), (3, 1));
    travel(browser, -1);
    assert_eq!(seen(browser), forked, "Back undoes the setup");
    assert_eq!(browser.text("document.querySelector('[name=n]').value"), "5", "the form says what is shown");
    browser.click("#undo");
    assert_eq!(seen(browser), first, "Undo undoes the act");
    assert_eq!(browser.value("document.getElementById('undo').disabled"), true);
    browser.click("#redo");
    browser.click("#redo");
    assert_eq!(seen(browser), other);
    assert_eq!(browser.value("document.getElementById('redo').disabled"), true);
    // A fork that is closed comes back, too.
    browser.click("#undo");
    browser.click("[aria-label^='Close Fork']");
    assert_eq!(browser.count("dialog[open]"), 1);
    browser.click("dialog button[value='yes']");
    assert_eq!(browser.count("[role='tab']"), 1);
    browser.click("#undo");
    assert_eq!(seen(browser), forked);
}

fn asking(browser: &Browser, page: &str) {
    browser.open(&format!("{page}/#/run?algo=central&n=3&load=hand"));
    browser.press('1');
    browser.click("[data-act='q1']");
    browser.click("#undo");
    assert_eq!((browser.text(AT).as_str(), browser.count("[data-phase='waiting'][data-site]")), ("0", 0));
    browser.click("[data-act='q2']");
    assert!(browser.text("document.querySelector('dialog[open] p').textContent").contains("drops it"));
    browser.click("dialog button[value='no']");
    assert_eq!((browser.text(AT).as_str(), browser.count("dialog[open]")), ("0", 0));
    browser.click("#redo");
    assert_eq!(browser.count("[data-site='1'][data-phase='waiting']"), 1, "nothing was lost");
    browser.click("#undo");
    browser.click("[data-act='q2']");
    browser.click("dialog button[value='yes']");
    assert_eq!(browser.count("[data-site='2'][data-phase='waiting']"), 1);
    assert_eq!(browser.value("document.getElementById('redo').disabled"), true);
}

fn odd_addresses(browser: &Browser, page: &str) {
    for view in ["constructor", "__proto__", "toString", "%", "%00"] {
        browser.open(&format!("{page}/#/{view}"));
        let said = browser.text("document.querySelector('[data-problem]')?.dataset.problem");
        assert!(said.contains("there is no view"), "{view}: '{said}'");
    }
    browser.open(&format!("{page}/#/gallery/%"));
    assert!(browser.count("[data-entry]") > 20, "it is the gallery");
    browser.open(&format!("{page}/#/gallery/figure/%"));
    let said = browser.text("document.querySelector('[data-problem]')?.dataset.problem");
    assert!(said.contains("nothing named '%'"), "'{said}'");
    // A key that is the name of something every object has.
    browser.open(&format!("{page}/#/run?algo=raymond&n=3&until=20"));
    browser.press(keys::ESCAPE);
    assert_eq!(browser.count(".run canvas"), 1);
}

/// Opens a page of another site that takes something of the lab's into itself.
fn other_sites(browser: &Browser, page: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let text = format!(
        "<!doctype html><body data-ready=yes><link rel=stylesheet href='{page}/assets/style.css' \
         onload=\"document.title='served'\" onerror=\"document.title='refused'\">"
    );
    std::thread::spawn(move || {
        // The page, and whatever the browser asks for besides, until the test ends.
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n";
            let answer = format!("{head}Content-Length: {}\r\n\r\n{text}", text.len());
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    browser.open(&format!("http://localhost:{port}/"));
    let decided = "new Promise((done) => { const look = () => document.title ? done(document.title) : setTimeout(look, 10); look(); })";
    assert_eq!(browser.promised(decided), "refused");
}
