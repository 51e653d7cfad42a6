//! Access rights in Consul's API.

use serde_json::json;

use super::*;

async fn session(server: &TestServer, who: &str) -> String {
    let created = server.call(Some(who), "PUT", "/v1/session/create", r#"{"LockDelay":"0s"}"#).await;
    created.body["ID"].as_str().unwrap().to_owned()
}

#[test]
fn a_lock_that_no_rule_names_is_out_of_reach_through_consul_s_calls_too() {
    async_test(async {
        let server = TestServer::new(&[("ci", "mine/*", &[Verb::Acquire, Verb::Watch])], &["ci"]);
        let id = session(&server, "ci").await;
        let document = json!({ "Limit": 1, "Holders": { &id: true } }).to_string();
        for (method, path) in [
            ("GET", "/v1/kv/other".to_owned()),
            ("GET", "/v1/kv/other/.lock?raw".to_owned()),
            ("GET", "/v1/kv/other?recurse&index=1&wait=1s".to_owned()),
            ("GET", format!("/v1/kv/other/{id}")),
            ("PUT", format!("/v1/kv/other?acquire={id}")),
            ("PUT", format!("/v1/kv/other/{id}?acquire={id}")),
            ("PUT", "/v1/kv/other/.lock?cas=0".to_owned()),
            ("DELETE", "/v1/kv/other".to_owned()),
            ("DELETE", "/v1/kv/other/?recurse".to_owned()),
        ] {
            let said = server.call(Some("ci"), method, &path, &document).await;
            assert_eq!(said.status, 403, "{method} {path}: {said:?}");
        }
        let mine = server.call(Some("ci"), "PUT", &format!("/v1/kv/mine/a?acquire={id}"), "").await;
        assert_eq!(mine.body, true, "{mine:?}");
        assert_eq!(server.call(Some("ci"), "GET", "/v1/kv/mine/a", "").await.body[0]["Session"], id);
    });
}

#[test]
fn a_held_key_is_deleted_by_its_holder_and_by_nobody_else() {
    async_test(async {
        let rules: &[(&str, &str, &[Verb])] = &[("ci", "*", &ALL), ("ops", "*", &ALL)];
        let server = TestServer::new(rules, &["ci", "ops"]);
        let id = session(&server, "ci").await;
        let held = server.call(Some("ci"), "PUT", &format!("/v1/kv/a?acquire={id}"), "").await;
        assert_eq!(held.body, true, "{held:?}");
        let refused = server.call(Some("ops"), "DELETE", "/v1/kv/a", "").await;
        assert_eq!(refused.status, 409, "{refused:?}");
        assert_eq!(server.call(Some("ops"), "GET", "/v1/kv/a", "").await.body[0]["Session"], id);
        assert_eq!(server.call(Some("ci"), "DELETE", "/v1/kv/a", "").await.body, true);
        assert_eq!(server.call(Some("ops"), "GET", "/v1/kv/a", "").await.status, 404);
    });
}

#[test]
fn the_caller_s_keys_with_a_prefix_are_deleted_and_nobody_else_s() {
    async_test(async {
        let rules: &[(&str, &str, &[Verb])] = &[("ci", "*", &ALL), ("ops", "*", &ALL)];
        let server = TestServer::new(rules, &["ci", "ops"]);
        let (ci, ops) = (session(&server, "ci").await, session(&server, "ops").await);
        let enter = |holders: Value| json!({ "Limit": 2, "Holders": holders }).to_string();
        for (who, path, body) in [
            ("ci", format!("/v1/kv/pool/{ci}?acquire={ci}"), String::new()),
            ("ci", "/v1/kv/pool/.lock?cas=0".to_owned(), enter(json!({ &ci: true }))),
            ("ci", format!("/v1/kv/pool/mine?acquire={ci}"), String::new()),
            ("ci", format!("/v1/kv/other?acquire={ci}"), String::new()),
            ("ops", format!("/v1/kv/pool/its?acquire={ops}"), String::new()),
        ] {
            let said = server.call(Some(who), "PUT", &path, &body).await;
            assert_eq!(said.body, true, "{path}: {said:?}");
        }
        let keys = async || server.call(Some("ops"), "GET", "/v1/kv/pool?keys", "").await.body;
        let all = keys().await;
        assert_eq!(all.as_array().unwrap().len(), 4, "{all}");
        // Somebody else has a permit: nothing is deleted.
        let refused = server.call(Some("ops"), "DELETE", "/v1/kv/pool?recurse", "").await;
        assert_eq!((refused.status.as_u16(), keys().await), (409, all), "{refused:?}");
        assert_eq!(server.call(Some("ci"), "DELETE", "/v1/kv/pool?recurse", "").await.body, true);
        assert_eq!(keys().await, json!(["pool/its"]));
        assert_eq!(server.call(Some("ops"), "GET", "/v1/kv/other", "").await.body[0]["Session"], ci);
        // What does not exist is deleted without a word.
        assert_eq!(server.call(Some("ci"), "DELETE", "/v1/kv/pool?recurse", "").await.body, true);
    });
}

#[test]
fn acquiring_and_reading_take_a_verb_each_and_a_new_semaphore_takes_no_more() {
    async_test(async {
        let rules: &[(&str, &str, &[Verb])] =
            &[("asker", "*", &[Verb::Acquire]), ("watcher", "*", &[Verb::Watch]), ("ops", "*", &ALL)];
        let server = TestServer::new(rules, &["asker", "watcher", "ops"]);
        let (asks, ops) = (session(&server, "asker").await, session(&server, "ops").await);
        let acquire = format!("/v1/kv/a?acquire={asks}");
        assert_eq!(server.call(Some("watcher"), "PUT", &acquire, "").await.status, 403);
        assert_eq!(server.call(Some("asker"), "PUT", &acquire, "").await.body, true);
        assert_eq!(server.call(Some("asker"), "GET", "/v1/kv/a", "").await.status, 403);
        assert_eq!(server.call(Some("watcher"), "GET", "/v1/kv/a", "").await.body[0]["Session"], asks);
        let enter = |id: &str| json!({ "Limit": 2, "Holders": { id: true } }).to_string();
        let said = server.call(Some("asker"), "PUT", "/v1/kv/pool/.lock?cas=0", &enter(&asks)).await;
        assert_eq!(said.body, true, "{said:?}");
        // Others that take it for a lock, or say another limit, are told so.
        let said = server.call(Some("ops"), "PUT", &format!("/v1/kv/pool?acquire={ops}"), "").await;
        assert_eq!(said.status, 409, "{said:?}");
        let said = server.post("ops", "/v1/locks/pool/acquire", json!({})).await;
        assert_eq!((said.status.as_u16(), &said.body["code"]), (412, &json!("permits")), "{said:?}");
        // Nothing is left of it when its holder has gone.
        let gone = format!("/v1/session/destroy/{asks}");
        assert_eq!(server.call(Some("asker"), "PUT", &gone, "").await.body, true);
        let said = server.call(Some("ops"), "PUT", &format!("/v1/kv/pool?acquire={ops}"), "").await;
        assert_eq!(said.body, true, "{said:?}");
    });
}

#[test]
fn a_session_of_consul_s_is_its_principal_s_alone() {
    async_test(async {
        let rules: &[(&str, &str, &[Verb])] = &[("owner", "*", &ALL), ("thief", "*", &[Verb::Acquire])];
        let server = TestServer::new(rules, &["owner", "thief"]);
        let id = session(&server, "owner").await;
        assert_eq!(server.call(Some("owner"), "PUT", &format!("/v1/kv/a?acquire={id}"), "").await.body, true);
        let steal = async |method: &str, path: String| server.call(Some("thief"), method, &path, "").await;
        assert_eq!(steal("PUT", format!("/v1/session/renew/{id}")).await.status, 404);
        assert_eq!(steal("GET", format!("/v1/session/info/{id}")).await.body, json!([]));
        assert_eq!(steal("GET", "/v1/session/list".to_owned()).await.body, json!([]));
        assert_eq!(steal("GET", "/v1/kv/?keys".to_owned()).await.body, json!([]));
        assert_eq!(steal("PUT", format!("/v1/kv/b?acquire={id}")).await.status, 500);
        assert_eq!(steal("PUT", format!("/v1/kv/a?release={id}")).await.body, false);
        // The same answer as for a session that does not exist.
        assert_eq!(steal("PUT", format!("/v1/session/destroy/{id}")).await.body, true);
        let held = server.call(Some("owner"), "GET", "/v1/kv/a", "").await;
        assert_eq!(held.body[0]["Session"], id, "{held:?}");
        let listed = server.call(Some("owner"), "GET", "/v1/kv/?keys", "").await;
        assert_eq!(listed.body, json!(["a"]), "{listed:?}");
        assert_eq!(
            server.call(Some("owner"), "PUT", &format!("/v1/session/destroy/{id}"), "").await.body,
            true
        );
        assert_eq!(server.call(Some("owner"), "GET", "/v1/kv/a", "").await.status, 404);
    });
}
