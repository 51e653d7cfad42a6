//! The hidden half of `meshlock run`: a process that becomes CMD.
//!
//! `meshlock run` starts this program once more instead of CMD itself, because some things must be done by the process that
//! CMD will be, before it is CMD: to come to the terminal's foreground, and to let signals through that wait in its parent.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;

use super::tell;
use super::terminal::Terminal;
use super::watch::let_signals_through;
use crate::output::Outcome;

/// What the hidden command is called.
pub(crate) const NAME: &str = "start-held";

/// Exit codes of shells: it is there, but cannot be executed; it is not there.
const EXIT_CANNOT: u8 = 126;
const EXIT_NOT_FOUND: u8 = 127;

/// Arguments of the hidden command.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Come to the foreground first
    #[arg(long)]
    pub(super) foreground: bool,
    /// What to become
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments, _out: &mut dyn Write) -> anyhow::Result<Outcome> {
    if arguments.foreground
        && let Some(terminal) = Terminal::open()
    {
        // If it fails, CMD is stopped when it uses the terminal, and is given it then.
        let _ = terminal.give_to(rustix::process::getpgrp());
    }
    let_signals_through()?;
    let program = &arguments.command[0];
    let error = Command::new(program).args(&arguments.command[1..]).exec();
    tell(format!("cannot run '{}': {error}", program.to_string_lossy()));
    let missing = error.kind() == io::ErrorKind::NotFound;
    Ok(Outcome::Exit(if missing { EXIT_NOT_FOUND } else { EXIT_CANNOT }))
}
