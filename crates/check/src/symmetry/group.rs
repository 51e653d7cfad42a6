//! Permutations of sites, and groups of them.

use std::fmt;

use meshlock_protocol::SiteId;
use smallvec::SmallVec;

/// A permutation of the sites: the image of each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Permutation(SmallVec<[SiteId; 8]>);

impl Permutation {
    pub(crate) fn identity(sites: usize) -> Self {
        Permutation(SiteId::all(sites).collect())
    }

    /// All permutations of so many sites; those that move few sites come first.
    pub(crate) fn all(sites: usize) -> Vec<Permutation> {
        let mut all = vec![Permutation(SmallVec::new())];
        for next in SiteId::all(sites) {
            let longer = |shorter: &Permutation| {
                let longer = shorter.clone();
                (0..=shorter.0.len()).map(move |at| {
                    let mut longer = longer.clone();
                    longer.0.insert(at, next);
                    longer
                })
            };
            all = all.iter().flat_map(longer).collect();
        }
        all.sort_by_cached_key(|permutation| (permutation.moved(), permutation.clone()));
        all
    }

    /// The number of sites that it moves.
    fn moved(&self) -> usize {
        SiteId::all(self.0.len()).filter(|&site| self.of(site) != site).count()
    }

    /// The image of `site`.
    pub(crate) fn of(&self, site: SiteId) -> SiteId {
        self.0[site.index()]
    }

    /// First `first`, then this one.
    pub(crate) fn after(&self, first: &Permutation) -> Permutation {
        Permutation(first.0.iter().map(|&site| self.of(site)).collect())
    }
}

/// The sites that change places, as in "S0→S1→S0".
impl fmt::Display for Permutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_shown = vec![false; self.0.len()];
        let mut separator = "";
        for start in SiteId::all(self.0.len()) {
            if is_shown[start.index()] || self.of(start) == start {
                continue;
            }
            write!(f, "{separator}{start}")?;
            let mut at = start;
            loop {
                is_shown[at.index()] = true;
                at = self.of(at);
                write!(f, "→{at}")?;
                if at == start {
                    break;
                }
            }
            separator = ", ";
        }
        Ok(())
    }
}

/// One element of a group: a product of generators.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub(crate) permutation: Permutation,
    /// The element that is one generator shorter, and that generator, which comes last. The identity has none.
    pub(crate) before: Option<(usize, usize)>,
}

/// A group of permutations.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) generators: Vec<Permutation>,
    /// All elements. The identity is the first, and each comes after the one that is a generator shorter.
    pub(crate) elements: Vec<Element>,
}

impl Group {
    /// The identity and `permutations`, if they are a group; else those of them whose products with all others are among them.
    pub(crate) fn within(sites: usize, mut permutations: Vec<Permutation>) -> Self {
        permutations.push(Permutation::identity(sites));
        loop {
            let mut sorted = permutations.clone();
            sorted.sort_unstable();
            let is_one = |product: &Permutation| sorted.binary_search(product).is_ok();
            let is_closed = |one: &Permutation| sorted.iter().all(|other| is_one(&one.after(other)));
            let kept: Vec<Permutation> = permutations.iter().filter(|one| is_closed(one)).cloned().collect();
            if kept.len() == permutations.len() {
                break;
            }
            permutations = kept;
        }
        let mut group = Group { generators: Vec::new(), elements: Vec::new() };
        group.generate(sites);
        for permutation in permutations {
            if !group.elements.iter().any(|element| element.permutation == permutation) {
                group.generators.push(permutation);
                group.generate(sites);
            }
        }
        group
    }

    /// Works out the elements.
    fn generate(&mut self, sites: usize) {
        self.elements = vec![Element { permutation: Permutation::identity(sites), before: None }];
        let mut at = 0;
        while at < self.elements.len() {
            for (number, generator) in self.generators.iter().enumerate() {
                let permutation = generator.after(&self.elements[at].permutation);
                if !self.elements.iter().any(|element| element.permutation == permutation) {
                    self.elements.push(Element { permutation, before: Some((at, number)) });
                }
            }
            at += 1;
        }
    }

    /// The generators whose product an element is, first to last.
    pub(crate) fn factors(&self, element: usize) -> SmallVec<[usize; 8]> {
        let (mut factors, mut at) = (SmallVec::new(), element);
        while let Some((shorter, generator)) = self.elements[at].before {
            factors.push(generator);
            at = shorter;
        }
        factors.reverse();
        factors
    }

    /// Whether the identity is its only element.
    pub(crate) fn is_trivial(&self) -> bool {
        self.generators.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(sites: usize, one: usize, other: usize) -> Permutation {
        let mut images = Permutation::identity(sites).0;
        images.swap(one, other);
        Permutation(images)
    }

    #[test]
    fn exchanges_of_neighbours_generate_every_permutation() {
        assert_eq!(Permutation::all(4).len(), 24);
        assert_eq!(Permutation::all(4)[0], Permutation::identity(4));
        let group = Group::within(4, Permutation::all(4));
        assert_eq!(group.elements.len(), 24);
        for (at, element) in group.elements.iter().enumerate() {
            let product = group.factors(at).iter().fold(Permutation::identity(4), |product, &generator| {
                group.generators[generator].after(&product)
            });
            assert_eq!(product, element.permutation);
        }
    }

    #[test]
    fn what_is_not_closed_is_made_smaller() {
        let some = vec![exchange(3, 0, 1), exchange(3, 1, 2)];
        assert!(Group::within(3, some).is_trivial(), "their product is missing");
        let group = Group::within(4, vec![exchange(4, 0, 1), exchange(4, 2, 3).after(&exchange(4, 0, 1))]);
        assert!(group.is_trivial(), "the product of the two is missing");
        let group = Group::within(4, vec![exchange(4, 0, 1)]);
        assert_eq!(group.elements.len(), 2);
        assert_eq!(group.elements[1].permutation.to_string(), "S0→S1→S0");
    }
}
