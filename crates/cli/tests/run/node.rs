//! The user's embedded node: one for all commands, which ends with the last of them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use meshlock_testing::BoundedCommand;

use crate::user::{MESHLOCK, Running, User, wait_for_end};

#[test]
fn it_ends_with_its_last_client_and_the_next_one_need_not_wait() {
    let user = User::new();
    let fence = |arguments: &[&str]| -> i64 {
        let output = user.run(arguments, "echo $MESHLOCK_FENCE");
        String::from_utf8(output.stdout).unwrap().trim().parse().expect("a fence")
    };
    let first = fence(&["x"]);
    let node = user.node();
    wait_for_end(node);
    // Far less than a lease, which it would have to wait for had the last one not left in order.
    let second = fence(&["x", "--wait", "3s"]);
    assert_ne!(user.node(), node);
    assert!(second > first, "fences go on where they were");
}

#[test]
fn it_stays_while_a_command_runs_whose_meshlock_run_was_killed() {
    let user = User::new();
    let mut running = user.start(&["x"], "echo in; read _");
    assert_eq!(running.line(), "in");
    let node = user.node();
    running.signal(rustix::process::Signal::KILL);
    running.end_status();
    assert_eq!(user.code(&["x", "--wait", "1500ms"], "true"), Some(75), "longer than it stays without users");
    assert_eq!(user.node(), node);
    running.go_on();
    // Not after the lease, though nobody has read what the node said meanwhile.
    assert_eq!(user.code(&["x", "--wait", "3s"], "true"), Some(0), "free at once");
}

#[test]
fn a_program_with_another_environment_finds_the_same_node() {
    let user = User::new();
    let mut running = user.start(&["x"], "echo in; read _");
    assert_eq!(running.line(), "in");
    let elsewhere = user.file("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let mut command = user.meshlock_run(&["x", "--try", "--", "true"]);
    assert_eq!(command.env("XDG_RUNTIME_DIR", elsewhere).status_in_time().code(), Some(75));
}

/// Starts a node as a user would.
fn start_daemon(user: &User) -> Running {
    let mut command = user.command(MESHLOCK);
    command.args(["node", "--site", "alpha", "--data", "data"]);
    let mut node = Running::start(command);
    assert!(node.line().starts_with("alpha is ready"));
    node
}

#[test]
fn the_only_running_node_of_the_user_is_used() {
    let user = User::new();
    let _node = start_daemon(&user);
    assert_eq!(user.code(&["x"], "true"), Some(0));
    assert!(!user.file("state").exists(), "no other was started");
    let socket = user.file("runtime/meshlock/alpha.sock");
    let mut first = user.start(&["x"], "echo in; read _");
    assert_eq!(first.line(), "in");
    let mut command = user.meshlock_run(&["x", "--try", "--socket"]);
    assert_eq!(command.arg(socket).args(["--", "true"]).status_in_time().code(), Some(75), "it is the same");
}

#[test]
fn a_user_with_two_nodes_has_to_name_one() {
    let user = User::new();
    let mut first = user.start(&["x"], "echo in; read _");
    assert_eq!(first.line(), "in");
    let _node = start_daemon(&user);
    let output = user.run(&["x"], "true");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64), "{text}");
    assert!(text.contains("alpha.sock") && text.contains("embedded.sock"), "{text}");
}

#[test]
fn a_runtime_directory_that_others_can_use_is_refused() {
    let user = User::new();
    let open = user.file("runtime/meshlock");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let output = user.run(&["x"], "true");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64), "{text}");
    assert!(text.contains("can be used by other users"), "{text}");
}

#[test]
fn a_data_directory_that_cannot_be_read_is_an_error_that_names_it() {
    let user = User::new();
    assert_eq!(user.code(&["x"], "true"), Some(0));
    wait_for_end(user.node());
    let homes = fs::read_dir(user.file("state/meshlock/embedded")).unwrap();
    let home = homes.map(|home| home.unwrap().path()).next().unwrap();
    fs::write(home.join("data/state.redb"), "not a database").unwrap();
    let output = user.run(&["x"], "true");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{text}");
    assert!(text.contains("state.redb"), "{text}");
}
