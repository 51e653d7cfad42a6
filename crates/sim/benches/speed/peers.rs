//! The same ten-site exchange in Meshlock's simulator, SimPy and SimGrid, side by side.
//!
//! Ricart and Agrawala's algorithm under saturation; one event is a message that is delivered or a process that leaves.
//! The others' programs are in `benches/peers`; they check mutual exclusion and measure nothing else, while Meshlock
//! keeps all its checks and metrics on.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark starts other programs; the crate itself does not"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use meshlock_sim::settings::Load;

use crate::{ROUNDS, engine, median};

/// Another simulator that is installed.
struct Peer {
    name: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
}

impl Peer {
    /// Returns the events per CPU second of one run, as the program itself counts them.
    fn speed(&self) -> Option<f64> {
        let output = Command::new(&self.program).args(&self.arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let (events, seconds) = text.lines().last()?.split_once(' ')?;
        Some(events.parse::<f64>().ok()? / seconds.parse::<f64>().ok()?)
    }
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers")
}

fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// SimPy with processes and stores, and reduced to the least.
fn simpy() -> Result<[Peer; 2], &'static str> {
    if !succeeds(Command::new("python3").args(["-c", "import simpy"])) {
        return Err("SimPy is not installed: pip install simpy");
    }
    let script = sources().join("exchange.py").display().to_string();
    let peer = |name, how: &str| Peer {
        name,
        program: "python3".into(),
        arguments: vec![script.clone(), "20000".to_owned(), how.to_owned()],
    };
    Ok([peer("SimPy, processes and stores", "processes"), peer("SimPy, bare timeouts", "timeouts")])
}

/// SimGrid with actors and mailboxes, and reduced to the least.
fn simgrid() -> Result<[Peer; 2], &'static str> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("simgrid-exchange");
    let mut compiler = Command::new("c++");
    compiler.args(["-O3", "-std=c++17", "-o"]).arg(&program).arg(sources().join("exchange.cpp"));
    if !succeeds(compiler.arg("-lsimgrid")) {
        return Err("SimGrid is not installed, or no C++ compiler: apt install libsimgrid-dev g++");
    }
    let peer = |name, how: &str| Peer {
        name,
        program: program.clone(),
        arguments: vec!["50000".to_owned(), how.to_owned()],
    };
    Ok([peer("SimGrid, actors and mailboxes", "mailboxes"), peer("SimGrid, bare kernel timers", "timers")])
}

pub(crate) fn print() {
    println!("ten-site exchange of ricart-agrawala: million events per CPU second");
    let mut peers = Vec::new();
    for found in [simpy(), simgrid()] {
        match found {
            Ok(found) => peers.extend(found),
            Err(missing) => println!("  {missing}"),
        }
    }
    // In turns, so that other work of the machine slows all of them down alike.
    let mut ours = Vec::new();
    let mut theirs = vec![Vec::new(); peers.len()];
    for _ in 0..ROUNDS {
        ours.push(engine::speed("ricart-agrawala", Load::Saturated, 500_000));
        for (peer, speeds) in peers.iter().zip(&mut theirs) {
            speeds.extend(peer.speed());
        }
    }
    let ours = median(ours);
    println!("  {:<30} {:>7.2}", "Meshlock", ours / 1e6);
    for (peer, speeds) in peers.iter().zip(theirs) {
        if speeds.is_empty() {
            println!("  {:<30} failed; run {} to see why", peer.name, peer.program.display());
            continue;
        }
        let speed = median(speeds);
        println!("  {:<30} {:>7.2}   Meshlock is {:.1} times as fast", peer.name, speed / 1e6, ours / speed);
    }
}
