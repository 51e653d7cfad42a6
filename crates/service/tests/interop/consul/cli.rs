//! `consul lock`, which uses `Lock` and `Semaphore` of the Go API.

use std::process::{Child, Command, Stdio};

use meshlock_testing::{BoundedChild, BoundedCommand, Deadline, Lines};
use rustix::process::{Pid, Signal, kill_process};

use super::{Server, program};
use crate::programs::{Gate, client, said};

/// A running `consul lock`.
struct Running {
    child: Child,
    lines: Lines,
}

impl Running {
    fn line(&mut self) -> String {
        self.lines.line("consul says something")
    }

    fn end(mut self) -> Option<i32> {
        self.child.wait_in_time().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.end();
    }
}

fn consul(server: &Server) -> Command {
    let mut command = client(program().unwrap());
    command.env("CONSUL_HTTP_ADDR", format!("http://{}", server.address));
    command
}

/// Starts a command under a lock that prints its name, reads a line from the gate, prints it, and exits with 3.
fn hold(server: &Server, name: &str, gate: &Gate, options: &[&str]) -> Running {
    let script = format!("echo {name}; cat {}; exit 3", gate.path().display());
    let mut command = consul(server);
    command.arg("lock").args(options).args(["jobs", &script]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = Lines::of(child.stdout.take().unwrap());
    Running { child, lines }
}

#[test]
fn consul_lock_runs_one_command_after_the_other() {
    if program().is_none() {
        return;
    }
    let seen = Server::compare(|server| {
        let (gate, next_gate) = (Gate::new(), Gate::new());
        let mut first = hold(server, "first", &gate, &["-child-exit-code"]);
        let mut said_all = vec![first.line()];
        // Without waiting it fails.
        let tries = consul(server).args(["lock", "-timeout", "300ms", "jobs", "echo never"]).output_in_time();
        said_all.push(said(&tries));
        let mut second = hold(server, "second", &next_gate, &[]);
        gate.open("still mine\n");
        said_all.extend([first.line(), second.line()]);
        next_gate.open("");
        (said_all, first.end(), second.end())
    });
    let tried = "|Shutdown triggered or timeout during lock acquisition|Some(1)";
    assert_eq!(seen.0, ["first", tried, "still mine", "second"]);
    assert_eq!((seen.1, seen.2), (Some(2), Some(0)));
}

#[test]
fn consul_lock_of_two_lets_the_third_wait() {
    if program().is_none() {
        return;
    }
    let seen = Server::compare(|server| {
        let gates = [Gate::new(), Gate::new(), Gate::new()];
        let mut first = hold(server, "first", &gates[0], &["-n", "2"]);
        let mut said_all = vec![first.line()];
        let mut second = hold(server, "second", &gates[1], &["-n", "2"]);
        said_all.push(second.line());
        let tries = consul(server)
            .args(["lock", "-n", "2", "-timeout", "300ms", "jobs", "echo never"])
            .output_in_time();
        said_all.push(said(&tries));
        // A client that expects another number of permits, or a lock, gets an error.
        for options in [&["-n", "3"][..], &[]] {
            let other =
                consul(server).arg("lock").args(options).args(["jobs", "echo never"]).output_in_time();
            said_all.push(said(&other));
        }
        let mut third = hold(server, "third", &gates[2], &["-n", "2"]);
        gates[0].open("");
        said_all.push(third.line());
        gates[1].open("");
        gates[2].open("");
        (said_all, [first.end(), second.end(), third.end()])
    });
    assert!(seen.0[2].contains("timeout during lock acquisition"), "{seen:?}");
    assert!(seen.0[3].contains("semaphore limit conflict (lock: 2, local: 3)"), "{seen:?}");
    assert!(seen.0[4].contains("Existing key does not match lock use"), "{seen:?}");
    assert_eq!((seen.0[5].as_str(), seen.1), ("third", [Some(0), Some(0), Some(0)]));
}

#[test]
fn consul_lock_ends_its_command_when_the_lock_is_taken_away() {
    if program().is_none() {
        return;
    }
    let seen = Server::compare(|server| {
        let gate = Gate::new();
        let mut first = hold(server, "first", &gate, &["-verbose"]);
        let mut said_all = vec![first.line()];
        let deadline = Deadline::default();
        while said_all.last().is_some_and(|line| line != "first") {
            deadline.check("the command is inside");
            said_all.push(first.line());
        }
        let sessions = server.get("/v1/session/list").body;
        let session = sessions[0]["ID"].as_str().unwrap().to_owned();
        let name = sessions[0]["Name"].as_str().unwrap().starts_with("Consul lock for 'echo first");
        server.put(&format!("/v1/session/destroy/{session}"), "");
        said_all.push(first.line());
        // The command that was told to end no longer reads.
        let _ = kill_process(Pid::from_child(&first.child), Signal::TERM);
        (name, said_all)
    });
    assert!(seen.0 && seen.1.last().unwrap().contains("Lock lost, killing child"), "{seen:?}");
}
