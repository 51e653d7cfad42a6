//! Clients of others' libraries that know all sites keep their lock, with the same fence, when their site dies or stops.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use meshlock_testing::{eventually, eventually_some, needs_program};

use super::holders::{Holder, Kind};
use serde_json::Value;

use super::{Fault, addresses};
use crate::site::{Files, Process, json};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Leases are short, so that what nobody renews is soon over.
const LEASE: &str = "[lease]\nlength = '4s'\nmargin = '500ms'\nrenew_every = '500ms'\n";

/// A session that nobody renews at the mirror is over after two leases.
const WINDOW_MS: u64 = 8000;

/// Three sites with APIs, and a client that knows all of them.
struct Trial {
    files: Arc<Files>,
    api: Vec<String>,
    sites: Vec<Option<Process>>,
}

impl Trial {
    fn start() -> Self {
        // All at once, so that no two are the same.
        let mut listen = addresses(2 * NAMES.len());
        let api: Vec<String> = listen.split_off(NAMES.len()).iter().map(ToString::to_string).collect();
        let files = Arc::new(Files::at(&listen, false, LEASE));
        let sites: Vec<Process> =
            NAMES.iter().zip(&api).map(|(name, api)| files.start_with(name, &["--api", api])).collect();
        for (name, site) in NAMES.iter().zip(&sites) {
            site.until_line(&format!("{name} is ready"));
        }
        Trial { files, api, sites: sites.into_iter().map(Some).collect() }
    }

    /// Returns the site of the holder, its fence, and for how long that site has known it.
    fn holder(&self, asked: usize, lock: &str) -> Option<(usize, Value, u64)> {
        let socket = self.files.path(&format!("{}.sock", NAMES[asked]));
        let queue = json(self.files.home(), &["queue", lock, "--socket", &socket]);
        let holder = queue["holders"].as_array()?.first()?.clone();
        let at = NAMES.iter().position(|name| holder["site"] == *name)?;
        Some((at, holder["fence"].clone(), holder["held_ms"].as_u64()?))
    }

    /// Waits until a site mirrors a session.
    fn until_mirrored(&self, site: usize) {
        eventually("the mirror knows the session", || {
            let mut stream = TcpStream::connect(&self.api[site]).unwrap();
            stream
                .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                .unwrap();
            let mut page = String::new();
            stream.read_to_string(&mut page).unwrap();
            page.lines().any(|line| line == "meshlock_mirrored_sessions 1")
        });
    }
}

/// Lets a client hold a lock, and `fault` happen to its site. It must keep the lock through another one, for longer than it was kept for it.
fn keeps(kind: Kind, fault: Fault) {
    let mut trial = Trial::start();
    let Some(mut holder) = Holder::start(kind, &trial.api.join(",")) else { return };
    holder.until_held();
    let lock = kind.lock();
    let (home, fence, _) = eventually_some("the lock is held", || trial.holder(0, lock));
    trial.until_mirrored((home + 1) % 3);
    let mut site = trial.sites[home].take().unwrap();
    site.signal(fault.signal());
    site.end();
    let asked = (home + 2) % 3;
    let mut kept_for = 0;
    eventually("it has kept the lock for longer than without renewals", || {
        // While the view changes the site may not be able to say who holds it.
        let Some((at, now, held_ms)) = trial.holder(asked, lock) else { return false };
        assert_eq!(now, fence, "{kind:?}, {fault:?}: somebody else has the lock");
        kept_for = held_ms;
        at != home && held_ms > WINDOW_MS + 4000
    });
    eprintln!("{kind:?}, {fault:?}: kept for {kept_for} ms");
    // The one for Go leaves its lease to time when it ends.
    if kind == Kind::Etcdctl {
        holder.release();
        eventually("it has released the lock", || trial.holder(asked, lock).is_none());
    }
}

#[test]
fn etcdctl_lock_with_all_endpoints_keeps_its_lock_when_its_site_is_killed() {
    if needs_program("etcdctl") {
        keeps(Kind::Etcdctl, Fault::Killed);
    }
}

#[test]
fn etcdctl_lock_with_all_endpoints_keeps_its_lock_when_its_site_is_terminated() {
    if needs_program("etcdctl") {
        keeps(Kind::Etcdctl, Fault::Terminated);
    }
}

#[test]
fn a_session_of_etcd_s_client_for_go_keeps_its_lock_when_its_site_is_killed_or_terminated() {
    for fault in [Fault::Killed, Fault::Terminated] {
        keeps(Kind::Go, fault);
    }
}
