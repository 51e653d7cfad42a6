//! A rolling upgrade with clients under load: from the last release, if its program is given, else a rolling restart of this one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use meshlock_testing::{Deadline, eventually};
use rustix::process::Signal;

use super::site::{Files, Process, json, output, program};

/// Environment variable with the program of the last release. `cargo xtask soak --only upgrade` builds it and sets this.
const LAST_RELEASE: &str = "MESHLOCK_LAST_RELEASE";

const CLIENTS: usize = 2;

/// How often each client takes the lock at least.
const ENTRIES: usize = 5;

fn last_release() -> PathBuf {
    std::env::var_os(LAST_RELEASE)
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_meshlock")), PathBuf::from)
}

fn start(files: &Files, path: &Path, site: &str) -> Process {
    let mut command = program(path, files.home());
    command.args(["node", "--config", &files.path(&format!("{site}.toml"))]);
    Process::start(command, files.home().join(format!("{site}.log")))
}

/// Adds one to a counter under the lock, at one site after the other until one grants it. Returns the fence.
fn enter(files: &Files, first: usize) -> i64 {
    let deadline = Deadline::default();
    // What the command reads is old if somebody else is inside.
    let script =
        "n=$(cat counter); echo $((n + 1)) >counter; echo $MESHLOCK_FENCE >>fences; echo $MESHLOCK_FENCE";
    let script = format!("cd '{}'; {script}", files.home().display());
    for at in first.. {
        deadline.check("a site grants the lock");
        let socket = files.path(["a.sock", "b.sock", "c.sock"][at % 3]);
        let run = ["run", "counter", "--wait", "5s", "--socket", &socket, "--", "sh", "-c", &script];
        let output = output(files.home(), &run);
        // A lock that was lost while the command ran is counted by the file alone.
        if output.status.success() {
            return String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
        }
        assert_ne!(output.status.code(), Some(76), "{}", String::from_utf8_lossy(&output.stderr));
    }
    unreachable!("the loop has no end");
}

#[test]
fn a_cluster_of_the_last_release_is_upgraded_site_by_site_while_clients_take_locks() {
    let files = Files::new(3, true, "");
    let names = ["a", "b", "c"];
    let old = last_release();
    let mut sites: Vec<Process> = names.iter().map(|site| start(&files, &old, site)).collect();
    for (name, site) in names.iter().zip(&sites) {
        site.until_line(&format!("{name} is ready"));
    }
    fs::write(files.path("counter"), "0\n").unwrap();
    let (entered, upgraded) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (files, entered, upgraded) = (&files, &entered, &upgraded);
            scope.spawn(move || {
                let mut own = 0;
                // Until all sites are upgraded, and a few times after that.
                while upgraded.load(Ordering::Relaxed) < names.len() || own < ENTRIES {
                    enter(files, client);
                    entered.fetch_add(1, Ordering::Relaxed);
                    own += 1;
                }
            });
        }
        for (at, name) in names.iter().enumerate() {
            let before = entered.load(Ordering::Relaxed);
            eventually("locks are taken", || entered.load(Ordering::Relaxed) > before);
            sites[at].signal(Signal::TERM);
            assert!(sites[at].end().success(), "{}", sites[at].log());
            sites[at] = files.start(name);
            sites[at].until_line(&format!("{name} is ready"));
            upgraded.fetch_add(1, Ordering::Relaxed);
        }
    });
    let count: usize = fs::read_to_string(files.path("counter")).unwrap().trim().parse().unwrap();
    assert_eq!(count, entered.load(Ordering::Relaxed), "nobody was inside with another");
    let fences = fs::read_to_string(files.path("fences")).unwrap();
    let fences: Vec<i64> = fences.lines().map(|fence| fence.parse().unwrap()).collect();
    assert!(fences.windows(2).all(|pair| pair[0] < pair[1]), "{fences:?}");
    let list = json(files.home(), &["site", "list", "--socket", &files.path("a.sock")]);
    assert_eq!(list["sites"].as_array().unwrap().len(), 3, "{list}");
}
