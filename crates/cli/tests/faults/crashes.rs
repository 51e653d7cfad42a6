//! Clients and sites are killed, and come back.

use meshlock_testing::{BoundedChild, eventually};

use crate::cluster::{plain, tls};
use crate::insider::Insider;
use crate::network::Network;
use crate::trial::Trial;

#[test]
fn holders_and_waiters_are_killed_and_others_come_in_their_place() {
    let mut trial = Trial::start("killed clients", Network::loopback(), tls("naimi-trehel"));
    for site in 0..5 {
        let holder = Insider::enter(&trial.cluster, &trial.counter, site, "holder");
        // Everyone else waits now. The clients of one site are killed while they wait, then the one who is inside.
        let waiting = (site + 1) % 5;
        trial.cluster.until(waiting, "all its clients wait", |status| status.waiters >= 20);
        trial.kill_herd(waiting);
        let before = trial.count();
        holder.kill(&trial.counter);
        eventually("somebody else is in", || trial.count() > before);
        trial.start_herd(waiting);
    }
    let verdict = trial.end();
    assert!(verdict.unfinished >= 5, "the holders were killed inside");
    assert_eq!(verdict.refused, 0);
}

#[test]
fn the_leader_is_killed_and_then_the_next_one_and_both_come_back() {
    let mut trial = Trial::start("killed leaders", Network::loopback(), plain("ricart-agrawala"));
    let mut killed = Vec::new();
    for _ in 0..2 {
        let leader = trial.cluster.leader();
        trial.cluster.kill(leader);
        killed.push(leader);
        let others = trial.cluster.running();
        trial.cluster.until_without(others[0], &killed);
        trial.until_sites_served(&others);
    }
    for site in killed {
        trial.cluster.start_site(site);
    }
    trial.end();
}

#[test]
fn a_holders_site_is_killed_and_started_again_at_once() {
    let mut trial = Trial::start("a holder's site", Network::loopback(), tls("maekawa"));
    for site in [0, 2] {
        let mut holder = Insider::enter(&trial.cluster, &trial.counter, site, "holder");
        trial.cluster.kill(site);
        trial.cluster.start_site(site);
        // Its command was ended before its lease was, and nobody was inside beside it.
        assert_eq!(holder.run.wait_in_time().code(), Some(76));
        trial.until_all_served();
    }
    trial.end();
}

#[test]
fn every_site_is_restarted_in_order_one_after_the_other() {
    let mut trial = Trial::start("a rolling restart", Network::loopback(), plain("raymond"));
    for site in 0..5 {
        trial.cluster.terminate(site);
        trial.cluster.start_site(site);
        trial.cluster.until_ready(site);
    }
    trial.cluster.until_all_take_part();
    let verdict = trial.end();
    assert_eq!((verdict.refused, verdict.unfinished), (0, 0), "nobody lost anything");
}

#[test]
fn all_sites_are_killed_at_once_and_started_again() {
    let mut trial = Trial::start("a power cut", Network::loopback(), tls("suzuki-kasami"));
    let mut holder = Insider::enter(&trial.cluster, &trial.counter, 4, "holder");
    for site in 0..5 {
        trial.cluster.kill(site);
    }
    for site in 0..5 {
        trial.cluster.start_site(site);
    }
    assert_eq!(holder.run.wait_in_time().code(), Some(76), "its command was ended before the lease");
    trial.end();
}
