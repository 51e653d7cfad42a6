//! A browser that is driven from here, in the few words of the WebDriver protocol that are needed: Chromium, Firefox or WebKitGTK.

mod connection;
mod launch;

use meshlock_testing::WITHIN;
use serde_json::{Value, json};

use connection::Connection;
pub(crate) use launch::Engine;
use launch::Programs;

/// A running browser; it ends with this value.
pub(crate) struct Browser {
    connection: Connection,
    /// Ends the browser's processes when it is dropped.
    _programs: Programs,
}

impl Browser {
    /// Starts one for a test; none where it is not installed, and the test is skipped.
    pub(crate) fn for_a_test(engine: Engine) -> Option<Self> {
        engine.is_there().then(|| {
            Browser::start(engine).unwrap_or_else(|error| panic!("{engine:?} does not start: {error}"))
        })
    }

    /// Starts one, or says what is missing.
    pub(crate) fn start(engine: Engine) -> Result<Self, String> {
        let (connection, programs) = launch::start(engine)?;
        let browser = Browser { connection, _programs: programs };
        browser.ask("timeouts", &json!({ "script": WITHIN.as_millis() }));
        Ok(browser)
    }

    fn ask(&self, what: &str, body: &Value) -> Value {
        self.connection.ask(what, body).unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    /// Opens an address as if for the first time, and waits until the page says that it is ready.
    pub(crate) fn open(&self, address: &str) {
        self.ask("url", &json!({ "url": "about:blank" }));
        self.ask("url", &json!({ "url": address }));
        self.settle();
    }

    /// Waits until the page has shown what it was asked for, and the address bar says it.
    pub(crate) fn settle(&self) {
        let ready = "const done = arguments[0]; const look = () => { \
             const busy = document.body?.dataset.ready !== 'yes' || document.querySelector('.loading') || document.body.dataset.address === 'changing'; \
             const run = document.querySelector('.run'); \
             const model = document.querySelector('canvas')?.dataset.steps; \
             const at = document.getElementById('where')?.textContent.split(' ')[0]; \
             const shown = !run || document.querySelector('[data-problem]') || (model !== undefined && document.getElementById('main').dataset.at === at); \
             if (!busy && shown) done(true); else setTimeout(look, 10); }; look();";
        self.ask("execute/async", &json!({ "script": ready, "args": [] }));
    }

    /// The value of a JavaScript expression.
    pub(crate) fn value(&self, expression: &str) -> Value {
        self.ask("execute/sync", &json!({ "script": format!("return {expression};"), "args": [] }))
    }

    /// The value that a promise comes to.
    pub(crate) fn promised(&self, promise: &str) -> Value {
        let script = format!(
            "const done = arguments[0]; ({promise}).then(done, (error) => done('failed: ' + error));"
        );
        self.ask("execute/async", &json!({ "script": script, "args": [] }))
    }

    /// A text, or the empty one.
    pub(crate) fn text(&self, expression: &str) -> String {
        self.value(expression).as_str().unwrap_or_default().to_owned()
    }

    /// How many elements match.
    pub(crate) fn count(&self, selector: &str) -> u64 {
        self.value(&format!("document.querySelectorAll({selector:?}).length")).as_u64().unwrap_or_default()
    }

    /// Clicks the first element that matches, and waits.
    pub(crate) fn click(&self, selector: &str) {
        assert!(self.count(selector) > 0, "nothing matches {selector}");
        self.value(&format!("document.querySelector({selector:?}).click()"));
        self.pause();
    }

    /// Presses a key, as a keyboard does, and waits. Special keys have code points of their own in the protocol.
    pub(crate) fn press(&self, key: char) {
        let keys = json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": [
            { "type": "keyDown", "value": key.to_string() }, { "type": "keyUp", "value": key.to_string() } ] }] });
        self.ask("actions", &keys);
        self.pause();
    }

    /// Lets the page react, then waits until it is ready.
    fn pause(&self) {
        self.promised("new Promise((done) => setTimeout(done, 20))");
        self.settle();
    }

    /// Makes the window so large.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        self.ask("window/rect", &json!({ "width": width, "height": height }));
    }
}

/// Keys that are no characters, as the protocol names them.
pub(crate) mod keys {
    pub(crate) const ENTER: char = '\u{e007}';
    pub(crate) const PAGE_UP: char = '\u{e00e}';
    pub(crate) const PAGE_DOWN: char = '\u{e00f}';
    pub(crate) const END: char = '\u{e010}';
    pub(crate) const HOME: char = '\u{e011}';
    pub(crate) const LEFT: char = '\u{e012}';
    pub(crate) const RIGHT: char = '\u{e014}';
    pub(crate) const DOWN: char = '\u{e015}';
    pub(crate) const ESCAPE: char = '\u{e00c}';
}
