//! Network partitions: two halves, a leader alone, one direction only, two sites only, and a ring.

use meshlock_testing::BoundedChild;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::cluster::{plain, tls};
use crate::herd::send;
use crate::insider::Insider;
use crate::network::Network;
use crate::trial::{SITES, Trial};

#[test]
fn a_minority_with_the_leader_is_split_off_and_comes_back() {
    let Some(network) = Network::namespaces(SITES) else { return };
    let mut trial = Trial::start("a split", network, tls("naimi-trehel"));
    let leader = trial.cluster.leader();
    let minority = [leader, (leader + 1) % 5];
    let majority = trial.cluster.all_but(&minority);
    trial.cluster.network.cut(&minority, &majority);
    trial.cluster.until_without(majority[0], &minority);
    trial.until_sites_served(&majority);
    for site in minority {
        trial.cluster.until_without_lease(site);
    }
    trial.cluster.network.heal();
    trial.end();
}

#[test]
fn the_leader_is_disconnected_while_its_clients_are_stopped_inside() {
    let Some(network) = Network::namespaces(SITES) else { return };
    let mut trial = Trial::start("a pulled cable", network, plain("tree-quorum"));
    let leader = trial.cluster.leader();
    let mut holder = Insider::enter(&trial.cluster, &trial.counter, leader, "holder");
    // Nobody but the site itself can end the command now, and it must before the others let someone in.
    send(&holder.run, Signal::STOP);
    kill_process_group(Pid::from_raw(holder.child).unwrap(), Signal::STOP).unwrap();
    trial.cluster.network.unplug(leader);
    let others = trial.cluster.all_but(&[leader]);
    trial.cluster.until_without(others[0], &[leader]);
    trial.until_sites_served(&others);
    send(&holder.run, Signal::CONT);
    assert_eq!(holder.run.wait_in_time().code(), Some(76), "its command was ended");
    trial.cluster.network.heal();
    trial.end();
}

#[test]
fn a_leader_that_can_only_send_is_replaced_and_so_is_one_that_can_only_receive() {
    let Some(network) = Network::namespaces(SITES) else { return };
    let mut trial = Trial::start("one-way cuts", network, tls("singhal-dynamic"));
    for deaf in [true, false] {
        let leader = trial.cluster.leader();
        let others = trial.cluster.all_but(&[leader]);
        for &other in &others {
            let (from, to) = if deaf { (other, leader) } else { (leader, other) };
            trial.cluster.network.cut_one_way(from, to);
        }
        trial.cluster.until_without(others[0], &[leader]);
        trial.until_sites_served(&others);
        trial.cluster.network.heal();
        trial.cluster.until_all_take_part();
    }
    trial.end();
}

#[test]
fn two_sites_cannot_reach_each_other_but_reach_all_others() {
    let Some(network) = Network::namespaces(SITES) else { return };
    let mut trial = Trial::start("a partial cut", network, plain("carvalho-roucairol"));
    let leader = trial.cluster.leader();
    let (one, other) = ((leader + 1) % 5, (leader + 2) % 5);
    // Two members, then the leader and a member; both ways, then each way alone. Others carry their packets, so that all are served.
    for (a, b) in [(one, other), (leader, one)] {
        trial.cluster.network.cut(&[a], &[b]);
        trial.until_sites_served(&trial.cluster.all_but(&[]));
        trial.cluster.network.heal();
        for (from, to) in [(a, b), (b, a)] {
            trial.cluster.network.cut_one_way(from, to);
            trial.until_sites_served(&trial.cluster.all_but(&[]));
            trial.cluster.network.heal();
        }
    }
    trial.end();
}

#[test]
fn only_neighbours_in_a_ring_reach_each_other() {
    let Some(network) = Network::namespaces(SITES) else { return };
    let mut trial = Trial::start("a ring", network, tls("majority"));
    for site in 0..SITES {
        trial.cluster.network.cut_one_way(site, (site + 2) % SITES);
        trial.cluster.network.cut_one_way((site + 2) % SITES, site);
    }
    // Of any two that do not reach each other, a neighbour of both carries the packets.
    trial.until_sites_served(&trial.cluster.all_but(&[]));
    trial.until_sites_served(&trial.cluster.all_but(&[]));
    trial.cluster.network.heal();
    trial.end();
}

#[test]
fn everything_at_once() {
    let Some(network) = Network::namespaces(SITES) else { return };
    let mut trial = Trial::start("everything at once", network, tls("lodha-kshemkalyani"));
    let leader = trial.cluster.leader();
    let [second, third, fourth, fifth] = [1, 2, 3, 4].map(|after| (leader + after) % 5);
    // The leader is cut off with another one, whose clients are stopped.
    trial.herd(second).signal(Signal::STOP);
    trial.cluster.network.cut(&[leader, second], &[third, fourth, fifth]);
    trial.cluster.until_without(third, &[leader, second]);
    trial.until_sites_served(&[third, fourth, fifth]);
    // Of the three that go on, one loses its clients, and one is killed: now nobody has a majority.
    trial.kill_herd(fourth);
    trial.cluster.kill(fifth);
    trial.cluster.until_without_lease(third);
    // The one that was cut off first is back, its clients go on, and another is stopped.
    trial.cluster.network.heal();
    trial.herd(second).signal(Signal::CONT);
    trial.cluster.signal(fourth, Signal::STOP);
    trial.cluster.until_without(third, &[fourth, fifth]);
    trial.until_sites_served(&[leader, second, third]);
    trial.cluster.start_site(fifth);
    trial.cluster.signal(fourth, Signal::CONT);
    trial.start_herd(fourth);
    trial.cluster.network.cut_one_way(third, leader);
    trial.until_sites_served(&[leader, second, third]);
    trial.cluster.network.heal();
    trial.end();
}
