//! Every algorithm with a model: proved by both solvers, tied to the code, and what is wrong is noticed.

mod document;
mod each;
mod errata;
mod golden;
mod mutants;
mod proofs;
mod quorums;
mod ties;
mod trees;

use meshlock_proof::solver::Solver;

/// Whether both solvers are here; otherwise the test is skipped.
fn has_solvers() -> bool {
    Solver::ALL.into_iter().all(|solver| meshlock_testing::needs_program(solver.program()))
}
