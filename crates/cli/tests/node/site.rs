//! Starts sites, and waits for what they print, never for time to pass.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use meshlock_cluster::table::Wait;
use meshlock_testing::{BoundedChild, BoundedCommand, Deadline, Lines, WITHIN};
use meshlock_wire::clients::{ToClient, ToNode, VERSIONS, put_to_node, take_to_client};

/// Returns the command `meshlock` with directories of its own, so that it does not find the user's nodes.
pub(crate) fn meshlock(home: &Path) -> Command {
    program(Path::new(env!("CARGO_BIN_EXE_meshlock")), home)
}

/// The same for another program than the one that is built here.
pub(crate) fn program(path: &Path, home: &Path) -> Command {
    let mut command = Command::new(path);
    for directory in ["XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"] {
        command.env(directory, home);
    }
    for variable in [
        "MESHLOCK_SOCKET",
        "MESHLOCK_NODE",
        "MESHLOCK_CERTIFICATE",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "NOTIFY_SOCKET",
    ] {
        command.env_remove(variable);
    }
    command.env("MESHLOCK_ROOT", home.join("machine")).stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub(crate) fn output(home: &Path, arguments: &[&str]) -> Output {
    let mut command = meshlock(home);
    command.args(arguments).output_in_time()
}

/// Runs a command, asserts that it succeeds, and returns what it prints.
pub(crate) fn says(home: &Path, arguments: &[&str]) -> String {
    let output = output(home, arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

/// Runs a command with `--json`, and returns what it prints.
pub(crate) fn json(home: &Path, arguments: &[&str]) -> serde_json::Value {
    let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
    serde_json::from_str(&says(home, &arguments)).expect("one JSON document")
}

/// Runs a command, asserts that it fails with `code`, and returns its error message.
pub(crate) fn fails(home: &Path, code: i32, arguments: &[&str]) -> String {
    let output = output(home, arguments);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
    assert!(output.stdout.is_empty(), "nothing on stdout but results");
    error
}

/// A process whose output is read line by line. Dropping this kills it.
pub(crate) struct Process {
    child: Child,
    lines: Lines,
    log: PathBuf,
}

impl Process {
    pub(crate) fn start(mut command: Command, log: PathBuf) -> Self {
        let stderr = fs::File::options().create(true).append(true).open(&log).unwrap();
        Self::start_with(command.stderr(stderr), log)
    }

    /// Starts a command, and keeps its standard error.
    pub(crate) fn start_with(command: &mut Command, log: PathBuf) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
        let lines = Lines::of(child.stdout.take().unwrap());
        Process { child, lines, log }
    }

    /// Waits for the next line and returns it.
    pub(crate) fn line(&self) -> String {
        let line = self.lines.next("the process says something");
        line.unwrap_or_else(|| panic!("it says nothing and ends; its log:\n{}", self.log()))
    }

    /// Waits for a line that begins with `start`.
    pub(crate) fn until_line(&self, start: &str) {
        let what = format!("a line that begins with '{start}'");
        let found = self.lines.find(&what, |line| line.starts_with(start).then_some(()));
        assert!(found.is_some(), "it ends without {what}; its log:\n{}", self.log());
    }

    /// Returns the number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let id = i32::try_from(self.child.id()).unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// Waits for the end of the output and of the process, and returns its exit status.
    pub(crate) fn end(&mut self) -> ExitStatus {
        self.lines.until_end("the end of the process's output");
        self.child.wait_in_time()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.end();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(40)..].join("\n");
            eprintln!("--- the end of {}:\n{last}", self.log.display());
        }
    }
}

/// A directory with the configurations of sites `a`, `b` and so on.
pub(crate) struct Files {
    dir: tempfile::TempDir,
}

impl Files {
    /// Writes configurations for this many sites, with certificates if `tls`, and with the text `more` at the end of each.
    pub(crate) fn new(sites: usize, tls: bool, more: &str) -> Self {
        let listeners: Vec<TcpListener> =
            (0..sites).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
        let addresses: Vec<SocketAddr> =
            listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
        Files::at(&addresses, tls, more)
    }

    /// The same for sites that listen at these addresses.
    pub(crate) fn at(addresses: &[SocketAddr], tls: bool, more: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        let names: Vec<String> = ('a'..='z').take(addresses.len()).map(String::from).collect();
        let entry = |(name, address)| format!("{{ name = '{name}', address = '{address}' }}");
        let list: Vec<String> = names.iter().zip(addresses).map(entry).collect();
        let authority = home.join("ca").display().to_string();
        if tls {
            says(home, &["ca", "init", "--dir", &authority]);
        }
        for name in &names {
            let protected = if tls {
                says(home, &["ca", "issue", name, "--dir", &authority]);
                let file = |file: &str| format!("ca/site-{name}/{file}");
                format!(
                    "tls = {{ ca = '{}', cert = '{}', key = '{}' }}",
                    file("ca.pem"),
                    file("cert.pem"),
                    file("key.pem")
                )
            } else {
                "tls = 'off'".to_owned()
            };
            let text = format!(
                "site = '{name}'\ndata = 'data-{name}'\nsocket = '{name}.sock'\n{protected}\nsites = [{}]\n{more}",
                list.join(", ")
            );
            fs::write(home.join(format!("{name}.toml")), text).unwrap();
        }
        Files { dir }
    }

    pub(crate) fn home(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn path(&self, file: &str) -> String {
        self.home().join(file).display().to_string()
    }

    /// Starts a site, and does not wait until it is ready.
    pub(crate) fn start(&self, site: &str) -> Process {
        self.start_with(site, &[])
    }

    /// The same, with further options of `meshlock node`.
    pub(crate) fn start_with(&self, site: &str, options: &[&str]) -> Process {
        let mut command = meshlock(self.home());
        command.args(["node", "--config", &self.path(&format!("{site}.toml"))]).args(options);
        Process::start(command, self.home().join(format!("{site}.log")))
    }

    /// Starts sites and waits until all are ready.
    pub(crate) fn start_all(&self, sites: &[&str]) -> Vec<Process> {
        let all: Vec<Process> = sites.iter().map(|site| self.start(site)).collect();
        for (site, process) in sites.iter().zip(&all) {
            let line = process.line();
            assert!(line.starts_with(&format!("{site} is ready: view ")), "{line}");
        }
        all
    }

    /// Connects a client to a site.
    pub(crate) fn client(&self, site: &str, who: &str) -> Client {
        let stream = UnixStream::connect(self.home().join(format!("{site}.sock"))).unwrap();
        stream.set_read_timeout(Some(WITHIN)).unwrap();
        let mut client = Client { stream, bytes: Vec::new(), last_tag: 0 };
        client.say(&ToNode::Hello { version: VERSIONS.1, who: who.parse().unwrap() });
        assert!(matches!(client.receive(), ToClient::Welcome { .. }));
        client
    }
}

/// A connected client.
pub(crate) struct Client {
    stream: UnixStream,
    bytes: Vec<u8>,
    last_tag: u64,
}

impl Client {
    pub(crate) fn say(&mut self, message: &ToNode) {
        let mut bytes = Vec::new();
        put_to_node(message, &mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    /// Returns the next message of the node, except extensions of leases.
    pub(crate) fn receive(&mut self) -> ToClient {
        let deadline = Deadline::default();
        loop {
            deadline.check("the node sends a message that is no extension of a lease");
            if let Some((message, length)) = take_to_client(&self.bytes).unwrap() {
                self.bytes.drain(..length);
                if !matches!(message, ToClient::Extended { .. }) {
                    return message;
                }
                continue;
            }
            let mut scratch = [0; 4096];
            let count = self.stream.read(&mut scratch).expect("the node sends something in time");
            assert!(count > 0, "the node is still there");
            self.bytes.extend_from_slice(&scratch[..count]);
        }
    }

    /// Requests a lock, and does not wait for it.
    pub(crate) fn want(&mut self, lock: &str) {
        let (lock, wait) = (lock.parse().unwrap(), Wait::Forever);
        self.last_tag += 1;
        self.say(&ToNode::Acquire { tag: self.last_tag, lock, wait, permits: None });
    }

    /// Releases the lock of the last request and waits for the confirmation.
    pub(crate) fn release(&mut self) {
        self.say(&ToNode::Release(self.last_tag));
        let answer = self.receive();
        assert_eq!(answer, ToClient::Released(self.last_tag));
    }

    /// Acquires a lock and returns its fence.
    pub(crate) fn acquire(&mut self, lock: &str) -> i64 {
        self.want(lock);
        let answer = self.receive();
        let ToClient::Granted { fence, .. } = answer else { panic!("not granted: {answer:?}") };
        fence
    }
}
