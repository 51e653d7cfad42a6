//! A whole cluster in one command.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use meshlock_testing::eventually;
use rustix::process::Signal;

use crate::site::{Files, Process, fails, json, meshlock, says};

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
    // The user's commands find it, and use the first of its sites.
    let status = json(files.home(), &["status"]);
    assert_eq!(status["site"], "site-1", "{status}");
    let why = status["asked"]["why"].as_str().unwrap();
    assert!(why.starts_with("the first of the 3 nodes of `meshlock up` in "), "{why}");
    assert!(says(files.home(), &["top", "--once"]).contains("site-3"));
    up.signal(Signal::INT);
    assert_eq!(up.end().code(), Some(0), "{}", up.log());
    for site in 1..=3 {
        assert!(!files.home().join(format!("up/site-{site}.sock")).exists(), "its node has ended");
    }
    let error = fails(files.home(), 69, &["status"]);
    assert!(error.contains("no node is configured or runs"), "{error}");
}

#[test]
fn a_directory_that_others_can_write_to_is_refused_and_the_default_one_is_private() {
    let files = Files::new(0, false, "");
    let dir = files.home().join("open");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    let error = fails(files.home(), 64, &["up", "--dir", &files.path("open")]);
    assert!(error.contains("open: other users can write to it, or it belongs to another user"), "{error}");
    let error = fails(files.home(), 64, &["up", "--dir", &files.path("open/mine")]);
    assert!(error.contains("all users can write to ") && error.contains("which is above it"), "{error}");
    let mut command = meshlock(files.home());
    command.args(["up", "-n", "1", "--plain"]).env("TMPDIR", files.home());
    let mut up = Process::start(command, files.home().join("log"));
    up.until_line("Ctrl-C ends all");
    let made = fs::read_dir(files.home()).unwrap().map(|entry| entry.unwrap());
    let made = made.filter(|entry| entry.file_name().to_string_lossy().starts_with("meshlock-up-"));
    let modes: Vec<u32> = made.map(|entry| entry.metadata().unwrap().permissions().mode() & 0o777).collect();
    assert_eq!(modes, [0o700], "one directory, for its own user only");
    up.signal(Signal::INT);
    assert_eq!(up.end().code(), Some(0), "{}", up.log());
}
