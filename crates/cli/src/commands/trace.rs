//! `meshlock trace`: what a cluster does, as it does it, in the trace format.

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

use crate::output::{self, Outcome};
use crate::settings::lasting::Lasting;
use crate::watching::{self, Security, Wanted, Watching};

/// How often lines are put in order and written.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Arguments of `meshlock trace`.
#[derive(Debug, Args)]
#[command(after_help = "\
Prints a JSON object a line, all sites in one order in which no message is received before it is sent, until Ctrl-C.
`meshlock lab FILE` draws what --record has written. One node is enough where the sockets of the others are beside its own.")]
pub(crate) struct Arguments {
    /// Which locks: a name, or the beginning of names and '*'
    #[arg(value_name = "NAME", default_value = "*", value_parser = watching::pattern)]
    pattern: String,
    /// The socket of a node, or a directory of sockets; can be given several times. Otherwise it is this user's nodes
    #[arg(long, value_name = "PATH")]
    socket: Vec<PathBuf>,
    /// A node on another machine: the address that its configuration has under `clients`; can be given several times
    #[arg(long, value_name = "HOST:PORT")]
    node: Vec<Address>,
    #[command(flatten)]
    security: Security,
    /// Write to a file instead
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// With the machines' states
    #[arg(long)]
    state: bool,
    /// End after so long
    #[arg(long = "for", value_name = "DURATION")]
    lasting: Option<Lasting>,
}

pub(crate) fn run(arguments: &Arguments, _out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let sockets = arguments.socket.iter().map(|path| {
        let path = path.display().to_string();
        if path.contains('/') { path } else { format!("./{path}") }
    });
    let named: Vec<String> = sockets.chain(arguments.node.iter().map(ToString::to_string)).collect();
    let places = watching::find(&named, &arguments.security)?;
    let out: Box<dyn Write + Send> = match &arguments.record {
        Some(path) => Box::new(BufWriter::new(output::create("--record", path)?)),
        // Not the one that the main thread has locked: other threads write.
        None => Box::new(BufWriter::new(File::from(io::stdout().as_fd().try_clone_to_owned()?))),
    };
    let live = Arc::new(Live::recording(arguments.pattern.clone(), out));
    let wanted = Wanted { pattern: arguments.pattern.clone(), states: arguments.state, command: "trace" };
    let _watching = Watching::start(live.clone(), wanted, places)?;
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
    Ok(Outcome::Done)
}

/// Says of which sites nothing is told and why, whenever that changes.
fn complain(live: &Live, unwatched: &mut BTreeMap<String, String>) {
    let sites = live.sites().into_iter().filter(|(_, news)| !news.watched);
    let now: BTreeMap<String, String> = sites.map(|(site, news)| (site, news.why)).collect();
    for (site, why) in now.iter().filter(|(site, why)| unwatched.get(*site) != Some(*why)) {
        eprintln!("meshlock: {site}: {why}");
    }
    *unwatched = now;
}
