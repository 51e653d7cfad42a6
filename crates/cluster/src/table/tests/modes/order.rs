//! In which order waiters of one site stand.

use super::*;
use crate::cause::Cause;
use crate::table::clients::{Spare, WaitingClient};
use crate::table::modes::MAX_OVERTAKEN;

fn waiter(request: u64, priority: u8) -> WaitingClient {
    WaitingClient {
        request: Request(request),
        since: at(1),
        deadline: None,
        is_try: false,
        demand: Demand::PLAIN.with_priority(priority),
        overtaken: 0,
        inquiry: None,
        cause: Cause::new(request).expect("no zero"),
    }
}

/// Returns the order of waiters that come in this one: their numbers and priorities.
fn order(coming: &[(u64, u8)]) -> Vec<u64> {
    let (mut known, mut spare) = (lock::Lock::new(), Spare::default());
    for (request, priority) in coming {
        known.enqueue(waiter(*request, *priority), &mut spare);
    }
    known.clients.waiters.iter().map(|waiter| waiter.request.0).collect()
}

#[test]
fn who_is_more_urgent_stands_before_the_others_and_equals_stand_as_they_came() {
    assert_eq!(order(&[(1, 0), (2, 0), (3, 0)]), [1, 2, 3]);
    assert_eq!(order(&[(1, 0), (2, 5), (3, 1), (4, 5), (5, 0)]), [2, 4, 3, 1, 5]);
}

fn eight_later_ones_pass_a_waiter_and_no_more() {
    let most = u64::from(MAX_OVERTAKEN);
    let urgent: Vec<(u64, u8)> = (2..=most + 3).map(|request| (request, 1)).collect();
    let mut expected: Vec<u64> = (2..most + 2).collect();
    expected.extend([1, most + 2, most + 3]);
    assert_eq!(order(&[&[(1, 0)], urgent.as_slice()].concat()), expected);
}

#[test]
fn a_waiter_that_is_passed_for_ever_is_caught() {
    mutant::is_caught_by(Mutant::UrgentPassForEver, eight_later_ones_pass_a_waiter_and_no_more);
}

#[test]
fn who_is_more_urgent_enters_before_the_others_of_its_site_and_all_are_served() {
    let known = ALL.iter().filter(|info| info.demands.priorities == Known::Yes);
    let known: Vec<&str> = known.map(|info| info.name).collect();
    assert!(!known.is_empty(), "some algorithm knows priorities");
    for algorithm in known {
        let mut tables = Tables::of(3, Clause::exclusive(algorithm));
        let holder = lock().home(3);
        tables.ask_in(holder, 1, X);
        let (other, third) = ((holder + 1) % 3, (holder + 2) % 3);
        for (at, request, priority) in [(holder, 2, 0), (other, 3, 0), (other, 4, 3), (third, 5, 5)] {
            tables.post(at, request, Demand::PLAIN.with_priority(priority));
            tables.settle();
        }
        let mut order = tables.entered_after(holder, 1);
        for _ in 0..3 {
            let last = *order.last().expect("one enters");
            let at = match last {
                2 => holder,
                3 | 4 => other,
                _ => third,
            };
            order.extend(tables.entered_after(at, last));
        }
        // Between sites the algorithm decides: a request that is less urgent may have got a place before.
        let place = |request| order.iter().position(|of| *of == request).expect("all are served");
        assert!(place(4) < place(3) && place(2) < 4 && place(5) < 4, "{algorithm}: {order:?}");
    }
}
