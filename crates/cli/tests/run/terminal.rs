//! On a terminal: `script` gives a command one of its own.

use std::process::Command;

use crate::user::{Running, User};

/// A shell's command line on a terminal of its own.
fn on_a_terminal(user: &User, line: &str) -> Running {
    let mut command: Command = user.command("script");
    command.args(["--quiet", "--return", "--command", line, "/dev/null"]);
    command.env("MESHLOCK", env!("CARGO_BIN_EXE_meshlock"));
    Running::start(command)
}

/// What is printed up to a line that contains `text`: what is typed is printed too.
fn read_to(running: &mut Running, text: &str) -> String {
    read_until(running, text, |line| line.contains(text))
}

/// What is printed up to a line that is `text`.
fn read_to_line(running: &mut Running, text: &str) -> String {
    read_until(running, text, |line| line == text)
}

fn read_until(running: &mut Running, wanted: &str, found: impl Fn(&str) -> bool) -> String {
    let mut all = String::new();
    loop {
        let line = running.next_line().unwrap_or_else(|| panic!("'{wanted}' does not come after: {all}"));
        all.push_str(&line);
        all.push('\n');
        if found(line.trim_end()) {
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
fn what_interrupts_reaches_the_command_whether_it_has_the_terminal_or_not() {
    let user = User::new();
    let run = r#"$MESHLOCK run x -- sh -c 'exec 4<&0; trap "echo interrupted; exit 9" INT; cat <&4 & echo in; wait'"#;
    for line in [format!("exec {run}"), format!("trap : INT; {run} | (trap '' INT; exec cat)")] {
        let mut running = on_a_terminal(&user, &line);
        read_to(&mut running, "in");
        running.types("\x03");
        read_to(&mut running, "interrupted");
    }
}

#[test]
fn a_person_stops_a_command_and_has_it_go_on() {
    let user = User::new();
    let mut shell = on_a_terminal(&user, "PS1= exec bash --norc --noediting -i");
    shell.types("$MESHLOCK run x -- sh -c 'echo in; read a; echo \"got $a\"; exit 6'; echo \"code $?\"\n");
    read_to_line(&mut shell, "in");
    shell.types("\x1a");
    read_to(&mut shell, "Stopped");
    // The shell has the terminal back, and the lock is still held.
    shell.types("$MESHLOCK run x --try -- true; echo \"then $?\"\n");
    read_to_line(&mut shell, "then 75");
    shell.types("fg; echo \"code $?\"\n");
    read_to(&mut shell, "$MESHLOCK run x");
    shell.types("on\n");
    read_to_line(&mut shell, "got on");
    read_to_line(&mut shell, "code 6");
    shell.types("exit 0\n");
    assert_eq!(shell.code(), Some(0));
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
