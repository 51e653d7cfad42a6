//! The tests that the clients for Go and TypeScript have themselves, some of them with a node. (Python's are run by the tests of the API.)

use std::process::Command;

use meshlock_testing::needs_program;

use crate::languages::{go, run, typescript};
use crate::site::{Process, meshlock};

/// Starts a node with an API, and returns the API's address.
fn node(home: &std::path::Path) -> (Process, String) {
    let mut command = meshlock(home);
    command.args(["node", "--api", "127.0.0.1:0"]);
    let node = Process::start(command, home.join("log"));
    let line = node.line();
    let address = line.rsplit_once("; API: ").expect("it says where").1;
    let address = format!("http://{address}");
    (node, address)
}

#[test]
fn the_client_for_go_passes_its_tests_and_is_formatted() {
    if !needs_program("go") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let (_node, api) = node(home.path());
    run(go().args(["vet", "./..."]));
    let unformatted =
        run(Command::new("gofmt").current_dir(crate::languages::clients().join("go")).args(["-l", "."]));
    assert_eq!(unformatted, "", "gofmt -w changes these");
    let said = run(go().args(["test", "-count=1", "-v", "."]).env("MESHLOCK_API", api));
    // `TestHolder` is a part of another test.
    let skipped: Vec<&str> = said.lines().filter(|line| line.starts_with("--- SKIP")).collect();
    assert!(skipped.len() == 1 && skipped[0].contains("TestHolder"), "{skipped:?}");
    assert!(said.lines().filter(|line| line.starts_with("--- PASS")).count() > 20, "{said}");
}

#[test]
fn the_client_for_typescript_passes_its_tests() {
    let Some(package) = typescript() else { return };
    let home = tempfile::tempdir().unwrap();
    let (_node, api) = node(home.path());
    let mut tests = Command::new("node");
    tests.current_dir(package).args(["--test", "--test-reporter=tap"]);
    tests.args(["dist/test/session.test.js", "dist/test/node.test.js"]).env("MESHLOCK_API", api);
    let said = run(&mut tests);
    assert!(said.contains("\n# skipped 0\n") && said.contains("\n# pass 26\n"), "{said}");
}
