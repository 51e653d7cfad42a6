//! Which node a command uses: one order for all commands, and no private node where a cluster is configured.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use meshlock_testing::{BoundedCommand, needs_root};
use rustix::process::Signal;

use crate::user::{MESHLOCK, Running, User};

/// A user of another number than the one that runs the tests.
const OTHER_USER: u32 = 4321;

/// Starts a node of the site `name` that serves clients on this socket of the user's directory.
fn node(user: &User, name: &str, socket: &str, arguments: &[&str]) -> Running {
    let path = user.file(socket);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut command = user.command(MESHLOCK);
    command.args(["node", "--site", name, "--data"]).arg(user.file(&format!("data-{name}")));
    command.arg("--socket").arg(path).args(arguments);
    let mut node = Running::start(command);
    assert!(node.line().starts_with(&format!("{name} is ready")));
    node
}

fn write(user: &User, file: &str, text: &str) {
    let path = user.file(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs `true` under a lock, and returns which node was used and why.
fn chosen(user: &User) -> String {
    let output = user.run(&["x", "-v"], "true");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = said(&output).replace(&user.file("").display().to_string(), "");
    text.strip_prefix("meshlock: uses the node at ").unwrap_or(&text).trim_end().to_owned()
}

#[test]
fn the_first_that_names_a_node_decides_for_every_command() {
    let user = User::new();
    assert!(chosen(&user).contains(": a private node, because no other is configured or runs"));
    crate::user::wait_for_end(user.node());
    let _own = node(&user, "own", "runtime/meshlock/own.sock", &[]);
    fs::set_permissions(user.file("runtime/meshlock"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(chosen(&user), "runtime/meshlock/own.sock: the only node that this user runs");
    let _machine = node(&user, "machine", "machine/run/meshlock/node.sock", &[]);
    let expected = "machine/run/meshlock/node.sock: the node of this machine, because machine/run/meshlock/node.sock is there";
    assert_eq!(chosen(&user), expected);
    let _other = node(&user, "other", "other.sock", &[]);
    let named = format!("socket = '{}'", user.file("other.sock").display());
    write(&user, "machine/etc/meshlock/client.toml", &named);
    assert_eq!(chosen(&user), "other.sock: named in machine/etc/meshlock/client.toml");
    write(
        &user,
        "config/meshlock/client.toml",
        &named.replace("other.sock", "machine/run/meshlock/node.sock"),
    );
    assert_eq!(chosen(&user), "machine/run/meshlock/node.sock: named in config/meshlock/client.toml");
    // Other commands ask the same node, and say so.
    let status = |command: &mut Command| {
        let output = command.args(["status", "--json"]).output_in_time();
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (status["site"].as_str().unwrap().to_owned(), status["asked"]["why"].as_str().unwrap().to_owned())
    };
    let (site, why) = status(&mut user.command(MESHLOCK));
    assert!(site == "machine" && why.starts_with("named in "), "{site}: {why}");
    let mut command = user.command(MESHLOCK);
    command.env("MESHLOCK_SOCKET", user.file("other.sock"));
    let by_variable = "named by the environment variable MESHLOCK_SOCKET";
    assert_eq!(status(&mut command), ("other".to_owned(), by_variable.to_owned()));
}

#[test]
fn a_machine_or_user_that_is_configured_for_a_cluster_gets_no_private_node() {
    for (file, text) in [
        ("machine/etc/meshlock/node.toml", "site = 'a'"),
        ("machine/etc/meshlock/client.toml", "socket = '/nowhere/node.sock'"),
        ("config/meshlock/client.toml", "node = '127.0.0.1:1'\ntls = 'off'"),
    ] {
        let user = User::new();
        write(&user, file, text);
        let output = user.run(&["x"], "echo inside");
        let error = said(&output);
        assert_eq!(output.status.code(), Some(69), "{file}: {error}");
        assert!(output.stdout.is_empty() && !user.file("state").exists(), "{file}: {error}");
        assert!(error.contains(file), "{file}: {error}");
    }
    // A file that is wrong is not passed over either.
    let user = User::new();
    write(&user, "machine/etc/meshlock/client.toml", "scoket = 'x'");
    let output = user.run(&["x"], "echo inside");
    assert_eq!(output.status.code(), Some(64), "{}", said(&output));
    assert!(output.stdout.is_empty() && said(&output).contains("client.toml: unknown field `scoket`"));
}

#[test]
fn a_job_of_cron_finds_the_node_of_the_user_s_login() {
    let user = User::new();
    let own = rustix::process::getuid().as_raw();
    let runtime = user.file(&format!("machine/run/user/{own}"));
    DirBuilder::new().recursive(true).mode(0o700).create(&runtime).unwrap();
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).unwrap();
    let mut login = user.command(MESHLOCK);
    login.env("XDG_RUNTIME_DIR", &runtime).args(["node", "--site", "login", "--data", "data"]);
    let mut login = Running::start(login);
    assert!(login.line().starts_with("login is ready"));
    let mut job = user.meshlock_run(&["x", "-v", "--", "true"]);
    let output = job.env_remove("XDG_RUNTIME_DIR").output_in_time();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("login.sock: the only node that this user runs"), "{}", said(&output));
    assert!(!user.file("state").exists(), "no other was started");
}

/// Returns `meshlock run` with the directories of this environment instead of those of the login; `None` leaves a variable unset.
fn run_in(user: &User, directories: [Option<&str>; 2], arguments: &[&str]) -> Command {
    let mut command = user.meshlock_run(arguments);
    for (variable, dir) in ["XDG_RUNTIME_DIR", "XDG_STATE_HOME"].into_iter().zip(directories) {
        command.env_remove(variable);
        if let Some(dir) = dir {
            DirBuilder::new().recursive(true).mode(0o700).create(user.file(dir)).unwrap();
            command.env(variable, user.file(dir));
        }
    }
    command.env_remove("HOME");
    command
}

#[test]
fn a_command_with_other_directories_uses_the_private_node_that_runs() {
    let place = |dirs: [Option<&'static str>; 2]| dirs;
    for (first, second) in [
        (place([None, Some("state")]), place([Some("other"), Some("other")])),
        (place([Some("runtime"), Some("state")]), place([Some("other"), Some("other")])),
        (place([Some("runtime"), Some("state")]), place([None, Some("other")])),
        (place([Some("runtime"), Some("state")]), place([Some("runtime"), Some("other")])),
        (place([Some("runtime"), Some("state")]), place([Some("runtime"), None])),
        (place([Some("runtime"), Some("state")]), place([None, None])),
    ] {
        let user = User::new();
        let mut holder =
            Running::start(run_in(&user, first, &["x", "--", "sh", "-c", "echo in; read _; exit 5"]));
        assert_eq!(holder.line(), "in");
        let output = run_in(&user, second, &["x", "-v", "--try", "--", "echo", "entered"]).output_in_time();
        let error = said(&output);
        assert_eq!(
            (output.status.code(), output.stdout.len()),
            (Some(75), 0),
            "{first:?} {second:?}: {error}"
        );
        assert!(error.contains("embedded.sock: a private node"), "{second:?}: {error}");
        assert!(!user.file("other/meshlock").exists(), "{second:?}: no other node was started");
        let output = run_in(&user, second, &["y", "--", "true"]).output_in_time();
        assert_eq!(output.status.code(), Some(0), "{second:?}: {}", said(&output));
        holder.go_on();
        assert_eq!(holder.code(), Some(5));
    }
}

#[test]
fn commands_with_different_directories_that_start_at_once_use_one_node() {
    let user = User::new();
    let names: Vec<String> = (0..6).map(|number| format!("place-{number}")).collect();
    let script = "mkdir inside && rmdir inside";
    let commands: Vec<Running> = names
        .iter()
        .map(|name| Running::start(run_in(&user, [Some(name), Some(name)], &["x", "--", "sh", "-c", script])))
        .collect();
    for mut command in commands {
        assert_eq!(command.code(), Some(0), "two were inside at once, or one could not start");
    }
    let started = names.iter().filter(|name| user.file(&format!("{name}/meshlock/embedded")).exists());
    assert_eq!(started.count(), 1, "one of them started the node, and the others used it");
}

#[test]
fn a_command_with_other_directories_continues_the_state_of_a_node_that_was_killed() {
    let user = User::new();
    let mut holder = user.start(&["x"], "echo in; read _");
    assert_eq!(holder.line(), "in");
    crate::user::send(user.node(), rustix::process::Signal::KILL);
    // The node that it starts waits until the command has been ended, as the state of the first one says.
    let other = [Some("other"), Some("other")];
    let output = run_in(&user, other, &["x", "--", "echo", "entered"]).output_in_time();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(!user.file("other/meshlock/embedded").exists(), "the state of the first is continued");
    assert_eq!(holder.code(), Some(76));
}

#[test]
fn without_a_place_for_its_state_a_command_says_what_to_set() {
    let user = User::new();
    let mut command = user.meshlock_run(&["x", "--", "true"]);
    command.env_remove("HOME").env_remove("XDG_STATE_HOME").env_remove("XDG_CONFIG_HOME");
    if rustix::process::getuid().is_root() {
        // Root has a place of its own. The runtime directory must be the other user's.
        command.env_remove("XDG_RUNTIME_DIR").current_dir("/").uid(OTHER_USER).gid(OTHER_USER);
    }
    let output = command.output_in_time();
    assert_eq!(output.status.code(), Some(64), "{}", said(&output));
    let expected =
        "neither XDG_STATE_HOME nor HOME says where a node keeps its state; set one of them, or name a node";
    assert!(said(&output).contains(expected) && !said(&output).contains("--data"), "{}", said(&output));
}

/// Runs `meshlock run x` with the flags or variables `inner` below `meshlock run x` with the flags `outer`.
fn nested(user: &User, outer: &str, inner: &str) -> (Option<i32>, String) {
    let output = user.run(&["x", "--socket", outer], &format!("{inner} run x --try -- echo entered"));
    (output.status.code(), said(&output) + &String::from_utf8_lossy(&output.stdout))
}

#[test]
fn a_nested_command_recognises_the_node_however_it_is_named() {
    let user = User::new();
    let _node = node(&user, "a", "c/s1.sock", &[]);
    std::os::unix::fs::symlink("c/s1.sock", user.file("link.sock")).unwrap();
    let socket = user.file("c/s1.sock").display().to_string();
    for (outer, inner) in [
        ("c/s1.sock", format!("MESHLOCK_SOCKET={socket} {MESHLOCK}")),
        ("c/s1.sock", format!("MESHLOCK_SOCKET=./c/s1.sock {MESHLOCK}")),
        ("c/s1.sock", format!("cd c && MESHLOCK_SOCKET=s1.sock {MESHLOCK}")),
        (&socket, format!("MESHLOCK_SOCKET=link.sock {MESHLOCK}")),
    ] {
        let (code, said) = nested(&user, outer, &inner);
        assert!(
            code == Some(64) && said.contains("already runs under the lock 'x'"),
            "{inner}: {code:?} {said}"
        );
    }
    // The private node, which the outer command finds by itself.
    let script = format!("{MESHLOCK} run x --socket ./runtime/meshlock/embedded.sock --try -- true");
    let output = User::new().run(&["x"], &script);
    assert_eq!(output.status.code(), Some(64), "{}", said(&output));
    assert!(said(&output).contains("already runs under the lock 'x'"), "{}", said(&output));
}

#[test]
fn a_nested_command_recognises_another_site_of_the_cluster() {
    let user = User::new();
    let mut command = user.command(MESHLOCK);
    command.args(["up", "-n", "3", "--plain", "--dir", "up"]);
    let mut up = Running::start(command);
    let is_ready = up.find_line("all sites are ready", |line| line.contains("Ctrl-C ends all").then_some(()));
    assert!(is_ready.is_some());
    let (code, said) = nested(&user, "up/site-1.sock", &format!("MESHLOCK_SOCKET=up/site-2.sock {MESHLOCK}"));
    assert!(code == Some(64) && said.contains("already runs under the lock 'x'"), "{code:?} {said}");
    // Other commands of the user find it, too, with another runtime directory.
    let output = run_in(&user, [Some("other"), Some("other")], &["y", "-v", "--", "true"]).output_in_time();
    assert_eq!(output.status.code(), Some(0), "{}", self::said(&output));
    assert!(
        self::said(&output).contains("the first of the 3 nodes of `meshlock up`"),
        "{}",
        self::said(&output)
    );
    // Interrupted, it ends its sites; killed, it could not.
    up.signal(Signal::INT);
    assert_eq!(up.code(), Some(0));
}

#[test]
fn nodes_whose_sockets_are_written_in_the_same_way_have_different_locks() {
    let user = User::new();
    let _nodes = ["a", "b"].map(|name| node(&user, name, &format!("n{name}/n.sock"), &[]));
    let mut command = user.meshlock_run(&["x", "--socket", "n.sock", "--", "sh", "-c"]);
    let script = format!("cd ../nb && {MESHLOCK} run x --socket n.sock --try -- echo entered");
    let output = command.current_dir(user.file("na")).arg(script).output_in_time();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "entered\n", "{}", said(&output));
    assert_eq!(output.status.code(), Some(0));
}

/// Runs a command as another user, who cannot read the directory of the tests' user.
fn as_other(user: &User, lock: &str) -> Output {
    let mut command = user.meshlock_run(&[lock, "--try", "--", "true"]);
    for variable in ["XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "HOME"] {
        command.env_remove(variable);
    }
    command.current_dir("/").uid(OTHER_USER).gid(OTHER_USER).output_in_time()
}

#[test]
fn the_machine_s_node_serves_other_users_as_far_as_the_rules_go() {
    if !needs_root("commands of another user") {
        return;
    }
    let user = User::new();
    fs::set_permissions(user.file(""), fs::Permissions::from_mode(0o755)).unwrap();
    let socket = "machine/run/meshlock/node.sock";
    {
        let _private = node(&user, "private", socket, &[]);
        let output = as_other(&user, "jobs");
        assert_eq!(output.status.code(), Some(69), "{}", said(&output));
        let error = said(&output);
        assert!(error.contains("Permission denied") && error.contains("says with socket_mode"), "{error}");
    }
    let rules = "[[access]]\nprincipal = 'uid:4321'\nlocks = 'jobs'\nverbs = ['acquire']";
    write(&user, "node.toml", rules);
    let config = user.file("node.toml").display().to_string();
    let _open = node(&user, "open", socket, &["--config", &config, "--socket-mode", "0666"]);
    let output = as_other(&user, "jobs");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let output = as_other(&user, "others");
    assert_eq!(output.status.code(), Some(64), "{}", said(&output));
    assert!(said(&output).contains("'uid:4321' may not acquire 'others'"), "{}", said(&output));
    // What the node cannot do for a user whose processes it cannot end is told once, and only to those who want to know.
    let as_other = |arguments: &[&str], user_id: u32| {
        let mut command = user.meshlock_run(arguments);
        for variable in ["XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "HOME"] {
            command.env_remove(variable);
        }
        command.current_dir("/").uid(user_id).gid(user_id).output_in_time()
    };
    let output = as_other(&["jobs", "--", "sleep", "0.3"], OTHER_USER);
    assert_eq!((output.status.code(), said(&output)), (Some(0), String::new()));
    let output = as_other(&["jobs", "-v", "--", "sleep", "0.3"], OTHER_USER);
    assert!(
        said(&output).lines().count() <= 2 && !said(&output).contains("names its processes"),
        "{}",
        said(&output)
    );
    let output = as_other(&["jobs", "--try", "--", "true"], OTHER_USER + 1);
    assert_eq!(output.status.code(), Some(64), "{}", said(&output));
    assert!(said(&output).contains("'uid:4322' may not acquire: no [[access]] rule"), "{}", said(&output));
}

#[test]
fn a_lock_name_of_another_has_no_effect_on_the_terminal() {
    let user = User::new();
    let _node = node(&user, "own", "runtime/meshlock/own.sock", &[]);
    fs::set_permissions(user.file("runtime/meshlock"), fs::Permissions::from_mode(0o700)).unwrap();
    let hostile = "\u{1b}[J\u{202e}\u{61c}e\n";
    let mut holder = user.start(&[hostile], "echo in; read _");
    assert_eq!(holder.line(), "in");
    for arguments in [
        &["status"][..],
        &["status", "--json"],
        &["queue", hostile],
        &["queue", hostile, "--json"],
        &["top", "--once"],
        &["top", "--json"],
        &["run", hostile, "--try", "--", "true"],
        &["break", hostile, "--yes"],
        &["rules", "unset", hostile],
    ] {
        let output = user.command(MESHLOCK).args(arguments).output_in_time();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{61c}']), "{arguments:?}: {text:?}");
        assert!(
            text.contains(r"\u{1b}[J\u{202e}\u{61c}e\n") || text.contains(r"\u001b[J\u202e\u061ce\n"),
            "{arguments:?}: {text:?}"
        );
    }
    // A usage error repeats the argument, which keeps its line ends.
    let output = user.command(MESHLOCK).arg(hostile).output_in_time();
    assert_eq!(output.status.code(), Some(64));
    assert!(said(&output).contains(r"\u{202e}\u{61c}e"), "{:?}", said(&output));
    assert!(!said(&output).contains(['\u{1b}', '\u{202e}', '\u{61c}']), "{:?}", said(&output));
}
