//! The program `meshlock-supervisor`: the supervisor of a command, without the rest of `meshlock`, so that it starts fast.

use std::process::ExitCode;

fn main() -> ExitCode {
    meshlock_supervisor::run_small_program()
}
