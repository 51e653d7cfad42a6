//! Tests that need root or a program: where those are missing they say so in a way that is counted, and where
//! `MESHLOCK_ALL_TESTS` is set, as under `cargo xtask ci`, they fail instead.

use std::path::Path;

/// The variable that makes a test fail which would be skipped.
const ALL: &str = "MESHLOCK_ALL_TESTS";

/// How a skipped test begins its line; `cargo xtask ci` counts these.
const MARK: &str = "SKIPPED:";

/// Whether every test must run.
pub fn is_required() -> bool {
    std::env::var_os(ALL).is_some_and(|value| !value.is_empty())
}

/// Says that a test is skipped, and why; panics where every test must run.
pub fn skip(why: &str) {
    assert!(!is_required(), "{ALL} is set, and this test would be skipped: {why}");
    eprintln!("{MARK} {why}");
}

/// Whether a test can run that needs root. If not, it is skipped.
#[must_use]
pub fn needs_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip("it needs root, for network namespaces");
    }
    is_root
}

/// Whether a test can run that needs this program. If not, it is skipped.
#[must_use]
pub fn needs_program(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(|dir| Path::new(dir).to_owned());
    let is_there = std::env::split_paths(&path).chain(system).any(|dir| dir.join(program).is_file());
    if !is_there {
        skip(&format!("it needs the program {program}"));
    }
    is_there
}
