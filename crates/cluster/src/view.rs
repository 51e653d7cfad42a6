//! Views: who takes part, under which rules, as everyone agrees.

use std::collections::{BTreeMap, BTreeSet};

use meshlock_protocol::{Epoch, SiteId};
use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::lease::Terms;
use crate::names::{Incarnation, LockName, Member, SiteName};
use crate::rules::RulesText;

/// Who takes part and under which rules. Agreed on through the log; each has an epoch of its own, one more than the
/// last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct View {
    /// Its number; 0 is the view before the first one, without members.
    pub epoch: Epoch,
    /// One incarnation of each site that takes part, by name.
    pub members: Vec<Member>,
    /// The last incarnation of sites that took part and do not now, by name: no incarnation takes part a second time.
    pub past: Vec<Member>,
    /// Of sites that are not listed any more no incarnation up to this one takes part: all that have are among them.
    pub floor: Incarnation,
    /// Where each member is reached, by name, as it said when it asked to be let in.
    pub addresses: BTreeMap<SiteName, Address>,
    /// The leases: the same in all views but the one before the first.
    pub terms: Terms,
    /// Which locks run what.
    pub rules: RulesText,
    /// How often the rules have changed.
    pub rules_version: u64,
}

/// How many past lives a view lists at most, however its leader is configured.
pub const MAX_PAST: usize = 1024;

/// Why a list of sites cannot start a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SitesError {
    /// Nobody is named.
    #[error("the list of sites is empty; name at least this one")]
    Empty,
    /// One name for two sites.
    #[error(
        "the site '{name}' is listed twice (places {first} and {second}); give every site a name of its own"
    )]
    Twice {
        /// The name.
        name: SiteName,
        /// Where it is first, from 1.
        first: usize,
        /// Where it is again.
        second: usize,
    },
}

/// Checks a list of sites: somebody, and nobody twice.
pub fn check_sites(sites: &[SiteName]) -> Result<(), SitesError> {
    if sites.is_empty() {
        return Err(SitesError::Empty);
    }
    let mut seen = BTreeSet::new();
    for (at, name) in sites.iter().enumerate() {
        if !seen.insert(name) {
            let first = sites.iter().position(|other| other == name).unwrap_or(at) + 1;
            return Err(SitesError::Twice { name: name.clone(), first, second: at + 1 });
        }
    }
    Ok(())
}

impl View {
    /// The place of this incarnation of a site among the members.
    pub fn place(&self, member: &Member) -> Option<usize> {
        self.members.binary_search(member).ok()
    }

    /// Whether this incarnation of a site takes part.
    pub fn contains(&self, member: &Member) -> bool {
        self.place(member).is_some()
    }

    /// The incarnation of `site` that takes part, if one does.
    pub fn member(&self, site: &SiteName) -> Option<&Member> {
        let at = self.members.binary_search_by(|member| member.site.cmp(site)).ok()?;
        Some(&self.members[at])
    }

    /// Whether what was agreed on for ever is the same in both.
    pub fn agrees_with(&self, other: &View) -> bool {
        let first = [self.epoch, other.epoch].contains(&Epoch::default());
        first || self.terms == other.terms
    }

    /// Where the incarnation of `site` that takes part is reached.
    pub fn address(&self, site: &SiteName) -> Option<&Address> {
        self.addresses.get(site)
    }

    /// No later incarnation of `site` than this one takes part or has taken part. Of a site that is not listed that is the floor:
    /// whoever was listed once and is not now had no later incarnation.
    pub fn last_incarnation(&self, site: &SiteName) -> Incarnation {
        let past = self.past.binary_search_by(|past| past.site.cmp(site)).ok().map(|at| &self.past[at]);
        self.member(site).or(past).map_or(self.floor, |member| member.incarnation)
    }

    /// Whether this incarnation of a site may be let in: its site does not take part, and never has in this incarnation or a later one.
    pub fn may_join(&self, member: &Member) -> bool {
        self.last_incarnation(&member.site) < member.incarnation
    }

    /// The past lives, and the floor, of the view with `members` that follows on this one. If more than `longest` would be
    /// listed, the earliest lives are not, and the floor rises to them.
    pub(crate) fn past_without(&self, members: &[Member], longest: usize) -> (Vec<Member>, Incarnation) {
        let gone = |member: &&Member| members.iter().all(|other| other.site != member.site);
        let mut past: Vec<Member> = self.past.iter().chain(&self.members).filter(gone).cloned().collect();
        let mut floor = self.floor;
        if past.len() > longest {
            past.sort_by_key(|member| std::cmp::Reverse(member.incarnation));
            floor = past.split_off(longest).iter().map(|member| member.incarnation).fold(floor, Ord::max);
        }
        past.sort();
        (past, floor)
    }

    /// Whether members are in order of their names, no name is there twice, only members have addresses, and the terms make
    /// sense.
    pub fn is_well_formed(&self) -> bool {
        let sorted = |members: &[Member]| members.windows(2).all(|pair| pair[0].site < pair[1].site);
        self.past.len() <= MAX_PAST
            && self.terms.check().is_ok()
            && sorted(&self.members)
            && sorted(&self.past)
            && self.addresses.keys().all(|site| self.member(site).is_some())
    }
}

/// Where the members of a view stand in the algorithm of one lock. The lock's home is site 0; a member that may hold
/// several permits takes part several times, once for each *lane*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    members: usize,
    home: usize,
}

impl Placement {
    /// For the lock `name` in a view of so many members.
    pub fn new(name: &LockName, members: usize) -> Self {
        Placement { members, home: name.home(members) }
    }

    /// The algorithm's site for a lane of the member at `place`.
    pub fn site(self, place: usize, lane: usize) -> SiteId {
        SiteId::new(lane * self.members + (place + self.members - self.home) % self.members)
    }

    /// The place of the member, and its lane, that is this site of the algorithm.
    pub fn place(self, site: SiteId) -> (usize, usize) {
        ((site.index() % self.members + self.home) % self.members, site.index() / self.members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> SiteName {
        text.parse().unwrap()
    }

    #[test]
    fn an_empty_list_and_a_name_given_twice_are_refused() {
        assert_eq!(check_sites(&[]), Err(SitesError::Empty));
        let error = check_sites(&[name("a"), name("b"), name("a")]).unwrap_err().to_string();
        assert!(error.starts_with("the site 'a' is listed twice (places 1 and 3)"), "{error}");
        assert_eq!(check_sites(&[name("a"), name("b")]), Ok(()));
    }

    fn member(site: &str, incarnation: u64) -> Member {
        Member { site: name(site), incarnation: Incarnation::new(incarnation) }
    }

    #[test]
    fn no_life_takes_part_a_second_time() {
        let first = View { members: vec![member("a", 1), member("b", 1)], ..View::default() };
        let members = vec![member("b", 1)];
        let (past, floor) = first.past_without(&members, 9);
        let second = View { members, past, floor, ..View::default() };
        assert_eq!(second.past, [member("a", 1)]);
        assert!(!second.may_join(&member("a", 1)) && second.may_join(&member("a", 2)));
        assert!(!second.may_join(&member("b", 1)) && second.may_join(&member("c", 1)));
        let members = vec![member("a", 2), member("b", 1)];
        assert_eq!(second.past_without(&members, 9), (vec![], Incarnation::default()));
    }

    #[test]
    fn past_lives_that_are_not_listed_any_more_do_not_take_part_again_either() {
        let members = [member("a", 4), member("b", 9), member("c", 6), member("d", 2)];
        let first = View { members: members.to_vec(), ..View::default() };
        let (past, floor) = first.past_without(&members[3..], 1);
        assert_eq!((&past, floor), (&vec![member("b", 9)], Incarnation::new(6)));
        let second = View { past, floor, members: members[3..].to_vec(), ..View::default() };
        for incarnation in &members {
            assert!(
                !second.may_join(incarnation)
                    && second.last_incarnation(&incarnation.site) >= incarnation.incarnation,
                "{incarnation}"
            );
        }
        // A site that was never there waits for a incarnation above the floor; one that is listed has its own.
        assert!(!second.may_join(&member("e", 6)) && second.may_join(&member("e", 7)));
        assert!(second.may_join(&member("d", 3)) && second.may_join(&member("b", 10)));
    }

    #[test]
    fn only_members_have_addresses() {
        let address: Address = "db-1:7400".parse().unwrap();
        let addresses = BTreeMap::from([(name("a"), address.clone())]);
        let view = View { members: vec![member("a", 1), member("b", 1)], addresses, ..View::default() };
        assert!(view.is_well_formed());
        assert_eq!((view.address(&name("a")), view.address(&name("b"))), (Some(&address), None));
        assert!(!View { members: vec![member("b", 1)], ..view }.is_well_formed());
    }

    #[test]
    fn every_lane_of_every_member_has_a_seat_of_its_own_and_the_home_has_the_first() {
        for lock in ["jobs", "a", "z"] {
            let lock: LockName = lock.parse().unwrap();
            let placement = Placement::new(&lock, 5);
            assert_eq!(placement.site(lock.home(5), 0), SiteId::new(0));
            let mut seats = BTreeSet::new();
            for lane in 0..3 {
                for place in 0..5 {
                    let site = placement.site(place, lane);
                    assert_eq!(placement.place(site), (place, lane));
                    seats.insert(site);
                }
            }
            assert_eq!(seats.len(), 15);
        }
    }
}
