//! What is under the lock: all processes that the command has started, whatever they do to leave it.

use std::fs;

use meshlock_cluster::table::Wait;
use meshlock_testing::{BoundedCommand, eventually, needs_program};
use meshlock_wire::clients::{ToClient, ToNode, VERSIONS, put_to_node};
use rustix::process::Signal;

use crate::network::Far;
use crate::user::{CLOSE_ALL, MESHLOCK, Running, User, send, wait_for_end};

/// A daemon as old books teach it: a session of its own, two forks, no descriptor of its parents. It writes its process id to the file
/// `daemon` and ends when someone writes to the named pipe `gate`.
fn daemon() -> String {
    let inner =
        format!("{CLOSE_ALL}; echo $$ > daemon.new; mv daemon.new daemon; read _ < gate; echo left >> trace");
    let quoted = inner.replace('\'', r"'\''");
    format!("(setsid setsid bash -c '{quoted}' </dev/null >/dev/null 2>&1 &)")
}

/// Starts a command that leaves a daemon behind and then does `then`. Returns it with the daemon's process.
fn start(user: &User, arguments: &[&str], then: &str) -> (Running, i32) {
    assert!(user.command("mkfifo").arg("gate").output_in_time().status.success());
    let script = format!("{}; {then}", daemon());
    let mut command = user.meshlock_run(arguments);
    command.args(["--", "bash", "-c", &script]);
    let running = Running::start(command);
    eventually("the daemon is there", || user.file("daemon").exists());
    (running, fs::read_to_string(user.file("daemon")).unwrap().trim().parse().unwrap())
}

/// Lets the daemon end.
fn open_gate(user: &User) {
    fs::write(user.file("gate"), "go\n").unwrap();
}

/// Returns a script that prints `both` if the process is still running.
fn look_for(process: i32) -> String {
    format!("if grep -q ') [^Z]' /proc/{process}/stat 2>/dev/null; then echo both; fi")
}

/// Returns the supervisor of a running `meshlock run`.
pub(crate) fn supervisor_of(meshlock: i32) -> i32 {
    let children = fs::read_to_string(format!("/proc/{meshlock}/task/{meshlock}/children")).unwrap();
    let is_supervisor = |id: &&str| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("supervise-held")
    };
    children.split_whitespace().find(is_supervisor).expect("it has a supervisor").parse().unwrap()
}

#[test]
fn a_daemon_keeps_the_lock_when_the_command_has_ended() {
    if !needs_program("bash") {
        return;
    }
    for user in User::of_each_program() {
        let (mut running, daemon) = start(&user, &["x"], "exit 3");
        assert_eq!(running.code(), Some(3), "the command itself has ended");
        assert_eq!(user.code(&["x", "--try"], "true"), Some(75), "the daemon runs");
        let mut second = user.start(&["x"], "cat trace");
        user.wait_for_waiters("x", 1);
        open_gate(&user);
        assert_eq!((second.line().as_str(), second.code()), ("left", Some(0)));
        wait_for_end(daemon);
    }
}

#[test]
fn a_daemon_has_ended_before_anyone_else_has_a_lock_that_is_lost() {
    if !needs_program("bash") {
        return;
    }
    // `meshlock run` is there, has ended, or was killed.
    let ways = [("read _", false), ("exit 0", false), ("read _", true)];
    for ((then, kill), user) in
        ways.into_iter().flat_map(|way| User::of_each_program().map(|user| (way, user)))
    {
        let (mut running, daemon) = start(&user, &["x"], then);
        if kill {
            running.signal(Signal::KILL);
        }
        if kill || then == "exit 0" {
            running.end_status();
        }
        let mut second = user.start(&["x"], &look_for(daemon));
        user.wait_for_waiters("x", 1);
        user.break_lock("x");
        assert_eq!((second.line().as_str(), second.code()), ("", Some(0)), "{then} {kill}: nobody is inside");
        wait_for_end(daemon);
    }
}

#[test]
fn a_command_that_forks_without_end_is_ended() {
    for kill in [false, true] {
        let user = User::new();
        let hop = user.file("hop.sh");
        // Each process starts the next one, in a session of its own, and ends.
        fs::write(&hop, "setsid sh \"$0\" </dev/null >/dev/null 2>&1 &\n").unwrap();
        let mut running = user.start(&["x"], &format!("sh {}; echo in; read _", hop.display()));
        assert_eq!(running.line(), "in");
        if kill {
            running.signal(Signal::KILL);
            running.end_status();
        }
        user.break_lock("x");
        // A race that a busy machine can lose for a while, so nobody else is asked what it sees. The brackets keep `grep` from finding
        // itself.
        let look =
            format!("! grep -qs '{}' /proc/[0-9]*/cmdline", hop.display()).replace("hop.sh", "[h]op.sh");
        let is_gone = || user.command("sh").args(["-c", &look]).status_in_time().success();
        eventually("no process of the command is left", || is_gone() && is_gone() && is_gone());
        if !kill {
            assert_eq!(running.code(), Some(76));
        }
    }
}

#[test]
fn a_daemon_is_under_the_lock_of_a_remote_node_as_well() {
    if !needs_program("bash") {
        return;
    }
    let far = Far::new(true);
    let (mut running, daemon) = start(&far.user, &far.arguments(&["x"]), "exit 3");
    assert_eq!(running.code(), Some(3));
    assert_eq!(far.code(&["x", "--wait", "3s"], "true"), Some(75), "longer than a silent session lasts");
    let mut second = far.start(&["x"], &look_for(daemon));
    eventually("the second waits", || far.command(&["queue", "x"]).1.matches("laptop (label ").count() >= 2);
    assert_eq!(far.command(&["break", "x", "--yes"]).0, Some(0));
    assert_eq!((second.line().as_str(), second.code()), ("", Some(0)), "nobody else is inside");
    wait_for_end(daemon);
}

#[test]
fn when_meshlock_and_the_node_are_killed_the_supervisor_ends_the_command() {
    if !needs_program("bash") {
        return;
    }
    for user in User::of_each_program() {
        let (mut running, daemon) = start(&user, &["x"], "read _");
        let (node, supervisor) = (user.node(), supervisor_of(running.id()));
        running.signal(Signal::KILL);
        running.end_status();
        send(node, Signal::KILL);
        wait_for_end(daemon);
        wait_for_end(supervisor);
        assert_eq!(running.line(), "", "nobody is left who could print");
    }
}

#[test]
fn when_the_supervisor_is_killed_the_command_is_ended() {
    if !needs_program("bash") {
        return;
    }
    for user in User::of_each_program() {
        let (mut running, daemon) = start(&user, &["x"], "read _");
        send(supervisor_of(running.id()), Signal::KILL);
        assert_eq!(running.code(), Some(128 + 9));
        wait_for_end(daemon);
        assert!(running.complaints().contains("the supervisor of CMD was killed"));
        assert_eq!(user.code(&["x", "--wait", "3s"], "true"), Some(0), "the lock is free");
    }
}

#[test]
fn a_command_of_which_only_zombies_are_left_has_ended() {
    let user = User::new();
    // Its child ends at once, and `sleep` does not collect its status.
    let mut running = user.start(&["x"], "true & echo in; exec sleep 600");
    assert_eq!(running.line(), "in");
    user.break_lock("x");
    assert_eq!(running.code(), Some(76));
    let said = running.complaints();
    assert!(said.contains("the lock is lost") && !said.contains("could not be ended"), "{said}");
}

#[test]
fn the_output_of_a_command_ends_with_those_who_have_it_open() {
    if !needs_program("bash") {
        return;
    }
    let user = User::new();
    let (mut running, _) = start(&user, &["x"], "echo done");
    assert_eq!((running.line().as_str(), running.next_line()), ("done", None), "the daemon has not got it");
    open_gate(&user);
}

#[test]
fn nothing_can_be_asked_over_what_a_command_inherits() {
    if !needs_program("bash") {
        return;
    }
    let user = User::new();
    let mut other = user.start(&["y"], "echo $$; read _; exit 5");
    let command: i32 = other.line().parse().unwrap();
    let mut bytes = Vec::new();
    let hello = ToNode::Hello { version: VERSIONS.1, who: "thief".parse().unwrap() };
    let lock = || "y".parse().unwrap();
    let take = ToNode::Acquire { tag: 2, lock: "z".parse().unwrap(), wait: Wait::Forever, permits: None };
    for message in [hello, ToNode::Guard { group: command }, take, ToNode::Break { tag: 1, lock: lock() }] {
        put_to_node(&message, &mut bytes);
    }
    let text = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect::<Vec<_>>().concat();
    // Every socket that it has, but for standard input and output.
    let script = format!(
        "for fd in /proc/$$/fd/*; do fd=${{fd##*/}}; if ((fd > 2)) && [[ $(readlink /proc/$$/fd/$fd) == socket:* ]]; then \
         printf '{text}' >&$fd; echo wrote; head -c 1 <&$fd | wc -c; fi; done; echo end; read _"
    );
    let mut thief = Running::start(user.meshlock_run(&["x", "--", "bash", "-c", &script]));
    let lines: Vec<String> = (0..3).map(|_| thief.line()).collect();
    assert_eq!(lines, ["wrote", "0", "end"], "one connection, at the end of which is the node");
    assert_eq!(user.code(&["z", "--try"], "true"), Some(0), "nothing was taken");
    assert_eq!(user.code(&["x", "--try"], "true"), Some(75), "its own lock is still held");
    other.go_on();
    assert_eq!(other.code(), Some(5), "nobody else's lock was broken");
    thief.go_on();
    assert_eq!(thief.code(), Some(0));
    assert_eq!(user.code(&["x", "--try"], "true"), Some(0));
}

#[test]
fn a_process_keeps_the_lock_even_if_meshlock_and_the_supervisor_were_killed() {
    let far = Far::new(true);
    let user = User::new();
    for (user, arguments) in [(&user, vec!["x"]), (&far.user, far.arguments(&["x"]))] {
        let tree = "exec 3<&0; setsid sh -c 'echo in; read _ <&3; echo left >> trace' & wait";
        let mut first = user.start(&arguments, tree);
        assert_eq!(first.line(), "in");
        let supervisor = supervisor_of(first.id());
        // Stopped, so that it does not notice that the supervisor has ended.
        first.signal(Signal::STOP);
        send(supervisor, Signal::KILL);
        first.signal(Signal::KILL);
        first.end_status();
        let again: Vec<&str> = arguments.iter().copied().chain(["--try"]).collect();
        assert_eq!(user.code(&again, "true"), Some(75), "one of them runs");
        let mut second = user.start(&arguments, "cat trace");
        first.go_on();
        assert_eq!((second.line().as_str(), second.code()), ("left", Some(0)));
    }
}

#[test]
fn a_command_that_ends_while_meshlock_is_stopped_frees_the_lock() {
    let far = Far::new(true);
    let user = User::new();
    for (user, arguments) in [(&user, vec!["x"]), (&far.user, far.arguments(&["x"]))] {
        let mut first = user.start(&arguments, "echo in; read _; exit 5");
        assert_eq!(first.line(), "in");
        first.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", first.id());
        eventually("it is stopped", || fs::read_to_string(&stat).unwrap().contains(") T "));
        first.go_on();
        assert_eq!(user.code(&arguments, "true"), Some(0), "it is free when the command has ended");
        first.signal(Signal::CONT);
        assert_eq!(first.code(), Some(5), "its end counts");
    }
}

#[test]
fn a_command_that_would_wait_for_itself_is_refused() {
    let user = User::new();
    let meshlock = MESHLOCK;
    let nested = |outer: &[&str], inner: &str| {
        let output =
            user.run(outer, &format!("env -i XDG_STATE_HOME=$XDG_STATE_HOME {meshlock} run {inner} -- true"));
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for inner in ["x", "x --try", "x --wait 10s"] {
        let (code, said) = nested(&["x"], inner);
        assert_eq!(code, Some(64), "{inner}: {said}");
        assert!(said.contains("already runs under the lock 'x' and would wait for itself"), "{said}");
    }
    assert_eq!(nested(&["x"], "y").0, Some(0), "another lock");
    assert_eq!(nested(&["pool", "--permits", "2"], "pool --permits 2").0, Some(0), "another permit");
    let inner = format!("pool --permits 2 -- {meshlock} run pool --permits 2");
    let (code, said) = nested(&["pool", "--permits", "2"], &inner);
    assert!(code == Some(64) && said.contains("already has all 2 permits of 'pool'"), "{code:?} {said}");
}

#[test]
fn a_node_ends_no_processes_that_are_not_below_its_client() {
    let user = User::new();
    let mut running = user.start(&["x"], "echo $$; read _; exit 5");
    let command: i32 = running.line().parse().unwrap();
    for process in [command, user.node(), 1, 0, -1, i32::MIN] {
        let refused = user.ask(&ToNode::Guard { group: process });
        assert!(matches!(&refused, ToClient::Refused { tag: 0, .. }), "{process}: {refused:?}");
    }
    running.go_on();
    assert_eq!(running.code(), Some(5));
}
