//! Which parties are in a deadlock, and which only wait for one.

use meshlock_protocol::{Epoch, FenceClock};

use super::*;
use crate::mutant::is_caught_by;

/// A lock, and how many may hold it.
type Lock = (&'static str, u32);

fn fence(number: u64) -> Fence {
    let mut clock = FenceClock::new(Epoch::default());
    let mut fence = clock.enter();
    for _ in 0..number {
        fence = clock.enter();
    }
    fence
}

fn wait((lock, permits): Lock, number: u64, is_refusable: bool) -> PartyWait {
    let waited = Span::from_millis(1000_u64.saturating_sub(number));
    PartyWait { request: number, lock: lock.parse().unwrap(), permits, waited, is_refusable }
}

fn hold((lock, permits): Lock, number: u64) -> PartyHold {
    PartyHold {
        lock: lock.parse().unwrap(),
        permits,
        fence: fence(number),
        slot: None,
        held: Span::from_millis(5),
    }
}

/// The party of this number, at the site `s1` or `s2`: what it holds and what it waits for. Later ones have waited for a shorter time.
fn party(number: u64, holds: &[Lock], waits: &[Lock]) -> SiteWaits {
    let waits = waits.iter().zip(0..).map(|(lock, more)| wait(*lock, 10 * number + more, true)).collect();
    let holds = holds.iter().map(|lock| hold(*lock, number)).collect();
    SiteWaits {
        site: format!("s{}", 1 + number % 2).parse().unwrap(),
        incarnation: Incarnation::new(7),
        parties: vec![PartyWaits { party: Party(number), who: None, waits, holds }],
        more: false,
    }
}

/// Returns the parties of each deadlock.
fn found(sites: &[SiteWaits]) -> Vec<Vec<u64>> {
    let of = |deadlock: &Deadlock| deadlock.parties.iter().map(|stuck| stuck.party.0).collect();
    deadlocks(sites).iter().map(of).collect()
}

const A: Lock = ("a", 1);
const B: Lock = ("b", 1);
const C: Lock = ("c", 1);
const POOL: Lock = ("pool", 2);

#[test]
fn two_that_wait_for_each_other_are_a_deadlock_and_what_they_hold_is_named() {
    let sites = [party(1, &[A, C], &[B]), party(2, &[B], &[A])];
    let all = deadlocks(&sites);
    let [deadlock] = &all[..] else { panic!("{all:?}") };
    let text = |stuck: &StuckParty| {
        let holds: Vec<&str> = stuck.holds.iter().map(|hold| hold.lock.as_str()).collect();
        format!("{} of {} holds {} waits {}", stuck.party.0, stuck.site, holds.join(","), stuck.waits[0].lock)
    };
    let told: Vec<String> = deadlock.parties.iter().map(text).collect();
    assert_eq!(told.len(), 2);
    assert!(told.contains(&"1 of s2 holds a waits b".to_owned()), "c is of no interest: {told:?}");
    assert!(told.contains(&"2 of s1 holds b waits a".to_owned()), "{told:?}");
    assert_eq!(deadlock.locks().into_iter().map(LockName::as_str).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn a_chain_is_no_deadlock_and_who_waits_for_a_deadlock_is_not_part_of_it() {
    assert_eq!(found(&[party(1, &[A], &[B]), party(2, &[B], &[C])]), [[0; 0]; 0]);
    let behind = [party(1, &[A], &[B]), party(2, &[B], &[A]), party(3, &[C], &[A])];
    let of = found(&behind);
    assert_eq!(of.len(), 1);
    assert!(of[0].len() == 2 && !of[0].contains(&3), "{of:?}");
}

#[test]
fn a_longer_circle_is_told_in_the_order_in_which_they_wait() {
    let of = found(&[party(3, &[C], &[A]), party(1, &[A], &[B]), party(2, &[B], &[C])]);
    let [circle] = &of[..] else { panic!("{of:?}") };
    let next = |at: u64| 1 + at % 3;
    for pair in circle.windows(2) {
        assert_eq!(pair[1], next(pair[0]), "{circle:?}");
    }
    assert_eq!(circle.len(), 3);
}

#[test]
fn who_waits_for_itself_is_a_deadlock() {
    assert_eq!(found(&[party(1, &[A], &[A])]), [[1]]);
}

fn a_semaphore_counts_with_all_of_its_holders_only() {
    let (one, two) = (party(1, &[POOL], &[A]), party(2, &[A], &[POOL]));
    assert_eq!(
        found(&[one.clone(), two.clone()]),
        [[0; 0]; 0],
        "somebody who is not listed has the other permit"
    );
    let free = party(3, &[POOL], &[C]);
    assert_eq!(found(&[one.clone(), two.clone(), free]), [[0; 0]; 0], "one that is served goes on");
    let stuck = party(3, &[POOL], &[A]);
    let of = found(&[one, two, stuck]);
    assert_eq!((of.len(), of.first().map(Vec::len)), (1, Some(3)), "{of:?}");
}

#[test]
fn a_semaphore_is_part_of_a_deadlock_only_if_all_of_its_holders_are() {
    is_caught_by(Mutant::OneHolderIsEnough, a_semaphore_counts_with_all_of_its_holders_only);
}

#[test]
fn a_name_that_is_used_with_another_number_of_permits_is_another_lock() {
    assert_eq!(found(&[party(1, &[A], &[("b", 2)]), party(2, &[B], &[A])]), [[0; 0]; 0]);
}

#[test]
fn a_party_that_can_get_one_of_several_things_goes_on() {
    assert_eq!(found(&[party(1, &[A], &[B, C]), party(2, &[B], &[A])]), [[0; 0]; 0]);
    let both = [party(1, &[A], &[B, C]), party(2, &[B, C], &[A])];
    assert_eq!(found(&both).iter().map(Vec::len).collect::<Vec<_>>(), [2]);
}

#[test]
fn two_deadlocks_are_told_apart() {
    let (d, e): (Lock, Lock) = (("d", 1), ("e", 1));
    let sites = [party(1, &[A], &[B]), party(2, &[B], &[A]), party(3, &[d], &[e]), party(4, &[e], &[d])];
    let mut of = found(&sites);
    for circle in &mut of {
        circle.sort_unstable();
    }
    of.sort();
    assert_eq!(of, [[1, 2], [3, 4]]);
}

#[test]
fn what_sites_list_is_searched_in_time_that_grows_with_its_length() {
    // A chain that ends in a free lock, and as many that wait for the permits of one semaphore: both would take very long if every party
    // were compared with every other.
    let lock = |at: u64| -> LockName { format!("l{at}").parse().unwrap() };
    let mut parties = Vec::new();
    for at in 0..MAX_PARTIES as u64 * 7 {
        let mut of = party(at, &[("pool", 1024)], &[A, ("pool", 1024)]).parties.remove(0);
        (of.holds[0].lock, of.holds[0].permits, of.waits[0].lock) = (lock(at), 1, lock(at + 1));
        parties.push(of);
    }
    let site =
        SiteWaits { site: "s".parse().unwrap(), incarnation: Incarnation::new(1), parties, more: false };
    assert_eq!(deadlocks(&[site]), []);
}

fn only_what_two_rounds_show_with_the_same_numbers_is_so() {
    let sites = [party(1, &[A], &[B]), party(2, &[B], &[A])];
    let earlier = deadlocks(&sites).remove(0);
    assert!(deadlocks(&sites)[0].is_same(&earlier));
    // The first one was served meanwhile, and asks again: another request.
    let mut again = sites.clone();
    again[0].parties[0].waits[0].request += 500;
    assert!(!deadlocks(&again)[0].is_same(&earlier));
    // It has given up the lock and got it again: another fence.
    let mut again = sites.clone();
    again[0].parties[0].holds[0].fence = fence(99);
    assert!(!deadlocks(&again)[0].is_same(&earlier));
    // The site was restarted, and gives numbers anew.
    let mut again = sites.clone();
    again[0].incarnation = Incarnation::new(8);
    assert!(!deadlocks(&again)[0].is_same(&earlier));
    // How long they have waited does not matter.
    let mut later = sites;
    later[0].parties[0].waits[0].waited = Span::from_millis(60_000);
    assert!(deadlocks(&later)[0].is_same(&earlier));
}

#[test]
fn a_deadlock_that_two_rounds_show_differently_is_not_believed() {
    is_caught_by(Mutant::DeadlockUnconfirmed, only_what_two_rounds_show_with_the_same_numbers_is_so);
}

fn the_youngest_request_that_may_be_refused_is() {
    let victim = |sites: &[SiteWaits]| {
        let deadlock = deadlocks(sites).remove(0);
        deadlock.victim().map(|(decider, stuck, wait)| (decider.to_string(), stuck.party.0, wait.request))
    };
    let sites = [party(1, &[A], &[B]), party(2, &[B], &[A])];
    assert_eq!(victim(&sites), Some(("s1".to_owned(), 2, 20)));
    let mut older_only = sites.clone();
    older_only[1].parties[0].waits[0].is_refusable = false;
    assert_eq!(victim(&older_only), Some(("s2".to_owned(), 1, 10)));
    let mut nobody = older_only;
    nobody[0].parties[0].waits[0].is_refusable = false;
    assert_eq!(victim(&nobody), None);
}

#[test]
fn one_site_says_for_all_that_the_youngest_request_is_refused() {
    is_caught_by(Mutant::OldestRefused, the_youngest_request_that_may_be_refused_is);
}
