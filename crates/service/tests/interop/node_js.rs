//! The package etcd3 of npm, and the gRPC library that it contains.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use meshlock_testing::{BoundedCommand, needs_program};

use super::backend::Backend;
use super::programs::{client, prepared, run, said};

/// Returns the directory of the installed packages.
fn packages() -> Option<PathBuf> {
    if !needs_program("node") || !needs_program("npm") {
        return None;
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
    prepared("node-etcd3", fill)
}

/// Runs one of the scripts beside this file.
fn node(packages: &Path, script: &str, backend: &Backend) -> Output {
    let service = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Node.js looks for packages beside the script.
    let copy = packages.join(script);
    std::fs::copy(service.join("tests/interop").join(script), &copy).unwrap();
    let mut node = client("node");
    node.current_dir(packages).arg(&copy).arg(&backend.address).arg(service.join("proto"));
    node.output_in_time()
}

#[test]
fn locks_and_elections_of_node_s_etcd3_work_as_with_etcd() {
    let Some(packages) = packages() else { return };
    let seen = Backend::compare(|backend| said(&node(&packages, "lock.js", backend)));
    assert!(seen.contains("leader: bob") && seen.contains("end|") && seen.ends_with("|Some(0)"), "{seen}");
}

#[test]
fn the_services_for_locks_leases_and_elections_answer_grpc_as_etcd_s_do() {
    let Some(packages) = packages() else { return };
    let seen = Backend::compare(|backend| said(&node(&packages, "services.js", backend)));
    let expected = [
        "the same again: true true",
        "key: true",
        "revision rises: true",
        "still held: 1",
        "after its lease: 0",
        "kept alive: 100",
        "listed: true",
        "kept alive after its end: 0",
        "time to live: -1",
        "revoked twice: NOT_FOUND: etcdserver: requested lease not found",
        "unknown lease: UNKNOWN: etcdserver: requested lease not found",
        "nobody: UNKNOWN: election: no leader",
        "observed: alice",
        "observed: alice again",
        "observed: bob",
        "leader: bob",
        "revision rises: true",
        "late: UNKNOWN: election: not leader",
        "end||Some(0)",
    ];
    assert_eq!(seen.lines().collect::<Vec<_>>(), expected);
}
