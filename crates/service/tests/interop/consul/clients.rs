//! python-consul2 from PyPI and Node's consul from npm.

use std::path::{Path, PathBuf};
use std::process::Command;

use meshlock_testing::{BoundedCommand, needs_program};

use super::Server;
use crate::programs::{client, prepared, run, said};

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/consul").join(name)
}

#[test]
fn sessions_and_keys_of_python_consul2_work_as_with_consul() {
    if !needs_program("python3") {
        return;
    }
    let fill = |dir: &Path| {
        run(Command::new("python3").args(["-m", "venv"]).arg(dir.join("env")))
            && run(Command::new(dir.join("env/bin/pip")).args([
                "install",
                "--quiet",
                "python-consul2==0.1.5",
            ]))
    };
    let Some(dir) = prepared("python-consul", fill) else { return };
    let seen = Server::compare(|server| {
        said(&client(dir.join("env/bin/python")).arg(script("lock.py")).arg(&server.address).output_in_time())
    });
    assert!(seen.contains("second has waited: True") && seen.ends_with("||Some(0)"), "{seen}");
}

#[test]
fn sessions_keys_and_watches_of_node_s_consul_work_as_with_consul() {
    if !needs_program("node") || !needs_program("npm") {
        return;
    }
    let fill = |dir: &Path| {
        let install = ["install", "--silent", "--no-fund", "--no-audit", "consul@2.0.1"];
        run(Command::new("npm").current_dir(dir).args(install))
    };
    let Some(dir) = prepared("node-consul", fill) else { return };
    // Node.js looks for packages beside the script.
    let copy = dir.join("lock.js");
    std::fs::copy(script("lock.js"), &copy).unwrap();
    let seen = Server::compare(|server| {
        said(&client("node").current_dir(&dir).arg(&copy).arg(&server.address).output_in_time())
    });
    assert!(seen.contains("watch: second") && seen.contains("end|") && seen.ends_with("|Some(0)"), "{seen}");
}
