//! The servers that scenarios run against, as programs.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use tempfile::TempDir;

/// What etcd says when it can be used; it depends on the version.
const READY: &[&str] = &["serving client", "serving insecure client"];

/// A server that takes longer to start never will.
const LIMIT: Duration = Duration::from_mins(1);

/// A server that speaks etcd's API on this machine. It ends with this value.
pub(crate) struct Server {
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
    process: Child,
    _data: TempDir,
}

impl Server {
    /// A node that is a cluster of its own. `MESHLOCK` names the program; without it the one on the path is taken.
    pub(crate) fn meshlock() -> Self {
        let data = tempfile::tempdir().unwrap();
        let program = std::env::var_os("MESHLOCK").unwrap_or_else(|| OsString::from("meshlock"));
        let mut command = Command::new(&program);
        command.args(["node", "--api", "127.0.0.1:0"]);
        command.env("XDG_RUNTIME_DIR", data.path()).env("XDG_STATE_HOME", data.path());
        let mut process = start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
        let stdout = process.stdout.take().unwrap();
        let line = line_with(stdout, &["; API: "]).expect("the node says where its API is");
        let address = line.rsplit_once("; API: ").unwrap().1.to_owned();
        Server { address, process, _data: data }
    }

    /// A real etcd.
    pub(crate) fn etcd() -> Self {
        // Between looking for a free port and its use another process may take it.
        (0..5).find_map(|_| Server::try_etcd()).expect("etcd starts")
    }

    fn try_etcd() -> Option<Self> {
        let data = tempfile::tempdir().unwrap();
        let [client, peer] = [(); 2].map(|()| format!("http://127.0.0.1:{}", free_port()));
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(data.path());
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("default={peer}"), "--logger", "zap"]);
        let mut process = start(command.stdout(Stdio::null()).stderr(Stdio::piped()));
        let is_ready = line_with(process.stderr.take().unwrap(), READY).is_some();
        let address = client.trim_start_matches("http://").to_owned();
        let server = Server { address, process, _data: data };
        is_ready.then_some(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn start(command: &mut Command) -> Child {
    let started = command.stdin(Stdio::null()).spawn();
    started.unwrap_or_else(|error| panic!("{} does not start: {error}", command.get_program().display()))
}

/// Waits for a line with one of the texts. What is printed after it is thrown away, so that a full pipe does not stop the server.
fn line_with(output: impl Read + Send + 'static, texts: &'static [&str]) -> Option<String> {
    let lines = BufReader::new(output).lines().map_while(Result::ok);
    let (found, line) = channel();
    std::thread::spawn(move || {
        for line in lines.filter(|line| texts.iter().any(|text| line.contains(text))) {
            // Only the first one is waited for.
            let _ = found.send(line);
        }
    });
    line.recv_timeout(LIMIT).ok()
}

/// A port that was free just now.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}
