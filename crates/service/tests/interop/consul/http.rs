//! Consul's HTTP API, called with curl.

use meshlock_testing::{eventually, needs_program};
use serde_json::{Value, json};

use super::{Server, curl, said};

/// Returns the parts of an entry that must be equal at both servers: all but the numbers that each server counts for itself.
fn shown(entry: &Value, sessions: &[&str]) -> Value {
    let session = entry["Session"].as_str().map(|session| sessions.iter().position(|&it| it == session));
    json!([entry["Key"], entry["Value"], entry["Flags"], session])
}

#[test]
fn a_key_is_acquired_refused_shown_and_released() {
    if !needs_program("curl") {
        return;
    }
    let seen = Server::compare(|server| {
        let (first, second) = (server.session(), server.session());
        let key = |what: &str, session: &str| format!("/v1/kv/service/web?{what}={session}&flags=42");
        let missing = server.get("/v1/kv/service/web");
        assert!(missing.index > Some(0), "{missing:?}");
        let mut seen = vec![json!(missing.seen())];
        let mut put = |what: &str, session: &str, value: &str| {
            seen.push(json!(server.put(&key(what, session), value).seen()));
        };
        put("acquire", &first, "host-1");
        put("acquire", &first, "host-1");
        put("acquire", &second, "host-2");
        put("release", &second, "");
        assert_eq!(server.get("/v1/kv/service/web").status, 200);
        seen.push(json!(server.put(&key("acquire", &first), "host-1 again").seen()));
        let held = server.get("/v1/kv/service/web?consistent");
        let entry = held.entry();
        assert!(
            entry["LockIndex"].as_i64() > Some(0) && entry["ModifyIndex"].as_u64() == held.index,
            "{held:?}"
        );
        assert!(entry["CreateIndex"].as_u64() < entry["ModifyIndex"].as_u64(), "{held:?}");
        seen.push(shown(entry, &[&first, &second]));
        seen.push(json!(server.get("/v1/kv/service/web?raw").seen()));
        seen.push(json!(server.get("/v1/kv/service?keys").seen()));
        seen.push(json!(server.get("/v1/kv/?keys&separator=/").seen()));
        seen.push(shown(server.get("/v1/kv/service/?recurse&stale").entry(), &[&first, &second]));
        let (released, next) =
            (server.put(&key("release", &first), ""), server.put(&key("acquire", &second), "2"));
        seen.extend([json!(released.seen()), json!(next.seen())]);
        let next = server.get("/v1/kv/service/web");
        assert!(next.entry()["LockIndex"].as_i64() > entry["LockIndex"].as_i64(), "{next:?} after {held:?}");
        seen.push(shown(next.entry(), &[&first, &second]));
        seen.push(json!(server.put(&format!("/v1/session/destroy/{second}"), "").seen()));
        seen.push(json!(server.put(&key("acquire", &first), "").seen()));
        seen
    });
    let answers = |at: usize| &seen[at][1];
    assert_eq!((1..6).map(answers).collect::<Vec<_>>(), [true, true, false, false, true]);
    assert_eq!(seen[6], json!(["service/web", "aG9zdC0xIGFnYWlu", 42, 0]));
    assert_eq!(seen[13], json!(["service/web", "Mg==", 42, 1]));
}

#[test]
fn sessions_are_created_listed_renewed_and_destroyed() {
    if !needs_program("curl") {
        return;
    }
    let seen = Server::compare(|server| {
        let id = server
            .put("/v1/session/create", r#"{"Name":"n","TTL":"15s","LockDelay":"5s","Behavior":"delete"}"#);
        let id = id.body["ID"].as_str().unwrap_or_else(|| panic!("{id:?}")).to_owned();
        let mut seen = Vec::new();
        for (method, path) in [
            ("GET", format!("/v1/session/info/{id}")),
            ("GET", "/v1/session/list".to_owned()),
            ("GET", "/v1/session/node/local".to_owned()),
            ("GET", "/v1/session/node/nobody".to_owned()),
            ("PUT", format!("/v1/session/renew/{id}")),
            ("PUT", format!("/v1/session/destroy/{id}")),
            ("PUT", format!("/v1/session/destroy/{id}")),
            ("PUT", format!("/v1/session/renew/{id}")),
            ("GET", format!("/v1/session/info/{id}")),
            ("GET", "/v1/session/list".to_owned()),
        ] {
            let mut said = server.ask(method, &path, "");
            for session in said.body.as_array_mut().into_iter().flatten() {
                let fields = session.as_object_mut().unwrap();
                assert!(fields.remove("CreateIndex").unwrap().as_u64() > Some(0));
                fields.remove("ModifyIndex").unwrap();
            }
            let said = serde_json::to_string(&said.seen()).unwrap();
            seen.push(said.replace(&id, "ID"));
        }
        seen
    });
    assert!(
        seen[0].contains(r#""Behavior":"delete""#) && seen[0].contains(r#""LockDelay":5000000000"#),
        "{seen:?}"
    );
    assert_eq!(seen[7], r#"[404,"Session id 'ID' not found"]"#);
    assert_eq!(seen[9], "[200,[]]");
}

#[test]
fn a_read_that_waits_wakes_when_the_lock_changes_hands() {
    if !needs_program("curl") {
        return;
    }
    let seen = Server::compare(|server| {
        let (first, second) = (server.session(), server.session());
        let acquire = |session: &str| server.put(&format!("/v1/kv/jobs?acquire={session}"), "").body;
        assert_eq!(acquire(&first), true);
        let waits = |index: u64| {
            let path = format!("/v1/kv/jobs?index={index}&wait=50s");
            curl(&server.address, "GET", &path, "").spawn().unwrap()
        };
        let before = server.get("/v1/kv/jobs").index.unwrap();
        let released = waits(before);
        assert_eq!(server.put(&format!("/v1/kv/jobs?release={first}"), "").body, true);
        let released = said(released);
        assert!(released.index > Some(before), "{released:?}");
        // Nobody holds it now: the key does not exist, or has no session.
        let nobody = released.body.get(0).is_none_or(|entry| entry.get("Session").is_none());
        let taken = waits(released.index.unwrap());
        assert_eq!(acquire(&second), true);
        let taken = said(taken);
        let late = said(waits(before));
        // A blocking read of an unchanged key returns when its time limit has passed.
        let path = format!("/v1/kv/jobs?index={}&wait=10ms", taken.index.unwrap());
        let idle = server.get(&path);
        (nobody, taken.body[0]["Session"] == second, late.body[0]["Session"] == second, idle == taken)
    });
    assert_eq!(seen, (true, true, true, true));
}

#[test]
fn the_lock_of_a_session_that_ended_is_free_only_after_its_delay() {
    if !needs_program("curl") {
        return;
    }
    let seen = Server::compare(|server| {
        let created = server.put("/v1/session/create", r#"{"TTL":"60s","LockDelay":"4s"}"#);
        let (first, second) = (created.body["ID"].as_str().unwrap().to_owned(), server.session());
        let acquire = |session: &str| server.put(&format!("/v1/kv/jobs?acquire={session}"), "").body;
        let held = acquire(&first);
        server.put(&format!("/v1/session/destroy/{first}"), "");
        let refused = acquire(&second);
        // During the delay the session that ended is not shown as the holder.
        let entry = server.get("/v1/kv/jobs");
        let is_over = entry.body[0]["Session"] != first;
        eventually("the delay is over", || acquire(&second) == true);
        (held, refused, is_over, server.get("/v1/kv/jobs").entry()["Session"] == second)
    });
    assert_eq!(seen, (json!(true), json!(false), true, true));
}

#[test]
fn a_holder_deletes_its_key_and_the_lock_is_free() {
    if !needs_program("curl") {
        return;
    }
    let seen = Server::compare(|server| {
        let (first, second) = (server.session(), server.session());
        let acquire = |session: &str| server.put(&format!("/v1/kv/jobs?acquire={session}"), "").body;
        let held = acquire(&first);
        let index = server.get("/v1/kv/jobs").entry()["ModifyIndex"].as_u64().unwrap();
        let delete = |cas: u64| server.ask("DELETE", &format!("/v1/kv/jobs?cas={cas}"), "").body;
        let seen = [held, delete(index + 1), delete(index), acquire(&second)];
        let plain = server.ask("DELETE", "/v1/kv/jobs", "").body;
        (seen, plain, server.get("/v1/kv/jobs").status)
    });
    assert_eq!(seen, ([true, false, true, true].map(Value::from), json!(true), 404));
}

#[test]
fn the_document_of_a_semaphore_is_changed_by_check_and_set() {
    if !needs_program("curl") {
        return;
    }
    let seen = Server::compare(|server| {
        let sessions: Vec<String> = (0..3).map(|_| server.session()).collect();
        let document = |holders: &[usize]| {
            let holders: Value = holders
                .iter()
                .map(|&at| (sessions[at].clone(), json!(true)))
                .collect::<serde_json::Map<_, _>>()
                .into();
            json!({ "Limit": 2, "Holders": holders }).to_string()
        };
        let cas = |index: u64, holders: &[usize]| {
            let flags = 0xe0f6_9a2b_aa41_4de0_u64;
            server.put(&format!("/v1/kv/pool/.lock?cas={index}&flags={flags}"), &document(holders)).body
        };
        let index = || server.get("/v1/kv/pool/.lock").entry()["ModifyIndex"].as_u64().unwrap();
        for session in &sessions {
            let contender = server.put(&format!("/v1/kv/pool/{session}?acquire={session}"), "c");
            assert_eq!(contender.body, true, "{contender:?}");
        }
        assert_eq!(cas(0, &[0]), true);
        let first = index();
        let mut seen = vec![cas(0, &[0, 1]), cas(first + 1, &[0, 1]), cas(first, &[0, 1]), cas(first, &[1])];
        let listed = server.get("/v1/kv/pool?recurse");
        let keys = |said: &super::Said| -> Vec<String> {
            let keys = said.body.as_array().unwrap().iter().map(|entry| entry["Key"].as_str().unwrap());
            let named = |key: &str| {
                sessions
                    .iter()
                    .enumerate()
                    .fold(key.to_owned(), |key, (at, id)| key.replace(id, &at.to_string()))
            };
            let mut keys: Vec<String> = keys.map(named).collect();
            keys.sort();
            keys
        };
        seen.push(json!(keys(&listed)));
        // One holder leaves, and the third enters.
        seen.push(cas(index(), &[1]));
        let gone = server.ask("DELETE", &format!("/v1/kv/pool/{}", sessions[0]), "");
        seen.extend([gone.body, cas(index(), &[1, 2])]);
        let value = server.get("/v1/kv/pool/.lock?raw").body;
        seen.push(json!([value["Limit"], value["Holders"][&sessions[1]], value["Holders"][&sessions[2]]]));
        seen.push(json!(keys(&server.get("/v1/kv/pool?recurse"))));
        seen
    });
    assert_eq!(seen[..4], [json!(false), json!(false), json!(true), json!(false)]);
    assert_eq!(seen[4], json!(["pool/.lock", "pool/0", "pool/1", "pool/2"]));
    assert_eq!(seen[7], json!(true));
    assert_eq!(seen[9], json!(["pool/.lock", "pool/1", "pool/2"]));
}

#[test]
fn all_keys_with_a_prefix_are_deleted_in_one_call() {
    if !needs_program("curl") {
        return;
    }
    let seen = Server::compare(|server| {
        let (first, second) = (server.session(), server.session());
        let mut seen = Vec::new();
        for session in [&first, &second] {
            seen.push(server.put(&format!("/v1/kv/pool/{session}?acquire={session}"), "").body);
        }
        let document = json!({ "Limit": 2, "Holders": { &first: true, &second: true } }).to_string();
        let one = json!({ "Limit": 2, "Holders": { &first: true } }).to_string();
        let flags = 0xe0f6_9a2b_aa41_4de0_u64;
        let write = |index: u64, document: &str| {
            server.put(&format!("/v1/kv/pool/.lock?cas={index}&flags={flags}"), document).body
        };
        seen.push(write(0, &one));
        let index = server.get("/v1/kv/pool/.lock").entry()["ModifyIndex"].as_u64().unwrap();
        seen.push(write(index, &document));
        seen.push(server.put(&format!("/v1/kv/pool/own?acquire={first}"), "").body);
        seen.push(server.put(&format!("/v1/kv/jobs?acquire={first}"), "").body);
        seen.push(server.ask("DELETE", "/v1/kv/pool?recurse", "").body);
        seen.push(json!(server.get("/v1/kv/pool?keys").status));
        seen.push(json!(server.get("/v1/kv/jobs").status));
        seen.push(server.ask("DELETE", "/v1/kv/pool?recurse", "").body);
        seen.push(json!(server.ask("DELETE", "/v1/kv/pool?recurse&cas=1", "").status));
        seen
    });
    let gone = [json!(true), json!(404), json!(200), json!(true), json!(400)];
    assert_eq!(seen[..6], std::array::from_fn::<_, 6, _>(|_| json!(true)));
    assert_eq!(seen[6..], gone);
}
