//! The tests of python-etcd3, aetcd and etcd3gw: those of locks and leases. Each is run in a process of its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail, ensure};

use super::{Outcome, Places, succeeds};

/// Debian's source of python-etcd3: its package on PyPI has no tests.
const ETCD3: &str = "pool/main/p/python-etcd3/python-etcd3_0.12.0.orig.tar.xz";
const ETCD3_SHA256: &str = "112c2b7dc74667499183b7d8e45d3eda53fe96198f862d3577809a83ea9c32b3";

/// How long a test may take, in seconds.
const TEST_TIMEOUT: &str = "180";

/// Which tests are about locks and leases, by their names.
const ABOUT: &str = "lock or lease";

/// A client and where its tests are.
struct PythonClient {
    /// What is installed, besides the client in the first place.
    packages: &'static [&'static str],
    /// The files of tests in its sources.
    files: &'static [&'static str],
}

/// Runs the tests of a client.
pub(super) fn run(places: &Places, suite: &str, name: &str) -> anyhow::Result<BTreeMap<String, Outcome>> {
    let client = match name {
        "etcd3" => PythonClient {
            packages: &[
                "etcd3==0.12.0",
                "protobuf<4",
                "tenacity==6.3.1",
                "pytest==7.4.4",
                "hypothesis==6.100.0",
                "mock==5.1.0",
                "six",
            ],
            files: &["tests/test_etcd3.py"],
        },
        "aetcd" => PythonClient {
            packages: &["aetcd==1.0.0", "pytest==9.0.3", "pytest-asyncio==1.3.0", "pytest-mock==3.15.1"],
            files: &["tests/integration/test_lock.py", "tests/integration/test_lease.py"],
        },
        "etcd3gw" => PythonClient {
            packages: &["etcd3gw==2.7.0", "pytest==9.0.3", "oslotest==5.0.1"],
            files: &["etcd3gw/tests/test_etcd3gw.py"],
        },
        _ => bail!("there is no client {name} of Python"),
    };
    let python = installed(places, name, &client)?;
    let sources = sources(places, name, &client)?;
    let pytest = |more: &[&str]| {
        let mut command = Command::new("timeout");
        command.args([TEST_TIMEOUT, &python.display().to_string(), "-m", "pytest", "-p", "spread"]);
        command.args(["-p", "no:cacheprovider"]).args(more).current_dir(&sources);
        // aetcd's fixtures are coroutines, and pytest-asyncio asks whether all are.
        if name == "aetcd" {
            command.args(["-o", "asyncio_mode=auto", "-o", "addopts="]);
        }
        command.env("PYTHONPATH", places.ours.join("python")).env("MESHLOCK_OTHERS_CLIENT", name);
        command
    };
    let mut results = BTreeMap::new();
    for file in client.files {
        let listed = places.test(suite, file, &mut pytest(&["--collect-only", "-q", "-k", ABOUT, file]))?;
        let listed = String::from_utf8_lossy(&listed.stdout);
        let tests: Vec<&str> = listed.lines().filter(|line| line.contains("::")).collect();
        ensure!(!tests.is_empty(), "{suite}: no tests in {file}: {listed}");
        for test in tests {
            let short = test.rsplit("::").next().unwrap_or(test);
            let output = places.test(suite, short, &mut pytest(&["-q", "-rA", test]))?;
            let said = String::from_utf8_lossy(&output.stdout);
            results.insert(short.to_owned(), outcome(&said, output.status.success()));
        }
    }
    Ok(results)
}

/// Returns what a test came to by the last line of pytest. A test that passed and could not be cleaned up after has failed.
fn outcome(said: &str, is_success: bool) -> Outcome {
    let last = said.lines().rev().find(|line| line.contains(" in ")).unwrap_or_default();
    match (is_success, last.contains("1 passed"), last.contains("1 skipped")) {
        (true, true, false) => Outcome::Passed,
        (true, false, true) => Outcome::Skipped,
        _ => Outcome::Failed,
    }
}

/// Returns the Python that has the client, which is installed once.
fn installed(places: &Places, name: &str, client: &PythonClient) -> anyhow::Result<PathBuf> {
    let environment = places.work.join("python").join(name).join("env");
    let (python, done) = (environment.join("bin/python"), environment.join("done"));
    if !done.exists() {
        succeeds(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
        let mut pip = Command::new(&python);
        succeeds(pip.args(["-m", "pip", "install", "--quiet"]).args(client.packages))?;
        fs::write(done, "").context("cannot note that a client is installed")?;
    }
    Ok(python)
}

/// Returns the directory of the client's sources, which have its tests.
fn sources(places: &Places, name: &str, client: &PythonClient) -> anyhow::Result<PathBuf> {
    let unpacked = places.empty(&format!("python/{name}/sources"))?;
    let archive = if name == "etcd3" {
        places.fetched(ETCD3, ETCD3_SHA256)?
    } else {
        downloaded(places, name, client)?
    };
    succeeds(
        Command::new("tar").arg("-xf").arg(archive).args(["--strip-components", "1", "-C"]).arg(&unpacked),
    )?;
    Ok(unpacked)
}

/// Returns the source archive of a client on PyPI.
fn downloaded(places: &Places, name: &str, client: &PythonClient) -> anyhow::Result<PathBuf> {
    let to = places.empty(&format!("python/{name}/archive"))?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "-d"]).arg(&to);
    succeeds(pip.arg(client.packages[0]))?;
    let archive = fs::read_dir(&to)?.next().context("pip has downloaded nothing")??;
    Ok(archive.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_leaves_an_error_behind_has_not_passed() {
        assert_eq!(outcome("PASSED x\n1 passed, 2 warnings in 3.1s\n", true), Outcome::Passed);
        assert_eq!(outcome("PASSED x\n1 passed, 1 error in 3.1s\n", false), Outcome::Failed);
        assert_eq!(outcome("1 skipped in 0.1s\n", true), Outcome::Skipped);
        assert_eq!(outcome("1 failed in 0.1s\n", false), Outcome::Failed);
        assert_eq!(outcome("no tests ran in 0.1s\n", true), Outcome::Failed);
    }
}
