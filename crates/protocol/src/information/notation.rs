//! Information structures as text, drawn like the paper's figures: solid arcs, then dashed ones.
//!
//! One entry a site, joined by `/` (in options) or by line ends (in files); sites joined by `.`. An entry is the
//! inform set; `+` adds sites that are asked without being informed (the dashed arcs), `-` takes out sites that are
//! informed without being asked (which condition a forbids, so that no figure draws them). A site that takes no
//! part is an `x`.
//!
//! ```text
//! 0+1/1+0/0.1.2     Figure 4: I_0 = {0}, R_0 = {0,1}; I_1 = {1}, R_1 = {0,1}; I_2 = R_2 = {0,1,2}
//! ```
//!
//! There is no comma and no colon in it, and nothing that a shell would read.

use std::fmt;

use crate::quorum::{ParseQuorumsError, QuorumSystem};
use crate::{SiteId, SiteSet};

use super::InformationStructure;

/// The notation in a line, for help texts.
pub const NOTATION: &str = "per site its inform set and, behind '+', who else it asks: 0+1/1+0/0.1.2 (sites joined by '.', entries by '/')";

/// Why a text does not describe an information structure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseStructureError {
    /// The number of entries is not the number of sites.
    #[error("{entries} entries for {sites} sites; write {NOTATION}")]
    WrongLength { entries: usize, sites: usize },
    /// An entry is wrong.
    #[error("entry of site {site}: {why}")]
    Entry { site: usize, why: String },
}

impl InformationStructure {
    /// Parses the notation of options and files, for this number of sites.
    pub fn parse(sites: usize, text: &str) -> Result<Self, ParseStructureError> {
        let entries: Vec<&str> = text.trim().split(['/', '\n']).map(str::trim).collect();
        if entries.len() != sites {
            return Err(ParseStructureError::WrongLength { entries: entries.len(), sites });
        }
        let (mut inform, mut request) = (Vec::new(), Vec::new());
        for (site, entry) in entries.into_iter().enumerate() {
            let (informed, asked) =
                parse_entry(sites, entry).map_err(|why| ParseStructureError::Entry { site, why })?;
            inform.push(informed);
            request.push(asked);
        }
        Ok(InformationStructure::new(inform, request))
    }
}

/// Inform set and request set of one entry.
fn parse_entry(sites: usize, entry: &str) -> Result<(SiteSet, SiteSet), String> {
    if entry == "x" {
        return Ok((SiteSet::new(), SiteSet::new()));
    }
    let (rest, unasked) = split_off(entry, '-');
    let (inform, added) = split_off(rest, '+');
    let set = |text: Option<&str>| text.map_or_else(|| Ok(SiteSet::new()), |text| parse_set(sites, text));
    let inform = set(Some(inform).filter(|text| !text.is_empty() || added.is_none()))?;
    let mut request = inform.clone();
    request.union_with(&set(added)?);
    request.subtract(&set(unasked)?);
    Ok((inform, request))
}

fn split_off(text: &str, mark: char) -> (&str, Option<&str>) {
    text.split_once(mark).map_or((text, None), |(before, after)| (before, Some(after)))
}

/// A set as quorum systems write it.
fn parse_set(sites: usize, text: &str) -> Result<SiteSet, String> {
    match QuorumSystem::parse(sites, text) {
        Ok(one) => Ok(one.quorums().iter().flat_map(SiteSet::iter).collect()),
        Err(ParseQuorumsError::NoSuchSite { site, sites }) => {
            Err(format!("site {site} does not exist: the sites are 0 to {}", sites - 1))
        }
        Err(_) => Err(format!("'{text}' is no set of sites; write {NOTATION}")),
    }
}

impl fmt::Display for InformationStructure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for i in self.all() {
            let slash = if i.index() == 0 { "" } else { "/" };
            write!(f, "{slash}")?;
            if self.inform(i).is_empty() && self.request(i).is_empty() {
                f.write_str("x")?;
                continue;
            }
            f.write_str(&joined(self.inform(i)))?;
            write_part(f, '+', self.request(i), self.inform(i))?;
            write_part(f, '-', self.inform(i), self.request(i))?;
        }
        Ok(())
    }
}

/// `mark` and the sites of `set` that are not in `without`, if there are any.
fn write_part(f: &mut fmt::Formatter<'_>, mark: char, set: &SiteSet, without: &SiteSet) -> fmt::Result {
    let mut rest = set.clone();
    rest.subtract(without);
    if rest.is_empty() { Ok(()) } else { write!(f, "{mark}{}", joined(&rest)) }
}

fn joined(set: &SiteSet) -> String {
    let sites: Vec<String> = set.iter().map(SiteId::index).map(|site| site.to_string()).collect();
    sites.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_structure_reads_as_it_prints() {
        for text in ["0", "0+1/1+0/0.1.2", "0.1-1/1", "+0/x/2+0", "0.2+1-2/1/2"] {
            let sites = text.split('/').count();
            assert_eq!(InformationStructure::parse(sites, text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_file_has_an_entry_a_line() {
        assert_eq!(
            InformationStructure::parse(3, "0+1\n1+0\n0.1.2\n").unwrap(),
            InformationStructure::figure_4()
        );
    }

    #[test]
    fn what_is_no_structure_is_refused_with_its_place() {
        let says = |text: &str| InformationStructure::parse(2, text).unwrap_err().to_string();
        assert!(says("0/1/2").starts_with("3 entries for 2 sites; write per site"));
        assert_eq!(says("0/1.2"), "entry of site 1: site 2 does not exist: the sites are 0 to 1");
        assert!(says("0/").starts_with("entry of site 1: '' is no set of sites; write"));
        assert!(says("0+/1").starts_with("entry of site 0: '' is no set of sites"));
        assert!(says("0/one").starts_with("entry of site 1: 'one' is no set of sites"));
    }
}
