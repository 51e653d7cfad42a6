//! Quorum systems: families of sets of sites of which every two meet.

use std::fmt;

use crate::{SiteId, SiteSet};

/// A family of sets over the sites `0..sites`. Whether they are quorums is for the checks to say.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QuorumSystem {
    sites: usize,
    quorums: Vec<SiteSet>,
}

/// Why a text is no family of sets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseQuorumsError {
    /// A set without a site.
    #[error("set {0} is empty; write sets as sites joined by '.', joined by '/': 0.1/1.2/0.2")]
    Empty(usize),
    /// Not a site.
    #[error("'{0}' is no site; write sets as sites joined by '.', joined by '/': 0.1/1.2/0.2")]
    NotASite(String),
    /// A site that does not exist.
    #[error("site {site} does not exist: the sites are 0 to {}", sites - 1)]
    NoSuchSite {
        /// The one that was named.
        site: usize,
        /// How many there are.
        sites: usize,
    },
}

impl QuorumSystem {
    /// The family of these sets over `0..sites`.
    pub fn new(sites: usize, quorums: Vec<SiteSet>) -> Self {
        QuorumSystem { sites, quorums }
    }

    /// Reads the notation of options and files: sites joined by `.`, sets joined by `/` or by line ends.
    pub fn parse(sites: usize, text: &str) -> Result<Self, ParseQuorumsError> {
        let sets = text.trim().split(['/', '\n']).map(str::trim).enumerate();
        let quorums = sets.map(|(at, set)| parse_set(sites, at, set)).collect::<Result<_, _>>()?;
        Ok(QuorumSystem { sites, quorums })
    }

    /// How many sites there are.
    pub fn sites(&self) -> usize {
        self.sites
    }

    /// The sets, in order. Where the family gives each site a set of its own, the `i`-th is site `i`'s.
    pub fn quorums(&self) -> &[SiteSet] {
        &self.quorums
    }
}

fn parse_set(sites: usize, at: usize, text: &str) -> Result<SiteSet, ParseQuorumsError> {
    if text.is_empty() {
        return Err(ParseQuorumsError::Empty(at));
    }
    let site = |word: &str| {
        let site: usize = word.trim().parse().map_err(|_| ParseQuorumsError::NotASite(word.to_owned()))?;
        if site < sites { Ok(SiteId::new(site)) } else { Err(ParseQuorumsError::NoSuchSite { site, sites }) }
    };
    text.split('.').map(site).collect()
}

impl fmt::Display for QuorumSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, quorum) in self.quorums.iter().enumerate() {
            let slash = if at == 0 { "" } else { "/" };
            let sites: Vec<String> = quorum.iter().map(|site| site.index().to_string()).collect();
            write!(f, "{slash}{}", sites.join("."))?;
        }
        Ok(())
    }
}
