//! Measures what locks cost on this machine, compared with bare round trips and with other lock services, in one run.
//!
//! ```sh
//! cargo build --release && cargo run --release -p meshlock-bench -- --record docs/BENCHMARKS.md
//! ```
//!
//! Every service is started, measured and stopped before the next one, so that none of them takes time from another. All of them run the
//! same loops ([`system`]) with the same check ([`guarded`]).

mod command;
mod flood;
mod guarded;
mod handover;
mod machine;
mod memory;
mod output;
mod peers;
mod record;
mod reference;
mod report;
mod sides;
mod socket;
mod system;
mod systems;
mod takeover;
mod uncontended;
mod view_change;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use machine::MachineInfo;
use output::InvalidArgument;
use report::{BenchReport, Goal, GoalRow};
use sides::PeerService;

/// Exit code after Ctrl-C, the same as of a command that the signal ended.
const EXIT_INTERRUPTED: u8 = 130;

/// Exit code for invalid arguments or files (`EX_USAGE` of sysexits).
const EXIT_USAGE: u8 = 64;

/// Measure what locks cost on this machine, compared with bare round trips, a minimal central lock server, etcd, ZooKeeper and
/// Redis
#[derive(Debug, Parser)]
#[command(name = "meshlock-bench", version)]
struct Arguments {
    /// Make only these measurements [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Measurement>,
    /// The other lock services to compare with [default: all that are installed]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PEER")]
    peers: Option<Vec<PeerChoice>>,
    /// Do a tenth of the work: to see that everything works, not for exact figures
    #[arg(long)]
    quick: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// The program `meshlock`, for sites in processes of their own [default: the one in the directory of this program]
    #[arg(long, value_name = "PATH")]
    meshlock: Option<PathBuf>,
    /// Also write the results into this document, between its two marker lines; only with all measurements
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "only", "peers"])]
    record: Option<PathBuf>,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Measurement {
    /// One client acquires and releases one lock
    Uncontended,
    /// The same over the Unix socket, compared with a bare round trip
    Socket,
    /// A command under a lock, compared with `flock` and `etcdctl lock`
    Command,
    /// The time from a release at one site to the grant at another
    Handover,
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
}

/// The other lock services that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PeerChoice {
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
    fn wants(&self, measurement: Measurement) -> bool {
        self.only.is_empty() || self.only.contains(&measurement)
    }

    /// Returns whether any measurement compares lock services.
    fn compares(&self) -> bool {
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
    fn window(&self) -> Duration {
        if self.quick { Duration::from_millis(250) } else { Duration::from_secs(3) }
    }

    /// Returns the number of repetitions: `usual`, or a tenth of it with `--quick`.
    fn times(&self, usual: usize) -> usize {
        if self.quick { usual / 10 } else { usual }
    }

    /// Returns the program `meshlock` that runs sites in processes of their own.
    fn program(&self) -> anyhow::Result<PathBuf> {
        let beside = std::env::current_exe()?.with_file_name("meshlock");
        let program = self.meshlock.clone().unwrap_or(beside);
        if program.is_file() {
            return Ok(program);
        }
        let why = format!(
            "{}: no such program; build it with `cargo build --release`, or name another one with --meshlock",
            program.display()
        );
        Err(InvalidArgument::new(why).into())
    }

    /// Returns the peers to measure, and a note for each that is not installed.
    fn peers(&self) -> anyhow::Result<(Vec<PeerService>, Vec<String>)> {
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

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(EXIT_USAGE) } else { ExitCode::SUCCESS };
        }
    };
    match run(&arguments, &mut std::io::stdout().lock()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("meshlock-bench: {error:#}");
            if error.is::<InvalidArgument>() { ExitCode::from(EXIT_USAGE) } else { ExitCode::FAILURE }
        }
    }
}

fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    arguments.record.as_deref().map_or(Ok(()), record::check)?;
    let (peers, missing) = arguments.peers()?;
    let program = arguments.program()?;
    for note in &missing {
        eprintln!("meshlock-bench: {note}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let measured = runtime.block_on(async {
        // The first that ends drops the other, and with it all processes that were started.
        tokio::select! {
            report = measure(arguments, &program, &peers, missing) => report.map(Some),
            told = told_to_stop() => told.map(|()| None),
        }
    });
    // Measurements that still run on threads of their own are abandoned.
    runtime.shutdown_background();
    let Some(report) = measured? else { return Ok(ExitCode::from(EXIT_INTERRUPTED)) };
    if arguments.json {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = report.text();
    write!(out, "{text}")?;
    if let Some(path) = &arguments.record {
        let quick = if arguments.quick { " --quick" } else { "" };
        let command = format!("cargo run --release -p meshlock-bench --{quick} --record {}", path.display());
        record::write(path, &command, &text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits for Ctrl-C or SIGTERM.
async fn told_to_stop() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

async fn measure(
    arguments: &Arguments,
    program: &Path,
    peers: &[PeerService],
    missing: Vec<String>,
) -> anyhow::Result<BenchReport> {
    let mut report = BenchReport {
        machine: MachineInfo::new(),
        goals: Vec::new(),
        side_by_side: Vec::new(),
        notes: Vec::new(),
    };
    // First, while this process uses little memory.
    let mut idle = Vec::new();
    if arguments.wants(Measurement::Memory) {
        let locks = arguments.times(1_000_000);
        note(&format!("{locks} idle locks"));
        idle.push(GoalRow {
            what: format!("{locks} idle locks, resident memory for each at each site"),
            unit: "bytes",
            ours: memory::bytes_per_idle_lock(locks).await?,
            reference: None,
            goal: Some(Goal::Below(500.0)),
        });
        let locks = arguments.times(200_000);
        note(&format!("{locks} held locks"));
        idle.push(GoalRow {
            what: format!("{locks} held locks, resident memory of the node's process for each"),
            unit: "bytes",
            ours: memory::bytes_per_held_lock(program, locks).await?,
            reference: None,
            goal: Some(Goal::Below(1000.0)),
        });
    }
    if arguments.wants(Measurement::Uncontended) {
        note("a lock whose token is here");
        let times = arguments.times(1_000_000);
        report.goals.push(tokio::task::spawn_blocking(move || uncontended::measure(times)).await??);
    }
    if arguments.wants(Measurement::Socket) {
        note("the same over the Unix socket");
        let times = arguments.times(20_000);
        report.goals.push(tokio::task::spawn_blocking(move || socket::measure(times)).await??);
    }
    if arguments.wants(Measurement::Command) {
        note("a command under a lock");
        let with_etcd = peers.contains(&PeerService::Etcd) && sides::is_program("etcdctl");
        report.goals.extend(command::measure(program, with_etcd, arguments.times(300)).await?);
    }
    if arguments.wants(Measurement::Handover) {
        note("handing over between two sites");
        let times = arguments.times(3_000);
        report.goals.extend(tokio::task::spawn_blocking(move || handover::measure(times)).await??);
    }
    if arguments.wants(Measurement::Flood) {
        note("a client of a site whose ports are flooded");
        report.goals.extend(flood::measure(program, arguments.times(10_000)).await?);
    }
    if arguments.wants(Measurement::ViewChange) {
        let held = arguments.times(200_000);
        note(&format!("a view change with {held} held locks"));
        report.goals.extend(view_change::measure(held).await?);
    }
    if arguments.compares() {
        sides::measure(arguments, program, peers, &mut report).await?;
    }
    report.goals.extend(sides::goals(&report.side_by_side));
    report.goals.extend(idle);
    report.notes.extend(missing);
    report.notes.push(
        "Everything was measured in this run; figures of a busy machine differ from run to run, ratios less."
            .to_owned(),
    );
    Ok(report)
}

fn note(what: &str) {
    eprintln!("measuring: {what}");
}

/// Waits for a future of the library on a runtime of its own.
fn wait_for<F: Future>(future: F) -> std::io::Result<F::Output> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future))
}
