//! What is kept of the changes of locks while somebody asks for them.

use super::*;
use crate::mutant::is_caught_by;
use crate::names::Incarnation;
use crate::report::{ChangeCursor, SiteChanges};

const ME: Incarnation = Incarnation::new(7);

impl Tables {
    fn changes(&mut self, after: Option<ChangeCursor>) -> SiteChanges {
        let now = self.now;
        self.sites[0].changes_after(after, ME, now)
    }
}

/// Returns what happened, and to whom.
fn told(changes: &SiteChanges) -> Vec<(&'static str, String)> {
    let who = |label: &Option<ClientLabel>| label.as_ref().map(ToString::to_string).unwrap_or_default();
    changes.changes.iter().map(|change| (change.kind.name(), who(&change.who))).collect()
}

fn tables() -> Tables {
    let mut tables = Tables::of(1, Clause::exclusive("naimi-trehel"));
    for session in [1, 2] {
        let label = format!("client {session}").parse().unwrap();
        tables.act(0, |table, _, _| table.introduce(Session(session), label, Span::ZERO));
    }
    tables
}

#[test]
fn nothing_is_kept_before_somebody_asks_and_everything_from_then_on() {
    let mut tables = tables();
    tables.acquire(0, 1, Wait::Forever);
    tables.release(0, 1);
    assert!(tables.sites[0].changes.is_none());
    let begun = tables.changes(None);
    assert_eq!((&begun.changes[..], begun.missed), (&[][..], 0));
    tables.acquire(0, 1, Wait::Forever);
    tables.acquire(0, 2, Wait::Forever);
    tables.time(10);
    tables.release(0, 1);
    let changes = tables.changes(Some(begun.cursor));
    let [one, two] = ["client 1", "client 2"].map(str::to_owned);
    assert_eq!(told(&changes), [("acquired", one.clone()), ("released", one), ("acquired", two)]);
    assert_eq!(changes.changes[0].ago, Span::from_millis(9));
    assert!(changes.changes[2].fence > changes.changes[0].fence);
    assert_eq!(told(&tables.changes(Some(changes.cursor))), []);
}

#[test]
fn a_broken_lock_and_one_that_the_site_could_not_keep_are_told_apart_and_released_when_the_client_has_stopped()
 {
    let mut tables = tables();
    let begun = tables.changes(None);
    tables.acquire(0, 1, Wait::Forever);
    tables.act(0, |table, lease_clock, out| drop(table.take_away(&lock(), lease_clock, out)));
    // Once more: nothing more happens.
    tables.act(0, |table, lease_clock, out| drop(table.take_away(&lock(), lease_clock, out)));
    tables.release(0, 1);
    tables.acquire(0, 2, Wait::Forever);
    tables.act(0, |table, clock, out| table.on_notice(at(1000), clock.now, out));
    tables.act(0, |table, lease_clock, out| table.on_session_ended(Session(2), lease_clock, out));
    let changes = tables.changes(Some(begun.cursor));
    let kinds: Vec<&str> = changes.changes.iter().map(|change| change.kind.name()).collect();
    assert_eq!(kinds, ["acquired", "broken", "released", "acquired", "lost", "released"]);
    assert!(changes.changes.iter().all(|change| change.who.is_some()), "{:?}", told(&changes));
}

#[test]
fn an_excluded_site_has_lost_and_released_everything() {
    let mut tables = tables();
    let begun = tables.changes(None);
    tables.acquire(0, 1, Wait::Forever);
    let now = tables.now;
    tables.act(0, |table, _, out| drop(table.stop_and_lose(now, out)));
    let changes = tables.changes(Some(begun.cursor));
    assert_eq!(
        changes.changes.iter().map(|change| change.kind.name()).collect::<Vec<_>>(),
        ["acquired", "lost", "released"]
    );
}

impl LockTable {
    /// Ends this incarnation of the site: its machines stop, and everything is lost.
    fn stop_and_lose(&mut self, now: Time, out: &mut Vec<TableOutput>) -> Census {
        self.lose_all(now, out);
        self.stop()
    }
}

fn a_slow_reader_is_told_how_many_it_has_missed() {
    let mut tables = tables();
    let begun = tables.changes(None);
    for request in 0..3000 {
        tables.acquire(0, 10 + request, Wait::Forever);
        tables.release(0, 10 + request);
    }
    let first = tables.changes(Some(begun.cursor));
    assert_eq!((first.missed, first.changes.len(), first.more), (6000 - 4096, 500, true));
    let (mut read, mut after) = (first.changes.len(), first.cursor);
    for _ in 0..10 {
        let next = tables.changes(Some(after));
        assert_eq!(next.missed, 0);
        (read, after) = (read + next.changes.len(), next.cursor);
        if !next.more {
            break;
        }
    }
    assert_eq!(read, 4096);
    // Who asks about an earlier incarnation of the site does not know what has happened since.
    let earlier = ChangeCursor { incarnation: Incarnation::new(3), ..after };
    assert_eq!(tables.changes(Some(earlier)).missed, 1);
}

#[test]
fn a_reader_that_is_too_slow_costs_nobody_anything_and_is_told_what_it_has_missed() {
    is_caught_by(Mutant::MissedChangesNotTold, a_slow_reader_is_told_how_many_it_has_missed);
}

#[test]
fn nothing_is_kept_when_nobody_has_asked_for_ten_seconds_and_who_comes_back_later_is_told() {
    let mut tables = tables();
    let begun = tables.changes(None);
    tables.lease_end = Some(at(60_000));
    tables.time(9_000);
    let now = tables.now;
    tables.sites[0].drop_unwanted_changes(now);
    assert_eq!(tables.changes(Some(begun.cursor)).missed, 0);
    tables.time(19_000);
    let now = tables.now;
    tables.sites[0].drop_unwanted_changes(now);
    assert!(tables.sites[0].changes.is_none());
    tables.acquire(0, 1, Wait::Forever);
    assert_eq!(tables.changes(Some(begun.cursor)).missed, 1, "at least one");
}
