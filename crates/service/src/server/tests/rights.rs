//! Access rights of every call.

use meshlock_cluster::access::Pace;
use meshlock_tls::Bearer;
use serde_json::json;

use super::super::routes::ROUTES;
use super::*;

/// Fills in the parameters of a listed path.
fn real(path: &str) -> String {
    path.replace("{lock}", "other")
        .replace("{session}", "4d")
        .replace("{*key}", "other")
        .replace("{node}", "local")
}

/// Returns the gRPC status of an answer.
fn grpc_status(said: &TestResponse) -> Option<&str> {
    said.headers.get("grpc-status").and_then(|status| status.to_str().ok())
}

#[test]
fn clients_without_credentials_or_rights_may_only_ask_for_health() {
    async_test(async {
        let server = TestServer::new(&[("someone", "*", &ALL)], &["nobody"]);
        for (method, path, need) in ROUTES {
            let is_grpc = path.split('/').count() == 3 && path.contains('.') && *path != "/openapi.json";
            let kind = if is_grpc { "application/grpc" } else { "application/json" };
            for (token, status, grpc) in [
                (None, 401, "16"),
                (Some("a guess".to_owned()), 401, "16"),
                (Some(token_of("nobody")), 403, "7"),
            ] {
                let said = server
                    .send(RemoteClient::unknown(), token.as_deref(), method, &real(path), (kind, "{}"))
                    .await;
                if path.to_lowercase().ends_with("authenticate") {
                    // Everyone may call it, but it answers only with a valid token.
                    let failed = grpc_status(&said).is_some_and(|status| status != "0");
                    assert!(failed || said.status == 400, "{path}: {said:?}");
                } else if need.is_nothing() {
                    assert!(said.status == 200 || said.status == 503, "{path}: {said:?}");
                } else if is_grpc {
                    assert_eq!(grpc_status(&said), Some(grpc), "{path}: {said:?}");
                } else {
                    assert_eq!(said.status, status, "{path}: {said:?}");
                }
                assert!(said.headers.contains_key("x-request-id"));
            }
        }
    });
}

#[test]
fn clients_of_etcd_show_a_token_as_the_password_of_its_name() {
    async_test(async {
        let server = TestServer::new(&[("ci", "*", &ALL)], &["ci", "ops"]);
        let said = |name: &str, password: &str| json!({ "name": name, "password": password }).to_string();
        let path = "/v3/auth/authenticate";
        let token = token_of("ci");
        assert_eq!(server.call(None, "POST", path, &said("ci", &token)).await.body["token"], token.as_str());
        for (name, password) in [("ci", "a guess"), ("ops", token.as_str()), ("", &token), ("ci", "")] {
            let refused = server.call(None, "POST", path, &said(name, password)).await;
            assert_eq!(refused.status, 400, "{refused:?}");
            assert!(refused.body["token"].is_null(), "{refused:?}");
        }
    });
}

#[test]
fn a_site_s_certificate_is_no_client_s_whatever_token_it_shows() {
    async_test(async {
        let server = TestServer::new(&[("ops", "*", &ALL)], &["ops"]);
        for (method, path, need) in ROUTES.iter().filter(|(_, _, need)| !need.is_nothing()) {
            let site = RemoteClient::of(Bearer::Site("db-1".parse().unwrap()));
            let kind = ("application/json", "{}");
            let said = server.send(site, Some(&token_of("ops")), method, &real(path), kind).await;
            assert_eq!(said.status, 403, "{path} {need:?}: {said:?}");
            assert!(
                said.body["message"].as_str().unwrap().contains("sites are not clients"),
                "{path}: {said:?}"
            );
        }
    });
}

#[test]
fn a_lock_that_no_rule_names_is_out_of_reach_through_every_call() {
    async_test(async {
        let server =
            TestServer::new(&[("ci", "mine/*", &[Verb::Acquire, Verb::Watch, Verb::Break])], &["ci"]);
        let lease = server.post("ci", "/v3/lease/grant", json!({ "TTL": 60 })).await.body["ID"].clone();
        let number: i64 = lease.as_str().unwrap().parse().unwrap();
        // In base64: "other", "other/", "other0".
        let (other, prefix, end) = ("b3RoZXI=", "b3RoZXIv", "b3RoZXIw");
        let create = |key: &str| {
            json!({
                "compare": [{ "target": "CREATE", "key": key, "create_revision": "0" }],
                "success": [{ "request_put": { "key": key, "value": "", "lease": lease } }],
            })
        };
        let look = json!({ "compare": [{ "target": "CREATE", "key": other, "create_revision": "7" }], "success": [] });
        let read = json!({
            "compare": [{ "target": "CREATE", "key": other, "create_revision": "0" }],
            "failure": [{ "request_range": { "key": other } }],
        });
        let session = format!("{number:x}");
        for (method, path, body) in [
            ("POST", "/v1/locks/other/acquire", json!({})),
            ("POST", "/v1/locks/other/acquire", json!({ "session": session })),
            ("POST", "/v1/locks/other/hold", json!({})),
            ("GET", "/v1/locks/other", json!({})),
            ("GET", "/v1/locks/other/watch", json!({})),
            ("POST", "/v1/locks/other/break", json!({})),
            ("PUT", "/v1/rules", json!({ "rules": [] })),
            ("POST", "/v1/voters", json!({ "promote": "other" })),
            ("POST", "/v3/lock/lock", json!({ "name": other, "lease": lease })),
            ("POST", "/v3/lock/unlock", json!({ "key": other })),
            ("POST", "/v3/election/campaign", json!({ "name": other, "lease": lease })),
            ("POST", "/v3/election/leader", json!({ "name": other })),
            ("POST", "/v3/election/observe", json!({ "name": other })),
            ("POST", "/v3/kv/range", json!({ "key": other })),
            ("POST", "/v3/kv/range", json!({ "key": prefix, "range_end": end })),
            ("POST", "/v3/kv/deleterange", json!({ "key": other })),
            ("POST", "/v3/kv/txn", create(other)),
            ("POST", "/v3/kv/txn", look),
            ("POST", "/v3/kv/txn", read),
        ] {
            let said = server.call(Some("ci"), method, path, &body.to_string()).await;
            assert_eq!(said.status, 403, "{path} {body}: {said:?}");
            let message = said.body["message"].as_str().unwrap();
            assert!(message.contains("'ci' may not "), "{path}: {message}");
        }
        // The same calls succeed with a lock that a rule names: "mine/a".
        assert_eq!(server.post("ci", "/v3/kv/txn", create("bWluZS9h")).await.body["succeeded"], true);
        assert_eq!(server.call(Some("ci"), "GET", "/v1/locks/mine%2Fa", "").await.status, 200);
    });
}

#[test]
fn each_verb_gives_what_it_says_and_nothing_else() {
    async_test(async {
        let rules: &[(&str, &str, &[Verb])] = &[
            ("asker", "*", &[Verb::Acquire]),
            ("watcher", "*", &[Verb::Watch]),
            ("breaker", "*", &[Verb::Break]),
            ("admin", "*", &[Verb::Admin]),
        ];
        let server = TestServer::new(rules, &["asker", "watcher", "breaker", "admin"]);
        let rules = r#"{"rules":[{"pattern":"","algorithm":"raymond","permits":1}]}"#;
        for (method, path, body, verb) in [
            ("POST", "/v1/sessions", "{}", "asker"),
            ("POST", "/v1/locks/a/acquire", r#"{"try":true}"#, "asker"),
            ("GET", "/v1/locks/a", "", "watcher"),
            ("GET", "/v1/rules", "", "watcher"),
            ("POST", "/v1/locks/a/break", "", "breaker"),
            ("PUT", "/v1/rules", rules, "admin"),
            ("POST", "/v1/voters", r#"{"promote":"local"}"#, "admin"),
        ] {
            for who in ["asker", "watcher", "breaker", "admin"] {
                let status = server.call(Some(who), method, path, body).await.status;
                assert_eq!(status, if who == verb { 200 } else { 403 }, "{who} {method} {path}");
            }
        }
    });
}

#[test]
fn the_site_s_status_takes_any_right_whichever_api_is_asked() {
    async_test(async {
        let rules: &[(&str, &str, &[Verb])] = &[
            ("asker", "a", &[Verb::Acquire]),
            ("watcher", "a", &[Verb::Watch]),
            ("breaker", "a", &[Verb::Break]),
            ("admin", "*", &[Verb::Admin]),
        ];
        let server = TestServer::new(rules, &["asker", "watcher", "breaker", "admin", "nobody"]);
        for (method, path) in [
            ("GET", "/v1/status"),
            ("POST", "/v3/maintenance/status"),
            ("GET", "/v1/agent/self"),
            ("GET", "/v1/status/leader"),
            ("GET", "/v1/status/peers"),
        ] {
            for who in ["asker", "watcher", "breaker", "admin"] {
                let said = server.call(Some(who), method, path, "{}").await;
                assert_eq!(said.status, 200, "{who} {path}: {said:?}");
            }
            let said = server.call(Some("nobody"), method, path, "{}").await;
            assert_eq!(said.status, 403, "{path}: {said:?}");
        }
    });
}

#[test]
fn permits_that_no_rule_gives_a_lock_take_no_admin() {
    async_test(async {
        let server = TestServer::new(&[("ci", "pool", &[Verb::Acquire])], &["ci"]);
        let body = json!({ "permits": 3 });
        let said = server.post("ci", "/v1/locks/pool/acquire", body.clone()).await;
        assert_eq!(said.status, 200, "{said:?}");
        assert_eq!(server.post("ci", "/v1/locks/other/acquire", body).await.status, 403);
        // etcd's locks mean one permit, too.
        let lease = server.post("ci", "/v3/lease/grant", json!({ "TTL": 60 })).await.body["ID"].clone();
        let said = server.post("ci", "/v3/lock/lock", json!({ "name": "cG9vbA==", "lease": lease })).await;
        let message = said.body["message"].as_str().unwrap();
        assert_eq!(said.body["code"], 9, "FAILED_PRECONDITION: {said:?}");
        assert!(message.contains("'pool' is in use with 3 permits and this program expects 1"), "{message}");
    });
}

#[test]
fn a_client_over_its_rate_limit_is_told_when_to_retry_and_others_are_served() {
    async_test(async {
        let each = Each { pace: Pace { rate: 1, burst: 20 }, ..Each::default() };
        let server = TestServer::with(&[("*", "*", &ALL)], &["flood", "other"], each);
        let (mut served, mut refused) = (0, 0);
        for _ in 0..1000 {
            let said = server.call(Some("flood"), "GET", "/v1/rules", "").await;
            match said.status.as_u16() {
                200 => served += 1,
                429 => {
                    assert_eq!(
                        (&said.body["code"], &said.headers["retry-after"]),
                        (&json!("too_fast"), &"1".parse().unwrap())
                    );
                    refused += 1;
                }
                other => panic!("{other}"),
            }
        }
        // A slow machine gives it a few seconds' worth more.
        assert!(served >= 20 && refused > 500, "{served} {refused}");
        assert_eq!(server.call(Some("other"), "GET", "/v1/rules", "").await.status, 200);
        // Whatever else it does, it can give back what it holds: here, what it has not got.
        let said = server.post("flood", "/v1/locks/a/release", json!({ "session": "4d" })).await;
        assert_eq!(said.status, 404, "{said:?}");
        let path = "/meshlock.v1.Locks/GetRules";
        let said = server
            .send(RemoteClient::unknown(), Some(&token_of("flood")), "POST", path, ("application/grpc", ""))
            .await;
        assert_eq!(grpc_status(&said), Some("8"), "{said:?}");
        assert!(said.headers.contains_key("grpc-retry-pushback-ms"), "{said:?}");
    });
}

#[test]
fn a_request_that_is_too_long_is_refused_with_the_limit() {
    async_test(async {
        let server = TestServer::new(&[("ci", "*", &ALL)], &["ci"]);
        let said = server.call(Some("ci"), "POST", "/v1/locks/a/acquire", &" ".repeat(100_000)).await;
        assert_eq!((said.status.as_u16(), &said.body["code"]), (413, &json!("too_large")));
        assert!(said.body["message"].as_str().unwrap().contains("65536 bytes"), "{said:?}");
    });
}

#[test]
fn rules_that_are_read_anew_hold_for_the_next_request() {
    async_test(async {
        let server = TestServer::new(&[("ci", "*", &ALL)], &["ci"]);
        assert_eq!(server.call(Some("ci"), "GET", "/v1/rules", "").await.status, 200);
        server.gate.replace(Policy { tokens: server.gate.policy().tokens.clone(), ..Policy::default() });
        let said = server.call(Some("ci"), "GET", "/v1/rules", "").await;
        assert_eq!(said.status, 403);
        assert!(said.body["message"].as_str().unwrap().contains("no [[access]] rules"), "{said:?}");
        server.gate.replace(Policy::default());
        assert_eq!(server.call(Some("ci"), "GET", "/v1/rules", "").await.status, 401);
    });
}

#[test]
fn a_client_that_has_lost_its_right_may_still_release_what_it_holds() {
    async_test(async {
        let server = TestServer::new(&[("ci", "*", &ALL)], &["ci", "guest"]);
        let tokens = server.gate.policy().tokens.clone();
        let own = server.post("ci", "/v1/locks/own/acquire", json!({})).await.body;
        let lease = server.post("ci", "/v3/lease/grant", json!({ "TTL": "60" })).await.body["ID"].clone();
        let etcd =
            server.post("ci", "/v3/lock/lock", json!({ "name": "ZXRjZA==", "lease": lease })).await.body;
        server.gate.replace(Policy { tokens, ..Policy::default() });

        assert_eq!(server.post("ci", "/v1/locks/other/acquire", json!({})).await.status, 403);
        let released = json!({ "session": own["session"] });
        assert_eq!(server.post("guest", "/v1/locks/own/release", released.clone()).await.status, 403);
        assert_eq!(server.post("ci", "/v1/locks/own/release", released).await.status, 200);
        // As libraries for etcd release a lock: they delete its key.
        let deleted = server.post("ci", "/v3/kv/deleterange", json!({ "key": etcd["key"] })).await;
        assert_eq!((deleted.status, &deleted.body["deleted"]), (StatusCode::OK, &json!("1")), "{deleted:?}");
        let others = server.post("ci", "/v3/kv/range", json!({ "key": etcd["key"] })).await;
        assert_eq!(others.status, 403, "it may see nothing");
    });
}

#[test]
fn a_flood_without_credentials_does_not_make_the_site_look_dead() {
    async_test(async {
        let each = Each { pace: Pace { rate: 1, burst: 40 }, ..Each::default() };
        let server = TestServer::with(&[("ci", "*", &ALL)], &["ci"], each);
        let mut statuses = Vec::new();
        for _ in 0..10 {
            statuses.push(server.call(None, "GET", "/v1/status", "").await.status.as_u16());
        }
        assert!(statuses.contains(&401) && statuses.contains(&429), "{statuses:?}");
        assert_eq!(server.call(None, "GET", "/healthz", "").await.status, 200);
    });
}
