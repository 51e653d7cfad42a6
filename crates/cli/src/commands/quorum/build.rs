//! `meshlock quorum build`: prints the sets of a construction, in the notation that `check` and `analyse` read.

use std::io::Write;

use clap::Args;
use serde_json::json;

use super::source::Construction;
use super::{Printing, panels, write_picture};
use crate::output::{self, CommandOutcome};

/// Arguments of `meshlock quorum build`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    construction: Construction,
    #[command(flatten)]
    printing: Printing,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let family = arguments.construction.family()?;
    if let Some(path) = &arguments.printing.svg {
        write_picture(path, &panels::draw(&family, &[]))?;
    }
    let (sites, sets) = (family.system.sites(), family.system.quorums());
    if arguments.printing.json {
        let sets: Vec<Vec<usize>> =
            sets.iter().map(|set| set.iter().map(|site| site.index()).collect()).collect();
        output::json(out, &json!({ "family": family.title, "sites": sites, "sets": sets }))?;
    } else {
        writeln!(out, "# {}: {sites} sites, {} sets", family.title, sets.len())?;
        out.write_all(family.system.to_file().as_bytes())?;
    }
    Ok(CommandOutcome::Done)
}
