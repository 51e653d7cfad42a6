//! The cost of a lock whose token is at the program's own site: no message is sent and no task is switched.
//!
//! Run with `cargo bench -p meshlock --no-default-features --bench lock`; it should stay below a microsecond.

use divan::Bencher;
use meshlock::Node;

fn main() {
    divan::main();
}

#[divan::bench(sample_size = 1000)]
fn acquire_and_release(bencher: Bencher<'_, '_>) {
    let node = Node::local().expect("a node");
    drop(node.lock_blocking("jobs").expect("a lock"));
    bencher.bench_local(|| drop(node.lock_blocking("jobs").expect("a lock")));
}
