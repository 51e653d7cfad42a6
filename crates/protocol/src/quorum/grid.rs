//! The grid: sites in rows and columns, and as the set of each its row and its column (chapter 9, section 9.8).
//!
//! Simple, for any N, about 2√N sites. Site `i` stands in row `i / columns` and column `i % columns`; only the
//! last row may be incomplete. Two sets still meet: let `i` in row r and column c and `j` in row r' and column c'
//! share neither. They meet where (r, c') or (r', c) cross. If (r, c') is missing, r is the last row; then r' is
//! another, complete one, and (r', c) is there.

use crate::quorum::{BuildQuorumsError, QuorumSystem, check_sites};
use crate::{SiteId, SiteSet};

/// The positions of the sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    sites: usize,
    columns: usize,
}

impl QuorumSystem {
    /// The row and the column of each site in a grid that is as square as can be: M1 and M2 hold; all four if N
    /// is a square.
    pub fn grid(sites: usize) -> Result<Self, BuildQuorumsError> {
        check_sites(sites)?;
        let grid = Grid::new(sites);
        Ok(QuorumSystem::new(sites, SiteId::all(sites).map(|site| grid.cross(site)).collect()))
    }
}

impl Grid {
    /// Rows of ⌈√N⌉ sites.
    pub fn new(sites: usize) -> Self {
        let root = sites.isqrt();
        Grid { sites, columns: if root * root == sites { root } else { root + 1 } }
    }

    /// The number of sites.
    pub fn sites(self) -> usize {
        self.sites
    }

    /// The number of sites in a complete row.
    pub fn columns(self) -> usize {
        self.columns
    }

    /// The row and the column of a site.
    pub fn place(self, site: SiteId) -> (usize, usize) {
        (site.index() / self.columns, site.index() % self.columns)
    }

    /// All sites in the row or in the column of `site`.
    pub fn cross(self, site: SiteId) -> SiteSet {
        let (row, column) = self.place(site);
        let in_cross = |other: &SiteId| {
            let place = self.place(*other);
            place.0 == row || place.1 == column
        };
        SiteId::all(self.sites).filter(in_cross).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_a_row_and_a_column_even_if_the_last_row_is_incomplete() {
        // 0 1 2 3
        // 4 5 6 7
        // 8 9
        let grid = QuorumSystem::grid(10).unwrap();
        assert_eq!(grid.quorum_of(SiteId::new(5)).unwrap().to_string(), "{1,4,5,6,7,9}");
        assert_eq!(grid.quorum_of(SiteId::new(9)).unwrap().to_string(), "{1,5,8,9}");
        assert_eq!(grid.quorum_of(SiteId::new(3)).unwrap().to_string(), "{0,1,2,3,7}");
    }

    #[test]
    fn every_two_sets_of_a_grid_meet_whatever_the_number_of_sites() {
        for sites in 1..=150 {
            let grid = QuorumSystem::grid(sites).unwrap();
            for (at, quorum) in grid.quorums().iter().enumerate() {
                assert!(quorum.contains(SiteId::new(at)));
                assert!(grid.quorums()[..at].iter().all(|other| quorum.intersects(other)), "{sites} sites");
            }
        }
    }

    #[test]
    fn a_square_grid_has_sets_of_one_size() {
        let grid = QuorumSystem::grid(100).unwrap();
        assert!(grid.quorums().iter().all(|quorum| quorum.len() == 19));
        assert_eq!(QuorumSystem::grid(0), Err(BuildQuorumsError::NoSites));
    }
}
