//! When the next client gets a lock whose holder was killed.

use std::time::Duration;

use meshlock_cluster::lease::Terms;
use meshlock_cluster::time::{Span, Time};
use meshlock_system::now;
use meshlock_wire::clients::ToClient;

use crate::cluster::{Cluster, Setting, TERMS, plain, tls};
use crate::counter::Counter;
use crate::herd::LOCK;
use crate::insider::Insider;
use crate::network::Network;
use crate::session::{Grant, Session, deadline};

/// The bits of a fence above these are the number of its view.
const EPOCH_SHIFT: u32 = 40;

fn connect(cluster: &Cluster, site: usize) -> Session {
    Session::connect(&cluster.socket(site), "test", &mut deadline()).unwrap()
}

/// Returns the end of the lease that a client was told last. Reads what its node sent until the node is gone.
fn promised(session: &mut Session, grant: Grant) -> Time {
    let (mut until, mut is_over) = (grant.until, deadline());
    loop {
        match session.receive(&mut is_over) {
            Ok(ToClient::Extended { lease_end }) => until = session.local(lease_end),
            Ok(said) => panic!("nothing was lost: {said:?}"),
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => panic!("its node is still there"),
            Err(_) => return until,
        }
    }
}

fn micros(span: Span) -> Duration {
    Duration::from_micros(span.micros())
}

#[test]
fn a_killed_clients_lock_is_free_at_once_and_without_a_new_view() {
    // A wait for the end of a lease would take longer than this test may.
    let terms = Terms { length: Span::from_millis(3_600_000), ..TERMS };
    let cluster = Cluster::start(Network::loopback(), 3, Setting { terms, ..tls("naimi-trehel") });
    let counter = Counter::new(&cluster.home().join("shared"));
    for site in 0..3 {
        let holder = Insider::enter(&cluster, &counter, site, "holder");
        let mut waiter = connect(&cluster, (site + 1) % 3);
        let request = waiter.want(LOCK).unwrap();
        cluster.until((site + 1) % 3, "its client waits", |status| status.waiters == 1);
        let epoch = cluster.status(site).unwrap().view.epoch.number();
        let killed = now();
        holder.kill(&counter);
        let grant = waiter.granted(request, &mut deadline()).unwrap();
        eprintln!("a killed client's lock was another site's {:?} later", micros(now().since(killed)));
        assert_eq!(
            grant.fence >> EPOCH_SHIFT,
            i64::from(epoch),
            "nobody had to be left out of the view for it"
        );
    }
}

/// Kills the site of a holder while a client of another site waits. Returns when the site was killed, the end of the lease that the
/// holder was told last, and when the other client got the lock.
fn take_over(cluster: &mut Cluster, holders: usize, restart: bool) -> (Time, Time, Time) {
    let (mut holder, mut waiter) = (connect(cluster, holders), connect(cluster, (holders + 1) % 3));
    let request = holder.want(LOCK).unwrap();
    let held = holder.granted(request, &mut deadline()).unwrap();
    let request = waiter.want(LOCK).unwrap();
    cluster.until((holders + 1) % 3, "its client waits", |status| status.waiters == 1);
    let killed = now();
    cluster.kill(holders);
    if restart {
        cluster.start_site(holders);
    }
    let until = promised(&mut holder, held);
    let grant = waiter.granted(request, &mut deadline()).unwrap();
    let granted = now();
    assert!(grant.fence > held.fence);
    assert!(until > killed, "its lease was being renewed");
    (killed, until, granted)
}

#[test]
fn a_killed_sites_lock_is_free_when_its_lease_is_over_and_not_a_moment_earlier() {
    let mut cluster = Cluster::start(Network::loopback(), 3, plain("naimi-trehel"));
    for (round, restart) in [(0, false), (1, true), (2, false), (3, true)] {
        let leader = cluster.leader();
        let holder = if round < 2 { (leader + 1) % 3 } else { leader };
        let (killed, until, granted) = take_over(&mut cluster, holder, restart);
        assert!(granted >= until, "granted {:?} before the holder's lease was over", until.since(granted));
        eprintln!(
            "{} was killed{}: its lock was another site's {:?} later, {:?} after the lease's end (a lease is {:?})",
            if holder == leader { "the leader" } else { "a member" },
            if restart { " and started again at once" } else { "" },
            micros(granted.since(killed)),
            micros(granted.since(until)),
            micros(TERMS.length),
        );
        if !restart {
            cluster.start_site(holder);
        }
        cluster.until_all_take_part();
    }
}
