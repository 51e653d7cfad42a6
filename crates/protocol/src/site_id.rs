//! The name of a site inside one view: a dense index.

use std::fmt;

/// A site, as its index `0..n` within the view. The papers count from 1; the code counts from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SiteId(u32);

impl SiteId {
    /// The site with this index.
    #[inline]
    pub fn new(index: usize) -> Self {
        SiteId(u32::try_from(index).expect("a view has fewer than 2^32 sites"))
    }

    /// The index, for arrays with one entry a site.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// All sites of a view with `sites` members, in order.
    pub fn all(sites: usize) -> impl DoubleEndedIterator<Item = SiteId> + Clone {
        (0..sites).map(SiteId::new)
    }

    /// The first `COUNT` sites, for taking apart: `let [s1, s2, s3] = SiteId::first();`.
    pub fn first<const COUNT: usize>() -> [SiteId; COUNT] {
        std::array::from_fn(SiteId::new)
    }

    /// All sites but `me`, in order, starting with the one after `me`: no site is favoured by its index.
    pub fn others_from(me: SiteId, sites: usize) -> impl Iterator<Item = SiteId> + Clone {
        (1..sites).map(move |step| SiteId::new((me.index() + step) % sites))
    }
}

impl fmt::Display for SiteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S{}", self.0)
    }
}

impl fmt::Debug for SiteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
