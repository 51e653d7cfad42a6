//! Clients of others' libraries that hold a lock, as processes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use meshlock_testing::{BoundedCommand, needs_program, skip};

use rustix::process::{Pid, Signal};

use super::monotonic;
use crate::site::Process;

/// A client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Go's `concurrency.Session` with its default of 60 seconds.
    Go,
    /// `etcdctl lock`, with its default of 10 seconds.
    Etcdctl,
    /// python-etcd3, whose user refreshes the lease.
    Python,
    /// aetcd, in the same way.
    Aetcd,
    /// Node's etcd3, whose user takes the first failed renewal for the loss.
    Node,
    /// `consul lock`, which ends the command under the lock.
    Consul,
}

impl Kind {
    /// Returns the lock that it holds.
    pub(super) fn lock(self) -> &'static str {
        // python-etcd3 has a prefix for all locks.
        if self == Kind::Python { "/locks/jobs" } else { "jobs" }
    }

    pub(super) const ALL: [Kind; 6] =
        [Kind::Go, Kind::Etcdctl, Kind::Python, Kind::Aetcd, Kind::Node, Kind::Consul];
}

/// Where Debian's package golang-etcd-server-dev has the client.
const GO_SOURCES: &str = "/usr/share/gocode";

/// Time limit for downloading packages.
const FETCHED_WITHIN: Duration = Duration::from_mins(8);

/// A running client.
pub(super) struct Holder {
    kind: Kind,
    process: Process,
    _log: tempfile::TempDir,
}

impl Holder {
    /// Starts a client; `None` if what it needs is missing.
    pub(super) fn start(kind: Kind, address: &str) -> Option<Self> {
        let command = match kind {
            Kind::Go => go(address)?,
            Kind::Etcdctl => etcdctl(address)?,
            Kind::Python => {
                let packages = ["etcd3==0.12.0", "protobuf<4", "tenacity==6.3.1"];
                python("promise-python", &packages, "session.py", address)?
            }
            Kind::Aetcd => python("promise-aetcd", &["aetcd==1.0.0"], "session_aetcd.py", address)?,
            Kind::Node => node(address)?,
            Kind::Consul => consul(address)?,
        };
        let log = tempfile::tempdir().unwrap();
        let process = Process::start(command, log.path().join("log"));
        Some(Holder { kind, process, _log: log })
    }

    pub(super) fn until_held(&self) {
        let start = if self.kind == Kind::Etcdctl { "jobs/" } else { "held " };
        self.process.until_line(start);
    }

    /// Returns the number of its process.
    pub(super) fn process(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.process.id()).unwrap()).unwrap()
    }

    /// Lets `etcdctl` release the lock. It must not have lost it.
    pub(super) fn release(&mut self) {
        self.process.signal(Signal::INT);
        let status = self.process.end();
        assert!(status.success(), "{status}: {}", self.process.log());
    }

    /// Waits until the client knows that it has lost the lock, and returns when.
    pub(super) fn lost_at(mut self) -> i64 {
        if self.kind == Kind::Etcdctl {
            let code = self.process.end().code();
            assert_ne!(code, Some(0), "it says that it has lost the lock: {}", self.process.log());
            return monotonic();
        }
        let line = self.process.line();
        let at = line.strip_prefix("lost ").unwrap_or_else(|| panic!("{line}"));
        at.parse().unwrap()
    }
}

fn etcdctl(address: &str) -> Option<Command> {
    let mut command = Command::new("etcdctl");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ETCDCTL_")) {
        command.env_remove(name);
    }
    command.env("ETCDCTL_API", "3").args(["--endpoints", address, "lock", "jobs"]);
    needs_program("etcdctl").then_some(command)
}

/// The last package of Consul in Debian, version 11, and where it is archived.
const CONSUL: &str = "debian/pool/main/c/consul/consul_1.8.7+dfsg1-2+b3_amd64.deb";
const CONSUL_SHA256: &str = "e4e888bba104daba1d9161f49bfc52649a7e4efd45b1a7ead5bc54f2cb9c89d9";
const MIRRORS: [&str; 2] = ["http://deb.debian.org", "http://archive.debian.org"];

fn consul(address: &str) -> Option<Command> {
    if !needs_program("curl") || !needs_program("python3") {
        return None;
    }
    let dir = installed("promise-consul", |dir| {
        let package = dir.join("consul.deb");
        let is_the_one = || {
            let sum = Command::new("sha256sum").arg(&package).output_in_time();
            sum.stdout.starts_with(CONSUL_SHA256.as_bytes())
        };
        let fetch = |mirror: &&str| {
            let mut curl = Command::new("curl");
            curl.args(["-sSf", "--max-time", "120", "-o"]).arg(&package).arg(format!("{mirror}/{CONSUL}"));
            succeeds(&mut curl) && is_the_one()
        };
        MIRRORS.iter().any(fetch) && succeeds(Command::new("dpkg-deb").arg("-x").arg(&package).arg(dir))
    })?;
    let mut command = Command::new(dir.join("usr/bin/consul"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CONSUL_")) {
        command.env_remove(name);
    }
    command.env("CONSUL_HTTP_ADDR", format!("http://{address}"));
    // The command is the holder. `consul lock` releases the lock only after it has ended the command.
    let script = source("command.py");
    command.args(["lock", "jobs", &format!("exec python3 '{}'", script.display())]);
    Some(command)
}

/// Returns a directory for what is built or installed once.
fn kept(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node/promise").join(name)
}

fn go(address: &str) -> Option<Command> {
    if !needs_program("go") {
        return None;
    }
    if !Path::new(GO_SOURCES).join("src/go.etcd.io/etcd/clientv3").exists() {
        skip("etcd's client for Go", "install Debian's package golang-etcd-server-dev");
        return None;
    }
    let dir = kept("promise-go");
    let program = dir.join("session");
    let mut build = Command::new("go");
    build.env("GO111MODULE", "off").env("GOPATH", GO_SOURCES).env("GOCACHE", dir.join("cache"));
    build.env_remove("GOFLAGS").args(["build", "-o"]).arg(&program).arg(source("session.go"));
    let built = build.output_in_time();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut command = Command::new(program);
    command.args([address, "jobs"]);
    Some(command)
}

/// Returns a directory that has what `fill` installs; `None` if that fails, and the client is skipped.
fn installed(name: &str, fill: impl FnOnce(&Path) -> bool) -> Option<PathBuf> {
    let dir = kept(name);
    if !dir.join("done").exists() {
        if !fill(&dir) {
            skip(&format!("what {name} needs from the network"), "give this machine a way to the registries");
            return None;
        }
        std::fs::write(dir.join("done"), "").unwrap();
    }
    Some(dir)
}

fn succeeds(command: &mut Command) -> bool {
    let output = command.output_within(FETCHED_WITHIN);
    if !output.status.success() {
        eprintln!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success()
}

/// Returns the command for a script of a Python that has these packages.
fn python(name: &str, packages: &[&str], script: &str, address: &str) -> Option<Command> {
    if !needs_program("python3") {
        return None;
    }
    let dir = installed(name, |dir| {
        succeeds(Command::new("python3").args(["-m", "venv"]).arg(dir.join("env")))
            && succeeds(Command::new(dir.join("env/bin/pip")).args(["install", "--quiet"]).args(packages))
    })?;
    let mut command = Command::new(dir.join("env/bin/python"));
    command.arg(source(script)).arg(address);
    Some(command)
}

fn node(address: &str) -> Option<Command> {
    if !needs_program("node") || !needs_program("npm") {
        return None;
    }
    let dir = installed("promise-node", |dir| {
        let install = ["install", "--silent", "--no-fund", "--no-audit", "etcd3@1.1.2"];
        succeeds(Command::new("npm").current_dir(dir).args(install))
    })?;
    // Node.js looks for packages beside the script.
    let script = dir.join("session.js");
    std::fs::copy(source("session.js"), &script).unwrap();
    let mut command = Command::new("node");
    command.arg(script).arg(address);
    Some(command)
}
