//! The tests of Node's etcd3: those of locks, leases and elections. Each is run in a process of its own.
//!
//! Its package has no tests, and nothing of its sources is here or fetched: [`SOURCE`] names a folder that has them, built.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::{Outcome, Places, succeeds};

/// The variable that names the folder with the client's sources, in which its build has been run, so that its tests are in `lib/test`.
pub(crate) const SOURCE: &str = "MESHLOCK_ETCD3_SOURCE";

/// The version that is listed.
pub(crate) const VERSION: &str = "1.1.2";

/// The files of tests that are run.
const FILES: [&str; 3] = ["lib/test/lock.test.js", "lib/test/lease.test.js", "lib/test/election.test.js"];

/// Runs the tests.
pub(super) fn run(places: &Places, suite: &str) -> anyhow::Result<BTreeMap<String, Outcome>> {
    let source = PathBuf::from(std::env::var_os(SOURCE).with_context(|| format!("{SOURCE} is not set"))?);
    check(&source)?;
    let script = places.ours.join("node/run.py");
    let started = |what: &[&str]| {
        let mut command = Command::new("python3");
        command.arg(&script).args(what).args(FILES).current_dir(&source);
        command
    };
    let listed = succeeds(&mut started(&["list"]))?;
    let mut results = BTreeMap::new();
    for title in listed.lines() {
        let name = name(title);
        let output = places.test(suite, &name, &mut started(&["test", title]))?;
        results.insert(name, outcome(&String::from_utf8_lossy(&output.stdout), output.status.success()));
    }
    ensure!(!results.is_empty(), "{suite}: no tests in {}", source.display());
    Ok(results)
}

/// Returns the name of a test in the list, in which names have no spaces.
fn name(title: &str) -> String {
    title.replace(' ', "_")
}

/// Returns what a test came to by the last line of the script. One that leaves without a word has failed.
fn outcome(said: &str, is_success: bool) -> Outcome {
    match (is_success, said.lines().last()) {
        (true, Some("passed")) => Outcome::Passed,
        (true, Some("skipped")) => Outcome::Skipped,
        _ => Outcome::Failed,
    }
}

/// Fails if a folder does not have the tests of the version that is listed.
fn check(source: &Path) -> anyhow::Result<()> {
    let manifest = source.join("package.json");
    let text =
        fs::read_to_string(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
    ensure!(is_listed(&text), "{} is not that of etcd3 {VERSION}", manifest.display());
    for file in FILES {
        ensure!(
            source.join(file).is_file(),
            "there is no {file} in {}; {SOURCE} names a folder in which the client is built with its tests",
            source.display()
        );
    }
    Ok(())
}

/// Returns whether a package's description is that of the version that is listed.
fn is_listed(manifest: &str) -> bool {
    let lines = ["\"name\": \"etcd3\"".to_owned(), format!("\"version\": \"{VERSION}\"")];
    lines.iter().all(|line| manifest.contains(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_says_that_it_passed_has_passed() {
        assert_eq!(outcome("a line\npassed\n", true), Outcome::Passed);
        assert_eq!(outcome("skipped\n", true), Outcome::Skipped);
        for (said, is_success) in [("failed\n", true), ("passed\n", false), ("", true), ("passed\nx\n", true)]
        {
            assert_eq!(outcome(said, is_success), Outcome::Failed, "{said}");
        }
        assert_eq!(name("lease() crons tears down"), "lease()_crons_tears_down");
    }

    #[test]
    fn only_the_version_that_is_listed_is_run() {
        let manifest = |name: &str, version: &str| {
            format!("{{\n  \"name\": \"{name}\",\n  \"version\": \"{version}\",\n}}\n")
        };
        assert!(is_listed(&manifest("etcd3", VERSION)));
        assert!(!is_listed(&manifest("etcd3", "0.2.13")) && !is_listed(&manifest("etcd", VERSION)));
    }
}
