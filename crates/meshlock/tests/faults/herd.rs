//! Clients: a process of many that count up under the lock, and commands that do so once under `meshlock run`.
//!
//! They are this very program, started again to run one of the two "tests" below, which are ignored otherwise.

use std::io::{BufRead, stdin};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use meshlock_node::shell::now;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::counter::{Counter, FOR_EVER, Outcome};
use crate::session::Session;
use crate::site::meshlock;

/// The lock.
pub(crate) const LOCK: &str = "counter";

/// How many clients a herd has.
pub(crate) const CLIENTS: usize = 20;

/// What a client does before it wants in again: the pace of the load, not a wait for anything.
const REST: Duration = Duration::from_millis(150);

/// A command that runs one of the "tests" here.
fn this_program(test: &str, counter: &Counter, who: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("herd::{test}"), "--ignored", "--nocapture"]);
    command.env("COUNTER_DIR", counter.dir()).env("COUNTER_CLIENT", who);
    command
}

fn environment(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is set by the tests that start this"))
}

/// A process of clients of one site.
pub(crate) struct Herd {
    name: String,
    process: Child,
}

impl Herd {
    /// Starts a herd whose clients are called `NAME-0`, `NAME-1` and so on.
    pub(crate) fn start(name: &str, socket: &Path, counter: &Counter) -> Self {
        let mut command = this_program("a_herd_of_clients", counter, name);
        let process = command.env("COUNTER_SOCKET", socket).stdin(Stdio::piped()).stdout(Stdio::null());
        Herd { name: name.to_owned(), process: process.spawn().unwrap() }
    }

    /// Its clients.
    pub(crate) fn clients(&self) -> impl Iterator<Item = String> + '_ {
        (0..CLIENTS).map(|client| format!("{}-{client}", self.name))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(&self.process, signal);
    }

    /// Kills all of them at once.
    pub(crate) fn kill(mut self, counter: &Counter) {
        counter.note_killed(&format!("{}-", self.name));
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Lets all of them end what they do.
    pub(crate) fn end(mut self) {
        drop(self.process.stdin.take());
        let status = self.process.wait().unwrap();
        assert!(status.success(), "the clients {} failed: {status}", self.name);
    }
}

impl Drop for Herd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn send(process: &Child, signal: Signal) {
    kill_process(id_of(process), signal).unwrap();
}

fn id_of(process: &Child) -> Pid {
    Pid::from_raw(i32::try_from(process.id()).unwrap()).unwrap()
}

#[test]
#[ignore = "the other tests start it, as a process of clients"]
fn a_herd_of_clients() {
    let name = environment("COUNTER_CLIENT");
    let counter = Counter::at(Path::new(&environment("COUNTER_DIR")));
    let socket = PathBuf::from(environment("COUNTER_SOCKET"));
    let over = Arc::new(AtomicBool::new(false));
    let start = |client: usize| {
        let (name, over) = (format!("{name}-{client}"), over.clone());
        let (counter, socket) = (counter.clone(), socket.clone());
        std::thread::spawn(move || Client { name, counter, over }.live(&socket))
    };
    let clients: Vec<_> = (0..CLIENTS).map(start).collect();
    // Whoever started this closes its end when it has seen enough, or is gone.
    let _ = stdin().lock().read_line(&mut String::new());
    over.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().unwrap();
    }
}

/// One of a herd.
struct Client {
    name: String,
    counter: Counter,
    over: Arc<AtomicBool>,
}

impl Client {
    /// Counts up until it is over; a node that goes away is looked for again.
    fn live(&self, socket: &Path) {
        while !self.is_over() {
            let session = Session::connect(socket, &self.name, &mut || self.is_over());
            if let Ok(mut session) = session {
                while !self.is_over() && self.take_turn(&mut session).is_ok() {
                    std::thread::sleep(REST);
                }
            }
            std::thread::sleep(REST);
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// An error if the session is of no use any more.
    fn take_turn(&self, session: &mut Session) -> std::io::Result<()> {
        let wish = session.want(LOCK)?;
        let grant = session.granted(wish, &mut || self.is_over())?;
        // What comes too late to be used is given back, as the protocol asks for.
        if now() + grant.margin < grant.until {
            let inside =
                self.counter.enter(&self.name, grant.fence, grant.until).expect("its files are there");
            let read = inside.read().expect("its files are there");
            inside.write(read).expect("its files are there");
        }
        session.release(grant.tag, &mut || self.is_over())
    }
}

#[test]
#[ignore = "the other tests start it under `meshlock run`"]
#[allow(clippy::print_stdout, reason = "it says how far it is")]
fn one_turn_under_run() {
    let client = environment("COUNTER_CLIENT");
    let counter = Counter::at(Path::new(&environment("COUNTER_DIR")));
    let fence = environment("MESHLOCK_FENCE").parse().unwrap();
    let inside = counter.enter(&client, fence, FOR_EVER).unwrap();
    let read = inside.read().unwrap();
    if std::env::var_os("COUNTER_WAITS").is_some() {
        println!("inside {}", std::process::id());
        stdin().lock().read_line(&mut String::new()).unwrap();
    }
    match inside.write(read).unwrap() {
        Outcome::Written => println!("written"),
        Outcome::Refused => println!("refused"),
    }
}

/// `meshlock run` of one turn: as CLIENT, of the node at this socket. It waits inside for a line, if it is told to.
pub(crate) fn turn_under_run(home: &Path, socket: &Path, counter: &Counter, client: &str) -> Command {
    let turn = this_program("one_turn_under_run", counter, client);
    let mut command = meshlock(home);
    command
        .args(["run", LOCK, "--socket"])
        .arg(socket)
        .arg("--")
        .arg(turn.get_program())
        .args(turn.get_args());
    for (key, value) in turn.get_envs() {
        command.env(key, value.unwrap());
    }
    command
}

/// Takes turns under `meshlock run`, one command after the other, until it is told to stop.
pub(crate) struct Runner {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Runner {
    pub(crate) fn start(home: &Path, socket: &Path, counter: &Counter, client: &str) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let until = over.clone();
        let mut command = turn_under_run(home, socket, counter, client);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        // A group of its own, so that it can be ended with what it runs.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let thread = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                let status = run_to_end(&mut command, &until);
                // Done; no node reachable; lost and ended. Anything else is a mistake of `meshlock run`, or of ours.
                let fine = matches!(status.code(), Some(0 | 69 | 76));
                assert!(fine || until.load(Ordering::Relaxed), "meshlock run ends with {status}");
                std::thread::sleep(REST);
            }
        });
        Runner { over, thread: Some(thread) }
    }

    /// Ends it; fails if one of its commands ended as none may.
    pub(crate) fn end(mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().expect("every command ends as it may");
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Runs a command; once it is over, ends it if it still waits.
fn run_to_end(command: &mut Command, over: &AtomicBool) -> ExitStatus {
    let mut process = command.spawn().unwrap();
    loop {
        if let Some(status) = process.try_wait().unwrap() {
            return status;
        }
        if over.load(Ordering::Relaxed) {
            let _ = kill_process_group(id_of(&process), Signal::TERM);
            return process.wait().unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
