//! The project's own commands, so that a checkout needs nothing but Rust and a C compiler.
//!
//! `cargo xtask ci` runs every check and changes nothing; `cargo xtask fix` rewrites what can be rewritten;
//! `cargo xtask tidy` checks what prose would let rot.

mod ci;
mod generated;
mod packages;
mod purity;
mod screenshots;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  ci           install what tests use, then run every check, rewriting nothing: format, lints, tests, doc tests, docs, licences (if cargo-deny is there), tidy
  fix          rewrite: format, fixable lints, generated tables and pages
  screenshots  draw the lab's main views into docs/lab (needs chromium)
  tidy         check headers, sizes, forbidden words, the bans of pure crates, commands in the README, generated tables";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["ci"] => ci::ci(&root()),
        ["fix"] => ci::fix(&root()),
        ["screenshots"] => screenshots::draw(&root()),
        ["tidy"] => tidy::tidy(&root()),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(64);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace's root: the folder above this crate.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask lies in the workspace").to_path_buf()
}
