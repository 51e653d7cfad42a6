//! The servers that scenarios run against.

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use meshlock_cluster::lease::Terms;
use meshlock_cluster::node::Config;
use meshlock_cluster::time::Span;
use meshlock_host::front::Front;
use meshlock_host::{Engine, NodeSetup};
use meshlock_service::{ApiLimits, Serving};
use meshlock_testing::{BoundedChild, Lines, needs_program};

/// A server with etcd's API on this machine. Dropping this ends it.
pub(crate) struct Backend {
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
    _running: Running,
}

enum Running {
    Meshlock { _serving: Serving, _engine: Engine },
    Etcd { _etcd: Etcd },
}

struct Etcd {
    process: Child,
    _data: tempfile::TempDir,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.process.end();
    }
}

impl Backend {
    /// Starts a cluster of one site in this process. Its leases are longer than all that clients ask for, so that it promises what they
    /// ask for, as etcd does; `promise.rs` shows what others promise.
    pub(crate) fn meshlock() -> Self {
        Backend::with(Terms { length: Span::from_millis(2_000_000), ..Terms::default() })
    }

    /// The same with leases of these terms.
    pub(crate) fn with(terms: Terms) -> Self {
        let site: meshlock_cluster::names::SiteName = "local".parse().unwrap();
        let config = Config { terms, ..Config::new(site.clone(), vec![site]) };
        let engine = Engine::start(NodeSetup::new(config)).unwrap();
        let serving = serve(&engine);
        let address = serving.address().to_string();
        Backend { address, _running: Running::Meshlock { _serving: serving, _engine: engine } }
    }

    /// Starts a real etcd; `None` if it is not installed.
    pub(crate) fn etcd() -> Option<Self> {
        needs_program("etcd").then(|| {
            // Another process may take the port after it was found free.
            (0..5).find_map(|_| Backend::try_etcd()).expect("etcd starts")
        })
    }

    fn try_etcd() -> Option<Self> {
        let data = tempfile::tempdir().unwrap();
        let (client, peer) = (free_port(), free_port());
        let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let mut command = Command::new("etcd");
        command
            .arg("--data-dir")
            .arg(data.path())
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}"), "--logger", "zap"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let serves = |line: &str| line.contains("serving client") || line.contains("serving insecure client");
        let log = Lines::of(process.stderr.take().unwrap());
        let ready = log.find("etcd serves clients", |line| serves(line).then_some(())).is_some();
        let etcd = Etcd { process, _data: data };
        let address = client.trim_start_matches("http://").to_owned();
        ready.then(|| Backend { address, _running: Running::Etcd { _etcd: etcd } })
    }

    /// Runs a scenario against both servers and asserts that the results are equal. Without etcd it runs against Meshlock alone.
    pub(crate) fn compare<T: PartialEq + std::fmt::Debug>(scenario: impl Fn(&Backend) -> T) -> T {
        let ours = scenario(&Backend::meshlock());
        if let Some(etcd) = Backend::etcd() {
            let theirs = scenario(&etcd);
            assert_eq!(ours, theirs, "what a user sees at Meshlock, and at etcd");
        }
        ours
    }
}

/// Serves a node on a free port.
pub(crate) fn serve(engine: &Engine) -> Serving {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let setup = meshlock_service::ApiSetup { listener, limits: ApiLimits::default() };
    Serving::start(&Front::new((**engine).clone(), Arc::default()), setup).unwrap()
}

/// Returns a port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}
