//! Which program does what. The supervisor is `meshlock-supervisor` beside `meshlock` if it is of the same version and nobody else can have
//! put it there, otherwise `meshlock` itself. A launcher does `meshlock run`, and becomes the program with all commands for everything else.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

use meshlock_testing::BoundedCommand;
use rustix::process::Signal;

use crate::tree::supervisor_of;
use crate::user::{MESHLOCK, SMALL_PROGRAM, User, WHOLE_PROGRAM, send, wait_for_end};

/// More relocations than the small program has; `meshlock` has more than ten times as many.
const MAX_RELOCATIONS: u64 = 4000;

/// Runs a command under a lock, and returns the program of its supervisor.
fn supervisor_program(user: &User) -> PathBuf {
    let mut running = user.start(&["x"], "echo in; read _; exit 5");
    // By then the supervisor has started it.
    assert_eq!(running.line(), "in");
    let program = fs::read_link(format!("/proc/{}/exe", supervisor_of(running.id()))).unwrap();
    assert_eq!(user.code(&["x", "--try"], "true"), Some(75), "the lock is held");
    running.go_on();
    assert_eq!(running.code(), Some(5));
    assert_eq!(user.code(&["x", "--try"], "true"), Some(0), "the lock is free");
    program
}

/// Puts a file beside a user's `meshlock`, for the small program.
fn put_beside(user: &User, bytes: &[u8], mode: u32) -> PathBuf {
    let file = user.file("bin/meshlock-supervisor");
    fs::write(&file, bytes).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
    file
}

/// Returns the small program with another identity.
fn of_another_version() -> Vec<u8> {
    let mut bytes = fs::read(SMALL_PROGRAM).unwrap();
    let identity = meshlock_supervisor::identity().as_bytes();
    let places: Vec<usize> =
        (0..bytes.len() - identity.len()).filter(|at| bytes[*at..].starts_with(identity)).collect();
    assert!(!places.is_empty(), "the identity stands in the program");
    for at in places {
        bytes[at] = b'x';
    }
    bytes
}

#[test]
fn the_small_program_is_the_supervisor_if_it_is_beside_meshlock() {
    assert_eq!(supervisor_program(&User::new()), fs::canonicalize(SMALL_PROGRAM).unwrap());
    let user = User::with_one_program();
    let small = put_beside(&user, &fs::read(SMALL_PROGRAM).unwrap(), 0o755);
    assert_eq!(supervisor_program(&user), fs::canonicalize(small).unwrap());
}

#[test]
fn meshlock_is_its_own_supervisor_if_there_is_no_small_program_that_can_be_started() {
    let user = User::with_one_program();
    let meshlock = fs::canonicalize(user.program()).unwrap();
    assert_eq!(supervisor_program(&user), meshlock);
    put_beside(&user, b"neither a program nor a script", 0o755);
    assert_eq!(supervisor_program(&user), meshlock);
    put_beside(&user, &fs::read(SMALL_PROGRAM).unwrap(), 0o644);
    assert_eq!(supervisor_program(&user), meshlock);
}

#[test]
fn a_small_program_of_another_version_becomes_meshlock() {
    let user = User::with_one_program();
    put_beside(&user, &of_another_version(), 0o755);
    assert_eq!(supervisor_program(&user), fs::canonicalize(user.program()).unwrap());
    // Also if it is killed: it is the process that `meshlock run` and the node know.
    let mut running = user.start(&["x"], "echo in; read _");
    assert_eq!(running.line(), "in");
    send(supervisor_of(running.id()), Signal::KILL);
    assert_eq!(running.code(), Some(128 + 9));
}

#[test]
fn a_small_program_that_somebody_else_could_have_put_there_is_not_started() {
    let user = User::with_one_program();
    let attack = format!("#!/bin/sh\n: > {}\n", user.file("attacked").display());
    // As in /tmp, where everybody can add a file, and nobody can replace that of another user.
    fs::set_permissions(user.file("bin"), Permissions::from_mode(0o1777)).unwrap();
    put_beside(&user, attack.as_bytes(), 0o755);
    assert_eq!(user.code(&["x"], "exit 4"), Some(4));
    fs::set_permissions(user.file("bin"), Permissions::from_mode(0o755)).unwrap();
    put_beside(&user, attack.as_bytes(), 0o777);
    assert_eq!(user.code(&["x"], "exit 4"), Some(4));
    // Nor from where the environment leads.
    let beside = put_beside(&user, attack.as_bytes(), 0o755);
    fs::create_dir(user.file("path")).unwrap();
    fs::rename(beside, user.file("path/meshlock-supervisor")).unwrap();
    let path = format!("{}:{}", user.file("path").display(), std::env::var("PATH").unwrap());
    let mut command = user.meshlock_run(&["x", "--", "sh", "-c", "exit 4"]);
    command.env("PATH", path).current_dir(user.file("path"));
    assert_eq!(command.output_in_time().status.code(), Some(4));
    assert!(!user.file("attacked").exists());
}

#[test]
fn the_small_program_does_nothing_for_anybody_else() {
    let user = User::new();
    for arguments in
        [&[][..], &["--help"], &["supervise-held"], &["supervise-held", "n", "c", "x", "other", "true"]]
    {
        let output = user.command(SMALL_PROGRAM).args(arguments).stdin(Stdio::null()).output_in_time();
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("started by `meshlock run`"));
    }
}

#[test]
fn a_supervisor_ends_with_a_meshlock_run_that_does_not_get_the_lock() {
    for user in User::of_each_program() {
        let mut first = user.start(&["x"], "echo in; read _");
        assert_eq!(first.line(), "in");
        let mut second = user.start(&["x"], "echo never");
        user.wait_for_waiters("x", 1);
        let supervisor = supervisor_of(second.id());
        second.signal(Signal::KILL);
        second.end_status();
        wait_for_end(supervisor);
    }
}

/// Runs a command of a user's `meshlock` that the launcher does not have.
fn other_command(user: &User, arguments: &[&str]) -> (Option<i32>, String) {
    let output = user.command(user.program()).args(arguments).output_in_time();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// Replaces a file of a user's directory `bin`, as an upgrade does.
fn replace(user: &User, name: &str, bytes: &[u8]) {
    let (new, file) = (user.file("bin/new"), user.file("bin").join(name));
    fs::write(&new, bytes).unwrap();
    fs::set_permissions(&new, Permissions::from_mode(0o755)).unwrap();
    fs::rename(new, file).unwrap();
}

#[test]
fn the_launcher_of_a_package_runs_commands_and_becomes_the_whole_program_for_all_else() {
    let user = User::with_package();
    let mut running = user.start(&["x"], "echo in; read _; exit 5");
    assert_eq!(running.line(), "in");
    let program = |process: i32| fs::read_link(format!("/proc/{process}/exe")).unwrap();
    let bin = fs::canonicalize(user.file("bin")).unwrap();
    assert_eq!(program(running.id()), bin.join("meshlock"));
    assert_eq!(program(supervisor_of(running.id())), bin.join("meshlock-supervisor"));
    assert_eq!(program(user.node()), bin.join("meshlock-full"), "the node that the launcher has started");
    let (code, said) = other_command(&user, &["queue", "x"]);
    assert!(code == Some(0) && said.contains("sh, process"), "{code:?} {said}");
    running.go_on();
    assert_eq!(running.code(), Some(5));
}

#[test]
fn the_launcher_says_what_the_whole_program_says() {
    let (package, whole) = (User::with_package(), User::with_one_program());
    for arguments in [
        &[][..],
        &["--help"],
        &["--version"],
        &["run"],
        &["run", "--help"],
        &["run", "x"],
        &["run", "x", "--permits", "0", "--", "true"],
        &["run", "x", "--try", "--wait", "1s", "--", "true"],
        &["rnu", "x"],
        &["algorithms", "raymond"],
    ] {
        assert_eq!(other_command(&package, arguments), other_command(&whole, arguments), "{arguments:?}");
    }
}

#[test]
fn a_launcher_without_the_whole_program_still_runs_commands_and_says_what_is_missing() {
    let user = User::with_package();
    let mut holder = user.start(&["y"], "echo in; read _");
    assert_eq!(holder.line(), "in");
    fs::remove_file(user.file("bin/meshlock-full")).unwrap();
    assert_eq!(user.code(&["x"], "exit 4"), Some(4), "a node runs");
    let (code, said) = other_command(&user, &["status"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("bin/meshlock-full; install it again"), "{said}");
    // A launcher in its place leads nowhere.
    replace(&user, "meshlock-full", &fs::read(MESHLOCK).unwrap());
    let (code, said) = other_command(&user, &["status"]);
    assert!(code == Some(1) && said.contains("bin/meshlock-full; install it again"), "{code:?} {said}");
    holder.go_on();
    assert_eq!(holder.code(), Some(0));
}

#[test]
fn a_launcher_starts_no_program_that_somebody_else_could_have_put_there() {
    let user = User::with_package();
    let attack = format!("#!/bin/sh\n: > {}\n", user.file("attacked").display());
    replace(&user, "meshlock-full", attack.as_bytes());
    fs::set_permissions(user.file("bin/meshlock-full"), Permissions::from_mode(0o777)).unwrap();
    assert_eq!(other_command(&user, &["status"]).0, Some(1));
    fs::set_permissions(user.file("bin/meshlock-full"), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(user.file("bin"), Permissions::from_mode(0o1777)).unwrap();
    assert_eq!(other_command(&user, &["status"]).0, Some(1));
    assert!(!user.file("attacked").exists());
}

#[test]
fn a_launcher_that_was_replaced_while_it_waits_starts_a_node_all_the_same() {
    let user = User::with_package();
    let mut holder = user.start(&["x"], "echo in; read _");
    assert_eq!(holder.line(), "in");
    let mut second = user.start(&["x"], "echo in; read _; exit 6");
    user.wait_for_waiters("x", 1);
    for (name, program) in [("meshlock", MESHLOCK), ("meshlock-full", WHOLE_PROGRAM)] {
        replace(&user, name, &fs::read(program).unwrap());
    }
    // The first loses its lock with the node, and the second starts another node.
    send(user.node(), Signal::KILL);
    assert_eq!(holder.code(), Some(76));
    assert_eq!(second.line(), "in");
    second.go_on();
    assert_eq!(second.code(), Some(6));
}

/// Returns the number of relocations of a program: the entries of its sections of that type.
fn relocations(program: &str) -> u64 {
    let bytes = fs::read(program).unwrap();
    let number = |at: usize, length: usize| {
        bytes[at..at + length].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let place = |at: usize, length: usize| usize::try_from(number(at, length)).unwrap();
    let (table, size, count) = (place(0x28, 8), place(0x3a, 2), place(0x3c, 2));
    let sections = (0..count).map(|section| table + section * size);
    // SHT_RELA, whose entries have 24 bytes.
    sections.filter(|at| number(at + 4, 4) == 4).map(|at| number(at + 0x20, 8) / 24).sum()
}

#[cfg(all(target_pointer_width = "64", target_endian = "little"))]
#[test]
fn the_small_program_has_few_relocations() {
    let (small, whole) = (relocations(SMALL_PROGRAM), relocations(WHOLE_PROGRAM));
    assert!(small < MAX_RELOCATIONS && 10 * MAX_RELOCATIONS < whole, "{small} of {whole}");
}

#[cfg(all(target_pointer_width = "64", target_endian = "little"))]
#[test]
fn the_launcher_reaches_little_of_the_whole_program() {
    let (launcher, whole) = (relocations(MESHLOCK), relocations(WHOLE_PROGRAM));
    assert!(2 * launcher < whole, "{launcher} of {whole}");
}
