//! The program `meshlock`, with all commands.

use std::process::ExitCode;

fn main() -> ExitCode {
    meshlock_cli::run_program()
}
