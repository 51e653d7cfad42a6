//! `meshlock run NAME -- CMD…`: holds a lock while a command runs.
//!
//! ```text
//!  meshlock run ──connects──▶ node          the session: one socket
//!       │ starts the supervisor, below which CMD's processes will be  (child, beside, crates/supervisor)
//!       │ waits until the lock is granted  (waiting)
//!       │ has the supervisor start CMD as a process group of its own  (child)
//!       │ passes signals on, watches the lease, ends CMD in time if the lock is lost  (holding)
//!       ▼
//!  CMD's exit code
//! ```
//!
//! The lock is free when the last process closes the session's socket. The supervisor has it open, and ends after the last process
//! below it: if `meshlock` is killed, CMD and what it started still hold the lock. The node knows the supervisor, and ends what is below
//! it if the lock is lost and `meshlock` is gone. If the node is on another machine, a [relay](meshlock_client) in a process of its own
//! does that in the node's place.

pub(crate) mod beside;
mod child;
mod events;
mod holding;
pub(crate) mod keeper;
mod nesting;
mod waiting;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use clap::Args;
use meshlock_cluster::names::{ClientLabel, LockName};
use meshlock_cluster::rules::Rules;
use meshlock_cluster::table::Wait;
use meshlock_supervisor::{code_of_signal, tell};

use crate::location::NodeFlags;
use crate::output::{CommandOutcome, UsageError};
use crate::settings::duration::HumanDuration;
use child::Child;
use events::EventSource;
use holding::Holding;
use waiting::{RunRequest, Waited};

/// Exit code: no node is reachable, or its cluster cannot serve it at present (`EX_UNAVAILABLE` of sysexits).
const EXIT_NO_NODE: u8 = 69;

/// Exit code: somebody else has the lock, and it was not granted in the given time (`EX_TEMPFAIL`).
const EXIT_NOT_IN_TIME: u8 = 75;

/// Exit code: the lock was lost while CMD ran, and CMD was ended (`EX_PROTOCOL`, which nothing else here uses).
const EXIT_LOST: u8 = 76;

/// Exit code if the request was the youngest one of a deadlock, and the lock's rule says that it does not wait.
const EXIT_DEADLOCK: u8 = 77;

const EXIT_CODES: &str = "\
CMD has these environment variables:
  MESHLOCK_NAME   the name of the lock
  MESHLOCK_FENCE  a number that is larger than that of every earlier holder; send it to the resource that the lock protects, which
                  can then reject requests of earlier holders
  MESHLOCK_SLOT   the number of the permit, if the permits of the lock are numbered; otherwise empty

The node is the one that the first of these names: --socket or --node; MESHLOCK_NODE or MESHLOCK_SOCKET in the environment; client.toml
in ~/.config/meshlock, then in /etc/meshlock; the machine's node, if /etc/meshlock/node.toml or /run/meshlock/node.sock is there; the node
that this user runs. Of several nodes (--node A,B,C) the nearest that answers is used, and another if it leaves or ends while CMD waits for the
lock. A node that is named and cannot be reached is an error (69). If nothing names one, a private node is started, which
ends after its last client: then \"nobody else\" means no other command of this user on this machine, and other users and machines are
not kept out. With -v the command says which node it uses.

All processes that CMD starts are under the lock, in the background, too: it is held until the last of them has ended. CMD keeps the
lock even if `meshlock` itself is killed. With --node another process keeps the session, and ends CMD in time if the node cannot be
reached any more. A `meshlock run` of the same lock below CMD is refused.

CMD can be ended only if it runs as the same user: write `sudo meshlock run NAME -- CMD`, not `meshlock run NAME -- sudo CMD`.

Exit codes:
  N    the exit code of CMD; 128+N if signal N ended CMD, or the wait for the lock
  64   invalid arguments, the lock is in use with another number of permits or has one by a rule, or a process above this one holds it
  69   no node is reachable, or its cluster cannot say who has the lock: too few sites answer
  75   someone else has the lock, and it was not granted in time (--try, --wait)
  76   the lock was lost while CMD ran; CMD was ended before anyone else could get the lock
  77   the lock's rule says on-deadlock=refuse, and this command, run below another `meshlock run`, would have waited for ever
  137  also: the supervisor of CMD was killed; CMD was ended
  126  CMD cannot be executed
  127  CMD is not found";

/// Arguments of `meshlock run`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    /// The name of the lock: any text of 1 to 255 bytes
    name: LockName,
    /// Do not wait if someone else holds the lock
    #[arg(long = "try", conflicts_with = "wait")]
    only_try: bool,
    /// Wait no longer than this, such as 500ms, 30s, 5m or 2h
    #[arg(long, value_name = "DURATION")]
    wait: Option<HumanDuration>,
    /// How many may hold the lock at once, 1 to 1024 [default: 1]; while it is in use, another number is refused
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=i64::from(Rules::MAX_PERMITS)))]
    permits: Option<u32>,
    #[command(flatten)]
    node: NodeFlags,
    /// Say on standard error which node is used, and why
    #[arg(short, long)]
    verbose: bool,
    /// If the lock is lost: how long CMD has between SIGTERM and SIGKILL [default and maximum: as long as is safe]
    #[arg(long, value_name = "DURATION")]
    grace: Option<HumanDuration>,
    /// The command to run, and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments, _out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let Arguments { name, only_try, wait, permits, node, verbose, grace, command } = arguments;
    let wait = match wait {
        Some(wait) => Wait::Within(wait.span()),
        None if *only_try => Wait::Try,
        None => Wait::Forever,
    };
    let mut request = RunRequest::new(name.clone(), wait, *permits, node, command)?;
    if *verbose {
        tell(request.chosen_node());
    }
    // From here on signals are queued. Before, there was no process to pass them on to.
    let events = EventSource::begin()?;
    let mut held = match request.wait(&events)? {
        Waited::Granted(held) => *held,
        Waited::LostAgain => {
            tell(format!("the lock '{name}' was lost before CMD was started; try again"));
            return Ok(CommandOutcome::Exit(EXIT_LOST));
        }
        Waited::NotInTime(queue) => {
            tell(request.why_not(queue.as_ref()));
            return Ok(CommandOutcome::Exit(EXIT_NOT_IN_TIME));
        }
        Waited::Unavailable(why) => {
            tell(format!("cannot get the lock '{name}' now: {why}"));
            return Ok(CommandOutcome::Exit(EXIT_NO_NODE));
        }
        Waited::Deadlock(why) => {
            tell(format!("did not get the lock '{name}', because of a deadlock: {why}"));
            return Ok(CommandOutcome::Exit(EXIT_DEADLOCK));
        }
        Waited::Refused(why) => {
            return Err(UsageError::new(format!("cannot get the lock '{name}': {why}")).into());
        }
        Waited::NodeLeaves => {
            tell(
                "the node leaves its cluster and grants no more locks; use another node, or start this one again",
            );
            return Ok(CommandOutcome::Exit(EXIT_NO_NODE));
        }
        Waited::Interrupted(signal) => return Ok(CommandOutcome::Exit(code_of_signal(signal.as_raw()))),
    };
    let child = match Child::start(request.into_supervisor(), &mut held)? {
        Ok(child) => child,
        Err(code) => return Ok(CommandOutcome::Exit(code)),
    };
    Holding::new(held.request, child, grace.map(HumanDuration::span), *verbose).hold(&events)
}

/// Returns the label that other clients see: the command and the process id.
fn label(command: &OsString) -> ClientLabel {
    let file = Path::new(command).file_name().unwrap_or(command).to_string_lossy();
    let id = std::process::id();
    let name: String = file.chars().take(40).collect();
    let label = format!("{name}, process {id}").parse();
    label.unwrap_or_else(|_| format!("process {id}").parse().expect("short and printable"))
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
