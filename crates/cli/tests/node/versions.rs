//! Sites of which some speak an older version of the wire than others, as while a cluster is being upgraded.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use meshlock::Node;
use meshlock_cluster::cause::Cause;
use meshlock_cluster::table::{Session, Wait};
use meshlock_host::front::{AcquireEvent, AcquireParams, Acquisition, Ended, Observer, Owner};
use meshlock_testing::{Loopback, WITHIN, eventually};

/// Sites in this process, over real connections, each with the versions that it speaks and a disk.
struct Sites {
    book: Vec<(String, String)>,
    data: tempfile::TempDir,
    running: Vec<Option<Node>>,
    runtime: tokio::runtime::Runtime,
}

impl Sites {
    fn start(versions: &[u16]) -> Self {
        let network = Loopback::new();
        let book =
            (0..versions.len()).map(|at| (format!("site-{at}"), format!("{}:7400", network.address(at))));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let data = tempfile::tempdir().unwrap();
        let mut sites = Sites { book: book.collect(), data, running: Vec::new(), runtime };
        for (at, version) in versions.iter().enumerate() {
            let node = sites.node(at, *version);
            sites.running.push(Some(node));
        }
        sites.until_whole();
        sites
    }

    fn node(&self, at: usize, version: u16) -> Node {
        let site = &self.book[at].0;
        let node = Node::builder().site(site).sites(self.book.clone()).plaintext();
        node.data(self.data.path().join(site)).speak_up_to(version).start().unwrap()
    }

    fn at(&self, at: usize) -> &Node {
        self.running[at].as_ref().unwrap()
    }

    fn wait_for<T>(&self, what: &str, future: impl Future<Output = T>) -> T {
        let within = self.runtime.block_on(async { tokio::time::timeout(WITHIN, future).await });
        within.unwrap_or_else(|_| panic!("not in time: {what}"))
    }

    /// Until all are members of one view, and its locks run.
    fn until_whole(&self) {
        for node in self.running.iter().flatten() {
            let whole = node.front().node().until(|state| state.open && state.members == self.book.len());
            self.wait_for("all are members", whole);
        }
    }

    /// Stops one site in good order and starts it again as another program.
    fn restart(&mut self, at: usize, version: u16) {
        let node = self.running[at].take().unwrap();
        self.wait_for("it leaves", node.leave());
        drop(node);
        self.running[at] = Some(self.node(at, version));
        self.until_whole();
    }

    /// Which versions are spoken on the connections of a site.
    fn spoken(&self, at: usize) -> Vec<u16> {
        self.at(at).front().node().readings().traffic.iter().filter_map(|peer| peer.version).collect()
    }

    /// Waits until a message of the algorithm has come to a site that had so many.
    fn until_more_than(&self, at: usize, before: u64) {
        eventually("a message of the algorithm arrives", || self.heard(at) > before);
    }

    fn heard(&self, at: usize) -> u64 {
        self.at(at).front().node().readings().tally.received.counts().map(|(_, _, count)| count).sum()
    }
}

/// Passes on what happens to a request.
struct Told(Mutex<Sender<AcquireEvent>>);

impl Observer for Told {
    fn on_event(&self, _: &Acquisition<Self>, event: &AcquireEvent) {
        let _ = self.0.lock().unwrap().send(event.clone());
    }
}

/// A request at one site.
struct Asked {
    acquisition: Arc<Acquisition<Told>>,
    told: Receiver<AcquireEvent>,
}

impl Asked {
    fn new(node: &Node, lock: &str, cause: u64) -> Self {
        let (says, told) = channel();
        let front = node.front();
        let session: Session = front.open_session(&front.in_process());
        let lock = lock.parse().unwrap();
        let wanted = AcquireParams { lock, wait: Wait::Forever, permits: None, cause: Cause::new(cause) };
        let told_by = Told(Mutex::new(says));
        let acquisition = front.acquire(&front.in_process(), Owner::Session(session), wanted, told_by);
        Asked { acquisition, told }
    }

    /// The fence that it is granted, and the request that let it in.
    fn granted(&self) -> (i64, Option<u64>) {
        let event = self.told.recv_timeout(WITHIN).unwrap();
        let AcquireEvent::Granted(grant) = event else { panic!("not granted: {event:?}") };
        (grant.fence.value(), grant.by.map(Cause::number))
    }

    /// Gives the lock back, and waits until that is done.
    fn release(self) {
        self.acquisition.release();
        assert_eq!(self.told.recv_timeout(WITHIN).unwrap(), AcquireEvent::Ended(Ended::Released));
    }
}

/// Hands a lock over from one site to another, who waits for it; gives back what let it in.
fn hand_over(sites: &Sites, from: usize, to: usize, cause: u64) -> Option<u64> {
    let holds = Asked::new(sites.at(from), "jobs", cause);
    let (before, _) = holds.granted();
    let heard = sites.heard(from);
    let waits = Asked::new(sites.at(to), "jobs", cause + 1);
    sites.until_more_than(from, heard);
    holds.release();
    let (after, by) = waits.granted();
    assert!(after > before, "fences rise: {before} and {after}");
    waits.release();
    by
}

#[test]
fn a_site_of_the_version_before_shares_locks_with_one_of_this_version() {
    for (versions, spoken) in [([1, 1], 1), ([1, 2], 1), ([2, 1], 1), ([2, 2], 2)] {
        let sites = Sites::start(&versions);
        for (round, (from, to)) in [(0, 1), (1, 0), (0, 1)].into_iter().enumerate() {
            let cause = 10 * (round as u64 + 1);
            let by = hand_over(&sites, from, to, cause);
            // Only where both speak version 2 is it known who handed over.
            assert_eq!(by, (spoken == 2).then_some(cause), "{versions:?}, {from} to {to}");
        }
        assert_eq!((sites.spoken(0), sites.spoken(1)), (vec![spoken], vec![spoken]), "{versions:?}");
    }
}

#[test]
fn a_cluster_is_upgraded_one_site_at_a_time_while_its_locks_are_held_and_handed_over() {
    let mut sites = Sites::start(&[1, 1, 1]);
    let mut fence = 0;
    for upgraded in 0..3 {
        // Somebody at another site holds a lock throughout, and keeps it.
        let other = (upgraded + 1) % 3;
        let kept = Asked::new(sites.at(other), "kept", 3);
        kept.granted();
        sites.restart(upgraded, 2);
        assert_eq!(kept.told.try_recv().ok(), None, "it is kept");
        kept.release();
        // The lock goes round, between all pairs of old and new.
        for (from, to) in [(0, 1), (1, 2), (2, 0)] {
            hand_over(&sites, from, to, 100);
            let last = Asked::new(sites.at(to), "jobs", 7);
            let (next, _) = last.granted();
            assert!(next > fence, "fences rise through upgrades: {fence} and {next}");
            last.release();
            fence = next;
        }
    }
    for at in 0..3 {
        assert_eq!(sites.spoken(at), [2, 2]);
    }
    assert_eq!(hand_over(&sites, 0, 1, 500), Some(500));
}
