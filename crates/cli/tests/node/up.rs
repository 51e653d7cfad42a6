//! A whole cluster in one command.

use meshlock_testing::eventually;
use rustix::process::Signal;

use crate::site::{Files, Process, json, meshlock};

#[test]
fn a_cluster_starts_with_one_command_and_ends_with_one_signal() {
    let files = Files::new(0, false, "");
    let dir = files.path("up");
    let mut command = meshlock(files.home());
    command.args(["up", "-n", "3", "--dir", &dir]);
    let mut up = Process::start(command, files.home().join("log"));
    for site in 1..=3 {
        let line = up.line();
        assert!(line.starts_with(&format!("site-{site} is ready: view ")), "{line}");
    }
    up.until_line("Ctrl-C ends all");
    let socket = files.home().canonicalize().unwrap().join("up/site-2.sock").display().to_string();
    let arguments = ["status", "--socket", &socket];
    let members = || json(files.home(), &arguments)["view"]["members"].as_array().unwrap().len();
    eventually("all take part", || members() == 3);
    up.signal(Signal::INT);
    assert_eq!(up.end().code(), Some(0), "{}", up.log());
    for site in 1..=3 {
        assert!(!files.home().join(format!("up/site-{site}.sock")).exists(), "its node has ended");
    }
}
