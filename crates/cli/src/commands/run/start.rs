//! A hidden command that `meshlock run` starts, and that becomes CMD.
//!
//! `meshlock run` starts this program instead of CMD itself, because the process that will be CMD must do two things before it
//! executes CMD: come to the terminal's foreground, and unblock the signals that are blocked in its parent.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;

use super::events::let_signals_through;
use super::tell;
use super::terminal::Terminal;
use crate::output::CommandOutcome;

/// Name of the hidden command.
pub(crate) const NAME: &str = "start-held";

/// Exit codes of shells for a command that cannot be executed, and for one that does not exist.
const EXIT_CANNOT: u8 = 126;
const EXIT_NOT_FOUND: u8 = 127;

/// Arguments of the hidden command.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Come to the terminal's foreground first
    #[arg(long)]
    foreground: bool,
    /// The command to execute, and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments, _out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    if arguments.foreground
        && let Some(terminal) = Terminal::open()
    {
        // If this fails, the kernel stops CMD when it uses the terminal, and CMD gets the terminal then.
        let _ = terminal.give_to(rustix::process::getpgrp());
    }
    let_signals_through()?;
    let program = &arguments.command[0];
    let error = Command::new(program).args(&arguments.command[1..]).exec();
    tell(format!("cannot run '{}': {error}", program.to_string_lossy()));
    let missing = error.kind() == io::ErrorKind::NotFound;
    Ok(CommandOutcome::Exit(if missing { EXIT_NOT_FOUND } else { EXIT_CANNOT }))
}
