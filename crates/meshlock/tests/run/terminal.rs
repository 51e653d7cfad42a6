//! On a terminal: `script` gives a command one of its own.

use std::process::Command;

use crate::desk::{Running, User};

/// A shell's command line on a terminal of its own.
fn on_a_terminal(user: &User, line: &str) -> Running {
    let mut command: Command = user.command("script");
    command.args(["--quiet", "--return", "--command", line, "/dev/null"]);
    command.env("MESHLOCK", env!("CARGO_BIN_EXE_meshlock"));
    Running::start(command)
}

/// What is printed up to a line that contains `text`.
fn read_to(running: &mut Running, text: &str) -> String {
    let mut all = String::new();
    loop {
        let line = running.line();
        assert_ne!(line, "", "'{text}' does not come after: {all}");
        all.push_str(&line);
        all.push('\n');
        if line.contains(text) {
            return all;
        }
    }
}

#[test]
fn a_command_reads_what_is_typed() {
    let user = User::new();
    let mut running =
        on_a_terminal(&user, r#"exec $MESHLOCK run x -- sh -c 'echo in; read a; echo "got $a"; exit 6'"#);
    read_to(&mut running, "in");
    running.go_on();
    read_to(&mut running, "got go");
    assert_eq!(running.code(), Some(6));
}

#[test]
fn a_command_in_a_script_gets_the_terminal_when_it_asks_and_the_script_has_it_back() {
    let user = User::new();
    let line =
        r#"$MESHLOCK run x -- sh -c 'echo in; read a; echo "got $a"'; echo then; read b; echo "again $b""#;
    let mut running = on_a_terminal(&user, line);
    read_to(&mut running, "in");
    running.go_on();
    read_to(&mut running, "then");
    running.go_on();
    read_to(&mut running, "again go");
    assert_eq!(running.code(), Some(0));
}

#[test]
fn who_waits_is_told_for_whom() {
    let user = User::new();
    let mut first = user.start(&["x"], "echo in; read _");
    assert_eq!(first.line(), "in");
    let mut second = on_a_terminal(&user, "exec $MESHLOCK run x -- true");
    let text = read_to(&mut second, "waiting for 'x'");
    assert!(text.contains(&format!("behind sh, process {} of embedded", first.id())), "{text}");
    first.go_on();
    assert_eq!(second.code(), Some(0));
}
