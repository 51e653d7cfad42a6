//! Invalid and excessive requests: they are refused with a status and a sentence that names the remedy. Nothing is compared here,
//! because Consul stores what Meshlock refuses.

use meshlock_testing::needs_program;

use super::Server;

#[test]
fn calls_that_are_not_about_locks_are_refused_with_a_link_to_the_document() {
    if !needs_program("curl") {
        return;
    }
    let server = Server::meshlock();
    for (method, path, body) in [
        ("PUT", "/v1/kv/config", "data"),
        ("PUT", "/v1/kv/config?flags=7", "data"),
        ("PUT", "/v1/kv/config?cas=0", "data"),
        ("PUT", "/v1/kv/pool/.lock?cas=0", "data"),
        ("PUT", "/v1/kv/pool/.lock?cas=0", r#"{"Limit":0,"Holders":{}}"#),
        ("DELETE", "/v1/kv/?recurse", ""),
        ("GET", "/v1/catalog/services", ""),
        ("GET", "/v1/health/service/web?passing", ""),
        ("PUT", "/v1/agent/service/register", "{}"),
        ("PUT", "/v1/txn", "[]"),
        ("GET", "/v1/event/list", ""),
    ] {
        let said = server.ask(method, path, body);
        let message = said.body.as_str().unwrap_or_default();
        assert_eq!(said.status, 501, "{method} {path}: {said:?}");
        assert!(
            message.contains("Meshlock keeps locks, not data") && message.contains("docs/consul.md"),
            "{said:?}"
        );
    }
}

#[test]
fn invalid_requests_are_rejected_and_change_nothing() {
    if !needs_program("curl") {
        return;
    }
    let server = Server::meshlock();
    let session = server.session();
    let (long, huge) = ("x".repeat(300), "x".repeat(100_000));
    let unknown = "11111111-2222-3333-4444-555555555555";
    let foreign = session.replace("6d6573686c6b", "6f7468657273");
    for (path, body, status, words) in [
        ("/v1/kv/a?acquire=", "", 500, "missing session"),
        ("/v1/kv/a?acquire=nope", "", 500, "is a UUID"),
        ("/v1/kv/a?acquire=%ff%fe", "", 500, "is a UUID"),
        ("/v1/kv/%ff%fe?acquire=x", "", 400, ""),
        (&format!("/v1/kv/a?acquire={unknown}"), "", 500, "invalid session"),
        (&format!("/v1/kv/a?acquire={foreign}"), "", 500, "invalid session"),
        (&format!("/v1/kv/a?acquire={session}&release={session}"), "", 400, "Conflicting flags"),
        (&format!("/v1/kv/a?acquire={session}&flags=many"), "", 400, "?flags=many is not a number"),
        (&format!("/v1/kv/a?acquire={session}"), &long, 413, "a value of 300 bytes is too long"),
        (&format!("/v1/kv/a?acquire={session}"), &huge, 413, ""),
        (&format!("/v1/kv/a/{session}?acquire={session}"), &long, 413, "a value of 300 bytes is too long"),
        (&format!("/v1/kv/{long}?acquire={session}"), "", 400, "at most 255"),
        (&format!("/v1/kv/?acquire={session}"), "", 400, "Missing key name"),
        ("/v1/session/renew/nope", "", 500, "is a UUID"),
        ("/v1/session/create", &format!(r#"{{"Name":"{long}"}}"#).repeat(2), 400, "Request decode failed"),
        ("/v1/session/create", r#"{"TTL":"1s"}"#, 400, "must be between [10s=24h0m0s]"),
        ("/v1/session/create", &huge, 413, ""),
    ] {
        let said = server.put(path, body);
        let message = said.body.as_str().unwrap_or_default();
        assert_eq!(said.status, status, "{path:.80}: {said:?}");
        assert!(message.contains(words), "{path:.80}: {said:?}");
    }
    // Unknown parameters are ignored, as with Consul.
    assert_eq!(server.put(&format!("/v1/kv/a?acquire={session}&dc=dc1&ns=x&what=ever"), "v").body, true);
    for path in ["/v1/kv/a?index=-1", "/v1/kv/a?index=1&wait=soon", "/v1/kv/a?stale&consistent"] {
        assert_eq!(server.get(path).status, 400, "{path}");
    }
    // A read with an index that this site has not returned is answered at once.
    let held = server.get(&format!("/v1/kv/a?index={}&wait=50s", u64::MAX));
    assert_eq!(held.entry()["Session"], session, "{held:?}");
}

#[test]
fn only_the_holder_releases_a_lock() {
    if !needs_program("curl") {
        return;
    }
    let server = Server::meshlock();
    let (first, second) = (server.session(), server.session());
    assert_eq!(server.put(&format!("/v1/kv/a?acquire={first}"), "").body, true);
    let refused = server.ask("DELETE", "/v1/kv/a/.lock", "");
    assert!(refused.body.as_str().unwrap().contains(&format!("held by the session {first}")), "{refused:?}");
    assert_eq!(server.ask("DELETE", "/v1/kv/a?cas=1", "").body, false);
    assert_eq!(server.put(&format!("/v1/kv/a?release={second}"), "").body, false);
    assert_eq!(server.get("/v1/kv/a").entry()["Session"], first);
    // The lock `a` has one permit, so a semaphore of that name is refused.
    let document = format!(r#"{{"Limit":2,"Holders":{{"{second}":true}}}}"#);
    let stale = server.put("/v1/kv/a/.lock?cas=0", &document);
    assert_eq!(stale.body, false, "{stale:?}");
    let index = server.get("/v1/kv/a/.lock").entry()["ModifyIndex"].as_u64().unwrap();
    let refused = server.put(&format!("/v1/kv/a/.lock?cas={index}"), &document);
    assert!(
        refused.status == 409 && refused.body.as_str().unwrap().contains("held as a lock"),
        "{refused:?}"
    );
    assert_eq!(server.put(&format!("/v1/kv/a/.lock?acquire={second}"), "").body, false);
    assert_eq!(server.put(&format!("/v1/kv/a?release={first}"), "").body, true);
    assert_eq!(server.get("/v1/kv/a").status, 404);
}
