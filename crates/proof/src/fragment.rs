//! Whether a model stays in the decidable fragment that solvers answer completely: effectively propositional logic with sorts in
//! layers.
//!
//! A function leads from the sorts of its arguments to that of its value, and so does a quantifier "for all … there is …". If no path
//! leads from a sort back to itself, only finitely many elements matter, and a solver can always answer.

use std::collections::BTreeSet;

use crate::model::{Predicate, ProofModel, SortId, VariableId};

/// What leads from one sort to another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    from: SortId,
    to: SortId,
    because: String,
}

/// What takes the model out of the decidable fragment: the names of functions, clauses and actions; nothing if it stays inside.
pub fn obstacles(model: &ProofModel) -> Vec<String> {
    let mut edges = BTreeSet::new();
    for symbol in &model.symbols {
        let Some(to) = symbol.result else { continue };
        for &from in &symbol.arguments {
            edges.insert(Edge { from, to, because: symbol.name.clone() });
        }
    }
    for axiom in &model.axioms {
        alternations(model, &axiom.holds, true, &axiom.name, &mut Vec::new(), &mut edges);
    }
    // The clauses are assumed before a step, and one is refuted after it.
    for clause in model.clauses.iter().chain(&model.initial) {
        alternations(model, &clause.holds, true, &clause.name, &mut Vec::new(), &mut edges);
    }
    for clause in model.clauses.iter().chain(&model.theorems) {
        alternations(model, &clause.holds, false, &clause.name, &mut Vec::new(), &mut edges);
    }
    for action in &model.actions {
        for guard in &action.guards {
            alternations(model, guard, true, &action.name, &mut Vec::new(), &mut edges);
        }
    }
    let edges: Vec<Edge> = edges.into_iter().collect();
    let on_cycle = edges.iter().filter(|edge| leads(&edges, edge.to, edge.from, &mut BTreeSet::new()));
    let names: BTreeSet<String> = on_cycle.map(|edge| edge.because.clone()).collect();
    names.into_iter().collect()
}

/// Adds an edge for each element that must exist because of others. `universal` has the variables in scope that stand for everything.
fn alternations(
    model: &ProofModel,
    predicate: &Predicate,
    is_positive: bool,
    because: &str,
    universal: &mut Vec<VariableId>,
    edges: &mut BTreeSet<Edge>,
) {
    match predicate {
        Predicate::Constant(_) | Predicate::Holds(..) | Predicate::Equal(..) | Predicate::Less(..) => {}
        Predicate::Not(part) => alternations(model, part, !is_positive, because, universal, edges),
        Predicate::And(parts) | Predicate::Or(parts) => {
            for part in parts {
                alternations(model, part, is_positive, because, universal, edges);
            }
        }
        Predicate::Implies(left, right) => {
            alternations(model, left, !is_positive, because, universal, edges);
            alternations(model, right, is_positive, because, universal, edges);
        }
        Predicate::Iff(left, right) => {
            for part in [left, right] {
                alternations(model, part, true, because, universal, edges);
                alternations(model, part, false, because, universal, edges);
            }
        }
        Predicate::All(variables, part) | Predicate::Some(variables, part) => {
            if matches!(predicate, Predicate::All(..)) == is_positive {
                let before = universal.len();
                universal.extend(variables);
                alternations(model, part, is_positive, because, universal, edges);
                universal.truncate(before);
            } else {
                let mut used = BTreeSet::new();
                part.for_each_variable(&mut |variable| _ = used.insert(variable));
                for from in universal.iter().filter(|variable| used.contains(variable)) {
                    edges.extend(variables.iter().map(|&to| Edge {
                        from: model.variables[*from].sort,
                        to: model.variables[to].sort,
                        because: because.to_owned(),
                    }));
                }
                alternations(model, part, is_positive, because, universal, edges);
            }
        }
    }
}

/// Whether edges lead from one sort to another.
fn leads(edges: &[Edge], from: SortId, to: SortId, seen: &mut BTreeSet<SortId>) -> bool {
    from == to
        || seen.insert(from)
            && edges.iter().filter(|edge| edge.from == from).any(|edge| leads(edges, edge.to, to, seen))
}
