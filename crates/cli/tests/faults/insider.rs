//! A client that holds the lock under `meshlock run` until the test ends it, so that the test knows the holder.

use std::io::Write;
use std::process::{Child, ChildStdin, Stdio};

use meshlock_testing::{BoundedChild, Lines};
use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::Cluster;
use crate::counter::Counter;
use crate::herd::send;
use crate::runner::turn_under_run;

/// A client that holds the lock under `meshlock run` until it is killed or its input ends.
pub(crate) struct Insider {
    pub(crate) run: Child,
    /// The process of the command.
    pub(crate) child: i32,
    client: &'static str,
    /// Standard input of the command. A line lets it continue.
    stdin: ChildStdin,
    stdout: Lines,
}

impl Insider {
    /// Starts a client and waits until it is inside.
    pub(crate) fn enter(cluster: &Cluster, counter: &Counter, site: usize, client: &'static str) -> Self {
        let mut command = turn_under_run(cluster.home(), &cluster.socket(site), counter, client);
        command.env("COUNTER_WAITS", "yes");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut run = command.spawn().unwrap();
        let (stdin, stdout) = (run.stdin.take().unwrap(), Lines::of(run.stdout.take().unwrap()));
        let mut insider = Insider { run, child: 0, client, stdin, stdout };
        insider.child = insider.says("inside ").parse().unwrap();
        insider
    }

    /// Waits for a line that begins with `start` and returns the rest of it.
    fn says(&self, start: &str) -> String {
        let what = format!("{} says '{start}'", self.client);
        let rest = self.stdout.find(&what, |line| Some(line.strip_prefix(start)?.to_owned()));
        rest.unwrap_or_else(|| panic!("it ends, but never: {what}"))
    }

    /// Lets the client write and leave, and asserts that the resource accepts the write.
    pub(crate) fn leave(mut self) {
        self.stdin.write_all(b"go\n").unwrap();
        self.says("written");
        assert_eq!(self.run.wait_in_time().code(), Some(0));
    }

    /// Kills both processes: first `meshlock run`, so that only the other one keeps the lock.
    pub(crate) fn kill(mut self, counter: &Counter) {
        send(&self.run, Signal::KILL);
        self.run.wait_in_time();
        counter.note_killed(self.client);
        kill_process(Pid::from_raw(self.child).unwrap(), Signal::KILL).unwrap();
    }
}

impl Drop for Insider {
    fn drop(&mut self) {
        self.run.end();
    }
}
