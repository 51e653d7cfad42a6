//! How long it takes until fresh sites are members of one view.

use meshlock_cluster::time::{Span, Time};

use crate::cluster::Cluster;

#[test]
fn fresh_sites_are_members_soon_after_the_first_election() {
    // An election begins after a second at the latest. Everything after it takes round trips, and here packets take no time.
    for sites in 1..=7 {
        let cluster = Cluster::open(sites, "naimi-trehel");
        let took = cluster.opened_at.since(Time::ZERO);
        assert!(took <= Span::from_millis(1300), "{sites} sites: {took:?}");
    }
}
