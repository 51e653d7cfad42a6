//! The tree that the sites of a run share, for `raymond` and `neilsen-mizuno`: who is whose neighbour, and which neighbour leads
//! where.

use crate::registry::info::{OptionInfo, Range};
use crate::registry::values::Values;
use crate::{Cluster, PlanError, SiteId};

/// A tree on the sites `0..n`, kept as if it hung from site 0. The algorithms themselves know no root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// For each site the neighbour nearer to site 0, and for site 0 itself.
    parent: Box<[SiteId]>,
    /// The children of all sites, site by site, in order of ids.
    children: Box<[SiteId]>,
    /// Where the children of each site begin in `children`; one more entry at the end.
    first_child: Box<[u32]>,
    /// When each site is reached by a walk that visits children in order, ...
    reached: Box<[u32]>,
    /// ... and how many sites hang from it, itself counted: those reached from then on.
    hanging: Box<[u32]>,
}

impl Tree {
    /// The option `tree`.
    pub(super) const fn option(default: &'static str) -> OptionInfo {
        let range = Range::WordsOr {
            words: &["balanced", "star", "line"],
            notation: "the edges of a tree, as 0-1/1-2/1-3",
        };
        OptionInfo { name: "tree", about: "who is whose neighbour", range, default }
    }

    /// The tree that the option asks for.
    pub(super) fn chosen(cluster: Cluster, values: &Values) -> Result<Self, PlanError> {
        match values.get("tree") {
            "balanced" => Ok(Tree::balanced(cluster.sites)),
            "star" => Ok(Tree::star(cluster.sites)),
            "line" => Ok(Tree::line(cluster.sites)),
            edges => Tree::given(cluster.sites, edges),
        }
    }

    /// 0 – 1 – 2 – …: the worst shape, for experiments.
    fn line(sites: usize) -> Self {
        Tree::hung(sites, |site| site - 1)
    }

    /// Site 0 in the middle, all others around it.
    fn star(sites: usize) -> Self {
        Tree::hung(sites, |_| 0)
    }

    /// A binary tree filled level by level, as a heap is.
    fn balanced(sites: usize) -> Self {
        Tree::hung(sites, |site| (site - 1) / 2)
    }

    /// The tree with these edges: `0-1/1-2/1-3`.
    fn given(sites: usize, edges: &str) -> Result<Self, PlanError> {
        let fault = |why: String| PlanError::Option { option: "tree", why };
        let mut adjacent = vec![Vec::new(); sites];
        let mut component: Vec<usize> = (0..sites).collect();
        for edge in edges.split('/') {
            let (a, b) = ends_of(edge, sites).map_err(fault)?;
            let (one, other) = (component_of(&mut component, a), component_of(&mut component, b));
            if one == other {
                return Err(fault(format!("{edge} closes a cycle: a tree has one way from {a} to {b}")));
            }
            component[one] = other;
            adjacent[a].push(b);
            adjacent[b].push(a);
        }
        let root = component_of(&mut component, 0);
        if let Some(site) = (0..sites).find(|&site| component_of(&mut component, site) != root) {
            return Err(fault(format!(
                "no way leads from 0 to {site}: {sites} sites need {} edges",
                sites - 1
            )));
        }
        let mut parent = vec![0; sites];
        let mut order = vec![0];
        for at in 0..sites {
            let (site, from) = (order[at], parent[order[at]]);
            for &next in adjacent[site].iter().filter(|&&next| next != from) {
                parent[next] = site;
                order.push(next);
            }
        }
        Ok(Tree::hung(sites, |site| parent[site]))
    }

    /// The tree in which `parent_of` names the neighbour nearer to site 0 of every other site.
    fn hung(sites: usize, parent_of: impl Fn(usize) -> usize) -> Self {
        let parent: Vec<usize> = (0..sites).map(|site| if site == 0 { 0 } else { parent_of(site) }).collect();
        let mut first_child = vec![0_u32; sites + 1];
        for &above in &parent[1..] {
            first_child[above + 1] += 1;
        }
        for site in 0..sites {
            first_child[site + 1] += first_child[site];
        }
        let (mut free, mut children) = (first_child.clone(), vec![SiteId::new(0); sites - 1]);
        for site in 1..sites {
            let place = &mut free[parent[site]];
            children[*place as usize] = SiteId::new(site);
            *place += 1;
        }
        let parent = parent.into_iter().map(SiteId::new).collect();
        let (children, first_child) = (children.into(), first_child.into());
        let mut tree = Tree { parent, children, first_child, reached: [].into(), hanging: [].into() };
        tree.walk(sites);
        tree
    }

    /// Fills `hanging`, from the outer sites to the inner ones, and `reached`, the other way.
    fn walk(&mut self, sites: usize) {
        let mut order = vec![SiteId::new(0)];
        for at in 0..sites {
            order.extend_from_slice(self.children_of(order[at]));
        }
        let (mut hanging, mut reached) = (vec![1_u32; sites], vec![0_u32; sites]);
        for &site in order[1..].iter().rev() {
            hanging[self.parent[site.index()].index()] += hanging[site.index()];
        }
        for &site in &order {
            let mut next = reached[site.index()] + 1;
            for child in self.children_of(site) {
                reached[child.index()] = next;
                next += hanging[child.index()];
            }
        }
        (self.hanging, self.reached) = (hanging.into(), reached.into());
    }

    fn children_of(&self, site: SiteId) -> &[SiteId] {
        let (from, to) = (self.first_child[site.index()], self.first_child[site.index() + 1]);
        &self.children[from as usize..to as usize]
    }

    fn parent_of(&self, site: SiteId) -> Option<SiteId> {
        (site.index() != 0).then(|| self.parent[site.index()])
    }

    /// The neighbours of `site`, each at the place that [`place`](Tree::place) gives.
    pub(super) fn neighbours(&self, site: SiteId) -> impl Iterator<Item = SiteId> + '_ {
        self.parent_of(site).into_iter().chain(self.children_of(site).iter().copied())
    }

    /// How many neighbours `site` has.
    pub(super) fn degree(&self, site: SiteId) -> usize {
        usize::from(self.parent_of(site).is_some()) + self.children_of(site).len()
    }

    /// How many sites there are.
    pub(super) fn sites(&self) -> usize {
        self.parent.len()
    }

    /// Whether one site is a neighbour of all others.
    pub(super) fn is_star(&self) -> bool {
        let others = self.sites() - 1;
        SiteId::all(self.sites()).any(|site| self.degree(site) == others)
    }

    /// All sites but this one.
    pub(super) fn others(&self, site: SiteId) -> impl Iterator<Item = SiteId> {
        SiteId::others_from(site, self.parent.len())
    }

    /// Which of the neighbours of `site` the site `other` is; none if it is not.
    pub(super) fn place(&self, site: SiteId, other: SiteId) -> Option<usize> {
        let parent = self.parent_of(site);
        if parent == Some(other) {
            return Some(0);
        }
        let child = self.children_of(site).binary_search(&other).ok()?;
        Some(usize::from(parent.is_some()) + child)
    }

    /// The neighbour of `site` on the way to `goal`, which is another site.
    pub(super) fn toward(&self, site: SiteId, goal: SiteId) -> SiteId {
        let reached = self.reached[goal.index()];
        let below = self.children_of(site).partition_point(|child| self.reached[child.index()] <= reached);
        let child = below.checked_sub(1).map(|at| self.children_of(site)[at]);
        child.filter(|&child| self.hangs_from(child, goal)).unwrap_or(self.parent[site.index()])
    }

    fn hangs_from(&self, top: SiteId, site: SiteId) -> bool {
        let (from, count) = (self.reached[top.index()], self.hanging[top.index()]);
        (from..from + count).contains(&self.reached[site.index()])
    }
}

/// The two sites of `a-b`.
fn ends_of(edge: &str, sites: usize) -> Result<(usize, usize), String> {
    let site = |text: &str| {
        let site: usize = text.parse().map_err(|_| format!("'{edge}' is not an edge; write it as 0-1"))?;
        if site >= sites {
            return Err(format!("{edge} names site {site}, but the sites are 0 to {}", sites - 1));
        }
        Ok(site)
    };
    let (a, b) = edge.split_once('-').ok_or_else(|| format!("'{edge}' is not an edge; write it as 0-1"))?;
    let (a, b) = (site(a)?, site(b)?);
    if a == b {
        return Err(format!("{edge} joins a site to itself"));
    }
    Ok((a, b))
}

/// The name of the component that `site` is in; shortens the way to it.
fn component_of(component: &mut [usize], mut site: usize) -> usize {
    while component[site] != site {
        component[site] = component[component[site]];
        site = component[site];
    }
    site
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(tree: &Tree, from: usize, to: usize) -> Vec<usize> {
        let to = SiteId::new(to);
        let step = |&site: &SiteId| (site != to).then(|| tree.toward(site, to));
        std::iter::successors(Some(SiteId::new(from)), step).map(SiteId::index).collect()
    }

    #[test]
    fn the_neighbours_lead_to_every_site() {
        let given = Tree::given(5, "3-1/1-0/4-3/2-0").unwrap();
        assert_eq!(way(&given, 2, 4), [2, 0, 1, 3, 4]);
        assert_eq!(way(&given, 4, 1), [4, 3, 1]);
        assert_eq!(way(&Tree::line(4), 0, 3), [0, 1, 2, 3]);
        assert_eq!(way(&Tree::star(4), 2, 3), [2, 0, 3]);
        assert_eq!(way(&Tree::balanced(7), 4, 6), [4, 1, 0, 2, 6]);
    }

    #[test]
    fn a_neighbour_has_its_place_and_a_stranger_has_none() {
        let tree = Tree::balanced(7);
        for site in SiteId::all(7) {
            for (place, neighbour) in tree.neighbours(site).enumerate() {
                assert_eq!(tree.place(site, neighbour), Some(place));
            }
            assert_eq!(tree.neighbours(site).count(), tree.degree(site));
            assert_eq!(tree.place(site, site), None);
        }
        assert_eq!(tree.place(SiteId::new(1), SiteId::new(2)), None);
        assert_eq!(tree.place(SiteId::new(1), SiteId::new(99)), None);
    }

    #[test]
    fn a_star_is_known_whatever_its_edges_are_called() {
        let given = |sites, edges| Tree::given(sites, edges).unwrap();
        assert!(
            [Tree::star(5), Tree::line(3), Tree::line(1), given(4, "2-0/2-1/3-2")].iter().all(Tree::is_star)
        );
        assert!(![Tree::line(4), Tree::balanced(4), given(4, "2-0/2-1/3-1")].iter().any(Tree::is_star));
    }

    #[test]
    fn edges_that_are_no_tree_are_refused_by_their_fault() {
        let fault = |edges| Tree::given(4, edges).unwrap_err().to_string();
        assert_eq!(fault("0-1/1-2/2-2"), "option tree: 2-2 joins a site to itself");
        assert_eq!(fault("0-1/1-2/2-0"), "option tree: 2-0 closes a cycle: a tree has one way from 2 to 0");
        assert_eq!(fault("0-1/1-0/2-3"), "option tree: 1-0 closes a cycle: a tree has one way from 1 to 0");
        assert_eq!(fault("0-1/1-4"), "option tree: 1-4 names site 4, but the sites are 0 to 3");
        assert_eq!(fault("0-1/2-3"), "option tree: no way leads from 0 to 2: 4 sites need 3 edges");
        assert_eq!(fault("0-1/12"), "option tree: '12' is not an edge; write it as 0-1");
        assert_eq!(fault("0-1//1-2"), "option tree: '' is not an edge; write it as 0-1");
    }
}
