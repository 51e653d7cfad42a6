//! Node's etcd3, from npm.

use std::path::Path;
use std::process::Command;

use super::backend::Backend;
use super::programs::{limited, need, prepared, run, said};

#[test]
fn node_s_locks_and_elections_work_as_with_etcd() {
    if !need("node") || !need("npm") {
        return;
    }
    let fill = |dir: &Path| {
        run(Command::new("npm").current_dir(dir).args([
            "install",
            "--silent",
            "--no-fund",
            "--no-audit",
            "etcd3@1.1.2",
        ]))
    };
    let Some(dir) = prepared("node-etcd3", fill) else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/lock.js");
    // Packages are looked for beside the script.
    let copy = dir.join("lock.js");
    std::fs::copy(script, &copy).unwrap();
    let seen = Backend::compare(|backend| {
        said(&limited("node").current_dir(&dir).arg(&copy).arg(&backend.address).output().unwrap())
    });
    assert!(seen.contains("leader: bob") && seen.contains("end|") && seen.ends_with("|Some(0)"), "{seen}");
}
