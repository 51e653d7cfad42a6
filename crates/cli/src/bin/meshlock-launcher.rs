//! The program `meshlock-launcher`: `meshlock run` without the other commands, so that it starts fast. It leaves those to `meshlock`.

use std::process::ExitCode;

fn main() -> ExitCode {
    meshlock_cli::run_launcher()
}
