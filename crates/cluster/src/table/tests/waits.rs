//! What a site says of the parties that hold something and wait for something else, and how it refuses one.

use super::*;
use crate::report::{Party, PartyWaits};

/// Two sites whose rule for `jobs` says that deadlocks are refused. The sessions 1 and 2 of the first one are parties.
fn tables() -> Tables {
    let mut tables = Tables::of(2, Clause::exclusive("naimi-trehel:on-deadlock=refuse"));
    for session in [1, 2] {
        tables.act(0, |table, _, _| {
            let label = format!("client {session}").parse().unwrap();
            table.introduce(Session(session), label, Span::ZERO);
            table.join_party(Session(session), Party(session));
        });
    }
    tables.lease_end = Some(at(60_000));
    tables
}

impl Tables {
    fn ask_as(&mut self, session: u64, request: u64, lock: &str) {
        let (session, request, lock) = (Session(session), Request(request), lock.parse().unwrap());
        let wanted = Acquire {
            session,
            request,
            lock,
            permits: 1,
            wait: Wait::Forever,
            demand: meshlock_protocol::Demand::PLAIN,
            cause: None,
        };
        self.act(0, |table, lease_clock, out| table.acquire(wanted, lease_clock, out));
        self.settle();
    }

    fn waits(&self) -> Vec<PartyWaits> {
        let lease_clock = LeaseClock { now: self.now, lease_end: self.lease_end };
        self.sites[0].waits(lease_clock).0
    }

    fn has_long_waits(&self) -> bool {
        let lease_clock = LeaseClock { now: self.now, lease_end: self.lease_end };
        self.sites[0].has_long_waits(Span::from_millis(1000), lease_clock)
    }
}

#[test]
fn only_parties_that_hold_something_and_wait_for_something_are_listed() {
    let mut tables = tables();
    tables.ask_as(1, 11, "other");
    tables.ask_as(2, 21, "jobs");
    assert_eq!(tables.waits(), [], "nobody waits");
    tables.ask_as(3, 31, "jobs");
    assert_eq!(tables.waits(), [], "the session 3 is no party, and holds nothing");
    tables.time(10);
    tables.ask_as(1, 12, "jobs");
    tables.time(40);
    let waits = tables.waits();
    let [one] = &waits[..] else { panic!("one party: {waits:?}") };
    assert_eq!(
        (one.party, one.who.as_ref().map(ToString::to_string)),
        (Party(1), Some("client 1".to_owned()))
    );
    let (wait, hold) = (&one.waits[0], &one.holds[0]);
    assert_eq!((wait.request, wait.lock.as_str(), wait.waited), (12, "jobs", Span::from_millis(30)));
    assert!(wait.is_refusable);
    assert_eq!((hold.lock.as_str(), hold.held), ("other", Span::from_millis(39)));
    // What was lost is given up for certain.
    tables
        .act(0, |table, lease_clock, out| drop(table.take_away(&"other".parse().unwrap(), lease_clock, out)));
    assert_eq!(tables.waits(), []);
}

#[test]
fn a_site_that_could_serve_nobody_says_nothing_of_who_waits_for_whom() {
    let mut tables = tables();
    tables.ask_as(1, 11, "other");
    tables.ask_as(2, 21, "jobs");
    tables.ask_as(1, 12, "jobs");
    assert_eq!(tables.waits().len(), 1);
    tables.lease_end = None;
    assert_eq!(tables.waits(), []);
}

#[test]
fn it_is_looked_for_deadlocks_when_a_request_that_may_be_refused_has_waited_for_a_second() {
    let mut tables = tables();
    tables.ask_as(1, 11, "other");
    tables.ask_as(2, 21, "jobs");
    tables.ask_as(1, 12, "jobs");
    tables.time(1000);
    assert!(!tables.has_long_waits());
    tables.time(1001);
    assert!(tables.has_long_waits());
    tables.change_view(2, Clause::exclusive("naimi-trehel"));
    assert!(!tables.has_long_waits(), "no rule refuses anything any more");
}

#[test]
fn a_request_is_refused_only_while_it_waits_for_a_lock_whose_rule_says_so() {
    let mut tables = tables();
    tables.ask_as(1, 11, "other");
    tables.ask_as(2, 21, "jobs");
    tables.ask_as(1, 12, "jobs");
    tables.ask_as(2, 22, "other");
    let refuse = |tables: &mut Tables, request| {
        let mut refused = false;
        tables.act(0, |table, _, out| refused = table.refuse_deadlocked(Request(request), out));
        refused
    };
    assert!(!refuse(&mut tables, 21), "it holds the lock");
    assert!(!refuse(&mut tables, 22), "the rule of its lock lets it wait");
    assert!(!refuse(&mut tables, 99), "there is no such request");
    tables.told.clear();
    assert!(refuse(&mut tables, 12));
    let why = RequestRefusal::Deadlock;
    assert_eq!(tables.told, [(0, LockEvent::Refused { request: Request(12), why })]);
    assert!(!refuse(&mut tables, 12), "it is over");
}
