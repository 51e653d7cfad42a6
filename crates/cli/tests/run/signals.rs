//! Signals to the process group of the command, and to a `meshlock run` that waits.

use std::fs;

use meshlock_testing::eventually;
use rustix::process::Signal;

use crate::user::{MESHLOCK, Running, User, send};

#[test]
fn every_signal_goes_to_the_group_of_the_command() {
    for user in User::of_each_program() {
        let signals = [
            ("HUP", Signal::HUP),
            ("INT", Signal::INT),
            ("QUIT", Signal::QUIT),
            ("USR1", Signal::USR1),
            ("USR2", Signal::USR2),
            ("TERM", Signal::TERM),
            ("ALRM", Signal::ALARM),
            ("PWR", Signal::POWER),
        ];
        for (name, signal) in signals {
            let script = format!(
                "exec 4<&0; trap 'echo got {name}; exit 3' {name}; cat <&4 & echo in; wait; echo not reached"
            );
            let mut running = user.start(&["x"], &script);
            assert_eq!(running.line(), "in");
            running.signal(signal);
            assert_eq!((running.line(), running.code()), (format!("got {name}"), Some(3)));
            // What it left behind ends with what it reads, or has ended of the signal.
        }
    }
}

#[test]
fn the_exit_code_contains_the_signal_that_ended_the_command() {
    for user in User::of_each_program() {
        let mut running = user.start(&["x"], "echo in; exec sleep 600");
        assert_eq!(running.line(), "in");
        running.signal(Signal::TERM);
        assert_eq!(running.code(), Some(128 + 15));
        assert_eq!(user.code(&["x", "--try"], "true"), Some(0), "the lock is free");
    }
}

#[test]
fn a_command_is_stopped_and_continues() {
    let user = User::new();
    // Without a terminal, on which it would be the person's business.
    let mut command = user.command("setsid");
    command.arg(MESHLOCK).args(["run", "x", "--", "sh", "-c", "echo $$; read _; exit 4"]);
    let mut running = Running::start(command);
    let process: i32 = running.line().parse().unwrap();
    running.signal(Signal::TSTP);
    wait_for_state(process, 'T');
    running.go_on();
    running.signal(Signal::CONT);
    assert_eq!(running.code(), Some(4));
}

/// Waits until a process is in this state. The kernel does not report changes, so `/proc` is read repeatedly.
fn wait_for_state(process: i32, state: char) {
    eventually(&format!("process {process} is in the state {state}"), || {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with(state)
    });
}

#[test]
fn a_signal_ends_a_wait_and_removes_the_request() {
    let user = User::new();
    let mut first = user.start(&["x"], "echo in; read _");
    assert_eq!(first.line(), "in");
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut second = user.start(&["x"], "echo never");
        user.wait_for_waiters("x", 1);
        second.signal(signal);
        assert_eq!((second.line().as_str(), second.code()), ("", Some(code)));
        user.wait_for_waiters("x", 0);
    }
    first.go_on();
    assert_eq!(first.code(), Some(0));
    assert_eq!(user.code(&["x", "--try"], "true"), Some(0));
}

#[test]
fn signals_that_nohup_ignores_stay_ignored() {
    let user = User::new();
    let mut command = user.command("nohup");
    command.arg(MESHLOCK);
    command.args(["run", "x", "--", "sh", "-c", "echo $$; read _; exit 4"]);
    let mut running = Running::start(command);
    let process: i32 = running.line().parse().unwrap();
    running.signal(Signal::HUP);
    send(process, Signal::HUP);
    running.go_on();
    assert_eq!(running.code(), Some(4));
}
