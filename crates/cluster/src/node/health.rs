//! What a node says of itself to whoever looks for what is wrong: whom it hears, who votes, and how its lease is renewed. Nothing is
//! decided by it, and none of it needs another site.

use super::Node;
use crate::names::SiteName;
use crate::time::{Span, Time};

/// What a node knows of itself and of the sites around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The sites that vote, as far as it knows.
    pub voters: Vec<SiteName>,
    /// Number of voters that do not vote any more, because their disk was lost.
    pub replaced: usize,
    /// The leader, as far as it knows.
    pub leader: Option<SiteName>,
    /// Whether it is leaving.
    pub leaving: bool,
    pub lease_left: Option<Span>,
    /// When each voter and member was last heard from; a site is missing if nothing has come from it.
    pub heard: Vec<(SiteName, Span)>,
}

impl Node {
    /// Returns how this site is at the time `now`, which may be later than its last input.
    pub fn health(&self, now: Time) -> Health {
        let leads = self.leads().is_some().then_some(&self.me.site);
        let heard = self.heard.all().map(|(site, at)| (site.clone(), now.since(at))).collect();
        Health {
            voters: self.voters.sites(),
            replaced: self.voters_in_reach().replaced,
            leader: leads.or(self.assumed_leader()).cloned(),
            leaving: self.leaving.is_some(),
            lease_left: self.lease.end().filter(|end| now < *end).map(|end| end.since(now)),
            heard,
        }
    }
}
