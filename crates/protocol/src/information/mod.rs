//! Information structures: who tells whom of its state, and who asks whom (Sanders 1987).
//!
//! An information structure gives each site i an *inform set* `I_i`, the sites that keep track of i, and a *request
//! set* `R_i`, the sites whose permission i needs. The *status set* `S_i` follows from the inform sets: the sites
//! that i keeps track of. One algorithm, [`sanders`](crate::algorithms::sanders), runs over any of them; central,
//! fully distributed and quorum algorithms are special cases that differ in nothing else.
//!
//! - [`figures`]: the structures that the paper draws, and the same for any number of sites.
//! - [`theorem`]: when a structure keeps two sites from being inside at once, and what it lacks if it does not.
//! - [`metrics`]: messages per entry and synchronisation delay, read off the structure.
//! - [`recovery`]: the structure without a failed site.
//! - [`dynamic`]: structures that change as the algorithm runs.
//! - [`notation`]: structures as text.

pub mod dynamic;
pub mod figures;
pub mod metrics;
pub mod notation;
pub mod recovery;
pub mod theorem;

pub use dynamic::LocalView;
pub use notation::ParseStructureError;
pub use recovery::Mend;
pub use theorem::{Case, Flaw};

use crate::quorum::QuorumSystem;
use crate::{SiteId, SiteSet};

/// Inform, request and status sets of the sites `0..sites`. [`theorem`] says whether they ensure mutual exclusion.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InformationStructure {
    inform: Vec<SiteSet>,
    request: Vec<SiteSet>,
    status: Vec<SiteSet>,
}

impl InformationStructure {
    /// The structure with these inform and request sets, one of each a site.
    pub fn new(inform: Vec<SiteSet>, request: Vec<SiteSet>) -> Self {
        assert!(inform.len() == request.len(), "every site has an inform set and a request set");
        let mut status = vec![SiteSet::new(); inform.len()];
        for (i, informed) in SiteId::all(inform.len()).zip(&inform) {
            for k in informed.iter() {
                assert!(k.index() < status.len(), "{i} informs {k}, which does not exist");
                status[k.index()].insert(i);
            }
        }
        for asked in &request {
            assert!(
                asked.iter().all(|k| k.index() < status.len()),
                "{asked} names a site that does not exist"
            );
        }
        InformationStructure { inform, request, status }
    }

    /// The structure in which `sets` gives inform and request set of each site.
    pub fn from_fn(sites: usize, sets: impl FnMut(SiteId) -> (SiteSet, SiteSet)) -> Self {
        let (inform, request) = SiteId::all(sites).map(sets).unzip();
        InformationStructure::new(inform, request)
    }

    /// Informs and asks its quorum: site i the `i`-th set of the system (counted round, if there are fewer) and
    /// itself. Every two quorums meet, so condition b holds by its first half.
    pub fn from_quorums(system: &QuorumSystem) -> Self {
        let quorums = system.quorums();
        InformationStructure::from_fn(system.sites(), |i| {
            let mut quorum = quorums.get(i.index() % quorums.len().max(1)).cloned().unwrap_or_default();
            quorum.insert(i);
            (quorum.clone(), quorum)
        })
    }

    /// The number of sites.
    pub fn sites(&self) -> usize {
        self.inform.len()
    }

    /// All sites, in order.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = SiteId> + Clone + use<> {
        SiteId::all(self.sites())
    }

    /// `I_i`: the sites that are told when site `i` leaves, and so know its state.
    pub fn inform(&self, i: SiteId) -> &SiteSet {
        &self.inform[i.index()]
    }

    /// `R_i`: the sites whose permission site `i` needs.
    pub fn request(&self, i: SiteId) -> &SiteSet {
        &self.request[i.index()]
    }

    /// `S_i`: the sites whose state site `i` knows.
    pub fn status(&self, i: SiteId) -> &SiteSet {
        &self.status[i.index()]
    }

    /// `I_i ∩ I_j`: the sites that know the state of both.
    #[must_use]
    pub fn shared(&self, i: SiteId, j: SiteId) -> SiteSet {
        self.inform(i).intersection(self.inform(j))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_set_follows_from_the_inform_sets() {
        let structure = InformationStructure::figure_4();
        let [s0, s1, s2] = SiteId::first();
        assert_eq!(structure.status(s0).to_string(), "{0,2}");
        assert_eq!(structure.status(s1).to_string(), "{1,2}");
        assert_eq!(structure.status(s2).to_string(), "{2}");
    }

    #[test]
    fn a_quorum_system_becomes_a_structure_whose_inform_and_request_sets_are_the_quorums() {
        let grid = QuorumSystem::grid(7).unwrap();
        let structure = InformationStructure::from_quorums(&grid);
        assert_eq!(structure.check(), Ok(()));
        for i in structure.all() {
            assert_eq!(structure.inform(i), grid.quorum_of(i).unwrap());
            assert_eq!(structure.request(i), grid.quorum_of(i).unwrap());
        }
    }

    #[test]
    fn fewer_quorums_than_sites_are_taken_in_turn_and_every_site_joins_its_own() {
        let triangle = QuorumSystem::parse(5, "0.1/1.2/0.2").unwrap();
        let structure = InformationStructure::from_quorums(&triangle);
        assert_eq!(structure.to_string(), "0.1/1.2/0.2/0.1.3/1.2.4");
        assert_eq!(structure.check(), Ok(()));
    }
}
