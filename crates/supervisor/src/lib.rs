//! The supervisor of a command that runs under a lock: a process between `meshlock run` and CMD.
//!
//! Two programs have this code. `meshlock-supervisor` has nothing else, so that it starts in a fraction of the time that `meshlock` takes,
//! whose size the kernel must load and relocate. `meshlock run` starts it if it is beside `meshlock`; if it is not, `meshlock` starts itself
//! with the same arguments, which it takes for a hidden command.
//!
//! ```text
//!  meshlock-supervisor supervise-held NODE CERTIFICATE LOCK IDENTITY CMD…     (supervisor)
//!  meshlock-supervisor start-held CMD…                                        (start)
//! ```
//!
//! The first five arguments have this order in every version: a `meshlock run` of another version finds by them which lock the processes
//! above it hold, and a supervisor of another version finds by IDENTITY that it does not belong to its parent, and becomes its parent's
//! program instead.
//!
//! This crate isolates what CMD's supervisor needs, and forbids an async runtime, the command line's parser, and whatever else makes a
//! program slow to start: a test of `crates/cli` counts the relocations of `meshlock-supervisor`.

#![allow(
    missing_docs,
    reason = "an internal crate: `xtask tidy` asks for documents of types and functions, not of fields"
)]

mod control;
mod identity;
mod signals;
mod start;
mod supervisor;
mod terminal;

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use meshlock_cluster::printable::Printable;

pub use control::{Control, FromSupervisor, StartOrder};
pub use identity::identity;
pub use signals::{BlockedSignals, let_signals_through};
pub use terminal::{Terminal, alone_in_group};

/// Name of the small program.
pub const PROGRAM: &str = "meshlock-supervisor";

/// Name of the hidden command that is the supervisor.
pub const SUPERVISE: &str = "supervise-held";

/// Name of the hidden command that becomes CMD.
const START: &str = "start-held";

/// The program of this process, even if its file has been replaced meanwhile.
pub const OURSELVES: &str = "/proc/self/exe";

/// Exit code for invalid arguments (`EX_USAGE` of sysexits).
const EXIT_USAGE: u8 = 64;

/// Runs the hidden command that the arguments of `meshlock` name, if they name one of this crate.
pub fn run_hidden() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let command = arguments.next()?;
    if command != SUPERVISE && command != START {
        return None;
    }
    run(&command, &arguments.collect::<Vec<_>>())
}

/// Runs the small program.
pub fn run_small_program() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let Some((command, rest)) = arguments.split_first() else { return refuse() };
    if command == SUPERVISE && !supervisor::is_for_this_program(rest) {
        return become_parent(&arguments);
    }
    run(command, rest).unwrap_or_else(refuse)
}

fn run(command: &OsStr, arguments: &[OsString]) -> Option<ExitCode> {
    if command == START {
        return Some(ExitCode::from(start::run(arguments)));
    }
    (command == SUPERVISE).then(|| {
        let supervised = supervisor::run(arguments);
        supervised.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
    })
}

/// Says that nobody but `meshlock run` can use this program.
fn refuse() -> ExitCode {
    tell("this program is started by `meshlock run`; use `meshlock run NAME -- CMD`");
    ExitCode::from(EXIT_USAGE)
}

/// Becomes the program of the parent, which was built from other sources and has this command, too.
fn become_parent(arguments: &[OsString]) -> ExitCode {
    let Some(parent) = rustix::process::getppid() else { return ExitCode::FAILURE };
    // If the parent has gone, `parent` may be whoever has adopted this process. While its end of the connection is open, it is not.
    match Control::of_stdin() {
        Ok(control) if control.has_peer() => {}
        Ok(_) | Err(_) => return refuse(),
    }
    let error = Command::new(format!("/proc/{}/exe", parent.as_raw_nonzero())).args(arguments).exec();
    tell(format_args!("{PROGRAM} is of another version, and cannot start that of its parent: {error}"));
    ExitCode::FAILURE
}

/// Returns the exit code by which shells report that a signal ended a process.
pub fn code_of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// Prints a message for the user. That nobody may read it is not an error.
pub fn tell(what: impl Display) {
    let _ = writeln!(io::stderr(), "meshlock: {}", Printable(what));
}
