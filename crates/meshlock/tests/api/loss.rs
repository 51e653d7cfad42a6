//! Several locks that were acquired together are lost together.

use meshlock::{LossReason, Node};
use meshlock_testing::{blocking_test, joined};

#[test]
fn the_loss_of_one_of_several_locks_is_told_with_its_reason() {
    blocking_test(|| {
        let node = Node::local().unwrap();
        let guards = node.lock_all_blocking(["a", "b", "c"]).unwrap();
        assert!(guards.loss().is_none() && !guards.is_lost());
        // It borrows nothing: another thread waits for it.
        let lost = guards.lost();
        let watcher = std::thread::spawn(move || meshlock::block_on(lost));
        let front = node.front();
        let broken = meshlock::block_on(front.break_lock(&front.in_process(), "b".parse().unwrap())).unwrap();
        assert_eq!(broken.cut_off.len(), 1);
        assert_eq!(joined("the loss", watcher).reason, LossReason::Broken);
        assert_eq!(guards.wait_until_lost().reason, LossReason::Broken);
        assert_eq!(guards.loss().unwrap().reason, LossReason::Broken);
        let lost: Vec<&str> =
            guards.iter().filter(|guard| guard.loss().is_some()).map(meshlock::Guard::name).collect();
        assert_eq!(lost, ["b"]);
    });
}

#[test]
fn guards_that_are_dropped_complete_what_waits_for_their_loss() {
    blocking_test(|| {
        let node = Node::local().unwrap();
        let guards = node.lock_all_blocking(["a", "b"]).unwrap();
        let lost = guards.lost();
        drop(guards);
        assert_eq!(meshlock::block_on(lost).reason, LossReason::Released);
    });
}
