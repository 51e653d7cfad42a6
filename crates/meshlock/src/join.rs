//! Joining a cluster of which only the address of a running site is known.

use std::time::{Duration, Instant};

use meshlock_cluster::address::Address;
use meshlock_host::{IntroduceError, learn_of_cluster};
use meshlock_wire::sites::Introduction;

use crate::builder::NodeBuilder;
use crate::error::StartError;

/// How long to keep asking. When a whole cluster is started, all its sites start at once.
const ASK_FOR: Duration = Duration::from_secs(30);

/// Pause before the addresses are asked again.
const PAUSE: Duration = Duration::from_millis(500);

/// Completes a builder with what the first site that answers says about its cluster.
pub(crate) fn learn(builder: NodeBuilder) -> Result<NodeBuilder, StartError> {
    let (me, security) = builder.newcomer()?;
    let mut places = Vec::new();
    for place in builder.places_to_join() {
        places.push(place.parse::<Address>().map_err(|error| StartError::setting("join", error))?);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ask = async {
        let until = Instant::now() + ASK_FOR;
        let mut complained = false;
        loop {
            let mut refused: Option<IntroduceError> = None;
            for place in &places {
                match learn_of_cluster(place, &me, &security).await {
                    Ok(introduction) => return Ok(introduction),
                    Err(error) => refused = refused.or(Some(error)),
                }
            }
            let refused = refused.ok_or_else(|| StartError::setting("join", "give an address"))?;
            if Instant::now() >= until {
                return Err(StartError::of_join(&refused));
            }
            if !std::mem::replace(&mut complained, true) {
                tracing::warn!(%refused, "no answer from the cluster to be joined yet; asking again");
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    // On a thread of its own: the caller may be within a runtime.
    let asked = std::thread::scope(|scope| scope.spawn(|| runtime.block_on(ask)).join());
    let Introduction { cluster, sites } = asked.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let names: Vec<&str> = sites.iter().map(|(site, _)| site.as_str()).collect();
    tracing::info!(%cluster, sites = names.join(", "), "joining the cluster");
    let text = |(name, address): (_, Option<Address>)| -> (String, Option<String>) {
        let name: meshlock_cluster::names::SiteName = name;
        (name.to_string(), address.map(|address| address.to_string()))
    };
    builder.learnt(cluster.to_string(), sites.into_iter().map(text).collect())
}
