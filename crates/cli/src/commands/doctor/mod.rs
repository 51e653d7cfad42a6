//! `meshlock doctor`: asks every site by itself, without the cluster, and says what is wrong and what to do.
//!
//! Asking ([`ask`]) and judging ([`judge`]) are apart: what is wrong is a function of what the sites have said ([`facts`]).

mod ask;
mod facts;
mod judge;
mod print;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use meshlock_cluster::address::Address;

use crate::location::{NodeFlags, node_address};
use crate::output::{CommandOutcome, UsageError};
use judge::{Severity, judge};

/// Exit codes: something is wrong though locks can be granted, and no locks can be granted.
const EXIT_WARNINGS: u8 = 1;
const EXIT_NO_LOCKS: u8 = 2;

/// Arguments of `meshlock doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --config and --node it asks the node that other commands use (`meshlock status` says which), and through it every other site
that this node knows, each by a connection of its own: neither a leader nor a majority is needed. With --config no node has to run here:
the sites are asked with the certificate of the site whose file it is. What is told needs the right to watch all locks; who has less is
told what `meshlock status` tells.

Exit codes:
  0   nothing is wrong
  1   there are warnings, and locks can be granted
  2   locks cannot be granted, or not for much longer: too few voters are up, no site can grant, or no site answers
  64  invalid arguments or an invalid file
  69  nothing names a node, and none runs")]
pub(crate) struct Arguments {
    /// The socket of the node to ask first
    #[arg(long, value_name = "PATH", conflicts_with_all = ["node", "config"])]
    socket: Option<PathBuf>,
    /// Nodes to ask: the addresses under `clients` in their configurations
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',', value_parser = node_address, conflicts_with = "config")]
    node: Vec<Address>,
    /// With --node: the directory that `meshlock ca issue NAME --client` wrote, as for other commands
    #[arg(long, value_name = "DIR", conflicts_with_all = ["plain", "config"])]
    certificate: Option<PathBuf>,
    /// With --node: connect without TLS, to nodes that are configured with tls = "off"
    #[arg(long, conflicts_with = "config")]
    plain: bool,
    /// Ask the sites of this node's configuration file, as that site, whether or not its node runs
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let facts = match &arguments.config {
        Some(path) => ask::sites(&crate::settings::asker::read(path)?)?,
        None => ask::nodes(&arguments.locations()?),
    };
    let verdict = judge(&facts);
    if arguments.json {
        crate::output::json(out, &print::document(&facts, &verdict))?;
    } else {
        print::page(&facts, &verdict, out)?;
    }
    Ok(match verdict.worst() {
        None => CommandOutcome::Done,
        Some(Severity::Warning) => CommandOutcome::Exit(EXIT_WARNINGS),
        Some(Severity::NoLocks) => CommandOutcome::Exit(EXIT_NO_LOCKS),
    })
}

impl Arguments {
    /// Returns the nodes to ask.
    fn locations(&self) -> anyhow::Result<Vec<crate::location::NodeLocation>> {
        if self.node.is_empty() {
            if self.certificate.is_some() || self.plain {
                let why = "--plain and --certificate apply to nodes on other machines; add --node HOST:PORT";
                return Err(UsageError::new(why).into());
            }
            return Ok(vec![NodeFlags::at_socket(self.socket.clone()).find()?]);
        }
        let flags =
            |address: &Address| NodeFlags::at(vec![address.clone()], self.certificate.clone(), self.plain);
        self.node.iter().map(|address| flags(address).find()).collect()
    }
}
