//! Exclusion: at most one command, or as many as there are permits, for as long as some process of the command runs.

use std::fs;

use meshlock_testing::needs_program;
use rustix::process::Signal;

use crate::user::{CLOSE_ALL, COUNT_SOCKETS, Running, User};

/// Prints that it is inside, waits for a line, and appends a line to `trace` when it leaves.
const STAY: &str = "echo in $$; read _; echo left >> trace";

/// Prints what earlier commands appended to `trace`.
const LOOK: &str = "cat trace";

#[test]
fn two_commands_are_never_inside_at_once() {
    for user in User::of_each_program() {
        let mut first = user.start(&["x"], STAY);
        assert!(first.line().starts_with("in "));
        assert_eq!(user.code(&["x", "--try"], "true"), Some(75));
        assert_eq!(user.code(&["x", "--wait", "50ms"], "true"), Some(75));
        assert_eq!(user.code(&["y", "--try"], "true"), Some(0), "another lock");
        let mut second = user.start(&["x"], LOOK);
        first.go_on();
        assert_eq!(first.code(), Some(0));
        assert_eq!((second.line().as_str(), second.code()), ("left", Some(0)));
    }
}

#[test]
fn the_reason_for_a_refused_lock_is_printed() {
    let user = User::new();
    let mut first = user.start(&["x"], STAY);
    first.line();
    let says = |arguments: &[&str]| String::from_utf8(user.run(arguments, "true").stderr).unwrap();
    let holder = |said: &str| {
        let (before, after) = said.split_once(": uid:").expect("the holder is named");
        assert!(after.contains(r#" (label "sh, process "#), "{said}");
        let is_shown = after.contains(" of embedded has held it for ") && after.contains(" (fence ");
        (before.to_owned(), is_shown && after.ends_with(")\n"))
    };
    // The text before the holder begins with "meshlock: " and may contain ": " itself.
    let (before, is_shown) = holder(&says(&["x", "--try"]));
    assert_eq!((before.as_str(), is_shown), ("meshlock: someone else has the lock 'x'", true));
    let (before, is_shown) = holder(&says(&["x", "--wait", "20ms"]));
    assert_eq!((before.as_str(), is_shown), ("meshlock: did not get the lock 'x' within 20 ms", true));
}

#[test]
fn as_many_commands_as_permits_are_inside() {
    let user = User::new();
    let permits = ["pool", "--permits", "2"];
    let stay = "echo slot $MESHLOCK_SLOT; read _";
    let (mut first, mut second) = (user.start(&permits, stay), user.start(&permits, stay));
    let mut slots = [first.line(), second.line()];
    slots.sort();
    assert_eq!(slots, ["slot 0", "slot 1"]);
    assert_eq!(user.code(&["pool", "--permits", "2", "--try"], "true"), Some(75));
    first.go_on();
    assert_eq!(first.code(), Some(0));
    assert_eq!(user.code(&["pool", "--permits", "2", "--try"], "true"), Some(0));
    let differs = user.run(&["pool", "--permits", "3"], "true");
    assert_eq!(differs.status.code(), Some(64));
    let text = String::from_utf8(differs.stderr).unwrap();
    assert!(text.contains("'pool' is in use with 2 permits and this program expects 3"), "{text}");
    assert_eq!(user.code(&["pool"], "true"), Some(64), "a plain run means one");
    second.go_on();
    assert_eq!(second.code(), Some(0));
    assert_eq!(user.code(&["pool", "--try"], "true"), Some(0), "nothing is left of the semaphore");
}

#[test]
fn eight_commands_at_once_start_one_node_and_lose_no_update() {
    let user = User::new();
    fs::write(user.file("count"), "0\n").unwrap();
    let count = "n=$(cat count); echo $((n + 1)) > count; echo $MESHLOCK_FENCE";
    let mut all: Vec<Running> = (0..8).map(|_| user.start(&["count"], count)).collect();
    let mut fences: Vec<i64> = all.iter_mut().map(|one| one.line().parse().unwrap()).collect();
    assert!(all.iter_mut().all(|one| one.code() == Some(0)));
    assert_eq!(fs::read_to_string(user.file("count")).unwrap(), "8\n");
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), 8, "no fence is given twice");
}

#[test]
fn a_command_whose_meshlock_run_is_killed_continues_and_keeps_the_lock() {
    let user = User::new();
    let mut first = user.start(&["x"], STAY);
    first.line();
    first.signal(Signal::KILL);
    assert_eq!(first.code(), None, "killed");
    assert_eq!(user.code(&["x", "--try"], "true"), Some(75), "the command runs");
    let mut second = user.start(&["x"], LOOK);
    first.go_on();
    assert_eq!((second.line().as_str(), second.code()), ("left", Some(0)));
}

#[test]
fn background_processes_of_a_command_keep_the_lock() {
    let user = User::new();
    let mut first = user.start(&["x"], "exec 3<&0; (read _ <&3; echo left >> trace) & echo in");
    assert_eq!((first.line().as_str(), first.code()), ("in", Some(0)));
    assert_eq!(user.code(&["x", "--try"], "true"), Some(75), "its grandchild runs");
    let mut second = user.start(&["x"], LOOK);
    first.go_on();
    assert_eq!((second.line().as_str(), second.code()), ("left", Some(0)));
}

#[test]
fn all_descendants_keep_the_lock_when_meshlock_run_is_killed() {
    let user = User::new();
    let tree = "exec 3<&0; setsid sh -c 'read _ <&3; echo left >> trace' & echo in; read _";
    let mut first = user.start(&["x"], tree);
    assert_eq!(first.line(), "in");
    first.signal(Signal::KILL);
    // One of the two who read goes, then the other.
    first.go_on();
    assert_eq!(user.code(&["x", "--try"], "true"), Some(75), "one of them runs");
    let mut second = user.start(&["x"], "test -e trace && echo alone");
    first.go_on();
    assert_eq!((second.line().as_str(), second.code()), ("alone", Some(0)));
}

#[test]
fn a_command_that_closes_inherited_descriptors_keeps_the_lock() {
    if !needs_program("bash") {
        return;
    }
    let user = User::new();
    let script = format!("{CLOSE_ALL}; echo in $({COUNT_SOCKETS}); read _; echo left >> trace");
    let mut first = Running::start(user.meshlock_run(&["x", "--", "bash", "-c", &script]));
    assert_eq!(first.line(), "in 0", "it has no socket open");
    first.signal(Signal::KILL);
    assert_eq!(first.code(), None, "killed");
    assert_eq!(user.code(&["x", "--try"], "true"), Some(75), "the command runs");
    let mut second = user.start(&["x"], LOOK);
    first.go_on();
    assert_eq!((second.line().as_str(), second.code()), ("left", Some(0)));
}

#[test]
fn a_lock_is_free_as_soon_as_the_command_has_ended() {
    let user = User::new();
    for _ in 0..20 {
        assert_eq!(user.code(&["x", "--try"], "true"), Some(0));
    }
}
