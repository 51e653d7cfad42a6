//! A site leaves the cluster, or is made to, and what happens to its clients.

use super::*;
use crate::table::{LossReason, RequestRefusal};

#[test]
fn a_site_leaves_when_its_clients_have() {
    let mut lone = Lone::start(&["a"], Disk::default());
    lone.acquire(1, "jobs");
    lone.pass(Span::from_millis(2000));
    lone.input(Input::Call(ClientCall::Leave { request: Request(2) }));
    lone.acquire(3, "jobs");
    assert!(matches!(lone.answers.last(), Some(ClientAnswer::Lock(LockEvent::Refused { .. }))));
    lone.pass(Span::from_millis(2000));
    assert!(lone.node.view().contains(lone.node.me()), "its client has not left");
    lone.input(Input::Call(ClientCall::Release(Request(1))));
    lone.pass(Span::from_millis(2000));
    assert_eq!(lone.answers.last(), Some(&ClientAnswer::Left { request: Request(2) }));
    assert_eq!(lone.node.view().members, []);
}

#[test]
fn clients_that_wait_at_a_leaving_site_are_told_at_once() {
    let mut lone = Lone::start(&["a"], Disk::default());
    lone.acquire(1, "jobs");
    lone.acquire(2, "jobs");
    lone.pass(Span::from_millis(100));
    lone.input(Input::Call(ClientCall::Leave { request: Request(9) }));
    let Some(ClientAnswer::Lock(LockEvent::Refused { request: Request(2), why })) = lone.answers.last()
    else {
        panic!("{:?}", lone.answers)
    };
    assert_eq!(*why, RequestRefusal::Leaving);
    lone.input(Input::Call(ClientCall::Release(Request(1))));
    assert!(!lone.has_granted(2));
}

#[test]
fn a_client_that_does_not_let_go_is_cut_off_when_the_lease_of_a_leaving_site_ends() {
    let mut lone = Lone::start(&["a"], Disk::default());
    lone.acquire(1, "jobs");
    lone.pass(Span::from_millis(100));
    let end = lone.node.lease().end().unwrap();
    lone.input(Input::Call(ClientCall::Leave { request: Request(9) }));
    lone.pass(Span::from_millis(8000));
    let lost =
        ClientAnswer::Lock(LockEvent::Lost { request: Request(1), act_by: end, why: LossReason::LeaseEnd });
    let at = |answer: &ClientAnswer| lone.answers.iter().position(|other| other == answer);
    assert!(
        at(&lost).is_some(),
        "told before the end of the lease, which was not renewed: {:?}",
        lone.answers
    );
    assert!(at(&ClientAnswer::Left { request: Request(9) }) > at(&lost), "{:?}", lone.answers);
    assert_eq!(lone.node.view().members, []);
}

#[test]
fn a_site_that_is_told_to_leave_does_so_as_if_its_client_had_asked() {
    let mut lone = Lone::start(&["a"], Disk::default());
    lone.acquire(1, "jobs");
    lone.pass(Span::from_millis(2000));
    lone.input(Input::Call(ClientCall::Remove { request: Request(2), site: "b".parse().unwrap() }));
    assert_eq!(lone.answers.last(), Some(&ClientAnswer::Leaves { request: Request(2), leaves: false }));
    lone.acquire(3, "other");
    assert!(lone.has_granted(3), "it was not meant");
    lone.input(Input::Call(ClientCall::Release(Request(3))));
    lone.input(Input::Call(ClientCall::Remove { request: Request(4), site: "a".parse().unwrap() }));
    assert_eq!(lone.answers.last(), Some(&ClientAnswer::Leaves { request: Request(4), leaves: true }));
    // Further requests are answered too.
    lone.input(Input::Call(ClientCall::Leave { request: Request(5) }));
    lone.input(Input::Call(ClientCall::Leave { request: Request(6) }));
    lone.input(Input::Call(ClientCall::Release(Request(1))));
    lone.pass(Span::from_millis(2000));
    let left = |request| lone.answers.contains(&ClientAnswer::Left { request: Request(request) });
    assert!(left(5) && left(6), "{:?}", lone.answers);
    assert_eq!(lone.node.view().members, []);
}

#[test]
fn an_order_to_leave_does_not_reach_a_later_incarnation_of_the_site() {
    let mut lone = Lone::start(&["a"], Disk::default());
    lone.pass(Span::from_millis(2000));
    let earlier = Member { incarnation: Incarnation::default(), ..lone.node.me().clone() };
    assert_ne!(earlier, *lone.node.me());
    let mut out = Vec::new();
    let reply = lone.node.reply(&PeerQuestion::Leave(earlier), &mut out);
    assert_eq!(reply, PeerReply::Leaves(false));
    lone.acquire(1, "jobs");
    assert!(lone.has_granted(1), "it stays");
}

#[test]
fn a_site_that_does_not_know_the_rules_drops_out_and_comes_back_when_it_does() {
    let me = Member { site: "a".parse().unwrap(), incarnation: Incarnation::new(1) };
    let rules = |algorithm| RulesText { rules: Vec::new(), default: Clause::exclusive(algorithm) };
    let (epoch, members) = (Epoch::new(1).unwrap(), vec![me]);
    let view = View { epoch, members, rules: rules("of-the-future"), ..View::default() };
    let mut disk = Disk::default();
    disk.apply(&DiskWrite::Install(Saved { index: 5, term: 1, view, voters: None, access: None }));
    disk.apply(&DiskWrite::Ballot(Ballot { term: 1, vote: 0, commit: 5 }));
    let mut lone = Lone::start(&["a"], disk);
    lone.pass(Span::from_millis(20_000));
    assert_eq!((lone.node.view().members.len(), lone.node.lease().end()), (0, None));
    lone.input(Input::Call(ClientCall::SetRules { request: Request(1), rules: rules("maekawa") }));
    lone.acquire(2, "jobs");
    lone.pass(Span::from_millis(5000));
    assert!(lone.node.is_open() && lone.has_granted(2));
}
