//! `meshlock up`: a whole cluster on this machine in one command.

mod children;
mod plan;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use crate::output::{Outcome, Usage};
use children::Children;
use plan::Plan;

/// The most sites: each is a process.
const MAX_SITES: i64 = 50;

/// Arguments of `meshlock up`.
#[derive(Debug, Args)]
#[command(
    after_help = "Ctrl-C (or SIGTERM) ends all of its sites. What is in DIR stays: the next `up --dir DIR` goes on with it."
)]
pub(crate) struct Arguments {
    /// How many sites
    #[arg(short = 'n', long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=MAX_SITES))]
    sites: u16,
    /// Where configurations, certificates, data, sockets and logs are kept; a new directory under the system's temporary one
    /// unless said
    #[arg(long)]
    dir: Option<PathBuf>,
    /// No certificates: trust this machine's loopback network
    #[arg(long)]
    plain: bool,
    /// Certificates for all sites, which is what happens anyway
    #[arg(long, conflicts_with = "plain")]
    tls: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let plan = Plan::new(arguments.dir.as_deref(), arguments.sites, arguments.plain)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut children = Children::start(&plan)?;
        let outcome = children.until_ready(out).await;
        if let Ok(Outcome::Done) = outcome {
            explain(&plan, out)?;
            let outcome = children.until_told().await;
            children.stop().await;
            return outcome;
        }
        children.stop().await;
        outcome
    })
}

/// What to try next.
fn explain(plan: &Plan, out: &mut dyn Write) -> anyhow::Result<()> {
    let first = plan.sites.first().ok_or_else(|| Usage::new("-n 0: give at least one site"))?;
    let last = plan.sites.last().unwrap_or(first);
    writeln!(out, "\n{} sites are ready; logs and all else: {}", plan.sites.len(), plan.dir.display())?;
    writeln!(out, "Try, in other terminals:")?;
    writeln!(out, "  meshlock run jobs --socket {} -- sleep 60", first.socket.display())?;
    writeln!(out, "  meshlock run jobs --socket {} -- echo mine", last.socket.display())?;
    writeln!(out, "  meshlock queue jobs --socket {}", first.socket.display())?;
    writeln!(out, "  meshlock status --socket {}", first.socket.display())?;
    writeln!(out, "Ctrl-C ends all of them.")?;
    out.flush()?;
    Ok(())
}
