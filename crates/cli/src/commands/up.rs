//! `meshlock up`: runs a whole cluster on this machine.

mod children;
mod files;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use crate::output::{CommandOutcome, UsageError};
use crate::settings::places::UpLink;
use children::Children;
use files::LocalClusterFiles;

/// Maximum number of sites: each is a process.
const MAX_SITES: i64 = 50;

/// Arguments of `meshlock up`.
#[derive(Debug, Args)]
#[command(
    after_help = "Ctrl-C (or SIGTERM) stops all sites. The files in DIR stay: the next `meshlock up --dir DIR` continues with them."
)]
pub(crate) struct Arguments {
    /// How many sites
    #[arg(short = 'n', long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=MAX_SITES))]
    sites: u16,
    /// The directory for configurations, certificates, data, sockets and logs, to which no other user may be able to write [default:
    /// a new one in the system's directory for temporary files]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Run without TLS and certificates
    #[arg(long)]
    plain: bool,
    /// Run with TLS and certificates, which is the default
    #[arg(long, conflicts_with = "plain")]
    tls: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let files = LocalClusterFiles::new(arguments.dir.as_deref(), arguments.sites, arguments.plain)?;
    // Without the link the cluster works, and its sockets can be named.
    let _link = UpLink::new(&files.dir).inspect_err(|error| {
        eprintln!("meshlock: other commands do not find these sites by themselves: {error}");
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut children = Children::start(&files)?;
        let outcome = children.until_ready(out).await;
        if let Ok(CommandOutcome::Done) = outcome {
            explain(&files, out)?;
            let outcome = children.until_told().await;
            children.stop().await;
            return outcome;
        }
        children.stop().await;
        outcome
    })
}

/// Prints commands to try next.
fn explain(files: &LocalClusterFiles, out: &mut dyn Write) -> anyhow::Result<()> {
    let first = files.sites.first().ok_or_else(|| UsageError::new("-n 0: give at least one site"))?;
    let last = files.sites.last().unwrap_or(first);
    writeln!(
        out,
        "\n{} sites are ready. Their logs and all other files are in {}",
        files.sites.len(),
        files.dir.display()
    )?;
    writeln!(out, "Try, in other terminals:")?;
    writeln!(out, "  meshlock run jobs --socket {} -- sleep 60", first.socket.display())?;
    writeln!(out, "  meshlock run jobs --socket {} -- echo mine", last.socket.display())?;
    writeln!(out, "  meshlock queue jobs")?;
    writeln!(out, "  meshlock status")?;
    writeln!(
        out,
        "Commands that name no node use {}, unless another node is configured or runs.",
        first.name
    )?;
    writeln!(out, "Ctrl-C ends all sites.")?;
    out.flush()?;
    Ok(())
}
