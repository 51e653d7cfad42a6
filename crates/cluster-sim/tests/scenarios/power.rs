//! How long a cluster takes to serve again after all its sites were killed at the same moment, in virtual time.

use meshlock_cluster::names::LockName;
use meshlock_cluster::time::Span;
use meshlock_testing::within_steps;

use crate::cluster::Cluster;

/// What is added to the length of a lease at most: the drift of clocks, an election and two views.
const A_LITTLE: Span = Span::from_millis(1000);

const STEP: Span = Span::from_millis(10);

#[test]
fn after_a_power_failure_a_lock_is_granted_when_the_old_leases_are_over_and_soon_after() {
    let lock: LockName = "jobs".parse().unwrap();
    for sites in [1, 2, 3, 5, 7] {
        for delay_ms in [0, 1, 20] {
            let mut cluster = Cluster::open(sites, "naimi-trehel");
            cluster.delay(Span::from_millis(delay_ms));
            let held = cluster.acquire(sites - 1, &lock);
            cluster.pass(Span::from_millis(500));
            assert!(cluster.is_granted(held));
            let (before, lease) = (cluster.nodes[0].view().epoch, cluster.nodes[0].lease().terms().length);
            let failed = cluster.now();
            cluster.fail_power();
            let wanted = cluster.acquire(0, &lock);
            let mut granted = false;
            within_steps("the lock is granted again", || {
                cluster.pass(STEP);
                granted |= cluster.is_granted(wanted);
                granted
            });
            let took = cluster.now().since(failed);
            let name = format!("{sites} sites, {delay_ms} ms: {took:?}");
            assert!(took > lease, "whoever held it was promised more time: {name}");
            assert!(took <= lease + A_LITTLE, "{name}");
            let view = cluster.nodes[0].view();
            assert!(view.epoch > before, "fences rise: {name}");
        }
    }
}
