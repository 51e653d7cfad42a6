//! Joining a cluster of which only places are known where its sites may be.

use std::time::{Duration, Instant};

use meshlock_cluster::address::Address;
use meshlock_cluster::names::SiteName;
use meshlock_host::{JoinPlace, learn_of_cluster};
use meshlock_tls::Security;
use meshlock_wire::sites::Introduction;

use crate::builder::NodeBuilder;
use crate::error::StartError;

/// How long to keep asking. When a whole cluster is started, all its sites start at once.
const ASK_FOR: Duration = Duration::from_secs(30);

/// Pause before the places are looked up and asked again.
const PAUSE: Duration = Duration::from_millis(500);

/// Maximum number of sites that are asked in a round.
const MAX_ASKED: usize = 64;

/// What was tried in vain: places or addresses, with the errors there.
type Tried = Vec<(String, String)>;

/// Completes a builder with what the first site that answers says about its cluster.
pub(crate) fn learn(builder: NodeBuilder, places: &[JoinPlace]) -> Result<NodeBuilder, StartError> {
    let (me, security) = builder.newcomer()?;
    // On a thread of its own: the caller may be within a runtime.
    let asked = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                let asked = runtime.block_on(ask_all(places, &me, &security));
                // A name that is still being looked up is not waited for.
                runtime.shutdown_background();
                asked
            })
            .join()
    });
    let Introduction { cluster, sites } = asked.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let names: Vec<&str> = sites.iter().map(|(site, _)| site.as_str()).collect();
    tracing::info!(%cluster, sites = names.join(", "), "joining the cluster");
    let text = |(name, address): (SiteName, Option<Address>)| -> (String, Option<String>) {
        (name.to_string(), address.map(|address| address.to_string()))
    };
    builder.learnt(cluster.to_string(), sites.into_iter().map(text).collect())
}

/// Looks the places up and asks the sites there, again and again, until one answers or the time is over.
async fn ask_all(
    places: &[JoinPlace],
    me: &SiteName,
    security: &Security,
) -> Result<Introduction, StartError> {
    let until = Instant::now() + ASK_FOR;
    let mut complained = false;
    loop {
        let tried = match ask_once(places, me, security).await {
            Ok(introduction) => return Ok(introduction),
            Err(tried) => tried,
        };
        if Instant::now() >= until {
            return Err(StartError::of_join(&tried));
        }
        if !std::mem::replace(&mut complained, true) {
            let tried: Vec<String> = tried.iter().map(|(place, why)| format!("{place}: {why}")).collect();
            let tried = tried.join("; ");
            tracing::warn!(tried, "no answer from the cluster to be joined yet; asking again");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Asks all sites at these places at the same time. Returns the first answer.
async fn ask_once(places: &[JoinPlace], me: &SiteName, security: &Security) -> Result<Introduction, Tried> {
    let mut asked = tokio::task::JoinSet::new();
    let mut tried = Tried::new();
    for place in places {
        match place.look_up().await {
            Ok(addresses) => {
                for address in addresses {
                    if asked.len() < MAX_ASKED {
                        let (me, security) = (me.clone(), security.clone());
                        asked.spawn(async move { learn_of_cluster(&address, &me, &security).await });
                    }
                }
            }
            Err(why) => tried.push((place.to_string(), why)),
        }
    }
    while let Some(answer) = asked.join_next().await {
        match answer {
            Ok(Ok(introduction)) => return Ok(introduction),
            Ok(Err(error)) => tried.push((error.address.to_string(), error.why)),
            Err(_) => {}
        }
    }
    Err(tried)
}
