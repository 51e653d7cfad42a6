//! A voter registers its disk, votes with the first one, and not with a second one; incarnations of lost disks are not
//! used again.

use meshlock_protocol::Epoch;

use super::super::tests::Lone;
use super::*;
use crate::names::Member;
use crate::time::Span;
use crate::view::View;

#[test]
fn any_two_sets_that_are_enough_share_as_many_as_may_lose_their_disks() {
    for voters in 1..=7 {
        let (others, minority, enough) = (voters - 1, (voters - 1) / 2, enough(voters));
        assert!(enough <= others && 2 * enough >= others + minority, "{voters} voters");
        assert!(enough == 0 || 2 * (enough - 1) < others + minority, "{voters} voters: fewer do");
    }
    assert_eq!([1, 2, 3, 4, 5, 6, 7].map(enough), [0, 1, 2, 2, 3, 4, 5]);
}

fn may_vote(disk: &Disk) -> bool {
    disk.registrations.as_ref().is_some_and(|registrations| registrations.may_vote)
}

/// Returns the disk that `lone` registered last, and with whom.
fn registers(lone: &mut Lone) -> Vec<(String, Incarnation)> {
    let asked = lone.sent.drain(..).filter_map(|(to, content)| {
        let Content::Register { disk } = content else { return None };
        Some((to.to_string(), disk))
    });
    asked.collect()
}

#[test]
fn a_voter_votes_once_enough_others_have_its_disk_in_writing_and_for_ever_after() {
    let mut lone = Lone::start(&["a", "b", "c"], Disk::default());
    assert_eq!(registers(&mut lone), [], "the disk does not know this incarnation yet");
    lone.write();
    let disk = lone.node.me().incarnation;
    assert_eq!(registers(&mut lone), [("b".to_owned(), disk), ("c".to_owned(), disk)]);
    lone.receive_from("b", Content::Registered { disk });
    lone.pass(Span::from_millis(2000));
    assert!(registers(&mut lone).iter().all(|(to, _)| to == "c"), "b has answered");
    assert!(lone.node.membership.is_none() && !may_vote(&lone.disk), "one of two others is not enough");
    lone.pass(Span::from_millis(5000));
    let silent = vec!["c".parse().unwrap()];
    assert!(lone.notes.contains(&Note::FirstStartWaits { silent }));
    lone.receive_from("c", Content::Registered { disk });
    lone.write();
    assert!(lone.node.membership.is_some() && may_vote(&lone.disk));
    let again = Lone::start(&["a", "b", "c"], lone.disk);
    assert!(again.node.membership.is_some());
}

#[test]
fn a_start_that_is_not_sworn_yet_registers_the_same_disk_as_the_first_one() {
    let mut first = Lone::start(&["a", "b", "c"], Disk::default());
    first.write();
    let mut second = Lone::start(&["a", "b", "c"], first.disk);
    second.write();
    assert_eq!(second.node.me().incarnation, Incarnation::new(2));
    let disk = Incarnation::new(1);
    assert_eq!(registers(&mut second), [("b".to_owned(), disk), ("c".to_owned(), disk)]);
}

#[test]
fn a_voter_whose_disk_was_replaced_does_not_vote_and_reports_it() {
    let mut lone = Lone::start(&["a", "b", "c"], Disk::default());
    lone.write();
    let disk = lone.node.me().incarnation;
    let known = disk.next();
    lone.receive_from("b", Content::Registered { disk: known });
    let by: SiteName = "b".parse().unwrap();
    assert_eq!(lone.notes, [Note::DiskReplaced { by, known, disk }]);
    for site in ["b", "c"] {
        lone.receive_from(site, Content::Registered { disk });
    }
    lone.sent.clear();
    lone.pass(Span::from_millis(5000));
    assert!(lone.node.membership.is_none() && !may_vote(&lone.disk));
    assert!(
        lone.sent.iter().all(|(_, content)| !matches!(content, Content::Raft(_) | Content::Register { .. }))
    );
}

#[test]
fn the_first_disk_of_a_voter_is_written_down_before_it_is_answered_and_no_other_one_after_it() {
    let mut lone = Lone::start(&["a", "b", "c"], Disk::default());
    lone.write();
    lone.sent.clear();
    let [first, second] = [5, 6].map(Incarnation::new);
    lone.receive_from("b", Content::Register { disk: first });
    lone.receive_from("b", Content::Register { disk: second });
    assert_eq!(lone.sent, [], "nothing is in writing yet");
    lone.write();
    let b: SiteName = "b".parse().unwrap();
    assert_eq!(lone.sent, [(b.clone(), Content::Registered { disk: first })]);
    let mut again = Lone::start(&["a", "b", "c"], lone.disk);
    again.write();
    again.sent.clear();
    again.receive_from("b", Content::Register { disk: second });
    assert_eq!(again.sent, [(b, Content::Registered { disk: first })]);
    again.receive_from("stranger", Content::Register { disk: second });
    assert!(matches!(again.notes.last(), Some(Note::Misbehaved { .. })));
    assert_eq!(again.sent.len(), 1);
}

#[test]
fn an_incarnation_that_is_called_too_old_by_a_voter_is_followed_by_one_that_is_not() {
    let mut lone = Lone::start(&["b"], Disk::default());
    lone.write();
    let (me, last) = (lone.node.me().clone(), Incarnation::new(40));
    let incarnation = me.incarnation;
    lone.receive_from("stranger", Content::TooOld { incarnation, last });
    lone.receive_from("b", Content::TooOld { incarnation: incarnation.next(), last });
    lone.receive_from("b", Content::TooOld { incarnation, last: Incarnation::default() });
    assert_eq!(lone.node.me(), &me, "not from a voter, not of this incarnation, not too old");
    lone.sent.clear();
    lone.receive_from("b", Content::TooOld { incarnation, last });
    let next = lone.node.me().incarnation;
    assert!(next > last && next != last.next(), "another process of this site may go on with the next one");
    assert_eq!(lone.sent, [], "the disk does not know this incarnation yet");
    lone.write();
    assert!(matches!(lone.sent.first(), Some((_, Content::Join { .. }))));
    assert_eq!(lone.disk.incarnation, next);
    // A member is not asked to begin another incarnation without the view knowing.
    let members = vec![Member { site: me.site, incarnation: next }];
    let view = View { epoch: Epoch::new(1).unwrap(), members, ..View::default() };
    lone.receive_from("b", Content::View(view));
    lone.receive_from("b", Content::TooOld { incarnation: next, last: next });
    assert_eq!(lone.node.me().incarnation, next);
}

#[test]
fn a_voter_whose_disk_was_replaced_is_not_counted_as_one_that_can_elect() {
    let mut lone = Lone::start(&["a", "b", "c"], Disk::default());
    lone.write();
    let (disk, first) = (lone.node.me().incarnation, Incarnation::new(7));
    lone.receive_from("b", Content::Register { disk: first });
    lone.write();
    let said = |lone: &Lone| lone.node.voters_in_reach().to_string();
    assert!(
        said(&lone).starts_with("2 of 3 voters are reachable; they have to elect a leader"),
        "{}",
        said(&lone)
    );
    lone.receive_from("b", Content::Register { disk: first.next() });
    assert!(!lone.node.reaches_majority());
    assert_eq!(said(&lone), "1 of 3 voters is reachable, and one more has lost its disk and does not vote");
    // The old disk is back.
    lone.receive_from("b", Content::Register { disk: first });
    assert!(lone.node.reaches_majority());
    // This site itself has lost its disk.
    lone.receive_from("c", Content::Registered { disk: disk.next() });
    assert!(
        said(&lone).starts_with("2 of 3 voters are reachable, and one more has lost its disk"),
        "{}",
        said(&lone)
    );
}
