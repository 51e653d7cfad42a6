//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use super::output::InvalidArgument;
use super::sides::PeerService;

/// Measure what locks cost on this machine, compared with bare round trips, a minimal central lock server, etcd, ZooKeeper and
/// Redis
#[derive(Debug, Parser)]
#[command(name = "meshlock-bench", version)]
pub(super) struct Arguments {
    /// Make only these measurements [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(super) only: Vec<Measurement>,
    /// The other lock services to compare with [default: all that are installed]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PEER")]
    pub(super) peers: Option<Vec<PeerChoice>>,
    /// Do a tenth of the work: to see that everything works, not for exact figures
    #[arg(long)]
    pub(super) quick: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
    /// The program `meshlock`, for sites in processes of their own [default: the one in the directory of this program]
    #[arg(long, value_name = "PATH")]
    pub(super) meshlock: Option<PathBuf>,
    /// Also write the results into this document, between its two marker lines; only with all measurements
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "only", "peers"])]
    pub(super) record: Option<PathBuf>,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Measurement {
    /// One client acquires and releases one lock
    Uncontended,
    /// The same over the Unix socket, compared with a bare round trip
    Socket,
    /// A command under a lock, compared with `flock` and `etcdctl lock`
    Command,
    /// The time from a release at one site to the grant at another
    Handover,
    /// The first grants of a cluster that has just started, compared with etcd
    Start,
    /// Many clients compete for one lock
    Contended,
    /// Eight clients use ten thousand locks
    Many,
    /// The memory of idle locks and of servers
    Memory,
    /// The time until another client gets the lock of a killed client, and of a killed site
    Takeover,
    /// One client of a site whose ports are full of connections that say nothing
    Flood,
    /// A view change and a renewal while many locks are held
    ViewChange,
    /// 64 clients use a hundred thousand locks, which are equally popular or not, compared with Redis
    Workload,
}

/// The other lock services that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PeerChoice {
    /// No other lock service
    None,
    /// etcd, three servers
    Etcd,
    /// ZooKeeper, three servers
    Zookeeper,
    /// Redis with one server, and Redlock over five
    Redis,
}

impl Arguments {
    pub(super) fn wants(&self, measurement: Measurement) -> bool {
        self.only.is_empty() || self.only.contains(&measurement)
    }

    /// Returns whether any measurement compares lock services.
    pub(super) fn compares(&self) -> bool {
        let compared = [
            Measurement::Uncontended,
            Measurement::Contended,
            Measurement::Many,
            Measurement::Memory,
            Measurement::Takeover,
        ];
        compared.iter().any(|measurement| self.wants(*measurement))
    }

    /// Returns how long each run with clients lasts.
    pub(super) fn window(&self) -> Duration {
        if self.quick { Duration::from_millis(250) } else { Duration::from_secs(3) }
    }

    /// Returns the number of repetitions: `usual`, or a tenth of it with `--quick`.
    pub(super) fn times(&self, usual: usize) -> usize {
        if self.quick { usual / 10 } else { usual }
    }

    /// Returns the program `meshlock` that runs sites in processes of their own.
    pub(super) fn program(&self) -> anyhow::Result<PathBuf> {
        let beside = std::env::current_exe()?.with_file_name("meshlock");
        let program = self.meshlock.clone().unwrap_or(beside);
        if program.is_file() {
            // Sites are started in directories of their own.
            return Ok(std::path::absolute(program)?);
        }
        let why = format!(
            "{}: no such program; build it with `cargo build --release`, or name another one with --meshlock",
            program.display()
        );
        Err(InvalidArgument::new(why).into())
    }

    /// Returns the peers to measure, and a note for each that is not installed.
    pub(super) fn peers(&self) -> anyhow::Result<(Vec<PeerService>, Vec<String>)> {
        let of = |choice: &PeerChoice| match choice {
            PeerChoice::None => vec![],
            PeerChoice::Etcd => vec![PeerService::Etcd],
            PeerChoice::Zookeeper => vec![PeerService::ZooKeeper],
            PeerChoice::Redis => {
                vec![PeerService::RedisPolling, PeerService::RedisTold, PeerService::Redlock]
            }
        };
        let Some(chosen) = &self.peers else {
            let (there, missing): (Vec<PeerService>, Vec<PeerService>) =
                PeerService::ALL.iter().partition(|peer| peer.is_installed());
            let note =
                |peer: PeerService| format!("{} is not installed: {}", peer.name(), peer.how_to_install());
            return Ok((there, missing.into_iter().map(note).collect()));
        };
        let chosen: Vec<PeerService> = chosen.iter().flat_map(of).collect();
        if let Some(missing) = chosen.iter().find(|peer| !peer.is_installed()) {
            let (name, how) = (missing.name(), missing.how_to_install());
            return Err(InvalidArgument::new(format!("--peers: {name} is not installed: {how}")).into());
        }
        Ok((chosen, Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Arguments {
        Arguments::try_parse_from([&["meshlock-bench"], arguments].concat()).unwrap()
    }

    #[test]
    fn a_choice_of_measurements_leaves_out_the_others() {
        let all = parse(&[]);
        assert!(all.compares() && all.wants(Measurement::Workload) && all.wants(Measurement::Start));
        let chosen = parse(&["--only", "workload,start", "--peers", "none"]);
        assert!(chosen.wants(Measurement::Workload) && chosen.wants(Measurement::Start));
        assert!(!chosen.compares() && !chosen.wants(Measurement::Handover));
        assert_eq!(chosen.peers().unwrap(), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_program_that_is_named_relative_to_here_is_found_from_other_directories() {
        let program = parse(&["--meshlock", "Cargo.toml"]).program().unwrap();
        assert!(program.is_absolute() && program.is_file(), "{}", program.display());
        assert!(parse(&["--meshlock", "no-such-file"]).program().is_err());
    }

    #[test]
    fn a_quick_run_does_a_tenth() {
        let (all, quick) = (parse(&[]), parse(&["--quick"]));
        assert_eq!((all.times(100_000), quick.times(100_000)), (100_000, 10_000));
        assert!(quick.window() < all.window());
    }
}
