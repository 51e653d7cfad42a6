//! `soak --only others`: the tests that others wrote for their clients of etcd and Consul, against three sites of Meshlock.
//!
//! Nothing of their sources is in this repository: they come from Debian's packages and from PyPI, and those of Node's etcd3 from a
//! folder that a variable names (`soak --only others-node`). Only what starts their servers is replaced, by what lies in
//! `interop/others`: each test gets three sites of its own, over which its calls are spread. What must come out of each test is in
//! `interop/others/expected.txt`; the tables of `docs/etcd.md` and `docs/consul.md` are made of that.

mod expected;
mod go;
mod node;
mod python;
mod tables;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, bail, ensure};

use crate::packages::{self, Package, file, program};
use crate::run::cargo;
use expected::{EXPECTED, Expectation, Expected};
pub(crate) use node::{SOURCE as ETCD3_SOURCE, VERSION as ETCD3_VERSION};
pub(crate) use tables::write;

/// What a test came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// What the tests are built with and run by, besides what CI needs.
const PACKAGES: &[Package] = &[
    program("curl", "curl", "fetches the sources of tests"),
    program("go", "golang-go", "builds the tests of etcd and Consul"),
    file(
        "/usr/share/gocode/src/go.etcd.io/etcd/clientv3/integration/lease_test.go",
        "golang-etcd-server-dev",
        "etcd's client for Go and its tests",
    ),
    file(
        "/usr/share/gocode/src/github.com/hashicorp/go-cleanhttp/cleanhttp.go",
        "golang-github-hashicorp-go-cleanhttp-dev",
        "what Consul's client for Go uses",
    ),
    file(
        "/usr/share/gocode/src/github.com/hashicorp/go-rootcerts/rootcerts.go",
        "golang-github-hashicorp-go-rootcerts-dev",
        "what Consul's client for Go uses",
    ),
    file(
        "/usr/share/gocode/src/github.com/hashicorp/go-hclog/logger.go",
        "golang-github-hashicorp-go-hclog-dev",
        "what Consul's client for Go uses",
    ),
    file(
        "/usr/share/gocode/src/github.com/hashicorp/serf/coordinate/client.go",
        "golang-github-hashicorp-serf-dev",
        "what Consul's client for Go uses",
    ),
];

/// The places that the tests of others are given.
struct Places {
    /// The folder `interop/others`.
    ours: PathBuf,
    /// Where sources are copied to and tests are built.
    work: PathBuf,
    /// The program `meshlock`.
    meshlock: PathBuf,
}

/// The suites that need no sources but those that are fetched, and those that need more, by what their names begin with.
pub(crate) const FETCHED: &[&str] = &["consul", "etcd", "python"];
pub(crate) const GIVEN: &[&str] = &["node"];

/// Runs the suites of some kinds, or of these those whose names begin with `MESHLOCK_OTHERS_SUITE`, and compares what comes out with what
/// is expected.
pub(crate) fn run(root: &Path, kinds: &[&str]) -> anyhow::Result<()> {
    packages::install(packages::CI)?;
    packages::install(PACKAGES)?;
    let places = Places {
        ours: root.join("interop/others"),
        work: crate::target_dir(root).join("others"),
        meshlock: built(root)?,
    };
    let expected = Expected::read(root)?;
    let wanted = std::env::var("MESHLOCK_OTHERS_SUITE").unwrap_or_default();
    let mut faults = Vec::new();
    for (suite, tests) in expected.suites().filter(|(suite, _)| suite.starts_with(&wanted)) {
        let results = match suite.split_once('/') {
            Some((kind, _)) if !kinds.contains(&kind) => continue,
            Some(("etcd" | "consul", _)) => go::run(&places, suite)?,
            Some(("python", client)) => python::run(&places, suite, client)?,
            Some(("node", _)) => node::run(&places, suite)?,
            _ => bail!("{EXPECTED}: there is no suite {suite}"),
        };
        let passed = results.values().filter(|outcome| **outcome == Outcome::Passed).count();
        eprintln!("soak: others: {suite}: {passed} of {} pass", results.len());
        faults.extend(differences(suite, tests, &results));
    }
    ensure!(faults.is_empty(), "not what {EXPECTED} says:\n  {}", faults.join("\n  "));
    Ok(())
}

/// Returns what came out otherwise than is expected.
fn differences(
    suite: &str,
    expected: &BTreeMap<String, Expectation>,
    results: &BTreeMap<String, Outcome>,
) -> Vec<String> {
    let missing = expected.keys().filter(|test| !results.contains_key(*test));
    let mut faults: Vec<String> = missing.map(|test| format!("{suite}: {test} was not run")).collect();
    for (test, outcome) in results {
        match expected.get(test) {
            None => faults.push(format!("{suite}: {test} is not listed; it {outcome:?}")),
            Some(verdict) if !verdict.allows(*outcome) => {
                faults.push(format!("{suite}: {test} {outcome:?}, where {verdict:?} is expected"));
            }
            Some(_) => {}
        }
    }
    faults
}

/// Returns the program: the one that the variable `MESHLOCK` names, or what is built here.
fn built(root: &Path) -> anyhow::Result<PathBuf> {
    if let Some(given) = std::env::var_os("MESHLOCK") {
        return Ok(PathBuf::from(given));
    }
    cargo(root, "build --release --locked -p meshlock-cli", &[])?;
    Ok(crate::target_dir(root).join("release/meshlock"))
}

impl Places {
    /// Runs a test with the variables that its set-up needs, keeps what it says, and returns it.
    fn test(&self, suite: &str, test: &str, command: &mut Command) -> anyhow::Result<Output> {
        eprintln!("soak: others: {suite} {test}");
        command.env("MESHLOCK", &self.meshlock).env("MESHLOCK_OTHERS", &self.ours);
        for proxy in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env_remove(proxy);
        }
        let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
        let logs = self.work.join("logs").join(suite);
        fs::create_dir_all(&logs)?;
        let log = logs.join(format!("{}.log", test.replace(['/', ':'], "_")));
        fs::write(log, [&*output.stdout, b"\n--- stderr:\n", &*output.stderr].concat())?;
        Ok(output)
    }

    /// Returns an empty directory.
    fn empty(&self, name: &str) -> anyhow::Result<PathBuf> {
        let directory = self.work.join(name);
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        Ok(directory)
    }

    /// Returns a file of Debian's archive, which is fetched once.
    fn fetched(&self, path: &str, sha256: &str) -> anyhow::Result<PathBuf> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let file = self.work.join(name);
        fs::create_dir_all(&self.work)?;
        let is_the_one = || {
            let sum = Command::new("sha256sum").arg(&file).output();
            sum.is_ok_and(|sum| sum.stdout.starts_with(sha256.as_bytes()))
        };
        for mirror in ["http://deb.debian.org/debian", "http://archive.debian.org/debian"] {
            if is_the_one() {
                return Ok(file);
            }
            let mut curl = Command::new("curl");
            curl.args(["-sSf", "--max-time", "120", "-o"]).arg(&file).arg(format!("{mirror}/{path}"));
            // A mirror that does not have it is not an error if the next one has.
            let _ = curl.status();
        }
        ensure!(is_the_one(), "{path} cannot be fetched from Debian's archives, or is not what it was");
        Ok(file)
    }
}

/// Runs a command that prepares something.
fn succeeds(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let [said, error] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    ensure!(output.status.success(), "{command:?} failed:\n{said}{error}");
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_comes_out_otherwise_is_named() {
        let verdicts = [("one", Expectation::Passes), ("two", Expectation::StoresData("puts".to_owned()))];
        let expected = verdicts.map(|(test, verdict)| (test.to_owned(), verdict)).into();
        let results = |list: &[(&str, Outcome)]| {
            differences(
                "s",
                &expected,
                &list.iter().map(|(test, outcome)| ((*test).to_owned(), *outcome)).collect(),
            )
        };
        assert!(results(&[("one", Outcome::Passed), ("two", Outcome::Failed)]).is_empty());
        for (list, fault) in [
            (&[("one", Outcome::Passed)][..], "s: two was not run"),
            (
                &[("one", Outcome::Skipped), ("two", Outcome::Failed)],
                "s: one Skipped, where Passes is expected",
            ),
            (&[("one", Outcome::Passed), ("two", Outcome::Passed)], "s: two Passed, where StoresData("),
            (
                &[("one", Outcome::Passed), ("two", Outcome::Failed), ("x", Outcome::Failed)],
                "s: x is not listed; it Failed",
            ),
        ] {
            let faults = results(list);
            assert!(faults.len() == 1 && faults[0].starts_with(fault), "{faults:?}");
        }
    }
}
