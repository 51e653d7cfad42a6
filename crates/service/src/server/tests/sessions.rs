//! A session is visible only to the principal that opened it, through all APIs.

use serde_json::json;

use super::*;

#[test]
fn nobody_else_renews_ends_uses_or_sees_a_session() {
    async_test(async {
        let server = TestServer::new(&[("*", "*", &ALL)], &["owner", "thief"]);
        let held = server.post("owner", "/v1/locks/a/acquire", json!({})).await;
        let session = held.body["session"].as_str().unwrap().to_owned();
        let number = i64::from_str_radix(&session, 16).unwrap().to_string();
        let at = format!("/v1/sessions/{session}");
        let keep_alive = format!("{at}/keep-alive");
        let of_session = json!({ "session": session });
        for (method, path, body) in [
            ("GET", at.as_str(), json!({})),
            ("DELETE", &at, json!({})),
            ("POST", &keep_alive, json!({})),
            ("POST", "/v1/locks/a/release", of_session.clone()),
            ("POST", "/v1/locks/b/acquire", of_session),
            ("POST", "/v3/lease/revoke", json!({ "ID": number })),
            ("POST", "/v3/lock/lock", json!({ "name": "Yg==", "lease": number })),
        ] {
            let said = server.call(Some("thief"), method, path, &body.to_string()).await;
            // etcd's lock service answers all errors with the same code.
            assert!([404, 500].contains(&said.status.as_u16()), "{method} {path}: {said:?}");
            let message = said.body["message"].as_str().unwrap();
            assert!(
                message.contains("no session")
                    || message.contains("not found")
                    || message.contains("neither holds"),
                "{path}: {message}"
            );
        }
        let alive = server.post("thief", "/v3/lease/keepalive", json!({ "ID": number })).await;
        assert!(alive.body["result"]["TTL"].is_null(), "as of a lease that is over: {alive:?}");
        let left = server.post("thief", "/v3/lease/timetolive", json!({ "ID": number, "keys": true })).await;
        assert!(left.body["TTL"] == "-1" && left.body["keys"].is_null(), "{left:?}");
        let all = server.post("thief", "/v3/lease/leases", json!({})).await;
        assert!(all.body["leases"].is_null(), "{all:?}");
        // Nor with the name of the key: "a/" and the session.
        let key = base64(&format!("a/{session}"));
        let said = server.post("thief", "/v3/lock/unlock", json!({ "key": key })).await;
        assert!(
            said.status == 412 && said.body["message"].as_str().unwrap().contains("belongs to"),
            "{said:?}"
        );
        let steal = json!({
            "compare": [{ "target": "CREATE", "key": key, "create_revision": held.body["fence"] }],
            "success": [{ "request_delete_range": { "key": key } }],
        });
        assert_ne!(server.post("thief", "/v3/kv/txn", steal.clone()).await.body["succeeded"], true);
        // Nothing has changed for the owner, who can do the same.
        let seen = server.call(Some("owner"), "GET", &at, "").await;
        assert_eq!(seen.body["locks"], json!(["a"]), "{seen:?}");
        assert_eq!(server.post("owner", "/v3/lease/leases", json!({})).await.body["leases"][0]["ID"], number);
        assert_eq!(server.post("owner", "/v3/kv/txn", steal).await.body["succeeded"], true);
    });
}

/// Encodes in base64; good enough for the short texts here.
fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in text.as_bytes().chunks(3) {
        let bits =
            three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize];
            out.push(if at <= three.len() { char::from(digit) } else { '=' });
        }
    }
    out
}
