//! Forwarded calls, as one node passes them on.

use super::*;
use crate::mutant::{self, Mutant};

/// The incarnation of b that is a member.
const OF_B: u64 = 1;

/// Returns site a in a view with b, whose packets the test makes up.
fn beside_b() -> Lone {
    let mut lone = Lone::start(&["b"], Disk::default());
    lone.write();
    let b = Member { site: "b".parse().unwrap(), incarnation: Incarnation::new(OF_B) };
    let members = vec![lone.node.me().clone(), b];
    let view = View { epoch: Epoch::new(1).unwrap(), members, ..View::default() };
    lone.receive_from("b", Content::View(view));
    lone.input(Input::Call(ClientCall::ServeCalls(true)));
    lone.sent.clear();
    lone
}

fn b(incarnation: u64) -> Member {
    Member { site: "b".parse().unwrap(), incarnation: Incarnation::new(incarnation) }
}

/// Returns how many calls reach a's host that this member sends to this incarnation of a, counted from a's own.
fn reach(from: &Member, ahead: u64) -> usize {
    let mut lone = beside_b();
    let to = Incarnation::new(lone.node.me().incarnation.number() + ahead);
    let content = Content::Call { to, number: 1, body: vec![7] };
    let packet = Packet::direct(lone.node.cluster, from.incarnation, content);
    lone.input(Input::Packet { from: from.site.clone(), packet });
    assert_eq!(lone.sent, []);
    lone.calls.len()
}

#[test]
fn a_call_is_taken_from_a_member_and_for_this_incarnation_only() {
    let stranger = Member { site: "x".parse().unwrap(), incarnation: Incarnation::new(OF_B) };
    assert_eq!(reach(&b(OF_B), 0), 1);
    assert_eq!((reach(&b(OF_B), 1), reach(&b(OF_B + 1), 0), reach(&stranger, 0)), (0, 0, 0));
    assert_eq!(mutant::with(Mutant::StrangersCallsTaken, || reach(&stranger, 0)), 1);
    assert_eq!(mutant::with(Mutant::PredecessorsCallsTaken, || reach(&b(OF_B), 1)), 1);
}

#[test]
fn a_site_that_serves_no_calls_says_so_and_one_that_sends_too_much_is_reported() {
    let mut lone = beside_b();
    let to = lone.node.me().incarnation;
    lone.input(Input::Call(ClientCall::ServeCalls(false)));
    lone.receive_from("b", Content::Call { to, number: 4, body: vec![7] });
    let nothing = Content::CallAnswer { to: Incarnation::new(OF_B), number: 4, body: Vec::new() };
    assert_eq!(lone.sent, [("b".parse().unwrap(), nothing)]);
    lone.input(Input::Call(ClientCall::ServeCalls(true)));
    lone.receive_from("b", Content::Call { to, number: 5, body: vec![0; MAX_CALL_BYTES + 1] });
    assert!(lone.calls.is_empty());
    assert!(matches!(lone.notes.last(), Some(Note::Misbehaved { .. })), "{:?}", lone.notes);
}

#[test]
fn a_member_of_an_older_version_is_sent_no_call() {
    let mut lone = beside_b();
    let message = || CallMessage { number: 1, part: CallPart::Call(vec![7]) };
    let send = |lone: &mut Lone, to: Member| {
        lone.sent.clear();
        lone.input(Input::Call(ClientCall::SendCall { to, message: message() }));
        lone.sent.len()
    };
    assert!(lone.node.forwards_to(&b(OF_B)));
    assert_eq!((send(&mut lone, b(OF_B)), send(&mut lone, b(OF_B + 1))), (1, 0));
    let abilities = Abilities { forwards_calls: false, ..Abilities::ALL };
    lone.input(Input::Connected { site: "b".parse().unwrap(), abilities });
    assert!(!lone.node.forwards_to(&b(OF_B)));
    assert_eq!(send(&mut lone, b(OF_B)), 0);
}
