//! One run: five sites with twenty clients each, and two more that count under `meshlock run`. First all is calm, then come
//! the faults of a schedule, then everything heals, and everyone must be served.
//!
//! **The bound**, from healing until the last client was served. It follows from the terms as in the simulation (see
//! `properties/starvation.rs` of the node's simulator), with what real connections add:
//!
//! > max(resend, elections) + max(find, silence + leases) + rejoin + connect
//!
//! | what | how long | why |
//! |---|---|---|
//! | connect | dial + backoff + dead | a dial that began in the cut gives up, is left alone for a while, and meanwhile the other end keeps a connection that leads nowhere until its probes are unanswered |
//!
//! A machine that is busy takes longer for everything that is not a wait: a run fails when the bound has passed
//! [`SLOWNESS`] times, and prints what it took.

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

/// How many sites a run has.
pub(crate) const SITES: usize = 5;

/// How many times the bound may pass on a machine that has other things to do.
const SLOWNESS: u32 = 4;

/// What the shell allows a connection: to be dialled, to be left alone after a failure, and to be silent.
const CONNECT: Duration = Duration::from_secs(5 + 1 + 8);

/// Where commands run under the lock all the time.
const RUNNERS: [usize; 2] = [1, 3];

/// See the head of this file.
fn bound() -> Duration {
    let config = Config::new("a".parse().unwrap(), vec!["a".parse().unwrap()]);
    let renew_every = TERMS.renew_every.micros();
    let resend = config.link_timeouts.resend_after.times(8).micros();
    let elections = 2 * config.tick.times((2 * config.pace.election + SITES) as u64).micros();
    let find = (2 + SITES as u64) * renew_every;
    let silence = TERMS.length.micros().max(config.link_timeouts.unreachable_after.micros() + renew_every);
    let leases = TERMS.drift.stretch(TERMS.length).micros();
    let rejoin = 5 * renew_every + config.tick.times(2).micros();
    Duration::from_micros(resend.max(elections) + find.max(silence + leases) + rejoin) + CONNECT
}

/// When each client wrote last, as far as the resource's notes have been read.
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
    /// How many herds each site has had.
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

    /// With a cluster that runs.
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

    /// Waits until each of these has had a turn since now.
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
        // What is unsafe matters more than that someone waits, and may be why.
        judge_so_far(&self.counter).unwrap_or_else(|broken| panic!("{}: {broken}", self.name));
        assert!(served.is_some(), "not served within {waited:?}: {missing:?}");
        waited
    }

    /// Waits until every client of these sites has had a turn since now.
    pub(crate) fn until_sites_served(&mut self, sites: &[usize]) -> Duration {
        let herds = sites.iter().map(|&site| self.herd(site));
        let clients: Vec<String> = herds.flat_map(|herd| herd.clients().collect::<Vec<_>>()).collect();
        self.until_served(&clients)
    }

    /// Waits until every client has had a turn since now, those under `meshlock run` among them.
    pub(crate) fn until_all_served(&mut self) -> Duration {
        let herds = self.herds.iter().flatten().flat_map(|herd| herd.clients().collect::<Vec<_>>());
        let runners = RUNNERS.iter().map(|&site| format!("run-{}", NAMES[site]));
        let clients: Vec<String> = herds.chain(runners).collect();
        self.until_served(&clients)
    }

    /// How many updates there are.
    pub(crate) fn count(&self) -> usize {
        updates(&self.counter.requests()).len()
    }

    /// All faults are over: everyone is served, and then the notes are judged.
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
