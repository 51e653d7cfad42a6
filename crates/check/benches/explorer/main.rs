//! The explorer beside `stateright` and SPIN on the same models: `cargo bench -p meshlock-check`.
//!
//! Every contender visits every state of a model and checks mutual exclusion. Each run is a separate process, so that its
//! CPU time and peak memory can be measured: this program starts itself again for the explorer and for `stateright`, and
//! compiles and starts the Promela models in `benches/peers` where `spin` and `gcc` are installed. The counts of
//! states must be the same. The rows *everything* are the explorer alone, with all that `meshlock check` finds out. Rates are states per second of CPU time, which hardly depends on other work of the machine;
//! elapsed times are meaningful on an idle machine only, so the load is printed with them.
//!
//! `cargo bench -p meshlock-check -- WORD…` runs the rows that contain one of the words; `-- runs=5` repeats each row.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark reads the clock and prints; the crate itself does neither"
)]

mod contender;
mod flat;
#[path = "../../tests/validation/lamport_mutex.rs"]
mod lamport_mutex;
mod measure;
#[path = "../../tests/validation/peer.rs"]
mod peer;
mod spin;

use std::env::args;
use std::process::Command;

use contender::{Contender, Task};
use measure::{Measured, load, measured};

/// A model that contenders explore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The TLA+ model of Lamport's algorithm with three processes and clocks up to this.
    LamportMutex(u8),
    /// Ricart and Agrawala's algorithm with three sites that each enter this many times.
    RicartAgrawala(u8),
    /// A run as `meshlock check` makes it, with all properties and all figures: the algorithm, its sites and their entries.
    Whole(&'static str, usize, u8),
}

impl Subject {
    const ALL: [Subject; 8] = [
        Subject::LamportMutex(6),
        Subject::LamportMutex(8),
        Subject::RicartAgrawala(2),
        Subject::RicartAgrawala(3),
        Subject::Whole("lodha-kshemkalyani", 4, 1),
        Subject::Whole("singhal-heuristic", 3, 3),
        Subject::Whole("singhal-dynamic", 4, 1),
        Subject::Whole("maekawa", 4, 1),
    ];

    fn name(self) -> String {
        match self {
            Subject::LamportMutex(clock) => format!("LamportMutex, clocks to {clock}"),
            Subject::RicartAgrawala(entries) => format!("ricart-agrawala, {entries} entries"),
            Subject::Whole(spec, sites, entries) => {
                format!("{spec}, {sites} sites, {entries} entries, everything")
            }
        }
    }
}

fn main() {
    let words: Vec<String> = args().skip(1).filter(|word| word != "--bench").collect();
    if let [first, subject, contender] = words.as_slice()
        && first == "--child"
    {
        let task = Task::parse(subject, contender).expect("this program wrote it");
        return task.run();
    }
    let runs = words.iter().find_map(|word| word.strip_prefix("runs=")?.parse().ok()).unwrap_or(3);
    let rows: Vec<&String> = words.iter().filter(|word| !word.starts_with("runs=")).collect();
    let chosen = |name: &str| rows.is_empty() || rows.iter().any(|word| name.contains(word.as_str()));
    for subject in Subject::ALL {
        let taking_part = |contender: &Contender| {
            chosen(&format!("{} {}", subject.name(), contender.name())) && contender.can_run(subject)
        };
        let contenders: Vec<Contender> = Contender::ALL.into_iter().filter(taking_part).collect();
        if contenders.is_empty() {
            continue;
        }
        println!("{}, load {}", subject.name(), load());
        println!("{}", Measured::HEADER);
        let mut first: Option<Measured> = None;
        for contender in contenders {
            let measured = best_of(runs, subject, contender);
            if let Some(first) = &first {
                assert_eq!(first.states, measured.states, "{} counts other states", contender.name());
            }
            println!("{}", measured.row(&contender.name(), first.as_ref()));
            first.get_or_insert(measured);
        }
        println!();
    }
}

/// Returns the run with the least CPU time, with the least elapsed time of all runs.
fn best_of(runs: usize, subject: Subject, contender: Contender) -> Measured {
    let once = |_| match contender {
        Contender::Spin(order) => spin::run(subject, order),
        Contender::Ours(_) | Contender::Stateright(_) | Contender::StaterightFlat(_) => {
            let mut command = Command::new(std::env::current_exe().expect("this program runs"));
            command.arg("--child").args(Task { subject, contender }.words());
            measured(&mut command)
        }
    };
    let all: Vec<Measured> = (0..runs.max(1)).map(once).collect();
    let wall = all.iter().map(|run| run.wall).min().expect("at least one run");
    let best = all.into_iter().min_by_key(|run| run.cpu).expect("at least one run");
    Measured { wall, ..best }
}
