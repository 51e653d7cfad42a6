//! The counters of a table, and the causes of its messages.

use super::*;
use crate::cause::Cause;

impl Tables {
    /// Requests the lock with this cause, before any message arrives.
    fn ask(&mut self, at: usize, request: u64, cause: u64) {
        let (session, request, wait) = (Session(request), Request(request), Wait::Forever);
        let wanted = Acquire {
            session,
            request,
            lock: lock(),
            permits: self.permits,
            wait,
            cause: Cause::new(cause),
            demand: meshlock_protocol::Demand::PLAIN,
        };
        self.act(at, |table, lease_clock, out| table.acquire(wanted, lease_clock, out));
    }

    /// Delivers the messages that are under way, and returns for each its sender, receiver, kind and cause.
    fn followed(&mut self) -> Vec<(usize, usize, &'static str, Option<u64>)> {
        let mut seen = Vec::new();
        while let Some((from, to, message)) = self.wire.pop_front() {
            let Sent::Lock(message) = message else { panic!("nobody uses permits without a rule") };
            seen.push((from, to, kind_of(&message), message.cause.map(Cause::number)));
            self.act(to, |table, lease_clock, out| table.on_message(from, message, lease_clock, out));
        }
        seen
    }

    /// Returns the causes of grants, each with the cause that admitted it.
    fn causes(&mut self) -> Vec<(u64, Option<u64>)> {
        let told = std::mem::take(&mut self.told);
        let causes = told.iter().filter_map(|(_, tell)| {
            let LockEvent::Granted { cause, by, .. } = tell else { return None };
            Some((cause.number(), by.map(Cause::number)))
        });
        causes.collect()
    }
}

fn kind_of(message: &LockMessage) -> &'static str {
    meshlock_protocol::Message::kind(&message.message)
}

#[test]
fn every_acquisition_is_counted_once_by_how_it_came_out() {
    let mut tables = Tables::of(1, Clause::exclusive("central"));
    tables.acquire(0, 1, Wait::Forever);
    tables.acquire(0, 2, Wait::Try);
    tables.acquire(0, 3, Wait::Within(Span::from_millis(2)));
    tables.acquire(0, 4, Wait::Forever);
    tables.acquire(0, 5, Wait::Forever);
    tables.acquire(0, 6, Wait::Forever);
    tables.acquire(0, 6, Wait::Forever);
    tables.time(3);
    tables.act(0, |table, lease_clock, out| table.cancel(Request(4), lease_clock, out));
    tables.act(0, |table, lease_clock, out| table.on_session_ended(Session(5), lease_clock, out));
    assert_eq!(tables.sites[0].tallied(), (1, 1, 1));
    tables.time(7);
    tables.release(0, 1);
    let tally = tables.sites[0].tally();
    let outcomes: Vec<u64> = AcquireOutcome::ALL.iter().map(|outcome| tally.outcomes(*outcome)).collect();
    assert_eq!(outcomes, [2, 1, 1, 1, 1, 1, 0]);
    let waits =
        ServedBy::ALL.iter().map(|served| (tally.waits(*served).count(), tally.waits(*served).total()));
    let (none, six) = (Span::ZERO, Span::from_millis(6));
    assert_eq!(waits.collect::<Vec<_>>(), [(1, none), (1, six), (0, none)]);
    assert_eq!((tally.holds.count(), tally.holds.total()), (1, six));
    assert_eq!(tables.sites[0].tallied(), (1, 1, 0));
}

#[test]
fn losses_are_counted_by_why_and_each_holder_once() {
    let mut tables = Tables::of(1, Clause { permits: 3, per_site: 3, ..Clause::exclusive("raymond-k") });
    for request in 1..=3 {
        tables.acquire(0, request, Wait::Forever);
    }
    tables.act(0, |table, lease_clock, out| drop(table.take_away(&lock(), lease_clock, out)));
    tables.act(0, |table, clock, out| table.on_notice(at(300), clock.now, out));
    let lost = |tables: &Tables| -> Vec<u64> {
        LossReason::ALL.iter().map(|by| tables.sites[0].tally().losses(*by)).collect()
    };
    assert_eq!(lost(&tables), [0, 3, 0, 0, 0, 0, 0, 0]);
    tables.release(0, 1);
    tables.acquire(0, 4, Wait::Forever);
    tables.act(0, |table, lease_clock, out| {
        table.stop();
        table.lose_all(lease_clock.now, out);
    });
    assert_eq!(lost(&tables), [0, 3, 1, 0, 0, 0, 0, 0]);
    assert_eq!((tables.sites[0].tally().holds.count(), tables.sites[0].tallied().1), (4, 0));
}

#[test]
fn messages_are_counted_by_algorithm_and_kind_on_both_sides() {
    let mut tables = Tables::of(3, Clause::exclusive("ricart-agrawala"));
    tables.acquire(0, 1, Wait::Forever);
    let sent: Vec<_> = tables.sites[0].tally().sent.counts().collect();
    assert_eq!(sent, [("ricart-agrawala", "REQUEST", 2)]);
    for other in 1..3 {
        let tally = tables.sites[other].tally();
        assert_eq!(tally.received.counts().collect::<Vec<_>>(), [("ricart-agrawala", "REQUEST", 1)]);
        assert_eq!(tally.sent.counts().collect::<Vec<_>>(), [("ricart-agrawala", "REPLY", 1)]);
    }
}

#[test]
fn messages_for_an_acquisition_carry_its_cause_to_every_site_that_handles_them() {
    let mut tables = Tables::of(3, Clause::exclusive("naimi-trehel"));
    let home = lock().home(3);
    let (one, two) = ((home + 1) % 3, (home + 2) % 3);
    tables.ask(home, 1, 100);
    assert_eq!(tables.causes(), [(100, Some(100))], "nobody had to be asked");
    // The last requester is asked through the home, which has forgotten it: the message is forwarded, and its cause
    // with it.
    tables.ask(one, 2, 200);
    assert_eq!(tables.followed(), [(one, home, "REQUEST", Some(200))]);
    tables.ask(two, 3, 300);
    assert_eq!(tables.followed(), [(two, home, "REQUEST", Some(300)), (home, one, "REQUEST", Some(300))]);
    // A holder that leaves hands the lock over: the token is sent for its cause, and admits another.
    tables.act(home, |table, lease_clock, out| table.release(Request(1), lease_clock, out));
    assert_eq!(tables.followed(), [(home, one, "TOKEN", Some(100))]);
    assert_eq!(tables.causes(), [(200, Some(100))]);
    tables.act(one, |table, lease_clock, out| table.release(Request(2), lease_clock, out));
    assert_eq!(tables.followed(), [(one, two, "TOKEN", Some(200))]);
    assert_eq!(tables.causes(), [(300, Some(200))]);
}

#[test]
fn a_site_that_hands_over_and_asks_again_asks_for_whoever_waits_next() {
    let mut tables = Tables::of(2, Clause::exclusive("naimi-trehel"));
    let home = lock().home(2);
    tables.ask(home, 1, 100);
    tables.ask(home, 2, 200);
    tables.ask(1 - home, 3, 300);
    tables.followed();
    // As often as it may be handed on here first.
    for request in 4..=6 {
        tables.ask(home, request, request * 100);
    }
    for request in [1, 2] {
        tables.act(home, |table, lease_clock, out| table.release(Request(request), lease_clock, out));
        assert_eq!(tables.followed(), []);
    }
    tables.act(home, |table, lease_clock, out| table.release(Request(4), lease_clock, out));
    let sent = tables.followed();
    assert!(sent.iter().all(|(_, _, _, cause)| *cause == Some(500)), "{sent:?}");
    assert!(!sent.is_empty());
}

#[test]
fn an_acquisition_without_a_cause_is_given_one_of_its_own() {
    let mut tables = Tables::of(1, Clause::exclusive("central"));
    tables.acquire(0, 1, Wait::Forever);
    let first = tables.causes();
    tables.release(0, 1);
    tables.acquire(0, 2, Wait::Forever);
    let second = tables.causes();
    assert!(first.len() == 1 && second.len() == 1 && first != second);
    assert_eq!(first[0].0, tables.sites[0].cause(Request(1)).number());
}
