//! The package etcd3 of PyPI.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use meshlock_testing::{BoundedCommand, needs_program};

use super::backend::Backend;
use super::programs::{client, prepared, run, said};

/// Returns a Python that has the client. Its `Lock.acquire` needs `tenacity` 6, and its generated code `protobuf` 3.
fn python() -> Option<std::path::PathBuf> {
    let fill = |dir: &Path| {
        run(Command::new("python3").args(["-m", "venv"]).arg(dir.join("env")))
            && run(Command::new(dir.join("env/bin/pip")).args([
                "install",
                "--quiet",
                "etcd3==0.12.0",
                "protobuf<4",
                "tenacity==6.3.1",
            ]))
    };
    if !needs_program("python3") {
        return None;
    }
    prepared("python-etcd3", fill).map(|dir| dir.join("env/bin/python"))
}

/// Runs one of the scripts beside this file.
fn run_script(python: &Path, script: &str, backend: &Backend) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop").join(script);
    said(&client(python).arg(script).arg(&backend.address).output_in_time())
}

#[test]
fn the_lock_of_python_etcd3_works_as_with_etcd() {
    let Some(python) = python() else { return };
    let seen = Backend::compare(|backend| run_script(&python, "lock.py", backend));
    assert!(seen.contains("second has waited: [True] True"), "{seen}");
    assert!(seen.contains("third is outside: False") && seen.ends_with("||Some(0)"), "{seen}");
}

#[test]
fn calls_that_are_not_about_locks_are_refused_with_the_reason() {
    let Some(python) = python() else { return };
    let seen = run_script(&python, "refused.py", &Backend::meshlock());
    let seen = seen.strip_suffix("||Some(0)").unwrap_or_else(|| panic!("{seen}"));
    let answers: BTreeMap<&str, &str> = seen.lines().filter_map(|line| line.split_once(": ")).collect();
    assert_eq!(answers.len(), 6, "{seen}");
    for (call, answer) in answers {
        match call {
            "transaction with an unknown lease" => {
                assert_eq!(answer, "NOT_FOUND: etcdserver: requested lease not found");
            }
            _ => assert!(
                answer.starts_with("UNIMPLEMENTED: ") && answer.contains("Meshlock keeps locks"),
                "{call}: {answer}"
            ),
        }
    }
    let why =
        "transaction without a lease: UNIMPLEMENTED: meshlock: a transaction: it puts a key without a lease";
    assert!(seen.contains(why) && seen.contains("Meshlock keeps locks, not data"), "{seen}");
}
