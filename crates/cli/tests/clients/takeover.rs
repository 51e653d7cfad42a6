//! A leader whose site is killed or stopped, for every language, and the one that leads after it.

use std::process::Stdio;

use meshlock_testing::{eventually, eventually_some};

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

/// Lets a client of every language lead, and `fault` happen to its site: it must finish its term, and the next one must lead after it.
fn leads_to_the_end(fault: impl Fn(&mut Cluster, usize)) {
    let Some(languages) = Language::all() else { return };
    let mut cluster = Cluster::start();
    for (at, language) in languages.iter().enumerate() {
        let home = cluster.home().display().to_string();
        let leads = |cluster: &Cluster, language: &Language, first: usize, term: &str| {
            let mut command = language.example(&["leader", &home, "1", "0"]);
            command.env("MESHLOCK_API", cluster.places(first));
            command.env("MESHLOCK_NODE", cluster.doors(first).join(","));
            command.env("MESHLOCK_TERM", term).stdin(Stdio::null());
            Process::start(command, cluster.home().join("leaders.log"))
        };
        let first = leads(&cluster, language, at, LONG);
        let led = || cluster.holder(at % 3, "examples/leader");
        // Which site that is, is the client's choice.
        let (site, fence) = eventually_some("the first one leads", led);
        let second = leads(&cluster, &languages[(at + 1) % languages.len()], at + 1, "1");
        let other = (site + 1) % 3;
        if matches!(language, Language::Rust) {
            // The client has had its proof for long when another program has come to wait for the lock.
            eventually("the second one waits", || cluster.waiters(other, "examples/leader") == 1);
        } else {
            cluster.until_mirrored(other);
        }
        fault(&mut cluster, site);
        let (before, is_done) = until_it_stops(&first);
        assert!(is_done, "{language:?}: it keeps its lock to the end of its term: {before:?}");
        assert_eq!(before.fence.to_string(), fence, "{language:?}");
        // It would stand for election again.
        drop(first);
        let (after, is_second_done) = until_it_stops(&second);
        assert!(is_second_done, "{language:?}: the second one leads for its term");
        assert!(after.fence > before.fence, "{language:?}: {before:?}, {after:?}");
        judge(&[before, after]).unwrap_or_else(|fault| panic!("{language:?}: {fault}"));
        cluster.start_again(site);
    }
}

#[test]
fn a_leader_whose_site_is_killed_leads_to_the_end_of_its_term() {
    leads_to_the_end(Cluster::kill);
}

#[test]
fn a_leader_whose_site_is_stopped_leads_to_the_end_of_its_term() {
    leads_to_the_end(Cluster::stop);
}
