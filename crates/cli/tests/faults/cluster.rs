//! The sites of a test: real processes of `meshlock node`, with short leases.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use meshlock_cluster::lease::Terms;
use meshlock_cluster::node::Standing;
use meshlock_cluster::time::{Drift, Span};
use meshlock_testing::eventually_some;
use meshlock_wire::clients::Status;
use rustix::process::Signal;

use crate::network::Network;
use crate::session::Session;
use crate::site::{Files, Process};

/// Lease terms: as short as elections allow.
pub(crate) const TERMS: Terms = Terms {
    length: Span::from_millis(1800),
    drift: Drift::from_ppm(1000),
    margin: Span::from_millis(600),
    renew_every: Span::from_millis(250),
};

/// How long to wait for a status: a healthy site answers at once.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The names of sites, as [`Files`] gives them.
pub(crate) const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// How a cluster is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) tls: bool,
    pub(crate) algorithm: &'static str,
    pub(crate) terms: Terms,
}

/// Sites that authenticate each other with certificates.
pub(crate) const fn tls(algorithm: &'static str) -> Setting {
    Setting { tls: true, algorithm, terms: TERMS }
}

/// Sites without TLS.
pub(crate) const fn plain(algorithm: &'static str) -> Setting {
    Setting { tls: false, algorithm, terms: TERMS }
}

/// Running sites. Dropping this kills them and then removes their namespaces.
pub(crate) struct Cluster {
    sites: Vec<Option<Process>>,
    files: Files,
    pub(crate) network: Network,
}

impl Cluster {
    /// Starts this many sites and waits until all are members.
    pub(crate) fn start(network: Network, sites: usize, setting: Setting) -> Self {
        let cluster = Cluster::prepare(network, sites, setting);
        cluster.begin()
    }

    /// Writes the configuration files, and starts nothing.
    pub(crate) fn prepare(network: Network, sites: usize, setting: Setting) -> Self {
        let addresses: Vec<_> = (0..sites).map(|site| network.address(site)).collect();
        let Setting { tls, algorithm, terms } = setting;
        let more = format!(
            "[lease]\nlength = '{}ms'\nmargin = '{}ms'\nrenew_every = '{}ms'\ndrift_ppm = {}\n[default_rule]\nalgorithm = '{algorithm}'\n",
            terms.length.micros() / 1000,
            terms.margin.micros() / 1000,
            terms.renew_every.micros() / 1000,
            terms.drift.ppm(),
        );
        let files = Files::at(&addresses, tls, &more);
        Cluster { sites: (0..sites).map(|_| None).collect(), files, network }
    }

    /// Starts all sites and waits until all are members.
    pub(crate) fn begin(mut self) -> Self {
        for site in 0..self.sites.len() {
            self.start_site(site);
        }
        self.until_all_take_part();
        self
    }

    pub(crate) fn home(&self) -> &Path {
        self.files.home()
    }

    pub(crate) fn socket(&self, site: usize) -> PathBuf {
        self.home().join(format!("{}.sock", NAMES[site]))
    }

    /// Returns the data directory of a site.
    pub(crate) fn data(&self, site: usize) -> PathBuf {
        self.home().join(format!("data-{}", NAMES[site]))
    }

    /// Returns the log of a site.
    pub(crate) fn log(&self, site: usize) -> String {
        std::fs::read_to_string(self.home().join(format!("{}.log", NAMES[site]))).unwrap_or_default()
    }

    /// Starts a site that does not run.
    pub(crate) fn start_site(&mut self, site: usize) {
        let mut command: Command = self.network.meshlock(site, self.home());
        command.args(["node", "--config", &self.files.path(&format!("{}.toml", NAMES[site]))]);
        let log = self.home().join(format!("{}.log", NAMES[site]));
        self.sites[site] = Some(Process::start(command, log));
    }

    /// Waits until a site that was started prints that it is ready.
    pub(crate) fn until_ready(&self, site: usize) {
        let line = self.sites[site].as_ref().unwrap().line();
        assert!(line.starts_with(&format!("{} is ready", NAMES[site])), "{line}");
    }

    /// Kills a site and waits until its process has ended.
    pub(crate) fn kill(&mut self, site: usize) {
        let mut process = self.sites[site].take().unwrap();
        process.signal(Signal::KILL);
        process.end();
    }

    /// Asks a site to stop (SIGTERM) and waits until it has.
    pub(crate) fn terminate(&mut self, site: usize) {
        let mut process = self.sites[site].take().unwrap();
        process.signal(Signal::TERM);
        assert_eq!(process.end().code(), Some(0), "{}", process.log());
    }

    pub(crate) fn signal(&self, site: usize, signal: Signal) {
        self.sites[site].as_ref().unwrap().signal(signal);
    }

    /// Returns the sites that are running.
    pub(crate) fn running(&self) -> Vec<usize> {
        (0..self.sites.len()).filter(|&site| self.sites[site].is_some()).collect()
    }

    /// Returns all sites except `some`.
    pub(crate) fn all_but(&self, some: &[usize]) -> Vec<usize> {
        (0..self.sites.len()).filter(|site| !some.contains(site)).collect()
    }

    /// Returns the status of a site; `None` if it does not answer.
    pub(crate) fn status(&self, site: usize) -> Option<Status> {
        let end = Instant::now() + ANSWER_WITHIN;
        let socket = self.socket(site);
        let session = Session::connect(&socket, "looks", &mut || Instant::now() >= end);
        session.and_then(|mut session| session.status(ANSWER_WITHIN)).ok()
    }

    /// Waits until the status of a site satisfies `wanted`, and returns it.
    pub(crate) fn until(&self, site: usize, what: &str, wanted: impl Fn(&Status) -> bool) -> Status {
        let what = format!("{} says: {what}", NAMES[site]);
        eventually_some(&what, || self.status(site).filter(&wanted))
    }

    /// Waits until all running sites are members of one view and know the leader.
    pub(crate) fn until_all_take_part(&self) {
        let running = self.running();
        for &site in &running {
            self.until(site, "all take part", |status| {
                takes_part(status) && status.view.members.len() == running.len() && status.leader.is_some()
            });
        }
    }

    /// Waits until a site is a member of a view that contains none of `gone`.
    pub(crate) fn until_without(&self, site: usize, gone: &[usize]) {
        let is_gone = |member: &str| gone.iter().any(|&site| NAMES[site] == member);
        self.until(site, &format!("takes part in a view without {gone:?}"), |status| {
            takes_part(status) && !status.view.members.iter().any(|member| is_gone(member.site.as_str()))
        });
    }

    /// Waits until a site's lease has ended.
    pub(crate) fn until_without_lease(&self, site: usize) {
        self.until(site, "its lease is over", |status| status.lease_left.is_none());
    }

    /// Waits for a leader that has a lease, and returns it.
    pub(crate) fn leader(&self) -> usize {
        let leads = |&site: &usize| {
            let status = self.status(site);
            status.is_some_and(|status| takes_part(&status) && status.leader.as_ref() == Some(&status.site))
        };
        eventually_some("somebody leads", || self.running().into_iter().find(leads))
    }
}

fn takes_part(status: &Status) -> bool {
    status.standing == Standing::Open && status.lease_left.is_some()
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // A site that runs says so itself.
            for site in self.all_but(&self.running()) {
                let log = self.log(site);
                let lines: Vec<&str> = log.lines().collect();
                let last = lines[lines.len().saturating_sub(40)..].join("\n");
                eprintln!("--- the end of the log of {}:\n{last}", NAMES[site]);
            }
        }
    }
}
