//! Programs that are run to their end. One that does not end is killed, and the test says which it was.

use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::wait::{WITHIN, first_some};

/// Runs a command to its end, and no longer than [`WITHIN`].
pub trait BoundedCommand {
    /// Returns what the program says and how it ends; panics if it does not start or takes longer than [`WITHIN`].
    #[track_caller]
    fn output_in_time(&mut self) -> Output {
        self.output_within(WITHIN)
    }

    /// The same with another limit, for programs that compute for long.
    #[track_caller]
    fn output_within(&mut self, within: Duration) -> Output;

    /// Returns how the program ends, which inherits what the command does not redirect; panics if it does not start or takes too
    /// long.
    #[track_caller]
    fn status_in_time(&mut self) -> ExitStatus;
}

impl BoundedCommand for Command {
    #[track_caller]
    fn output_within(&mut self, within: Duration) -> Output {
        let child = self.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.unwrap_or_else(|error| panic!("{self:?} does not start: {error}"));
        output(child, within)
            .unwrap_or_else(|| panic!("not within {} s: the end of {self:?}", within.as_secs()))
    }

    #[track_caller]
    fn status_in_time(&mut self) -> ExitStatus {
        let child = self.spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{self:?} does not start: {error}"));
        status(&mut child).unwrap_or_else(|| panic!("not within {} s: the end of {self:?}", WITHIN.as_secs()))
    }
}

/// Waits for the end of a program that runs, and no longer than [`WITHIN`].
pub trait BoundedChild {
    /// Returns how the program ends; kills it and panics if that takes too long.
    #[track_caller]
    fn wait_in_time(&mut self) -> ExitStatus;

    /// Returns what the program says from now on and how it ends; kills it and panics if that takes too long.
    #[track_caller]
    fn output_in_time(self) -> Output;

    /// Kills the program, if it still runs, and waits until it is gone. For the end of a test, also of one that fails: it does
    /// not panic.
    fn end(&mut self);
}

impl BoundedChild for Child {
    #[track_caller]
    fn wait_in_time(&mut self) -> ExitStatus {
        let id = self.id();
        status(self).unwrap_or_else(|| panic!("not within {} s: the end of process {id}", WITHIN.as_secs()))
    }

    #[track_caller]
    fn output_in_time(self) -> Output {
        let id = self.id();
        output(self, WITHIN)
            .unwrap_or_else(|| panic!("not within {} s: the end of process {id}", WITHIN.as_secs()))
    }

    fn end(&mut self) {
        let _ = self.kill();
        first_some(WITHIN, || self.try_wait().ok().flatten());
    }
}

/// Returns how a program ends; kills it if it does not end in time.
fn status(child: &mut Child) -> Option<ExitStatus> {
    let ended = first_some(WITHIN, || child.try_wait().expect("it is a child of this process"));
    if ended.is_none() {
        child.end();
    }
    ended
}

/// Returns what a program says and how it ends; kills it if it does not end in time. What it started may keep its pipes open, so
/// that a thread reads them.
fn output(child: Child, within: Duration) -> Option<Output> {
    let (pid, (sender, done)) = (Pid::from_child(&child), channel());
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let output = done.recv_timeout(within).ok();
    if output.is_none() {
        let _ = kill_process(pid, Signal::KILL);
    }
    output.map(|output| output.expect("its pipes can be read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_is_run_to_its_end() {
        let output = shell("echo out; echo err >&2; exit 3").output_in_time();
        assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(shell("exit 4").status_in_time().code(), Some(4));
        let mut child = shell("exit 5").spawn().expect("a shell");
        assert_eq!(child.wait_in_time().code(), Some(5));
    }

    #[test]
    fn a_program_that_does_not_end_is_killed_and_named() {
        let run = || shell("echo $$; exec sleep 600").output_within(Duration::from_millis(50));
        let panic = std::panic::catch_unwind(run).expect_err("it does not end");
        let said = panic.downcast_ref::<String>().expect("a text");
        assert!(said.starts_with("not within 0 s: the end of ") && said.contains("sleep 600"), "{said}");
        let mut child = shell("exec sleep 600").spawn().expect("a shell");
        child.end();
        assert!(child.try_wait().expect("it is known").is_some(), "it is gone");
    }
}
