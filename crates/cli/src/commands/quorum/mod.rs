//! `meshlock quorum build|check|analyse`: quorum systems from a construction or a file.

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

use crate::output::{Outcome, Usage};

/// Arguments of `meshlock quorum`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = NOTATION)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: QuorumCommand,
}

const NOTATION: &str = "\
Sites are numbered from 0. A file has one set a line, its sites joined by '.'; '#' begins a comment, and a line
'sites N' gives the number of sites if not all are in some set. 'build' writes such a file, or JSON, and 'check' and
'analyse' read both; '-' is standard input.";

#[derive(Debug, Subcommand)]
enum QuorumCommand {
    /// Construct a quorum system and write its sets, one a line
    Build(build::Arguments),
    /// Check sets: do every two meet, is any superfluous, do Maekawa's conditions hold (exit 1 if not)
    Check(check::Arguments),
    /// Sizes, messages, load under the best strategy, resilience and availability
    Analyse(analyse::Arguments),
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    match &arguments.command {
        QuorumCommand::Build(arguments) => build::run(arguments, out),
        QuorumCommand::Check(arguments) => check::run(arguments, out),
        QuorumCommand::Analyse(arguments) => analyse::run(arguments, out),
    }
}

/// How to print, the same for all three.
#[derive(Debug, Args)]
struct Printing {
    /// Print one JSON document
    #[arg(long, global = true)]
    json: bool,
    /// Also draw a picture into this file
    #[arg(long, value_name = "FILE", global = true)]
    svg: Option<PathBuf>,
}

fn write_picture(path: &Path, picture: &str) -> anyhow::Result<()> {
    let written = std::fs::write(path, picture).with_context(|| format!("--svg {}", path.display()));
    Ok(written.map_err(|error| Usage::new(format!("{error:#}")))?)
}
