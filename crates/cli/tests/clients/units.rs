//! The tests that the clients for Go and TypeScript have themselves, some of them with a node. (Python's are run by the tests of the API.)

use std::process::Command;

use meshlock_testing::needs_program;

use crate::languages::{go, run, typescript};
use crate::site::{Process, meshlock, says};

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

/// Starts a node whose API is protected by TLS, and returns the API's address and the directory with the certificate of a client.
fn protected_node(home: &std::path::Path) -> (Process, String, String) {
    let authority = home.join("ca").display().to_string();
    says(home, &["ca", "init", "--dir", &authority]);
    // Programs that do not know of sites look for the host in the certificate.
    says(home, &["ca", "issue", "a", "--host", "127.0.0.1", "--dir", &authority]);
    says(home, &["ca", "issue", "ci", "--client", "--dir", &authority]);
    let config = home.join("a.toml");
    let files = ["ca.pem", "cert.pem", "key.pem"].map(|file| format!("ca/site-a/{file}"));
    let tls = format!("tls = {{ ca = '{}', cert = '{}', key = '{}' }}", files[0], files[1], files[2]);
    let rule = "[[access]]\nprincipal = 'ci'\nlocks = '*'\nverbs = ['acquire', 'watch']\n";
    std::fs::write(&config, format!("site = 'a'\napi = '127.0.0.1:0'\n{tls}\n{rule}")).unwrap();
    let mut command = meshlock(home);
    command.args(["node", "--config"]).arg(config);
    let node = Process::start(command, home.join("log-tls"));
    let line = node.line();
    let address = line.rsplit_once("; API: ").expect("it says where").1;
    let address = format!("https://{address}");
    (node, address, home.join("ca/client-ci").display().to_string())
}

#[test]
fn the_client_for_go_passes_its_tests_and_is_formatted() {
    if !needs_program("go") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let (_node, api) = node(home.path());
    let (protected_home, tests) = (tempfile::tempdir().unwrap(), ["test", "-count=1", "-v", "."]);
    let (_protected, tls_api, files) = protected_node(protected_home.path());
    run(go().args(["vet", "./..."]));
    let unformatted =
        run(Command::new("gofmt").current_dir(crate::languages::clients().join("go")).args(["-l", "."]));
    assert_eq!(unformatted, "", "gofmt -w changes these");
    let mut go = go();
    go.args(tests).env("MESHLOCK_API", api).env("MESHLOCK_TLS_API", tls_api).env("MESHLOCK_TLS_FILES", files);
    let said = run(&mut go);
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
    let protected_home = tempfile::tempdir().unwrap();
    let (_protected, tls_api, files) = protected_node(protected_home.path());
    let mut tests = Command::new("node");
    tests.current_dir(package).args(["--test", "--test-reporter=tap"]);
    tests.args(["session", "nearest", "node", "tls"].map(|name| format!("dist/test/{name}.test.js")));
    tests.env("MESHLOCK_API", api).env("MESHLOCK_TLS_API", tls_api).env("MESHLOCK_TLS_FILES", files);
    let said = run(&mut tests);
    assert!(said.contains("\n# skipped 0\n") && said.contains("\n# pass 35\n"), "{said}");
}
