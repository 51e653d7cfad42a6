//! What voters know of earlier leaders' grants, so that a new leader does not have to count every lease from its election.
//!
//! A leader grants a renewal only after a majority has acknowledged a heartbeat of the round that began after the renewal came. That
//! heartbeat *lists* the members whose renewals the round is for. So every renewal that is granted was listed to a majority of the voters,
//! after it was sent. Each of them remembers when a member was last listed ([`ListedRenewals`]), and says with its vote how long ago that was
//! ([`RenewalAges`]). In the majority that elects a leader there is a voter of every earlier majority, and after its vote it acknowledges
//! nothing of an earlier leader. So the new leader knows a time before which every renewal was sent that an earlier one has granted
//! ([`Inherited`]).
//!
//! What a voter does not know it says, too: a voter that has been restarted has forgotten everything, and an older program lists nobody.
//! Then any member may have been listed until then.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::mutant::{self, Mutant};
use crate::names::Member;
use crate::time::{Drift, Span, Time};

/// Maximum number of members that are remembered; beyond, any member may have been listed. No view has so many.
const MAX_LISTED: usize = 1 << 14;

/// When a voter was last told which members' renewals may be granted, on its own clock.
#[derive(Clone, Debug)]
pub(crate) struct ListedRenewals {
    /// Any member may have been listed until then.
    others: Time,
    /// The members that were listed after that.
    last: BTreeMap<Member, Time>,
}

/// How long ago members were last listed at a voter, on the voter's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RenewalAges {
    others: Span,
    of: Vec<(Member, Span)>,
}

/// What those have said who voted for a leader, and when it was received, on the leader's clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inherited(Vec<(Time, RenewalAges)>);

impl ListedRenewals {
    /// Creates the state of a voter that begins to remember now.
    pub(crate) fn new(now: Time) -> Self {
        let others = if mutant::is_on(Mutant::RestartedVoterRemembers) { Time::ZERO } else { now };
        ListedRenewals { others, last: BTreeMap::new() }
    }

    /// Reacts to a round for renewals of these members; `None` if it does not say whose. What is older than `keep` need not be known
    /// exactly.
    pub(crate) fn on_round(&mut self, members: Option<Vec<Member>>, keep: Span, now: Time) {
        if mutant::is_on(Mutant::RoundsForgotten) {
            return;
        }
        match members {
            Some(members) if self.last.len() + members.len() <= MAX_LISTED => {
                self.last.extend(members.into_iter().map(|member| (member, now)));
            }
            Some(_) | None => *self = ListedRenewals { others: now, last: BTreeMap::new() },
        }
        let old = self.last.values().filter(|at| now.since(**at) >= keep).max();
        if let Some(old) = old.copied() {
            self.others = self.others.max(old);
            self.last.retain(|_, at| *at > old);
        }
    }

    /// Returns how long ago each member was last listed.
    pub(crate) fn ages(&self, now: Time) -> RenewalAges {
        let of = self.last.iter().map(|(member, at)| (member.clone(), now.since(*at))).collect();
        RenewalAges { others: now.since(self.others), of }
    }
}

impl RenewalAges {
    /// Returns the bytes that follow a vote.
    pub(crate) fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("names and numbers are plain data")
    }

    /// Reads what followed a vote. If that is nothing, or nonsense, any member may have been listed just before it.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let ages = postcard::from_bytes::<RenewalAges>(bytes).ok();
        ages.filter(|ages| ages.of.len() <= MAX_LISTED).unwrap_or_default()
    }
}

impl Inherited {
    /// Adds what a voter has said with its vote, which was received at `received`.
    pub(crate) fn add(&mut self, ages: RenewalAges, received: Time) {
        self.0.push((received, ages));
    }

    /// Returns the time before which every renewal of the member was sent that an earlier leader has granted. The voters' clocks run at
    /// other rates, within `drift`, which a leader may learn only after its election.
    pub(crate) fn at(&self, member: &Member, drift: Drift) -> Time {
        let said = self.0.iter().map(|(received, ages)| {
            let age = ages.of.iter().find(|(of, _)| of == member).map_or(ages.others, |(_, age)| *age);
            received.before(drift.shrink(age))
        });
        said.max().unwrap_or(Time::ZERO)
    }
}

/// Appends the list of members to the context of a round's heartbeat.
pub(crate) fn append_list<'a>(context: &mut Vec<u8>, members: impl Iterator<Item = &'a Member>) {
    let members: Vec<&Member> = members.collect();
    let list = postcard::to_stdvec(&members).expect("names and numbers are plain data");
    context.extend(list);
}

/// Reads the list of members that follows a round's number in the context of its heartbeat. Older programs have none.
pub(crate) fn read_list(after_round: &[u8]) -> Option<Vec<Member>> {
    let members: Vec<Member> = postcard::from_bytes(after_round).ok()?;
    Some(members).filter(|members| members.len() <= MAX_LISTED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Incarnation;

    fn member(site: &str) -> Member {
        Member { site: site.parse().unwrap(), incarnation: Incarnation::new(1) }
    }

    fn at(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    const KEEP: Span = Span::from_micros(1_000);

    #[test]
    fn a_voter_says_how_long_ago_each_member_was_listed_and_since_when_it_knows() {
        let mut listed = ListedRenewals::new(at(100));
        listed.on_round(Some(vec![member("a"), member("b")]), KEEP, at(200));
        listed.on_round(Some(vec![member("b")]), KEEP, at(300));
        let ages = listed.ages(at(350));
        assert_eq!(ages.others, Span::from_micros(250));
        assert_eq!(ages.of, [(member("a"), Span::from_micros(150)), (member("b"), Span::from_micros(50))]);
        assert_eq!(RenewalAges::decode(&ages.encode()), ages);
    }

    #[test]
    fn what_is_long_ago_is_forgotten_and_a_round_without_a_list_may_be_for_anyone() {
        let mut listed = ListedRenewals::new(at(0));
        listed.on_round(Some(vec![member("a")]), KEEP, at(200));
        listed.on_round(Some(vec![member("b")]), KEEP, at(1_200));
        let ages = listed.ages(at(1_200));
        assert_eq!((ages.others, ages.of.len()), (Span::from_micros(1_000), 1), "a is one of the others");
        listed.on_round(None, KEEP, at(1_300));
        assert_eq!(listed.ages(at(1_300)), RenewalAges::default());
    }

    #[test]
    fn a_leader_takes_the_latest_that_any_voter_says_and_a_voter_that_says_nothing_may_mean_anyone() {
        let ages = |others, of: &[(&str, u64)]| RenewalAges {
            others: Span::from_micros(others),
            of: of.iter().map(|(site, age)| (member(site), Span::from_micros(*age))).collect(),
        };
        let drift = Drift::from_ppm(1_000_000);
        let mut inherited = Inherited::default();
        inherited.add(ages(800, &[("a", 100), ("b", 400)]), at(1_000));
        assert_eq!(
            (inherited.at(&member("a"), drift), inherited.at(&member("c"), drift)),
            (at(950), at(600))
        );
        // A clock that is twice as fast measures 200 where the leader's measures 100.
        inherited.add(ages(600, &[("b", 20)]), at(1_000));
        assert_eq!(
            (inherited.at(&member("a"), drift), inherited.at(&member("b"), drift)),
            (at(950), at(990))
        );
        assert_eq!(inherited.at(&member("c"), drift), at(700));
        for nothing in [&[][..], &[255; 40]] {
            inherited.add(RenewalAges::decode(nothing), at(1_100));
            assert_eq!(inherited.at(&member("c"), drift), at(1_100));
        }
    }

    #[test]
    fn a_list_follows_the_number_of_its_round_and_what_is_no_list_is_none() {
        let members = [member("a"), member("b")];
        let mut context = vec![0; 8];
        append_list(&mut context, members.iter());
        assert_eq!(read_list(&context[8..]), Some(members.to_vec()));
        append_list(&mut context, [].iter());
        assert_eq!(read_list(&[0]), Some(Vec::new()));
        assert_eq!((read_list(&[]), read_list(&[255; 9])), (None, None));
    }
}
