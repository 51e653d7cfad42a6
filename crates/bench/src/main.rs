//! Measures what locks cost on this machine, compared with bare round trips and with other lock services, in one run.
//!
//! ```sh
//! cargo build --release && cargo run --release -p meshlock-bench -- --record docs/BENCHMARKS.md
//! ```
//!
//! Every service is started, measured and stopped before the next one, so that none of them takes time from another. All of them run the
//! same loops ([`system`]) with the same check ([`guarded`]).

mod arguments;
mod command;
mod first_grants;
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
mod statistics;
mod system;
mod systems;
mod takeover;
mod uncontended;
mod view_change;
mod workload;
mod zipf;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use arguments::{Arguments, Measurement};
use machine::MachineInfo;
use output::InvalidArgument;
use report::{BenchReport, Goal, GoalRow};
use sides::PeerService;

/// Exit code after Ctrl-C, the same as of a command that the signal ended.
const EXIT_INTERRUPTED: u8 = 130;

/// Exit code for invalid arguments or files (`EX_USAGE` of sysexits).
const EXIT_USAGE: u8 = 64;

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
        workload: Vec::new(),
        bare_round_trip: None,
        notes: Vec::new(),
    };
    // First, while this process uses little memory.
    let idle = if arguments.wants(Measurement::Memory) {
        memory_of_locks(arguments, program).await?
    } else {
        Vec::new()
    };
    single_figures(arguments, program, peers, &mut report).await?;
    if arguments.compares() || arguments.wants(Measurement::Workload) {
        bare_round_trip(arguments, &mut report).await?;
    }
    if arguments.compares() {
        sides::measure(arguments, program, peers, &mut report).await?;
    }
    if arguments.wants(Measurement::Workload) {
        workload::measure(arguments, program, peers, &mut report).await?;
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

/// Measures the memory of idle and of held locks.
async fn memory_of_locks(arguments: &Arguments, program: &Path) -> anyhow::Result<Vec<GoalRow>> {
    let locks = arguments.times(1_000_000);
    note(&format!("{locks} idle locks"));
    let idle = GoalRow {
        what: format!("{locks} idle locks, resident memory for each at each site"),
        unit: "bytes",
        ours: memory::bytes_per_idle_lock(locks).await?,
        reference: None,
        goal: Some(Goal::Below(500.0)),
    };
    let locks = arguments.times(200_000);
    note(&format!("{locks} held locks"));
    let held = GoalRow {
        what: format!("{locks} held locks, resident memory of the node's process for each"),
        unit: "bytes",
        ours: memory::bytes_per_held_lock(program, locks).await?,
        reference: None,
        goal: Some(Goal::Below(1000.0)),
    };
    Ok(vec![idle, held])
}

/// Makes the measurements of which each is a few rows of the goals.
async fn single_figures(
    arguments: &Arguments,
    program: &Path,
    peers: &[PeerService],
    report: &mut BenchReport,
) -> anyhow::Result<()> {
    let with_etcd = peers.contains(&PeerService::Etcd);
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
        let with_etcdctl = with_etcd && sides::is_program("etcdctl");
        report.goals.extend(command::measure(program, with_etcdctl, arguments.times(300)).await?);
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
    if arguments.wants(Measurement::Start) {
        let starts = if arguments.quick { 1 } else { 5 };
        report.goals.extend(first_grants::measure(program, with_etcd, starts).await?);
    }
    if arguments.wants(Measurement::ViewChange) {
        let held = arguments.times(200_000);
        note(&format!("a view change with {held} held locks"));
        report.goals.extend(view_change::measure(held).await?);
    }
    Ok(())
}

/// Measures the round trip in which the tables give their figures.
async fn bare_round_trip(arguments: &Arguments, report: &mut BenchReport) -> anyhow::Result<()> {
    note("a bare round trip");
    let times = arguments.times(50_000);
    let trips = move || reference::loopback_round_trip(None, reference::SIZE, times, Duration::ZERO);
    let trip = tokio::task::spawn_blocking(trips).await??;
    report.bare_round_trip = Some(trip);
    report.notes.push(format!(
        "A bare round trip is {} bytes over loopback TCP from one thread to another and back, without a pause, measured before the lock \
         services: {trip:.1} µs, the median of {times}. An entry takes a second divided by the entries in a second, however many clients wait.",
        reference::SIZE
    ));
    Ok(())
}

fn note(what: &str) {
    eprintln!("measuring: {what}");
}

/// Waits for a future of the library on a runtime of its own.
fn wait_for<F: Future>(future: F) -> std::io::Result<F::Output> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future))
}
