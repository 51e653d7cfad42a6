//! A number that only grows, such as the number of a site's requests or of a token's hand-overs.

use crate::SiteId;

/// The number of times that something has happened. It saturates instead of overflowing, as a [`Clock`](crate::Clock) does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Count(u64);

impl Count {
    /// Zero.
    pub const ZERO: Count = Count(0);

    /// The value.
    pub const fn at(value: u64) -> Self {
        Count(value)
    }

    /// The value as a number.
    pub const fn value(self) -> u64 {
        self.0
    }

    /// Adds one.
    #[must_use]
    pub const fn next(self) -> Count {
        Count(self.0.saturating_add(1))
    }
}

/// A [`Count`] for each site, in a byte each as long as all of them fit: with ten thousand sites, each of which counts all others, the
/// size decides whether a run fits the memory.
///
/// The counts only grow, so that equal counts are equal values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SiteCounts {
    Small(Box<[u8]>),
    Large(Box<[Count]>),
}

impl SiteCounts {
    /// Zero for each site.
    pub(crate) fn zero(sites: usize) -> Self {
        SiteCounts::Small(vec![0; sites].into())
    }

    /// The number of sites.
    pub(crate) fn len(&self) -> usize {
        match self {
            SiteCounts::Small(counts) => counts.len(),
            SiteCounts::Large(counts) => counts.len(),
        }
    }

    /// The count of a site.
    pub(crate) fn get(&self, site: SiteId) -> Count {
        match self {
            SiteCounts::Small(counts) => Count(counts[site.index()].into()),
            SiteCounts::Large(counts) => counts[site.index()],
        }
    }

    /// Sets the count of a site, which is not smaller than it was.
    pub(crate) fn raise(&mut self, site: SiteId, count: Count) {
        match self {
            SiteCounts::Small(counts) => {
                if let Ok(small) = u8::try_from(count.0) {
                    counts[site.index()] = small;
                } else {
                    let mut large: Box<[Count]> = counts.iter().map(|&count| Count(count.into())).collect();
                    large[site.index()] = count;
                    *self = SiteCounts::Large(large);
                }
            }
            SiteCounts::Large(counts) => counts[site.index()] = count,
        }
    }

    /// Lets `change` replace the count of each site, also by a smaller one.
    pub(crate) fn for_each_mut(&mut self, mut change: impl FnMut(SiteId, &mut Count)) {
        let mut changed = SiteCounts::zero(self.len());
        for site in SiteId::all(self.len()) {
            let mut count = self.get(site);
            change(site, &mut count);
            changed.raise(site, count);
        }
        *self = changed;
    }

    /// The counts of all sites, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Count> + '_ {
        SiteId::all(self.len()).map(|site| self.get(site))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_any_size_are_kept_and_small_ones_take_a_byte() {
        let [first, second] = SiteId::first();
        let mut counts = SiteCounts::zero(2);
        counts.raise(second, Count(7));
        for value in [1, 255, 256, u64::MAX] {
            counts.raise(first, Count(value));
            assert_eq!(counts.iter().collect::<Vec<_>>(), [Count(value), Count(7)]);
            assert_eq!(matches!(counts, SiteCounts::Small(_)), value < 256);
        }
    }
}
