//! `meshlock run NAME -- CMD…`: holds a lock while a command runs.
//!
//! ```text
//!  meshlock run ──connects──▶ node          the session: one socket
//!       │ waits until granted  (waiting)
//!       │ starts CMD as a process group of its own, with the session's socket open in it  (child, start)
//!       │ passes signals on, watches the lease, ends CMD in time if the lock is lost  (holding)
//!       ▼
//!  CMD's exit code
//! ```
//!
//! The lock is free when the last process closes the session's socket: if `meshlock` is killed, CMD and what it started
//! still have it. The node knows CMD's process group, and ends it if the lock is lost and `meshlock` is gone. Where the node is
//! on another machine, a [relay](meshlock_client) in a process of its own stands in for it.

mod child;
mod holding;
pub(crate) mod keeper;
pub(crate) mod start;
mod terminal;
mod waiting;
mod watch;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use clap::Args;
use meshlock_cluster::names::{ClientLabel, LockName};
use meshlock_cluster::table::Wait;

use crate::output::{Outcome, Usage};
use crate::place::Where;
use crate::settings::lasting::Lasting;
use child::Child;
use holding::Holding;
use waiting::{LockRequest, Waited};
use watch::Watch;
pub(crate) use watch::let_signals_through;

/// Exit code: there is no node to ask (`EX_UNAVAILABLE` of sysexits).
const EXIT_NO_NODE: u8 = 69;

/// Exit code: the lock was not to be had in the time that was given (`EX_TEMPFAIL`).
const EXIT_NOT_IN_TIME: u8 = 75;

/// Exit code: the lock was lost while CMD ran, and CMD was ended (`EX_PROTOCOL`, which nothing else here uses).
const EXIT_LOST: u8 = 76;

const EXIT_CODES: &str = "\
CMD sees MESHLOCK_NAME, MESHLOCK_FENCE (larger than that of every earlier holder: hand it to what the lock protects) and
MESHLOCK_SLOT (which permit, where they are numbered; otherwise empty).

Without --socket, --node and what the environment says the only node of this user is used; if there is none, one is started for
locks on this machine alone, and goes away with its last user.

With --node a second process keeps the session, so that CMD has the lock as long as it runs even if `meshlock` itself is killed,
and is ended in time if the node cannot be reached any more.

CMD can be ended only if it runs as the same user: write `sudo meshlock run NAME -- CMD`, not `meshlock run NAME -- sudo CMD`.

Exit codes:
  N    CMD's own; 128+N if signal N ended it, or ended the wait
  64   the arguments make no sense, or the lock has another number of permits
  69   no node is reachable
  75   the lock was not to be had in time (--try, --wait)
  76   the lock was lost while CMD ran; CMD was ended before anyone else could have it
  126  CMD cannot be executed
  127  CMD is not found";

/// Arguments of `meshlock run`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    /// The lock: any text of 1 to 255 bytes
    name: LockName,
    /// Do not wait if someone else has it
    #[arg(long = "try", conflicts_with = "wait")]
    only_try: bool,
    /// Wait no longer than this: 500ms, 30s, 5m, 2h
    #[arg(long, value_name = "DURATION")]
    wait: Option<Lasting>,
    /// How many may hold it at once, all of whom say the same number
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    permits: Option<u32>,
    #[command(flatten)]
    node: Where,
    /// If the lock is lost: how long CMD has between SIGTERM and SIGKILL; never longer than is safe, which is the default
    #[arg(long, value_name = "DURATION")]
    grace: Option<Lasting>,
    /// What to run
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments, _out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let Arguments { name, only_try, wait, permits, node, grace, command } = arguments;
    let wait = match wait {
        Some(wait) => Wait::Within(wait.span()),
        None if *only_try => Wait::Try,
        None => Wait::Forever,
    };
    let who = label(&command[0]);
    let mut request = LockRequest::new(name.clone(), wait, *permits, node, who)?;
    // Signals wait from here on: until now there was nothing that they would have to reach.
    let watch = Watch::begin()?;
    let mut held = match request.wait(&watch)? {
        Waited::Granted(held) => held,
        Waited::NotInTime => {
            tell(request.why_not());
            return Ok(Outcome::Exit(EXIT_NOT_IN_TIME));
        }
        Waited::Refused(why) => {
            return Err(Usage::new(format!("cannot have the lock '{name}': {why}")).into());
        }
        Waited::NodeLeaves => {
            tell("the node leaves its cluster and grants nothing more; use another, or start it again");
            return Ok(Outcome::Exit(EXIT_NO_NODE));
        }
        Waited::Interrupted(signal) => return Ok(Outcome::Exit(code_of_signal(signal.as_raw()))),
    };
    if !held.is_still_held() {
        tell(format!("the lock '{name}' was lost before CMD was started; ask again"));
        return Ok(Outcome::Exit(EXIT_LOST));
    }
    let child = Child::start(name, &held, command)?;
    Holding::new(held, child, grace.map(Lasting::span)).hold(&watch)
}

/// Who we are to others who wait: the command, and our process.
fn label(command: &OsString) -> ClientLabel {
    let file = Path::new(command).file_name().unwrap_or(command).to_string_lossy();
    let id = std::process::id();
    let name: String = file.chars().take(40).collect();
    let label = format!("{name}, process {id}").parse();
    label.unwrap_or_else(|_| format!("process {id}").parse().expect("short and printable"))
}

/// How shells say that a signal ended a process.
fn code_of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// Tells the person who started us. There may be nobody to read it, which changes nothing.
fn tell(what: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "meshlock: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_printable_whatever_the_command_is_called() {
        let id = std::process::id();
        assert_eq!(label(&"/opt/bin/backup.sh".into()).as_str(), format!("backup.sh, process {id}"));
        assert_eq!(label(&"a\nb".into()).as_str(), format!("process {id}"));
        assert!(label(&"x".repeat(500).into()).as_str().len() < 80);
    }
}
