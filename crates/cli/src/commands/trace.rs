//! `meshlock trace`: prints what a running cluster does, in the trace format.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use meshlock_cluster::address::Address;
use meshlock_lab::live::Live;

use crate::cluster_watch::{self, ClusterWatch, NetworkFlags, Wanted};
use crate::output::{self, CommandOutcome, Printable, PrintableJson};
use crate::settings::duration::HumanDuration;

/// How often lines are sorted and written.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Arguments of `meshlock trace`.
#[derive(Debug, Args)]
#[command(after_help = "\
Prints one JSON object per line until Ctrl-C. The lines of all sites are merged so that no message is received before it is sent.
`meshlock lab FILE` draws a file that --record has written. It is enough to name one node if the sockets of the others are in the
same directory.")]
pub(crate) struct Arguments {
    /// The locks to trace: a name, or a prefix of names followed by '*'
    #[arg(value_name = "NAME", default_value = "*", value_parser = cluster_watch::pattern)]
    pattern: String,
    /// The socket of a node, or a directory of sockets; can be repeated [default: the node that every command uses, and those beside it]
    #[arg(long, value_name = "PATH")]
    socket: Vec<PathBuf>,
    /// A node on another machine: the address under `clients` in its configuration; can be repeated
    #[arg(long, value_name = "HOST:PORT")]
    node: Vec<Address>,
    #[command(flatten)]
    security: NetworkFlags,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Include the state of the algorithm at the site in each line
    #[arg(long)]
    state: bool,
    /// Stop after this time, such as 30s; without it the trace runs until Ctrl-C
    #[arg(long = "for", value_name = "DURATION")]
    lasting: Option<HumanDuration>,
}

pub(crate) fn run(arguments: &Arguments, _out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let sockets = arguments.socket.iter().map(|path| {
        let path = path.display().to_string();
        if path.contains('/') { path } else { format!("./{path}") }
    });
    let named: Vec<String> = sockets.chain(arguments.node.iter().map(ToString::to_string)).collect();
    let locations = cluster_watch::find(&named, &arguments.security)?;
    let out: Box<dyn Write + Send> = if let Some(path) = &arguments.record {
        Box::new(BufWriter::new(output::create("--record", path)?))
    } else {
        // A copy, because the main thread has locked standard output and other threads write.
        let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        Box::new(PrintableJson(BufWriter::new(stdout)))
    };
    let live = Arc::new(Live::recording(arguments.pattern.clone(), out));
    let wanted = Wanted { pattern: arguments.pattern.clone(), states: arguments.state, command: "trace" };
    let _watching = ClusterWatch::start(live.clone(), wanted, locations)?;
    let end = arguments.lasting.map(|lasting| Instant::now() + lasting.duration());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
        let (mut look, mut unwatched) = (tokio::time::interval(LOOK_EVERY), BTreeMap::new());
        loop {
            tokio::select! {
                signal = &mut interrupted => break signal,
                _ = look.tick() => {}
            }
            live.settle();
            complain(&live, &mut unwatched);
            if live.record_failed().is_some() || end.is_some_and(|end| Instant::now() >= end) {
                break Ok(());
            }
        }
    })?;
    live.finish()?;
    Ok(CommandOutcome::Done)
}

/// Reports which sites are not watched and why, whenever that changes.
fn complain(live: &Live, unwatched: &mut BTreeMap<String, String>) {
    let sites = live.sites().into_iter().filter(|(_, news)| !news.watched);
    let now: BTreeMap<String, String> = sites.map(|(site, news)| (site, news.why)).collect();
    for (site, why) in now.iter().filter(|(site, why)| unwatched.get(*site) != Some(*why)) {
        eprintln!("meshlock: {}: {}", Printable(site), Printable(why));
    }
    *unwatched = now;
}
