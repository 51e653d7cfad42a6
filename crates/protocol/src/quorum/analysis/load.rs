//! Load: how the work is spread under the best strategy.
//!
//! A strategy says how often each set is asked; the load of a site is how often it is asked then, and the load of
//! the system that of its busiest site under the best strategy (Naor and Wool 1998). A linear program: give
//! the sets weights that no site has more than 1 of, with the largest sum. The sum's inverse is the load; the
//! weights divided by the sum are a best strategy. In this form doing nothing is allowed, so the simplex method
//! can start at once. [Classes](super::classes) of like sets share a variable.

use good_lp::{Expression, ProblemVariables, Solution, SolverModel, Variable, microlp, variable};

use super::classes::{self, Classes};
use crate::quorum::QuorumSystem;

/// The share of requests that each site is asked in.
#[derive(Clone, Debug, PartialEq)]
pub struct QuorumLoad {
    /// The load of the system: of the busiest site, if sets are chosen as well as can be.
    pub best: f64,
    /// How often each set is asked then, where the sets are listed; the sum is 1.
    pub strategy: Option<Vec<f64>>,
    /// How often each site is asked then.
    pub of_sites: Vec<f64>,
    /// The load of the busiest site if all sets are asked equally often, where they are listed.
    pub even: Option<f64>,
}

impl QuorumLoad {
    /// The load of a family that has at least one set, all of them not empty.
    pub fn of(system: &QuorumSystem) -> Self {
        let weights = heaviest_packing(system);
        let sum: f64 = weights.iter().sum();
        let strategy: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
        let mut of_sites = vec![0.0; system.sites()];
        for (set, share) in system.quorums().iter().zip(&strategy) {
            for site in set.iter() {
                of_sites[site.index()] += share;
            }
        }
        let max_sets = system.shares().into_iter().max().unwrap_or(0);
        QuorumLoad {
            best: of_sites.iter().copied().fold(0.0, f64::max),
            strategy: Some(strategy),
            of_sites,
            even: Some(max_sets as f64 / system.quorums().len() as f64),
        }
    }
}

/// A weight for each set, of which no site has more than 1 altogether, with the largest sum.
fn heaviest_packing(system: &QuorumSystem) -> Vec<f64> {
    let classes = Classes::of(system);
    let mut sizes = vec![0.0; classes::count(&classes.of_set)];
    for &class in &classes.of_set {
        sizes[class] += 1.0;
    }
    let mut variables = ProblemVariables::new();
    // The weight of a whole class.
    let weights: Vec<Variable> = sizes.iter().map(|_| variables.add(variable().min(0.0))).collect();
    let sum: Expression = weights.iter().sum();
    let mut problem = variables.maximise(sum).using(microlp);
    for row in site_rows(system, &classes) {
        let weight_at_site: Expression =
            row.iter().map(|&(class, sets)| weights[class] * (sets / sizes[class])).sum();
        problem = problem.with(weight_at_site.leq(1.0));
    }
    let solution = problem.solve().expect("zero is feasible, and every weight is at most 1");
    let share = |&class: &usize| (solution.value(weights[class]) / sizes[class]).max(0.0);
    classes.of_set.iter().map(share).collect()
}

/// For one site of each class: in how many sets of which classes it is.
fn site_rows(system: &QuorumSystem, classes: &Classes) -> Vec<Vec<(usize, f64)>> {
    let site_classes = classes::count(&classes.of_site);
    let of_class = |class| classes.of_site.iter().position(|&other| other == class);
    let first_of: Vec<Option<usize>> = (0..site_classes).map(of_class).collect();
    let mut rows = vec![vec![0.0; classes::count(&classes.of_set)]; site_classes];
    for (set, &set_class) in system.quorums().iter().zip(&classes.of_set) {
        for site in set.iter().map(|site| site.index()) {
            let class = classes.of_site[site];
            if first_of[class] == Some(site) {
                rows[class][set_class] += 1.0;
            }
        }
    }
    let present = |row: Vec<f64>| row.into_iter().enumerate().filter(|&(_, sets)| sets > 0.0).collect();
    rows.into_iter().map(present).collect()
}
