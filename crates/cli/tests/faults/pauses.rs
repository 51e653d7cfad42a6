//! Sites and clients are stopped (SIGSTOP) for longer than a lease, or for less, and continue.

use meshlock_cluster::lease::Terms;
use meshlock_cluster::time::Span;
use meshlock_system::now;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::cluster::{Cluster, Setting, TERMS, plain, tls};
use crate::counter::Outcome;
use crate::herd::{LOCK, send};
use crate::insider::Insider;
use crate::network::Network;
use crate::session::{Session, deadline};
use crate::trial::Trial;

#[test]
fn a_member_and_then_the_leader_are_stopped_for_longer_than_their_leases() {
    let mut trial = Trial::start("stopped sites", Network::loopback(), tls("singhal-heuristic"));
    let leader = trial.cluster.leader();
    for stopped in [(leader + 1) % 5, leader] {
        trial.cluster.signal(stopped, Signal::STOP);
        let others = trial.cluster.all_but(&[stopped]);
        trial.cluster.until_without(others[0], &[stopped]);
        trial.until_sites_served(&others);
        trial.cluster.signal(stopped, Signal::CONT);
        trial.cluster.until_all_take_part();
    }
    trial.end();
}

#[test]
fn a_stopped_command_keeps_its_lock_while_its_site_runs() {
    let trial = Trial::start("a stopped command", Network::loopback(), plain("delegated"));
    let holder = Insider::enter(&trial.cluster, &trial.counter, 0, "holder");
    let group = Pid::from_raw(holder.child).unwrap();
    send(&holder.run, Signal::STOP);
    kill_process_group(group, Signal::STOP).unwrap();
    let before = trial.count();
    trial.cluster.until(0, "its client has the lock for longer than a lease", |status| {
        status.held.iter().any(|held| held.lock.as_str() == LOCK && held.age > TERMS.length.times(2))
    });
    assert_eq!(trial.count(), before, "nobody else was let in");
    send(&holder.run, Signal::CONT);
    kill_process_group(group, Signal::CONT).unwrap();
    holder.leave();
    // The same with clients most of which wait: their turn comes while they are stopped, and the others wait for them.
    trial.herd(3).signal(Signal::STOP);
    trial.cluster.until(3, "one of the stopped clients has the lock", |status| {
        status.held.iter().any(|held| held.age > TERMS.length)
    });
    trial.herd(3).signal(Signal::CONT);
    let verdict = trial.end();
    assert_eq!(verdict.refused, 0, "whoever was stopped still had the lock");
}

#[test]
fn a_write_after_the_end_of_the_lease_is_refused_and_no_update_is_lost() {
    let mut trial = Trial::start("a late client", Network::loopback(), plain("lamport"));
    let mut refused = 0;
    for site in [1, 4] {
        let socket = trial.cluster.socket(site);
        let mut session = Session::connect(&socket, "late", &mut deadline()).unwrap();
        let request = session.want(LOCK).unwrap();
        let grant = session.granted(request, &mut deadline()).unwrap();
        let counter = trial.counter.clone();
        let inside = counter.enter("late", grant.fence, grant.until).unwrap();
        let read = inside.read().unwrap();
        assert!(read.is_some(), "its fence is the newest");
        // It does not hear its node, nor look at its clock, as if it stood still too.
        trial.cluster.signal(site, Signal::STOP);
        let others = trial.cluster.all_but(&[site]);
        trial.until_sites_served(&others);
        assert_eq!(inside.write(read).unwrap(), Outcome::Refused);
        trial.cluster.signal(site, Signal::CONT);
        refused += 1;
    }
    let verdict = trial.end();
    assert!(verdict.refused >= refused, "{verdict:?}");
}

/// What is done to a site for a while.
#[derive(Clone, Copy, Debug)]
enum Disturbance {
    Stopped,
    CutOff,
}

impl Disturbance {
    fn begin(self, cluster: &Cluster, site: usize) {
        match self {
            Disturbance::Stopped => cluster.signal(site, Signal::STOP),
            Disturbance::CutOff => cluster.network.cut(&[site], &cluster.all_but(&[site])),
        }
    }

    fn end(self, cluster: &Cluster, site: usize) {
        match self {
            Disturbance::Stopped => cluster.signal(site, Signal::CONT),
            Disturbance::CutOff => cluster.network.heal(),
        }
    }
}

/// Disturbs a site until another one says that 60 % of a lease has passed. Returns how long it was disturbed.
fn disturb(cluster: &Cluster, disturbance: Disturbance, site: usize, turn: usize) -> Span {
    let witness = cluster.all_but(&[site])[0];
    let mut clock = Session::connect(&cluster.socket(witness), "clock", &mut deadline()).unwrap();
    let Terms { length, renew_every, .. } = Terms::default();
    // The worst moment: the next renewal is due soon, and is not sent any more.
    let soon = length.part(5).times(4) + renew_every.part(5);
    cluster
        .until(site, "its next renewal is due", |status| status.lease_left.is_some_and(|left| left < soon));
    let lock = format!("clock-{turn}");
    let request = clock.want(&lock).unwrap();
    // From here on the age of this lock shows how much time has passed.
    clock.granted(request, &mut deadline()).unwrap();
    let since = now();
    disturbance.begin(cluster, site);
    let length = length.part(5).times(3);
    cluster.until(witness, "60 % of a lease has passed", |status| {
        status.held.iter().any(|held| held.lock.as_str() == lock && held.age >= length)
    });
    disturbance.end(cluster, site);
    now().since(since)
}

/// Disturbs the leader, the one that was elected instead, and a site that does not lead: whoever holds a lock there keeps it.
fn keeps_its_locks(network: Network, disturbance: Disturbance) {
    let setting = Setting { terms: Terms::default(), ..plain("naimi-trehel") };
    let cluster = Cluster::start(network, 3, setting);
    let mut sessions: Vec<Session> = (0..3)
        .map(|site| Session::connect(&cluster.socket(site), "holder", &mut deadline()).unwrap())
        .collect();
    for (site, session) in sessions.iter_mut().enumerate() {
        let request = session.want(&format!("held-{site}")).unwrap();
        session.granted(request, &mut deadline()).unwrap();
    }
    for (turn, away) in [0, 0, 1].into_iter().enumerate() {
        let site = (cluster.leader() + away) % 3;
        let length = disturb(&cluster, disturbance, site, turn);
        let renewed = cluster.until(site, "its lease is renewed", |status| {
            status.lease_left.is_some_and(|left| left > Terms::default().longest_pause())
        });
        let lock = format!("held-{site}");
        let keeps = renewed.held.iter().any(|held| held.lock.as_str() == lock);
        eprintln!("site {site} was {disturbance:?} for {length:?} and keeps its lock: {keeps}");
        // On a busy machine it may have taken longer than its lease allows; what remains is for its first renewal.
        let is_judged = length + Span::from_millis(300) < Terms::default().longest_pause();
        assert!(keeps || !is_judged, "{lock} was lost after {length:?}");
        if !keeps {
            return;
        }
    }
}

#[test]
fn whoever_holds_a_lock_at_a_site_that_is_stopped_for_60_percent_of_a_lease_keeps_it() {
    keeps_its_locks(Network::loopback(), Disturbance::Stopped);
}

#[test]
fn whoever_holds_a_lock_at_a_site_that_is_cut_off_for_60_percent_of_a_lease_keeps_it() {
    let Some(network) = Network::namespaces(3) else { return };
    keeps_its_locks(network, Disturbance::CutOff);
}
