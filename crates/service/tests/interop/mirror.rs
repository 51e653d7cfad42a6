//! Sessions of all APIs that outlive their site: another member, the mirror, goes on with them.

use std::process::Command;
use std::time::{Duration, Instant};

use meshlock_testing::{BoundedCommand, eventually, needs_program};
use serde_json::{Value, json};

use super::other_sites::{Cluster, NAME};

/// A session that holds the lock `jobs`, in one of the APIs.
#[derive(Clone, Copy, Debug)]
enum Api {
    Etcd,
    Consul,
    Own,
}

const ALL: [Api; 3] = [Api::Etcd, Api::Consul, Api::Own];

fn call(cluster: &Cluster, site: usize, method: &str, path: &str, body: &str) -> (u16, Value) {
    let url = format!("http://{}{path}", cluster.address(site));
    let arguments = ["-s", "--max-time", "60", "-w", "\n%{http_code}", "-X", method, "-d", body, &url];
    let said = String::from_utf8(Command::new("curl").args(arguments).output_in_time().stdout).unwrap();
    let (body, code) = said.rsplit_once('\n').unwrap();
    (code.parse().unwrap(), serde_json::from_str(body).unwrap_or(Value::Null))
}

impl Api {
    /// Opens a session at a site, and acquires the lock.
    fn acquire(self, cluster: &Cluster, site: usize) -> String {
        match self {
            Api::Etcd => {
                let lease = cluster.lease(site);
                let locked = cluster.post(site, "/v3/lock/lock", &json!({ "name": NAME, "lease": lease }));
                assert!(locked["key"].is_string(), "{locked}");
                lease
            }
            Api::Consul => {
                let (_, made) =
                    call(cluster, site, "PUT", "/v1/session/create", r#"{"TTL":"60s","LockDelay":"0s"}"#);
                let session = made["ID"].as_str().unwrap().to_owned();
                let got = call(cluster, site, "PUT", &format!("/v1/kv/jobs?acquire={session}"), "me");
                assert_eq!(got, (200, json!(true)));
                session
            }
            Api::Own => {
                let session = cluster.post(site, "/v1/sessions", &json!({ "ttl_ms": 60_000 }));
                let session = session["session"].as_str().unwrap().to_owned();
                let got = cluster.post(site, "/v1/locks/jobs/acquire", &json!({ "session": session }));
                assert!(got["fence"].is_string() || got["fence"].is_number(), "{got}");
                session
            }
        }
    }

    /// Renews the session. Returns whether it is alive; `None` if that cannot be said now.
    fn renew(self, cluster: &Cluster, site: usize, session: &str) -> Option<bool> {
        let (code, said) = match self {
            Api::Etcd => {
                call(cluster, site, "POST", "/v3/lease/keepalive", &json!({ "ID": session }).to_string())
            }
            Api::Consul => call(cluster, site, "PUT", &format!("/v1/session/renew/{session}"), ""),
            Api::Own => call(cluster, site, "POST", &format!("/v1/sessions/{session}/keep-alive"), ""),
        };
        match (self, code) {
            (Api::Etcd, 200) => Some(said["result"]["TTL"].as_str().is_some_and(|ttl| ttl != "0")),
            (_, 200) => Some(true),
            (_, 404) => Some(false),
            _ => None,
        }
    }

    fn end(self, cluster: &Cluster, site: usize, session: &str) {
        let (code, said) = match self {
            Api::Etcd => {
                call(cluster, site, "POST", "/v3/lease/revoke", &json!({ "ID": session }).to_string())
            }
            Api::Consul => call(cluster, site, "PUT", &format!("/v1/session/destroy/{session}"), ""),
            Api::Own => call(cluster, site, "DELETE", &format!("/v1/sessions/{session}"), ""),
        };
        assert_eq!(code, 200, "{self:?}: {said}");
    }
}

fn fence(cluster: &Cluster, site: usize) -> Option<(String, Value)> {
    let queue = cluster.queue(site, "jobs");
    let holder = queue["holders"].as_array()?.first()?.clone();
    Some((holder["site"].as_str()?.to_owned(), holder["fence"].clone()))
}

/// Waits until a site mirrors so many sessions.
fn until_mirrored(cluster: &Cluster, site: usize, sessions: usize) {
    eventually("the mirror knows the sessions", || mirrored(cluster, site) == sessions);
}

/// Returns how many sessions a site mirrors.
fn mirrored(cluster: &Cluster, site: usize) -> usize {
    let url = format!("http://{}/metrics", cluster.address(site));
    let page = Command::new("curl").args(["-s", "--max-time", "60", &url]).output_in_time();
    let page = String::from_utf8(page.stdout).unwrap();
    let count = page.lines().find_map(|line| line.strip_prefix("meshlock_mirrored_sessions "));
    count.unwrap().parse().unwrap()
}

/// Renews the session at a site until the holder of its lock is at the site `at`. It must be alive all the time.
fn renewed_until_held_at(cluster: &Cluster, api: Api, session: &str, (site, at): (usize, &str)) -> Value {
    let mut held = None;
    eventually("the mirror holds the lock", || {
        assert_ne!(api.renew(cluster, site, session), Some(false), "{api:?}: the session is over");
        held = fence(cluster, site).filter(|(holder, _)| holder == at);
        held.is_some()
    });
    held.expect("it was seen").1
}

#[test]
fn a_session_whose_site_is_killed_keeps_its_lock_with_the_same_fence() {
    if !needs_program("curl") {
        return;
    }
    for api in ALL {
        let mut cluster = Cluster::start();
        let session = api.acquire(&cluster, 1);
        let (_, before) = fence(&cluster, 3).expect("it is held");
        until_mirrored(&cluster, 2, 1);
        cluster.kill(1);
        let after = renewed_until_held_at(&cluster, api, &session, (3, "site-2"));
        assert_eq!(before, after, "{api:?}");
        assert_eq!(api.renew(&cluster, 2, &session), Some(true), "{api:?}");
        api.end(&cluster, 3, &session);
        assert_eq!(fence(&cluster, 2), None, "{api:?}: its client can release it");
    }
}

#[test]
fn a_session_whose_site_leaves_keeps_its_lock_with_the_same_fence() {
    if !needs_program("curl") {
        return;
    }
    for api in ALL {
        let mut cluster = Cluster::start();
        let session = api.acquire(&cluster, 3);
        let (_, before) = fence(&cluster, 2).expect("it is held");
        until_mirrored(&cluster, 1, 1);
        let leaving = cluster.leave(3);
        let after = renewed_until_held_at(&cluster, api, &session, (2, "site-1"));
        assert_eq!(before, after, "{api:?}");
        leaving.until_left();
        assert_eq!(api.renew(&cluster, 2, &session), Some(true), "{api:?}");
    }
}

#[test]
fn a_lock_that_was_released_before_its_site_was_killed_is_free_with_the_next_view() {
    if !needs_program("curl") {
        return;
    }
    for api in ALL {
        let mut cluster = Cluster::start();
        let session = api.acquire(&cluster, 1);
        until_mirrored(&cluster, 2, 1);
        // It is acknowledged when the mirror knows it.
        api.end(&cluster, 1, &session);
        cluster.kill(1);
        assert_ne!(api.renew(&cluster, 2, &session), Some(true), "{api:?}");
        eventually("another client gets it", || {
            let got = cluster.post(2, "/v1/locks/jobs/acquire", &json!({ "wait_ms": 1000 }));
            got["session"].is_string()
        });
        assert_eq!(api.renew(&cluster, 3, &session), Some(false), "{api:?}");
    }
}

#[test]
fn a_lock_whose_session_is_over_is_free_only_when_a_silent_mirror_cannot_answer_for_it_any_more() {
    if !needs_program("curl") {
        return;
    }
    let mut cluster = Cluster::start();
    let session = cluster.post(1, "/v1/sessions", &json!({ "ttl_ms": 500 }))["session"].clone();
    let keep = format!("/v1/sessions/{}/keep-alive", session.as_str().unwrap());
    cluster.post(1, "/v1/locks/jobs/acquire", &json!({ "session": session }));
    eventually("the mirror knows the session", || {
        let (code, said) = call(&cluster, 1, "POST", &keep, "");
        assert_eq!(code, 200, "{said}");
        mirrored(&cluster, 2) == 1
    });
    // Nobody knows that the mirror is dead before its lease is over, which it has renewed a second and a half before at the earliest. Then a view
    // leaves it out, and it can answer for nobody.
    let killed = Instant::now();
    cluster.kill(2);
    let got = cluster.post(3, "/v1/locks/jobs/acquire", &json!({ "wait_ms": 50_000 }));
    assert!(got["session"].is_string(), "{got}");
    assert!(
        killed.elapsed() > Duration::from_millis(3500),
        "the mirror's lease may not be over: {:?}",
        killed.elapsed()
    );
}

#[test]
fn a_session_whose_client_is_gone_with_its_site_ends_soon() {
    if !needs_program("curl") {
        return;
    }
    let mut cluster = Cluster::start();
    let session = Api::Etcd.acquire(&cluster, 1);
    until_mirrored(&cluster, 2, 1);
    cluster.kill(1);
    // Its client asked for 100 s, and does not come.
    let got = cluster.post(2, "/v1/locks/jobs/acquire", &json!({ "wait_ms": 30_000 }));
    assert!(got["session"].is_string(), "{got}");
    assert_eq!(Api::Etcd.renew(&cluster, 3, &session), Some(false));
}
