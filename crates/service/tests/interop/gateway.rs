//! etcd's JSON gateway, called with curl.

use std::process::Command;

use meshlock_testing::{BoundedCommand, needs_program};
use serde_json::{Value, json};

use super::backend::Backend;

/// Posts JSON. Returns the status and the answer without the values that each server chooses for itself.
fn post(backend: &Backend, path: &str, body: &Value) -> (u64, Value) {
    let url = format!("http://{}{path}", backend.address);
    let output = Command::new("curl")
        .args(["-s", "-w", "\n%{http_code}", "-d", &body.to_string(), &url])
        .output_in_time();
    let text = String::from_utf8(output.stdout).unwrap();
    let (said, code) = text.trim_end().rsplit_once('\n').unwrap();
    let mut said: Value = serde_json::from_str(said).unwrap_or_else(|_| said.into());
    strip(&mut said);
    (code.parse().unwrap(), said)
}

/// Removes the header, whose numbers differ between servers.
fn strip(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.remove("header");
        fields.values_mut().for_each(strip);
    }
}

fn revision(backend: &Backend, path: &str, body: &Value) -> i64 {
    let url = format!("http://{}{path}", backend.address);
    let output = Command::new("curl").args(["-s", "-d", &body.to_string(), &url]).output_in_time();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    said["header"]["revision"].as_str().unwrap().parse().unwrap()
}

/// "jobs" and the key of lease 77 for it.
const NAME: &str = "am9icw==";
const KEY: &str = "am9icy80ZA==";

#[test]
fn leases_and_locks_over_json_answer_as_etcd_s_gateway_does() {
    if !needs_program("curl") {
        return;
    }
    let lease = json!({ "ID": "77" });
    let lock = json!({ "name": NAME, "lease": 77 });
    let steps = [
        ("/v3/lease/grant", json!({ "TTL": 1000, "ID": 77 })),
        ("/v3/lease/grant", json!({ "TTL": 1000, "ID": "77" })),
        ("/v3/lease/grant", json!({ "TTL": "99999999999" })),
        ("/v3/lease/grant", json!({ "TTL": 0, "ID": 78 })),
        ("/v3/lease/keepalive", lease.clone()),
        ("/v3/lease/keepalive", json!({ "ID": 79 })),
        ("/v3/lease/timetolive", json!({ "ID": 79 })),
        ("/v3/lock/lock", lock.clone()),
        ("/v3/lock/lock", lock.clone()),
        ("/v3/lock/lock", json!({ "name": NAME, "lease": 79 })),
        ("/v3/kv/range", json!({ "key": "bm9uZQ==" })),
        ("/v3/lock/unlock", json!({ "key": KEY })),
        ("/v3/lock/unlock", json!({ "key": KEY })),
        ("/v3/lock/unlock", json!({})),
        ("/v3/lease/revoke", lease.clone()),
        ("/v3/lease/revoke", lease),
    ];
    let seen = Backend::compare(|backend| {
        steps.iter().map(|(path, body)| post(backend, path, body)).collect::<Vec<_>>()
    });
    assert_eq!(seen[0], (200, json!({ "ID": "77", "TTL": "1000" })));
    assert_eq!(seen[5], (200, json!({ "result": { "ID": "79" } })));
    assert_eq!(seen[7], (200, json!({ "key": KEY })));
    assert_eq!(seen[9].1["message"], "etcdserver: requested lease not found");
}

#[test]
fn the_revision_increases_with_each_holder_and_stays_the_same_for_a_repeated_request() {
    if !needs_program("curl") {
        return;
    }
    let seen = Backend::compare(|backend| {
        for id in [77, 78] {
            post(backend, "/v3/lease/grant", &json!({ "TTL": 1000, "ID": id }));
        }
        let lock = |lease: i64| revision(backend, "/v3/lock/lock", &json!({ "name": NAME, "lease": lease }));
        let (first, again) = (lock(77), lock(77));
        post(backend, "/v3/lease/revoke", &json!({ "ID": 77 }));
        let second = lock(78);
        (first == again, second > first)
    });
    assert_eq!(seen, (true, true));
}

#[test]
fn elections_over_json_answer_as_etcd_s_gateway_does() {
    if !needs_program("curl") {
        return;
    }
    let seen = Backend::compare(|backend| {
        let post = |path: &str, body: Value| post(backend, path, &body);
        let mut seen = vec![
            post("/v3/election/leader", json!({ "name": NAME })),
            post("/v3/lease/grant", json!({ "TTL": 1000, "ID": 77 })),
        ];
        let (code, campaign) =
            post("/v3/election/campaign", json!({ "name": NAME, "lease": 77, "value": "YQ==" }));
        let leader = campaign["leader"].clone();
        let stale = json!({ "name": NAME, "key": KEY, "rev": "1", "lease": "77" });
        seen.push((code, leader["key"].clone()));
        let value = |(code, said): (u64, Value)| (code, said["kv"]["value"].clone());
        seen.push(value(post("/v3/election/leader", json!({ "name": NAME }))));
        seen.push(post("/v3/election/proclaim", json!({ "leader": leader, "value": "Yg==" })));
        seen.push(value(post("/v3/election/leader", json!({ "name": NAME }))));
        seen.push(post("/v3/election/proclaim", json!({ "leader": stale, "value": "Yw==" })));
        seen.push(post("/v3/election/proclaim", json!({ "value": "Yw==" })));
        seen.push(post("/v3/election/resign", json!({ "leader": stale })));
        seen.push(value(post("/v3/election/leader", json!({ "name": NAME }))));
        seen.push(post("/v3/election/resign", json!({ "leader": leader })));
        seen.push(post("/v3/election/leader", json!({ "name": NAME })));
        seen
    });
    assert_eq!(seen[3], (200, "YQ==".into()));
    assert_eq!(seen[5], (200, "Yg==".into()));
    assert_eq!(seen[9], (200, "Yg==".into()), "a stale key resigns nobody");
    assert_eq!(seen[11].1["message"], "election: no leader");
}
