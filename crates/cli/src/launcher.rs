//! The launcher: the program `meshlock-launcher`, which does what `meshlock run` does and becomes `meshlock` for every other command.
//!
//! `meshlock` has more than thirty commands and 55,000 relocations, which take longer at its start than a lock takes. The launcher has
//! the same code for `meshlock run` and no other command, and so an eighth of the relocations. Packages install it under the name
//! `meshlock`, and the program with all commands beside it as `meshlock-full`. Who has that program alone, from `cargo run` or as a copy,
//! misses nothing but the time.
//!
//! ```text
//!  meshlock run NAME -- CMD…   it is the command; `supervise-held` and `start-held` are its supervisor, as in every program
//!  meshlock …                  becomes `meshlock-full …`, with the same process number: wrong arguments of `run`, too, for the message
//! ```

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use meshlock_supervisor::{OURSELVES, tell};

use crate::commands::run;
use crate::{cli, conclude};

/// Runs the program `meshlock-launcher`.
pub fn run_launcher() -> ExitCode {
    if let Some(code) = meshlock_supervisor::run_hidden() {
        return code;
    }
    match cli::read_run() {
        Some(arguments) => conclude(|out| run::run(&arguments, out)),
        None => become_whole_program(),
    }
}

/// Becomes the program with all commands. Returns only if that is impossible, which the user is told.
fn become_whole_program() -> ExitCode {
    let program = match run::beside::whole_program(Path::new(OURSELVES)) {
        Ok(program) => program,
        Err(needed) => {
            tell(format_args!(
                "the program with this command is missing, or other users could have put it there: {}; install it again, from the same \
                 package as this one",
                needed.display()
            ));
            return ExitCode::FAILURE;
        }
    };
    let mut arguments = std::env::args_os();
    let mut command = Command::new(&program);
    // As the user called it.
    command.arg0(arguments.next().unwrap_or_default()).args(arguments);
    tell(format_args!("cannot start {}: {}", program.display(), command.exec()));
    ExitCode::FAILURE
}
