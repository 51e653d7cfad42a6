//! Proofs for every number of sites, checked by solvers, and the tie between what is proved and the code that ships.
//!
//! Exploration (`crates/check`) sees every interleaving of three or four sites. Here a [model](model::ProofModel) of an algorithm is a
//! transition system over sites of any number, with an inductive invariant: clauses that hold at the start and that no action
//! breaks, and that imply that never two sites are inside. Each such [question](query::Query) is answered by z3 and cvc5.
//!
//! A proof about a model says nothing about a program. [`tie`] therefore visits everything that the explorer reaches in some runs,
//! and compares: every step of the code is an action of the model or changes nothing in it, and every clause holds in every state.
//!
//! [`models`] has one file for each algorithm, to be read beside the algorithm's own. [`text`] describes the language.

#![allow(
    missing_docs,
    reason = "an internal crate: `xtask tidy` asks for documents of types and functions, not of fields"
)]

pub mod counterexample;
pub mod document;
pub mod evaluate;
pub mod examine;
pub mod fragment;
mod ghost;
pub mod inequality;
mod instance;
pub mod model;
pub mod models;
pub mod possible;
pub mod prove;
pub mod query;
pub mod recorded;
mod smt;
pub mod solver;
pub mod structure;
pub mod text;
pub mod tie;
pub mod unnoticed;
