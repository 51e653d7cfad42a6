//! A set of sites as bits: no allocation up to 128 sites, and equal sets are equal values.

use std::fmt;

use smallvec::SmallVec;

use crate::SiteId;

const BITS: usize = u64::BITS as usize;

type Words = SmallVec<[u64; 2]>;

/// The sites of a [`SiteSet`], in order. Written out, because it is part of most loops of most algorithms: nested
/// iterators would be compiled again for each of them.
struct Sites<'a> {
    /// The words that were not begun yet.
    words: &'a [u64],
    /// The number of words that were begun.
    next: usize,
    /// What is left of the last word that was begun.
    rest: u64,
}

impl Iterator for Sites<'_> {
    type Item = SiteId;

    fn next(&mut self) -> Option<SiteId> {
        while self.rest == 0 {
            let (&word, words) = self.words.split_first()?;
            (self.rest, self.words) = (word, words);
            self.next += 1;
        }
        let bit = self.rest.trailing_zeros() as usize;
        self.rest &= self.rest - 1;
        Some(SiteId::new((self.next - 1) * BITS + bit))
    }
}

/// A set of sites. Iterates in order of the sites' ids.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(into = "Words", try_from = "Words"))]
pub struct SiteSet {
    /// Never ends in a zero word, so that equal sets have equal words.
    words: Words,
}

impl From<SiteSet> for Words {
    fn from(set: SiteSet) -> Words {
        set.words
    }
}

/// A set from outside is accepted only in its canonical form, and within the range of ids.
impl TryFrom<Words> for SiteSet {
    type Error = &'static str;

    fn try_from(words: Words) -> Result<Self, Self::Error> {
        if words.last() == Some(&0) || words.len() > (1 << u32::BITS) / BITS {
            return Err("not a set of sites in its one form");
        }
        Ok(SiteSet { words })
    }
}

impl SiteSet {
    /// The empty set.
    pub fn new() -> Self {
        SiteSet::default()
    }

    /// All sites `0..sites`.
    pub fn all(sites: usize) -> Self {
        let (whole, rest) = (sites / BITS, sites % BITS);
        let mut words = Words::from_elem(u64::MAX, whole);
        if rest > 0 {
            words.push((1 << rest) - 1);
        }
        SiteSet { words }
    }

    /// All sites `0..sites` but one.
    pub fn all_but(me: SiteId, sites: usize) -> Self {
        let mut all = SiteSet::all(sites);
        all.remove(me);
        all
    }

    /// Whether `site` is in the set.
    #[inline]
    pub fn contains(&self, site: SiteId) -> bool {
        let index = site.index();
        self.words.get(index / BITS).is_some_and(|word| word >> (index % BITS) & 1 == 1)
    }

    /// Inserts `site`. Returns whether it was not there.
    pub fn insert(&mut self, site: SiteId) -> bool {
        let (word, bit) = (site.index() / BITS, 1 << (site.index() % BITS));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    /// Removes `site`. Returns whether it was there.
    #[inline]
    pub fn remove(&mut self, site: SiteId) -> bool {
        let bit = 1 << (site.index() % BITS);
        let Some(word) = self.words.get_mut(site.index() / BITS) else { return false };
        let there = *word & bit != 0;
        *word &= !bit;
        if *word == 0 {
            self.trim();
        }
        there
    }

    /// Removes all sites.
    pub fn clear(&mut self) {
        self.words.clear();
    }

    /// The number of sites in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no site is in the set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The site with the smallest id.
    pub fn first(&self) -> Option<SiteId> {
        self.iter().next()
    }

    /// The sites in order.
    pub fn iter(&self) -> impl Iterator<Item = SiteId> + '_ {
        Sites { words: &self.words, next: 0, rest: 0 }
    }

    /// Whether some site is in both sets.
    pub fn intersects(&self, other: &SiteSet) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Whether every site of this set is in `other`.
    pub fn is_subset(&self, other: &SiteSet) -> bool {
        self.words.len() <= other.words.len() && self.words.iter().zip(&other.words).all(|(a, b)| a & !b == 0)
    }

    /// The sites in both sets.
    #[must_use]
    pub fn intersection(&self, other: &SiteSet) -> SiteSet {
        let mut both = SiteSet { words: self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect() };
        both.trim();
        both
    }

    /// The number of sites in both sets.
    pub fn common(&self, other: &SiteSet) -> usize {
        self.words.iter().zip(&other.words).map(|(a, b)| (a & b).count_ones() as usize).sum()
    }

    /// Inserts every site of `other`.
    pub fn union_with(&mut self, other: &SiteSet) {
        if other.words.len() > self.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine |= theirs;
        }
    }

    /// Removes every site of `other`.
    pub fn subtract(&mut self, other: &SiteSet) {
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine &= !theirs;
        }
        self.trim();
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

impl FromIterator<SiteId> for SiteSet {
    fn from_iter<I: IntoIterator<Item = SiteId>>(sites: I) -> Self {
        let mut set = SiteSet::new();
        set.extend(sites);
        set
    }
}

impl Extend<SiteId> for SiteSet {
    fn extend<I: IntoIterator<Item = SiteId>>(&mut self, sites: I) {
        for site in sites {
            self.insert(site);
        }
    }
}

impl fmt::Display for SiteSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (at, site) in self.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{}", site.index())?;
        }
        f.write_str("}")
    }
}

impl fmt::Debug for SiteSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(sites: &[usize]) -> SiteSet {
        sites.iter().map(|&site| SiteId::new(site)).collect()
    }

    #[test]
    fn a_set_that_lost_its_largest_site_equals_one_that_never_had_it() {
        let mut shrunk = set(&[1, 200]);
        shrunk.remove(SiteId::new(200));
        assert_eq!(shrunk, set(&[1]));
    }

    #[test]
    fn words_from_outside_that_are_not_in_the_one_form_are_refused() {
        let read = |words: &[u64]| SiteSet::try_from(Words::from_slice(words));
        assert!(read(&[0]).is_err() && read(&[1, 0]).is_err());
        assert_eq!(read(&[2]), Ok(set(&[1])));
    }

    #[test]
    fn all_sites_are_those_that_would_be_inserted_one_by_one() {
        for sites in [0, 1, 2, 10, 63, 64, 65, 127, 128, 129, 1000] {
            assert_eq!(SiteSet::all(sites), SiteId::all(sites).collect());
            for me in [0, 1, 62, 63, 64, 128, 999, 5000].map(SiteId::new) {
                let others: SiteSet = SiteId::all(sites).filter(|&site| site != me).collect();
                assert_eq!(SiteSet::all_but(me, sites), others, "{me} of {sites}");
            }
        }
    }

    #[test]
    fn removing_says_whether_the_site_was_there() {
        let mut some = set(&[1, 64, 200]);
        let removed = [2, 64, 64, 500, 200].map(|site| some.remove(SiteId::new(site)));
        assert_eq!(removed, [false, true, false, false, true]);
        assert_eq!(some, set(&[1]));
    }

    #[test]
    fn sites_come_out_in_order_across_words() {
        let sites: Vec<usize> = set(&[64, 3, 129, 63]).iter().map(SiteId::index).collect();
        assert_eq!(sites, [3, 63, 64, 129]);
    }

    #[test]
    fn set_algebra_ignores_the_length_of_the_words() {
        assert!(set(&[1]).is_subset(&set(&[1, 300])));
        assert!(!set(&[1, 300]).is_subset(&set(&[1])));
        assert!(!set(&[300]).intersects(&set(&[1])));
        let mut rest = set(&[1, 300]);
        rest.subtract(&set(&[300]));
        assert_eq!(rest, set(&[1]));
        assert_eq!(set(&[1, 300]).intersection(&set(&[1, 2])), set(&[1]));
        assert_eq!(set(&[0, 2]).to_string(), "{0,2}");
    }
}
