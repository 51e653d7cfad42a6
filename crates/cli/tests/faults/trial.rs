//! One run: five sites with twenty clients each, and two more clients under `meshlock run`. All clients take a turn, then the faults
//! of a schedule happen, then all faults are repaired, and every client must be served.
//!
//! **The bound** is the time from the repair until the last client was served. It follows from the lease terms as in the simulation (see
//! `properties/starvation.rs` of the node's simulator), with what real connections add:
//!
//! > max(resend, elections) + max(find, silence + leases) + rejoin + connect
//!
//! | what | how long | why |
//! |---|---|---|
//! | connect | dial + backoff + dead | a dial that began during the cut fails and is retried after a pause; meanwhile the other end keeps a dead connection until its probes are unanswered |
//!
//! A busy machine needs more time for everything that is not a wait: a run fails when [`SLOWNESS`] times the bound has passed, and
//! prints how long it took.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::time::Duration;

use meshlock_cluster::node::Config;
use meshlock_system::now;
use meshlock_testing::first_some;

use crate::cluster::{Cluster, NAMES, Setting, TERMS};
use crate::counter::Counter;
use crate::herd::Herd;
use crate::judge::{Verdict, judge, judge_so_far, updates};
use crate::network::Network;
use crate::runner::Runner;

/// Number of sites.
pub(crate) const SITES: usize = 5;

/// How many times longer than the bound it may take on a busy machine.
const SLOWNESS: u32 = 4;

/// Limits for a connection: of a dial, of the pause after a failure, and of silence.
const CONNECT: Duration = Duration::from_secs(5 + 1 + 8);

/// Sites at which commands run under `meshlock run` all the time.
const RUNNERS: [usize; 2] = [1, 3];

/// Returns the bound that the head of this file describes.
fn bound() -> Duration {
    let config = Config::new("a".parse().unwrap(), vec!["a".parse().unwrap()]);
    let renew_every = TERMS.renew_every.micros();
    let resend = config.link_timeouts.resend_after.times(8).micros();
    let elections = 2 * config.tick.times((2 * config.pace.election + SITES) as u64).micros();
    let find = (2 + SITES as u64) * renew_every;
    let unreachable_after = config.link_timeouts_by(TERMS).unreachable_after.micros();
    let silence = TERMS.length.micros().max(unreachable_after + renew_every);
    let leases = TERMS.drift.stretch(TERMS.length).micros();
    let rejoin = 5 * renew_every + config.tick.times(2).micros();
    Duration::from_micros(resend.max(elections) + find.max(silence + leases) + rejoin) + CONNECT
}

/// When each client wrote last, as far as the records of the resource have been read.
#[derive(Debug, Default)]
struct Progress {
    read: u64,
    last: BTreeMap<String, u64>,
}

impl Progress {
    fn look(&mut self, counter: &Counter) {
        let mut file = File::open(counter.dir().join("counter")).unwrap();
        file.seek(SeekFrom::Start(self.read)).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        self.read += whole.len() as u64;
        for update in updates(whole) {
            self.last.insert(update.client, update.at);
        }
    }
}

/// A run.
pub(crate) struct Trial {
    name: &'static str,
    herds: Vec<Option<Herd>>,
    runners: Vec<Runner>,
    /// Number of herds that each site has had.
    generations: Vec<u32>,
    progress: Progress,
    pub(crate) counter: Counter,
    pub(crate) cluster: Cluster,
}

impl Trial {
    /// Starts sites and clients, and waits until each client had a turn.
    pub(crate) fn start(name: &'static str, network: Network, setting: Setting) -> Self {
        Trial::of(name, Cluster::start(network, SITES, setting))
    }

    /// The same with a running cluster.
    pub(crate) fn of(name: &'static str, cluster: Cluster) -> Self {
        let counter = Counter::new(&cluster.home().join("shared"));
        let herds = (0..SITES).map(|_| None).collect();
        let (generations, progress) = (vec![0; SITES], Progress::default());
        let mut trial = Trial { name, herds, runners: Vec::new(), generations, progress, counter, cluster };
        for site in 0..SITES {
            trial.start_herd(site);
        }
        for site in RUNNERS {
            let (home, socket) = (trial.cluster.home(), trial.cluster.socket(site));
            trial.runners.push(Runner::start(home, &socket, &trial.counter, &format!("run-{}", NAMES[site])));
        }
        trial.until_all_served();
        trial
    }

    pub(crate) fn start_herd(&mut self, site: usize) {
        self.generations[site] += 1;
        let name = format!("{}{}", NAMES[site], self.generations[site]);
        self.herds[site] = Some(Herd::start(&name, &self.cluster.socket(site), &self.counter));
    }

    pub(crate) fn herd(&self, site: usize) -> &Herd {
        self.herds[site].as_ref().unwrap()
    }

    pub(crate) fn kill_herd(&mut self, site: usize) {
        self.herds[site].take().unwrap().kill(&self.counter);
    }

    /// Waits until each of these clients has taken a turn from now on.
    fn until_served(&mut self, clients: &[String]) -> Duration {
        let since = now();
        let mut missing = clients.to_vec();
        let served = first_some(bound() * SLOWNESS, || {
            self.progress.look(&self.counter);
            let last = &self.progress.last;
            missing.retain(|client| last.get(client).is_none_or(|&at| at <= since.micros()));
            missing.is_empty().then_some(())
        });
        let waited = Duration::from_micros(now().since(since).micros());
        // A violation of safety is more important than a client that waits, and may be the cause.
        judge_so_far(&self.counter).unwrap_or_else(|broken| panic!("{}: {broken}", self.name));
        assert!(served.is_some(), "not served within {waited:?}: {missing:?}");
        waited
    }

    /// Waits until every client of these sites has taken a turn from now on.
    pub(crate) fn until_sites_served(&mut self, sites: &[usize]) -> Duration {
        let herds = sites.iter().map(|&site| self.herd(site));
        let clients: Vec<String> = herds.flat_map(|herd| herd.clients().collect::<Vec<_>>()).collect();
        self.until_served(&clients)
    }

    /// Waits until every client has taken a turn from now on, including those under `meshlock run`.
    pub(crate) fn until_all_served(&mut self) -> Duration {
        let herds = self.herds.iter().flatten().flat_map(|herd| herd.clients().collect::<Vec<_>>());
        let runners = RUNNERS.iter().map(|&site| format!("run-{}", NAMES[site]));
        let clients: Vec<String> = herds.chain(runners).collect();
        self.until_served(&clients)
    }

    /// Returns the number of updates.
    pub(crate) fn count(&self) -> usize {
        updates(&self.counter.requests()).len()
    }

    /// Ends the run after all faults are repaired: waits until every client is served, and checks the records.
    pub(crate) fn end(mut self) -> Verdict {
        let took = self.until_all_served();
        for runner in std::mem::take(&mut self.runners) {
            runner.end();
        }
        for herd in self.herds.iter_mut().filter_map(Option::take) {
            herd.end();
        }
        let verdict = judge(&self.counter).unwrap_or_else(|broken| panic!("{}: {broken}", self.name));
        eprintln!(
            "{}: {verdict:?}; everyone was served {took:?} after healing (bound: {:?})",
            self.name,
            bound()
        );
        verdict
    }
}
