//! Views: the members and rules that all sites agree on.

use std::collections::{BTreeMap, BTreeSet};

use meshlock_protocol::{Epoch, SiteId};
use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::lease::Terms;
use crate::names::{Incarnation, LockName, Member, SiteName};
use crate::rules::RulesText;

/// The members of the cluster and its rules. Views are agreed on through the log; each has an epoch of its own, one
/// more than the last. The first one has the epoch with which its cluster [begins](crate::fence_floor).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct View {
    /// 0 is the epoch of the view before the first one, which has no members.
    pub epoch: Epoch,
    /// One incarnation of each site that takes part, sorted by name.
    pub members: Vec<Member>,
    /// The last incarnation of each former member, sorted by name: no incarnation takes part a second time.
    pub past: Vec<Member>,
    /// No incarnation up to this one of a site that is not listed may take part: it is at least as high as every
    /// incarnation that is not listed any more.
    pub floor: Incarnation,
    /// The address of each member, as it said when it asked to join.
    pub addresses: BTreeMap<SiteName, Address>,
    /// The terms of leases: the same in all views but the one before the first.
    pub terms: Terms,
    pub rules: RulesText,
    /// How often the rules have changed.
    pub rules_version: u64,
}

/// Maximum number of past incarnations that a view lists, however its leader is configured.
pub(crate) const MAX_PAST: usize = 1024;

/// The reason why a list of sites cannot start a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SitesError {
    #[error("the list of sites is empty; name at least this one")]
    Empty,
    /// Two sites have the same name.
    #[error(
        "the site '{name}' is listed twice (places {first} and {second}); give every site a name of its own"
    )]
    Twice {
        name: SiteName,
        /// Its first position, counted from 1.
        first: usize,
        /// Its second position.
        second: usize,
    },
}

/// Checks a list of sites: it is not empty, and no site is listed twice.
pub(crate) fn check_sites(sites: &[SiteName]) -> Result<(), SitesError> {
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
    /// Returns the place of this incarnation of a site among the members.
    pub(crate) fn place(&self, member: &Member) -> Option<usize> {
        self.members.binary_search(member).ok()
    }

    /// Returns whether this incarnation of a site takes part.
    pub fn contains(&self, member: &Member) -> bool {
        self.place(member).is_some()
    }

    /// Returns the incarnation of `site` that takes part, if one does.
    pub fn member(&self, site: &SiteName) -> Option<&Member> {
        let at = self.members.binary_search_by(|member| member.site.cmp(site)).ok()?;
        Some(&self.members[at])
    }

    /// Returns whether what was agreed on for ever is the same in both.
    pub(crate) fn agrees_with(&self, other: &View) -> bool {
        let first = [self.epoch, other.epoch].contains(&Epoch::default());
        first || self.terms == other.terms
    }

    /// Returns the address of `site`, if it takes part.
    pub fn address(&self, site: &SiteName) -> Option<&Address> {
        self.addresses.get(site)
    }

    /// Returns an upper bound: no later incarnation of `site` than this one takes part or has taken part. For a site
    /// that is not listed it is the floor: a site that was listed once and is not now had no later incarnation.
    pub(crate) fn last_incarnation(&self, site: &SiteName) -> Incarnation {
        let past = self.past.binary_search_by(|past| past.site.cmp(site)).ok().map(|at| &self.past[at]);
        self.member(site).or(past).map_or(self.floor, |member| member.incarnation)
    }

    /// Returns whether this incarnation of a site may join: its site does not take part, and never has in this
    /// incarnation or a later one.
    pub(crate) fn may_join(&self, member: &Member) -> bool {
        self.last_incarnation(&member.site) < member.incarnation
    }

    /// Returns the past incarnations and the floor of the view with `members` that follows this one. If more than
    /// `longest` would be listed, the earliest incarnations are left out, and the floor rises to them.
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

    /// Returns whether members are sorted by name, no name occurs twice, only members have addresses, and the terms are
    /// consistent.
    pub(crate) fn is_well_formed(&self) -> bool {
        let sorted = |members: &[Member]| members.windows(2).all(|pair| pair[0].site < pair[1].site);
        self.past.len() <= MAX_PAST
            && self.terms.check().is_ok()
            && sorted(&self.members)
            && sorted(&self.past)
            && self.addresses.keys().all(|site| self.member(site).is_some())
    }
}

/// Maps the members of a view to the sites of one lock's algorithm. The lock's home is site 0; a member that may hold
/// several permits takes part several times, once for each *lane*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    members: usize,
    home: usize,
}

impl Placement {
    /// Returns the mapping for the lock `name` in a view of `members` members.
    pub(crate) fn new(name: &LockName, members: usize) -> Self {
        Placement { members, home: name.home(members) }
    }

    /// Returns the algorithm's site for a lane of the member at `place`.
    pub(crate) fn site(self, place: usize, lane: usize) -> SiteId {
        SiteId::new(lane * self.members + (place + self.members - self.home) % self.members)
    }

    /// Returns the place and the lane of the member that is this site of the algorithm.
    pub(crate) fn place(self, site: SiteId) -> (usize, usize) {
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
    fn no_incarnation_takes_part_a_second_time() {
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
    fn past_incarnations_that_are_not_listed_any_more_do_not_take_part_again_either() {
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
        // A site that was never listed needs an incarnation above the floor; a listed one has its own.
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
    fn every_lane_of_every_member_is_a_site_of_its_own_and_the_home_has_the_first() {
        for lock in ["jobs", "a", "z"] {
            let lock: LockName = lock.parse().unwrap();
            let placement = Placement::new(&lock, 5);
            assert_eq!(placement.site(lock.home(5), 0), SiteId::new(0));
            let mut sites = BTreeSet::new();
            for lane in 0..3 {
                for place in 0..5 {
                    let site = placement.site(place, lane);
                    assert_eq!(placement.place(site), (place, lane));
                    sites.insert(site);
                }
            }
            assert_eq!(sites.len(), 15);
        }
    }
}
