//! What a site adds to a page of all locks.

use super::*;
use crate::mutant::is_caught_by;
use crate::report::{LockEntry, NameFilter, PageQuestion};
use crate::rules::Pattern;

fn question(limit: u32) -> PageQuestion {
    PageQuestion { names: NameFilter::default(), after: None, limit }
}

fn names(entries: &[LockEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.lock.as_str()).collect()
}

/// Two sites; clients of the first one use these locks, and one has been released.
fn used() -> Tables {
    let mut tables = Tables::of(2, Clause::exclusive("naimi-trehel"));
    for (request, lock) in [(1, "b"), (2, "a"), (3, "d"), (4, "c"), (5, "e")] {
        tables.ask_for(&lock.parse().unwrap(), 0, request, 1, Wait::Forever);
    }
    tables.release(0, 4);
    tables
}

#[test]
fn locks_in_use_are_listed_in_the_order_of_their_names_and_idle_ones_are_not() {
    let mut tables = used();
    tables.time(20);
    tables.ask_for(&"b".parse().unwrap(), 0, 6, 1, Wait::Forever);
    tables.time(50);
    let (entries, more) = tables.sites[0].page(&question(3), tables.now);
    assert_eq!((names(&entries), more), (vec!["a", "b", "d"], true));
    let b = &entries[1];
    assert_eq!((b.permits, b.holders_in_all, b.waiters), (1, 1, 1));
    assert_eq!((b.holders[0].age, b.waited), (Span::from_millis(49), Span::from_millis(30)));
    let after = PageQuestion { after: Some("b".parse().unwrap()), ..question(3) };
    let (entries, more) = tables.sites[0].page(&after, tables.now);
    assert_eq!((names(&entries), more), (vec!["d", "e"], false));
    assert_eq!(tables.sites[1].page(&question(3), tables.now).0, [], "the other site has no client");
}

#[test]
fn a_waiter_at_another_site_is_listed_there() {
    let mut tables = used();
    tables.ask_for(&"d".parse().unwrap(), 1, 9, 1, Wait::Forever);
    let (entries, _) = tables.sites[1].page(&question(10), tables.now);
    assert_eq!((names(&entries), entries[0].holders_in_all, entries[0].waiters), (vec!["d"], 0, 1));
}

fn nobody_is_listed_what_it_may_not_see() {
    let tables = used();
    let pattern = |text| Pattern::parse(text).unwrap();
    let names_of = |pattern, visible| {
        let names = NameFilter { pattern, visible };
        let (entries, more) = tables.sites[0].page(&PageQuestion { names, ..question(2) }, tables.now);
        (entries.iter().map(|entry| entry.lock.to_string()).collect::<Vec<_>>(), more)
    };
    let found = |names: &[&str]| (names.iter().map(ToString::to_string).collect::<Vec<_>>(), false);
    assert_eq!(names_of(None, Some(vec![pattern("d"), pattern("e*")])), found(&["d", "e"]));
    assert_eq!(names_of(Some(pattern("e*")), Some(vec![pattern("d")])), found(&[]));
    assert_eq!(names_of(None, Some(Vec::new())), found(&[]));
    assert_eq!(names_of(Some(pattern("e")), None), found(&["e"]));
}

#[test]
fn a_caller_is_listed_nothing_that_it_may_not_see_and_its_cursor_is_no_such_name() {
    is_caught_by(Mutant::InvisibleListed, nobody_is_listed_what_it_may_not_see);
}

#[test]
fn the_clients_of_a_semaphore_are_one_entry_with_its_number_of_permits() {
    let mut tables = Tables::of(1, Clause::shared("raymond-k", 20));
    for request in 0..23 {
        tables.acquire(0, request, Wait::Forever);
    }
    let (entries, _) = tables.sites[0].page(&question(10), tables.now);
    let [pool] = &entries[..] else { panic!("one lock: {entries:?}") };
    assert_eq!((pool.permits, pool.holders.len(), pool.holders_in_all, pool.waiters), (20, 8, 20, 3));
}
