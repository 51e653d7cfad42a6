//! `meshlock node`: one site of a cluster, for as long as it is wanted.

mod daemon;
mod otlp;
mod service_manager;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use meshlock::Node;
use meshlock_cluster::address::Address;
use meshlock_cluster::names::SiteName;
use tracing::Level;
use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::output::{Outcome, Usage};
use crate::settings::example::EXAMPLE;
use crate::settings::file::{self, File, ListedSite, Source};
use crate::settings::guard::access_of;
use crate::settings::{Flags, Settings, located};
use otlp::{Endpoint, Exporter};

/// Arguments of `meshlock node`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without a file and without --join the site is a cluster of its own, for the programs of this machine.
It prints one line when it takes part. SIGTERM or SIGINT makes it leave: clients have the configuration's shutdown_grace to give
back what they hold, then they are told that they have lost it. A second signal ends it at once; the others then wait until its
lease is over. SIGHUP makes it read the [[access]] rules and [[tokens]] anew and open the audit log anew.")]
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
    /// A running cluster, by the address of any of its sites; or the sites that the cluster begins with, each as
    /// NAME=HOST:PORT and in the same order at all of them
    #[arg(long, value_name = "HOST:PORT", num_args = 1.., value_parser = join)]
    join: Vec<Join>,
    /// Where clients of this machine reach it
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Where programs of other languages and clients of etcd reach it (gRPC and HTTP/JSON); not served if not given
    #[arg(long, value_name = "HOST:PORT")]
    api: Option<Address>,
    /// Where clients of other machines reach it
    #[arg(long, value_name = "HOST:PORT")]
    clients: Option<Address>,
    /// Trust the network: no TLS, neither between sites nor for clients of other machines
    #[arg(long)]
    plain: bool,
    /// How the log on stderr is written
    #[arg(long, value_enum, default_value_t = Log::Text)]
    log: Log,
    /// What the log says: error, warn, info, debug or trace, for all or for some, such as info,meshlock::lock=debug, which follows
    /// each acquisition from site to site
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: Targets,
    /// Send traces of acquisitions to this collector of OpenTelemetry (OTLP over HTTP), such as http://127.0.0.1:4318; without this, to the
    /// one that the variable OTEL_EXPORTER_OTLP_ENDPOINT names, if it is set
    #[arg(long, value_name = "URL")]
    otlp: Option<Endpoint>,
}

/// How a cluster is named on the command line.
#[derive(Clone, Debug)]
enum Join {
    /// One of the sites that it begins with.
    Named(ListedSite),
    /// Any of its sites, which runs.
    At(Address),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Log {
    /// For people
    Text,
    /// A JSON object a line
    Json,
}

fn join(text: &str) -> Result<Join, String> {
    if let Some((name, address)) = text.split_once('=') {
        let name = name.parse().map_err(|error| format!("{error}"))?;
        let address = address.parse().map_err(|error| format!("{error}"))?;
        return Ok(Join::Named(ListedSite { name, address }));
    }
    if !text.contains(':') {
        return Err(format!(
            "'{text}' is neither HOST:PORT nor NAME=HOST:PORT, such as db-1.example:7400 or db-1=db-1.example:7400"
        ));
    }
    text.parse().map(Join::At).map_err(|error| format!("{error}"))
}

pub(crate) fn run(arguments: Arguments, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    if arguments.example_config {
        out.write_all(EXAMPLE.as_bytes())?;
        return Ok(Outcome::Done);
    }
    let Arguments {
        config,
        check,
        site,
        data,
        listen,
        join,
        socket,
        api,
        clients,
        plain,
        log,
        log_level,
        otlp,
        ..
    } = arguments;
    let reload = Reload { config: config.clone() };
    let (file, source) =
        config.map_or_else(|| Ok((File::default(), Source::default())), |path| file::read(&path))?;
    let _log = start_log(log, log_level, collector(otlp)?)?;
    let (named, at) = split(join)?;
    // Whoever only looks asks nobody.
    let join = if check { Vec::new() } else { at };
    let flags = Flags { site, data, listen, socket, api, clients, sites: named, join, plain };
    let settings = Settings::new(file, &source, flags)?;
    if check {
        let (site, cluster) = settings.node.names()?;
        writeln!(out, "{site} of {cluster}: the configuration makes sense")?;
        return Ok(Outcome::Done);
    }
    daemon::run(settings, &source, &reload, out)
}

/// Where the rules and tokens are read anew from.
#[derive(Clone, Debug)]
struct Reload {
    config: Option<PathBuf>,
}

impl Reload {
    /// Lets the node go by what the file says now; returns whether there is a file.
    fn access(&self, node: &Node) -> anyhow::Result<bool> {
        let Some(path) = &self.config else { return Ok(false) };
        let (file, source) = file::read(path)?;
        let (access, tokens) = access_of(file);
        node.set_access(&access, &tokens).map_err(|error| located(&source, error))?;
        Ok(true)
    }
}

/// Names with addresses, or addresses alone.
fn split(join: Vec<Join>) -> Result<(Vec<ListedSite>, Vec<Address>), Usage> {
    let (mut named, mut at) = (Vec::new(), Vec::new());
    for one in join {
        match one {
            Join::Named(site) => named.push(site),
            Join::At(address) => at.push(address),
        }
    }
    if named.is_empty() || at.is_empty() {
        return Ok((named, at));
    }
    Err(Usage::new("--join: give all sites as NAME=HOST:PORT, or only addresses of sites that run"))
}

/// Where traces go: where the flag says, or the environment.
fn collector(flag: Option<Endpoint>) -> Result<Option<Endpoint>, Usage> {
    let variable = std::env::var(otlp::VARIABLE).ok().filter(|text| !text.is_empty());
    match (flag, variable) {
        (None, Some(text)) => text
            .parse()
            .map(Some)
            .map_err(|error: String| Usage::new(format!("the variable {}: {error}", otlp::VARIABLE))),
        (flag, _) => Ok(flag),
    }
}

/// Starts the log, which is written for as long as what this gives back lives. A thread of its own writes it: a node whose log
/// nobody reads must not stand still, and loses lines rather than its lease.
fn start_log(
    log: Log,
    levels: Targets,
    collector: Option<Endpoint>,
) -> io::Result<(WorkerGuard, Option<Exporter>)> {
    let (writer, guard) = tracing_appender::non_blocking(io::stderr());
    let (exporter, spans) = collector.map(Exporter::start).transpose()?.unzip();
    let acquisitions = Targets::new().with_target("meshlock::lock", Level::DEBUG);
    let registry = tracing_subscriber::registry().with(spans.map(|spans| spans.with_filter(acquisitions)));
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_target(false);
    match log {
        Log::Text => {
            registry.with(lines.with_ansi(io::stderr().is_terminal()).with_filter(levels)).init();
        }
        Log::Json => registry.with(lines.json().flatten_event(true).with_filter(levels)).init(),
    }
    Ok((guard, exporter))
}

/// No site of the cluster that is to be joined answers.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NoCluster(String);

/// What an operator has to change, in contrast to what the machine has run out of.
fn refused(error: impl std::fmt::Display) -> anyhow::Error {
    Usage::new(error).into()
}
