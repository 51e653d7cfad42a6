//! Clients that take and release a lock while a runbook is carried out, and one that holds another lock throughout.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use meshlock_client::{Connection, Keeping, NodeEndpoint};
use meshlock_cluster::table::Wait;
use meshlock_testing::{Deadline, WITHIN, eventually, eventually_some, joined};
use meshlock_wire::clients::{ToClient, ToNode};

use super::site::{Files, Process, json, meshlock};

/// What the clients of all sites have seen.
#[derive(Default)]
struct Seen {
    /// The fence of the last holder. Only a holder writes it.
    last_fence: Mutex<i64>,
    /// How often each site's client had the lock.
    entries: Mutex<BTreeMap<String, u64>>,
    /// What must not happen.
    faults: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

/// Clients that take and release one lock, one at every site, again and again.
pub(crate) struct Load {
    seen: Arc<Seen>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(files: &Files, sites: &[&str]) -> Self {
        let seen = Arc::new(Seen::default());
        let client = |site: &&str| {
            let (seen, name) = (seen.clone(), (*site).to_owned());
            let endpoint = NodeEndpoint::Socket(files.home().join(format!("{name}.sock")));
            std::thread::spawn(move || {
                let is_over = || seen.is_over.load(Ordering::Relaxed);
                let label = "load".parse().unwrap();
                let connect = || Connection::connect(&endpoint, &label, &Keeping::Thread).ok();
                while !is_over() {
                    // Its site may be stopped: then it tries until the site is back.
                    let connected = eventually_some(&format!("{name} serves"), || {
                        if is_over() { Some(None) } else { connect().map(Some) }
                    });
                    connected.and_then(|connection| serve(&seen, &name, connection));
                }
            })
        };
        let clients = sites.iter().map(client).collect();
        Load { seen, clients }
    }

    /// Waits until every one of these sites' clients has had the lock again.
    pub(crate) fn goes_on(&self, sites: &[&str]) {
        let before = self.seen.entries.lock().unwrap().clone();
        let count = |entries: &BTreeMap<String, u64>, site: &str| entries.get(site).copied().unwrap_or(0);
        eventually("the clients of all sites have the lock again", || {
            let now = self.seen.entries.lock().unwrap();
            sites.iter().all(|site| count(&now, site) > count(&before, site) + 1)
        });
    }

    /// Ends the clients, and asserts that nothing went wrong.
    pub(crate) fn end(mut self) {
        self.seen.is_over.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            joined("the end of a client", client);
        }
        assert_eq!(*self.seen.faults.lock().unwrap(), Vec::<String>::new());
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.seen.is_over.store(true, Ordering::Relaxed);
    }
}

/// Takes and releases the lock over one connection, until it ends, the site leaves, or the test is over.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "there are many messages, and the others do not concern it"
)]
fn serve(seen: &Seen, name: &str, mut connection: Connection) -> Option<()> {
    while !seen.is_over.load(Ordering::Relaxed) {
        let tag = connection.tag();
        let (lock, wait) = ("jobs".parse().unwrap(), Wait::Forever);
        connection.send(&ToNode::Acquire { tag, lock, wait, permits: None }).ok()?;
        let deadline = Deadline::default();
        let fence = loop {
            deadline.check("the lock is granted");
            match connection.receive(Some(WITHIN)).ok()?? {
                ToClient::Granted { tag: of, fence, .. } if of == tag => break fence,
                ToClient::Extended { .. } => {}
                // Its site leaves, and it has nothing.
                _ => return Some(()),
            }
        };
        {
            let mut last = seen.last_fence.lock().unwrap();
            if fence <= *last {
                seen.faults.lock().unwrap().push(format!("{name}: fence {fence} after {last}"));
            }
            *last = fence;
        }
        *seen.entries.lock().unwrap().entry(name.to_owned()).or_default() += 1;
        connection.send(&ToNode::Release(tag)).ok()?;
        loop {
            deadline.check("the lock is released");
            match connection.receive(Some(WITHIN)).ok()?? {
                ToClient::Released(of) if of == tag => break,
                ToClient::Lost { why, .. } => {
                    seen.faults.lock().unwrap().push(format!("{name}: the lock is lost: {why:?}"));
                }
                _ => {}
            }
        }
    }
    Some(())
}

/// Starts a command that holds a lock of its own at a site for the whole test. Returns its fence, too.
pub(crate) fn hold(files: &Files, site: &str) -> (Process, String) {
    let mut command = meshlock(files.home());
    command.args(["run", "held", "--socket", &files.path(&format!("{site}.sock")), "--"]);
    command.args(["sh", "-c", "echo $MESHLOCK_FENCE; exec sleep 1000"]);
    let holder = Process::start(command, files.home().join("held.log"));
    let fence = holder.line();
    (holder, fence)
}

/// Asserts that the lock is still held by whoever held it first.
pub(crate) fn is_still_held(files: &Files, site: &str, fence: &str) {
    let queue = json(files.home(), &["queue", "held", "--socket", &files.path(&format!("{site}.sock"))]);
    let holders = queue["holders"].as_array().unwrap();
    assert!(holders.len() == 1 && holders[0]["fence"] == fence, "{fence}: {queue}");
}
