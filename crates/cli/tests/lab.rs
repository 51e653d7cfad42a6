//! `meshlock lab` as a user runs it: it prints its address, serves its page to this machine only, and refuses a port that is in use.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use meshlock_testing::{BoundedChild, BoundedCommand, Lines, WITHIN};

/// A running lab, which is ended when this is dropped.
struct Lab {
    process: Child,
    address: String,
}

impl Lab {
    fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_meshlock"));
        command.args(["lab", "--no-open"]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("the lab starts");
        let out = Lines::of(process.stdout.take().expect("its output is a pipe"));
        let line = out.line("it says where it is");
        let address = line.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
        Lab { process, address }
    }

    /// Returns the answer to a request for `path` with the header `Host: host`.
    fn ask(&self, path: &str, host: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("it reads");
        stream.set_read_timeout(Some(WITHIN)).expect("a time");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.process.end();
    }
}

#[test]
fn it_listens_on_loopback_and_serves_its_page_to_itself_only() {
    let lab = Lab::start();
    assert!(lab.address.starts_with("127.0.0.1:"), "{}", lab.address);
    let page = lab.ask("/", &lab.address);
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("<title>Meshlock lab</title>"), "{page}");
    assert!(page.to_lowercase().contains("content-security-policy: default-src 'none'"), "{page}");
    let foreign = lab.ask("/api/algorithms", "evil.example");
    assert!(foreign.starts_with("HTTP/1.1 403") && foreign.contains("answers only to itself"), "{foreign}");
}

#[test]
fn every_file_that_the_page_names_is_served() {
    let lab = Lab::start();
    let mut found = vec!["main.js".to_owned(), "style.css".to_owned()];
    let mut at = 0;
    while at < found.len() {
        let text = lab.ask(&format!("/assets/{}", found[at]), &lab.address);
        assert!(text.starts_with("HTTP/1.1 200"), "{} is missing", found[at]);
        for name in text.split("\"./").skip(1).filter_map(|rest| rest.split('"').next()) {
            if !found.iter().any(|known| known == name) {
                found.push(name.to_owned());
            }
        }
        at += 1;
    }
    assert!(found.len() > 15, "{found:?}");
}

#[test]
fn a_port_that_is_taken_is_refused_with_its_number() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_meshlock"));
    let output = command.args(["lab", "--no-open", "--port", &port]).output_in_time();
    assert_eq!(output.status.code(), Some(64));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&format!("--port {port}: cannot listen there")), "{said}");
}
