//! How often one acquisition takes the node's lock.

use meshlock_host::locks_taken;

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

#[tokio::test]
async fn an_acquisition_through_consul_s_calls_takes_the_nodes_lock_once() {
    let server = ready().await;
    let created = server.call(Some("ci"), "PUT", "/v1/session/create", "{}").await;
    let path = format!("/v1/kv/jobs?acquire={}", created.body["ID"].as_str().unwrap());
    let (said, locks) = counted(&server, "PUT", &path, "").await;
    assert_eq!(said.body, true, "{said:?}");
    assert_eq!(locks, 1);
}
