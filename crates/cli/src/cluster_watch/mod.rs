//! Watches a running cluster: one thread per reachable site passes on the site's trace lines and its status.
//!
//! One node is enough to start: it names the members. Members whose sockets are in the same directory are found by their names;
//! the others are reported as not watched, together with what to name in order to watch them.

mod follow;
mod lines;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::Args;
use meshlock_cluster::address::Address;
use meshlock_cluster::names::SiteName;
use meshlock_cluster::rules::Pattern;
use meshlock_lab::live::{Live, SiteNews};

use crate::commands::target;
use crate::location::{FoundBy, NodeFlags, NodeLocation};
use crate::output::UsageError;
use crate::settings::places;

/// The flags for connections to nodes on other machines.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct NetworkFlags {
    /// For nodes given by address: the directory that `meshlock ca issue NAME --client` wrote; default: MESHLOCK_CERTIFICATE from
    /// the environment, else what client.toml names, else meshlock/client in XDG_CONFIG_HOME or ~/.config
    #[arg(long, value_name = "DIR", conflicts_with = "plain")]
    certificate: Option<PathBuf>,
    /// For nodes given by address: connect without TLS, if they are configured with tls = "off"
    #[arg(long)]
    plain: bool,
}

/// What is watched.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The locks to watch: a name, or a prefix of names followed by `*`.
    pub(crate) pattern: String,
    /// Whether lines contain the state of the algorithm.
    pub(crate) states: bool,
    /// The name of the command that watches, which other clients see.
    pub(crate) command: &'static str,
}

/// A cluster that is watched until the process ends.
pub(crate) struct ClusterWatch {
    live: Arc<Live>,
    wanted: Wanted,
    locations: Vec<NodeLocation>,
    known: Mutex<Known>,
}

/// What the threads have found out.
#[derive(Default)]
struct Known {
    /// The sites that a thread follows.
    followed: BTreeSet<SiteName>,
    cluster: Option<String>,
}

/// Checks the pattern of locks to watch, before any node is asked.
pub(crate) fn pattern(text: &str) -> Result<String, String> {
    if text != "*" {
        Pattern::parse(text).map_err(|error| error.to_string())?;
    }
    Ok(text.to_owned())
}

/// Finds the nodes that are named by sockets, directories of sockets or addresses; the node that every command uses if none is named.
pub(crate) fn find(named: &[String], security: &NetworkFlags) -> anyhow::Result<Vec<NodeLocation>> {
    if named.is_empty() {
        // The other sites are found beside it.
        return Ok(vec![NodeFlags::default().find()?]);
    }
    let mut found = Vec::new();
    for name in named {
        if name.contains('/') {
            let path = PathBuf::from(name);
            if path.is_dir() {
                let sockets = places::served_in(&path);
                if sockets.is_empty() {
                    return Err(UsageError::new(format!(
                        "{name}: no node serves clients in this directory; start one, or name another"
                    ))
                    .into());
                }
                let locate = |socket| NodeLocation::socket(socket, FoundBy::Arguments);
                found.extend(sockets.into_iter().map(locate));
            } else {
                found.push(NodeLocation::socket(path, FoundBy::Arguments));
            }
        } else {
            let port = name.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            let address = name.parse::<Address>().ok().filter(|_| port.is_some()).ok_or_else(|| {
                UsageError::new(format!("'{name}': give HOST:PORT, or the path of a socket (with a '/')"))
            })?;
            found.push(NodeFlags::at(vec![address], security.certificate.clone(), security.plain).find()?);
        }
    }
    Ok(found)
}

impl ClusterWatch {
    /// Starts to watch. At least one of the nodes must be reachable; the others may come and go.
    pub(crate) fn start(
        live: Arc<Live>,
        wanted: Wanted,
        locations: Vec<NodeLocation>,
    ) -> anyhow::Result<Arc<Self>> {
        let watching = Arc::new(ClusterWatch { live, wanted, locations, known: Mutex::default() });
        let mut refused = None;
        let mut begun = false;
        for location in &watching.locations {
            // If none of them answers, the first error is returned at once.
            match watching.connect(location) {
                Ok(mut remote) => {
                    if !begun {
                        // The cluster of the first node that answers is the one to watch.
                        watching.known().cluster = Some(target::status(&mut remote)?.cluster.to_string());
                    }
                    begun = true;
                    watching.follow(location.clone(), Some(remote));
                }
                Err(error) => {
                    watching.live.news(&location.to_string(), unreached(location, &error));
                    refused.get_or_insert(error);
                    watching.follow(location.clone(), None);
                }
            }
        }
        match refused {
            Some(error) if !begun => Err(error),
            Some(_) | None => Ok(watching),
        }
    }

    /// Follows members that no thread follows yet, if their socket is in the same directory as one that was named; reports the
    /// others as not watched.
    fn look_after(self: &Arc<Self>, members: impl Iterator<Item = SiteName>) {
        for site in members {
            if self.known().followed.contains(&site) {
                continue;
            }
            let beside = self
                .locations
                .iter()
                .find_map(|location| Some(location.as_socket()?.with_file_name(format!("{site}.sock"))));
            let Some(path) = beside.filter(|path| path.exists()) else {
                let why = "not watched: name the address under `clients` in its configuration, or its socket";
                self.live.news(site.as_str(), SiteNews { why: why.to_owned(), ..SiteNews::default() });
                continue;
            };
            self.known().followed.insert(site.clone());
            let (watching, location) = (self.clone(), NodeLocation::socket(path, FoundBy::Arguments));
            std::thread::spawn(move || watching.keep_following(&location, Some(site), None));
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the news that a site cannot be reached.
fn unreached(location: &NodeLocation, error: &anyhow::Error) -> SiteNews {
    SiteNews { place: location.to_string(), why: format!("{error:#}"), ..SiteNews::default() }
}
