//! Following one acquisition through the logs of all sites that took part in it.

use std::process::{Command, Stdio};

use meshlock_testing::{BoundedChild, BoundedCommand, eventually, needs_program};
use serde_json::Value;

use crate::site::{Files, Process, fails, json, meshlock};

/// Starts a site that logs what it does for each acquisition. Returns it and the address of its API.
fn start(files: &Files, site: &str) -> (Process, String) {
    let mut command = meshlock(files.home());
    command.args(["node", "--config", &files.path(&format!("{site}.toml")), "--api", "127.0.0.1:0"]);
    command.args(["--log", "json", "--log-level", "warn,meshlock::lock=debug"]);
    let process = Process::start(command, files.home().join(format!("{site}.log")));
    (process, String::new())
}

fn ready((process, address): &mut (Process, String)) {
    let line = process.line();
    line.rsplit_once("; API: ").unwrap_or_else(|| panic!("{line}")).1.clone_into(address);
}

pub(crate) fn curl(address: &str, path: &str, header: &str, body: &str) -> Command {
    let mut curl = Command::new("curl");
    curl.args(["-s", "--max-time", "60", "-H", header, "-d", body, "-w", "\n%header{meshlock-cause}"]);
    curl.arg(format!("http://{address}/v1/locks/jobs/{path}")).stdout(Stdio::piped());
    curl
}

/// Returns the body of an answer and the id of its cause.
pub(crate) fn answer(curl: std::process::Output) -> (Value, String) {
    let text = String::from_utf8(curl.stdout).unwrap();
    let (body, cause) = text.rsplit_once('\n').unwrap();
    (serde_json::from_str(body).unwrap_or_else(|_| panic!("{text}")), cause.to_owned())
}

/// Returns some fields of each line of a log that has this message.
fn lines(process: &Process, message: &str, fields: [&str; 3]) -> Vec<[String; 3]> {
    let log = process.log();
    let objects =
        log.lines().map(|line| -> Value { serde_json::from_str(line).unwrap_or_else(|_| panic!("{log}")) });
    let said = objects.filter(|object| object["message"] == message);
    said.map(|object| fields.map(|field| object[field].as_str().unwrap_or_default().to_owned())).collect()
}

#[test]
fn a_client_s_request_is_found_in_the_log_of_every_site_that_handled_a_message_for_it() {
    if !needs_program("curl") {
        return;
    }
    let files = Files::new(2, false, "");
    let mut sites = [start(&files, "a"), start(&files, "b")];
    sites.iter_mut().for_each(ready);
    let [(a, at_a), (b, at_b)] = &sites;
    let first = curl(at_a, "acquire", "x-request-id: 00000000000000a1", "{}").output_in_time();
    let (held, cause) = answer(first);
    assert_eq!(cause, "00000000000000a1", "{held}");
    let trace = "traceparent: 00-11111111111111110000000000000b02-2222222222222222-01";
    let waiting = curl(at_b, "acquire", trace, "{}").spawn().unwrap();
    eventually("it waits", || {
        let queue = json(files.home(), &["queue", "jobs", "--socket", &files.path("a.sock")]);
        queue["waiters"].as_array().is_some_and(|waiters| !waiters.is_empty())
            && lines(a, "message received", ["kind", "cause", "lock"])
                .iter()
                .any(|line| line[1] == "0000000000000b02")
    });
    let session = format!("{{\"session\":{}}}", held["session"]);
    answer(curl(at_a, "release", "x-request-id: over", &session).output_in_time());
    let (_, cause) = answer(waiting.output_in_time());
    assert_eq!(cause, "0000000000000b02");
    let line = |kind: &str, cause: &str| [kind.to_owned(), cause.to_owned(), "jobs".to_owned()];
    let said = |process: &Process, message, line: [String; 3], what| {
        eventually(what, || lines(process, message, ["kind", "cause", "lock"]).contains(&line));
    };
    // From where it was asked for to where it was heard, and back with the one who handed over.
    said(b, "lock requested", line("", "0000000000000b02"), "b was asked");
    said(b, "message sent", line("REQUEST", "0000000000000b02"), "b asks a");
    said(a, "message received", line("REQUEST", "0000000000000b02"), "a hears b");
    said(a, "message sent", line("TOKEN", "00000000000000a1"), "a hands over");
    said(b, "message received", line("TOKEN", "00000000000000a1"), "b hears it");
    eventually("b lets it in", || {
        let granted = lines(b, "granted", ["cause", "by", "site"]);
        granted.contains(&["0000000000000b02", "00000000000000a1", "b"].map(str::to_owned))
    });
}

#[test]
fn an_invalid_log_level_is_rejected() {
    let home = tempfile::tempdir().unwrap();
    let error = fails(home.path(), 64, &["node", "--log-level", "meshlock::lock=loud"]);
    assert!(error.contains("--log-level <LEVEL>") && error.contains("loud"), "{error}");
}
