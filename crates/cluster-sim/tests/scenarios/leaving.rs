//! How long sites take that leave together, in virtual time.

use meshlock_cluster::node::{ClientCall, Input};
use meshlock_cluster::table::Request;
use meshlock_cluster::time::Span;

use crate::cluster::Cluster;

/// Orders in which three sites are told to leave; one of them leads.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// Within this time all sites have left that are told so at about the same time: far less than a lease or an election takes.
const ALL_WITHIN_MS: u64 = 200;

#[test]
fn sites_that_are_all_stopped_at_once_need_not_wait_for_each_other() {
    for order in ORDERS {
        for apart_ms in [0, 5, 20] {
            let mut cluster = Cluster::open(3, "naimi-trehel");
            for at in order {
                let request = Request(1000 + at as u64);
                cluster.input(at, Input::Call(ClientCall::Leave { request }));
                if apart_ms > 0 {
                    cluster.settle();
                    cluster.pass(Span::from_millis(apart_ms));
                }
            }
            cluster.settle();
            cluster.pass(Span::from_millis(ALL_WITHIN_MS));
            assert_eq!(cluster.gone.len(), 3, "{order:?}, {apart_ms} ms apart: some still wait to leave");
        }
    }
}

#[test]
fn one_site_that_leaves_does_not_wait_long_for_others_to_leave_too() {
    for at in 0..3 {
        let mut cluster = Cluster::open(3, "naimi-trehel");
        cluster.input(at, Input::Call(ClientCall::Leave { request: Request(1000) }));
        cluster.settle();
        cluster.pass(Span::from_millis(ALL_WITHIN_MS));
        assert_eq!(cluster.gone.iter().copied().collect::<Vec<_>>(), [at]);
    }
}
