//! Local recovery (section 7.1): the structure without the sites that failed.
//!
//! Every site makes the same change to its copy, without a word to the others: it deletes the failed site, and
//! where two sites no longer share an inform site, it lets each ask the other, so that condition b holds again. The
//! result depends only on *which* sites failed, not on the order: whoever knows the same failures has the same
//! structure.
//!
//! Different sites learn of failures at different times, and then the printed rule is not enough. Let i and k share
//! exactly the inform sites a and b, and let both fail: i knows of a only and enters with b's grant, k knows of b
//! only and enters with a's. [`Mend::AtHalf`] therefore lets two sites ask each other as soon as *half* of what
//! they shared is gone. If neither of the two has come so far, each still counts on more than half, and so both
//! count on a common site.

use crate::{SiteId, SiteSet};

use super::InformationStructure;

/// When two sites that shared inform sites start to ask each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mend {
    /// When none of the shared sites is left: section 7.1 as printed, enough while all know of the same failures.
    AtNone,
    /// When at most half of the shared sites are left: enough whatever the two know.
    AtHalf,
}

impl InformationStructure {
    /// Section 7.1, steps 1 to 3, as printed: the structure after `failed` has failed.
    #[must_use]
    pub fn without(&self, failed: SiteId) -> Self {
        self.without_all(&SiteSet::from_iter([failed]), Mend::AtNone)
    }

    /// The structure after all of `failed` have failed; their own sets are empty in it.
    #[must_use]
    pub fn without_all(&self, failed: &SiteSet, mend: Mend) -> Self {
        InformationStructure::from_fn(self.sites(), |i| {
            if failed.contains(i) {
                return (SiteSet::new(), SiteSet::new());
            }
            let mut inform = self.inform(i).clone();
            inform.subtract(failed);
            (inform, self.request_without(i, failed, mend))
        })
    }

    /// `R_i` after all of `failed` have failed.
    #[must_use]
    pub fn request_without(&self, i: SiteId, failed: &SiteSet, mend: Mend) -> SiteSet {
        let mut request = self.request(i).clone();
        request.extend(self.all().filter(|&k| k != i && self.must_ask(i, k, failed, mend)));
        request.subtract(failed);
        request
    }

    /// Whether `i` and `k`, both alive, rely on asking each other after all of `failed` have failed, because they
    /// share no inform site or lost too many. (If one of the two is itself a site they share, they share it as long
    /// as both live. A site without an inform set is already gone.)
    pub fn must_ask(&self, i: SiteId, k: SiteId, failed: &SiteSet, mend: Mend) -> bool {
        let shared = self.shared(i, k);
        let gone = self.inform(i).is_empty() || self.inform(k).is_empty();
        if gone || shared.contains(i) || shared.contains(k) {
            return false;
        }
        let lost = shared.intersection(failed).len();
        match mend {
            Mend::AtNone => lost == shared.len(),
            Mend::AtHalf => 2 * lost >= shared.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(index: usize) -> SiteId {
        SiteId::new(index)
    }

    /// Reference: section 7.1 and the example before it: if the centre of Figure 1a fails, the rest ask each other.
    #[test]
    fn a_central_structure_that_loses_its_centre_becomes_fully_distributed() {
        let recovered = InformationStructure::figure_1a().without(site(1));
        assert_eq!(recovered.to_string(), "0+2.3/x/2+0.3/3+0.2");
        assert_eq!(recovered.check_among(&SiteSet::all_but(site(1), 4)), Ok(()));
    }

    #[test]
    fn the_loss_of_an_ordinary_site_only_deletes_it() {
        assert_eq!(InformationStructure::figure_1a().without(site(3)).to_string(), "0.1/1/1.2/x");
        assert_eq!(InformationStructure::figure_1b().without(site(3)).to_string(), "0+1.2/1+0.2/2+0.1/x");
    }

    #[test]
    fn two_sites_that_shared_two_inform_sites_ask_each_other_after_one_loss_or_after_both() {
        let structure = InformationStructure::figure_2();
        assert_eq!(structure.without(site(0)).to_string(), "x/1/1.2/1.3");
        assert_eq!(structure.without(site(0)).without(site(1)).to_string(), "x/x/2+3/3+2");
        let early = structure.without_all(&SiteSet::from_iter([site(0)]), Mend::AtHalf);
        assert_eq!(early.to_string(), "x/1/1.2+3/1.3+2");
    }

    #[test]
    fn the_order_of_failures_does_not_matter_and_the_survivors_satisfy_the_theorem() {
        let structures = [
            InformationStructure::figure_1a(),
            InformationStructure::figure_1b(),
            InformationStructure::figure_1c(),
            InformationStructure::figure_2(),
        ];
        for structure in structures {
            for a in structure.all() {
                for b in structure.all().filter(|&b| b != a) {
                    let both = SiteSet::from_iter([a, b]);
                    let recovered = structure.without(a).without(b);
                    assert_eq!(recovered, structure.without(b).without(a));
                    assert_eq!(recovered, structure.without_all(&both, Mend::AtNone));
                    let mut alive = SiteSet::all(structure.sites());
                    alive.subtract(&both);
                    assert_eq!(recovered.check_among(&alive), Ok(()), "{recovered}");
                    let early = structure.without_all(&both, Mend::AtHalf);
                    assert_eq!(early.check_among(&alive), Ok(()), "{early}");
                }
            }
        }
    }
}
