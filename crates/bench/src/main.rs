//! What locks cost on this machine, beside the least that the machine itself can do and beside other lock services, in one run.
//!
//! ```sh
//! cargo build --release && cargo run --release -p meshlock-bench -- --record docs/BENCHMARKS.md
//! ```
//!
//! Every service is started, measured and ended before the next one, so that none of them takes time from another. All of them run the
//! same loops ([`system`]) with the same check ([`guarded`]).

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

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use machine::Machine;
use output::Usage;
use report::{Goal, Report, Row};
use sides::Peer;

/// Exit code after Ctrl-C, as of a command that the signal ended.
const EXIT_INTERRUPTED: u8 = 130;

/// Exit code for arguments or files that make no sense (`EX_USAGE` of sysexits).
const EXIT_USAGE: u8 = 64;

/// What locks cost on this machine, beside bare round trips, the smallest central lock server, etcd, ZooKeeper and Redis
#[derive(Debug, Parser)]
#[command(name = "meshlock-bench", version)]
struct Arguments {
    /// Only these measurements
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Measurement>,
    /// Other lock services to stand beside: all that are installed unless said
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PEER")]
    peers: Option<Vec<PeerChoice>>,
    /// A tenth of the work: to see that it works, not how fast
    #[arg(long)]
    quick: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// The program `meshlock`, for sites in processes of their own: the one beside this program unless said
    #[arg(long, value_name = "PATH")]
    meshlock: Option<PathBuf>,
    /// Write what is printed into this document too, between the marks that are there for it; of all measurements only
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "only", "peers"])]
    record: Option<PathBuf>,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Measurement {
    /// One client, one lock
    Uncontended,
    /// The same over the Unix socket, beside a bare round trip
    Socket,
    /// From one site to another
    Handover,
    /// Many clients, one lock
    Contended,
    /// Eight clients, ten thousand locks
    Many,
    /// What idle locks and servers take
    Memory,
    /// After a killed client and a killed site
    Takeover,
}

/// Which other lock services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PeerChoice {
    /// None of them
    None,
    /// Three servers
    Etcd,
    /// Three servers
    Zookeeper,
    /// One server, and Redlock over five
    Redis,
}

impl Arguments {
    fn wants(&self, measurement: Measurement) -> bool {
        self.only.is_empty() || self.only.contains(&measurement)
    }

    /// Whether anything is measured that lock services are compared by.
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

    /// How long each run with clients lasts.
    fn window(&self) -> Duration {
        if self.quick { Duration::from_millis(250) } else { Duration::from_secs(3) }
    }

    /// So often, or less.
    fn times(&self, usual: usize) -> usize {
        if self.quick { usual / 10 } else { usual }
    }

    /// The program `meshlock` that runs sites in processes of their own.
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
        Err(Usage::new(why).into())
    }

    /// The peers that are to be measured, and what is to be said of those that are missing.
    fn peers(&self) -> anyhow::Result<(Vec<Peer>, Vec<String>)> {
        let of = |choice: &PeerChoice| match choice {
            PeerChoice::None => vec![],
            PeerChoice::Etcd => vec![Peer::Etcd],
            PeerChoice::Zookeeper => vec![Peer::ZooKeeper],
            PeerChoice::Redis => vec![Peer::RedisPolling, Peer::RedisTold, Peer::Redlock],
        };
        let Some(chosen) = &self.peers else {
            let (there, missing): (Vec<Peer>, Vec<Peer>) =
                Peer::ALL.iter().partition(|peer| peer.is_installed());
            let note = |peer: Peer| format!("{} is not installed: {}", peer.name(), peer.how_to_install());
            return Ok((there, missing.into_iter().map(note).collect()));
        };
        let chosen: Vec<Peer> = chosen.iter().flat_map(of).collect();
        if let Some(missing) = chosen.iter().find(|peer| !peer.is_installed()) {
            let (name, how) = (missing.name(), missing.how_to_install());
            return Err(Usage::new(format!("--peers: {name} is not installed: {how}")).into());
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
            if error.is::<Usage>() { ExitCode::from(EXIT_USAGE) } else { ExitCode::FAILURE }
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
        // Whichever ends first drops the other, and with it all that was started.
        tokio::select! {
            report = measure(arguments, &program, &peers, missing) => report.map(Some),
            told = told_to_stop() => told.map(|()| None),
        }
    });
    // What still counts on threads of its own need not be waited for.
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
    peers: &[Peer],
    missing: Vec<String>,
) -> anyhow::Result<Report> {
    let mut report =
        Report { machine: Machine::new(), goals: Vec::new(), side_by_side: Vec::new(), notes: Vec::new() };
    // First, while this process is small.
    let mut idle = None;
    if arguments.wants(Measurement::Memory) {
        let locks = arguments.times(1_000_000);
        note(&format!("{locks} idle locks"));
        idle = Some(Row {
            what: format!("{locks} idle locks, resident memory for each at each site"),
            unit: "bytes",
            ours: memory::bytes_per_idle_lock(locks).await?,
            reference: None,
            goal: Some(Goal::Below(500.0)),
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
    if arguments.wants(Measurement::Handover) {
        note("handing over between two sites");
        let times = arguments.times(3_000);
        report.goals.extend(tokio::task::spawn_blocking(move || handover::measure(times)).await??);
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

/// Waits for a future of the library, on a small runtime of its own.
fn wait_for<F: Future>(future: F) -> std::io::Result<F::Output> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future))
}
