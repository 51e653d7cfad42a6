//! Many locks: views that make room, and a census that is longer than a packet.

use super::*;
use crate::links::Frame;
use crate::table::RequestRefusal;
use crate::table::{CensusPiece, Holding};

/// A site alone that keeps few locks.
fn narrow(max_locks: usize) -> Lone {
    let mut config = Config::new("a".parse().unwrap(), vec!["a".parse().unwrap()]);
    config.table_config.max_locks = max_locks;
    let mut lone = Lone::with(config, Disk::default());
    lone.pass(Span::from_millis(100));
    lone
}

#[test]
fn a_site_that_is_half_full_of_idle_locks_starts_a_fresh_view_without_them() {
    let mut lone = narrow(10);
    lone.acquire(100, "held");
    for request in 0..4 {
        lone.acquire(request, &format!("lock {request}"));
        assert_eq!(lone.node.view().epoch.number(), 1);
        lone.input(Input::Call(ClientCall::Release(Request(request))));
        lone.pass(Span::from_millis(10));
    }
    assert_eq!((lone.node.view().epoch.number(), lone.node.is_open()), (2, true));
    assert_eq!(lone.node.table().counts().locks, 1, "only what is held");
    assert!(!lone.node.table().is_crowded());
}

#[test]
fn locks_that_are_in_use_are_no_reason_for_a_fresh_view() {
    let mut lone = narrow(10);
    for request in 0..10 {
        lone.acquire(request, &format!("lock {request}"));
        lone.pass(Span::from_millis(10));
    }
    assert_eq!(lone.node.view().epoch.number(), 1);
    lone.acquire(10, "one more");
    assert!(matches!(
        lone.answers.last(),
        Some(ClientAnswer::Lock(LockEvent::Refused { why: RequestRefusal::TooManyLocks, .. }))
    ));
}

#[test]
fn more_names_than_a_site_keeps_can_be_used_one_after_the_other() {
    let mut lone = narrow(10);
    for request in 0..200 {
        lone.acquire(request, &format!("lock {request}"));
        assert!(lone.has_granted(request), "{request}");
        lone.input(Input::Call(ClientCall::Release(Request(request))));
        lone.pass(Span::from_millis(10));
    }
}

/// Returns what a member that holds `count` locks sends when it stops for a view with b.
fn census_of(count: u64) -> (Lone, Vec<Frame<LinkPayload>>) {
    let mut lone = Lone::start(&["b"], Disk::default());
    lone.write();
    let me = lone.node.me().clone();
    let b = Member { site: "b".parse().unwrap(), incarnation: Incarnation::new(1) };
    let view = |epoch, members| View { epoch: Epoch::new(epoch).unwrap(), members, ..View::default() };
    lone.receive_from("b", Content::View(view(1, vec![me.clone()])));
    lone.pass(Span::from_millis(1500));
    let asked = lone.sent.iter().rev().find(|(_, content)| matches!(content, Content::Renew { .. }));
    let Some((_, Content::Renew { renewal, .. })) = asked.cloned() else { panic!("it asks for its lease") };
    lone.receive_from("b", Content::Granted { to: me.incarnation, renewal, length: Span::from_millis(5000) });
    for request in 0..count {
        lone.acquire(request, &format!("a lock with a name of some length, number {request:08}"));
    }
    lone.sent.clear();
    lone.receive_from("b", Content::View(view(2, vec![me, b])));
    let (mut frames, to) = (Vec::new(), lone.node.me().incarnation);
    // The census goes on as its pieces are acknowledged.
    while take_frames(&mut lone, &mut frames) {
        let ack = frames.len() as u64;
        lone.receive_from("b", Content::Link { to, frame: Frame::Ack { ack } });
    }
    (lone, frames)
}

/// Adds the messages that were sent on links since the last call. Returns whether there were any.
fn take_frames(lone: &mut Lone, frames: &mut Vec<Frame<LinkPayload>>) -> bool {
    let before = frames.len();
    for (_, content) in lone.sent.drain(..) {
        if let Content::Link { frame: frame @ Frame::Data { .. }, .. } = content {
            frames.push(frame);
        }
    }
    frames.len() > before
}

#[test]
fn a_census_of_a_hundred_thousand_locks_travels_in_pieces_that_fit_a_packet() {
    let (lone, frames) = census_of(100_000);
    assert_eq!(lone.node.table().counts().holders, 100_000);
    let (mut locks, mut ends) = (0, 0);
    for frame in &frames {
        let Frame::Data { body: LinkPayload::Census(CensusPiece { holdings, last, .. }), .. } = frame else {
            panic!("nothing but the census")
        };
        locks += holdings.len();
        ends += usize::from(*last);
        let content = Content::Link { to: Incarnation::new(1), frame: frame.clone() };
        let packet = Packet::direct(lone.node.cluster, Incarnation::new(1), content);
        let bytes = postcard::to_stdvec(&packet.content).unwrap().len();
        assert!(bytes < 256 << 10, "{bytes}");
    }
    assert_eq!((locks, ends), (100_000, 1));
    assert!(frames.len() > 10);
}

#[test]
fn a_view_opens_only_when_the_last_piece_of_every_census_has_come() {
    let (mut lone, frames) = census_of(0);
    assert_eq!(frames.len(), 1, "one that holds nothing says so");
    let hold = |lock: &str| Holding {
        lock: lock.parse().unwrap(),
        slots: vec![Some(0)],
        permits: Some(1),
        modes: Vec::new(),
    };
    let mut number = 0;
    let mut piece = |lone: &mut Lone, lock, last| {
        number += 1;
        let body = LinkPayload::Census(CensusPiece {
            holdings: vec![hold(lock)].into(),
            last,
            has_permits: true,
            key: None,
            has_modes: true,
        });
        let frame = Frame::Data { number, ack: 0, epoch: Epoch::new(2).unwrap(), body };
        let content = Content::Link { to: lone.node.me().incarnation, frame };
        lone.receive_from("b", content);
    };
    piece(&mut lone, "first", false);
    assert!(!lone.node.is_open());
    piece(&mut lone, "second", true);
    assert!(lone.node.is_open());
    // Both are held by b: nobody here enters.
    lone.acquire(1, "first");
    lone.acquire(2, "second");
    assert!(!lone.has_granted(1) && !lone.has_granted(2));
}
