//! A browser that is driven from here: chromium by chromedriver, in the few words of the WebDriver protocol that are needed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use meshlock_testing::{BoundedChild, Lines, WITHIN, needs_program};
use serde_json::{Value, json};

/// A running browser; it ends with this value.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    profile: tempfile::TempDir,
}

/// What chromium is started with: no window, nothing of its own over the network, a fresh profile.
const FLAGS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
];

impl Browser {
    /// Starts one for a test; none where it is not installed, and the test is skipped.
    pub(crate) fn for_a_test() -> Option<Self> {
        if !needs_program("chromium") || !needs_program("chromedriver") {
            return None;
        }
        Some(Browser::start().unwrap_or_else(|error| panic!("the browser does not start: {error}")))
    }

    /// Starts one, or says what is missing.
    pub(crate) fn start() -> Result<Self, String> {
        let profile = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut driver =
            command.spawn().map_err(|error| format!("chromedriver cannot be started: {error}"))?;
        let said = Lines::of(driver.stdout.take().expect("stdout is a pipe"));
        let port = said.find("chromedriver says its port", |line| {
            let (_, rest) = line.split_once("started successfully on port ")?;
            rest.trim_end_matches('.').parse().ok()
        });
        let port = port.ok_or("chromedriver does not say its port")?;
        let mut browser = Browser { driver, port, session: String::new(), profile };
        let folder = format!("--user-data-dir={}", browser.profile.path().display());
        let flags: Vec<&str> = FLAGS.iter().copied().chain([folder.as_str()]).collect();
        let wanted =
            json!({ "capabilities": { "alwaysMatch": { "goog:chromeOptions": { "args": flags } } } });
        let answer = browser.call("POST", "/session", &wanted)?;
        answer["sessionId"].as_str().ok_or("no session")?.clone_into(&mut browser.session);
        browser.ask("timeouts", &json!({ "script": WITHIN.as_millis() }));
        Ok(browser)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let text = if method == "POST" { body.to_string() } else { String::new() };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(|error| error.to_string())?;
        // Longer than a script may take, so that the driver can say of one that it took too long.
        stream.set_read_timeout(Some(WITHIN * 2)).map_err(|error| error.to_string())?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            text.len()
        );
        stream.write_all((head + &text).as_bytes()).map_err(|error| error.to_string())?;
        let mut answer = BufReader::new(stream);
        let mut length = 0;
        let mut line = String::new();
        while answer.read_line(&mut line).map_err(|error| error.to_string())? > 2 {
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().map_err(|_| "a length that is no number")?;
            }
            line.clear();
        }
        let mut body = vec![0; length];
        answer.read_exact(&mut body).map_err(|error| error.to_string())?;
        let answer: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
        match answer["value"].get("error") {
            Some(error) => Err(format!("{error}: {}", answer["value"]["message"])),
            None => Ok(answer["value"].clone()),
        }
    }

    fn ask(&self, what: &str, body: &Value) -> Value {
        let path = format!("/session/{}/{what}", self.session);
        self.call("POST", &path, body).unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    /// Opens an address as if for the first time, and waits until the page says that it is ready.
    pub(crate) fn open(&self, address: &str) {
        self.ask("url", &json!({ "url": "about:blank" }));
        self.ask("url", &json!({ "url": address }));
        self.settle();
    }

    /// Waits until the page has shown what it was asked for.
    pub(crate) fn settle(&self) {
        let ready = "const done = arguments[0]; const look = () => { \
             const busy = document.body?.dataset.ready !== 'yes' || document.querySelector('.loading'); \
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

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.call("DELETE", &format!("/session/{}", self.session), &Value::Null);
        self.driver.end();
    }
}

/// Keys that are no characters, as the protocol names them.
pub(crate) mod keys {
    pub(crate) const PAGE_UP: char = '\u{e00e}';
    pub(crate) const PAGE_DOWN: char = '\u{e00f}';
    pub(crate) const END: char = '\u{e010}';
    pub(crate) const HOME: char = '\u{e011}';
    pub(crate) const LEFT: char = '\u{e012}';
    pub(crate) const RIGHT: char = '\u{e014}';
    pub(crate) const DOWN: char = '\u{e015}';
    pub(crate) const ESCAPE: char = '\u{e00c}';
}
