//! `meshlock check`: every interleaving of a small run, explored.
//!
//! [`bounds`] reads the flags, [`explore`] explores with a progress line, [`one`] prints what was found about one run, with
//! [`trace`] and [`replay_test`] as other forms of a counterexample. [`all`] is the matrix of `docs/CHECKED.md`,
//! [`assumptions`] drops what papers assume, [`theorem`] goes through all structures of three sites.

mod all;
mod assumptions;
mod bounds;
mod explore;
mod one;
mod replay_test;
mod theorem;
mod trace;

use std::io::Write;

use clap::{Args, Subcommand};

use crate::output::{Outcome, Usage};

/// Arguments of `meshlock check`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    many: Option<Many>,
    #[command(flatten)]
    one: one::Arguments,
}

const AFTER_HELP: &str = "\
Exit codes:
  0   everything that was checked holds
  1   something is violated; the output tells the shortest way there
  2   the limit on memory was reached first
  64  the arguments make no sense; the message says what would be right";

#[derive(Debug, Subcommand)]
enum Many {
    /// Every algorithm with its variants, in the runs of docs/CHECKED.md
    All(all::Arguments),
    /// Sanders' theorem: all 729 information structures of three sites, each explored
    Theorem(theorem::Arguments),
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    match &arguments.many {
        Some(Many::All(all)) => all::run(all, out),
        Some(Many::Theorem(theorem)) => theorem::run(theorem, out),
        None if arguments.one.assumptions.is_some() => assumptions::run(&arguments.one, out),
        None => one::run(&arguments.one, out),
    }
}

/// The name of an algorithm that the caller must have given.
fn named(algorithm: Option<&str>) -> Result<&str, Usage> {
    algorithm.ok_or_else(|| {
        Usage::new(
            "check what? Name an algorithm (`meshlock algorithms` lists them), or say `all` or `theorem`",
        )
    })
}
