//! How commands reach a browser: WebDriver over HTTP, or Marionette, which Firefox speaks itself and which needs no driver.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use meshlock_testing::WITHIN;
use serde_json::{Value, json};

/// Longer than a script may take, so that the driver can say of one that it took too long.
const ANSWER_TIMEOUT: std::time::Duration = WITHIN.saturating_mul(2);

/// The largest answer of Marionette, in bytes.
const MAX_ANSWER: usize = 64 << 20;

/// A session of a browser.
pub(super) enum Connection {
    /// A session of a driver that listens on this port.
    WebDriver {
        port: u16,
        session: String,
    },
    Marionette(RefCell<Marionette>),
}

/// A connection to Firefox: JSON texts, each with its length before it.
pub(super) struct Marionette {
    stream: BufReader<TcpStream>,
    asked: u64,
}

impl Connection {
    /// Begins a session of a driver.
    pub(super) fn web_driver(port: u16, capabilities: &Value) -> Result<Self, String> {
        let wanted = json!({ "capabilities": { "alwaysMatch": capabilities } });
        let answer = call(port, "POST", "/session", &wanted)?;
        let session = answer["sessionId"].as_str().ok_or("no session")?.to_owned();
        Ok(Connection::WebDriver { port, session })
    }

    /// Begins a session of a Firefox that listens on this port.
    pub(super) fn marionette(port: u16) -> Result<Self, String> {
        let stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(|error| error.to_string())?;
        let mut marionette = Marionette { stream: BufReader::new(stream), asked: 0 };
        marionette.read()?;
        marionette.ask("WebDriver:NewSession", &json!({}))?;
        Ok(Connection::Marionette(RefCell::new(marionette)))
    }

    /// Gives a command of a session, named by the last part of its path in the WebDriver protocol.
    pub(super) fn ask(&self, what: &str, body: &Value) -> Result<Value, String> {
        match self {
            Connection::WebDriver { port, session } => {
                call(*port, "POST", &format!("/session/{session}/{what}"), body)
            }
            Connection::Marionette(marionette) => {
                let name = match what {
                    "timeouts" => "WebDriver:SetTimeouts",
                    "url" => "WebDriver:Navigate",
                    "execute/sync" => "WebDriver:ExecuteScript",
                    "execute/async" => "WebDriver:ExecuteAsyncScript",
                    "actions" => "WebDriver:PerformActions",
                    "window/rect" => "WebDriver:SetWindowRect",
                    other => return Err(format!("Marionette's name for '{other}' is not listed here")),
                };
                marionette.borrow_mut().ask(name, body)
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The browser's processes are ended in any case.
        if let Connection::WebDriver { port, session } = self {
            let _ = call(*port, "DELETE", &format!("/session/{session}"), &Value::Null);
        }
    }
}

impl Marionette {
    fn ask(&mut self, name: &str, body: &Value) -> Result<Value, String> {
        self.asked += 1;
        let text = json!([0, self.asked, name, body]).to_string();
        let framed = format!("{}:{text}", text.len());
        self.stream.get_mut().write_all(framed.as_bytes()).map_err(|error| error.to_string())?;
        let answer = self.read()?;
        match answer[2].get("error") {
            Some(error) => Err(format!("{error}: {}", answer[2]["message"])),
            None => Ok(answer[3]["value"].clone()),
        }
    }

    fn read(&mut self) -> Result<Value, String> {
        let mut length = Vec::new();
        self.stream.by_ref().take(20).read_until(b':', &mut length).map_err(|error| error.to_string())?;
        let digits = length.strip_suffix(b":").and_then(|digits| std::str::from_utf8(digits).ok());
        let length = digits.and_then(|digits| digits.parse::<usize>().ok());
        let length = length.filter(|length| *length <= MAX_ANSWER).ok_or("an answer without its length")?;
        let mut text = vec![0; length];
        self.stream.read_exact(&mut text).map_err(|error| error.to_string())?;
        serde_json::from_slice(&text).map_err(|error| error.to_string())
    }
}

/// Makes one HTTP request of a driver.
fn call(port: u16, method: &str, path: &str, body: &Value) -> Result<Value, String> {
    let text = if method == "POST" { body.to_string() } else { String::new() };
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(|error| error.to_string())?;
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
