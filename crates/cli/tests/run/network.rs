//! `meshlock run --node`: the same guarantees with a network between the command and its node.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use meshlock_cluster::rules::{Clause, RulesText};
use meshlock_cluster::table::Wait;
use meshlock_testing::{BoundedCommand, Deadline, WITHIN, eventually};
use meshlock_tls::{Files, Identity, Wrap};
use meshlock_wire::clients::{ToClient, ToNode, VERSIONS, put_to_node, take_to_client};
use rustix::process::Signal;

use crate::user::{MESHLOCK, Running, User, send, wait_for_end};

/// Prints that it is inside, waits for a line, and appends a line to `trace` when it leaves.
const STAY: &str = "echo in; read _; echo left >> trace";

/// Prints its process id, and ignores SIGTERM.
const STUBBORN: &str = "trap '' TERM; echo $$; while :; do sleep 600; done";

/// A user whose node is reached over a network, with certificates or without.
pub(crate) struct Far {
    pub(crate) user: User,
    node: Running,
    address: String,
    /// The address of the node.
    flags: Vec<String>,
}

impl Far {
    pub(crate) fn new(tls: bool) -> Self {
        let user = User::new();
        let protected = if tls {
            for arguments in [&["init"] as &[&str], &["issue", "alpha"], &["issue", "laptop", "--client"]] {
                let mut command = user.command(MESHLOCK);
                assert!(command.arg("ca").args(arguments).output_in_time().status.success());
            }
            let file = |name: &str| format!("meshlock-ca/site-alpha/{name}.pem");
            let (ca, cert, key) = (file("ca"), file("cert"), file("key"));
            format!("tls = {{ ca = '{ca}', cert = '{cert}', key = '{key}' }}")
        } else {
            "tls = 'off'".to_owned()
        };
        let rules =
            "[[access]]\nprincipal = 'laptop'\nlocks = '*'\nverbs = ['acquire', 'watch', 'break', 'admin']\n";
        let config =
            format!("site = 'alpha'\nsession_ttl = '2s'\nclients = '127.0.0.1:0'\n{protected}\n{rules}");
        fs::write(user.file("alpha.toml"), config).unwrap();
        let mut command = user.command(MESHLOCK);
        command.args(["node", "--config", "alpha.toml", "--data", "data"]);
        let mut node = Running::start(command);
        let line = node.line();
        let address = line.rsplit_once(" and ").expect(&line).1.to_owned();
        let flags: &[&str] = if tls { &["--certificate", "meshlock-ca/client-laptop"] } else { &["--plain"] };
        let flags = flags.iter().map(ToString::to_string).collect();
        Far { user, node, address, flags }
    }

    /// Returns the flags that name the node, at `address`.
    fn through<'a>(&'a self, address: &'a str) -> Vec<&'a str> {
        ["--node", address].into_iter().chain(self.flags.iter().map(String::as_str)).collect()
    }

    pub(crate) fn arguments<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        more.iter().copied().chain(self.through(&self.address)).collect()
    }

    /// Starts a script under a lock, over the network.
    pub(crate) fn start(&self, more: &[&str], script: &str) -> Running {
        self.user.start(&self.arguments(more), script)
    }

    pub(crate) fn code(&self, more: &[&str], script: &str) -> Option<i32> {
        self.user.code(&self.arguments(more), script)
    }

    /// Runs another command over the network, and returns its exit code and output.
    pub(crate) fn command(&self, arguments: &[&str]) -> (Option<i32>, String) {
        finish(self.user.command(MESHLOCK).args(self.arguments(arguments)))
    }

    /// Opens a connection with the certificate in `dir`, for messages that the test writes itself.
    fn raw(&self, dir: &str) -> Raw {
        let identity = Identity::load(&Files::in_directory(&self.user.file(dir))).unwrap();
        let mut wire = Vec::new();
        let wrap = Wrap::call(&identity, &mut wire).unwrap();
        Raw::start(&self.address, wrap, &wire)
    }
}

fn finish(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output_in_time();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

/// A client that sends messages which the test chooses.
struct Raw {
    stream: TcpStream,
    wrap: Wrap,
    bytes: Vec<u8>,
}

impl Raw {
    fn start(address: &str, wrap: Wrap, wire: &[u8]) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(WITHIN)).unwrap();
        stream.write_all(wire).unwrap();
        let mut raw = Raw { stream, wrap, bytes: Vec::new() };
        raw.say(&ToNode::Hello { version: VERSIONS.1, who: "raw".parse().unwrap() });
        raw
    }

    fn say(&mut self, message: &ToNode) {
        let (mut plain, mut wire) = (Vec::new(), Vec::new());
        put_to_node(message, &mut plain);
        self.wrap.seal(&plain, &mut wire).unwrap();
        self.stream.write_all(&wire).unwrap();
    }

    fn receive(&mut self) -> ToClient {
        let deadline = Deadline::default();
        loop {
            deadline.check("an answer of the node");
            if let Some((message, length)) = take_to_client(&self.bytes).unwrap() {
                self.bytes.drain(..length);
                return message;
            }
            let (mut scratch, mut wire) = ([0; 4096], Vec::new());
            let count = self.stream.read(&mut scratch).unwrap();
            assert!(count > 0, "the node is there");
            self.wrap.open(&scratch[..count], &mut self.bytes, &mut wire).unwrap();
            self.stream.write_all(&wire).unwrap();
        }
    }

    /// Waits until the node has closed the connection, and ignores its messages.
    fn until_end(&mut self) {
        let deadline = Deadline::default();
        while self.stream.read(&mut [0; 4096]).unwrap() > 0 {
            deadline.check("the node ends the connection");
        }
    }

    fn acquire(&mut self, lock: &str) {
        assert!(matches!(self.receive(), ToClient::Welcome { contact: Some(_), .. }));
        let (lock, wait) = (lock.parse().unwrap(), Wait::Forever);
        self.say(&ToNode::Acquire { tag: 1, lock, wait, permits: None });
        assert!(matches!(self.receive(), ToClient::Granted { .. }));
    }
}

/// A proxy between a client and its node, which can be made to drop all bytes silently.
struct Hole {
    address: String,
    swallows: Arc<AtomicBool>,
}

impl Hole {
    fn new(to: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (swallows, to) = (Arc::new(AtomicBool::new(false)), to.to_owned());
        let flag = swallows.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(node) = TcpStream::connect(&to) else { return };
                for (from, into) in [(&client, &node), (&node, &client)] {
                    let (from, into) = (from.try_clone().unwrap(), into.try_clone().unwrap());
                    let flag = flag.clone();
                    std::thread::spawn(move || pass_on(from, into, &flag));
                }
            }
        });
        Hole { address, swallows }
    }

    fn swallow(&self) {
        self.swallows.store(true, Ordering::SeqCst);
    }
}

fn pass_on(mut from: TcpStream, mut into: TcpStream, swallows: &AtomicBool) {
    let mut bytes = [0; 4096];
    while let Ok(count) = from.read(&mut bytes) {
        let lost = swallows.load(Ordering::SeqCst);
        if count == 0 && !lost {
            let _ = into.shutdown(Shutdown::Write);
        }
        if count == 0 || (!lost && into.write_all(&bytes[..count]).is_err()) {
            return;
        }
    }
}

/// Returns the process that keeps the session of a running `meshlock run`.
fn keeper_of(meshlock: i32) -> i32 {
    let children = fs::read_to_string(format!("/proc/{meshlock}/task/{meshlock}/children")).unwrap();
    let is_keeper = |id: &&str| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("keep-session")
    };
    children.split_whitespace().find(is_keeper).expect("it has a keeper").parse().unwrap()
}

/// Returns a script that prints `both` if the process is still running.
fn look_for(process: i32) -> String {
    format!("if grep -q ') [^Z]' /proc/{process}/stat 2>/dev/null; then echo both; fi")
}

#[test]
fn a_remote_node_grants_locks_like_a_local_one() {
    for tls in [true, false] {
        let far = Far::new(tls);
        let mut first = far.start(&["x"], "echo $MESHLOCK_NAME; read _; exit 7");
        assert_eq!(first.line(), "x");
        assert_eq!(far.code(&["x", "--try"], "true"), Some(75));
        assert_eq!(
            far.user.code(&["x", "--try"], "true"),
            Some(75),
            "nor do clients of its own machine have it"
        );
        let (code, said) = far.command(&["queue", "x"]);
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(said.contains("laptop (label "), tls, "its certificate says who it is: {said}");
        first.go_on();
        assert_eq!(first.code(), Some(7));
        for _ in 0..3 {
            assert_eq!(
                far.code(&["x", "--try"], "true"),
                Some(0),
                "it is free as soon as the command has ended"
            );
        }
    }
}

#[test]
fn a_command_whose_meshlock_run_is_killed_continues_and_keeps_the_lock() {
    let far = Far::new(true);
    let mut first = far.start(&["x"], STAY);
    assert_eq!(first.line(), "in");
    first.signal(Signal::KILL);
    assert_eq!(first.code(), None, "killed");
    assert_eq!(far.code(&["x", "--wait", "3s"], "true"), Some(75), "longer than a silent session lasts");
    let mut second = far.start(&["x"], "cat trace");
    first.go_on();
    assert_eq!((second.line().as_str(), second.code()), ("left", Some(0)));
}

#[test]
fn background_processes_of_a_command_keep_the_lock_when_all_else_is_killed() {
    let far = Far::new(true);
    let tree = "exec 3<&0; setsid sh -c 'read _ <&3; echo left >> trace' & echo in; read _";
    let mut first = far.start(&["x"], tree);
    assert_eq!(first.line(), "in");
    first.signal(Signal::KILL);
    first.go_on();
    assert_eq!(far.code(&["x", "--try"], "true"), Some(75), "one of them runs");
    let mut second = far.start(&["x"], "test -e trace && echo alone");
    first.go_on();
    assert_eq!((second.line().as_str(), second.code()), ("alone", Some(0)));
}

#[test]
fn when_the_keeper_is_killed_the_command_is_ended_before_anyone_else_has_the_lock() {
    let far = Far::new(true);
    let mut first = far.start(&["x"], STUBBORN);
    let process: i32 = first.line().parse().unwrap();
    let mut second = far.start(&["x"], &look_for(process));
    send(keeper_of(first.id()), Signal::KILL);
    assert_eq!((second.line().as_str(), second.code()), ("", Some(0)), "nobody else is inside");
    assert_eq!(first.code(), Some(76));
}

#[test]
fn when_all_packets_are_dropped_the_command_is_ended_before_anyone_else_has_the_lock() {
    for kills_meshlock in [false, true] {
        let far = Far::new(true);
        let hole = Hole::new(&far.address);
        let arguments: Vec<&str> = ["x"].into_iter().chain(far.through(&hole.address)).collect();
        let mut first = far.user.start(&arguments, STUBBORN);
        let process: i32 = first.line().parse().unwrap();
        let mut second = far.user.start(&["x"], &look_for(process));
        if kills_meshlock {
            first.signal(Signal::KILL);
            first.end_status();
        }
        hole.swallow();
        assert_eq!((second.line().as_str(), second.code()), ("", Some(0)), "nobody else is inside");
        assert_eq!(first.line(), "", "and nobody is left who could print");
        assert_eq!(first.code(), if kills_meshlock { None } else { Some(76) });
    }
}

#[test]
fn a_lock_that_is_broken_at_the_remote_node_is_lost() {
    let far = Far::new(true);
    let mut first = far.start(&["x"], STUBBORN);
    let process: i32 = first.line().parse().unwrap();
    let mut second = far.start(&["x"], &look_for(process));
    let (code, said) = far.command(&["break", "x", "--yes"]);
    assert!(code == Some(0) && said.contains("was taken from laptop (label \"sh, process"), "{said}");
    assert_eq!((second.line().as_str(), second.code()), ("", Some(0)), "nobody else is inside");
    assert_eq!(first.code(), Some(76));
}

#[test]
fn when_the_remote_node_is_killed_the_command_ends_before_the_lease() {
    let far = Far::new(true);
    let mut first = far.start(&["x"], "echo in; exec sleep 600");
    assert_eq!(first.line(), "in");
    far.node.signal(Signal::KILL);
    wait_for_end(far.node.id());
    assert_eq!(first.code(), Some(76));
    let (code, said) = far.command(&["status"]);
    assert!(code == Some(69) && said.contains("no node serves clients at 127.0.0.1:"), "{said}");
}

#[test]
fn a_cut_connection_does_not_release_the_lock_at_once() {
    let far = Far::new(true);
    let mut cut = far.raw("meshlock-ca/client-laptop");
    cut.acquire("x");
    // Anyone between client and node can end a connection like this.
    drop(cut);
    assert_eq!(far.code(&["x", "--try"], "true"), Some(75), "its client may still believe in it");
    assert_eq!(far.code(&["x", "--wait", "30s"], "true"), Some(0), "and not for ever");
    let mut gone = far.raw("meshlock-ca/client-laptop");
    gone.acquire("x");
    let mut wire = Vec::new();
    gone.wrap.end(&mut wire).unwrap();
    gone.stream.write_all(&wire).unwrap();
    gone.stream.shutdown(Shutdown::Write).unwrap();
    gone.until_end();
    assert_eq!(far.code(&["x", "--try"], "true"), Some(0), "free at once");
}

#[test]
fn without_tls_the_end_of_a_connection_releases_the_lock_and_a_guard_is_refused() {
    let far = Far::new(false);
    let mut plain = Raw::start(&far.address, Wrap::plain(), &[]);
    plain.acquire("x");
    plain.say(&ToNode::Guard { group: 12 });
    let refused = plain.receive();
    assert!(
        matches!(&refused, ToClient::Refused { tag: 0, why, .. } if why.contains("of another machine")),
        "{refused:?}"
    );
    plain.stream.shutdown(Shutdown::Write).unwrap();
    plain.until_end();
    assert_eq!(far.code(&["x", "--try"], "true"), Some(0), "free at once");
}

#[test]
fn only_client_certificates_are_accepted_from_clients() {
    let far = Far::new(true);
    // A site says what it is, whatever it says.
    let refused = far.raw("meshlock-ca/site-alpha").receive();
    assert!(
        matches!(&refused, ToClient::Refused { why, .. } if why.contains("is the site 'alpha'")),
        "{refused:?}"
    );
    let run = |flags: &[&str]| {
        let arguments = [&["x", "--node", &far.address], flags].concat();
        finish(far.user.meshlock_run(&arguments).env_remove("HOME").args(["--", "true"]))
    };
    for (flags, code, says) in [
        (
            &["--certificate", "meshlock-ca/site-alpha"] as &[&str],
            64,
            "is the certificate of the site 'alpha'",
        ),
        (&[], 64, "this machine has no client certificate; make one with `meshlock ca issue NAME --client`"),
        (&["--certificate", "nowhere"], 64, "nowhere/ca.pem"),
        (&["--plain"], 69, "cannot use the node at"),
    ] {
        let (found, said) = run(flags);
        assert!(found == Some(code) && said.contains(says), "{flags:?}: {found:?} {said}");
    }
    let plain = Far::new(false);
    let arguments = ["x", "--node", &plain.address, "--certificate", "meshlock-ca/client-laptop"];
    let (code, said) = finish(far.user.meshlock_run(&arguments).args(["--", "true"]));
    assert!(code == Some(69) && said.contains("cannot use the node at"), "{said}");
}

#[test]
fn all_commands_of_an_operator_work_with_a_remote_node() {
    let far = Far::new(true);
    for (arguments, says) in [
        (&["status"] as &[&str], "is a member of the cluster."),
        (&["site", "list"], "alpha"),
        (&["rules", "set", "pool/*", "raymond-k", "--permits", "3"], "pool/*"),
        (&["rules", "show"], "pool/*"),
        (&["queue", "pool/x"], "raymond-k"),
    ] {
        let (code, said) = far.command(arguments);
        assert!(code == Some(0) && said.contains(says), "{arguments:?}: {said}");
    }
    // What the flags say can also stand in the environment.
    let mut command = far.user.command(MESHLOCK);
    command.env("MESHLOCK_NODE", &far.address).env("MESHLOCK_CERTIFICATE", "meshlock-ca/client-laptop");
    let (code, said) = finish(command.arg("status"));
    assert!(code == Some(0) && said.contains("is a member of the cluster."), "{said}");
}

#[test]
fn a_command_is_not_started_on_a_lock_that_was_lost_while_meshlock_was_stopped() {
    let far = Far::new(true);
    let mut first = far.start(&["x"], STAY);
    assert_eq!(first.line(), "in");
    let mut second = far.start(&["x"], "echo ran >> second");
    // Asked again and again until both are in the line: nobody tells by itself.
    eventually("both are in the line", || {
        far.command(&["queue", "x"]).1.matches("laptop (label ").count() >= 2
    });
    let keeper = keeper_of(second.id());
    send(second.id(), Signal::STOP);
    send(keeper, Signal::STOP);
    first.go_on();
    assert_eq!(first.code(), Some(0));
    // Its session ends in silence, and the next one has what it was given.
    let mut third = far.start(&["x"], STAY);
    assert_eq!(third.line(), "in");
    send(keeper, Signal::CONT);
    send(second.id(), Signal::CONT);
    assert_eq!(second.code(), Some(76), "{}", second.complaints());
    assert!(!far.user.file("second").exists());
    third.go_on();
    assert_eq!(third.code(), Some(0));
}

#[test]
fn a_long_answer_reaches_a_remote_client_completely() {
    let far = Far::new(true);
    let mut raw = far.raw("meshlock-ca/client-laptop");
    assert!(matches!(raw.receive(), ToClient::Welcome { .. }));
    // More than what TLS takes at once unless it is told to.
    let rule = |number: u32| (format!("{number:0>240}"), Clause::exclusive("raymond"));
    let rules = RulesText { rules: (0..500).map(rule).collect(), default: Clause::exclusive("naimi-trehel") };
    raw.say(&ToNode::SetRules { tag: 1, rules });
    assert!(matches!(raw.receive(), ToClient::RulesSet { .. }));
    raw.say(&ToNode::Status { tag: 2 });
    let ToClient::Status { status, .. } = raw.receive() else { panic!("it says how it is") };
    assert_eq!(status.view.rules.rules.len(), 500);
    let (code, said) = far.command(&["status"]);
    assert!(code == Some(0) && said.contains("is a member of the cluster."), "{said}");
}

#[test]
fn a_nested_command_recognises_the_node_by_its_name_and_by_its_socket() {
    let far = Far::new(false);
    let port = far.address.rsplit_once(':').unwrap().1;
    let meshlock = MESHLOCK;
    for inner in
        [format!("--node localhost:{port} --plain"), "--socket runtime/meshlock/alpha.sock".to_owned()]
    {
        let output = far.user.run(&far.arguments(&["x"]), &format!("{meshlock} run x --try {inner} -- true"));
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{inner}: {error}");
        assert!(error.contains("already runs under the lock 'x'"), "{inner}: {error}");
    }
}
