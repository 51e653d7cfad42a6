//! Consul's API at different sites of one cluster.

use meshlock_testing::{BoundedChild, eventually, needs_program};
use serde_json::json;

use super::{Said, ask, curl, program, said};
use crate::other_sites::Cluster;
use crate::programs::client;

impl Cluster {
    fn ask(&self, site: usize, method: &str, path: &str, body: &str) -> Said {
        ask(&self.address(site), method, path, body)
    }

    fn session(&self, site: usize) -> String {
        let created = self.ask(site, "PUT", "/v1/session/create", r#"{"TTL":"60s","LockDelay":"0s"}"#);
        created.body["ID"].as_str().unwrap().to_owned()
    }

    fn acquire(&self, site: usize, key: &str, session: &str, value: &str) -> bool {
        let said = self.ask(site, "PUT", &format!("/v1/kv/{key}?acquire={session}&flags=7"), value);
        said.body.as_bool().unwrap_or_else(|| panic!("{said:?}"))
    }
}

#[test]
fn a_key_is_held_at_one_site_at_a_time_with_rising_fences() {
    if !needs_program("curl") {
        return;
    }
    let cluster = Cluster::start();
    let sessions: Vec<String> = (1..=3).map(|site| cluster.session(site)).collect();
    let mut last = 0;
    for turn in 0..6 {
        let (site, other) = (turn % 3 + 1, (turn + 1) % 3 + 1);
        let (own, others) = (&sessions[site - 1], &sessions[other - 1]);
        assert!(cluster.acquire(site, "jobs", own, "höst"), "turn {turn}");
        assert!(!cluster.acquire(other, "jobs", others, "no"), "turn {turn}");
        // All sites show the same holder.
        for seen_at in 1..=3 {
            let seen = cluster.ask(seen_at, "GET", "/v1/kv/jobs", "");
            let entry = seen.entry();
            assert_eq!(
                (&entry["Session"], &entry["Value"], &entry["Flags"]),
                (&json!(own), &json!("aMO2c3Q="), &json!(7)),
                "site {seen_at}: {seen:?}"
            );
        }
        let fence = cluster.ask(other, "GET", "/v1/kv/jobs", "").entry()["LockIndex"].as_i64().unwrap();
        assert!(fence > last, "{fence} after {last}");
        last = fence;
        assert_eq!(cluster.ask(site, "PUT", &format!("/v1/kv/jobs?release={own}"), "").body, true);
    }
}

#[test]
fn a_read_that_waits_wakes_when_another_site_s_session_ends() {
    if !needs_program("curl") {
        return;
    }
    let cluster = Cluster::start();
    let (first, second) = (cluster.session(1), cluster.session(2));
    assert!(cluster.acquire(1, "jobs", &first, ""));
    let held = cluster.ask(2, "GET", "/v1/kv/jobs", "");
    let path = format!("/v1/kv/jobs?index={}&wait=50s", held.index.unwrap());
    let waits = curl(&cluster.address(2), "GET", &path, "").spawn().unwrap();
    cluster.ask(1, "PUT", &format!("/v1/session/destroy/{first}"), "");
    let free = said(waits);
    assert!(free.status == 404 && free.index > held.index, "{free:?}");
    assert!(cluster.acquire(2, "jobs", &second, ""));
    // Clients of Meshlock's own API see it, and it sees them.
    let queue = cluster.ask(3, "GET", "/v1/locks/jobs", "");
    assert!(queue.body["holders"][0]["who"].as_str().unwrap().ends_with(" (Consul session)"), "{queue:?}");
}

#[test]
fn a_semaphore_counts_the_permits_of_all_sites_and_of_other_clients() {
    if !needs_program("curl") {
        return;
    }
    let cluster = Cluster::start();
    let sessions: Vec<String> = (1..=3).map(|site| cluster.session(site)).collect();
    let document = |site: usize| {
        let seen = cluster.ask(site, "GET", "/v1/kv/pool/.lock", "");
        let index = seen.body[0]["ModifyIndex"].as_u64().unwrap_or(0);
        let raw = cluster.ask(site, "GET", "/v1/kv/pool/.lock?raw", "").body;
        let holders = raw["Holders"].as_object().cloned().unwrap_or_default();
        (index, holders)
    };
    let enter = |site: usize, session: &str| {
        let (index, mut holders) = document(site);
        holders.insert(session.to_owned(), json!(true));
        let next = json!({ "Limit": 2, "Holders": holders }).to_string();
        cluster.ask(site, "PUT", &format!("/v1/kv/pool/.lock?cas={index}"), &next)
    };
    eventually("the first is inside", || enter(1, &sessions[0]).body == true);
    // Also a site that was never asked for a permit says how many there are: clients compare it with what they expect.
    for site in 1..=3 {
        let raw = cluster.ask(site, "GET", "/v1/kv/pool/.lock?raw", "").body;
        assert_eq!(raw["Limit"], 2, "site {site}: {raw}");
    }
    // A client of Meshlock's own API holds the second permit.
    let own = cluster.post(2, "/v1/locks/pool/acquire", &json!({ "permits": 2 }));
    let (_, holders) = document(3);
    assert!(holders.len() == 2 && holders.contains_key(&sessions[0]), "{holders:?}");
    let full = enter(3, &sessions[2]);
    assert_eq!(full.body, false, "{full:?}");
    // It is listed as a contender, so that clients do not remove it as dead.
    let listed = cluster.ask(3, "GET", "/v1/kv/pool?keys", "").body;
    assert_eq!(listed.as_array().unwrap().len(), 3, "{listed}");
    let given = cluster.post(2, "/v1/locks/pool/release", &json!({ "session": own["session"] }));
    assert_eq!(given["held"], true, "{own} {given}");
    eventually("the third is inside", || enter(3, &sessions[2]).body == true);
    let (_, holders) = document(2);
    assert_eq!(
        holders.keys().collect::<std::collections::BTreeSet<_>>(),
        [&sessions[0], &sessions[2]].into()
    );
}

#[test]
fn keys_with_a_prefix_are_deleted_at_all_sites_unless_another_client_holds_the_lock() {
    if !needs_program("curl") {
        return;
    }
    let cluster = Cluster::start();
    let sessions: Vec<String> = (1..=3).map(|site| cluster.session(site)).collect();
    let held = || cluster.ask(1, "GET", "/v1/kv/pool/.lock?raw", "").body["Holders"].clone();
    let enter = |site: usize| {
        let session = &sessions[site - 1];
        cluster.ask(site, "PUT", &format!("/v1/kv/pool/{session}?acquire={session}"), "");
        let seen = cluster.ask(site, "GET", "/v1/kv/pool/.lock", "");
        let index = seen.body[0]["ModifyIndex"].as_u64().unwrap_or(0);
        let mut holders = held().as_object().cloned().unwrap_or_default();
        holders.insert(session.clone(), json!(true));
        let next = json!({ "Limit": 3, "Holders": holders }).to_string();
        cluster.ask(site, "PUT", &format!("/v1/kv/pool/.lock?cas={index}"), &next).body == true
    };
    eventually("two are inside", || enter(1));
    eventually("two are inside", || enter(2));
    assert!(cluster.acquire(3, "pool/locks/a", &sessions[2], ""));
    // A holder without a session is another client: nothing is deleted.
    let own = cluster.post(2, "/v1/locks/pool/acquire", &json!({ "permits": 3 }));
    let refused = cluster.ask(3, "DELETE", "/v1/kv/pool?recurse", "");
    let why = refused.body.as_str().unwrap_or_default();
    assert!(refused.status == 409 && why.contains("which is not the caller's"), "{refused:?}");
    assert_eq!(held().as_object().map(serde_json::Map::len), Some(3));
    let given = cluster.post(2, "/v1/locks/pool/release", &json!({ "session": own["session"] }));
    assert_eq!(given["held"], true, "{given}");
    // Asked at a site where none of the permits is.
    assert_eq!(cluster.ask(3, "DELETE", "/v1/kv/pool?recurse", "").body, true);
    for site in 1..=3 {
        assert_eq!(cluster.ask(site, "GET", "/v1/kv/pool?keys", "").status, 404, "site {site}");
        assert_eq!(cluster.ask(site, "GET", "/v1/kv/pool/locks/a", "").status, 404, "site {site}");
    }
    // The sessions are still there, and may have it again.
    eventually("one is inside again", || enter(2));
}

#[test]
fn the_document_of_a_semaphore_is_read_at_one_site_and_changed_at_another() {
    if !needs_program("curl") {
        return;
    }
    let cluster = Cluster::start();
    let read = |site: usize| {
        let seen = cluster.ask(site, "GET", "/v1/kv/pool/.lock", "");
        let raw = cluster.ask(site, "GET", "/v1/kv/pool/.lock?raw", "").body;
        let holders = raw["Holders"].as_object().cloned().unwrap_or_default();
        (seen.body[0]["ModifyIndex"].as_u64().unwrap_or(0), holders)
    };
    let write = |site: usize, index: u64, holders: &serde_json::Map<String, serde_json::Value>| {
        let next = json!({ "Limit": 2, "Holders": holders }).to_string();
        cluster.ask(site, "PUT", &format!("/v1/kv/pool/.lock?cas={index}"), &next)
    };
    for turn in 0..9 {
        // All ways to read at one site and write at another, or at the same.
        let (reads, writes) = (turn % 3 + 1, turn / 3 + 1);
        let [first, second] = [turn % 3 + 1, (turn + 1) % 3 + 1].map(|site| cluster.session(site));
        let (index, mut holders) = read(reads);
        assert_eq!((index, holders.len()), (0, 0), "turn {turn}");
        holders.insert(first.clone(), json!(true));
        assert_eq!(write(writes, index, &holders).body, true, "turn {turn}");
        // Whoever has not seen the change cannot make one.
        holders.insert(second.clone(), json!(true));
        for site in 1..=3 {
            assert_eq!(write(site, index, &holders).body, false, "turn {turn}, site {site}");
        }
        let (index, mut holders) = read(reads);
        holders.insert(second.clone(), json!(true));
        assert_eq!(write(writes, index, &holders).body, true, "turn {turn}");
        let (index, mut holders) = read(reads);
        assert_eq!(holders.len(), 2, "{holders:?}");
        let full = cluster.session(1);
        let mut more = holders.clone();
        more.insert(full, json!(true));
        assert_eq!(write(writes, index, &more).body, false, "there are two permits");
        holders.remove(&first);
        assert_eq!(write(writes, index, &holders).body, true, "turn {turn}");
        let (index, _) = read(reads);
        assert_eq!(write(writes, index, &serde_json::Map::new()).body, true, "turn {turn}");
        assert_eq!(read(writes), (0, serde_json::Map::new()));
    }
    // A session that nobody has is told so, and one that stands for another client is not its own.
    let unknown =
        serde_json::Map::from_iter([("00000000-0000-4000-8000-00000000abcd".to_owned(), json!(true))]);
    let refused = write(2, 0, &unknown);
    assert_ne!(refused.status, 200, "{refused:?}");
}

#[test]
fn a_client_that_waits_at_one_site_with_the_index_of_another_is_told_of_every_change() {
    if !needs_program("curl") {
        return;
    }
    let cluster = Cluster::start();
    let session = cluster.session(1);
    for turn in 0..6 {
        let (asks, waits) = (turn % 3 + 1, (turn + 1) % 3 + 1);
        let free = cluster.ask(asks, "GET", "/v1/kv/jobs", "");
        assert!(cluster.acquire(1, "jobs", &session, ""), "turn {turn}");
        // The change was before the query: a site that took the number for its own would wait for the next one.
        let path = format!("/v1/kv/jobs?index={}&wait=55s", free.index.unwrap());
        let held = cluster.ask(waits, "GET", &path, "");
        assert_eq!(held.entry()["Session"], session, "turn {turn}");
        assert_eq!(cluster.ask(1, "PUT", &format!("/v1/kv/jobs?release={session}"), "").body, true);
    }
}

#[test]
fn a_session_is_served_at_every_site() {
    if !needs_program("curl") {
        return;
    }
    let cluster = Cluster::start();
    for turn in 0..20 {
        let at = |step: usize| (turn + step * (1 + turn / 3)) % 3 + 1;
        let session = cluster.session(at(0));
        let put = |site: usize, path: String| cluster.ask(site, "PUT", &path, "");
        assert!(cluster.acquire(at(1), "jobs", &session, "host"), "turn {turn}");
        let renewed = put(at(2), format!("/v1/session/renew/{session}"));
        assert_eq!((renewed.status, &renewed.body[0]["ID"]), (200, &json!(session)), "{renewed:?}");
        let info = cluster.ask(at(3), "GET", &format!("/v1/session/info/{session}"), "");
        assert_eq!(info.body[0]["Node"], format!("site-{}", at(0)), "{info:?}");
        let released = put(at(4), format!("/v1/kv/jobs?release={session}"));
        assert_eq!(released.body, true, "{released:?}");
        assert!(cluster.acquire(at(5), "jobs", &session, "again"), "turn {turn}");
        assert_eq!(put(at(6), format!("/v1/session/destroy/{session}")).body, true);
        assert_eq!(put(at(7), format!("/v1/session/renew/{session}")).status, 404);
    }
    let listed = cluster.ask(2, "GET", "/v1/session/node/site-1", "");
    assert_eq!(listed.body, json!([]), "{listed:?}");
    let session = cluster.session(1);
    let listed = cluster.ask(2, "GET", "/v1/session/node/site-1", "");
    assert_eq!(listed.body[0]["ID"], json!(session), "{listed:?}");
    let all = [session, cluster.session(2), cluster.session(3)];
    for site in 1..=3 {
        let listed = cluster.ask(site, "GET", "/v1/session/list", "").body;
        let ids: std::collections::BTreeSet<&str> =
            listed.as_array().unwrap().iter().map(|each| each["ID"].as_str().unwrap()).collect();
        assert_eq!(ids, all.iter().map(String::as_str).collect(), "site {site}");
    }
}

#[test]
fn no_update_under_consul_lock_is_lost_whatever_the_site() {
    let Some(consul) = program() else { return };
    let (cluster, dir) = (Cluster::start(), tempfile::tempdir().unwrap());
    let file = dir.path().join("counter");
    std::fs::write(&file, "0").unwrap();
    // Without the lock updates would be lost.
    let script = format!("read n < {0}; echo $((n + 1)) > {0}.new; mv {0}.new {0}", file.display());
    let count = |site: usize| {
        let mut command = client(&consul);
        command.env("CONSUL_HTTP_ADDR", format!("http://{}", cluster.address(site)));
        command.args(["lock", "counter", &script]).spawn().unwrap()
    };
    let running: Vec<_> = (0..6).map(|at| count(at % 3 + 1)).collect();
    for mut child in running {
        assert!(child.wait_in_time().success());
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), "6");
}

#[test]
fn a_session_that_is_not_renewed_or_whose_lock_is_broken_is_over() {
    if !needs_program("curl") {
        return;
    }
    let cluster = Cluster::start();
    let long = cluster.session(1);
    assert!(cluster.acquire(1, "other", &long, ""));
    let broken = cluster.post(2, "/v1/locks/other/break", &json!({}));
    assert_eq!(broken["cut_off"][0]["site"], "site-1", "{broken}");
    let renewed = cluster.ask(1, "PUT", &format!("/v1/session/renew/{long}"), "");
    assert_eq!(renewed.status, 404, "it cannot be renewed: {renewed:?}");
    assert_ne!(cluster.ask(1, "GET", "/v1/kv/other", "").body[0]["Session"], long);
    // The shortest time to live. A client that waits at another site is told of its end.
    let short = cluster.ask(1, "PUT", "/v1/session/create", r#"{"TTL":"10s","LockDelay":"0s"}"#);
    let short = short.body["ID"].as_str().unwrap().to_owned();
    assert!(cluster.acquire(1, "jobs", &short, ""));
    let held = cluster.ask(2, "GET", "/v1/kv/jobs", "");
    assert_eq!(held.entry()["Session"], short);
    let free = cluster.ask(2, "GET", &format!("/v1/kv/jobs?index={}&wait=50s", held.index.unwrap()), "");
    assert_eq!(free.status, 404, "{free:?}");
    let next = cluster.session(2);
    assert!(cluster.acquire(2, "jobs", &next, ""));
    assert_eq!(cluster.ask(1, "PUT", &format!("/v1/session/renew/{short}"), "").status, 404);
}

#[test]
fn a_holder_that_watches_its_lock_is_told_that_its_site_is_disconnected() {
    if !needs_program("curl") {
        return;
    }
    let mut cluster = Cluster::start();
    let session = cluster.session(1);
    assert!(cluster.acquire(1, "jobs", &session, ""));
    let held = cluster.ask(1, "GET", "/v1/kv/jobs", "");
    let path = format!("/v1/kv/jobs?consistent&index={}&wait=50s", held.index.unwrap());
    let watches = curl(&cluster.address(1), "GET", &path, "").spawn().unwrap();
    cluster.sites.truncate(1);
    let lost = said(watches);
    assert_eq!(lost.status, 404, "{lost:?}");
    // The site cannot know the holder now.
    let unknown = cluster.ask(1, "GET", "/v1/kv/jobs", "");
    assert!(
        unknown.status == 503 && unknown.body.as_str().unwrap().contains("no answer from"),
        "{unknown:?}"
    );
    let renewed = cluster.ask(1, "PUT", &format!("/v1/session/renew/{session}"), "");
    assert_eq!(renewed.status, 404, "{renewed:?}");
}
