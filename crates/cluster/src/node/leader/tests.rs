//! Which members a leader grants leases, admits and excludes.

use super::*;
use crate::lease::Terms;
use crate::names::Incarnation;
use crate::time::Drift;

const TERMS: Terms = Terms {
    length: Span::from_millis(1000),
    drift: Drift::from_ppm(0),
    margin: Span::from_millis(100),
    renew_every: Span::from_millis(200),
};

const TIMING: LeaderTiming = LeaderTiming {
    gather: Span::from_millis(10),
    gather_leaving: Span::from_millis(5),
    expected: 9,
    forget_joiner: Span::from_millis(1000),
    retry_round: Span::from_millis(50),
    max_past: 9,
};

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn member(site: &str, incarnation: u64) -> Member {
    Member { site: site.parse().unwrap(), incarnation: Incarnation::new(incarnation) }
}

fn view(members: &[&Member]) -> View {
    let members = members.iter().map(|member| (*member).clone()).collect();
    View { epoch: Epoch::new(5).unwrap(), members, ..View::default() }
}

/// Returns the leadership of site `a` in a view of a, b, c and d.
fn leading() -> (Leadership, View, [Member; 4]) {
    let members = ["a", "b", "c", "d"].map(|site| member(site, 1));
    let view = view(&members.each_ref());
    let grants = LeaseGrants::new(TERMS, &view.members, at(0), None);
    (Leadership::new("a".parse().unwrap(), Term(7), grants), view, members)
}

impl Leadership {
    /// Lets everyone here ask for a renewal at `millis`, and returns the members that are granted one.
    fn renew(&mut self, members: &[&Member], view: &View, millis: u64) -> Vec<Member> {
        for member in members {
            let reported = self.reports.get(member).cloned().unwrap_or_default();
            self.on_renew((*member).clone(), Renewal::default(), reported, at(millis));
        }
        let round = self.begin_round(at(millis), TIMING).unwrap();
        self.on_confirmed(round, view, at(millis)).granted.into_iter().map(|(member, _)| member).collect()
    }

    /// Handles a report of `member` that it cannot reach these.
    fn report(&mut self, member: &Member, unreachable: &[&Member], millis: u64) {
        let unreachable = unreachable.iter().map(|other| (*other).clone()).collect();
        self.on_renew(member.clone(), Renewal::default(), unreachable, at(millis));
    }

    /// Lets these ask for renewals in time, in these milliseconds.
    fn hear_from(&mut self, members: &[&Member], millis: std::ops::RangeInclusive<u64>) {
        for time in millis.step_by(200) {
            for member in members {
                self.report(member, &[], time);
            }
        }
    }

    fn join(&mut self, member: Member, reached: Vec<Member>, now: Time) {
        let address = format!("{}:{}", member.site, member.incarnation.number()).parse().unwrap();
        self.on_join(member, address, reached, now);
    }

    fn next(&mut self, view: &View, millis: u64) -> Option<Vec<Member>> {
        self.next_view(view, &RulesText::default(), at(millis), TIMING).map(|next| next.members)
    }
}

#[test]
fn a_renewal_is_granted_by_a_round_that_began_after_it_came() {
    let (mut leader, view, [a, b, ..]) = leading();
    leader.report(&a, &[], 1);
    let first = leader.begin_round(at(1), TIMING).unwrap();
    leader.report(&b, &[], 2);
    assert_eq!(leader.begin_round(at(2), TIMING), None, "one round at a time");
    let granted = leader.on_confirmed(first, &view, at(3)).granted;
    assert_eq!(granted, [(a, Renewal::default())]);
    let second = leader.begin_round(at(3), TIMING).unwrap();
    assert_eq!(
        leader.on_confirmed(first, &view, at(4)),
        Answers::default(),
        "an old confirmation says nothing about now"
    );
    assert_eq!(leader.on_confirmed(second, &view, at(4)).granted, [(b, Renewal::default())]);
}

#[test]
fn an_unconfirmed_round_is_restarted_with_all_waiting_requests() {
    let (mut leader, view, [a, b, ..]) = leading();
    leader.report(&a, &[], 1);
    let lost = leader.begin_round(at(1), TIMING).unwrap();
    leader.report(&b, &[], 2);
    let again = leader.begin_round(at(51), TIMING).unwrap();
    assert_eq!(leader.on_confirmed(lost, &view, at(52)), Answers::default());
    assert_eq!(leader.on_confirmed(again, &view, at(52)).granted.len(), 2);
}

#[test]
fn whoever_is_not_renewed_is_left_out_when_its_lease_is_over_and_not_before() {
    let (mut leader, view, [a, b, c, d]) = leading();
    leader.renew(&[&a, &b, &c, &d], &view, 500);
    leader.renew(&[&a, &b, &c], &view, 900);
    assert_eq!(leader.next(&view, 1499), None);
    assert_eq!(leader.next(&view, 1500), Some(vec![a, b, c]));
}

#[test]
fn nobody_whom_a_proposed_view_leaves_out_is_granted_anything() {
    let (mut leader, view, [a, b, c, d]) = leading();
    leader.renew(&[&a, &b, &c], &view, 900);
    leader.pending = leader.next_view(&view, &RulesText::default(), at(1000), TIMING);
    assert_eq!(leader.renew(&[&a, &d], &view, 1001), [a]);
    assert_eq!(leader.next(&view, 1900), None, "one proposal at a time");
}

/// Its own first view has a higher epoch, and is void: a leader that waited for it would never propose anything again.
#[test]
fn a_first_view_of_another_leader_makes_the_proposed_one_void_whatever_their_epochs_are() {
    let (a, b) = (member("a", 1), member("b", 1));
    let grants = LeaseGrants::new(TERMS, &[], at(0), None);
    let mut leader = Leadership::new("a".parse().unwrap(), Term(7), grants);
    leader.join(a.clone(), Vec::new(), at(0));
    let own = leader.next_view(&View::default(), &RulesText::default(), at(20), TIMING).unwrap();
    leader.pending = Some(View { epoch: Epoch::new(9).unwrap(), ..own });
    let others = view(&[&b]);
    leader.on_agreed(&others, at(30));
    assert_eq!(leader.pending, None);
    leader.join(a.clone(), vec![b.clone(), a.clone()], at(30));
    assert_eq!(leader.next(&others, 50), Some(vec![a, b]));
}

#[test]
fn of_two_that_cannot_reach_each_other_one_gets_no_lease_and_rather_not_the_leader() {
    let (mut leader, view, [a, b, c, d]) = leading();
    leader.hear_from(&[&a, &b, &c, &d], 0..=800);
    leader.report(&b, &[&c], 801);
    assert_eq!(leader.to_exclude(&view, at(801)), BTreeSet::from([c.clone()]));
    leader.report(&b, &[&a], 802);
    assert_eq!(leader.to_exclude(&view, at(802)), BTreeSet::from([b.clone()]));
    // The member that nobody reaches is the one to exclude, whoever reports it.
    leader.report(&b, &[&a, &c, &d], 803);
    leader.report(&c, &[&b], 803);
    assert_eq!(leader.to_exclude(&view, at(803)), BTreeSet::from([b.clone()]));
    assert_eq!(leader.renew(&[&a, &b, &c, &d], &view, 810), [a, c.clone(), d]);
    // Reached again, it is renewed again.
    leader.report(&b, &[], 811);
    leader.report(&c, &[], 811);
    assert_eq!(leader.to_exclude(&view, at(811)), BTreeSet::new());
}

#[test]
fn whoever_was_stopped_and_comes_back_is_renewed_though_others_have_reported_it() {
    let refused = || {
        let (mut leader, view, [a, b, c, d]) = leading();
        leader.hear_from(&[&a, &b, &c, &d], 0..=800);
        // c stops, for almost as long as its lease allows; the others find that it does not acknowledge anything.
        leader.hear_from(&[&a, &b, &d], 1000..=1400);
        leader.report(&a, &[&c], 1600);
        leader.report(&b, &[&c], 1601);
        leader.report(&d, &[&c], 1602);
        // When it wakes up, it has not read any acknowledgement yet, and reports the others.
        leader.report(&c, &[&a, &b, &d], 1650);
        let granted = leader.renew(&[&c], &view, 1651);
        (granted != [a, b, d, c], leader.to_exclude(&view, at(1651)).len())
    };
    assert_eq!(refused(), (false, 0));
    assert_eq!(mutant::with(Mutant::ReportedMemberRefused, refused), (true, 1));
}

#[test]
fn reports_count_again_once_both_have_been_heard_from_for_as_long_as_a_pause_may_last() {
    let (mut leader, view, [a, b, c, d]) = leading();
    leader.hear_from(&[&a, &b, &d], 0..=1800);
    for time in (1200..1900).step_by(200) {
        leader.report(&c, &[&b], time);
        assert_eq!(leader.to_exclude(&view, at(time)), BTreeSet::new(), "{time}");
    }
    leader.report(&c, &[&b], 1900);
    assert_eq!(leader.to_exclude(&view, at(1900)), BTreeSet::from([c]));
}

#[test]
fn a_report_that_is_repeated_for_the_length_of_a_lease_counts_also_between_members_that_seem_silent_at_times()
{
    let (mut leader, view, [a, b, c, d]) = leading();
    leader.hear_from(&[&a, &d], 0..=2600);
    // By this leader's clock the renewals of these two come late each time.
    for time in [100, 900] {
        leader.report(&b, &[], time + 1);
        leader.report(&c, &[&b], time);
        assert_eq!(leader.to_exclude(&view, at(time)), BTreeSet::new(), "{time}");
    }
    leader.report(&b, &[], 1701);
    leader.report(&c, &[&b], 1702);
    assert_eq!(leader.to_exclude(&view, at(1702)), BTreeSet::from([c.clone()]));
    mutant::with(Mutant::LastingReportIgnored, || leader.report(&c, &[&b], 1703));
    assert_eq!(leader.to_exclude(&view, at(1703)), BTreeSet::new());
    leader.report(&c, &[&b], 1704);
    assert_eq!(leader.to_exclude(&view, at(1704)), BTreeSet::from([c.clone()]));
    leader.report(&c, &[], 2501);
    leader.report(&c, &[&b], 2502);
    assert_eq!(leader.to_exclude(&view, at(2502)), BTreeSet::new(), "it was withdrawn");
}

#[test]
fn whoever_could_not_reach_a_member_that_is_dead_by_now_is_renewed() {
    // By name it would be d that is refused.
    let refused = || {
        let (mut leader, view, [a, b, c, d]) = leading();
        leader.hear_from(&[&a, &b, &c, &d], 0..=800);
        leader.report(&c, &[&d], 900);
        leader.hear_from(&[&a, &b, &d], 1000..=1800);
        leader.to_exclude(&view, at(1800)).contains(&d)
    };
    assert!(!refused());
    assert!(mutant::with(Mutant::DeadMemberCounts, refused));
}

#[test]
fn one_that_speaks_but_does_not_hear_gets_no_lease_and_nobody_else_suffers_for_it() {
    let (mut leader, view, [a, b, c, d]) = leading();
    leader.hear_from(&[&a, &b, &c, &d], 0..=1000);
    leader.on_in_step(&b, false, at(100));
    // The leader is one of the two that cannot reach it: by count alone it would be the leader that is excluded.
    leader.report(&a, &[&b], 1001);
    leader.report(&d, &[&b], 1001);
    leader.on_in_step(&b, false, at(900));
    assert_eq!(leader.renew(&[&c], &view, 1099).len(), 3, "a lease's length is not over");
    assert_eq!(leader.to_exclude(&view, at(1100)), BTreeSet::from([b.clone()]));
    leader.on_in_step(&b, true, at(1200));
    leader.report(&a, &[], 1200);
    leader.report(&d, &[], 1200);
    assert_eq!(leader.to_exclude(&view, at(1200)), BTreeSet::new());
}

#[test]
fn time_in_which_a_member_is_silent_does_not_count_as_not_hearing() {
    let (mut leader, view, [a, b, c, d]) = leading();
    leader.hear_from(&[&a, &b, &c, &d], 0..=200);
    leader.on_in_step(&b, false, at(200));
    leader.hear_from(&[&a, &c, &d], 400..=1400);
    leader.on_in_step(&b, false, at(1400));
    leader.report(&b, &[], 1400);
    assert_eq!(leader.to_exclude(&view, at(1400)), BTreeSet::new());
}

#[test]
fn a_site_is_admitted_once_it_reaches_every_remaining_member() {
    let (mut leader, view, [a, b, c, d]) = leading();
    let fifth = member("e", 3);
    leader.renew(&[&a, &b, &c], &view, 900);
    leader.join(fifth.clone(), vec![a.clone(), b.clone()], at(900));
    assert_eq!(leader.next(&view, 990), None);
    leader.join(fifth.clone(), vec![a.clone(), b.clone(), c.clone(), d], at(990));
    assert_eq!(leader.next(&view, 991).map(|members| members.len()), Some(5));
    // It need not reach a member that is about to be excluded.
    leader.join(fifth.clone(), vec![a.clone(), b.clone(), c.clone()], at(995));
    assert_eq!(leader.next(&view, 1000), Some(vec![a, b, c, fifth]));
}

#[test]
fn a_site_that_has_not_asked_for_the_length_of_a_lease_is_not_let_in() {
    let (mut leader, view, [a, b, c, d]) = leading();
    let fifth = member("e", 3);
    let everyone = [a, b, c, d];
    for (asked, lets_in) in [(901, true), (900, false)] {
        leader.renew(&everyone.each_ref(), &view, 1000);
        leader.join(fifth.clone(), everyone.to_vec(), at(asked));
        leader.pending = None;
        assert_eq!(leader.next(&view, 1900).is_some(), lets_in, "asked at {asked} ms");
    }
}

#[test]
fn a_new_incarnation_waits_until_the_lease_of_the_old_one_is_over() {
    let (mut leader, view, [a, b, c, d]) = leading();
    leader.renew(&[&a, &b, &c, &d], &view, 500);
    let reborn = member("d", 2);
    leader.join(reborn.clone(), vec![a.clone(), b.clone(), c.clone()], at(600));
    leader.renew(&[&a, &b, &c], &view, 1200);
    leader.join(reborn.clone(), vec![a.clone(), b.clone(), c.clone()], at(1300));
    assert_eq!(leader.next(&view, 1499), None);
    assert_eq!(leader.next(&view, 1500), Some(vec![a, b, c, reborn]));
}

#[test]
fn an_older_incarnation_cannot_ask_to_be_let_in_behind_a_newer_one() {
    let (mut leader, view, [a, b, c, d]) = leading();
    let everyone = vec![a, b, c, d];
    leader.join(member("e", 4), everyone.clone(), at(1));
    leader.join(member("e", 3), everyone, at(2));
    let next = leader.next(&view, 50).unwrap();
    assert!(next.contains(&member("e", 4)) && !next.contains(&member("e", 3)));
}

#[test]
fn a_view_contains_the_addresses_of_exactly_its_members() {
    let (mut leader, mut view, [a, b, c, d]) = leading();
    for member in [&a, &b, &c, &d] {
        view.addresses.insert(member.site.clone(), "old:1".parse().unwrap());
    }
    leader.renew(&[&a, &b], &view, 900);
    for joiner in [member("c", 2), member("e", 7)] {
        leader.join(joiner, vec![a.clone(), b.clone()], at(900));
    }
    let next = leader.next_view(&view, &RulesText::default(), at(1000), TIMING).unwrap();
    let addresses = next.addresses.iter().map(|(site, address)| format!("{site} at {address}"));
    assert_eq!(addresses.collect::<Vec<_>>(), ["a at old:1", "b at old:1", "c at c:2", "e at e:7"]);
    assert!(next.is_well_formed());
}

#[test]
fn a_confirmed_leader_tells_an_outdated_incarnation_the_last_one_of_its_site() {
    let (mut leader, mut view, [a, ..]) = leading();
    view.past = vec![member("e", 8)];
    for outdated in [member("e", 8), member("b", 0), member("a", 1)] {
        leader.on_outdated(outdated);
    }
    let round = leader.begin_round(at(1), TIMING).unwrap();
    leader.on_outdated(member("z", 0));
    let answers = leader.on_confirmed(round, &view, at(2));
    let last = Incarnation::new;
    assert_eq!(answers.outdated, [(member("b", 0), last(1)), (member("e", 8), last(8))], "{a} takes part");
    let round = leader.begin_round(at(3), TIMING).unwrap();
    let answers = leader.on_confirmed(round, &view, at(4));
    assert_eq!(answers.outdated, [(member("z", 0), last(0))], "it came after the first round began");
}

#[test]
fn nobody_makes_a_leader_remember_more_incarnations_than_it_answers_in_a_round() {
    let (mut leader, view, _) = leading();
    for site in 0..2 * MAX_OUTDATED {
        leader.on_outdated(member(&format!("z{site}"), 0));
    }
    let round = leader.begin_round(at(1), TIMING).unwrap();
    assert_eq!(leader.on_confirmed(round, &view, at(2)).outdated.len(), MAX_OUTDATED);
}

#[test]
fn a_view_for_which_there_is_no_number_is_not_proposed_and_that_is_known() {
    let (mut leader, mut view, [a, b, c, d]) = leading();
    view.epoch = Epoch::MAX;
    leader.renew(&[&a, &b, &c], &view, 900);
    assert_eq!((leader.next(&view, 900), leader.exhausted), (None, false), "{d} is not over: none is wanted");
    assert_eq!((leader.next(&view, 1000), leader.exhausted), (None, true));
}

#[test]
fn members_that_leave_together_leave_with_one_view() {
    let (mut leader, view, [a, b, c, d]) = leading();
    leader.on_leave(b.clone(), at(10));
    assert_eq!(leader.next(&view, 10), None, "others may be about to leave");
    assert_eq!(leader.next_due(&view, at(10), TIMING), Some(at(15)));
    leader.on_leave(c.clone(), at(12));
    assert_eq!(leader.next(&view, 15), Some(vec![a.clone(), d.clone()]));
    let (mut leader, view, [a, b, c, d]) = leading();
    for member in [&b, &a, &d, &c] {
        assert_eq!(leader.next(&view, 10), None);
        leader.on_leave(member.clone(), at(10));
    }
    assert_eq!(leader.next(&view, 10), Some(Vec::new()), "nobody else can leave");
    let next = View { epoch: Epoch::new(6).unwrap(), members: Vec::new(), ..View::default() };
    assert_eq!(leader.left_with(&next).len(), 4);
}
