//! A leader whose site is killed, for every language, and the one that leads after it.

use std::process::Stdio;

use meshlock_testing::eventually;

use crate::cluster::Cluster;
use crate::judge::{Record, judge};
use crate::languages::Language;
use crate::site::Process;

/// The length of a term that no leader finishes without its site, in milliseconds: several leases.
const LONG: &str = "15000";

/// Reads what a leader prints until it tells for how long it believed that it leads. Returns that, and whether it finished its term.
fn until_it_stops(leader: &Process) -> (Record, bool) {
    let mut is_done = false;
    let stopped = std::iter::repeat_with(|| leader.line()).find_map(|line| {
        is_done |= line == "done leader";
        Record::read(&line)
    });
    (stopped.expect("lines end with a panic"), is_done)
}

/// Sites lose their clients' sessions when they are killed, so that the leader has to stop. It must do so before the next one leads. Where
/// sessions outlive their site, it finishes its term instead, and `is_done` can be asserted.
#[test]
fn a_leader_whose_site_is_killed_stops_before_the_next_one_leads() {
    let Some(languages) = Language::all() else { return };
    let mut cluster = Cluster::start();
    for (at, language) in languages.iter().enumerate() {
        let home = cluster.home().display().to_string();
        let leads = |language: &Language, site: usize, term: &str| {
            let mut command = language.example(&["leader", &home, "1", "0"]);
            command.env("MESHLOCK_API", cluster.places(site)).env("MESHLOCK_NODE", cluster.sockets(site));
            command.env("MESHLOCK_TERM", term).stdin(Stdio::null());
            Process::start(command, cluster.home().join("leaders.log"))
        };
        let site = at % 3;
        let first = leads(language, site, LONG);
        eventually("the first one leads", || cluster.holders((site + 1) % 3, "examples/leader") == 1);
        let second = leads(&languages[(at + 1) % languages.len()], site + 1, "1");
        cluster.kill(site);
        let (before, is_done) = until_it_stops(&first);
        // It would stand for election again.
        drop(first);
        let (after, is_second_done) = until_it_stops(&second);
        assert!(is_second_done, "{language:?}: the second one leads for its term");
        assert!(after.fence > before.fence, "{language:?}: {before:?}, {after:?}");
        judge(&[before, after]).unwrap_or_else(|fault| panic!("{language:?}: {fault}"));
        eprintln!("{language:?}: {}", if is_done { "kept its lock" } else { "lost its lock with its site" });
        cluster.start_again(site);
    }
}
