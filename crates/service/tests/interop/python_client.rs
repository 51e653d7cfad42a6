//! Our own client for Python, which needs nothing but Python.

use std::path::Path;

use super::backend::Backend;
use super::programs::{limited, need};

#[test]
fn the_client_for_python_does_what_it_says() {
    if !need("python3") {
        return;
    }
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python");
    let api = Backend::meshlock();
    let mut python = limited("python3");
    python.args(["-m", "unittest", "discover", "-s"]).arg(client.join("tests"));
    python.env("PYTHONPATH", client.join("src")).env("PYTHONDONTWRITEBYTECODE", "1");
    python.env("MESHLOCK_API", format!("http://{}", api.address));
    let output = python.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("Ran 13 tests"), "{said}");
}
