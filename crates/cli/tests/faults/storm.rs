//! Random faults of all kinds from a seed, several at a time, as in the simulation. The same seed gives the same faults, but not
//! always the same result, because the timing of the machine differs; the output lists what happened.
//!
//! ```sh
//! MESHLOCK_FAULT_SEED=7 cargo test -p meshlock-cli --test faults storm -- --nocapture
//! ```

use fastrand::Rng;
use meshlock_cluster::time::Span;
use meshlock_system::now;
use meshlock_testing::eventually;
use rustix::process::Signal;

use crate::cluster::{TERMS, tls};
use crate::network::Network;
use crate::trial::{SITES, Trial};

/// Number of faults and repairs.
const FAULTS: usize = 14;

/// The default seed.
const SEED: u64 = 1;

/// Algorithms of which the seed selects one.
const ALGORITHMS: [&str; 5] = ["naimi-trehel", "maekawa", "suzuki-kasami", "ricart-agrawala", "delegated"];

/// State of a site, or of its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Running,
    Stopped,
    Killed,
}

struct Storm {
    random: Rng,
    trial: Trial,
    sites: [Health; SITES],
    herds: [Health; SITES],
}

impl Storm {
    /// Injects one fault, or repairs one, and returns its description.
    fn strike(&mut self) -> String {
        let site = self.random.usize(..SITES);
        let other = (site + self.random.usize(1..SITES)) % SITES;
        match self.random.u8(..10) {
            0..=2 => self.strike_site(site),
            3 | 4 => self.strike_herd(site),
            5 => {
                self.trial.cluster.network.cut(&[site], &[other]);
                format!("{site} and {other} are cut from each other")
            }
            6 => {
                self.trial.cluster.network.cut_one_way(site, other);
                format!("packets from {site} to {other} are dropped")
            }
            7 => {
                let all = self.trial.cluster.all_but(&[]);
                let (some, others): (Vec<usize>, Vec<usize>) = all.iter().partition(|_| self.random.bool());
                self.trial.cluster.network.cut(&some, &others);
                format!("{some:?} and {others:?} are cut from each other")
            }
            8 => {
                self.trial.cluster.network.unplug(site);
                format!("{site} is disconnected")
            }
            _ => {
                self.trial.cluster.network.heal();
                "the network is repaired".to_owned()
            }
        }
    }

    fn strike_site(&mut self, site: usize) -> String {
        let cluster = &mut self.trial.cluster;
        self.sites[site] = match (self.sites[site], self.random.bool()) {
            (Health::Running, true) => {
                cluster.signal(site, Signal::STOP);
                Health::Stopped
            }
            (Health::Running | Health::Stopped, false) => {
                cluster.kill(site);
                Health::Killed
            }
            (Health::Stopped, true) => {
                cluster.signal(site, Signal::CONT);
                Health::Running
            }
            (Health::Killed, _) => {
                cluster.start_site(site);
                Health::Running
            }
        };
        format!("site {site}: {:?}", self.sites[site])
    }

    fn strike_herd(&mut self, site: usize) -> String {
        self.herds[site] = match (self.herds[site], self.random.bool()) {
            (Health::Running, true) => {
                self.trial.herd(site).signal(Signal::STOP);
                Health::Stopped
            }
            (Health::Running | Health::Stopped, false) => {
                self.trial.kill_herd(site);
                Health::Killed
            }
            (Health::Stopped, true) => {
                self.trial.herd(site).signal(Signal::CONT);
                Health::Running
            }
            (Health::Killed, _) => {
                self.trial.start_herd(site);
                Health::Running
            }
        };
        format!("clients of {site}: {:?}", self.herds[site])
    }

    /// Repairs all faults.
    fn heal(mut self) -> Trial {
        self.trial.cluster.network.heal();
        for site in 0..SITES {
            match self.sites[site] {
                Health::Running => {}
                Health::Stopped => self.trial.cluster.signal(site, Signal::CONT),
                Health::Killed => self.trial.cluster.start_site(site),
            }
            match self.herds[site] {
                Health::Running => {}
                Health::Stopped => self.trial.herd(site).signal(Signal::CONT),
                Health::Killed => self.trial.start_herd(site),
            }
        }
        self.trial
    }
}

#[test]
fn a_storm_of_faults_that_are_drawn_from_a_seed() {
    let Some(network) = Network::namespaces(SITES) else { return };
    let given = std::env::var("MESHLOCK_FAULT_SEED").ok().map(|seed| seed.parse().expect("a number"));
    let seed = given.unwrap_or(SEED);
    let mut random = Rng::with_seed(seed);
    let algorithm = ALGORITHMS[random.usize(..ALGORITHMS.len())];
    eprintln!("seed {seed}: {algorithm}");
    let trial = Trial::start("a storm", network, tls(algorithm));
    let mut storm = Storm { random, trial, sites: [Health::Running; SITES], herds: [Health::Running; SITES] };
    for _ in 0..FAULTS {
        let what = storm.strike();
        eprintln!("{}: {what}", now().micros());
        // Time itself is the subject: faults last for random times, some shorter than a lease and some longer.
        let next = now() + Span::from_micros(storm.random.u64(..TERMS.length.micros() * 3 / 2));
        eventually("the next fault is due", || now() > next);
    }
    eprintln!("{}: all faults are repaired", now().micros());
    storm.heal().end();
}
