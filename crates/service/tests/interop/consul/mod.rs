//! Clients of Consul. Each scenario runs against Meshlock and against a real Consul, and what a user sees must be the same.
//!
//! `docs/consul.md` lists the intended differences.

mod cli;
mod clients;
mod hostile;
mod http;
mod sites;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use meshlock_testing::{BoundedChild, BoundedCommand, Lines, eventually, needs_program, skip};
use serde_json::Value;

use super::backend::{Backend, free_port};
use super::programs::{prepared, run};

/// The last package of Consul in Debian, version 11, and where it is archived. Later versions are only on the vendor's download page.
const PACKAGE: &str = "debian/pool/main/c/consul/consul_1.8.7+dfsg1-2+b3_amd64.deb";
const SHA256: &str = "e4e888bba104daba1d9161f49bfc52649a7e4efd45b1a7ead5bc54f2cb9c89d9";
const MIRRORS: [&str; 2] = ["http://deb.debian.org", "http://archive.debian.org"];

/// Returns the program `consul`, which is downloaded once.
fn program() -> Option<PathBuf> {
    if !needs_program("curl") {
        return None;
    }
    if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
        skip("a Consul for this machine", "run the tests on Linux on x86-64");
        return None;
    }
    let fill = |dir: &Path| {
        let package = dir.join("consul.deb");
        let fetch = |mirror: &&str| {
            let mut curl = Command::new("curl");
            curl.args(["-sSf", "--max-time", "120", "-o"]).arg(&package).arg(format!("{mirror}/{PACKAGE}"));
            run(&mut curl) && is_the_one(&package)
        };
        MIRRORS.iter().any(fetch) && run(Command::new("dpkg-deb").arg("-x").arg(&package).arg(dir))
    };
    prepared("consul", fill).map(|dir| dir.join("usr/bin/consul"))
}

fn is_the_one(package: &Path) -> bool {
    let sum = Command::new("sha256sum").arg(package).output_in_time();
    sum.stdout.starts_with(SHA256.as_bytes())
}

/// A server with Consul's API. Dropping this ends it.
pub(crate) struct Server {
    /// `127.0.0.1:PORT`.
    address: String,
    _running: Running,
}

enum Running {
    Meshlock { _backend: Backend },
    Consul { _agent: Agent },
}

struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Server {
    fn meshlock() -> Self {
        let backend = Backend::meshlock();
        Server { address: backend.address.clone(), _running: Running::Meshlock { _backend: backend } }
    }

    /// Starts a real Consul; `None` if it cannot be downloaded.
    fn consul() -> Option<Self> {
        let program = program()?;
        // Another process may take the port after it was found free.
        Some((0..5).find_map(|_| Server::try_consul(&program)).expect("consul starts"))
    }

    fn try_consul(program: &Path) -> Option<Self> {
        let (http, server, serf) = (free_port(), free_port(), free_port());
        let mut command = Command::new(program);
        command
            .args(["agent", "-dev", "-node", "local", "-bind", "127.0.0.1", "-client", "127.0.0.1"])
            .args(["-http-port", &http.to_string(), "-server-port", &server.to_string()])
            .args(["-serf-lan-port", &serf.to_string(), "-serf-wan-port", "-1"])
            .args(["-dns-port", "-1", "-grpc-port", "-1"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let log = Lines::of(process.stdout.take().unwrap());
        let is_ready = |line: &str| line.contains("Synced node info").then_some(());
        let ready = log.find("Consul is ready", is_ready).is_some();
        let (address, agent) = (format!("127.0.0.1:{http}"), Agent(process));
        ready.then(|| {
            let server = Server { address, _running: Running::Consul { _agent: agent } };
            // No session can be created before its health check is registered.
            let checks = || server.get("/v1/health/node/local").body.as_array().map_or(0, Vec::len);
            eventually("Consul has registered its health check", || checks() > 0);
            server
        })
    }

    /// Runs a scenario against both servers and asserts that the results are equal. Without Consul it runs against Meshlock alone.
    fn compare<T: PartialEq + std::fmt::Debug>(scenario: impl Fn(&Server) -> T) -> T {
        let ours = scenario(&Server::meshlock());
        if let Some(consul) = Server::consul() {
            let theirs = scenario(&consul);
            assert_eq!(ours, theirs, "what a user sees at Meshlock, and at Consul");
        }
        ours
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Said {
        ask(&self.address, method, path, body)
    }

    fn put(&self, path: &str, body: &str) -> Said {
        self.ask("PUT", path, body)
    }

    fn get(&self, path: &str) -> Said {
        self.ask("GET", path, "")
    }

    /// Creates a session without a lock delay.
    fn session(&self) -> String {
        let created = self.put("/v1/session/create", r#"{"TTL":"60s","LockDelay":"0s"}"#);
        created.body["ID"].as_str().unwrap_or_else(|| panic!("{created:?}")).to_owned()
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
struct Said {
    status: u16,
    /// `X-Consul-Index`, if there is one.
    index: Option<u64>,
    body: Value,
}

impl Said {
    /// Returns the only entry of a key.
    fn entry(&self) -> &Value {
        assert_eq!(self.body.as_array().map(Vec::len), Some(1), "{self:?}");
        &self.body[0]
    }

    /// Returns the parts that must be equal at both servers.
    fn seen(&self) -> (u16, Value) {
        (self.status, self.body.clone())
    }
}

/// Returns the command curl for a request.
fn curl(address: &str, method: &str, path: &str, body: &str) -> Command {
    let mut curl = Command::new("curl");
    curl.args(["-sN", "-i", "--max-time", "60", "-X", method]).arg(format!("http://{address}{path}"));
    if method == "PUT" {
        curl.args(["--data-binary", body]);
    }
    curl.stdout(Stdio::piped());
    curl
}

fn ask(address: &str, method: &str, path: &str, body: &str) -> Said {
    said(curl(address, method, path, body).spawn().unwrap())
}

/// Waits for the answer that a running curl receives.
fn said(child: Child) -> Said {
    let output = child.output_in_time();
    let text = String::from_utf8(output.stdout).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text}"));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap().parse().unwrap();
    let mut headers = lines.filter_map(|line| line.split_once(": "));
    let index = headers.find(|(name, _)| name.eq_ignore_ascii_case("x-consul-index"));
    let index = index.map(|(_, value)| value.parse().unwrap());
    let body = serde_json::from_str(body).unwrap_or_else(|_| body.trim().into());
    Said { status, index, body }
}
