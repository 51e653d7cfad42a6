//! A hidden command that becomes CMD, on a terminal.
//!
//! The supervisor starts this program instead of CMD itself if CMD is to have the terminal: the process that will be CMD must come to
//! the terminal's foreground before it executes CMD.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;

use super::events::{block_terminal_output_stop, let_signals_through};
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
    /// The command to execute, and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments, _out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    if let Some(terminal) = Terminal::open() {
        // If this fails, the kernel stops CMD when it uses the terminal, and CMD gets the terminal then.
        block_terminal_output_stop()?;
        let _ = terminal.give_to(rustix::process::getpgrp());
        let_signals_through()?;
    }
    let program = &arguments.command[0];
    let error = Command::new(program).args(&arguments.command[1..]).exec();
    tell(format!("cannot run '{}': {error}", program.to_string_lossy()));
    Ok(CommandOutcome::Exit(code_of(&error)))
}

/// Returns the exit code of shells for a command that cannot be executed because of this error.
pub(super) fn code_of(error: &io::Error) -> u8 {
    if error.kind() == io::ErrorKind::NotFound { EXIT_NOT_FOUND } else { EXIT_CANNOT }
}
