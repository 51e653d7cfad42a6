//! How often one acquisition takes the node's lock.

use meshlock_host::locks_taken;
use serde_json::json;

use super::*;

/// Makes a call and returns its answer and how often it took the node's lock: the whole call runs on the test's thread.
async fn counted(server: &TestServer, method: &str, path: &str, body: &str) -> (TestResponse, u64) {
    let before = locks_taken();
    let said = server.call(Some("ci"), method, path, body).await;
    (said, locks_taken() - before)
}

/// Starts a server whose node can grant locks.
async fn ready() -> TestServer {
    let server = TestServer::new(&[("ci", "*", &ALL)], &["ci"]);
    in_time("the node can grant locks", server.sessions.front().until_ready()).await;
    server
}

#[test]
fn an_acquisition_through_consul_s_calls_takes_the_nodes_lock_once() {
    async_test(async {
        let server = ready().await;
        let created = server.call(Some("ci"), "PUT", "/v1/session/create", "{}").await;
        let path = format!("/v1/kv/jobs?acquire={}", created.body["ID"].as_str().unwrap());
        let (said, locks) = counted(&server, "PUT", &path, "").await;
        assert_eq!(said.body, true, "{said:?}");
        assert_eq!(locks, 1);
    });
}

#[test]
fn an_acquisition_through_our_own_api_takes_the_nodes_lock_once() {
    async_test(async {
        let server = ready().await;
        let (said, locks) = counted(&server, "POST", "/v1/locks/jobs/acquire", "{}").await;
        assert!(said.body["safe_ms"].as_u64().unwrap() > 0, "{said:?}");
        assert_eq!(locks, 1, "with a session of its own");
        let session = server.post("ci", "/v1/sessions", json!({})).await.body["session"].clone();
        let body = json!({ "session": session }).to_string();
        let (said, locks) = counted(&server, "POST", "/v1/locks/other/acquire", &body).await;
        assert_eq!(said.status, 200, "{said:?}");
        assert_eq!(locks, 1, "in an existing session");
    });
}

#[test]
fn an_acquisition_through_etcd_s_calls_takes_the_nodes_lock_once() {
    async_test(async {
        let server = ready().await;
        let lease = server.post("ci", "/v3/lease/grant", json!({ "TTL": 60 })).await.body["ID"].clone();
        // In base64: "jobs", "other".
        let body = json!({ "name": "am9icw==", "lease": lease }).to_string();
        let (said, locks) = counted(&server, "POST", "/v3/lock/lock", &body).await;
        assert!(said.body["key"].is_string() && said.body["header"]["raft_term"].is_string(), "{said:?}");
        assert_eq!(locks, 1, "of the lock service");
        let create = json!({
            "compare": [{ "target": "CREATE", "key": "b3RoZXI=", "create_revision": "0" }],
            "success": [{ "request_put": { "key": "b3RoZXI=", "value": "", "lease": lease } }],
        });
        let (said, locks) = counted(&server, "POST", "/v3/kv/txn", &create.to_string()).await;
        assert_eq!(said.body["succeeded"], true, "{said:?}");
        assert_eq!(locks, 1, "as a transaction");
    });
}

#[test]
fn a_client_that_requires_a_leader_takes_the_nodes_lock_no_more_often() {
    async_test(async {
        let (server, before) = (ready().await, locks_taken());
        assert!(server.sessions.front().is_ready() && server.sessions.front().epoch() > 0);
        assert!(server.sessions.front().safe_for() > meshlock_cluster::time::Span::ZERO);
        assert_eq!(locks_taken(), before);
    });
}
