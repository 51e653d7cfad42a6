//! Watches a running cluster: a thread for each site that is reached, which passes on what the site tells and how it is.
//!
//! One node is enough to begin with: it says who the members are. Those whose sockets are beside its own are found by their
//! names; of the others it is said that they are not watched, and what to name.

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
use crate::output::Usage;
use crate::place::{Place, Where};
use crate::settings::places;

/// Which nodes, over which network.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Security {
    /// For addresses: a directory of `meshlock ca issue NAME --client`; otherwise MESHLOCK_CERTIFICATE says which, or it is
    /// meshlock/client in XDG_CONFIG_HOME or ~/.config
    #[arg(long, value_name = "DIR", conflicts_with = "plain")]
    certificate: Option<PathBuf>,
    /// For addresses: trust the network, where the nodes do too (tls = "off")
    #[arg(long)]
    plain: bool,
}

/// What is watched.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// Which locks: a name, or the beginning of names and `*`.
    pub(crate) pattern: String,
    /// Whether with the machines' states.
    pub(crate) states: bool,
    /// What watches, as others see it.
    pub(crate) command: &'static str,
}

/// A cluster that is being watched, for as long as the process lives.
pub(crate) struct Watching {
    live: Arc<Live>,
    wanted: Wanted,
    places: Vec<Place>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Sites that a thread follows.
    followed: BTreeSet<SiteName>,
    cluster: Option<String>,
}

/// Which locks are to be watched, checked before anyone is asked.
pub(crate) fn pattern(text: &str) -> Result<String, String> {
    if text != "*" {
        Pattern::parse(text).map_err(|error| error.to_string())?;
    }
    Ok(text.to_owned())
}

/// The nodes that are named: paths of sockets or of directories of them, addresses; or those of this user.
pub(crate) fn find(named: &[String], security: &Security) -> anyhow::Result<Vec<Place>> {
    if named.is_empty() {
        return Ok(match Where::default().find() {
            Ok(place) => vec![place],
            Err(error) => {
                let sockets = places::cluster_sockets();
                if sockets.is_empty() {
                    return Err(error);
                }
                sockets.into_iter().map(Place::socket).collect()
            }
        });
    }
    let mut found = Vec::new();
    for name in named {
        if name.contains('/') {
            let path = PathBuf::from(name);
            if path.is_dir() {
                let sockets = places::served_in(&path);
                if sockets.is_empty() {
                    return Err(
                        Usage::new(format!("{name}: no node serves clients in this directory")).into()
                    );
                }
                found.extend(sockets.into_iter().map(Place::socket));
            } else {
                found.push(Place::socket(path));
            }
        } else {
            let port = name.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            let address = name.parse::<Address>().ok().filter(|_| port.is_some()).ok_or_else(|| {
                Usage::new(format!("'{name}': give HOST:PORT, or the path of a socket (with a '/')"))
            })?;
            found.push(Where::at(address, security.certificate.clone(), security.plain).find()?);
        }
    }
    Ok(found)
}

impl Watching {
    /// Begins to watch. The first node must be there; the others may come and go.
    pub(crate) fn start(live: Arc<Live>, wanted: Wanted, places: Vec<Place>) -> anyhow::Result<Arc<Self>> {
        let watching = Arc::new(Watching { live, wanted, places, known: Mutex::default() });
        let mut refused = None;
        let mut begun = false;
        for place in &watching.places {
            // What is named wrongly is said at once, if none of them answers.
            match watching.connect(place) {
                Ok(mut remote) => {
                    if !begun {
                        // The cluster of the first that answers is the one that is meant.
                        watching.known().cluster = Some(target::status(&mut remote)?.cluster.to_string());
                    }
                    begun = true;
                    watching.follow(place.clone(), Some(remote));
                }
                Err(error) => {
                    watching.live.news(&place.to_string(), unreached(place, &error));
                    refused.get_or_insert(error);
                    watching.follow(place.clone(), None);
                }
            }
        }
        match refused {
            Some(error) if !begun => Err(error),
            Some(_) | None => Ok(watching),
        }
    }

    /// Looks after members that nobody follows: those with a socket beside one that was named are followed, too.
    fn look_after(self: &Arc<Self>, members: impl Iterator<Item = SiteName>) {
        for site in members {
            if self.known().followed.contains(&site) {
                continue;
            }
            let beside = self
                .places
                .iter()
                .find_map(|place| Some(place.as_socket()?.with_file_name(format!("{site}.sock"))));
            let Some(path) = beside.filter(|path| path.exists()) else {
                let why =
                    "not watched: name the address that its configuration has under `clients`, or its socket";
                self.live.news(site.as_str(), SiteNews { why: why.to_owned(), ..SiteNews::default() });
                continue;
            };
            self.known().followed.insert(site.clone());
            let (watching, place) = (self.clone(), Place::socket(path));
            std::thread::spawn(move || watching.keep_following(&place, Some(site), None));
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A site that cannot be talked to.
fn unreached(place: &Place, error: &anyhow::Error) -> SiteNews {
    SiteNews { place: place.to_string(), why: format!("{error:#}"), ..SiteNews::default() }
}
