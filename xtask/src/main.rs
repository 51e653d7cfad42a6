//! The project's own commands, so that a checkout needs nothing but Rust and a C compiler.
//!
//! `cargo xtask ci` runs every check and changes nothing; `cargo xtask fix` rewrites what can be rewritten;
//! `cargo xtask tidy` checks what review would overlook; `cargo xtask fresh` tries the README's commands on a bare
//! machine; `cargo xtask soak` runs what takes longer than CI may.

mod build_cost;
mod ci;
mod compiler;
mod fresh;
mod generated;
mod others;
mod packages;
mod purity;
mod run;
mod screenshots;
mod soak;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  build-cost   build HEAD and an earlier commit from nothing, and compare CPU time and size
               --against COMMIT: the earlier one (0db6328)
  ci           install what tests use, then run every check, rewriting nothing: format, lints, tests, doc tests, docs, licences (if cargo-deny is there), tidy
  fresh        run the README's two commands in a bare Debian root of its own, and say what was missing (as root)
               --keep: do not delete the root; --reuse: take the one that was kept; --dir DIR: where it lies;
               --with-nextest: give it this machine's cargo-nextest, and try ci with that
  fix          rewrite: format, fixable lints, generated tables and pages
  screenshots  draw the lab's main views into docs/lab (needs chromium)
  soak         run what takes longer than ci may, one named step after the other
               --list: the steps; --only STEP: this one (several times for several);
               --seeds N, --cases N, --storms N, --runs N: how much
  tidy         check headers, sizes, forbidden words, waits of tests, the bans of pure crates, commands in the README, generated tables";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if compiler::is_called(&arguments) {
        return compiler::compile(&arguments);
    }
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["build-cost"] => build_cost::build_cost(&root(), None),
        ["build-cost", "--against", commit] => build_cost::build_cost(&root(), Some(commit)),
        ["ci"] => ci::ci(&root()),
        ["fix"] => ci::fix(&root()),
        ["fresh", options @ ..] => match fresh::Options::parse(options) {
            Ok(options) => fresh::fresh(&root(), &options),
            Err(mistake) => return usage(&mistake),
        },
        ["screenshots"] => screenshots::draw(&root()),
        ["soak", options @ ..] => match soak::Options::parse(options) {
            Ok(options) => soak::soak(&root(), &options),
            Err(mistake) => return usage(&mistake),
        },
        ["tidy"] => tidy::tidy(&root()),
        [] => return usage("no command given"),
        [command, ..] => return usage(&format!("no such command: {command}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Says what is wrong with the command line, and what would be right.
fn usage(mistake: &str) -> ExitCode {
    eprintln!("xtask: {mistake}\n\n{USAGE}");
    ExitCode::from(64)
}

/// The workspace's root: the folder above this crate.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask lies in the workspace").to_path_buf()
}

/// Returns the folder in which cargo builds.
fn target_dir(root: &Path) -> PathBuf {
    let given = std::env::var_os("CARGO_TARGET_DIR").and_then(|dir| std::path::absolute(dir).ok());
    given.unwrap_or_else(|| root.join("target"))
}
