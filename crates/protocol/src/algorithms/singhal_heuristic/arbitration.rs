//! Section III-G-2: which of the sites that wait gets the token next.

use crate::{SiteId, SiteSet};

use super::message::SinghalToken;

/// The paper's two arbitration rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Arbitration {
    /// The second rule: the nearest site after the holder, in the order of ids and round again. Nobody gets the token
    /// twice while another waits.
    Nearest,
    /// The first rule: the site with the lowest sequence number, and of those the nearest. Favours who asks rarely.
    Lowest,
}

impl Arbitration {
    /// The next of the sites that the token knows to be requesting.
    pub(super) fn next(self, holder: SiteId, token: &SinghalToken) -> Option<SiteId> {
        let waiting =
            SiteId::others_from(holder, token.numbers.len()).filter(|&site| token.requesting.contains(site));
        match self {
            Arbitration::Nearest => nearest(holder, &token.requesting),
            // Of equals `min_by_key` gives the first, which is the nearest.
            Arbitration::Lowest => waiting.min_by_key(|site| token.numbers[site.index()].count),
        }
    }

    /// The one of the sites that wait now whose turn is last.
    pub(super) fn last(self, holder: SiteId, token: &SinghalToken) -> Option<SiteId> {
        let waiting =
            SiteId::others_from(holder, token.numbers.len()).filter(|&site| token.requesting.contains(site));
        match self {
            Arbitration::Nearest => waiting.last(),
            // Of equals `max_by_key` gives the last, which is the farthest.
            Arbitration::Lowest => waiting.max_by_key(|site| token.numbers[site.index()].count),
        }
    }
}

/// The first of `sites` after `holder`, or from the beginning if none is after it.
fn nearest(holder: SiteId, sites: &SiteSet) -> Option<SiteId> {
    sites.iter().find(|&site| site > holder).or_else(|| sites.first().filter(|&site| site != holder))
}
