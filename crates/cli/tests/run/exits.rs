//! Exit codes, and the environment of the command.

use std::io::{Read, Write};
use std::process::Stdio;

use meshlock_testing::{BoundedChild, BoundedCommand, joined, until_readable};

use crate::user::User;

#[test]
fn the_exit_code_is_that_of_the_command() {
    let user = User::new();
    assert_eq!(user.code(&["x"], "exit 0"), Some(0));
    assert_eq!(user.code(&["x"], "exit 7"), Some(7));
    assert_eq!(user.code(&["x"], "exit 255"), Some(255));
    assert_eq!(user.code(&["x"], "kill -9 $$"), Some(128 + 9));
    assert_eq!(user.code(&["x"], "kill -USR1 $$"), Some(128 + 10));
}

#[test]
fn a_missing_or_non_executable_command_gives_the_exit_codes_of_a_shell() {
    let user = User::new();
    for (program, code) in [("./nothing-here", 127), ("/etc/passwd", 126)] {
        let output = user.meshlock_run(&["x", "--", program]).output_in_time();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(&format!("cannot run '{program}'")), "{text}");
    }
    assert_eq!(user.code(&["x", "--try"], "true"), Some(0), "the lock is free again");
}

#[test]
fn invalid_arguments_are_named() {
    let user = User::new();
    let cases: [(&[&str], &str); 8] = [
        (&["--", "true"], "<NAME>"),
        (&["x"], "<CMD>"),
        (&["", "--", "true"], "a lock name is empty"),
        (&[&"x".repeat(256), "--", "true"], "at most 255 are allowed"),
        (&["x", "--wait", "soon", "--", "true"], "'soon' is not a length of time"),
        (&["x", "--wait", "1s", "--try", "--", "true"], "cannot be used with"),
        (&["x", "--permits", "0", "--", "true"], "--permits"),
        (&["x", "--node", "host:1", "--", "true"], "--node"),
    ];
    for (arguments, says) in cases {
        let output = user.meshlock_run(arguments).output_in_time();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {text}");
        assert!(text.contains(says), "{arguments:?}: {text}");
    }
}

#[test]
fn a_named_node_that_does_not_run_is_not_replaced_by_another() {
    let user = User::new();
    let nowhere = user.file("nowhere.sock");
    let given = user.meshlock_run(&["x", "--socket"]).arg(&nowhere).args(["--", "true"]).output_in_time();
    let named = user.meshlock_run(&["x", "--", "true"]).env("MESHLOCK_SOCKET", &nowhere).output_in_time();
    for output in [given, named] {
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(69), "{text}");
        assert!(text.contains("nowhere.sock"), "{text}");
    }
}

#[test]
fn the_environment_has_the_name_the_fence_and_the_slot() {
    let user = User::new();
    let see = |name: &str| {
        let output = user.run(&[name], "echo $MESHLOCK_NAME; echo $MESHLOCK_FENCE; echo $MESHLOCK_SLOT");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (first, second) = (see("two words"), see("two words"));
    assert_eq!((&*first[0], &*first[2]), ("two words", "0"));
    let fence = |seen: &[String]| seen[1].parse::<i64>().unwrap();
    assert!(fence(&second) > fence(&first), "{first:?} {second:?}");
}

#[test]
fn input_and_output_are_passed_through_unchanged() {
    let user = User::new();
    let sent: Vec<u8> = (0..1_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut process =
        user.meshlock_run(&["x", "--", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, bytes) = (process.stdin.take().unwrap(), sent.clone());
    let writer = std::thread::spawn(move || stdin.write_all(&bytes).unwrap());
    let output = process.output_in_time();
    joined("all is written", writer);
    assert_eq!(output.status.code(), Some(0));
    let received = output.stdout;
    assert!(received == sent, "{} bytes of {}", received.len(), sent.len());
}

#[test]
fn a_command_whose_output_nobody_reads_ends_as_without_meshlock() {
    let user = User::new();
    let mut process = user.meshlock_run(&["x", "--", "yes"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut some = [0; 4];
    let mut stdout = process.stdout.take().unwrap();
    until_readable("something is printed", &stdout);
    stdout.read_exact(&mut some).unwrap();
    drop(stdout);
    assert_eq!(process.wait_in_time().code(), Some(128 + 13));
}

#[test]
fn a_closed_standard_error_is_no_failure() {
    let user = User::new();
    let mut first = user.start(&["x"], "trap '' TERM; echo in; read _");
    assert_eq!(first.line(), "in");
    let mut second = user.meshlock_run(&["x", "--try", "--", "true"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(second.stderr(writer).status_in_time().code(), Some(75));
}

#[test]
fn invalid_arguments_are_refused_with_what_would_be_right() {
    let user = User::new();
    for (arguments, expected) in [
        (&["--node", "127.0.0.1", "--plain"][..], "'127.0.0.1' is not of the form HOST:PORT"),
        (&["--node", "::1", "--plain"], "'::1' is not of the form HOST:PORT"),
        (&["--node", "host:0", "--plain"], "'host:0' is not of the form HOST:PORT"),
        (&["--permits", "0"], "0 is not in 1..=1024"),
        (&["--permits", "2000"], "2000 is not in 1..=1024"),
    ] {
        let output = user.run(&[&["x"], arguments].concat(), "true");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {error}");
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}
