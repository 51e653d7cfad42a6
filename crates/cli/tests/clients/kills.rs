//! The five examples of every language share five locks, while the sites of their cluster are killed one after the other.
//!
//! This shows safety and progress: nobody believes in a lock that somebody else has, nothing that was done under a lock is lost, no
//! program fails, and all go on after every kill. What a program holds outlives its site, so a turn is usually not lost either. It is
//! lost, and the example takes the lock again, if the site is killed within milliseconds of the grant: before the client for Rust has its
//! proof, or before the mirror has heard of the lock of another client. A kill meets at most one such turn for each permit, which is what
//! is asserted here. That a lock is kept that was held for longer is asserted in `takeover.rs` and `library.rs`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use meshlock_testing::{BoundedCommand, async_test, eventually, joined};

use crate::cluster::Cluster;
use crate::judge::{Record, judge};
use crate::languages::{Language, run};
use crate::side_by_side;

const EXAMPLES: [&str; 5] = ["counter", "database", "once", "leader", "pool"];

/// Examples whose turns are counted, and the number of permits of each.
const COUNTED: [(&str, usize); 4] = [("counter", 1), ("database", 1), ("leader", 1), ("pool", 3)];

/// Turns of an example in one run of its program.
const TURNS: u32 = 4;

/// Programs of each language that run at the same time.
const RUNNERS: usize = 2;

/// What the programs have said.
#[derive(Default)]
struct Tally {
    /// All grants.
    records: Vec<Record>,
    /// What was done: `EXAMPLE`, or `once JOB`.
    done: BTreeMap<String, u32>,
    /// Finished runs of each language.
    runs: BTreeMap<usize, u32>,
}

impl Tally {
    fn read(&mut self, language: usize, text: &str) {
        for line in text.lines() {
            if let Some(what) = line.strip_prefix("done ") {
                let what = if what.starts_with("pool") { "pool" } else { what };
                *self.done.entry(what.to_owned()).or_default() += 1;
            }
            self.records.extend(Record::read(line));
        }
        *self.runs.entry(language).or_default() += 1;
    }

    fn count(&self, what: &str) -> u32 {
        self.done.get(what).copied().unwrap_or(0)
    }

    /// Grants of a lock after which nothing was done, because the lock was lost.
    fn lost(&self, example: &str) -> usize {
        let lock = format!("examples/{example}");
        let grants = self.records.iter().filter(|record| record.lock == lock).count();
        grants - usize::try_from(self.count(example)).unwrap()
    }
}

/// Programs that are run again and again, until they are told to end.
struct Runners {
    over: Arc<AtomicBool>,
    tally: Arc<Mutex<Tally>>,
    threads: Vec<JoinHandle<()>>,
}

impl Runners {
    fn start(cluster: &Cluster, languages: &[Language]) -> Self {
        let (over, tally) = <(Arc<AtomicBool>, Arc<Mutex<Tally>>)>::default();
        let next_job = Arc::new(AtomicU32::new(0));
        let mut threads = Vec::new();
        for (at, language) in languages.iter().enumerate() {
            for runner in 0..RUNNERS {
                let (language, dir) = (language.clone(), cluster.home().to_owned());
                let (places, doors) = (cluster.places(runner), cluster.doors(runner).join(","));
                let (over, tally, next_job) = (over.clone(), tally.clone(), next_job.clone());
                threads.push(std::thread::spawn(move || {
                    for example in EXAMPLES.iter().cycle().skip(runner) {
                        if over.load(Ordering::SeqCst) {
                            break;
                        }
                        // Several programs want the same jobs done.
                        let job = next_job.fetch_add(1, Ordering::SeqCst) / 4 * TURNS;
                        let mut command = command(&language, example, &dir, job);
                        command.env("MESHLOCK_API", &places).env("MESHLOCK_NODE", &doors);
                        let said = command.output_in_time();
                        let (out, error) =
                            (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
                        assert!(said.status.success(), "{language:?} {example}: {out}\n{error}");
                        tally.lock().unwrap().read(at, &out);
                    }
                }));
            }
        }
        Runners { over, tally, threads }
    }

    /// Waits until every language has finished some more runs, or a program has failed.
    fn until_all_go_on(&self, languages: usize) {
        let before = self.tally.lock().unwrap().runs.clone();
        eventually("programs of every language go on", || {
            let now = &self.tally.lock().unwrap().runs;
            let goes_on =
                |at: &usize| now.get(at).copied().unwrap_or(0) >= before.get(at).copied().unwrap_or(0) + 3;
            self.threads.iter().any(JoinHandle::is_finished) || (0..languages).all(|at| goes_on(&at))
        });
    }

    /// Lets all programs end. Panics if one has failed.
    fn end(mut self) -> Tally {
        self.over.store(true, Ordering::SeqCst);
        for thread in std::mem::take(&mut self.threads) {
            joined("a program ends", thread);
        }
        std::mem::take(&mut *self.tally.lock().unwrap())
    }
}

impl Drop for Runners {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

/// How often every site is killed. `cargo xtask soak` says more than once.
fn rounds() -> u32 {
    std::env::var("MESHLOCK_CLIENT_KILLS").map_or(1, |rounds| rounds.parse().unwrap())
}

fn command(language: &Language, example: &str, dir: &Path, job: u32) -> Command {
    language.example(&[example, &dir.display().to_string(), &TURNS.to_string(), &job.to_string()])
}

fn sqlite(database: &Path, statements: &str) -> String {
    run(Command::new("sqlite3").arg(database).arg(statements)).trim().to_owned()
}

#[test]
#[allow(clippy::print_stdout, reason = "it is the program of an example")]
fn an_example_of_rust_takes_turns() {
    let Ok(example) = std::env::var("EXAMPLE") else { return };
    let arguments: Vec<String> = example.split(' ').map(str::to_owned).collect();
    // The harness has not ended its line.
    println!();
    async_test(async { side_by_side::run(&arguments).await.unwrap() });
}

#[test]
fn the_examples_of_all_languages_stay_apart_and_go_on_while_sites_are_killed() {
    let Some(languages) = Language::all() else { return };
    let mut cluster = Cluster::start();
    let database = cluster.home().join("bank.db");
    std::fs::write(cluster.home().join("counter"), "0\n").unwrap();
    sqlite(
        &database,
        "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, fence INTEGER NOT NULL); \
         INSERT INTO account VALUES (1, 0, 0);",
    );
    let runners = Runners::start(&cluster, &languages);
    runners.until_all_go_on(languages.len());
    for site in (0..rounds()).flat_map(|_| 0..3) {
        cluster.kill(site);
        runners.until_all_go_on(languages.len());
        cluster.start_again(site);
        runners.until_all_go_on(languages.len());
    }
    let tally = runners.end();
    judge(&tally.records).unwrap_or_else(|fault| panic!("{fault}"));
    // Nothing that was done under a lock was undone or done twice by somebody else.
    let counter = std::fs::read_to_string(cluster.home().join("counter")).unwrap();
    assert_eq!(counter.trim(), tally.count("counter").to_string());
    assert_eq!(sqlite(&database, "SELECT balance FROM account;"), tally.count("database").to_string());
    let largest = tally.records.iter().filter(|record| record.lock == "examples/database");
    let largest = largest.map(|record| record.fence).max().unwrap();
    assert_eq!(sqlite(&database, "SELECT fence FROM account;"), largest.to_string());
    let twice: Vec<_> =
        tally.done.iter().filter(|(what, times)| what.starts_with("once ") && **times > 1).collect();
    assert!(twice.is_empty(), "jobs that were done more than once: {twice:?}");
    assert!(tally.done.keys().any(|what| what.starts_with("once ")), "some jobs were done");
    let kills = 3 * usize::try_from(rounds()).unwrap();
    for (example, permits) in COUNTED {
        let (turns, lost) = (tally.count(example), tally.lost(example));
        eprintln!("{example}: {turns} turns, {lost} lost with their site in {kills} kills");
        assert!(turns > 0, "{example}");
        assert!(lost <= kills * permits, "{example}: {lost} turns are lost in {kills} kills");
    }
}
