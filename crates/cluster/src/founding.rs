//! Founding: the identity of a cluster, which is its name and its first voters.
//!
//! Both are configured at every site and never change. The first start writes them to the disk; a later start with
//! different ones is refused. (The disk could win silently, as it does in other systems. But then an operator who edits
//! the list would assume that this changed who votes, and a site that is moved into another cluster would go on voting
//! in its old one.) Every packet carries a short hash of the founding, so that nodes of two clusters that reach each
//! other by mistake never mix.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::membership::MAX_VOTERS;
use crate::names::{ClusterName, SiteName, fnv_1a};

/// The identity of a cluster, fixed when it is founded.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Founding {
    cluster: ClusterName,
    /// The first voters. The position of each is its number in Raft.
    pub(crate) voters: Vec<SiteName>,
}

/// A hash of a cluster's founding, short enough for every packet. It protects against mistakes, not against attackers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClusterId([u8; 4]);

impl ClusterId {
    /// Returns the bytes of the hash.
    pub(crate) const fn bytes(self) -> [u8; 4] {
        self.0
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The reason why a site cannot start with the disk that it was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FoundingError {
    /// The disk belongs to another cluster.
    #[error(
        "this disk belongs to the cluster '{disk}', but the configuration names the cluster '{config}'; put the name \
         back, or give this site an empty disk to begin with in another cluster"
    )]
    OtherCluster { disk: ClusterName, config: ClusterName },
    /// The list of voters was changed.
    #[error(
        "this cluster was founded by the voters [{}], but the configuration begins its list of sites with [{}]{}; the first \
         {MAX_VOTERS} of that list never change: put them back, or give this site an empty disk if the cluster was recovered at another site, or every site one to \
         found another cluster",
        list(disk),
        list(config),
        differences(disk, config)
    )]
    OtherVoters { disk: Vec<SiteName>, config: Vec<SiteName> },
}

fn list(sites: &[SiteName]) -> String {
    sites.iter().map(SiteName::as_str).collect::<Vec<_>>().join(", ")
}

/// Describes which sites are missing, which are new, or that only the order differs.
fn differences(disk: &[SiteName], config: &[SiteName]) -> String {
    let only = |these: &[SiteName], those: &[SiteName]| {
        list(&these.iter().filter(|site| !those.contains(site)).cloned().collect::<Vec<_>>())
    };
    let (missing, new) = (only(disk, config), only(config, disk));
    match (missing.is_empty(), new.is_empty()) {
        (true, true) => ", the same in another order".to_owned(),
        (false, true) => format!(", without {missing}"),
        (true, false) => format!(", with {new} added"),
        (false, false) => format!(", with {new} in place of {missing}"),
    }
}

impl Founding {
    /// Returns the founding of the cluster with this name and these initial sites, of which the first [`MAX_VOTERS`]
    /// vote.
    pub fn new(cluster: ClusterName, sites: &[SiteName]) -> Self {
        Founding { cluster, voters: sites.iter().take(MAX_VOTERS).cloned().collect() }
    }

    /// Returns the name of the cluster.
    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// Returns the first voters, in their order.
    pub fn voters(&self) -> &[SiteName] {
        &self.voters
    }

    /// Returns the short hash that packets carry.
    pub fn id(&self) -> ClusterId {
        let names = std::iter::once(self.cluster.as_str()).chain(self.voters.iter().map(SiteName::as_str));
        // No name contains a zero byte, so two different lists never give the same bytes.
        let hash = fnv_1a(names.flat_map(|name| name.bytes().chain([0])));
        let folded = (hash >> 32) ^ (hash & 0xffff_ffff);
        ClusterId(u32::try_from(folded).unwrap_or_default().to_be_bytes())
    }

    /// Checks that a disk with the founding `disk` may be used with this configured founding.
    pub(crate) fn agrees_with(&self, disk: &Founding) -> Result<(), FoundingError> {
        if disk.cluster != self.cluster {
            let (disk, config) = (disk.cluster.clone(), self.cluster.clone());
            return Err(FoundingError::OtherCluster { disk, config });
        }
        if disk.voters != self.voters {
            let (disk, config) = (disk.voters.clone(), self.voters.clone());
            return Err(FoundingError::OtherVoters { disk, config });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn founding(cluster: &str, sites: &[&str]) -> Founding {
        let sites: Vec<SiteName> = sites.iter().map(|site| site.parse().unwrap()).collect();
        Founding::new(cluster.parse().unwrap(), &sites)
    }

    #[test]
    fn the_id_tells_names_voters_and_their_order_apart() {
        let ids = [
            founding("x", &["a", "b"]),
            founding("y", &["a", "b"]),
            founding("x", &["b", "a"]),
            founding("x", &["ab"]),
            founding("xa", &["b"]),
            founding("x", &["a", "b", "c"]),
        ]
        .map(|founding| founding.id());
        let all: std::collections::BTreeSet<ClusterId> = ids.into_iter().collect();
        assert_eq!(all.len(), ids.len());
        assert_eq!(founding("x", &["a", "b"]).id(), ids[0]);
    }

    #[test]
    fn sites_behind_the_voters_may_be_added_to_the_list() {
        let seven = ["a", "b", "c", "d", "e", "f", "g"];
        let eight = ["a", "b", "c", "d", "e", "f", "g", "h"];
        assert_eq!(founding("x", &seven), founding("x", &eight));
    }

    #[test]
    fn a_disk_of_another_founding_is_refused_with_what_differs() {
        let disk = founding("x", &["a", "b", "c"]);
        let refused =
            |cluster, sites: &[&str]| founding(cluster, sites).agrees_with(&disk).unwrap_err().to_string();
        assert_eq!(founding("x", &["a", "b", "c"]).agrees_with(&disk), Ok(()));
        let error = refused("y", &["a", "b", "c"]);
        assert!(
            error.starts_with("this disk belongs to the cluster 'x', but the configuration names"),
            "{error}"
        );
        let error = refused("x", &["a", "c", "b"]);
        assert!(error.contains("[a, c, b], the same in another order;"), "{error}");
        assert!(refused("x", &["a", "b"]).contains("[a, b], without c;"));
        assert!(refused("x", &["a", "b", "c", "d"]).contains(", with d added;"));
        assert!(refused("x", &["a", "b", "d"]).contains(", with d in place of c;"));
    }
}
