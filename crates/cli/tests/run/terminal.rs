//! Commands on a terminal, which the program `script` provides.

use std::process::Command;

use meshlock_testing::needs_program;

use crate::user::{Running, User};

/// Starts a shell's command line on a terminal of its own; `None` if a program is missing, and the test is skipped.
fn on_a_terminal(user: &User, line: &str) -> Option<Running> {
    if !needs_program("script") {
        return None;
    }
    let mut command: Command = user.command("script");
    command.args(["--quiet", "--return", "--command", line, "/dev/null"]);
    command.env("MESHLOCK", user.program());
    Some(Running::start(command))
}

/// Reads up to a line that contains `text`, and returns everything read. The terminal also prints what is typed.
fn read_to(running: &mut Running, text: &str) -> String {
    read_until(running, text, |line| line.contains(text))
}

/// Reads up to a line that equals `text`, and returns everything read.
fn read_to_line(running: &mut Running, text: &str) -> String {
    read_until(running, text, |line| line == text)
}

fn read_until(running: &mut Running, wanted: &str, found: impl Fn(&str) -> bool) -> String {
    let mut all = String::new();
    let is_found = running.find_line(&format!("the terminal shows '{wanted}'"), |line| {
        all.push_str(line);
        all.push('\n');
        found(line.trim_end()).then_some(())
    });
    assert!(is_found.is_some(), "the output has ended without '{wanted}': {all}");
    all
}

#[test]
fn one_frame_of_top_is_as_wide_as_the_terminal() {
    let user = User::new();
    let line = "stty cols 60; exec $MESHLOCK run x -- sh -c '$MESHLOCK top --once; echo end'";
    let Some(mut running) = on_a_terminal(&user, line) else { return };
    let text = read_to_line(&mut running, "end");
    assert!(text.contains("1 member · 1 lock in use"), "{text}");
    assert!(text.lines().all(|line| line.trim_end().chars().count() <= 60), "{text}");
}

#[test]
fn a_command_reads_what_is_typed() {
    for user in User::of_each_program() {
        let Some(mut running) =
            on_a_terminal(&user, r#"exec $MESHLOCK run x -- sh -c 'echo in; read a; echo "got $a"; exit 6'"#)
        else {
            return;
        };
        read_to(&mut running, "in");
        running.go_on();
        read_to(&mut running, "got go");
        assert_eq!(running.code(), Some(6));
    }
}

#[test]
fn a_command_in_a_script_gets_the_terminal_when_it_reads_and_the_script_gets_it_back() {
    let user = User::new();
    let line =
        r#"$MESHLOCK run x -- sh -c 'echo in; read a; echo "got $a"'; echo then; read b; echo "again $b""#;
    let Some(mut running) = on_a_terminal(&user, line) else { return };
    read_to(&mut running, "in");
    running.go_on();
    read_to(&mut running, "then");
    running.go_on();
    read_to(&mut running, "again go");
    assert_eq!(running.code(), Some(0));
}

#[test]
fn an_interrupt_reaches_the_command_in_the_foreground_and_in_a_pipeline() {
    let user = User::new();
    let run = r#"$MESHLOCK run x -- sh -c 'exec 4<&0; trap "echo interrupted; exit 9" INT; cat <&4 & echo in; wait'"#;
    for line in [format!("exec {run}"), format!("trap : INT; {run} | (trap '' INT; exec cat)")] {
        let Some(mut running) = on_a_terminal(&user, &line) else { return };
        // The whole line: that it waits for what the last one left behind is said in a line that also contains it.
        read_to_line(&mut running, "in");
        running.types("\x03");
        read_to(&mut running, "interrupted");
    }
}

#[test]
fn a_command_is_stopped_by_ctrl_z_and_continued_by_fg() {
    if !needs_program("bash") {
        return;
    }
    let user = User::new();
    let Some(mut shell) = on_a_terminal(&user, "PS1= exec bash --norc --noediting -i") else { return };
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
fn a_command_that_waits_prints_the_holder() {
    let user = User::new();
    let mut first = user.start(&["x"], "echo in; read _");
    assert_eq!(first.line(), "in");
    let Some(mut second) = on_a_terminal(&user, "exec $MESHLOCK run x -- true") else { return };
    let text = read_to(&mut second, "waiting for 'x'");
    assert!(text.contains(&format!("(label \"sh, process {}\") of embedded", first.id())), "{text}");
    first.go_on();
    assert_eq!(second.code(), Some(0));
}
