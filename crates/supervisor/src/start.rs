//! A hidden command that becomes CMD, on a terminal.
//!
//! The supervisor starts this program instead of CMD itself if CMD is to have the terminal: the process that will be CMD must come to
//! the terminal's foreground before it executes CMD.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::signals::{block_terminal_output_stop, let_signals_through};
use crate::tell;
use crate::terminal::Terminal;

/// Exit codes of shells for a command that cannot be executed, and for one that does not exist.
const EXIT_CANNOT: u8 = 126;
const EXIT_NOT_FOUND: u8 = 127;

/// Becomes this command. Returns an exit code if that is impossible, which the user has been told.
pub(crate) fn run(command: &[OsString]) -> u8 {
    let Some((program, arguments)) = command.split_first() else { return EXIT_CANNOT };
    let error = match come_to_the_foreground() {
        Ok(()) => Command::new(program).args(arguments).exec(),
        Err(error) => error,
    };
    tell(format_args!("cannot run '{}': {error}", program.to_string_lossy()));
    code_of(&error)
}

fn come_to_the_foreground() -> io::Result<()> {
    let Some(terminal) = Terminal::open() else { return Ok(()) };
    // If this fails, the kernel stops CMD when it uses the terminal, and CMD gets the terminal then.
    block_terminal_output_stop()?;
    let _ = terminal.give_to(rustix::process::getpgrp());
    let_signals_through()
}

/// Returns the exit code of shells for a command that cannot be executed because of this error.
pub(crate) fn code_of(error: &io::Error) -> u8 {
    if error.kind() == io::ErrorKind::NotFound { EXIT_NOT_FOUND } else { EXIT_CANNOT }
}
