//! Quorum systems as text: sites joined by `.`, sets joined by `/` (in options) or by line ends (in files).
//!
//! ```text
//! # In a file, a comment runs to the end of its line, and one line may say how many sites there are.
//! sites 4
//! 0.1
//! 1.2
//! 0.2
//! ```

use std::fmt;

use crate::quorum::{MAX_SITES, QuorumSystem};
use crate::{SiteId, SiteSet};

/// Why a text does not describe a family of sets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseQuorumsError {
    /// A set without a site.
    #[error("set {0} is empty; write sets as sites joined by '.', joined by '/': 0.1/1.2/0.2")]
    Empty(usize),
    /// A word is not the number of a site.
    #[error("'{0}' is no site; write sets as sites joined by '.', joined by '/': 0.1/1.2/0.2")]
    NotASite(String),
    /// A site that does not exist was named.
    #[error("site {site} does not exist: the sites are 0 to {}", sites.saturating_sub(1))]
    NoSuchSite { site: usize, sites: usize },
    /// A file has no set.
    #[error("no sets; write one a line, sites joined by '.': 0.1")]
    NoSets,
    /// A line `sites …` has no usable number.
    #[error("'sites {0}' must give a number from 1 to {MAX_SITES}")]
    BadSites(String),
}

impl QuorumSystem {
    /// Parses the notation of options and files over a known number of sites. Lines that are blank or only a
    /// comment do not count.
    pub fn parse(sites: usize, text: &str) -> Result<Self, ParseQuorumsError> {
        let lines: Vec<&str> = text.lines().map(without_comment).filter(|line| !line.is_empty()).collect();
        let lines = if lines.is_empty() { vec![""] } else { lines };
        let sets = lines.iter().flat_map(|line| line.split('/')).map(str::trim).enumerate();
        let quorums = sets.map(|(at, set)| parse_set(sites, at, set)).collect::<Result<_, _>>()?;
        Ok(QuorumSystem { sites, quorums })
    }

    /// Parses a file: like [`parse`](Self::parse), over as many sites as its line `sites N` says, or else as its
    /// sets name.
    pub fn read(text: &str) -> Result<Self, ParseQuorumsError> {
        let (mut sites, mut sets) = (None, Vec::new());
        for line in text.lines().map(without_comment).filter(|line| !line.is_empty()) {
            match line.strip_prefix("sites") {
                Some(number) => sites = Some(parse_sites(number.trim())?),
                None => sets.push(line),
            }
        }
        if sets.is_empty() {
            return Err(ParseQuorumsError::NoSets);
        }
        let system = QuorumSystem::parse(sites.unwrap_or(MAX_SITES), &sets.join("/"))?;
        let named = system.quorums.iter().flat_map(SiteSet::iter).map(|site| site.index() + 1).max();
        Ok(QuorumSystem { sites: sites.or(named).unwrap_or(1), ..system })
    }

    /// The text that [`read`](Self::read) reads, without comments.
    pub fn to_file(&self) -> String {
        let sets: Vec<String> = self.quorums.iter().map(|quorum| joined(quorum) + "\n").collect();
        format!("sites {}\n{}", self.sites, sets.concat())
    }
}

fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim()
}

fn parse_sites(number: &str) -> Result<usize, ParseQuorumsError> {
    let sites = number.parse().ok().filter(|sites| (1..=MAX_SITES).contains(sites));
    sites.ok_or_else(|| ParseQuorumsError::BadSites(number.to_owned()))
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

fn joined(quorum: &SiteSet) -> String {
    let sites: Vec<String> = quorum.iter().map(|site| site.index().to_string()).collect();
    sites.join(".")
}

impl fmt::Display for QuorumSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, quorum) in self.quorums.iter().enumerate() {
            let slash = if at == 0 { "" } else { "/" };
            write!(f, "{slash}{}", joined(quorum))?;
        }
        Ok(())
    }
}
