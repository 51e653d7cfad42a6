//! Tests that need root, a program or something of the kernel. Where that is missing they are skipped, and counted: `skip` writes a
//! line into the file that `MESHLOCK_SKIPPED_LOG` names, which `cargo xtask ci` reads. Where `MESHLOCK_ALL_TESTS` is set, as there, they
//! fail with what is missing and how to get it.

use std::fs::File;
use std::io::Write;
use std::path::Path;

/// The variable that makes a test fail which would be skipped.
const ALL: &str = "MESHLOCK_ALL_TESTS";

/// The variable that names the file of skipped tests.
const LOG: &str = "MESHLOCK_SKIPPED_LOG";

/// Debian's packages of programs that are called otherwise.
const PACKAGES: &[(&str, &str)] = &[
    ("WebKitWebDriver", "webkit2gtk-driver"),
    ("Xvfb", "xvfb"),
    ("chromedriver", "chromium-driver"),
    ("etcd", "etcd-server"),
    ("etcdctl", "etcd-client"),
    ("go", "golang-go"),
    ("ip", "iproute2"),
    ("node", "nodejs"),
    ("script", "bsdutils"),
    ("systemd-analyze", "systemd"),
];

/// Whether every test must run.
pub fn is_required() -> bool {
    std::env::var_os(ALL).is_some_and(|value| !value.is_empty())
}

/// Says that a test is skipped because something is `missing`, and how that is got; panics where every test must run. The test
/// returns after it.
#[track_caller]
pub fn skip(missing: &str, remedy: &str) {
    let test = test_name();
    // Also where it fails: the summary then lists all that is missing on this machine.
    if let Some(log) = std::env::var_os(LOG) {
        note(Path::new(&log), &test, &format!("{missing}; {remedy}"));
    }
    assert!(!is_required(), "{}", demand(&test, missing, remedy));
    eprintln!("SKIPPED {test}: {missing}; {remedy}");
}

/// Returns what a test says that must run and cannot. `cargo xtask fresh` reads it.
pub fn demand(test: &str, missing: &str, remedy: &str) -> String {
    format!("{ALL} is set, so {test} must run, and this is missing: {missing}; {remedy}")
}

/// Adds a line to the file of skipped tests: the name, a tab, the reason.
fn note(log: &Path, test: &str, why: &str) {
    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
    let file = File::options().create(true).append(true).open(log);
    // In one write, so that lines of tests that run at the same time stay whole.
    let written = file.and_then(|mut file| file.write_all(format!("{test}\t{why}\n").as_bytes()));
    written.unwrap_or_else(|error| panic!("{} cannot be written, which {LOG} names: {error}", log.display()));
}

/// Returns the name of the test that runs, after that of its program.
pub(crate) fn test_name() -> String {
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(Path::file_stem).unwrap_or_default().to_string_lossy();
    // Cargo adds a hash.
    let program = program.rsplit_once('-').map_or(&*program, |(name, _)| name);
    // The harness calls the thread of a test as the test, unless the test has the main thread to itself: then nextest says its name.
    let thread = std::thread::current();
    let of_thread = thread.name().filter(|name| *name != "main").map(str::to_owned);
    let test = std::env::var("NEXTEST_TEST_NAME").ok().or(of_thread);
    format!("{program}::{}", test.as_deref().unwrap_or("a test"))
}

/// Whether a test can run that needs root, for `what`. If not, it is skipped.
#[must_use]
#[track_caller]
pub fn needs_root(what: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip(&format!("root, for {what}"), "run the tests as root");
    }
    is_root
}

/// Whether a test can run that needs this program. If not, it is skipped.
#[must_use]
#[track_caller]
pub fn needs_program(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(|dir| Path::new(dir).to_owned());
    let is_there = std::env::split_paths(&path).chain(system).any(|dir| dir.join(program).is_file());
    if !is_there {
        let (missing, remedy) = missing_program(program);
        skip(&missing, &remedy);
    }
    is_there
}

/// Returns how it is said that a program is missing, and how to get it.
pub fn missing_program(program: &str) -> (String, String) {
    (format!("the program {program}"), format!("apt-get install {}", package_of(program)))
}

/// Returns Debian's package that brings a program.
pub fn package_of(program: &str) -> &str {
    let found = PACKAGES.iter().find(|(name, _)| *name == program);
    found.map_or(program, |(_, package)| package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_there_is_found_and_packages_are_known() {
        assert!(needs_program("sh"));
        assert_eq!((package_of("etcd"), package_of("curl")), ("etcd-server", "curl"));
    }

    #[test]
    fn every_skipped_test_is_a_line() {
        let dir = tempfile::tempdir().expect("a directory");
        let log = dir.path().join("skipped");
        note(&log, "one::test", "it needs\n  this");
        note(&log, "other::test", "that");
        let text = std::fs::read_to_string(&log).expect("it is written");
        assert_eq!(text, "one::test\tit needs this\nother::test\tthat\n");
    }

    #[test]
    fn a_test_knows_its_name() {
        assert_eq!(test_name(), "meshlock_testing::skip::tests::a_test_knows_its_name");
    }
}
