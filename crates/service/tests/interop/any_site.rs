//! Calls of one client at all sites of a cluster: a session is served wherever its client calls.

use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use meshlock_testing::{BoundedCommand, eventually, needs_program};
use serde_json::{Value, json};

use super::other_sites::{ALICE, BOB, Cluster, NAME};
use super::programs::client;

/// A number of a call of etcd's gateway, which omits zeros.
fn number(value: &Value) -> i64 {
    value.as_str().map_or(0, |text| text.parse().unwrap())
}

fn base64(text: &str) -> String {
    STANDARD.encode(text)
}

fn ttl(cluster: &Cluster, site: usize, lease: &str) -> i64 {
    let alive = cluster.post(site, "/v3/lease/keepalive", &json!({ "ID": lease }));
    assert!(alive["result"].is_object(), "{alive}");
    number(&alive["result"]["TTL"])
}

#[test]
fn a_lease_is_served_at_every_site() {
    if !needs_program("curl") {
        return;
    }
    let cluster = Cluster::start();
    let lease = cluster.lease(1);
    let locked = cluster.post(2, "/v3/lock/lock", &json!({ "name": NAME, "lease": lease }));
    assert!(number(&locked["header"]["revision"]) > 0, "{locked}");
    assert_eq!(cluster.queue(3, "jobs")["holders"][0]["site"], "site-1", "its own site holds the lock");
    assert!(ttl(&cluster, 3, &lease) > 0 && ttl(&cluster, 1, &lease) > 0);
    let left = cluster.post(2, "/v3/lease/timetolive", &json!({ "ID": lease, "keys": true }));
    assert_eq!((number(&left["TTL"]) > 0, &left["keys"][0]), (true, &locked["key"]), "{left}");
    let key = cluster.post(3, "/v3/kv/range", &json!({ "key": locked["key"] }));
    assert_eq!(key["kvs"][0]["lease"], json!(lease), "{key}");
    let unlocked = cluster.post(3, "/v3/lock/unlock", &json!({ "key": locked["key"] }));
    assert!(unlocked["header"].is_object(), "{unlocked}");
    assert_eq!(cluster.queue(2, "jobs")["holders"], json!([]), "it is free");
    assert!(cluster.post(2, "/v3/lease/revoke", &json!({ "ID": lease }))["header"].is_object());
    assert_eq!(ttl(&cluster, 3, &lease), 0);
    let gone = cluster.post(3, "/v3/lease/revoke", &json!({ "ID": lease }));
    assert_eq!(gone["message"], "etcdserver: requested lease not found", "{gone}");
}

#[test]
fn a_lease_s_number_is_unique_in_the_cluster() {
    if !needs_program("curl") {
        return;
    }
    let cluster = Cluster::start();
    let chosen = json!({ "TTL": 100, "ID": "77" });
    assert_eq!(cluster.post(1, "/v3/lease/grant", &chosen)["ID"], "77");
    let taken = cluster.post(2, "/v3/lease/grant", &chosen);
    assert_eq!(taken["message"], "etcdserver: lease already exists", "{taken}");
    assert!(ttl(&cluster, 3, "77") > 0, "its site is found although its number does not name it");
    let locked = cluster.post(2, "/v3/lock/lock", &json!({ "name": NAME, "lease": "77" }));
    assert_eq!(locked["key"], base64("jobs/4d"), "{locked}");
    assert!(cluster.post(3, "/v3/lock/unlock", &json!({ "key": locked["key"] }))["header"].is_object());
    assert_eq!(cluster.queue(1, "jobs")["holders"], json!([]));
    assert!(cluster.post(3, "/v3/lease/revoke", &json!({ "ID": "77" }))["header"].is_object());
    eventually("the number is free again", || cluster.post(2, "/v3/lease/grant", &chosen)["ID"] == "77");
}

#[test]
fn a_client_s_leases_are_listed_at_every_site_as_they_end() {
    if !needs_program("curl") {
        return;
    }
    let mut cluster = Cluster::start();
    let granted = [(1, 300), (2, 100), (3, 200), (1, 150)]
        .map(|(site, ttl)| cluster.post(site, "/v3/lease/grant", &json!({ "TTL": ttl }))["ID"].clone());
    let [longest, shortest, third, second] = granted;
    for site in 1..=3 {
        let listed = cluster.post(site, "/v3/lease/leases", &json!({}));
        let ids = [&shortest, &second, &third, &longest].map(|id| json!({ "ID": id }));
        assert_eq!(listed["leases"], json!(ids), "site {site}");
    }
    // A lease that is gone is known to be gone at every site; of one that is there nothing can be put.
    cluster.post(3, "/v3/lease/revoke", &json!({ "ID": shortest }));
    let put = |site: usize, lease: &Value| {
        cluster.post(site, "/v3/kv/put", &json!({ "key": NAME, "value": ALICE, "lease": lease }))
    };
    for site in 1..=3 {
        assert_eq!(put(site, &shortest)["message"], "etcdserver: requested lease not found", "site {site}");
        let refused = put(site, &longest)["message"].to_string();
        assert!(refused.contains("Meshlock keeps locks, not data"), "site {site}: {refused}");
    }
    // A list without those of a site that does not answer would look complete.
    drop(cluster.sites.pop());
    let partial = cluster.post(1, "/v3/lease/leases", &json!({}));
    let is_whole = partial["leases"].as_array().is_some_and(|leases| leases.len() == 2);
    assert!(partial["message"].is_string() || is_whole, "{partial}");
}

#[test]
fn an_election_is_won_at_one_site_and_led_from_the_others() {
    if !needs_program("curl") {
        return;
    }
    let cluster = Cluster::start();
    let (first, second) = (cluster.lease(1), cluster.lease(2));
    let campaign = |lease: &str, value: &str| json!({ "name": NAME, "lease": lease, "value": value });
    let leader = cluster.post(2, "/v3/election/campaign", &campaign(&first, ALICE))["leader"].clone();
    let proclaimed = cluster.post(3, "/v3/election/proclaim", &json!({ "leader": leader, "value": BOB }));
    assert!(proclaimed["header"].is_object(), "{proclaimed}");
    for site in 1..=3 {
        let seen = cluster.post(site, "/v3/election/leader", &json!({ "name": NAME }));
        assert_eq!(seen["kv"]["value"], BOB, "site {site}: {seen}");
    }
    let mut waits = cluster.begin(3, "/v3/election/campaign", &campaign(&second, ALICE));
    cluster.until_waits(2, "jobs");
    assert!(cluster.post(2, "/v3/election/resign", &json!({ "leader": leader }))["header"].is_object());
    assert_eq!(waits.next()["leader"]["lease"], json!(second));
    // Whoever looks after the election was won sees who has won, at every site, also where somebody watches it.
    for site in 1..=3 {
        let mut observed = cluster.begin(site, "/v3/election/observe", &json!({ "name": NAME }));
        assert_eq!(observed.next()["result"]["kv"]["value"], ALICE, "site {site}");
    }
}

#[test]
fn who_waits_is_told_at_every_site_and_leaves_nothing_behind() {
    if !needs_program("curl") {
        return;
    }
    let cluster = Cluster::start();
    let (first, second) = (cluster.lease(1), cluster.lease(2));
    let held = cluster.post(3, "/v3/lock/lock", &json!({ "name": NAME, "lease": first }));
    let lock = json!({ "name": NAME, "lease": second });
    let waits = cluster.begin(3, "/v3/lock/lock", &lock);
    cluster.until_waits(2, "jobs");
    drop(waits);
    eventually("a client that goes away does not wait any more", || {
        cluster.queue(1, "jobs")["waiters"] == json!([])
    });
    let mut waits = cluster.begin(1, "/v3/lock/lock", &lock);
    cluster.until_waits(2, "jobs");
    assert!(cluster.post(2, "/v3/lock/unlock", &json!({ "key": held["key"] }))["header"].is_object());
    let granted = waits.next();
    assert!(number(&granted["header"]["revision"]) > number(&held["header"]["revision"]), "{granted}");
}

/// What Go's `concurrency` package does with each call at another site.
#[test]
fn a_recipe_of_go_goes_on_at_other_sites() {
    if !needs_program("curl") {
        return;
    }
    let cluster = Cluster::start();
    let (first, second) = (cluster.lease(1), cluster.lease(1));
    let held = cluster.post(2, "/v3/lock/lock", &json!({ "name": NAME, "lease": first }));
    let key = base64(&format!("jobs/{:x}", second.parse::<i64>().unwrap()));
    let create = json!({
        "compare": [{ "target": "CREATE", "key": key, "create_revision": "0" }],
        "success": [{ "request_put": { "key": key, "lease": second } }],
        "failure": [{ "request_range": { "key": key } }],
    });
    let created = cluster.post(2, "/v3/kv/txn", &create);
    assert_eq!(created["succeeded"], true, "{created}");
    let revision = number(&created["header"]["revision"]);
    let before = json!({
        "key": base64("jobs/"),
        "range_end": base64("jobs0"),
        "max_create_revision": (revision - 1).to_string(),
        "sort_order": "DESCEND", "sort_target": "CREATE", "limit": "1",
    });
    for site in 1..=3 {
        let seen = cluster.post(site, "/v3/kv/range", &before);
        assert_eq!(number(&seen["count"]), 1, "site {site}: {seen}");
    }
    let ahead = cluster.post(3, "/v3/kv/range", &before)["kvs"][0].clone();
    let asks = json!({ "create_request": { "key": ahead["key"], "start_revision": revision.to_string() } });
    let mut watches: Vec<_> = (1..=3).map(|site| cluster.begin(site, "/v3/watch", &asks)).collect();
    for watch in &mut watches {
        assert_eq!(watch.next()["result"]["created"], true);
    }
    assert!(cluster.post(3, "/v3/lock/unlock", &json!({ "key": held["key"] }))["header"].is_object());
    for watch in &mut watches {
        let told = watch.next();
        assert_eq!(told["result"]["events"][0]["type"], "DELETE", "{told}");
    }
    for site in 1..=3 {
        let seen = cluster.post(site, "/v3/kv/range", &before);
        assert_eq!(number(&seen["count"]), 0, "site {site}: {seen}");
        let own = cluster.post(site, "/v3/kv/range", &json!({ "key": key }));
        assert_eq!(number(&own["kvs"][0]["create_revision"]), revision, "site {site}: {own}");
    }
    let delete = json!({
        "compare": [{ "target": "CREATE", "key": key, "create_revision": revision.to_string() }],
        "success": [{ "request_delete_range": { "key": key } }],
    });
    assert_eq!(cluster.post(3, "/v3/kv/txn", &delete)["succeeded"], true);
    assert_eq!(cluster.queue(2, "jobs")["holders"], json!([]));
}

#[test]
fn etcdctl_locks_at_all_endpoints_every_time() {
    if !needs_program("etcdctl") {
        return;
    }
    let cluster = Cluster::start();
    let endpoints = [1, 2, 3].map(|site| cluster.address(site)).join(",");
    for turn in 0..20 {
        let locked = client("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &endpoints, "lock", "jobs", "--", "sh", "-c", "echo $ETCD_LOCK_REV"])
            .stdin(Stdio::null())
            .output_in_time();
        assert!(locked.status.success(), "turn {turn}: {locked:?}");
        assert!(String::from_utf8_lossy(&locked.stdout).trim().parse::<i64>().unwrap() > 0, "{locked:?}");
    }
}

#[test]
fn a_session_of_our_own_api_is_served_at_every_site() {
    if !needs_program("curl") {
        return;
    }
    let cluster = Cluster::start();
    let opened = cluster.post(1, "/v1/sessions", &json!({ "ttl_ms": 60_000 }));
    let session = opened["session"].as_str().unwrap().to_owned();
    let held = cluster.post(2, "/v1/locks/jobs/acquire", &json!({ "session": session }));
    assert!(held["fence"].is_string(), "{held}");
    let alive = cluster.post(3, &format!("/v1/sessions/{session}/keep-alive"), &json!({}));
    assert_eq!((&alive["session"], &alive["locks"][0]), (&json!(session), &json!("jobs")), "{alive}");
    let given = cluster.post(2, "/v1/locks/jobs/release", &json!({ "session": session }));
    assert_eq!(given["held"], true, "{given}");
    let nobody = cluster.post(3, "/v1/sessions/1234/keep-alive", &json!({}));
    assert_eq!(nobody["code"], "no_session", "{nobody}");
}

#[test]
fn a_site_of_an_older_version_is_sent_no_calls_and_its_clients_are_told_why() {
    if !needs_program("curl") {
        return;
    }
    let cluster = Cluster::speaking([5, 6, 6]);
    let (old, new) = (cluster.lease(1), cluster.lease(2));
    let refused = cluster.post(2, "/v3/lock/lock", &json!({ "name": NAME, "lease": old }));
    let message = refused["message"].as_str().unwrap_or_else(|| panic!("{refused}"));
    assert!(message.contains("the program of the site 'site-1' is too old"), "{message}");
    assert_eq!(refused["code"], 14, "unavailable: {refused}");
    assert!(cluster.post(3, "/v3/lock/lock", &json!({ "name": NAME, "lease": new }))["key"].is_string());
    assert!(ttl(&cluster, 1, &old) > 0, "its own leases are its own");
}

#[test]
fn a_call_that_waits_ends_when_the_site_of_its_session_dies() {
    if !needs_program("curl") {
        return;
    }
    let mut cluster = Cluster::start();
    let (first, second) = (cluster.lease(1), cluster.lease(2));
    cluster.post(2, "/v3/lock/lock", &json!({ "name": NAME, "lease": second }));
    let mut waits = cluster.begin(3, "/v3/lock/lock", &json!({ "name": NAME, "lease": first }));
    cluster.until_waits(1, "jobs");
    cluster.kill(1);
    let ended = waits.next();
    assert!(ended["message"].is_string() && ended["key"].is_null(), "{ended}");
}
