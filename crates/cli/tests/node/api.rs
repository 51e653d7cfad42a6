//! `meshlock node --api`: the same locks over HTTP.

use std::process::Command;

use meshlock_testing::{BoundedCommand, needs_program};

use super::site::{Process, fails, json, meshlock};

#[test]
fn a_node_serves_the_same_locks_over_its_api() {
    if !needs_program("curl") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let mut command = meshlock(home.path());
    command.args(["node", "--api", "127.0.0.1:0"]);
    let node = Process::start(command, home.path().join("log"));
    let line = node.line();
    let address = line.rsplit_once("; API: ").expect("it says where").1;
    let body = r#"{"label":"a program of another language"}"#;
    let url = format!("http://{address}/v1/locks/jobs/acquire");
    let held = Command::new("curl").args(["-s", "--max-time", "60", "-d", body, &url]).output_in_time();
    let held: serde_json::Value = serde_json::from_slice(&held.stdout).unwrap();
    let queue = json(home.path(), &["queue", "jobs"]);
    let holder = &queue["holders"][0];
    assert_eq!(holder["who"], r#"local (label "a program of another language")"#, "{queue}");
    assert!(holder["fence"].is_string() && holder["fence"] == held["fence"], "{queue} {held}");
}

#[test]
fn an_api_that_everyone_could_use_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let error = fails(home.path(), 64, &["node", "--api", "0.0.0.0:0"]);
    assert!(error.contains("the API would be open to everyone who reaches 0.0.0.0:"), "{error}");
}
