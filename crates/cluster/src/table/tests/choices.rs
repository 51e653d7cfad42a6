//! What an algorithm's paper leaves open, such as which majority is asked.

use super::*;

/// Whom each of five sites asks for the lock, in three rounds, while nobody else wants it.
fn asked() -> Vec<Vec<usize>> {
    let mut tables = Tables::of(5, Clause::exclusive("majority:quorum=any"));
    let mut asked = Vec::new();
    for request in 0..15 {
        let at = usize::try_from(request % 5).unwrap();
        let (session, lock) = (Session(request), lock());
        let wanted = Acquire {
            session,
            request: Request(request),
            lock,
            permits: 1,
            wait: Wait::Forever,
            cause: None,
            demand: meshlock_protocol::Demand::PLAIN,
        };
        tables.act(at, |table, lease_clock, out| table.acquire(wanted, lease_clock, out));
        let mut to: Vec<usize> = tables.wire.iter().map(|&(_, to, _)| to).collect();
        to.sort_unstable();
        asked.push(to);
        tables.settle();
        assert_eq!(tables.granted(), [(at, request)]);
        tables.release(at, request);
    }
    asked
}

#[test]
fn a_choice_is_drawn_the_same_in_every_run_and_not_always_the_same() {
    let of_each = asked();
    assert_eq!(of_each, asked());
    for at in 0..5 {
        let mut rounds: Vec<&Vec<usize>> = of_each.iter().skip(at).step_by(5).collect();
        rounds.dedup();
        assert!(rounds.len() > 1, "site {at} asks others from time to time: {of_each:?}");
    }
    // Two sites do not draw the same, seen from where each stands.
    let from_itself = |at: usize| -> Vec<Vec<usize>> {
        let rounds = of_each.iter().skip(at).step_by(5);
        rounds
            .map(|to| {
                let mut steps: Vec<usize> = to.iter().map(|&to| (to + 5 - at) % 5).collect();
                steps.sort_unstable();
                steps
            })
            .collect()
    };
    assert!((1..5).any(|at| from_itself(at) != from_itself(0)), "{of_each:?}");
}
