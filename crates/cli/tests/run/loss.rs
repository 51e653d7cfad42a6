//! When the lock is lost, the command has ended before anyone else can get the lock.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use meshlock_testing::{BoundedChild, Deadline, Lines, needs_program};
use rustix::process::Signal;

use crate::user::{CLOSE_ALL, Running, User, send, wait_for_end};

/// The default lease of a node.
const LEASE: Duration = Duration::from_secs(5);

/// Prints its process id, and ignores SIGTERM.
const STUBBORN: &str = "trap '' TERM; echo $$; while :; do sleep 600; done";

/// Prints `bye` and ends at SIGTERM.
const POLITE: &str = "exec 4<&0; trap 'echo bye; exit 0' TERM; cat <&4 & echo in; wait";

/// Returns a script that prints `both` if the process is still running.
fn look_for(process: i32) -> String {
    format!("if grep -q ') [^Z]' /proc/{process}/stat 2>/dev/null; then echo both; fi")
}

#[test]
fn a_command_whose_lock_is_broken_gets_sigterm_and_the_exit_code_is_76() {
    for user in User::of_each_program() {
        let mut running = user.start(&["x"], POLITE);
        assert_eq!(running.line(), "in");
        user.break_lock("x");
        assert_eq!((running.line().as_str(), running.code()), ("bye", Some(76)));
        assert!(running.complaints().contains("the lock is lost"));
    }
}

#[test]
fn a_command_that_ignores_sigterm_is_killed_with_its_process_group() {
    let user = User::new();
    for grace in ["10ms", "1h"] {
        let script = format!("({STUBBORN}) & {STUBBORN}");
        let mut running = user.start(&["x", "--grace", grace], &script);
        let processes = [running.line(), running.line()].map(|id| id.parse::<i32>().unwrap());
        let mut second = user.start(&["x"], &look_for(processes[0]));
        user.wait_for_waiters("x", 1);
        user.break_lock("x");
        assert_eq!((second.line().as_str(), second.code()), ("", Some(0)), "nobody else is inside");
        assert_eq!((running.line().as_str(), running.code()), ("", Some(76)));
    }
}

#[test]
fn a_command_whose_meshlock_run_was_killed_is_ended_by_the_node() {
    if !needs_program("bash") {
        return;
    }
    // Whether it has the session's socket open or not.
    for script in [STUBBORN.to_owned(), format!("{CLOSE_ALL}; {STUBBORN}")] {
        let user = User::new();
        let mut running = Running::start(user.meshlock_run(&["x", "--", "bash", "-c", &script]));
        let process: i32 = running.line().parse().unwrap();
        running.signal(Signal::KILL);
        running.end_status();
        let mut second = user.start(&["x"], &look_for(process));
        user.wait_for_waiters("x", 1);
        user.break_lock("x");
        assert_eq!((second.line().as_str(), second.code()), ("", Some(0)), "nobody else is inside");
        assert_eq!(running.line(), "", "and nobody is left who could print");
    }
}

#[test]
fn a_command_whose_meshlock_run_was_killed_gets_sigterm_first() {
    for user in User::of_each_program() {
        let mut running = user.start(&["x"], POLITE);
        assert_eq!(running.line(), "in");
        running.signal(Signal::KILL);
        running.end_status();
        user.break_lock("x");
        assert_eq!(running.line(), "bye");
        assert_eq!(user.code(&["x", "--wait", "30s"], "true"), Some(0));
    }
}

#[test]
fn a_command_is_ended_even_if_nobody_reads_standard_error() {
    let user = User::new();
    let (reader, mut full) = std::io::pipe().unwrap();
    // As much as the kernel keeps for those who do not read.
    full.write_all(&vec![0; 1 << 16]).unwrap();
    let script = format!("{STUBBORN} 2>/dev/null");
    let mut command = user.meshlock_run(&["x", "--", "sh", "-c", &script]);
    let mut process = command.stderr(full).stdout(Stdio::piped()).spawn().unwrap();
    Lines::of(process.stdout.take().unwrap()).line("the command is inside");
    user.break_lock("x");
    assert_eq!(process.wait_in_time().code(), Some(76));
    drop(reader);
}

#[test]
fn when_the_node_is_stopped_the_command_ends_before_the_lease() {
    // On a machine that is busy this test may notice the end too late. It then tries again: a command that is ended too late is so
    // every time.
    let deadline = Deadline::default();
    loop {
        deadline.check("the command ends before the lease does");
        let user = User::new();
        let mut running = user.start(&["x"], "echo in; exec sleep 600");
        assert_eq!(running.line(), "in");
        let node = user.node();
        send(node, Signal::STOP);
        let stopped = Instant::now();
        let code = running.code();
        let after = stopped.elapsed();
        send(node, Signal::CONT);
        assert_eq!(code, Some(76));
        assert!(running.complaints().contains("does not extend its lease"));
        // The lease was extended for the last time before the node was stopped.
        if after < LEASE {
            return;
        }
    }
}

#[test]
fn when_the_node_is_killed_the_command_has_ended_before_the_next_holder_enters() {
    let user = User::new();
    let mut running = user.start(&["x"], STUBBORN);
    let process: i32 = running.line().parse().unwrap();
    let look = format!("{}; echo $MESHLOCK_FENCE", look_for(process));
    let mut early = user.start(&["x"], &look);
    user.wait_for_waiters("x", 1);
    let node = user.node();
    send(node, Signal::KILL);
    wait_for_end(node);
    // The next node is started at once, by the one who waited or by this one.
    let mut late = user.start(&["x"], &look);
    let fences = [early.line(), late.line()].map(|line| line.parse::<i64>().expect("alone, with a fence"));
    assert_ne!(fences[0], fences[1]);
    assert_eq!([early.code(), late.code(), running.code()], [Some(0), Some(0), Some(76)]);
    assert_ne!(user.node(), node);
}

#[test]
fn a_command_gets_sigterm_when_the_node_is_killed() {
    let user = User::new();
    let mut running = user.start(&["x"], POLITE);
    assert_eq!(running.line(), "in");
    send(user.node(), Signal::KILL);
    assert_eq!((running.line().as_str(), running.code()), ("bye", Some(76)));
}
