//! Finite projective planes: Maekawa's quorums of about √N sites (chapter 9, section 9.8).
//!
//! A plane of order q has N = q²+q+1 points and as many lines, q+1 points on a line and q+1 lines through a
//! point; every two lines meet in exactly one point. With sites as points and the line `i` as the request set of
//! site `i`, conditions M1 to M4 hold, and no family with equal shares has smaller sets.
//!
//! How (Singer 1938): the points are the powers of a generator θ of the field of order q³, up to factors from
//! the field of order q; those without a θ² part form a line, and multiplying by θ turns a line into another
//! one. So one line, as a set D of exponents, gives all: line `i` is `{i + d mod N : d ∈ D}`. Because 0 ∈ D, site
//! `i` is on line `i`. No search for distinct representatives is needed.
//!
//! Other N **fold** the next larger plane: the first N lines, each point p ≥ N replaced by p mod N. Two lines
//! still meet, wherever their common point went; site `i` stays on line `i`; sets only get smaller.

use crate::quorum::field::{self, Element, FiniteField};
use crate::quorum::{BuildQuorumsError, QuorumSystem, check_sites};
use crate::{SiteId, SiteSet};

impl QuorumSystem {
    /// The lines of the projective plane of this order, `i` on line `i`: M1, M2, M3 and M4 hold.
    pub fn plane(order: usize) -> Result<Self, BuildQuorumsError> {
        let field = FiniteField::new(order);
        let field = field
            .ok_or_else(|| BuildQuorumsError::NoPlane { order, nearest: field::nearest_order(order) })?;
        Ok(translates(points(order), points(order), &difference_set(&field)))
    }

    /// A set of at most q+1 sites for each of any number of sites, from the smallest plane with as many points:
    /// M1 and M2 hold; all four if the plane has exactly as many.
    pub fn folded_plane(sites: usize) -> Result<Self, BuildQuorumsError> {
        check_sites(sites)?;
        let least = (0..=field::MAX_ORDER).find(|&order| points(order) >= sites).expect("checked above");
        Ok(match least {
            // One point, and the triangle: planes in all but name.
            0 => translates(1, sites, &[0]),
            1 => translates(3, sites, &[0, 1]),
            _ => {
                let order =
                    field::next_order(least).expect("the most sites are the points of the largest plane");
                let field = FiniteField::new(order).expect("it is a prime power");
                translates(points(order), sites, &difference_set(&field))
            }
        })
    }
}

/// The number of points, and of lines, of a plane of this order.
pub const fn points(order: usize) -> usize {
    order * order + order + 1
}

/// The order of the plane with exactly this number of points, if there is one.
pub fn order_of(sites: usize) -> Option<usize> {
    (2..=field::MAX_ORDER).find(|&order| points(order) == sites && field::next_order(order) == Some(order))
}

/// The sets `{i + d mod points : d ∈ line}` for the first `sites` of them, folded into `0..sites`.
fn translates(points: usize, sites: usize, line: &[usize]) -> QuorumSystem {
    let fold = |point: usize| SiteId::new(point % points % sites);
    let quorum = |at: usize| -> SiteSet { line.iter().map(|step| fold(at + step)).collect() };
    QuorumSystem::new(sites, (0..sites).map(quorum).collect())
}

/// The points of one line of the cyclic plane over `field`, 0 among them: every number that is no multiple of N
/// is the difference of exactly one pair of them, mod N.
fn difference_set(field: &FiniteField) -> Vec<usize> {
    let cubics = field.elements().flat_map(|a| {
        field.elements().flat_map(move |b| field.elements().skip(1).map(move |c| Cubic([c, b, a])))
    });
    let is_generator = |cubic: &Cubic| cubic.powers(field).count() == points(field.order());
    let theta = cubics.into_iter().find(is_generator).expect("the field of order q³ has a generator");
    let powers = theta.powers(field).enumerate();
    powers.filter(|(_, power)| power[2] == 0).map(|(exponent, _)| exponent).collect()
}

/// The rule θ³ = c + bθ + aθ², as `[c, b, a]`.
#[derive(Clone, Copy)]
struct Cubic([Element; 3]);

impl Cubic {
    /// The powers of θ from 1 up to the next multiple of 1, as coefficients of 1, θ and θ². If they are as many
    /// as the plane has points, they are all the points.
    fn powers(self, field: &FiniteField) -> impl Iterator<Item = [Element; 3]> {
        let Cubic([c, b, a]) = self;
        let times_theta = move |[x, y, z]: [Element; 3]| {
            let plus_z_times = |sum, factor| field.sum(sum, field.product(factor, z));
            [field.product(c, z), plus_z_times(x, b), plus_z_times(y, a)]
        };
        std::iter::successors(Some([1, 0, 0]), move |&power| {
            Some(times_theta(power)).filter(|next| next[1..] != [0, 0])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERS: [usize; 17] = [2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27, 29, 31];

    #[test]
    fn the_plane_of_order_2_is_fanos() {
        let plane = QuorumSystem::plane(2).unwrap();
        assert_eq!(plane.to_string(), "0.1.3/1.2.4/2.3.5/3.4.6/0.4.5/1.5.6/0.2.6");
    }

    #[test]
    fn every_two_lines_of_a_plane_meet_in_one_point_and_line_i_contains_point_i() {
        for order in ORDERS {
            let plane = QuorumSystem::plane(order).unwrap();
            let lines = plane.quorums();
            assert_eq!((plane.sites(), lines.len()), (points(order), points(order)));
            for (at, line) in lines.iter().enumerate() {
                assert_eq!(line.len(), order + 1);
                assert!(line.contains(SiteId::new(at)));
                assert!(lines[..at].iter().all(|other| line.intersection(other).len() == 1), "order {order}");
            }
            let through = |site| lines.iter().filter(|line| line.contains(site)).count();
            assert!(SiteId::all(points(order)).all(|site| through(site) == order + 1));
        }
    }

    #[test]
    fn a_folded_plane_has_a_small_set_for_each_of_any_number_of_sites() {
        for sites in (1..=140).chain([993, 994, 1000]) {
            let folded = QuorumSystem::folded_plane(sites).unwrap();
            assert_eq!((folded.sites(), folded.quorums().len()), (sites, sites));
            for (at, quorum) in folded.quorums().iter().enumerate() {
                assert!(quorum.contains(SiteId::new(at)));
                assert!(quorum.iter().all(|site| site.index() < sites));
                assert!(folded.quorums()[..at].iter().all(|other| quorum.intersects(other)), "{sites} sites");
            }
        }
        let most =
            |sites| QuorumSystem::folded_plane(sites).unwrap().quorums().iter().map(SiteSet::len).max();
        assert_eq!([1, 2, 3, 7, 10, 100].map(|sites| most(sites).unwrap()), [1, 2, 2, 3, 4, 12]);
    }

    #[test]
    fn a_plane_folds_into_itself() {
        assert_eq!(QuorumSystem::folded_plane(13), QuorumSystem::plane(3));
        assert_eq!((order_of(13), order_of(14), order_of(43)), (Some(3), None, None));
    }

    #[test]
    fn an_order_that_is_no_prime_power_is_refused_with_the_nearest() {
        let refused = QuorumSystem::plane(6).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "no projective plane of order 6 can be built: the order must be a power of a prime from 2 to 101, \
             for example 5"
        );
        assert_eq!(QuorumSystem::folded_plane(0), Err(BuildQuorumsError::NoSites));
        assert_eq!(QuorumSystem::folded_plane(20_000), Err(BuildQuorumsError::TooManySites(20_000)));
    }
}
