//! Which locks are shown, and in what order.

use meshlock_cluster::time::Span;

use super::*;

fn lock(name: &str, waiters: u64, waited: u64) -> LockSummary {
    LockSummary {
        lock: name.parse().unwrap(),
        algorithm: Some("naimi-trehel".to_owned()),
        permits: 1,
        holders: Vec::new(),
        holders_in_all: 0,
        waiters,
        waited: Span::from_millis(waited),
    }
}

fn page(locks: Vec<LockSummary>, is_last: bool) -> LockPage {
    let next = locks.last().filter(|_| !is_last).map(|last| last.lock.clone());
    LockPage { locks, next, missing: Vec::new() }
}

fn names(listing: &Listing) -> Vec<&str> {
    listing.locks.iter().map(|lock| lock.lock.as_str()).collect()
}

const ALL: Wanted = Wanted { waiting: false, held: false, sort: SortKey::Name, most: 3 };

#[test]
fn in_the_order_of_names_no_page_is_asked_for_that_is_not_shown() {
    let mut listing = Listing::default();
    assert!(
        listing.take(page(vec![lock("a", 0, 0), lock("b", 0, 0)], false), ALL),
        "there is room for one more"
    );
    assert!(!listing.take(page(vec![lock("c", 0, 0), lock("d", 0, 0)], false), ALL));
    assert_eq!(names(&listing), ["a", "b", "c"]);
    assert!(listing.says_more());
    let mut exact = Listing::default();
    assert!(!exact.take(page(vec![lock("a", 0, 0), lock("b", 0, 0), lock("c", 0, 0)], true), ALL));
    assert!(!exact.says_more(), "three are all that there are");
}

#[test]
fn in_any_other_order_all_pages_are_read_and_only_the_first_are_kept() {
    let by_waiters = Wanted { sort: SortKey::Waiters, most: 2, ..ALL };
    let mut listing = Listing::default();
    assert!(listing.take(page(vec![lock("a", 1, 50), lock("b", 9, 10), lock("c", 0, 0)], false), by_waiters));
    assert!(!listing.take(page(vec![lock("d", 5, 70)], true), by_waiters));
    assert_eq!((names(&listing), listing.left_out), (vec!["b", "d"], 2));
    let by_wait = Wanted { sort: SortKey::Waited, most: 2, ..ALL };
    let mut listing = Listing::default();
    listing.take(
        page(vec![lock("a", 1, 50), lock("b", 9, 10), lock("c", 0, 0), lock("d", 5, 70)], true),
        by_wait,
    );
    assert_eq!(names(&listing), ["d", "a"]);
}

#[test]
fn locks_that_nobody_waits_for_are_left_out_where_that_is_asked_for() {
    let waiting = Wanted { waiting: true, ..ALL };
    let mut listing = Listing::default();
    assert!(listing.take(page(vec![lock("a", 0, 0), lock("b", 2, 1)], false), waiting));
    assert!(!listing.take(page(vec![lock("c", 0, 0)], true), waiting));
    assert_eq!(names(&listing), ["b"]);
    assert!(!listing.says_more());
}
