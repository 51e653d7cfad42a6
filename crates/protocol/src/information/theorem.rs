//! The theorem (section 4): when a structure keeps two sites from being inside at once.
//!
//! Given that every site minds its own state, i ∈ I_i, two conditions are necessary and sufficient:
//!
//! - a: I_i ⊆ R_i. Who keeps track of a site is asked before that site enters.
//! - b: for all i ≠ j, I_i ∩ I_j ≠ ∅, or both j ∈ R_i and i ∈ R_j. A third site knows both, or each asks the other.

use std::fmt;

use crate::{SiteId, SiteSet};

use super::InformationStructure;

/// What is wrong with a structure: the sites concerned, and what would repair it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// The theorem's premise fails.
    #[error("site {0} is not in its own inform set; add it", site.index())]
    ForgetsItself {
        /// The site that is not in its own inform set.
        site: SiteId,
    },
    /// Condition a fails.
    #[error(
        "condition a: site {} informs {unasked} without asking; put {unasked} into its request set",
        site.index()
    )]
    InformsUnasked {
        site: SiteId,
        /// `I_i − R_i`.
        unasked: SiteSet,
    },
    /// Condition b fails.
    #[error("condition b: sites {i} and {j} can be inside at once: {missing} ({case})", i = pair.0.index(),
        j = pair.1.index(), missing = missing(*pair, *lacks))]
    Strangers {
        pair: (SiteId, SiteId),
        /// Whether the first does not ask the second, and the second not the first.
        lacks: (bool, bool),
        /// What the two sites have in common.
        case: Case,
    },
}

/// The cases of the proof that condition b is necessary, by what a pair without a common inform site has in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// 1: no site is asked by both.
    NothingShared,
    /// 2: only sites that keep track of neither are asked by both.
    NobodyKnows,
    /// 3: one asks a site that keeps track of the other, but not the reverse.
    OneIsKnown,
    /// 4b: one learns of the other from itself, the other only from a third site (Figure 3a).
    OneAsksDirectly,
    /// 4c: both learn of each other only from third sites, which do not know both (Figure 3b).
    BothAskOthers,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Case::NothingShared => "case 1 of the proof",
            Case::NobodyKnows => "case 2 of the proof",
            Case::OneIsKnown => "case 3 of the proof",
            Case::OneAsksDirectly => "case 4b of the proof, Figure 3a",
            Case::BothAskOthers => "case 4c of the proof, Figure 3b",
        })
    }
}

fn missing((i, j): (SiteId, SiteId), lacks: (bool, bool)) -> String {
    let (i, j) = (i.index(), j.index());
    let (who, remedy) = match lacks {
        (true, true) => {
            ("neither asks the other".to_owned(), format!("put {j} into R_{i} and {i} into R_{j}"))
        }
        (true, false) => (format!("{i} does not ask {j}"), format!("put {j} into R_{i}")),
        (false, _) => (format!("{j} does not ask {i}"), format!("put {i} into R_{j}")),
    };
    format!("no site keeps track of both, and {who}; {remedy}, or one site into both inform sets")
}

impl InformationStructure {
    /// The theorem for all sites, or the first flaw.
    pub fn check(&self) -> Result<(), Flaw> {
        self.check_among(&SiteSet::all(self.sites()))
    }

    /// The theorem for the sites in `among`, the others being gone.
    pub fn check_among(&self, among: &SiteSet) -> Result<(), Flaw> {
        self.flaws(among).next().map_or(Ok(()), Err)
    }

    /// Everything that the sites in `among` lack for the theorem, first each by itself, then pair by pair.
    pub fn flaws<'a>(&'a self, among: &'a SiteSet) -> impl Iterator<Item = Flaw> + 'a {
        let alone = among.iter().filter_map(|i| self.flaw_of(i));
        let pairs = among.iter().flat_map(move |i| among.iter().filter(move |&j| j > i).map(move |j| (i, j)));
        alone.chain(pairs.filter_map(|(i, j)| self.flaw_between(i, j)))
    }

    fn flaw_of(&self, site: SiteId) -> Option<Flaw> {
        if !self.inform(site).contains(site) {
            return Some(Flaw::ForgetsItself { site });
        }
        let mut unasked = self.inform(site).clone();
        unasked.subtract(self.request(site));
        (!unasked.is_empty()).then_some(Flaw::InformsUnasked { site, unasked })
    }

    fn flaw_between(&self, i: SiteId, j: SiteId) -> Option<Flaw> {
        let lacks = (!self.request(i).contains(j), !self.request(j).contains(i));
        let excluded = self.inform(i).intersects(self.inform(j)) || lacks == (false, false);
        (!excluded).then(|| Flaw::Strangers { pair: (i, j), lacks, case: self.case(i, j) })
    }

    fn case(&self, i: SiteId, j: SiteId) -> Case {
        let i_is_known = self.request(j).intersects(self.inform(i));
        let j_is_known = self.request(i).intersects(self.inform(j));
        match (i_is_known, j_is_known) {
            (false, false) if !self.request(i).intersects(self.request(j)) => Case::NothingShared,
            (false, false) => Case::NobodyKnows,
            (true, false) | (false, true) => Case::OneIsKnown,
            (true, true) if self.request(i).contains(j) || self.request(j).contains(i) => {
                Case::OneAsksDirectly
            }
            (true, true) => Case::BothAskOthers,
        }
    }

    /// Whether the structure satisfies the theorem of the footnote, which does not require that every site minds its own state. Its
    /// conditions are sufficient:
    ///
    /// - a: I_i ⊆ R_i.
    /// - b: for all i ≠ j, I_i ∩ I_j ≠ ∅, or all of i ∈ I_i, j ∈ I_j, i ∈ R_j and j ∈ R_i.
    pub fn satisfies_footnote(&self) -> bool {
        let ask_each_other = |i: SiteId, j: SiteId| {
            let minds_itself = |site: SiteId| self.inform(site).contains(site);
            minds_itself(i) && minds_itself(j) && self.request(i).contains(j) && self.request(j).contains(i)
        };
        self.all().all(|i| {
            let mut others = self.all().filter(|&j| j != i);
            self.inform(i).is_subset(self.request(i))
                && others.all(|j| self.inform(i).intersects(self.inform(j)) || ask_each_other(i, j))
        })
    }

    /// Whether no schedule deadlocks even under the plain rules of section 3, provided that a waiting site gives
    /// its own grant back to an earlier request. It is so if every site keeps track of itself only (whoever waits,
    /// waits for an earlier request), and if all ask one and the same site besides themselves (one queue). Both
    /// survive [`recovery`](super::recovery). Section 5 mentions both.
    pub fn cannot_deadlock(&self) -> bool {
        let minds_itself = |i: SiteId| self.status(i).len() == 1 && self.status(i).contains(i);
        self.all().all(minds_itself) || self.all().any(|centre| self.all().all(|i| self.asks_only(i, centre)))
    }

    fn asks_only(&self, i: SiteId, centre: SiteId) -> bool {
        self.request(i).iter().all(|asked| asked == i || asked == centre)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_1_2_and_4_satisfy_the_theorem() {
        for structure in [
            InformationStructure::figure_1a(),
            InformationStructure::figure_1b(),
            InformationStructure::figure_1c(),
            InformationStructure::figure_2(),
            InformationStructure::figure_4(),
        ] {
            assert_eq!(structure.check(), Ok(()), "{structure}");
        }
    }

    /// Reference: section 4, case 4b.
    #[test]
    fn figure_3a_is_refused_because_j_does_not_ask_i() {
        let flaw = InformationStructure::figure_3a().check().unwrap_err();
        assert_eq!(
            flaw.to_string(),
            "condition b: sites 0 and 1 can be inside at once: no site keeps track of both, and 1 does not ask 0; \
             put 0 into R_1, or one site into both inform sets (case 4b of the proof, Figure 3a)"
        );
    }

    /// Reference: section 4, case 4c.
    #[test]
    fn figure_3b_is_refused_because_neither_asks_the_other() {
        let structure = InformationStructure::figure_3b();
        let pair = (SiteId::new(0), SiteId::new(1));
        let flaw = Flaw::Strangers { pair, lacks: (true, true), case: Case::BothAskOthers };
        assert_eq!(structure.flaws(&SiteSet::all(4)).collect::<Vec<_>>(), [flaw]);
    }

    #[test]
    fn the_remedy_that_a_flaw_names_mends_it() {
        assert_eq!(InformationStructure::parse(3, "0.2+1/1+0.2/2+1").unwrap().check(), Ok(()));
        assert_eq!(InformationStructure::parse(4, "0.2+1.3/1.3+0.2/2+1.3/3+0.2").unwrap().check(), Ok(()));
    }

    #[test]
    fn the_cases_of_the_proof_are_told_apart() {
        let case = |text: &str| match InformationStructure::parse(3, text).unwrap().check() {
            Err(Flaw::Strangers { case, .. }) => Some(case),
            Err(Flaw::ForgetsItself { .. } | Flaw::InformsUnasked { .. }) | Ok(()) => None,
        };
        assert_eq!(case("0/1/0.1.2"), Some(Case::NothingShared));
        assert_eq!(case("0+2/1+2/0.1.2"), Some(Case::NobodyKnows));
        assert_eq!(case("0.2/1+2/0.1.2"), Some(Case::OneIsKnown));
        assert_eq!(case("0.2+1/1+2/0.1.2"), Some(Case::OneAsksDirectly));
    }

    #[test]
    fn a_site_that_forgets_itself_or_informs_without_asking_is_named() {
        let says =
            |text: &str| InformationStructure::parse(2, text).unwrap().check().unwrap_err().to_string();
        assert_eq!(says("0.1/0"), "site 1 is not in its own inform set; add it");
        assert_eq!(
            says("0.1-1/0.1"),
            "condition a: site 0 informs {1} without asking; put {1} into its request set"
        );
    }

    #[test]
    fn by_the_footnote_a_site_need_not_mind_itself_if_a_third_one_does() {
        let satisfies = |text: &str| InformationStructure::parse(3, text).unwrap().satisfies_footnote();
        assert!(satisfies("2/2/2"));
        assert!(satisfies("0+1/1+0/0.1"));
        // Each asks the other, but one of the two does not mind itself.
        assert!(!satisfies("0+1/+0/0.1"));
        assert!(!satisfies("2-2/2/2"));
    }

    #[test]
    fn only_the_central_and_the_fully_distributed_structures_cannot_deadlock() {
        assert!(InformationStructure::figure_1a().cannot_deadlock());
        assert!(InformationStructure::figure_1b().cannot_deadlock());
        assert!(!InformationStructure::figure_1c().cannot_deadlock());
        assert!(!InformationStructure::figure_2().cannot_deadlock());
        assert!(!InformationStructure::figure_4().cannot_deadlock());
    }
}
