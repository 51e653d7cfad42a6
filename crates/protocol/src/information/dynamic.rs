//! Structures that change while the algorithm runs (section 8).
//!
//! Nobody knows such a structure as a whole; each site knows its own sets and two rules. The paper's example is
//! Carvalho and Roucairol's algorithm, which starts fully distributed and asks only whose permission it lacks:
//!
//! 1. When i sends a GRANT to j, j joins `I_i` and `R_i` and leaves `S_i`.
//! 2. When j receives a GRANT from i, i leaves `R_j` and joins `S_j`.
//!
//! It is right if the local views together satisfy the theorem and agree: j ∈ I_i exactly if i ∈ S_j. While a GRANT
//! is on its way the two ends do not agree yet. (What the rules leave out, a waiting site that grants must ask
//! again, is the algorithm's business.)

use crate::{SiteId, SiteSet};

use super::InformationStructure;

/// What one site knows of a dynamic structure: its own three sets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LocalView {
    me: SiteId,
    inform: SiteSet,
    request: SiteSet,
    status: SiteSet,
}

impl LocalView {
    /// The view of `me` in the fully distributed structure: everyone must be asked.
    pub fn distributed(me: SiteId, sites: usize) -> Self {
        let own = SiteSet::from_iter([me]);
        LocalView { me, inform: own.clone(), request: SiteSet::all(sites), status: own }
    }

    /// `I_i`.
    pub fn inform(&self) -> &SiteSet {
        &self.inform
    }

    /// `R_i`.
    pub fn request(&self) -> &SiteSet {
        &self.request
    }

    /// `S_i`.
    pub fn status(&self) -> &SiteSet {
        &self.status
    }

    /// Section 8, rule 1: this site has sent a GRANT to `to`.
    pub fn grant_sent(&mut self, to: SiteId) {
        assert!(to != self.me, "a site grants itself without a message");
        self.inform.insert(to);
        self.request.insert(to);
        self.status.remove(to);
    }

    /// Section 8, rule 2: a GRANT from `from` has come. (It also undoes what an earlier GRANT the other way did:
    /// who has the other's permission need not inform it.)
    pub fn grant_received(&mut self, from: SiteId) {
        assert!(from != self.me, "a site grants itself without a message");
        self.request.remove(from);
        self.inform.remove(from);
        self.status.insert(from);
    }

    /// The structure that the local views make up together.
    pub fn union(views: &[LocalView]) -> InformationStructure {
        InformationStructure::new(
            views.iter().map(|view| view.inform.clone()).collect(),
            views.iter().map(|view| view.request.clone()).collect(),
        )
    }

    /// Whether the views agree: j ∈ I_i exactly if i ∈ S_j.
    pub fn agree(views: &[LocalView]) -> bool {
        let structure = LocalView::union(views);
        views.iter().all(|view| view.status == *structure.status(view.me))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `who` asks everyone in its request set and all grant at once.
    fn enters(views: &mut [LocalView], who: usize) {
        let me = SiteId::new(who);
        for peer in views[who].request.clone().iter().filter(|&peer| peer != me) {
            views[peer.index()].grant_sent(me);
            views[who].grant_received(peer);
        }
    }

    /// Reference: section 8, Figure 5. The drawing is not in the text; the sequence that fits what is said of
    /// Figure 5c is that 0 enters, then 2.
    #[test]
    fn a_fully_distributed_structure_changes_with_every_grant_and_stays_right() {
        let mut views: Vec<LocalView> = SiteId::all(4).map(|me| LocalView::distributed(me, 4)).collect();
        assert_eq!(LocalView::union(&views), InformationStructure::figure_1b());
        // After 0 has entered, it need not ask anyone, and the others inform it.
        enters(&mut views, 0);
        assert_eq!(LocalView::union(&views).to_string(), "0/0.1+2.3/0.2+1.3/0.3+1.2");
        assert_eq!(views[0].status().to_string(), "{0,1,2,3}");
        // After 2 has entered, 0 must ask it.
        enters(&mut views, 2);
        let structure = LocalView::union(&views);
        assert_eq!(structure.to_string(), "0.2/0.1.2+3/2/0.2.3+1");
        assert_eq!(views[2].status().to_string(), "{0,1,2,3}");
        assert_eq!(structure.check(), Ok(()));
        assert!(LocalView::agree(&views));
        // "Process 3 would need to communicate only with processes 0 and 2 to maintain correctness": without 1 in
        // R_3 (and 3 in R_1) the theorem still holds, but 3 does not know the inform set of 1 and asks it all the
        // same.
        assert!(views[3].request().contains(SiteId::new(1)));
        assert_eq!(InformationStructure::parse(4, "0.2/0.1.2/2/0.2.3").unwrap().check(), Ok(()));
    }

    /// Reference: section 8, "for any pair of processes i and j, either j ∈ R_i and i ∈ R_j, or one process is in
    /// the inform set of the other".
    #[test]
    fn whoever_enters_in_whatever_order_the_views_together_satisfy_the_theorem() {
        for order in 0..3_usize.pow(5) {
            let mut views: Vec<LocalView> = SiteId::all(3).map(|me| LocalView::distributed(me, 3)).collect();
            for turn in 0..5 {
                enters(&mut views, order / 3_usize.pow(turn) % 3);
                assert_eq!(LocalView::union(&views).check(), Ok(()));
                assert!(LocalView::agree(&views));
            }
        }
    }

    #[test]
    fn while_a_grant_is_on_its_way_the_two_ends_do_not_agree_but_exclude() {
        let mut views: Vec<LocalView> = SiteId::all(2).map(|me| LocalView::distributed(me, 2)).collect();
        views[1].grant_sent(SiteId::new(0));
        assert!(!LocalView::agree(&views));
        assert_eq!(LocalView::union(&views).check(), Ok(()));
        views[0].grant_received(SiteId::new(1));
        assert!(LocalView::agree(&views));
    }
}
