//! Whether a client whose time is over is told of another holder or of an outage.

use super::*;

fn exclusive(members: usize) -> Tables {
    Tables::of(members, Clause::exclusive("naimi-trehel"))
}

/// Returns what the site said to the request, which has ended.
fn ended(tables: &Tables, request: u64) -> Result<LockEvent, Obstacle> {
    let of = |known: &Request| known.0 == request;
    let obstacle = tables.unavailable.iter().find(|(_, known, _)| of(known)).map(|(.., why)| why.clone());
    let told = tables.told.iter().rev().map(|(_, event)| event).find(
        |event| matches!(event, LockEvent::Busy { request } | LockEvent::TimedOut { request } if of(request)),
    );
    obstacle.map_or_else(
        || Ok(told.unwrap_or_else(|| panic!("it has not ended: {:?}", tables.told)).clone()),
        Err,
    )
}

#[test]
fn without_a_lease_or_a_view_nobody_is_told_that_someone_else_has_the_lock() {
    for wait in [Wait::Try, Wait::Within(Span::from_millis(5))] {
        let mut tables = exclusive(3);
        tables.lease_end = None;
        tables.acquire(1, 1, wait);
        tables.time(6);
        assert_eq!(ended(&tables, 1), Err(Obstacle::NoLease), "{wait:?}");
        let _ = tables.sites[1].stop();
        tables.acquire(1, 2, wait);
        tables.time(11);
        assert_eq!(ended(&tables, 2), Err(Obstacle::NoView), "{wait:?}");
    }
}

#[test]
fn a_client_that_waits_in_an_outage_is_no_contention_for_one_that_tries() {
    let mut tables = exclusive(3);
    tables.lease_end = None;
    tables.acquire(1, 1, Wait::Forever);
    tables.acquire(1, 2, Wait::Try);
    assert_eq!(tables.told, []);
    tables.time(6);
    assert_eq!(ended(&tables, 2), Err(Obstacle::NoLease));
}

#[test]
fn a_holder_that_is_known_is_the_reason_however_many_others_are_silent() {
    for (wait, event) in [
        (Wait::Try, LockEvent::Busy { request: Request(2) }),
        (Wait::Within(Span::from_millis(20)), LockEvent::TimedOut { request: Request(2) }),
    ] {
        let mut tables = exclusive(3);
        tables.acquire(0, 1, Wait::Forever);
        tables.silent.insert(2);
        tables.acquire(1, 2, wait);
        tables.time(16);
        tables.time(21);
        assert_eq!(ended(&tables, 2), Ok(event), "{wait:?}");
    }
}

#[test]
fn a_member_that_does_not_answer_and_may_have_the_lock_is_named() {
    for wait in [Wait::Try, Wait::Within(Span::from_millis(20))] {
        let mut tables = exclusive(3);
        tables.acquire(0, 1, Wait::Forever);
        tables.silent.insert(0);
        tables.acquire(1, 2, wait);
        tables.time(16);
        tables.time(21);
        assert_eq!(ended(&tables, 2), Err(Obstacle::Silent(vec![0])), "{wait:?}");
    }
}

#[test]
fn a_semaphore_is_taken_when_all_permits_are() {
    let mut tables = Tables::of(3, Clause { algorithm: "raymond-k".to_owned(), permits: 2, per_site: 1 });
    tables.acquire(0, 1, Wait::Try);
    tables.acquire(1, 2, Wait::Try);
    tables.acquire(2, 3, Wait::Try);
    assert_eq!(tables.told.last(), Some(&(2, LockEvent::Busy { request: Request(3) })));
    tables.told.clear();
    tables.release(0, 1);
    tables.acquire(2, 4, Wait::Try);
    assert_eq!(tables.granted(), [(2, 4)]);
}

#[test]
fn the_members_of_the_next_view_are_asked_again() {
    let mut tables = exclusive(3);
    tables.acquire(0, 1, Wait::Forever);
    tables.silent.extend([0, 2]);
    tables.acquire(1, 2, Wait::Try);
    assert_eq!(tables.told.len(), 1, "nothing but the grant: {:?}", tables.told);
    tables.silent.clear();
    tables.change_view(2, Clause::exclusive("naimi-trehel"));
    assert_eq!(ended(&tables, 2), Ok(LockEvent::Busy { request: Request(2) }));
}

#[test]
fn a_request_that_nobody_passes_on_is_not_called_contention() {
    let mut tables = exclusive(2);
    // The token is at the first site, idle.
    tables.acquire(0, 1, Wait::Try);
    tables.release(0, 1);
    tables.told.clear();
    let wanted = Acquire {
        session: Session(2),
        request: Request(2),
        lock: lock(),
        permits: 1,
        wait: Wait::Try,
        cause: None,
        demand: meshlock_protocol::Demand::PLAIN,
    };
    tables.act(1, |table, lease_clock, out| table.acquire(wanted, lease_clock, out));
    tables.wire.clear();
    tables.settle();
    tables.time(6);
    assert_eq!(ended(&tables, 2), Err(Obstacle::NoAnswer(Span::from_millis(5))));
}

#[test]
fn a_wait_that_is_shorter_than_replies_take_is_answered_when_they_come() {
    let mut tables = exclusive(2);
    tables.acquire(0, 1, Wait::Forever);
    tables.silent.insert(0);
    tables.acquire(1, 2, Wait::Within(Span::from_millis(1)));
    tables.time(3);
    assert_eq!(tables.told.len(), 1, "nothing but the grant: {:?}", tables.told);
    let report = tables.sites[0].report(&lock(), tables.now);
    tables.act(1, |table, lease_clock, out| table.on_report(0, &lock(), &report, lease_clock, out));
    assert_eq!(ended(&tables, 2), Ok(LockEvent::TimedOut { request: Request(2) }));
    // Without a reply it is an outage, when replies should have come.
    tables.acquire(1, 3, Wait::Within(Span::ZERO));
    tables.time(7);
    assert_eq!(tables.unavailable, []);
    tables.time(8);
    assert_eq!(ended(&tables, 3), Err(Obstacle::Silent(vec![0])));
    // At a site alone nobody has to be waited for.
    let mut alone = exclusive(1);
    alone.acquire(0, 1, Wait::Forever);
    alone.acquire(0, 2, Wait::Within(Span::ZERO));
    assert_eq!(ended(&alone, 2), Ok(LockEvent::TimedOut { request: Request(2) }));
}
