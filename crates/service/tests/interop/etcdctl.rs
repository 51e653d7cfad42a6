//! `etcdctl` of Debian's etcd-client.

use std::process::{Child, Command, Stdio};

use meshlock_testing::{BoundedChild, BoundedCommand, Lines, needs_program};
use rustix::process::{Pid, Signal, kill_process};

use super::backend::Backend;
use super::programs::{Gate, client, said, text};

fn etcdctl(backend: &Backend, arguments: &[&str]) -> Command {
    let mut command = client("etcdctl");
    command.env("ETCDCTL_API", "3").args(["--endpoints", &backend.address]).args(arguments);
    command
}

/// A running `etcdctl`.
struct Running {
    child: Child,
    lines: Lines,
}

impl Running {
    fn start(backend: &Backend, arguments: &[&str]) -> Self {
        let mut child =
            etcdctl(backend, arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = Lines::of(child.stdout.take().unwrap());
        Running { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.line("etcdctl says something")
    }

    /// Waits for its end and returns its exit code, which is 1 if the command that it runs fails.
    fn end(mut self) -> Option<i32> {
        self.child.wait_in_time().code()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.end();
    }
}

/// Starts a command under the lock `jobs` that prints its key and revision, prints what it reads from the gate, and exits with 3.
fn hold(backend: &Backend, gate: &Gate) -> Running {
    let script = format!("echo $ETCD_LOCK_KEY $ETCD_LOCK_REV; cat {}; exit 3", gate.path().display());
    Running::start(backend, &["lock", "--ttl", "2", "jobs", "--", "sh", "-c", &script])
}

/// Returns whether the text is `prefix` and a lease in lower-case hexadecimal, as etcd writes them.
fn is_key(text: &str, prefix: &str) -> bool {
    let lease = text.strip_prefix(prefix).unwrap_or_default();
    i64::from_str_radix(lease, 16).is_ok() && lease == lease.to_lowercase()
}

fn key_and_revision(line: &str) -> (String, i64) {
    let (key, revision) = line.split_once(' ').unwrap();
    (key.to_owned(), revision.parse().unwrap())
}

#[test]
fn etcdctl_lock_runs_one_command_after_the_other_with_rising_revisions() {
    if !needs_program("etcdctl") {
        return;
    }
    let seen = Backend::compare(|backend| {
        let (gate, next_gate) = (Gate::new(), Gate::new());
        let mut first = hold(backend, &gate);
        let (first_key, first_revision) = key_and_revision(&first.line());
        let mut second = hold(backend, &next_gate);
        gate.open("still mine\n");
        let echoed = first.line();
        let (second_key, second_revision) = key_and_revision(&second.line());
        next_gate.open("");
        let rises = second_revision > first_revision;
        let keys = (is_key(&first_key, "jobs/"), is_key(&second_key, "jobs/"), first_key == second_key);
        (echoed, keys, rises, first.end(), second.end())
    });
    assert_eq!(seen, ("still mine".to_owned(), (true, true, false), true, Some(1), Some(1)));
}

#[test]
fn etcdctl_lock_is_free_when_a_killed_holder_s_lease_is_over() {
    if !needs_program("etcdctl") {
        return;
    }
    let free = Backend::compare(|backend| {
        let (gate, next_gate) = (Gate::new(), Gate::new());
        let mut first = hold(backend, &gate);
        first.line();
        first.signal(Signal::KILL);
        let mut second = hold(backend, &next_gate);
        let (key, _) = key_and_revision(&second.line());
        // The command of the killed process still waits.
        gate.open("");
        next_gate.open("");
        (is_key(&key, "jobs/"), second.end())
    });
    assert_eq!(free, (true, Some(1)));
}

#[test]
fn etcdctl_lease_grants_lists_and_revokes() {
    if !needs_program("etcdctl") {
        return;
    }
    let seen = Backend::compare(|backend| {
        let run = |arguments: &[&str]| etcdctl(backend, arguments).output_in_time();
        let granted = text(&run(&["lease", "grant", "100"]).stdout);
        let id = granted.split(' ').nth(1).unwrap().to_owned();
        let mut seen = vec![granted.clone()];
        seen.extend(
            [&["lease", "list"][..], &["lease", "timetolive", &id, "--keys"]].map(|words| said(&run(words))),
        );
        seen.extend([&["lease", "keep-alive", "--once", &id][..]].map(|words| said(&run(words))));
        seen.extend(
            [&["lease", "revoke", &id][..], &["lease", "revoke", &id]].map(|words| said(&run(words))),
        );
        seen.extend([&["lease", "timetolive", &id][..]].map(|words| said(&run(words))));
        seen.extend([&["lease", "keep-alive", "--once", &id][..]].map(|words| said(&run(words))));
        // Each server chooses its own lease ids, and one of the hundred seconds may have passed.
        let known = |line: String| line.replace(&id, "ID").replace("(99s)", "(100s)");
        seen.into_iter().map(known).map(without_times).collect::<Vec<_>>()
    });
    assert_eq!(seen[0], "lease ID granted with TTL(100s)");
    assert!(seen[5].contains("requested lease not found"), "{seen:?}");
}

/// Error lines begin with the time in a JSON object.
fn without_times(line: String) -> String {
    let cut = |line: &str| match (line.find("{\"level\""), line.find("\"error\":")) {
        (Some(start), Some(error)) => format!("{}{}", &line[..start], &line[error..]),
        _ => line.to_owned(),
    };
    cut(&line).replace("remaining(100s)", "remaining(99s)")
}

#[test]
fn etcdctl_elect_elects_one_after_the_other_and_shows_the_leader() {
    if !needs_program("etcdctl") {
        return;
    }
    let seen = Backend::compare(|backend| {
        let mut first = Running::start(backend, &["elect", "boss", "alice"]);
        let (key, value) = (first.line(), first.line());
        let mut observer = Running::start(backend, &["elect", "-l", "boss"]);
        let (seen_key, seen_value) = (observer.line(), observer.line());
        let mut second = Running::start(backend, &["elect", "boss", "bob"]);
        // It resigns when it is terminated.
        first.signal(Signal::INT);
        let (next_key, next_value) = (second.line(), second.line());
        let (then_key, then_value) = (observer.line(), observer.line());
        let keys = (is_key(&key, "boss/"), seen_key == key, is_key(&next_key, "boss/"), then_key == next_key);
        (keys, [value, seen_value, next_value, then_value])
    });
    assert_eq!(seen, ((true, true, true, true), ["alice", "alice", "bob", "bob"].map(str::to_owned)));
}
