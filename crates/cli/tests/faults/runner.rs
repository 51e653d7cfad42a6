//! Commands that increment the counter once, each under `meshlock run`.

use std::io::{BufRead, stdin};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use meshlock_testing::{BoundedChild, BoundedCommand, WITHIN, first_some};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::cluster::{Cluster, plain};
use crate::counter::{Counter, FOR_EVER, Outcome};
use crate::herd::{LOCK, environment, id_of, this_program, told_to_count};
use crate::judge::{Verdict, judge};
use crate::network::Network;
use crate::over::Over;
use crate::site::meshlock;

/// Ignores SIGTERM; the program that it executes inherits that.
const STUBBORN: &str = r#"trap '' TERM; exec "$@""#;

#[test]
fn a_command_under_run_counts_up_once() {
    if let Some((counter, client)) = told_to_count() {
        return count_up(&counter, &client);
    }
    let cluster = Cluster::start(Network::loopback(), 1, plain("naimi-trehel"));
    let counter = Counter::new(&cluster.home().join("shared"));
    let output = turn_under_run(cluster.home(), &cluster.socket(0), &counter, "once").output_in_time();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("written"), "{text}");
    assert_eq!(judge(&counter), Ok(Verdict { updates: 1, refused: 0, unfinished: 0 }));
}

/// Increments the counter, in the process of the command.
#[allow(clippy::print_stdout, reason = "it says how far it is")]
fn count_up(counter: &Counter, client: &str) {
    let fence = environment("MESHLOCK_FENCE").parse().unwrap();
    let inside = counter.enter(client, fence, FOR_EVER).unwrap();
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

/// Returns the command `meshlock run` for one turn of `client` at the node with this socket. The command ignores SIGTERM, so it is
/// inside for as long as `meshlock run` and the node let it.
pub(crate) fn turn_under_run(home: &Path, socket: &Path, counter: &Counter, client: &str) -> Command {
    let turn = this_program("runner::a_command_under_run_counts_up_once", counter, client);
    let mut command = meshlock(home);
    command.args(["run", LOCK, "--socket"]).arg(socket).args(["--", "sh", "-c", STUBBORN, "sh"]);
    command.arg(turn.get_program()).args(turn.get_args());
    for (key, value) in turn.get_envs() {
        command.env(key, value.unwrap());
    }
    command
}

/// Takes turns under `meshlock run`, one command after the other, until the test is over.
pub(crate) struct Runner {
    over: Over,
    /// The running `meshlock run`.
    running: Arc<Mutex<Option<Pid>>>,
    thread: Option<JoinHandle<()>>,
}

impl Runner {
    pub(crate) fn start(home: &Path, socket: &Path, counter: &Counter, client: &str) -> Self {
        let (over, running) = (Over::default(), Arc::default());
        let mut command = turn_under_run(home, socket, counter, client);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let (until, runs) = (over.clone(), Arc::clone(&running));
        let thread = std::thread::spawn(move || {
            while !until.is_so() {
                let status = run(command.spawn().unwrap(), &runs, &until);
                // Success; no node reachable; the lock was lost. Any other code is a bug of `meshlock run` or of this test.
                let fine = matches!(status.code(), Some(0 | 69 | 76));
                assert!(fine || until.is_so(), "meshlock run ends with {status}");
                until.rest();
            }
        });
        Runner { over, running, thread: Some(thread) }
    }

    /// Ends the commands. Panics if one of them ended with an unexpected code.
    pub(crate) fn end(mut self) {
        self.stop().expect("every command ends as it may");
    }

    fn stop(&mut self) -> std::thread::Result<()> {
        self.over.set();
        if let Some(process) = *self.running.lock().unwrap() {
            kill_process(process, Signal::TERM).unwrap();
        }
        let Some(thread) = self.thread.take() else { return Ok(()) };
        // It must not panic, because it also runs when a test fails.
        match first_some(WITHIN, || thread.is_finished().then_some(())) {
            Some(()) => thread.join(),
            None => Err(Box::new("the command that runs last does not end")),
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

/// Waits for the end of a process. Its id is in `running` for as long as it can be sent signals.
fn run(mut process: Child, running: &Mutex<Option<Pid>>, over: &Over) -> ExitStatus {
    let id = id_of(&process);
    *running.lock().unwrap() = Some(id);
    if over.is_so() {
        kill_process(id, Signal::TERM).unwrap();
    }
    let descriptor = pidfd_open(id, PidfdFlags::empty()).unwrap();
    // There is no limit here: `Runner::stop` ends the process.
    while poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], None).is_err() {}
    *running.lock().unwrap() = None;
    process.wait_in_time()
}
