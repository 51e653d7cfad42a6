//! A herd: a process of clients that increment the counter under the lock.
//!
//! The process is this test program, started again with the name of the test below, which then runs the clients.

use std::collections::BTreeSet;
use std::io::{BufRead, stdin};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use meshlock_system::now;
use meshlock_testing::{BoundedChild, eventually, joined};
use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::{Cluster, plain};
use crate::counter::Counter;
use crate::judge::{judge, updates};
use crate::network::Network;
use crate::over::Over;
use crate::session::Session;

/// The lock that all clients use.
pub(crate) const LOCK: &str = "counter";

/// Number of clients of a herd.
pub(crate) const CLIENTS: usize = 20;

/// Returns a command that starts this program again to run clients in one of its tests.
pub(crate) fn this_program(test: &str, counter: &Counter, who: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]);
    command.env("COUNTER_DIR", counter.dir()).env("COUNTER_CLIENT", who);
    command
}

/// Returns the counter and the client's name if this process was started to run clients.
pub(crate) fn told_to_count() -> Option<(Counter, String)> {
    let dir = std::env::var_os("COUNTER_DIR")?;
    Some((Counter::at(Path::new(&dir)), environment("COUNTER_CLIENT")))
}

pub(crate) fn environment(name: &str) -> String {
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
        let mut command = this_program("herd::a_herd_of_clients_counts_up", counter, name);
        let process = command.env("COUNTER_SOCKET", socket).stdin(Stdio::piped()).stdout(Stdio::null());
        Herd { name: name.to_owned(), process: process.spawn().unwrap() }
    }

    /// Returns the names of the clients.
    pub(crate) fn clients(&self) -> impl Iterator<Item = String> + '_ {
        (0..CLIENTS).map(|client| format!("{}-{client}", self.name))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(&self.process, signal);
    }

    /// Kills the process with all its clients.
    pub(crate) fn kill(mut self, counter: &Counter) {
        counter.note_killed(&format!("{}-", self.name));
        self.process.kill().unwrap();
        self.process.wait_in_time();
    }

    /// Lets all clients end their turns, and waits for the end of the process.
    pub(crate) fn end(mut self) {
        drop(self.process.stdin.take());
        let status = self.process.wait_in_time();
        assert!(status.success(), "the clients {} failed: {status}", self.name);
    }
}

impl Drop for Herd {
    fn drop(&mut self) {
        self.process.end();
    }
}

pub(crate) fn send(process: &Child, signal: Signal) {
    kill_process(id_of(process), signal).unwrap();
}

pub(crate) fn id_of(process: &Child) -> Pid {
    Pid::from_raw(i32::try_from(process.id()).unwrap()).unwrap()
}

#[test]
fn a_herd_of_clients_counts_up() {
    if let Some((counter, name)) = told_to_count() {
        return count_up(&counter, &name, &PathBuf::from(environment("COUNTER_SOCKET")));
    }
    let cluster = Cluster::start(Network::loopback(), 1, plain("naimi-trehel"));
    let counter = Counter::new(&cluster.home().join("shared"));
    let herd = Herd::start("a", &cluster.socket(0), &counter);
    let clients: BTreeSet<String> = herd.clients().collect();
    eventually("each has counted", || {
        let counted = updates(&counter.requests()).into_iter().map(|update| update.client);
        clients.is_subset(&counted.collect())
    });
    herd.end();
    let verdict = judge(&counter).unwrap();
    assert!(verdict.updates >= CLIENTS as u64 && verdict.refused + verdict.unfinished == 0, "{verdict:?}");
}

/// Runs the clients of a herd, in the process that was started for it.
fn count_up(counter: &Counter, name: &str, socket: &Path) {
    let over = Over::default();
    let start = |client: usize| {
        let (name, over) = (format!("{name}-{client}"), over.clone());
        let (counter, socket) = (counter.clone(), socket.to_owned());
        std::thread::spawn(move || Client { name, counter, over }.live(&socket))
    };
    let clients: Vec<_> = (0..CLIENTS).map(start).collect();
    // The process that started this one closes its end of the pipe when the test is over, or when it ends.
    let _ = stdin().lock().read_line(&mut String::new());
    over.set();
    for client in clients {
        joined("a client ends what it does", client);
    }
}

/// A client of a herd.
struct Client {
    name: String,
    counter: Counter,
    over: Over,
}

impl Client {
    /// Takes turns until the test is over, and connects again whenever the node is gone.
    fn live(&self, socket: &Path) {
        while !self.over.is_so() {
            let session = Session::connect(socket, &self.name, &mut || self.over.is_so());
            if let Ok(mut session) = session {
                while !self.over.is_so() && self.take_turn(&mut session).is_ok() {
                    self.over.rest();
                }
            }
            self.over.rest();
        }
    }

    /// Takes one turn. Returns an error if the session is no longer usable.
    fn take_turn(&self, session: &mut Session) -> std::io::Result<()> {
        session.compare_clocks(&mut || self.over.is_so())?;
        let request = session.want(LOCK)?;
        let grant = session.granted(request, &mut || self.over.is_so())?;
        // A grant that comes too late to be used is released, as the protocol requires.
        if now() + grant.margin < grant.until {
            let inside =
                self.counter.enter(&self.name, grant.fence, grant.until).expect("its files are there");
            let read = inside.read().expect("its files are there");
            inside.write(read).expect("its files are there");
        }
        session.release(grant.tag, &mut || self.over.is_so())
    }
}
