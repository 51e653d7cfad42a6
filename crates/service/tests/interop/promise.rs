//! What clients ask before they lock something, and what a site with leases of the usual length tells them about their time.

use std::process::{Command, Stdio};

use meshlock_cluster::lease::Terms;
use meshlock_testing::{BoundedChild, BoundedCommand, Lines, needs_program};
use serde_json::{Value, json};

use super::backend::Backend;
use super::programs::client;

fn curl(backend: &Backend, method: &str, path: &str, body: &str) -> (u64, Value) {
    let url = format!("http://{}{path}", backend.address);
    let mut curl = Command::new("curl");
    curl.args(["-s", "--max-time", "60", "-w", "\n%{http_code}", "-X", method, &url]);
    if !body.is_empty() {
        curl.args(["-d", body]);
    }
    let text = String::from_utf8(curl.output_in_time().stdout).unwrap();
    let (said, code) = text.trim_end().rsplit_once('\n').unwrap();
    (code.parse().unwrap(), serde_json::from_str(said).unwrap_or_else(|_| said.into()))
}

#[test]
fn sessions_of_consul_and_of_our_own_are_told_what_can_be_promised_and_kept_as_asked() {
    if !needs_program("curl") {
        return;
    }
    let site = Backend::with(Terms::default());
    let (_, created) = curl(&site, "PUT", "/v1/session/create", r#"{"TTL":"60s"}"#);
    let session = created["ID"].as_str().unwrap();
    let (_, endless) = curl(&site, "PUT", "/v1/session/create", "");
    let endless = endless["ID"].as_str().unwrap();
    for (method, path) in [("GET", "info"), ("PUT", "renew")] {
        for session in [session, endless] {
            let (_, told) = curl(&site, method, &format!("/v1/session/{path}/{session}"), "");
            let ttl = told[0]["TTL"].as_str().unwrap();
            assert!(["2s", "1s"].contains(&ttl), "{path}: {told}");
        }
    }
    let (_, session) = curl(&site, "POST", "/v1/sessions", r#"{"ttl_ms":60000}"#);
    let of = |field: &str| session[field].as_u64().unwrap();
    assert!((1..=2600).contains(&of("ttl_ms")), "{session}");
    assert!(of("left_ms") <= of("safe_ms") && of("safe_ms") <= 5000, "{session}");
    assert!(of("kept_ms") > 50_000, "{session}");
}

#[test]
fn version_health_and_members_are_answered_as_etcd_answers_them() {
    if !needs_program("curl") {
        return;
    }
    let seen = Backend::compare(|backend| {
        let (version_code, version) = curl(backend, "GET", "/version", "");
        let fields: Vec<String> = version.as_object().unwrap().keys().cloned().collect();
        let is_version = |field: &str| version[field].as_str().is_some_and(|text| text.starts_with("3."));
        let health = curl(backend, "GET", "/health", "");
        let lists = ["/v3/cluster/member/list", "/v3beta/cluster/member/list"].map(|path| {
            let (code, list) = curl(backend, "POST", path, "{}");
            let members = list["members"].as_array().unwrap();
            let url = members[0]["clientURLs"][0].as_str().unwrap().to_owned();
            let is_number = members[0]["ID"].as_str().is_some_and(|id| id.parse::<u64>().is_ok());
            (code, members.len(), is_number, url == format!("http://{}", backend.address))
        });
        let old = curl(backend, "POST", "/v3beta/lease/timetolive", r#"{"ID":4711}"#);
        let old = (old.0, old.1["TTL"].clone());
        ((version_code, fields, is_version("etcdserver")), health, lists, old)
    });
    assert_eq!(seen.1, (200, json!({ "health": "true" })));
    assert_eq!(seen.2, [(200, 1, true, true); 2]);
    assert_eq!(seen.3, (200, json!("-1")));
}

#[test]
fn a_consul_agent_says_its_address() {
    if !needs_program("curl") {
        return;
    }
    let site = Backend::meshlock();
    let (_, agent) = curl(&site, "GET", "/v1/agent/self", "");
    let member = &agent["Member"];
    let address = format!("{}:{}", member["Addr"].as_str().unwrap(), member["Port"]);
    assert_eq!(address, site.address, "{agent}");
}

fn etcdctl(backend: &Backend, arguments: &[&str]) -> Command {
    let mut command = client("etcdctl");
    command.env("ETCDCTL_API", "3").args(["--endpoints", &backend.address]).args(arguments);
    command
}

#[test]
fn etcdctl_lists_members_and_leases_in_the_order_of_their_ends_and_deletes_what_is_not_there() {
    if !needs_program("etcdctl") {
        return;
    }
    let seen = Backend::compare(|backend| {
        let run = |arguments: &[&str]| {
            let output = etcdctl(backend, arguments).output_in_time();
            assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        let members = run(&["member", "list"]).lines().count();
        let grant = |ttl: &str| run(&["lease", "grant", ttl]).split(' ').nth(1).unwrap().to_owned();
        let granted = ["300", "100", "200"].map(grant);
        let list = run(&["lease", "list"]);
        let at = |id: &String| list.lines().position(|line| line == id).unwrap();
        let order: Vec<usize> = granted.iter().map(at).collect();
        let deleted =
            [&["del", "--prefix", "jobs"][..], &["del", "--prefix", "jobs/"], &["del", "jobs"]].map(run);
        (members, order, deleted)
    });
    assert_eq!(seen, (1, vec![3, 1, 2], ["0\n", "0\n", "0\n"].map(str::to_owned)));
}

#[test]
fn a_watch_on_the_name_of_a_lock_as_a_prefix_sees_its_holders_come_and_go() {
    if !needs_program("etcdctl") {
        return;
    }
    // "jobs", and what follows all keys that begin with it.
    let create = json!({ "create_request": { "key": "am9icw==", "range_end": "am9idA==" } });
    let seen = Backend::compare(|backend| {
        let url = format!("http://{}/v3/watch", backend.address);
        let mut curl = Command::new("curl");
        curl.args(["-sN", "--max-time", "60", "-d", &create.to_string(), &url]).stdout(Stdio::piped());
        let mut watch = curl.spawn().unwrap();
        let lines = Lines::of(watch.stdout.take().unwrap());
        let next = || -> Value { serde_json::from_str(&lines.line("an answer")).unwrap() };
        let created = next()["result"]["created"].clone();
        // It holds the lock until the watch has seen that.
        let mut holder = etcdctl(backend, &["lock", "jobs"]).stdout(Stdio::null()).spawn().unwrap();
        let event = next()["result"]["events"][0].clone();
        holder.end();
        watch.end();
        (created, event["type"].clone(), event["kv"]["key"].as_str().map(|key| key.starts_with("am9icy")))
    });
    assert_eq!(seen, (json!(true), Value::Null, Some(true)));
}
