//! `meshlock completions` and `meshlock man`: both derive from the definition that parses the arguments.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::output::{self, CommandOutcome, UsageError};

/// Arguments of `meshlock completions`.
#[derive(Debug, Args)]
#[command(
    after_help = "For bash: meshlock completions bash > ~/.local/share/bash-completion/completions/meshlock"
)]
pub(crate) struct Completions {
    /// The shell to generate completions for
    shell: Shell,
}

/// Arguments of `meshlock man`.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Write a page for each command into this directory, instead of printing the page of `meshlock`
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn completions(arguments: &Completions, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "meshlock", &mut text);
    out.write_all(&text)?;
    Ok(CommandOutcome::Done)
}

pub(crate) fn man(arguments: &Man, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let Some(dir) = &arguments.dir else {
        clap_mangen::Man::new(Cli::command()).render(out)?;
        return Ok(CommandOutcome::Done);
    };
    output::check_folder("--dir", dir)?;
    clap_mangen::generate_to(Cli::command(), dir)
        .map_err(|error| UsageError::new(format!("--dir {}: cannot be written: {error}", dir.display())))?;
    writeln!(out, "The manual pages are in {}.", dir.display())?;
    Ok(CommandOutcome::Done)
}
