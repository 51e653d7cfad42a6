//! What unchanged clients of others' libraries are told about their time can be kept: when their site dies or stops, they know that they
//! have lost their lock before anybody else has it. If their site is back soon, or they know others (`kept.rs`), they keep it.
//!
//! Times are of one clock, `CLOCK_MONOTONIC`: what a client prints, or when this test notices that it has ended, which is later. The next
//! holder is a client of the node's own socket, which notes the time of its grant.

mod holders;
mod kept;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use meshlock_testing::{eventually_some, joined, needs_program};
use rustix::process::{Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

use super::site::{Files, Process, json};
use holders::{Holder, Kind};

/// What happens to the site of the holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Killed,
    KilledAndRestarted,
    Terminated,
    TerminatedAndRestarted,
}

impl Fault {
    fn signal(self) -> Signal {
        match self {
            Fault::Killed | Fault::KilledAndRestarted => Signal::KILL,
            Fault::Terminated | Fault::TerminatedAndRestarted => Signal::TERM,
        }
    }

    fn restarts(self) -> bool {
        matches!(self, Fault::KilledAndRestarted | Fault::TerminatedAndRestarted)
    }
}

/// Returns the time on the clock that the clients print, in nanoseconds.
fn monotonic() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Returns addresses for sites, which stay the same when a site is restarted.
fn addresses(sites: usize) -> Vec<SocketAddr> {
    let listeners: Vec<TcpListener> =
        (0..sites).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap()).collect()
}

/// Waits for the lock at a site, and returns when it was granted.
fn next_holder(files: &Files, site: &str, lock: &str) -> i64 {
    let mut client = files.client(site, "next");
    client.acquire(lock);
    monotonic()
}

/// A session that nobody renews is over after two leases; this is longer.
const KEPT_MS: u64 = 15_000;

/// What becomes of a client whose site has failed.
enum Outcome {
    /// For how long the client had known that its lock was lost when the next one was granted it, in nanoseconds; it is negative if it
    /// still believed in it.
    Lost(i64),
    /// It has found its session again when its site was back, and has kept its lock through another site.
    Kept,
}

/// Waits until the client knows that its lock is lost, or has kept it for so long that it must have renewed its session at the mirror:
/// with the same fence, as its only holder.
fn has_kept(files: &Files, lock: &str, fence: &Value, lost: &JoinHandle<i64>) -> bool {
    eventually_some("the client has kept its lock, or knows that it is lost", || {
        if lost.is_finished() {
            return Some(false);
        }
        let queue = json(files.home(), &["queue", lock, "--socket", &files.path("b.sock")]);
        // While the view changes the site may not be able to say who holds it.
        let [holder] = queue["holders"].as_array()?.as_slice() else { return None };
        let is_its = holder["site"] == "b" && holder["fence"] == *fence;
        (is_its && holder["held_ms"].as_u64() > Some(KEPT_MS)).then_some(true)
    })
}

/// Lets a client hold a lock at site `a`, and `fault` happen to that.
fn trial(kind: Kind, sites: usize, fault: Fault) -> Option<Outcome> {
    // All at once, so that no two are the same.
    let mut listen = addresses(2 * sites);
    let api: Vec<String> = listen.split_off(sites).iter().map(ToString::to_string).collect();
    let files = Arc::new(Files::at(&listen, false, ""));
    let names = &["a", "b", "c"][..sites];
    let start = |at: usize| files.start_with(names[at], &["--api", &api[at]]);
    let mut running: Vec<Process> = (0..sites).map(start).collect();
    for (name, site) in names.iter().zip(&running) {
        site.until_line(&format!("{name} is ready"));
    }
    let holder = Holder::start(kind, &api[0])?;
    holder.until_held();
    let lock = kind.lock();
    let queue = json(files.home(), &["queue", lock, "--socket", &files.path("a.sock")]);
    assert_eq!(queue["holders"].as_array().map(Vec::len), Some(1), "{queue}");
    let (process, fence) = (holder.process(), queue["holders"][0]["fence"].clone());
    let lost = thread::spawn(move || holder.lost_at());
    // Where there is another site, somebody waits there all the time.
    let waits = files.clone();
    let waiting = (sites > 1).then(|| thread::spawn(move || next_holder(&waits, "b", lock)));
    let since = monotonic();
    running[0].signal(fault.signal());
    running[0].end();
    if fault.restarts() {
        running[0] = start(0);
        running[0].until_line("a is ready");
    }
    if let Some(waiting) = waiting.as_ref().filter(|_| fault.restarts())
        && has_kept(&files, lock, &fence, &lost)
    {
        assert!(
            !waiting.is_finished(),
            "{kind:?}, {fault:?}: somebody else has had the lock that it has kept"
        );
        assert!(!lost.is_finished(), "{kind:?}, {fault:?}: it has given up the lock that it has");
        // Nobody waits for its end.
        kill_process(process, Signal::KILL).unwrap();
        eprintln!("{kind:?}, {sites} sites, {fault:?}: kept its lock");
        return Some(Outcome::Kept);
    }
    let next = match waiting {
        Some(waiting) => joined("the next one has the lock", waiting),
        None => next_holder(&files, "a", lock),
    };
    let lost = joined("the client knows that it has lost the lock", lost);
    let [after, free_after] = [lost, next].map(|at| (at - since) / 1_000_000);
    eprintln!(
        "{kind:?}, {sites} sites, {fault:?}: known after {after} ms, granted to the next one after {free_after} ms"
    );
    Some(Outcome::Lost(next - lost))
}

/// Returns each place and fault that there is: a single site is always restarted, because nobody else could have its locks.
fn all_faults() -> [(usize, Fault); 6] {
    [
        (1, Fault::KilledAndRestarted),
        (1, Fault::TerminatedAndRestarted),
        (3, Fault::Killed),
        (3, Fault::KilledAndRestarted),
        (3, Fault::Terminated),
        (3, Fault::TerminatedAndRestarted),
    ]
}

/// What trials of one client and one fault came to.
#[derive(Debug, Default)]
struct Tally {
    kept: usize,
    lost: usize,
    /// The least time for which a client had known of its loss when the next one was granted the lock, in nanoseconds.
    least: Option<i64>,
}

impl Tally {
    /// Counts a trial. Fails if the client still believed in its lock when the next one had it.
    fn count(&mut self, outcome: &Outcome) {
        match *outcome {
            Outcome::Kept => self.kept += 1,
            Outcome::Lost(known_for) => {
                assert!(
                    known_for > 0,
                    "it believed in its lock for {} ms after the next one had it",
                    -known_for / 1_000_000
                );
                self.lost += 1;
                self.least = Some(self.least.map_or(known_for, |least| least.min(known_for)));
            }
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kept {}, lost {}", self.kept, self.lost)?;
        self.least.map_or(Ok(()), |least| write!(f, ", known for at least {} ms", least / 1_000_000))
    }
}

/// Runs trials of one client, and asserts that in each of them it has kept its lock, or knew of its loss before somebody else had it.
fn knows_in_time(kind: Kind, trials: &[(usize, Fault)], times: usize) {
    for &(sites, fault) in trials {
        let mut tally = Tally::default();
        for run in 1..=times {
            let Some(outcome) = trial(kind, sites, fault) else { return };
            eprintln!("{kind:?}, {sites} sites, {fault:?}: run {run} of {times}");
            tally.count(&outcome);
        }
        eprintln!("{kind:?}, {sites} sites, {fault:?}: {times} runs: {tally}");
    }
}

#[test]
fn trials_are_counted_by_what_they_came_to() {
    let count = |outcomes: &[Outcome]| {
        let mut tally = Tally::default();
        for outcome in outcomes {
            tally.count(outcome);
        }
        tally.to_string()
    };
    let [long, short] = [7_000_000, 3_000_000].map(Outcome::Lost);
    assert_eq!(count(&[long, Outcome::Kept, short]), "kept 1, lost 2, known for at least 3 ms");
    assert_eq!(count(&[Outcome::Kept]), "kept 1, lost 0");
}

#[test]
#[should_panic(expected = "it believed in its lock for 2 ms after the next one had it")]
fn a_trial_fails_if_the_client_still_believes_in_its_lock() {
    Tally::default().count(&Outcome::Lost(-2_000_000));
}

#[test]
fn etcdctl_lock_ends_before_the_next_holder_has_the_lock_when_its_site_is_killed() {
    if needs_program("etcdctl") {
        knows_in_time(Kind::Etcdctl, &[(3, Fault::Killed)], 1);
    }
}

#[test]
fn etcdctl_lock_ends_before_the_next_holder_has_the_lock_when_its_site_is_killed_and_restarted() {
    if needs_program("etcdctl") {
        knows_in_time(Kind::Etcdctl, &[(1, Fault::KilledAndRestarted)], 1);
    }
}

#[test]
fn etcdctl_lock_ends_before_the_next_holder_has_the_lock_when_its_site_is_terminated() {
    if needs_program("etcdctl") {
        knows_in_time(Kind::Etcdctl, &[(3, Fault::Terminated)], 1);
    }
}

/// How often the trials of the soak are run: `cargo xtask soak --only promise` says it.
fn times() -> usize {
    std::env::var("MESHLOCK_PROMISE_RUNS").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

/// Runs the trials of all clients, each client's at the same time as the others': most of a trial is waiting.
#[test]
fn clients_of_others_know_that_their_lock_is_lost_before_the_next_holder_has_it() {
    let wanted = std::env::var("MESHLOCK_PROMISE_CLIENT").ok();
    let is_wanted =
        |kind: &Kind| wanted.as_deref().is_none_or(|wanted| format!("{kind:?}").eq_ignore_ascii_case(wanted));
    // The name is the one by which a test is skipped.
    let name = thread::current().name().unwrap_or("promise").to_owned();
    thread::scope(|scope| {
        for kind in Kind::ALL.into_iter().filter(is_wanted) {
            let trials = move || knows_in_time(kind, &all_faults(), times());
            thread::Builder::new().name(name.clone()).spawn_scoped(scope, trials).unwrap();
        }
    });
}
