//! What does not depend on how many locks are held: counted, not timed.

use super::*;
use crate::table::clients::visits;

fn name(number: u64) -> LockName {
    format!("held/{number}").parse().unwrap()
}

/// Returns tables whose first site has a client that holds this many locks.
fn holding(held: u64) -> Tables {
    let mut tables = Tables::of(3, Clause::exclusive("naimi-trehel"));
    for number in 0..held {
        tables.sites.iter_mut().for_each(|table| table.table_config.max_locks = 10_000);
        tables.ask_for(&name(number), 0, 100 + number, 1, Wait::Forever);
    }
    assert_eq!(tables.granted().len() as u64, held);
    tables
}

/// Returns the number of locks that were looked at while the first site did this, and its number of outputs.
fn visited(
    tables: &mut Tables,
    act: impl FnOnce(&mut LockTable, LeaseClock, &mut Vec<TableOutput>),
) -> (u64, usize) {
    let lease_clock = LeaseClock { now: tables.now, lease_end: tables.lease_end };
    let (mut out, before) = (Vec::new(), visits::count());
    act(&mut tables.sites[0], lease_clock, &mut out);
    (visits::count() - before, out.len())
}

#[test]
fn a_renewal_visits_no_lock_and_says_one_thing_however_many_are_held() {
    for held in [1, 2_000] {
        let mut tables = holding(held);
        let renewed = visited(&mut tables, |table, lease_clock, out| {
            table.on_extended(at(2000), lease_clock, out);
        });
        assert_eq!(renewed, (0, 1), "{held} held");
    }
    assert_eq!(
        visited(&mut holding(0), |table, lease_clock, out| table.on_extended(at(2000), lease_clock, out)),
        (0, 0),
        "nobody wants to know"
    );
}

#[test]
fn an_input_visits_as_many_locks_among_thousands_as_among_none() {
    let costs = [0, 2_000].map(|held| {
        let mut tables = holding(held);
        let wanted = Acquire {
            session: Session(1),
            request: Request(1),
            lock: lock(),
            permits: 1,
            wait: Wait::Forever,
            cause: None,
            demand: meshlock_protocol::Demand::PLAIN,
        };
        let acquired =
            visited(&mut tables, |table, lease_clock, out| table.acquire(wanted, lease_clock, out));
        let looked = visited(&mut tables, |table, lease_clock, out| {
            table.on_time(lease_clock, out);
            assert!(!table.wants_fresh_view(lease_clock.now) && table.has_room(&lock()));
            assert_eq!(table.holds_anything(), table.granted() > 0);
            let _ = (table.next_due(), table.tallied());
        });
        assert_eq!(looked, (0, 0));
        (acquired.0, looked)
    });
    assert_eq!(costs[0], costs[1]);
}

#[test]
fn only_locks_for_whose_waiters_nothing_was_asked_are_visited_by_a_renewal() {
    let mut tables = holding(1_000);
    tables.lease_end = None;
    for request in [2001, 2002] {
        tables.ask_for(&format!("wanted/{request}").parse().unwrap(), 0, request, 1, Wait::Forever);
    }
    assert_eq!(tables.granted(), []);
    tables.lease_end = Some(at(3000));
    let (visits, _) = visited(&mut tables.clone_first(), |table, lease_clock, out| {
        table.on_extended(at(3000), lease_clock, out);
    });
    assert!((1..100).contains(&visits), "{visits}");
    tables.act(0, |table, lease_clock, out| table.on_extended(at(3000), lease_clock, out));
    tables.settle();
    assert_eq!(tables.granted(), [(0, 2001), (0, 2002)]);
}

#[test]
fn a_lock_that_is_held_elsewhere_takes_part_when_it_is_first_used() {
    let mut tables = holding(20);
    tables.change_view(2, Clause::exclusive("naimi-trehel"));
    assert_eq!(tables.sites[1].counts().locks, 0, "only remembered");
    assert_eq!(tables.sites[1].elsewhere.len(), 20);
    tables.ask_for(&name(7), 1, 1, 1, Wait::Forever);
    tables.ask_for(&name(7), 2, 2, 1, Wait::Forever);
    assert_eq!(tables.granted(), []);
    tables.release(0, 107);
    assert_eq!(tables.granted(), [(1, 1)]);
    tables.release(1, 1);
    assert_eq!(tables.granted(), [(2, 2)]);
    assert_eq!(tables.sites[1].elsewhere.len(), 19);
    let report = tables.sites[2].report(&name(3), tables.now);
    assert_eq!(report.machines, Machinery::Running { idle: 1, waiting: 0, executing: 0 });
    let report = tables.sites[0].report(&name(3), tables.now);
    assert_eq!(report.machines, Machinery::Running { idle: 0, waiting: 0, executing: 1 });
}

#[test]
fn a_site_that_is_full_accepts_messages_about_locks_that_were_held_when_the_view_opened() {
    let mut tables = holding(30);
    tables.change_view(2, Clause::exclusive("naimi-trehel"));
    tables.sites[1].table_config.max_locks = 0;
    assert!(tables.sites[1].has_room(&name(3)) && !tables.sites[1].has_room(&lock()));
    tables.ask_for(&name(3), 1, 1, 1, Wait::Forever);
    assert_eq!(tables.told, [], "it waits");
}

#[test]
fn what_is_lost_is_not_counted_as_held_and_a_renewal_does_not_give_it_back() {
    let mut tables = holding(3);
    tables.act(0, |table, lease_clock, out| drop(table.take_away(&name(1), lease_clock, out)));
    tables.act(0, |table, lease_clock, out| table.on_extended(at(2000), lease_clock, out));
    let extended = LockEvent::Extended { lease_end: at(2000) };
    assert_eq!(tables.told.last(), Some(&(0, extended)), "two are held");
    let revived = mutant::with(Mutant::RenewalRevivesLost, || {
        let mut first = tables.clone_first();
        let lease_clock = LeaseClock { now: tables.now, lease_end: tables.lease_end };
        first.sites[0].on_extended(at(2000), lease_clock, &mut Vec::new());
        first.sites[0].check_invariants()
    });
    assert!(revived.is_err(), "the mutant is caught");
    tables.time(500);
    assert_eq!(tables.sites[0].counts().holders, 2, "it is free when its time is over");
}
