//! Sessions that stay with their node, and sessions that move to another one.

use meshlock_cluster::claim::{ClaimKey, ProvedHold};
use meshlock_cluster::names::{Incarnation, Member};
use meshlock_cluster::time::{Drift, Span};
use meshlock_protocol::{Epoch, FenceClock, Mode};

const VERSION: u16 = 3;

use meshlock_cluster::table::Wait;
use meshlock_wire::clients::RefusalKind;

use super::*;

fn at(millis: u64) -> Time {
    Time::from_micros(millis * 1000)
}

/// A session that was opened at 1 s, with a node whose clock showed 100 s.
fn session() -> RelayedSession {
    let mut session = RelayedSession::default();
    let hello = ToNode::Hello { version: VERSION, who: "test".parse().unwrap() };
    assert_eq!(session.on_client(hello.clone(), at(1000)), Said::Pass(hello));
    let contact = Some(Contact { silence: Span::from_millis(2000), drift: Drift::from_ppm(0) });
    let site: meshlock_cluster::names::SiteName = "a".parse().unwrap();
    let welcome = |time, contact| ToClient::Welcome { version: VERSION, site: site.clone(), time, contact };
    let passed_on = session.on_node(welcome(at(100_000), contact), at(1010));
    assert_eq!(passed_on, Some(welcome(at(1010), None)));
    session
}

fn granted(tag: Tag, lease_end: Time) -> ToClient {
    ToClient::Granted { tag, fence: 7, slot: None, lease_end, margin: Span::from_millis(500) }
}

#[test]
fn a_client_is_told_moments_of_its_own_clock_and_relies_on_nothing_beyond_the_session() {
    let mut session = session();
    assert_eq!(session.end(), None, "it holds nothing");
    // The lease has four seconds left; the session two, counted from when hello was said.
    let passed_on = session.on_node(granted(1, at(104_000)), at(1020));
    assert_eq!(passed_on, Some(granted(1, at(3000))));
    assert_eq!(session.end(), Some(at(3000)));
    assert_eq!(session.ping(at(1499)), None);
    let Some(ToNode::Ping(tag)) = session.ping(at(1500)) else { panic!("it is time") };
    let passed_on = session.on_node(ToClient::Pong { tag, time: at(100_600) }, at(1600));
    assert_eq!(passed_on, Some(ToClient::Extended { lease_end: at(3500) }));
    assert_eq!(session.end(), Some(at(3500)));
    assert_eq!(session.next_ping(), Some(at(2000)));
}

fn lost(act_by: Time) -> ToClient {
    ToClient::Lost { tag: 1, act_by, why: LossKind::Broken }
}

#[test]
fn a_lock_that_is_lost_is_lost_by_the_clients_clock() {
    let mut session = session();
    session.on_node(granted(1, at(104_000)), at(1020));
    let passed_on = session.on_node(lost(at(100_500)), at(1030));
    assert_eq!(passed_on, Some(lost(at(1500))));
    assert_eq!(session.end(), Some(at(1500)));
    session.on_node(ToClient::Released(1), at(1040));
    assert_eq!(session.end(), None, "nothing is left to be ended for");
}

#[test]
fn a_client_is_answered_here_what_the_node_cannot_know() {
    let mut session = session();
    assert_eq!(session.on_client(ToNode::Guard { group: 12 }, at(5)), Said::Guard(12));
    let pong = ToClient::Pong { tag: 3, time: at(6) };
    assert_eq!(session.on_client(ToNode::Ping(3), at(6)), Said::Answer(pong));
}

fn proof(lock: &str) -> Proof {
    let holder = Member { site: "a".parse().unwrap(), incarnation: Incarnation::new(1) };
    let fence = FenceClock::new(Epoch::default()).enter();
    let hold = ProvedHold {
        holder,
        lock: lock.parse().unwrap(),
        permits: 1,
        slot: None,
        fence,
        mode: Mode::Exclusive,
    };
    Proof::new(&ClaimKey::new([7; 32]), b"cluster", hold)
}

/// A session that can move, was opened at 1 s, and holds a lock that it can prove.
fn that_holds() -> RelayedSession {
    let mut session = RelayedSession { can_move: true, ..session() };
    session.version = HAS_CLAIMS;
    let acquire = ToNode::Acquire { tag: 1, lock: "x".parse().unwrap(), wait: Wait::Forever, permits: None };
    session.on_client(acquire, at(1010));
    session.on_node(granted(1, at(104_000)), at(1020));
    assert_eq!(session.take_owed(), [ToNode::Prove { tag: 1 }]);
    assert!(!session.has_something_to_claim(), "not without the proof");
    assert_eq!(session.on_node(ToClient::Proof { tag: 1, proof: Box::new(proof("x")) }, at(1030)), None);
    assert!(session.has_something_to_claim());
    session
}

/// The welcome of another node, whose clock shows 500 s.
fn welcome(version: u16) -> ToClient {
    let contact = Some(Contact { silence: Span::from_millis(2000), drift: Drift::from_ppm(0) });
    ToClient::Welcome { version, site: "b".parse().unwrap(), time: at(500_000), contact }
}

fn claimed(left: Option<Span>) -> ToClient {
    let (lease_end, margin) = (at(504_000), Span::from_millis(500));
    ToClient::Claimed { tag: 1, fence: 7, slot: None, lease_end, left, margin }
}

#[test]
fn a_claim_extends_nothing_before_it_is_accepted_and_nothing_beyond_what_is_reserved() {
    let mut session = that_holds();
    assert!(session.begin_move(false).is_some());
    assert_eq!(session.end(), Some(at(3000)), "by the word of the former node");
    assert_eq!(session.on_welcome(&welcome(HAS_CLAIMS - 1), at(1900), at(1910)), None, "it knows no claims");
    let says = session.on_welcome(&welcome(HAS_CLAIMS), at(1900), at(1910)).unwrap();
    // The last message that was answered is the greeting, at 1 s.
    let contact = Some(Span::from_millis(910));
    assert_eq!(says, [ToNode::Claim { tag: 1, proof: Box::new(proof("x")), contact }]);
    assert_eq!((session.move_state(), session.end()), (MoveState::Waiting, Some(at(3000))));
    assert_eq!(session.on_node(ToClient::Extended { lease_end: at(504_000) }, at(1920)), session.extended());
    assert_eq!(session.end(), Some(at(3000)), "the claim is not answered");
    // However long the claim and its answer were on their way: it was said at 1.91 s.
    session.on_node(claimed(Some(Span::from_millis(1500))), at(2800));
    assert_eq!(session.move_state(), MoveState::Done);
    assert_eq!(session.finish_move(), [ToClient::Extended { lease_end: at(3410) }]);
    assert_eq!(session.end(), Some(at(3410)), "not beyond what is reserved");
    session.on_node(ToClient::Settled { tag: 1, lease_end: at(504_000) }, at(1940));
    assert_eq!(session.end(), Some(at(3900)), "as long as the new session");
    assert_eq!(session.take_owed(), [ToNode::Prove { tag: 1 }], "to be able to move again");
}

#[test]
fn a_node_that_leaves_has_no_time_limit_and_is_stayed_with_if_no_other_accepts_the_claim() {
    let mut session = that_holds();
    assert_eq!(session.on_node(ToClient::Leaving, at(1100)), None);
    assert!(session.takes_leave() && !session.takes_leave(), "once");
    session.begin_move(true).unwrap();
    let says = session.on_welcome(&welcome(HAS_CLAIMS), at(1900), at(1910)).unwrap();
    assert_eq!(says, [ToNode::Claim { tag: 1, proof: Box::new(proof("x")), contact: None }]);
    let (kind, why) = (RefusalKind::Unavailable, "it has no lease".to_owned());
    assert_eq!(session.on_node(ToClient::Refused { tag: 1, kind, why }, at(1920)), None);
    assert_eq!(session.move_state(), MoveState::Rejected);
    session.stay();
    assert_eq!(session.end(), Some(at(3000)));
    // The times of the former node are read by its own clock again.
    session.on_node(ToClient::Extended { lease_end: at(101_500) }, at(1930));
    assert_eq!(session.end(), Some(at(3000)), "a lease never becomes shorter");
    assert!(session.has_something_to_claim(), "it may try again");
}

#[test]
fn a_claim_that_is_refused_for_good_is_lost_by_the_word_of_the_former_node() {
    let mut session = that_holds();
    session.begin_move(false).unwrap();
    session.on_welcome(&welcome(HAS_CLAIMS), at(1900), at(1910)).unwrap();
    let (kind, why) = (RefusalKind::BadRequest, "too late".to_owned());
    let told = session.on_node(ToClient::Refused { tag: 1, kind, why }, at(1920));
    let lost = ToClient::Lost { tag: 1, act_by: at(3000), why: LossKind::Unknown };
    assert_eq!((told, session.move_state()), (Some(lost), MoveState::Done));
    session.finish_move();
    assert_eq!(session.end(), Some(at(3000)), "its processes are ended by then");
    assert!(!session.has_something_to_claim());
    let answer = session.on_client(ToNode::Release(1), at(2000));
    assert_eq!(answer, Said::Answer(ToClient::Released(1)), "the new node does not know of it");
    assert_eq!(session.end(), None);
}

#[test]
fn what_was_given_back_is_not_claimed_and_what_is_waited_for_is_asked_for_again() {
    let mut session = that_holds();
    let wait = Wait::Within(Span::from_millis(1000));
    let acquire = |wait| ToNode::Acquire { tag: 2, lock: "y".parse().unwrap(), wait, permits: None };
    session.on_client(acquire(wait), at(1100));
    session.on_client(ToNode::Queue { tag: 3, lock: "y".parse().unwrap() }, at(1100));
    let mut released = that_holds();
    released.on_client(ToNode::Release(1), at(1100));
    assert!(!released.has_something_to_claim());
    released.on_node(ToClient::Proof { tag: 1, proof: Box::new(proof("x")) }, at(1110));
    assert!(!released.has_something_to_claim(), "nor with a proof that was on its way");
    session.begin_move(false).unwrap();
    let says = session.on_welcome(&welcome(HAS_CLAIMS), at(1300), at(1300)).unwrap();
    assert_eq!(says[1..], [acquire(Wait::Within(Span::from_millis(800)))]);
    session.on_node(claimed(None), at(1310));
    let tells = session.finish_move();
    assert!(
        matches!(tells[0], ToClient::Refused { tag: 3, kind: RefusalKind::Unavailable, .. }),
        "{tells:?}"
    );
}
