//! python-etcd3, from PyPI.

use std::path::Path;
use std::process::Command;

use super::backend::Backend;
use super::programs::{limited, need, prepared, run, said};

/// A Python with the client. Its `Lock.acquire` cannot wait with a `tenacity` after 6, nor is its code for a `protobuf` after 3.
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
    if !need("python3") {
        return None;
    }
    prepared("python-etcd3", fill).map(|dir| dir.join("env/bin/python"))
}

#[test]
fn python_s_lock_works_as_with_etcd() {
    let Some(python) = python() else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/lock.py");
    let seen = Backend::compare(|backend| {
        said(&limited(&python).arg(&script).arg(&backend.address).output().unwrap())
    });
    assert!(seen.contains("second has waited: [True] True"), "{seen}");
    assert!(seen.contains("third is outside: False") && seen.ends_with("||Some(0)"), "{seen}");
}
