//! What a leader and the two processes know of each other, and that nothing changes by it.

use super::super::leader::LeaderTiming;
use super::super::tests::Lone;
use super::*;
use crate::lease::{LeaseGrants, Renewal, Terms};
use crate::membership::Term;
use crate::membership::disk::Disk;
use crate::mutant;
use crate::time::Span;
use meshlock_protocol::Epoch;

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn member(site: &str, incarnation: u64) -> Member {
    Member { site: site.parse().unwrap(), incarnation: Incarnation::new(incarnation) }
}

/// Returns the leadership of site `a` in a view with `b`, and the view.
fn leading() -> (Leadership, View) {
    let members = vec![member("a", 5), member("b", 5)];
    let view = View { epoch: Epoch::new(3).unwrap(), members, ..View::default() };
    let grants = LeaseGrants::new(Terms::default(), &view.members, at(0), None);
    (Leadership::new("a".parse().unwrap(), Term(2), grants), view)
}

/// Returns whom the leader tells that its incarnation is too old, and what the last one was.
fn outdated(leader: &mut Leadership, view: &View, millis: u64) -> Vec<(Member, Incarnation)> {
    let timing = LeaderTiming {
        gather: Span::ZERO,
        gather_leaving: Span::ZERO,
        expected: 2,
        forget_joiner: Span::from_millis(1000),
        retry_round: Span::from_millis(50),
        max_past: 9,
    };
    let round = leader.begin_round(at(millis), timing).unwrap();
    leader.on_confirmed(round, view, at(millis)).outdated
}

fn renew(leader: &mut Leadership, millis: impl Iterator<Item = u64>) {
    for time in millis {
        leader.on_renew(member("b", 5), Renewal::default(), Vec::new(), at(time));
    }
}

#[test]
fn a_process_under_the_name_of_a_member_that_goes_on_renewing_is_a_second_one() {
    let (mut leader, view) = leading();
    renew(&mut leader, [0, 1000].into_iter());
    let second = member("b", 9);
    assert_eq!(leader.on_rival(&second, &view, at(1500)), None, "it may have been restarted");
    renew(&mut leader, (2000..=6000).step_by(1000));
    assert_eq!(leader.on_rival(&second, &view, at(6100)), Some((member("b", 5), true)));
    assert_eq!(leader.on_rival(&second, &view, at(7100)), Some((member("b", 5), false)), "known by now");
    assert_eq!(leader.on_rival(&member("b", 10), &view, at(7200)), None, "yet another one");
    assert_eq!(leader.on_rival(&member("b", 5), &view, at(9000)), None, "the member itself");
    assert_eq!(leader.on_rival(&member("c", 1), &view, at(9000)), None, "a name that nobody has");
}

#[test]
fn a_site_that_was_restarted_is_no_second_process() {
    let (mut leader, view) = leading();
    renew(&mut leader, [0, 1000].into_iter());
    for time in (1500..9000).step_by(1000) {
        // A renewal that was on its way when the old process died.
        renew(&mut leader, [1600].into_iter().filter(|_| time < 2000));
        assert_eq!(leader.on_rival(&member("b", 9), &view, at(time)), None, "{time}");
    }
    let wrong =
        mutant::with(Mutant::RestartTakenForRival, || leader.on_rival(&member("b", 10), &view, at(9500)));
    assert_eq!(
        wrong,
        Some((member("b", 5), true)),
        "the new process would be refused as long as the old one counts"
    );
}

#[test]
fn a_second_process_is_not_told_to_take_an_incarnation_that_the_first_one_may_take() {
    // Its clock is behind, so that its incarnation is below that of the member.
    let told = || {
        let (mut leader, view) = leading();
        renew(&mut leader, [0, 1000, 2000].into_iter());
        leader.on_outdated(member("b", 4));
        outdated(&mut leader, &view, 2100)
    };
    assert_eq!(told(), []);
    let next = mutant::with(Mutant::RivalTakesNextIncarnation, told);
    assert_eq!(next, [(member("b", 4), Incarnation::new(5))]);
    // Once the member does not renew any more, it is told.
    let (mut leader, view) = leading();
    renew(&mut leader, [0, 1000].into_iter());
    leader.on_outdated(member("b", 4));
    assert_eq!(outdated(&mut leader, &view, 5000), [(member("b", 4), Incarnation::new(5))]);
}

fn used_twice(refused: u64, in_use: u64) -> Content {
    Content::TooOld { incarnation: Incarnation::new(refused), last: Incarnation::new(in_use) }
}

#[test]
fn a_member_that_is_told_of_a_second_process_notes_it_once_and_goes_on() {
    let mut lone = Lone::start(&["a"], Disk::default());
    lone.pass(Span::from_millis(1000));
    let (me, end) = (lone.node.me().clone(), lone.node.lease().end());
    lone.notes.clear();
    for _ in 0..3 {
        lone.receive_from("b", used_twice(77, me.incarnation.number()));
    }
    assert_eq!(lone.notes, [Note::NameUsedTwice { member: me.clone(), refused: Incarnation::new(77) }]);
    lone.receive_from("b", used_twice(78, 77));
    assert_eq!(lone.notes.len(), 1, "that is not about this process");
    assert_eq!((lone.node.me(), lone.node.lease().end()), (&me, end));
    assert!(lone.node.is_open());
}

#[test]
fn a_second_process_that_is_refused_notes_once_where_the_first_one_is_and_changes_nothing() {
    let mut lone = Lone::start(&["b", "c"], Disk::default());
    lone.write();
    let me = lone.node.me().clone();
    let first = member("a", 0);
    let addresses = [(first.site.clone(), "db-1:7400".parse().unwrap())].into();
    let view =
        View { epoch: Epoch::new(1).unwrap(), members: vec![first.clone()], addresses, ..View::default() };
    lone.receive_from("b", Content::View(view));
    lone.notes.clear();
    for from in ["b", "c", "b"] {
        lone.receive_from(from, used_twice(me.incarnation.number(), 0));
    }
    let address = "db-1:7400".parse().ok();
    assert_eq!(lone.notes, [Note::NameTaken { member: first, address }]);
    assert_eq!(lone.node.me(), &me);
}

#[test]
fn only_a_process_with_a_later_incarnation_is_sent_the_view() {
    let mut lone = Lone::start(&["a"], Disk::default());
    lone.pass(Span::from_millis(1000));
    let kinds = |refused, in_use| {
        let (packets, told) = lone.node.refusal(Incarnation::new(refused), Incarnation::new(in_use));
        let Content::TooOld { incarnation, last } = told.content else { panic!("{told:?}") };
        assert!(last == Incarnation::new(in_use) && last < incarnation);
        packets.iter().map(|packet| packet.content.kind()).collect::<Vec<_>>()
    };
    assert_eq!(kinds(9, 5), ["view", "too old"]);
    assert_eq!(kinds(4, 5), ["too old"]);
}
