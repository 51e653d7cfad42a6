//! Commands that are given several nodes of one cluster.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use meshlock_testing::{BoundedCommand, eventually, eventually_some};
use rustix::process::Signal;

use super::site::{Files, Process, json, meshlock, output, says};

const SITES: [&str; 3] = ["a", "b", "c"];

/// Short leases: what ends with one is soon over.
const SHORT_LEASES: &str = "[lease]\nlength = '2s'\nmargin = '300ms'\nrenew_every = '300ms'\n";

/// Three sites that serve clients over a network, and the addresses of these doors as `--node` takes them.
fn three_sites() -> (Files, String) {
    three_sites_with(SHORT_LEASES)
}

fn three_sites_with(more: &str) -> (Files, String) {
    let files = Files::new(3, false, more);
    // All are bound at once, so that they differ.
    let doors = SITES.map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let doors: Vec<SocketAddr> = doors.iter().map(|door| door.local_addr().unwrap()).collect();
    for (site, door) in SITES.iter().zip(&doors) {
        let path = files.path(&format!("{site}.toml"));
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("clients = '{door}'\n{text}")).unwrap();
    }
    let doors: Vec<String> = doors.iter().map(ToString::to_string).collect();
    (files, doors.join(","))
}

#[test]
fn a_command_that_is_given_several_nodes_uses_one_that_answers() {
    let (files, nodes) = three_sites();
    let mut sites = files.start_all(&SITES);
    let used = |arguments: &[&str]| {
        let output =
            output(files.home(), &[&["run", "-v", "--plain"], arguments, &["x", "--", "true"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stderr).unwrap()
    };
    let index = |said: &str| {
        let is_named = |door: &str| said.contains(&format!("the node at {door}"));
        nodes.split(',').position(is_named).unwrap_or_else(|| panic!("it uses none of {nodes}: {said}"))
    };
    let killed = index(&used(&["--node", &nodes]));
    sites[killed].signal(Signal::KILL);
    sites[killed].end();
    assert_ne!(index(&used(&["--node", &nodes])), killed);
    // Other commands do the same, and the variable is read like the flag.
    let mut status = meshlock(files.home());
    status.args(["status", "--plain", "--json"]).env("MESHLOCK_NODE", &nodes);
    let status = status.output_in_time();
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    let asked = status["site"].as_str().unwrap();
    assert!(SITES.contains(&asked) && asked != SITES[killed], "{asked}");
    // If none answers, the message names all of them.
    drop(sites);
    let output = output(files.home(), &["run", "--plain", "--node", &nodes, "x", "--", "true"]);
    assert_eq!(output.status.code(), Some(69));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&nodes));
}

#[test]
fn a_command_that_waits_asks_another_node_when_its_own_is_killed() {
    let (files, nodes) = three_sites();
    let mut sites = files.start_all(&SITES);
    let mut holder = files.client("b", "holder");
    holder.acquire("jobs");
    let [first, _, third] = nodes.split(',').collect::<Vec<_>>()[..] else { panic!("three of them") };
    let mut run = meshlock(files.home());
    run.args(["run", "jobs", "--plain", "--node", &format!("{first},{third}"), "--", "echo", "in"]);
    let mut run = Process::start(run, files.home().join("run.log"));
    // The place where it waits, of these two.
    let waits_at = || {
        let queue = json(files.home(), &["queue", "jobs", "--socket", &files.path("b.sock")]);
        let is_at =
            |at: &usize| queue["waiters"].as_array().unwrap().iter().any(|one| one["site"] == SITES[*at]);
        [0, 2].into_iter().find(is_at)
    };
    let killed = eventually_some("it waits", waits_at);
    sites[killed].signal(Signal::KILL);
    sites[killed].end();
    eventually("it waits at the other one", || waits_at() == Some(2 - killed));
    holder.release();
    assert_eq!(run.line(), "in");
    assert!(run.end().success(), "{}", run.log());
}

/// During how many commands, at least, sites are restarted: `cargo xtask soak --only restarts` says it. Otherwise each site is once.
fn wanted_commands() -> Option<u32> {
    std::env::var("MESHLOCK_RESTART_COMMANDS").ok()?.parse().ok()
}

#[test]
fn a_rolling_restart_fails_no_command_that_is_given_several_nodes_and_loses_no_lock() {
    let wanted = wanted_commands();
    // The soak has the leases that users have.
    let (files, nodes) = three_sites_with(if wanted.is_some() { "" } else { SHORT_LEASES });
    let mut sites = files.start_all(&SITES);
    let inside = Inside::start(&files, &nodes);
    let (is_over, done) = (AtomicBool::new(false), AtomicU32::new(0));
    let all_at = |site: &str| {
        let status = json(files.home(), &["status", "--socket", &files.path(&format!("{site}.sock"))]);
        status["view"]["members"].as_array().map_or(0, Vec::len) == SITES.len()
    };
    std::thread::scope(|scope| {
        for lock in ["x", "x", "y"] {
            let (files, nodes, is_over, done) = (&files, &nodes, &is_over, &done);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    says(files.home(), &["run", lock, "--plain", "--node", nodes, "--", "true"]);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // Ends the load also if an assertion below fails: the scope waits for its threads.
        let _end = EndLoad(&is_over);
        let mut restarts = 0;
        while restarts < SITES.len() || wanted.is_some_and(|wanted| done.load(Ordering::Relaxed) < wanted) {
            let at = restarts % SITES.len();
            let site = SITES[at];
            let before = done.load(Ordering::Relaxed);
            eventually("commands run", || done.load(Ordering::Relaxed) > before + 3);
            sites[at].signal(Signal::TERM);
            assert!(sites[at].end().success(), "{}", sites[at].log());
            sites[at] = files.start(site);
            sites[at].until_line(&format!("{site} is ready"));
            eventually("all are members again", || all_at(site));
            restarts += 1;
        }
        let done = done.load(Ordering::Relaxed);
        eprintln!("{done} commands have succeeded during {restarts} restarts of sites");
    });
    eventually("the lock is held with the same fence", || inside.held_at(0).is_some());
    inside.ends(0);
}

/// A command under the lock `jobs` that prints its fence, and runs until the test lets it go.
struct Inside<'a> {
    files: &'a Files,
    run: Process,
    fence: String,
}

impl<'a> Inside<'a> {
    fn start(files: &'a Files, nodes: &str) -> Self {
        let gate = files.home().join("gate");
        rustix::fs::mkfifoat(rustix::fs::CWD, &gate, rustix::fs::Mode::RWXU).unwrap();
        let mut run = meshlock(files.home());
        let script = "echo $MESHLOCK_FENCE; read _ < gate; echo out";
        run.args(["run", "jobs", "--plain", "--node", nodes, "--", "sh", "-c", script]);
        run.current_dir(files.home());
        let run = Process::start(run, files.home().join("run.log"));
        let fence = run.line();
        Inside { files, run, fence }
    }

    /// Returns the index of the site through which the lock is held, if it is held with the fence of this command and nobody else has it.
    fn held_at(&self, asked: usize) -> Option<usize> {
        let socket = self.files.path(&format!("{}.sock", SITES[asked]));
        let queue = json(self.files.home(), &["queue", "jobs", "--socket", &socket]);
        let [holder] = queue["holders"].as_array()?.as_slice() else { return None };
        let is_ours = holder["fence"] == self.fence.as_str();
        SITES.iter().position(|site| is_ours && holder["site"] == *site)
    }

    /// Lets the command end, and asserts that it had the lock until then.
    fn ends(mut self, at: usize) {
        let socket = self.files.path(&format!("{}.sock", SITES[at]));
        let try_it = ["run", "jobs", "--try", "--socket", &socket, "--", "sh", "-c", "echo $MESHLOCK_FENCE"];
        let refused = output(self.files.home(), &try_it);
        assert_eq!(refused.status.code(), Some(75), "{}", String::from_utf8_lossy(&refused.stderr));
        fs::write(self.files.home().join("gate"), "\n").unwrap();
        assert_eq!(self.run.line(), "out");
        assert!(self.run.end().success(), "{}", self.run.log());
        let next: i64 = says(self.files.home(), &try_it).trim().parse().unwrap();
        assert!(next > self.fence.parse().unwrap(), "fences rise");
    }
}

#[test]
fn a_command_keeps_its_lock_and_its_fence_when_its_node_is_killed() {
    let (files, nodes) = three_sites();
    let mut sites = files.start_all(&SITES);
    let inside = Inside::start(&files, &nodes);
    let used = inside.held_at(0).expect("it is held");
    sites[used].signal(Signal::KILL);
    sites[used].end();
    let others = [(used + 1) % 3, (used + 2) % 3];
    eventually("it holds the lock through another site", || {
        inside.held_at(others[0]).is_some_and(|site| site != used)
    });
    inside.ends(others[1]);
}

#[test]
fn a_command_keeps_its_lock_and_its_fence_when_its_node_leaves() {
    let (files, nodes) = three_sites();
    let mut sites = files.start_all(&SITES);
    let inside = Inside::start(&files, &nodes);
    let used = inside.held_at(0).expect("it is held");
    sites[used].signal(Signal::TERM);
    assert!(sites[used].end().success(), "it has left before the command has ended: {}", sites[used].log());
    let others = [(used + 1) % 3, (used + 2) % 3];
    eventually("it holds the lock through another site", || {
        inside.held_at(others[0]).is_some_and(|site| site != used)
    });
    inside.ends(others[1]);
}

#[test]
fn a_signal_reaches_the_command_also_while_a_node_that_does_not_answer_is_still_asked() {
    let (files, nodes) = three_sites();
    let _sites = files.start_all(&SITES);
    // Accepts connections and says nothing.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let gate = files.home().join("gate");
    rustix::fs::mkfifoat(rustix::fs::CWD, &gate, rustix::fs::Mode::RWXU).unwrap();
    let nodes = format!("{},{nodes}", silent.local_addr().unwrap());
    let script = "trap 'echo told; exit 3' TERM; echo in; while :; do read _ < gate; done";
    let mut run = meshlock(files.home());
    run.args(["run", "jobs", "--plain", "--node", &nodes, "--", "sh", "-c", script])
        .current_dir(files.home());
    let mut run = Process::start(run, files.home().join("run.log"));
    assert_eq!(run.line(), "in");
    run.signal(Signal::TERM);
    assert_eq!(run.line(), "told");
    assert_eq!(run.end().code(), Some(3), "{}", run.log());
}

struct EndLoad<'a>(&'a AtomicBool);

impl Drop for EndLoad<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
