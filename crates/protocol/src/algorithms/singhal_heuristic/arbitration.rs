//! Section III-G-2: which of the sites that wait gets the token next.

use smallvec::SmallVec;

use crate::{Outbox, SiteId, SiteSet};

use super::message::SinghalToken;

/// The paper's two arbitration rules, and any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Arbitration {
    /// The second rule: the nearest site after the holder, in the order of ids and round again. Nobody gets the token
    /// twice while another waits.
    Nearest,
    /// The first rule: the site with the lowest sequence number, and of those the nearest. Favours who asks rarely.
    Lowest,
    /// The host chooses. "A site can safely schedule the token to any site with an R entry in TSV" (footnote 2); it is not
    /// fair by itself.
    Any,
}

impl Arbitration {
    /// The next of the sites that the token knows to be requesting.
    pub(super) fn next<M>(self, holder: SiteId, token: &SinghalToken, out: &mut Outbox<M>) -> Option<SiteId> {
        let waiting =
            SiteId::others_from(holder, token.numbers.len()).filter(|&site| token.requesting.contains(site));
        match self {
            Arbitration::Nearest => nearest(holder, &token.requesting),
            // Of equals `min_by_key` gives the first, which is the nearest.
            Arbitration::Lowest => waiting.min_by_key(|site| token.numbers[site.index()].count),
            Arbitration::Any => {
                let waiting: SmallVec<[SiteId; 16]> = waiting.collect();
                (!waiting.is_empty()).then(|| waiting[out.choose(waiting.len())])
            }
        }
    }

    /// The one of the sites that wait now whose turn is last, if that is known.
    pub(super) fn last(self, holder: SiteId, token: &SinghalToken) -> Option<SiteId> {
        let waiting =
            SiteId::others_from(holder, token.numbers.len()).filter(|&site| token.requesting.contains(site));
        match self {
            Arbitration::Nearest => waiting.last(),
            // Of equals `max_by_key` gives the last, which is the farthest.
            Arbitration::Lowest => waiting.max_by_key(|site| token.numbers[site.index()].count),
            Arbitration::Any => None,
        }
    }
}

/// The first of `sites` after `holder`, or from the beginning if none is after it.
fn nearest(holder: SiteId, sites: &SiteSet) -> Option<SiteId> {
    sites.iter().find(|&site| site > holder).or_else(|| sites.first().filter(|&site| site != holder))
}
