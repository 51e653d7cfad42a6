//! Meshlock's client for Python, which needs no packages.

use std::path::Path;

use meshlock_cluster::lease::Terms;
use meshlock_testing::{BoundedCommand, needs_program};

use super::backend::Backend;
use super::programs::client;

#[test]
fn the_python_client_works_as_documented() {
    if !needs_program("python3") {
        return;
    }
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python");
    let api = Backend::with(Terms::default());
    let mut python = client("python3");
    python.args(["-m", "unittest", "discover", "-s"]).arg(package.join("tests"));
    python.env("PYTHONPATH", package.join("src")).env("PYTHONDONTWRITEBYTECODE", "1");
    python.env("MESHLOCK_API", format!("http://{}", api.address));
    let output = python.output_in_time();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("Ran 44 tests"), "{said}");
}
