//! `meshlock node`: runs one site of a cluster until it is told to stop.

mod daemon;
mod otlp;
mod repeats;
mod service_manager;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use meshlock::{Node, TlsError};
use meshlock_cluster::address::Address;
use meshlock_cluster::names::SiteName;
use meshlock_host::JoinPlace;
use tracing::Level;
use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterExt, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::commands::backup::Backup;
use crate::output::{CommandOutcome, UsageError};
use crate::settings::example::EXAMPLE;
use crate::settings::file::{self, AdmissionEntry, ConfigSource, File, ListedSite, SocketMode};
use crate::settings::guard::{Replaceable, replaceable};
use crate::settings::{Flags, NodeSettings, located};
use otlp::{Collector, Exporter};
use repeats::Repeats;

/// Arguments of `meshlock node`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --config and --join the site is a cluster of its own, for the programs of this machine.

The node prints one line when its site has become a member. SIGTERM or SIGINT makes the site leave the cluster: its clients have
the configured shutdown_grace to release their locks, then they are told that the locks are lost. A second signal ends the node at
once; the other sites then wait until its lease is over. SIGHUP makes the node read [[access]], [[tokens]],
`revoked` and the files of [tls] again, and reopen the audit log.")]
pub(crate) struct Arguments {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print a configuration file that explains every key, and exit
    #[arg(long)]
    example_config: bool,
    /// Check the configuration and the certificates, warn of certificates and tokens that end soon, and exit
    #[arg(long)]
    check: bool,
    /// The name of this site; overrides the configuration file
    #[arg(long, value_name = "NAME")]
    site: Option<SiteName>,
    /// The directory for the durable state of this site
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The address on which this site listens for other sites
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<Address>,
    /// Join a running cluster: the address of any of its sites, or of several; also dns:NAME:PORT for a site at every address of a name,
    /// and dns+srv:NAME for its SRV records, looked up again and again. Or start a new cluster: all its first sites as
    /// NAME=HOST:PORT, in the same order at each of them
    #[arg(long, value_name = "HOST:PORT", num_args = 1.., value_parser = join)]
    join: Vec<Join>,
    /// The address at which other sites reach this one; {site} and {ordinal} stand for the site's name and the number at its end
    #[arg(long, value_name = "HOST:PORT")]
    advertise: Option<Address>,
    /// Start a new cluster with this many sites, whose names differ only in the number at their end, counted from 0, as the pods of a
    /// StatefulSet; the address of each is --advertise with {site} or {ordinal} in it
    #[arg(long, value_name = "N")]
    bootstrap_expect: Option<u32>,
    /// The Unix socket for clients on this machine
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Which users of this machine can open the socket, as permissions of its file: 0600 for this user only, 0660 for its group as
    /// well, 0666 for everyone; what other users may do is up to [[access]] [default: 0600]
    #[arg(long, value_name = "MODE")]
    socket_mode: Option<SocketMode>,
    /// The address of the API for other languages and for clients of etcd and Consul (gRPC and HTTP/JSON) [default: no API]
    #[arg(long, value_name = "HOST:PORT")]
    api: Option<Address>,
    /// The address for clients on other machines [default: none]
    #[arg(long, value_name = "HOST:PORT")]
    clients: Option<Address>,
    /// Found the cluster with fences above this one; the wall clock gives a floor, too, and the higher of the two counts. Give it to all
    /// sites with which the cluster is founded. It has no effect later
    #[arg(long, value_name = "FENCE")]
    fence_floor: Option<u64>,
    /// The same, with the fence floor of a backup that `meshlock backup` wrote
    #[arg(long, value_name = "FILE", conflicts_with = "fence_floor")]
    fence_floor_from: Option<PathBuf>,
    /// Which sites may join as long as nobody has said so (`meshlock site add`, `access set admission`): every one with a certificate, or
    /// only those with which the cluster is founded. Give it to all of these [default: open]
    #[arg(long, value_enum)]
    admission: Option<AdmissionEntry>,
    /// Run without TLS, between sites and for clients on other machines: only on a trusted network
    #[arg(long)]
    plain: bool,
    /// The format of the log on standard error
    #[arg(long, value_enum, default_value_t = Log::Text)]
    log: Log,
    /// The level of the log: error, warn, info, debug or trace; also per target, such as info,meshlock::lock=debug, which follows
    /// each acquisition of a lock from site to site
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: Targets,
    /// Send traces of acquisitions to this OpenTelemetry collector (OTLP over HTTP), such as http://127.0.0.1:4318; default: the
    /// collector that the environment variable OTEL_EXPORTER_OTLP_ENDPOINT names, if it is set
    #[arg(long, value_name = "URL")]
    otlp: Option<Collector>,
}

/// One value of `--join`.
#[derive(Clone, Debug)]
enum Join {
    /// One of the sites with which a new cluster starts.
    Named(ListedSite),
    /// Where a site of a running cluster is.
    At(String),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Log {
    /// Lines for people
    Text,
    /// One JSON object per line
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
    let place: JoinPlace = text.parse().map_err(|error| format!("{error}"))?;
    Ok(Join::At(place.to_string()))
}

pub(crate) fn run(arguments: Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    if arguments.example_config {
        out.write_all(EXAMPLE.as_bytes())?;
        return Ok(CommandOutcome::Done);
    }
    let Arguments {
        config,
        check,
        site,
        data,
        listen,
        join,
        advertise,
        bootstrap_expect,
        socket,
        socket_mode,
        api,
        clients,
        plain,
        admission,
        fence_floor,
        fence_floor_from,
        log,
        log_level,
        otlp,
        ..
    } = arguments;
    let fence_floor = match fence_floor_from {
        Some(path) => Some(Backup::read(&path)?.fence_floor),
        None => fence_floor,
    };
    let reload = Reload { config: config.clone(), plain };
    let (file, source) =
        config.map_or_else(|| Ok((File::default(), ConfigSource::default())), |path| file::read(&path))?;
    let repeats = Repeats::default();
    let _log = start_log(log, log_level, repeats.clone(), collector(otlp)?)?;
    let (named, join) = split(join)?;
    let flags = Flags {
        site,
        data,
        listen,
        socket,
        socket_mode,
        api,
        clients,
        sites: named,
        join,
        advertise,
        bootstrap_expect,
        is_check: check,
        plain,
        admission,
        fence_floor,
    };
    let settings = NodeSettings::new(file, &source, flags)?;
    if check {
        let (site, cluster) = settings.node.names()?;
        writeln!(out, "{site} of {cluster}: the configuration is valid")?;
        for warning in &settings.warnings {
            writeln!(out, "warning: {warning}")?;
        }
        return Ok(CommandOutcome::Done);
    }
    let outcome = daemon::run(settings, &source, &reload, &repeats, out);
    repeats.report(None);
    outcome
}

/// The file from which SIGHUP reads again what a running node can replace.
#[derive(Clone, Debug)]
struct Reload {
    config: Option<PathBuf>,
    /// The flag `--plain`, which overrides the file.
    plain: bool,
}

impl Reload {
    /// Reads the file. Returns `None` if there is none.
    fn read(&self) -> anyhow::Result<Option<(Replaceable, ConfigSource)>> {
        let Some(path) = &self.config else { return Ok(None) };
        let (file, source) = file::read(path)?;
        let mut said = replaceable(file, &source);
        if self.plain {
            said.tls = None;
        }
        Ok(Some((said, source)))
    }

    /// Applies the access rules, the tokens and the list of the revoked.
    fn access(said: &Replaceable, source: &ConfigSource, node: &Node) -> anyhow::Result<()> {
        let wrong = |error| located(source, error);
        node.set_revoked(&said.revoked).map_err(wrong)?;
        node.set_access(&said.access, &said.tokens).map_err(wrong)
    }

    /// Reads the certificates, if there are any.
    fn certificates(said: &Replaceable, node: &Node) -> Result<(), TlsError> {
        said.tls.as_ref().map_or(Ok(()), |files| node.set_tls(&files.read()?))
    }
}

/// Separates the two forms of `--join`, which cannot be mixed.
fn split(join: Vec<Join>) -> Result<(Vec<ListedSite>, Vec<String>), UsageError> {
    let (mut named, mut at) = (Vec::new(), Vec::new());
    for one in join {
        match one {
            Join::Named(site) => named.push(site),
            Join::At(place) => at.push(place),
        }
    }
    if named.is_empty() || at.is_empty() {
        return Ok((named, at));
    }
    Err(UsageError::new("--join: give all sites as NAME=HOST:PORT, or only addresses of sites that run"))
}

/// Returns the collector that the flag or the environment names.
fn collector(flag: Option<Collector>) -> Result<Option<Collector>, UsageError> {
    let variable = std::env::var(otlp::VARIABLE).ok().filter(|text| !text.is_empty());
    match (flag, variable) {
        (None, Some(text)) => text
            .parse()
            .map(Some)
            .map_err(|error: String| UsageError::new(format!("the variable {}: {error}", otlp::VARIABLE))),
        (flag, _) => Ok(flag),
    }
}

/// Starts the log, which is written until the returned value is dropped. A thread of its own writes it: a node whose log
/// nobody reads must not block, and loses lines rather than its lease.
fn start_log(
    log: Log,
    levels: Targets,
    repeats: Repeats,
    collector: Option<Collector>,
) -> io::Result<(WorkerGuard, Option<Exporter>)> {
    let (writer, guard) = tracing_appender::non_blocking(io::stderr());
    let (exporter, spans) = collector.map(Exporter::start).transpose()?.unzip();
    let acquisitions = Targets::new().with_target("meshlock::lock", Level::DEBUG);
    let registry = tracing_subscriber::registry().with(spans.map(|spans| spans.with_filter(acquisitions)));
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_target(false);
    match log {
        Log::Text => {
            let lines = lines.with_ansi(io::stderr().is_terminal());
            registry.with(lines.with_filter(levels.and(repeats))).init();
        }
        Log::Json => {
            registry.with(lines.json().flatten_event(true).with_filter(levels.and(repeats))).init();
        }
    }
    Ok((guard, exporter))
}

/// The error that no site of the cluster to join answers.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NoCluster(String);

/// Returns an error that the operator can mend, unlike a lack of resources.
fn refused(error: impl std::fmt::Display) -> anyhow::Error {
    UsageError::new(error).into()
}
