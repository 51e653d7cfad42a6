//! `meshlock node`: one site of a cluster, for as long as it is wanted.

mod daemon;
mod service_manager;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use meshlock_node::address::Address;
use meshlock_node::names::SiteName;
use tracing_appender::non_blocking::WorkerGuard;

use crate::output::{Outcome, Usage};
use crate::settings::example::EXAMPLE;
use crate::settings::file::{self, File, ListedSite, Source};
use crate::settings::{Flags, Settings};

/// Arguments of `meshlock node`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without a file and without --join the site is a cluster of its own, for the programs of this machine.
It prints one line when it takes part. SIGTERM or SIGINT makes it leave: clients have the configuration's shutdown_grace to give
back what they hold, then they are told that they have lost it. A second signal ends it at once; the others then wait until its
lease is over.")]
pub(crate) struct Arguments {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print a configuration that explains every key
    #[arg(long)]
    example_config: bool,
    /// Look whether the configuration makes sense, certificates included, and start nothing
    #[arg(long)]
    check: bool,
    /// The name of this site, if not that of the file
    #[arg(long, value_name = "NAME")]
    site: Option<SiteName>,
    /// Where it keeps what it must not forget
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Where it listens for other sites
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<Address>,
    /// The sites that the cluster began with, in the order of their own configurations
    #[arg(long, value_name = "NAME=HOST:PORT", num_args = 1.., value_parser = listed)]
    join: Vec<ListedSite>,
    /// Where clients of this machine reach it
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Where programs of other languages and clients of etcd reach it (gRPC and HTTP/JSON); not served if not given
    #[arg(long, value_name = "HOST:PORT")]
    api: Option<Address>,
    /// Trust the network: no TLS between sites
    #[arg(long)]
    plain: bool,
    /// How the log on stderr is written
    #[arg(long, value_enum, default_value_t = Log::Text)]
    log: Log,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Log {
    /// For people
    Text,
    /// A JSON object a line
    Json,
}

fn listed(text: &str) -> Result<ListedSite, String> {
    let (name, address) = text
        .split_once('=')
        .ok_or_else(|| format!("'{text}' is not NAME=HOST:PORT, such as db-1=db-1.example:7400"))?;
    let name = name.parse().map_err(|error| format!("{error}"))?;
    let address = address.parse().map_err(|error| format!("{error}"))?;
    Ok(ListedSite { name, address })
}

pub(crate) fn run(arguments: Arguments, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    if arguments.example_config {
        out.write_all(EXAMPLE.as_bytes())?;
        return Ok(Outcome::Done);
    }
    let Arguments { config, check, site, data, listen, join, socket, api, plain, log, .. } = arguments;
    let (file, source) =
        config.map_or_else(|| Ok((File::default(), Source::default())), |path| file::read(&path))?;
    let flags = Flags { site, data, listen, socket, api, join, plain };
    let settings = Settings::new(file, &source, flags)?;
    if check {
        writeln!(
            out,
            "{} of {}: the configuration makes sense",
            settings.config.site, settings.config.cluster
        )?;
        return Ok(Outcome::Done);
    }
    let _log = start_log(log);
    daemon::run(settings, out)
}

/// Starts the log, which is written for as long as what this gives back lives. A thread of its own writes it: a node whose log
/// nobody reads must not stand still, and loses lines rather than its lease.
fn start_log(log: Log) -> WorkerGuard {
    let (writer, guard) = tracing_appender::non_blocking(io::stderr());
    let subscriber = tracing_subscriber::fmt().with_writer(writer).with_target(false);
    match log {
        Log::Text => subscriber.with_ansi(io::stderr().is_terminal()).init(),
        Log::Json => subscriber.json().flatten_event(true).init(),
    }
    guard
}

/// What an operator has to change, in contrast to what the machine has run out of.
fn refused(error: impl std::fmt::Display) -> anyhow::Error {
    Usage::new(error).into()
}
