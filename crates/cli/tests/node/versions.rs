//! Sites of which some speak an older version of the wire than others, as while a cluster is being upgraded.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use meshlock::Node;
use meshlock_cluster::cause::Cause;
use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::{Answer, Call, Config};
use meshlock_cluster::table::{Request, Tell, Wait};
use meshlock_host::{Engine, Listener, Setup};
use meshlock_wire::sites::Versions;

/// Longer than anything here takes: what hangs must say so.
const SOON: Duration = Duration::from_mins(1);

/// Sites in this process, over real connections, each with the versions that it speaks and a disk.
struct Sites {
    book: BTreeMap<SiteName, SocketAddr>,
    data: tempfile::TempDir,
    running: Vec<Option<Node>>,
    runtime: tokio::runtime::Runtime,
}

impl Sites {
    fn start(versions: &[u16]) -> Self {
        let name = |at: usize| -> SiteName { format!("site-{at}").parse().unwrap() };
        let listeners: Vec<TcpListener> =
            versions.iter().map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
        let book = listeners.iter().enumerate();
        let book = book.map(|(at, listener)| (name(at), listener.local_addr().unwrap())).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut sites = Sites { book, data: tempfile::tempdir().unwrap(), running: Vec::new(), runtime };
        for (at, (listener, version)) in listeners.into_iter().zip(versions).enumerate() {
            let node = sites.node(at, listener, *version);
            sites.running.push(Some(node));
        }
        sites.until_whole();
        sites
    }

    fn node(&self, at: usize, listener: TcpListener, version: u16) -> Node {
        let names: Vec<SiteName> = self.book.keys().cloned().collect();
        let mut config = Config::new(names[at].clone(), names.clone());
        config.address = self.book[&names[at]].to_string().parse().unwrap();
        let mut setup = Setup::new(config);
        setup.listen = Some(listener);
        setup.addresses = self.book.iter().map(|(name, at)| (name.clone(), at.to_string())).collect();
        setup.speaks = Versions::up_to(version);
        setup.data = Some(Path::new(self.data.path()).join(names[at].as_str()));
        Node::start(setup).unwrap()
    }

    fn engine(&self, at: usize) -> &Engine {
        self.running[at].as_ref().unwrap().engine()
    }

    /// Until all are members of one view, and its locks run.
    fn until_whole(&self) {
        for node in self.running.iter().flatten() {
            let whole = node.engine().until(|stand| stand.open && stand.members == self.book.len());
            self.runtime.block_on(async { tokio::time::timeout(SOON, whole).await.unwrap() });
        }
    }

    /// Stops one site in good order and starts it again as another program.
    fn restart(&mut self, at: usize, version: u16) {
        let node = self.running[at].take().unwrap();
        self.runtime.block_on(async { tokio::time::timeout(SOON, node.leave()).await.unwrap() });
        drop(node);
        let address = self.book.values().nth(at).unwrap();
        let node = self.node(at, TcpListener::bind(address).unwrap(), version);
        self.running[at] = Some(node);
        self.until_whole();
    }

    /// Which versions are spoken on the connections of a site.
    fn spoken(&self, at: usize) -> Vec<u16> {
        self.engine(at).readings().traffic.iter().filter_map(|peer| peer.version).collect()
    }

    /// Waits until a message of the algorithm has come to a site that had so many.
    fn until_more_than(&self, at: usize, before: u64) {
        while self.heard(at) <= before {
            std::thread::yield_now();
        }
    }

    fn heard(&self, at: usize) -> u64 {
        self.engine(at).readings().tally.received.counts().map(|(_, _, count)| count).sum()
    }
}

/// Hears what a wish is told.
struct Ear(Mutex<Sender<Tell>>);

impl Listener for Ear {
    fn hear(&self, answer: &Answer) {
        if let Answer::Lock(tell) = answer {
            let _ = self.0.lock().unwrap().send(tell.clone());
        }
    }
}

/// A wish at one site.
struct Wish<'a> {
    engine: &'a Engine,
    request: Request,
    told: Receiver<Tell>,
}

impl<'a> Wish<'a> {
    fn new(engine: &'a Engine, lock: &str, cause: u64) -> Self {
        let (says, told) = channel();
        let ear = Arc::new(Ear(Mutex::new(says)));
        let session = engine.open_session(ear.clone());
        let (lock, cause) = (lock.parse().unwrap(), Cause::new(cause));
        let call = |request| Call::Acquire { session, request, lock, wait: Wait::Forever, cause };
        let request = engine.ask(ear, call);
        Wish { engine, request, told }
    }

    /// The fence that it is granted, and for what that was done which let it in.
    fn granted(&self) -> (i64, Option<u64>) {
        loop {
            let told = self.told.recv_timeout(SOON).unwrap();
            if let Tell::Granted { fence, by, .. } = told {
                return (fence.value(), by.map(Cause::number));
            }
            assert!(matches!(told, Tell::Extended { .. }), "{told:?}");
        }
    }

    fn release(self) {
        self.engine.tell(Call::Release(self.request));
    }
}

/// Hands a lock over from one site to another, who waits for it; gives back what let it in.
fn hand_over(sites: &Sites, from: usize, to: usize, cause: u64) -> Option<u64> {
    let holds = Wish::new(sites.engine(from), "jobs", cause);
    let (before, _) = holds.granted();
    let heard = sites.heard(from);
    let waits = Wish::new(sites.engine(to), "jobs", cause + 1);
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
        let (says, told) = channel();
        let ear = Arc::new(Ear(Mutex::new(says)));
        let request = {
            let engine = sites.engine(other);
            let session = engine.open_session(ear.clone());
            let lock = "kept".parse().unwrap();
            engine.ask(ear, |request| Call::Acquire {
                session,
                request,
                lock,
                wait: Wait::Forever,
                cause: None,
            })
        };
        assert!(matches!(told.recv_timeout(SOON).unwrap(), Tell::Granted { .. }));
        sites.restart(upgraded, 2);
        assert!(told.try_iter().all(|tell| matches!(tell, Tell::Extended { .. })), "it is kept");
        sites.engine(other).tell(Call::Release(request));
        assert!(told.iter().any(|tell| matches!(tell, Tell::Released { .. })));
        // The lock goes round, between all pairs of old and new.
        for (from, to) in [(0, 1), (1, 2), (2, 0)] {
            hand_over(&sites, from, to, 100);
            let last = Wish::new(sites.engine(to), "jobs", 7);
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
