//! `meshlock lab`: serves a page on this machine that shows any algorithm run, a trace, counterexamples of proofs, or a running cluster.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use meshlock_lab::live::Live;
use meshlock_lab::server::{self, LabOptions};

use crate::cluster_watch::{self, ClusterWatch, NetworkFlags, Wanted};
use crate::output::{self, CommandOutcome, UsageError, read_text};

/// Largest trace that is opened, in bytes; the page accepts as much.
const MAX_TRACE_BYTES: u64 = 256 << 20;

/// How often the lines of a cluster are sorted.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Arguments of `meshlock lab`.
#[derive(Debug, Args)]
#[command(after_help = "\
--attach shows a running cluster live: holders, queues, views and messages. It changes nothing. It is enough to name one node if the
sockets of the others are in the same directory; on other machines name each node, by the address under `clients` in its configuration.")]
pub(crate) struct Arguments {
    /// A trace to show, written by `meshlock sim --trace`, `check --trace` or `trace --record`, or what `prove --counterexamples` wrote
    #[arg(value_name = "FILE", conflicts_with = "attach")]
    trace: Option<PathBuf>,
    /// The port on 127.0.0.1; 0 chooses a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Do not open a browser; only print the address
    #[arg(long)]
    no_open: bool,
    /// Show a running cluster: addresses of nodes or paths of their sockets, separated by commas; without a value the node that
    /// every command uses, and those beside it
    #[arg(long, value_name = "NODES", num_args = 0..=1, value_delimiter = ',')]
    attach: Option<Vec<String>>,
    #[command(flatten)]
    security: NetworkFlags,
    /// With --attach: the locks to show, by name or by a prefix of names followed by '*'
    #[arg(long, value_name = "NAME", default_value = "*", value_parser = cluster_watch::pattern, requires = "attach")]
    lock: String,
    /// With --attach: show the state of the algorithm at each site
    #[arg(long, requires = "attach")]
    state: bool,
    /// With --attach: also write the trace to this file, which `meshlock lab FILE` shows later
    #[arg(long, value_name = "FILE", requires = "attach")]
    record: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let trace = arguments.trace.as_deref().map(read_trace).transpose()?.map(Arc::new);
    let live = arguments.attach.as_ref().map(|named| attach(arguments, named)).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(serve(arguments, LabOptions { live: live.clone(), trace }, out));
    // An exploration that still runs for the page is abandoned.
    runtime.shutdown_background();
    if let Some(live) = live {
        live.finish().context("--record: not all of it could be written")?;
    }
    outcome
}

/// Reads the trace, and checks that it is one.
fn read_trace(path: &Path) -> anyhow::Result<String> {
    let unusable = |error: &dyn std::fmt::Display| UsageError::new(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(|error| unusable(&error))?;
    let text = read_text(file, MAX_TRACE_BYTES).map_err(|error| unusable(&error))?;
    meshlock_lab::import::import(&text).map_err(|error| unusable(&error))?;
    Ok(text)
}

fn attach(arguments: &Arguments, named: &[String]) -> anyhow::Result<Arc<Live>> {
    let locations = cluster_watch::find(named, &arguments.security)?;
    let record = arguments.record.as_deref().map(|path| output::create("--record", path)).transpose()?;
    let record = record.map(|file| -> Box<dyn Write + Send> { Box::new(BufWriter::new(file)) });
    let live = Arc::new(Live::new(arguments.lock.clone(), record));
    let wanted = Wanted { pattern: arguments.lock.clone(), states: arguments.state, command: "lab" };
    ClusterWatch::start(live.clone(), wanted, locations)?;
    Ok(live)
}

async fn serve(
    arguments: &Arguments,
    shown: LabOptions,
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    let listener = server::listen(arguments.port).await.map_err(|error| {
        UsageError::new(format!(
            "--port {}: cannot listen there: {error}; choose another port",
            arguments.port
        ))
    })?;
    let view = match (&shown.live, &shown.trace) {
        (Some(_), _) => "#/live",
        (None, Some(_)) => "#/trace?opened=1",
        (None, None) => "",
    };
    let address = format!("http://{}/{view}", listener.local_addr()?);
    writeln!(out, "{address}")?;
    out.flush()?;
    eprintln!("meshlock: the lab is at {address}; Ctrl-C ends it");
    if !arguments.no_open {
        open(&address);
    }
    let live = shown.live.clone();
    tokio::select! {
        served = server::serve(listener, shown) => served.context("the lab stopped")?,
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        () = keep_settling(live) => {}
    }
    Ok(CommandOutcome::Done)
}

/// Sorts the lines of a cluster for as long as the page is served.
async fn keep_settling(live: Option<Arc<Live>>) {
    let Some(live) = live else { return std::future::pending().await };
    let mut look = tokio::time::interval(LOOK_EVERY);
    loop {
        look.tick().await;
        live.settle();
    }
}

/// Opens the page in a browser. If there is none, the printed address is enough.
fn open(address: &str) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(opener);
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if command.spawn().is_err() {
        eprintln!("meshlock: cannot start a browser ({opener} is missing): open the address yourself");
    }
}

#[cfg(test)]
mod tests {
    use meshlock_lab::import::import;
    use meshlock_wire::fuzz;

    #[test]
    fn no_trace_brings_its_reader_down_and_whatever_is_refused_is_refused_in_words() {
        let simulated = r#"{"time":1.5,"kind":"send","site":0,"peer":2,"lock":"x","message":"Request { clock: 1 }"}
{"time":2.5,"kind":"receive","site":2,"peer":0,"lock":"x","message":"Request { clock: 1 }","state":"S { }"}"#;
        let recorded = r#"{"time":5000,"kind":"view","site":"b","lock":"","epoch":2,"members":["a","b"]}
{"time":6000,"kind":"send","site":"b","peer":"a","lock":"jobs","message":"Token","number":7,"epoch":2}"#;
        let broken = r#"{"counterexamples":[{"model":"m","wrong":null,"erratum":null,"sites":["site0"],"clause":{"name":"c","why":"w","fails_for":[]},
"before":{"messages":[{"kind":"REQUEST","from":null,"to":"site0","carries":[]}],"facts":[{"symbol":"x","of":["site0"],"value":null}]},"step":null,"after":null}]}"#;
        let models = [simulated, recorded, broken].map(|text| text.as_bytes().to_vec());
        let (mut drawn, mut refused) = (0, 0);
        fuzz::drive(&models, 1, 3000, |bytes| match std::str::from_utf8(bytes).map(import) {
            Ok(Ok(_)) => drawn += 1,
            Ok(Err(error)) => {
                refused += 1;
                assert!(error.to_string().len() > 10, "{error}");
            }
            Err(_) => {}
        });
        assert!(drawn > 100 && refused > 300, "{drawn} were drawn, {refused} refused");
    }
}
