//! `meshlock check`: explores every interleaving of a small run.
//!
//! [`bounds`] reads the flags, [`explore`] explores with a progress line, [`one`] prints the result of one run, with
//! [`trace`] and [`replay_test`] as other forms of a counterexample. [`all`] runs the matrix of `docs/CHECKED.md`,
//! [`assumptions`] drops the assumptions of the papers one by one, [`theorem`] explores all structures of three sites.

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

use crate::output::{CommandOutcome, UsageError};

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
  1   a property is violated; the output shows the shortest counterexample
  2   unfinished: the limit on memory was reached, and nothing is violated so far
  64  invalid arguments; the message says what is expected";

#[derive(Debug, Subcommand)]
enum Many {
    /// Explore every algorithm with its variants, in the runs of docs/CHECKED.md
    All(all::Arguments),
    /// Verify Sanders' theorem: explore all 729 information structures of three sites
    Theorem(theorem::Arguments),
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    match &arguments.many {
        Some(Many::All(all)) => all::run(all, out),
        Some(Many::Theorem(theorem)) => theorem::run(theorem, out),
        None if arguments.one.assumptions.is_some() => assumptions::run(&arguments.one, out),
        None => one::run(&arguments.one, out),
    }
}

/// Returns the name of the algorithm, or an error if none was given.
fn named(algorithm: Option<&str>) -> Result<&str, UsageError> {
    algorithm.ok_or_else(|| {
        UsageError::new(
            "check what? Name an algorithm (`meshlock algorithms` lists them), or say `all` or `theorem`",
        )
    })
}
