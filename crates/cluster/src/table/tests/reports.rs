//! Reports of a table about its locks, and locks that are taken away.

use super::*;
use crate::rules::Rules;

fn label(text: &str) -> ClientLabel {
    text.parse().unwrap()
}

#[test]
fn a_report_contains_clients_and_how_long_they_hold_and_wait() {
    let mut tables = Tables::of(2, Clause::exclusive("raymond"));
    tables.act(0, |table, _, _| table.introduce(Session(1), label("backup.sh"), Span::ZERO));
    tables.acquire(0, 1, Wait::Forever);
    tables.time(20);
    tables.acquire(0, 2, Wait::Forever);
    tables.acquire(1, 3, Wait::Forever);
    tables.time(50);
    let here = tables.sites[0].report(&lock(), tables.now);
    let [holder] = &here.holders[..] else { panic!("one holder: {here:?}") };
    assert_eq!((holder.label.clone(), holder.age.micros()), (Some(label("backup.sh")), 49_000));
    assert_eq!(
        here.waiters,
        [WaiterReport { label: None, age: Span::from_millis(30), demand: meshlock_protocol::Demand::PLAIN }]
    );
    assert_eq!(here.machines, Machinery::Running { idle: 0, waiting: 0, executing: 1 });
    let there = tables.sites[1].report(&lock(), tables.now);
    assert_eq!((there.holders_in_all, there.waiters_in_all), (0, 1));
    assert_eq!(there.machines, Machinery::Running { idle: 0, waiting: 1, executing: 0 });
    let counts = tables.sites[0].counts();
    assert_eq!(counts, Counts { locks: 1, holders: 1, waiters: 1, sessions: 2 });
}

#[test]
fn a_name_is_forgotten_with_its_session_and_not_before() {
    let mut tables = Tables::of(1, Clause::exclusive("central"));
    tables.act(0, |table, _, _| table.introduce(Session(1), label("backup.sh"), Span::ZERO));
    tables.acquire(0, 1, Wait::Forever);
    tables.release(0, 1);
    assert_eq!(tables.sites[0].counts().sessions, 1);
    tables.act(0, |table, lease_clock, out| table.on_session_ended(Session(1), lease_clock, out));
    assert_eq!(tables.sites[0].counts().sessions, 0);
}

#[test]
fn a_report_is_limited_in_length_and_contains_the_total() {
    let mut tables = Tables::of(1, Clause::shared("raymond-k", 300));
    let (holders, waiters) = (Rules::MAX_PER_SITE as usize, 2 * MAX_LISTED);
    for request in 0..(holders + waiters) as u64 {
        tables.acquire(0, request, Wait::Forever);
    }
    let report = tables.sites[0].report(&lock(), tables.now);
    assert_eq!((report.holders.len(), report.holders_in_all), (MAX_LISTED, holders as u64));
    assert_eq!((report.waiters.len(), report.waiters_in_all), (MAX_LISTED, waiters as u64));
    assert!(report.is_bounded());
    let lying = LockReport { holders_in_all: 3, ..report.clone() };
    assert!(!lying.is_bounded());
    let holder = report.holders[0].clone();
    let endless = LockReport { holders: vec![holder; MAX_LISTED + 1], holders_in_all: 300, ..report };
    assert!(!endless.is_bounded());
    assert_eq!(tables.sites[0].held(tables.now).len(), MAX_LISTED);
}

/// Takes the lock away at every site, and returns the number of former holders at each.
fn take_away(tables: &mut Tables) -> Vec<usize> {
    let mut cut_off = Vec::new();
    for at in 0..tables.sites.len() {
        tables.act(at, |table, lease_clock, out| {
            cut_off.push(table.take_away(&lock(), lease_clock, out).len());
        });
    }
    tables.settle();
    cut_off
}

#[test]
fn a_lock_that_is_taken_away_is_free_when_its_holders_time_to_stop_is_over() {
    let mut tables = Tables::of(2, Clause::exclusive("naimi-trehel"));
    tables.acquire(0, 1, Wait::Forever);
    tables.acquire(0, 2, Wait::Forever);
    tables.acquire(1, 3, Wait::Forever);
    tables.time(10);
    assert_eq!(take_away(&mut tables), [1, 0]);
    assert_eq!(
        tables.told.last(),
        Some(&(0, LockEvent::Lost { request: Request(1), act_by: at(210), why: LossReason::Broken }))
    );
    // Once more: the holder is not told again and does not get more time.
    tables.time(20);
    assert_eq!(take_away(&mut tables), [1, 0]);
    tables.time(209);
    assert_eq!(tables.granted(), [(0, 1)]);
    tables.time(210);
    assert_eq!(tables.granted(), [(0, 2)], "the next one has it, and for as long as it likes");
    tables.time(500);
    tables.release(0, 2);
    assert_eq!(tables.granted(), [(1, 3)]);
}

#[test]
fn a_lock_of_a_client_that_may_not_hear_is_free_when_it_has_certainly_stopped_by_itself() {
    let mut tables = Tables::of(1, Clause::exclusive("naimi-trehel"));
    let far = Span::from_millis(300);
    tables.act(0, |table, _, _| table.introduce(Session(1), label("far"), far));
    tables.acquire(0, 1, Wait::Forever);
    tables.acquire(0, 2, Wait::Forever);
    tables.time(10);
    assert_eq!(take_away(&mut tables), [1]);
    assert_eq!(
        tables.told.last(),
        Some(&(0, LockEvent::Lost { request: Request(1), act_by: at(310), why: LossReason::Broken }))
    );
    tables.time(309);
    assert_eq!(tables.granted(), [(0, 1)]);
    tables.time(310);
    assert_eq!(tables.granted(), [(0, 2)]);
}

#[test]
fn a_holder_that_stops_when_it_is_told_to_frees_the_lock_at_once() {
    let mut tables = Tables::of(2, Clause::exclusive("lamport"));
    tables.acquire(0, 1, Wait::Forever);
    tables.acquire(1, 3, Wait::Forever);
    take_away(&mut tables);
    tables.release(0, 1);
    assert_eq!(tables.granted(), [(0, 1), (1, 3)]);
    assert_eq!(tables.sites[0].next_due(), None, "nothing is left to be done about the one that stopped");
}

#[test]
fn a_lock_that_is_taken_away_in_a_view_change_is_free_in_the_next_view_and_not_before_its_time() {
    let mut tables = Tables::of(2, Clause::exclusive("maekawa"));
    tables.acquire(0, 1, Wait::Forever);
    tables.acquire(1, 3, Wait::Forever);
    let census: Vec<Census> = tables.sites.iter_mut().map(LockTable::stop).collect();
    tables.wire.clear();
    assert_eq!(take_away(&mut tables), [1, 0]);
    tables.open(2, Clause::exclusive("lamport"), &census);
    tables.time(200);
    assert_eq!(tables.granted(), [(0, 1)]);
    tables.time(201);
    assert_eq!(tables.granted(), [(1, 3)]);
}

#[test]
fn a_break_does_not_change_the_time_that_a_lease_end_has_set() {
    let mut tables = Tables::of(1, Clause::exclusive("central"));
    tables.acquire(0, 1, Wait::Forever);
    tables.time(900);
    tables.lease_end = None;
    tables.act(0, |table, clock, out| table.on_notice(at(1000), clock.now, out));
    take_away(&mut tables);
    let lost = |(_, tell): &&(usize, LockEvent)| matches!(tell, LockEvent::Lost { .. });
    assert_eq!(tables.told.iter().filter(lost).count(), 1);
    tables.time(1000);
    assert!(!tables.sites[0].holds_anything());
}

#[test]
fn a_site_takes_everything_away_from_its_own_clients_and_from_no_others() {
    let mut tables = Tables::of(2, Clause::shared("raymond-k", 3));
    tables.acquire(0, 1, Wait::Forever);
    tables.acquire(0, 2, Wait::Forever);
    tables.acquire(1, 3, Wait::Forever);
    tables.time(10);
    tables.act(0, LockTable::take_all_away);
    let lost: Vec<(usize, LockEvent)> =
        tables.told.iter().filter(|(_, tell)| matches!(tell, LockEvent::Lost { .. })).cloned().collect();
    let told = |request| {
        (0, LockEvent::Lost { request: Request(request), act_by: at(210), why: LossReason::Leaving })
    };
    assert_eq!(lost, [told(1), told(2)]);
    tables.time(210);
    assert!(!tables.sites[0].holds_anything() && tables.sites[1].holds_anything());
}
