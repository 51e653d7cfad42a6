//! Deadlocks between locks, as one node looks for them.

use super::questions::{ask, beside_b, from_b};
use super::*;
use crate::report::{Party, PartyHold, PartyWait, PartyWaits, SiteWaits};
use crate::table::RequestRefusal;

/// Returns what b says: its client holds `theirs` and waits for `ours`, with the number of its request.
fn said_by_b(request: u64, waited: u64) -> PeerReply {
    let lock = |name: &str| -> LockName { name.parse().unwrap() };
    let fence = meshlock_protocol::FenceClock::new(Epoch::new(1).unwrap()).enter();
    let held = Span::from_millis(9);
    let hold = PartyHold { lock: lock("theirs"), permits: 1, fence, slot: None, held };
    let waited = Span::from_millis(waited);
    let wait = PartyWait { request, lock: lock("ours"), permits: 1, waited, is_refusable: true };
    let party = PartyWaits { party: Party(8), who: None, waits: vec![wait], holds: vec![hold] };
    let (site, incarnation) = ("b".parse().unwrap(), Incarnation::new(1));
    PeerReply::Waits(SiteWaits { site, incarnation, parties: vec![party], more: false })
}

/// Returns the question for waits that b was sent last.
fn question(lone: &mut Lone) -> Option<QuestionId> {
    let sent = std::mem::take(&mut lone.sent);
    sent.into_iter().rev().find_map(|(_, content)| {
        if let Content::Ask { question, ask: PeerQuestion::Waits } = content { Some(question) } else { None }
    })
}

#[test]
fn members_are_asked_a_second_time_only_if_the_first_has_shown_a_deadlock() {
    let mut lone = beside_b();
    let first = ask(&mut lone, ClientCall::Deadlocks { request: Request(5) }).unwrap();
    lone.sent.clear();
    // This site has no clients, so that what b says is no circle.
    from_b(&mut lone, Content::Reply { question: first, reply: said_by_b(3, 50) });
    assert_eq!(question(&mut lone), None);
    let [ClientAnswer::Deadlocks { deadlocks, .. }] = &lone.answers[..] else { panic!("{:?}", lone.answers) };
    assert_eq!((deadlocks.found.len(), deadlocks.missing.len()), (0, 0));
}

#[test]
fn a_member_that_does_not_reply_is_named() {
    let mut lone = beside_b();
    ask(&mut lone, ClientCall::Deadlocks { request: Request(5) }).unwrap();
    lone.pass(Span::from_millis(1000));
    let [ClientAnswer::Deadlocks { deadlocks, .. }] = &lone.answers[..] else { panic!("{:?}", lone.answers) };
    assert_eq!(deadlocks.missing, ["b".parse().unwrap()]);
}

/// Returns a single site whose rules refuse deadlocks and whose clients 1 and 2 hold a and b and wait for the other's.
fn alone_in_a_deadlock() -> Lone {
    let mut config = Config::new("a".parse().unwrap(), vec!["a".parse().unwrap()]);
    config.rules =
        RulesText { default: Clause::exclusive("naimi-trehel:on-deadlock=refuse"), ..RulesText::default() };
    let mut lone = Lone::with(config, Disk::default());
    lone.pass(Span::from_millis(1));
    let mut want = |session: u64, request: u64, lock: &str| {
        let (session, request, lock) = (Session(session), Request(request), lock.parse().unwrap());
        lone.input(Input::Call(ClientCall::JoinParty { session, party: Party(session.0) }));
        let wanted = Acquire {
            session,
            request,
            lock,
            permits: 1,
            wait: Wait::Forever,
            demand: meshlock_protocol::Demand::PLAIN,
            cause: None,
        };
        lone.input(Input::Call(ClientCall::Acquire(wanted)));
    };
    want(1, 11, "x");
    want(2, 21, "y");
    want(1, 12, "y");
    want(2, 22, "x");
    lone
}

fn refused(lone: &Lone) -> Vec<u64> {
    let of = |answer: &ClientAnswer| {
        let ClientAnswer::Lock(LockEvent::Refused { request, why: RequestRefusal::Deadlock }) = answer else {
            return None;
        };
        Some(request.0)
    };
    lone.answers.iter().filter_map(of).collect()
}

#[test]
fn a_deadlock_is_named_with_both_clients() {
    let mut lone = alone_in_a_deadlock();
    lone.input(Input::Call(ClientCall::Deadlocks { request: Request(5) }));
    let Some(ClientAnswer::Deadlocks { deadlocks, .. }) = lone.answers.last() else {
        panic!("{:?}", lone.answers)
    };
    assert_eq!(deadlocks.found.iter().map(|found| found.parties.len()).collect::<Vec<_>>(), [2]);
}

#[test]
fn the_youngest_of_a_deadlock_is_refused_within_two_seconds_and_nobody_else() {
    let mut lone = alone_in_a_deadlock();
    lone.pass(Span::from_millis(900));
    assert_eq!(refused(&lone), [0; 0]);
    lone.pass(Span::from_millis(1200));
    assert_eq!(refused(&lone), [22]);
    lone.pass(Span::from_millis(5000));
    assert_eq!(refused(&lone), [22], "the other one waits for a client that goes on");
}
