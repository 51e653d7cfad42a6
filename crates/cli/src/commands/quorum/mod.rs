//! `meshlock quorum build|check|analyse`: builds, checks and analyses quorum systems, from a construction or a file.

mod analyse;
mod build;
mod check;
mod curves;
mod panels;
mod source;
mod svg;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};

use crate::output::{CommandOutcome, UsageError};

/// Arguments of `meshlock quorum`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = NOTATION)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: QuorumCommand,
}

const NOTATION: &str = "\
Sites are numbered from 0. A file has one set per line, its sites separated by '.'; '#' begins a comment, and a line
'sites N' gives the number of sites if some of them are in no set. 'build' writes such a file, or JSON; 'check' and
'analyse' read both, and '-' means standard input.";

#[derive(Debug, Subcommand)]
enum QuorumCommand {
    /// Construct a quorum system and print its sets, one per line
    Build(build::Arguments),
    /// Check whether every two sets intersect, whether the sets are minimal, and Maekawa's conditions; exit code 1 if not
    Check(check::Arguments),
    /// Compute sizes, messages, load under the best strategy, resilience and availability
    Analyse(analyse::Arguments),
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    match &arguments.command {
        QuorumCommand::Build(arguments) => build::run(arguments, out),
        QuorumCommand::Check(arguments) => check::run(arguments, out),
        QuorumCommand::Analyse(arguments) => analyse::run(arguments, out),
    }
}

/// The output flags of all three commands.
#[derive(Debug, Args)]
struct Printing {
    /// Print one JSON document
    #[arg(long, global = true)]
    json: bool,
    /// Also write a picture to this SVG file
    #[arg(long, value_name = "FILE", global = true)]
    svg: Option<PathBuf>,
}

fn write_picture(path: &Path, picture: &str) -> anyhow::Result<()> {
    let written = std::fs::write(path, picture).with_context(|| format!("--svg {}", path.display()));
    Ok(written.map_err(|error| UsageError::new(format!("{error:#}")))?)
}
