//! Traces of acquisitions, as an OpenTelemetry collector receives them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};

use meshlock_testing::{BoundedChild, BoundedCommand, Deadline, WITHIN, needs_program};
use serde_json::Value;

use crate::follow::{answer, curl};
use crate::site::{Files, Process, fails, meshlock};

/// Acts as a collector: answers every request, and sends each span with the name of its site to `spans`.
fn collect(listener: &TcpListener, spans: &Sender<(String, Value)>) {
    for stream in listener.incoming() {
        let stream = stream.unwrap();
        stream.set_read_timeout(Some(WITHIN)).unwrap();
        let mut stream = BufReader::new(stream);
        let (mut line, mut length) = (String::new(), 0);
        stream.read_line(&mut line).unwrap();
        assert_eq!(line, "POST /v1/traces HTTP/1.1\r\n");
        while line != "\r\n" {
            line.clear();
            assert_ne!(stream.read_line(&mut line).unwrap(), 0, "the request ends within its head");
            if let Some(text) = line.strip_prefix("Content-Length: ") {
                length = text.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        let document: Value = serde_json::from_slice(&body).unwrap();
        stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
        for resource in document["resourceSpans"].as_array().unwrap() {
            let attributes = resource["resource"]["attributes"].as_array().unwrap();
            let site = attributes.iter().find(|attribute| attribute["key"] == "service.instance.id").unwrap();
            let site = site["value"]["stringValue"].as_str().unwrap();
            for span in resource["scopeSpans"][0]["spans"].as_array().unwrap() {
                if spans.send((site.to_owned(), span.clone())).is_err() {
                    return;
                }
            }
        }
    }
}

/// Receives spans until all `wanted` ones have arrived, and returns them by trace, site and name.
fn until_all(spans: &Receiver<(String, Value)>, wanted: &[(&str, &str, &str)]) -> BTreeMap<String, Value> {
    let key = |trace: &str, site: &str, name: &str| format!("{trace} {site} {name}");
    let (mut found, deadline) = (BTreeMap::new(), Deadline::default());
    while !wanted.iter().all(|(trace, site, name)| found.contains_key(&key(trace, site, name))) {
        let next = spans.recv_timeout(deadline.left());
        let (site, span) = next.unwrap_or_else(|_| panic!("not all of {wanted:?}, but {found:#?}"));
        let (trace, name) = (span["traceId"].as_str().unwrap(), span["name"].as_str().unwrap());
        found.insert(key(&trace[16..], &site, name), span);
    }
    found
}

#[test]
fn a_collector_receives_the_spans_of_an_acquisition_from_all_sites() {
    if !needs_program("curl") {
        return;
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let collector = format!("http://{}", listener.local_addr().unwrap());
    let (says, spans) = channel();
    std::thread::spawn(move || collect(&listener, &says));
    let files = Files::new(2, false, "");
    let start = |site: &str, named: bool| {
        let mut command = meshlock(files.home());
        command.args(["node", "--config", &files.path(&format!("{site}.toml")), "--api", "127.0.0.1:0"]);
        // By the flag, or by the variable that OpenTelemetry defines.
        if named {
            command.args(["--otlp", &collector]);
        } else {
            command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector);
        }
        Process::start(command, files.home().join(format!("{site}.log")))
    };
    let sites = [start("a", true), start("b", false)];
    let [at_a, at_b] = sites.each_ref().map(|site| site.line().rsplit_once("; API: ").unwrap().1.to_owned());
    let (held, _) = answer(curl(&at_a, "acquire", "x-request-id: 00000000000000a1", "{}").output_in_time());
    let trace = "traceparent: 00-11111111111111110000000000000b02-2222222222222222-01";
    let waiting = curl(&at_b, "acquire", trace, "{}").spawn().unwrap();
    let (a, b) = ("00000000000000a1", "0000000000000b02");
    // It waits at one site, and the other site has received the request.
    let mut found = until_all(&spans, &[(b, "a", "meshlock.message REQUEST")]);
    let release = |held: &Value| format!("{{\"session\":{}}}", held["session"]);
    answer(curl(&at_a, "release", "x-request-id: over", &release(&held)).output_in_time());
    let (held, _) = answer(waiting.output_in_time());
    answer(curl(&at_b, "release", "x-request-id: over", &release(&held)).output_in_time());
    found.extend(until_all(
        &spans,
        &[(a, "a", "meshlock.hold"), (b, "b", "meshlock.wait"), (b, "b", "meshlock.hold")],
    ));
    let span = |trace: &str, site: &str, name: &str| found[&format!("{trace} {site} {name}")].clone();
    let (wait, hold) = (span(b, "b", "meshlock.wait"), span(b, "b", "meshlock.hold"));
    let nanos = |span: &Value, end: &str| -> u64 { span[end].as_str().unwrap().parse().unwrap() };
    let (start, end) = ("startTimeUnixNano", "endTimeUnixNano");
    assert!(
        nanos(&wait, start) < nanos(&wait, end) && nanos(&wait, end) == nanos(&hold, start),
        "{wait} {hold}"
    );
    assert!(nanos(&hold, start) < nanos(&hold, end), "{hold}");
    // Spans that the wait caused are its children, at either site.
    assert_eq!(hold["parentSpanId"], wait["spanId"]);
    assert_eq!(span(b, "a", "meshlock.message REQUEST")["parentSpanId"], wait["spanId"]);
    // It belongs to the client's trace, and got the lock from the other acquisition.
    let links: Vec<&str> =
        wait["links"].as_array().unwrap().iter().map(|link| link["traceId"].as_str().unwrap()).collect();
    assert_eq!(links, ["11111111111111110000000000000b02", "000000000000000000000000000000a1"]);
    assert_eq!(wait["links"][0]["spanId"], "2222222222222222");
    assert_eq!(wait["links"][1]["spanId"], span(a, "a", "meshlock.wait")["spanId"]);
    assert_eq!(
        (&wait["status"], &hold["attributes"][0]["value"]["stringValue"]),
        (&serde_json::json!({}), &"jobs".into())
    );
}

#[test]
fn an_unsupported_collector_address_is_rejected_with_a_valid_example() {
    let home = tempfile::tempdir().unwrap();
    let error = fails(home.path(), 64, &["node", "--otlp", "https://otel.example"]);
    assert!(
        error.contains("only http:// is supported") && error.contains("http://127.0.0.1:4318"),
        "{error}"
    );
    let output =
        meshlock(home.path()).arg("node").env("OTEL_EXPORTER_OTLP_ENDPOINT", "otel:4318").output_in_time();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(64), "{error}");
    assert!(error.contains("the variable OTEL_EXPORTER_OTLP_ENDPOINT: 'otel:4318'"), "{error}");
}
