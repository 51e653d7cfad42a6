//! The code's own numbers, put into the formulas from which solvers prove the inequality of leases
//! (`crates/proof/src/inequality/lease.rs`).

use std::collections::BTreeSet;

use fastrand::Rng;
use meshlock_proof::inequality::{Rational, lease};

use super::{
    Inherited, LeaseGrants, ListedRenewals, MemberLease, Mutant, Span, Terms, at, leader, member, mutant,
};
use crate::time::{Drift, Time};

/// A function that draws a situation, lets the code act in it, and returns the numbers.
type Observe = fn(&mut Rng) -> Observed;

/// The terms of leases, with numbers by the names of the formulas.
struct Observed {
    terms: Terms,
    numbers: Vec<(&'static str, u64)>,
}

/// For each inequality, what the code does about it.
const OBSERVED: &[(&str, Observe)] = &[
    ("exclusion", exclusion),
    ("new_leader", new_leader),
    ("notice", member_side),
    ("room", member_side),
    ("pause", member_side),
    ("retry", retry),
];

/// Enough that each mutant shows in some of them.
const DRAWN: u64 = 2000;

/// The computed assumptions of an inequality that do not hold of what the code does.
fn broken(name: &str, observe: Observe) -> BTreeSet<&'static str> {
    let inequality = lease::ALL.iter().find(|inequality| inequality.name == name).unwrap();
    let mut broken = BTreeSet::new();
    for seed in 0..DRAWN {
        let Observed { terms, numbers } = observe(&mut Rng::with_seed(seed));
        let mut known = vec![
            ("length", terms.length.micros().into()),
            ("margin", terms.margin.micros().into()),
            ("renew_every", terms.renew_every.micros().into()),
            ("longest_pause", terms.longest_pause().micros().into()),
            ("drift", Rational::fraction(i128::from(terms.drift.ppm()), 1_000_000).unwrap()),
        ];
        known.extend(numbers.iter().map(|&(name, number)| (name, number.into())));
        let fails = |assumption: &str| !inequality.holds(assumption, &known).unwrap();
        broken.extend(inequality.computed().map(|assumption| assumption.name).filter(|name| fails(name)));
    }
    broken
}

/// Terms that are not refused, from milliseconds to hours.
fn terms(draw: &mut Rng) -> Terms {
    let drawn = (0..10_000).find_map(|_| {
        let length = draw.u64(1_000..10_000_000) * draw.u64(1..1_000);
        let terms = Terms {
            length: Span::from_micros(length),
            drift: Drift::from_ppm(draw.u32(0..1_000_000)),
            margin: Span::from_micros(draw.u64(0..length)),
            renew_every: Span::from_micros(draw.u64(40..length)),
        };
        terms.check().ok()
    });
    drawn.expect("many terms are not refused")
}

/// A member that has sent a renewal at the time that is returned, and whose grant has arrived in time.
fn granted(terms: Terms, draw: &mut Rng) -> (MemberLease, Time, Time) {
    let sent = at(draw.u64(0..1 << 40));
    let mut lease = MemberLease::new(terms, sent);
    let renewal = lease.renew(leader(), sent);
    // Others may be in flight.
    let later = sent + Span::from_micros(draw.u64(1..terms.length.micros()));
    if draw.bool() {
        lease.renew(leader(), later);
    }
    assert!(lease.on_granted(renewal, &leader(), terms.length, later));
    (lease, sent, later)
}

fn exclusion(draw: &mut Rng) -> Observed {
    let terms = terms(draw);
    let (lease, sent, arrived) = granted(terms, draw);
    let elected = at(draw.u64(0..1 << 40));
    let first = elected + Span::from_micros(draw.u64(0..1 << 30));
    let last = first + Span::from_micros(draw.u64(0..1 << 30));
    let mut grants = LeaseGrants::new(terms, &[member()], elected, None);
    assert!(grants.grant(&member(), first) && grants.grant(&member(), last));
    let numbers = vec![
        ("sent_m", sent.micros()),
        ("arrived_m", arrived.micros()),
        ("end_m", lease.end().unwrap().micros()),
        ("last_l", last.micros()),
        ("excluded_l", grants.over_at(&member()).micros()),
    ];
    Observed { terms, numbers }
}

fn new_leader(draw: &mut Rng) -> Observed {
    let terms = terms(draw);
    let (lease, sent, _) = granted(terms, draw);
    // One voter was told of a round for the renewal, and has perhaps been restarted since.
    let (began, listed) = (draw.u64(0..1 << 30), draw.u64(1 << 30..1 << 40));
    let mut voter = ListedRenewals::new(at(began));
    voter.on_round(Some(vec![member()]), terms.length, at(listed));
    let restarted = listed + draw.u64(0..1 << 30);
    if draw.bool() {
        voter = ListedRenewals::new(at(restarted));
    }
    let voted = at(restarted + draw.u64(0..1 << 30));
    // Late enough that no clock begins at 0 meanwhile.
    let received = at(draw.u64(1 << 41..1 << 42));
    let said = |voter: &ListedRenewals| {
        let mut inherited = Inherited::default();
        inherited.add(voter.ages(voted), received);
        inherited
    };
    let age = received.since(said(&voter).at(&member(), Drift::from_ppm(0)));
    // Another voter knows of an earlier round, or of a later one.
    let mut inherited = said(&voter);
    let mut other = ListedRenewals::new(at(0));
    other.on_round(Some(vec![member()]), terms.length, at(draw.u64(0..1 << 41)));
    inherited.add(other.ages(at(1 << 41)), at(received.micros() - draw.u64(0..1 << 20)));
    let inherited_at = inherited.at(&member(), terms.drift);
    let is_let_in = draw.bool();
    let known: &[_] = if is_let_in { &[] } else { &[member()] };
    let mut grants = LeaseGrants::new(terms, known, received, Some(inherited));
    if is_let_in {
        grants.on_agreed(&[member()], terms, true, received);
    }
    let numbers = vec![
        ("sent_m", sent.micros()),
        ("end_m", lease.end().unwrap().micros()),
        ("listed_v", listed),
        ("voted_v", voted.micros()),
        ("age", age.micros()),
        ("received_l", received.micros()),
        ("inherited_l", inherited_at.micros()),
        ("excluded_l", grants.over_at(&member()).micros()),
    ];
    Observed { terms, numbers }
}

fn member_side(draw: &mut Rng) -> Observed {
    let terms = terms(draw);
    let (lease, sent, _) = granted(terms, draw);
    let numbers = vec![
        ("sent_m", sent.micros()),
        ("end_m", lease.end().unwrap().micros()),
        ("notice_m", lease.notice_at().unwrap().micros()),
    ];
    Observed { terms, numbers }
}

/// A renewal that is sent while something of the lease is left, and when the next one is due.
fn retry(draw: &mut Rng) -> Observed {
    let terms = terms(draw);
    let (mut lease, _, _) = granted(terms, draw);
    let notice = lease.notice_at().unwrap();
    let left = draw.u64(1..=terms.length.micros() - terms.margin.micros());
    let now = notice.before(Span::from_micros(left));
    lease.renew(leader(), now);
    let wait = lease.next_renewal().since(now).micros();
    Observed { terms, numbers: vec![("left_before", left), ("wait", wait)] }
}

#[test]
fn what_the_code_computes_is_what_is_proved_of() {
    let names: Vec<&str> = OBSERVED.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, lease::ALL.iter().map(|inequality| inequality.name).collect::<Vec<_>>());
    for (name, observe) in OBSERVED {
        assert_eq!(broken(name, *observe), BTreeSet::new(), "{name}");
    }
}

#[test]
fn every_mutant_breaks_the_formula_that_is_recorded_and_no_other() {
    for ((name, observe), inequality) in OBSERVED.iter().zip(lease::ALL) {
        for (recorded, formula) in inequality.mutants {
            let mutant = Mutant::ALL.iter().find(|mutant| format!("{mutant:?}") == *recorded).unwrap();
            let broken = mutant::with(*mutant, || broken(name, *observe));
            assert_eq!(broken, BTreeSet::from([*formula]), "{name}: {recorded}");
        }
    }
}
