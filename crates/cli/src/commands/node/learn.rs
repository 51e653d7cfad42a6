//! Joining a cluster of which nothing is known but the address of a site that runs.

use std::time::{Duration, Instant};

use meshlock_cluster::address::Address;
use meshlock_host::{IntroduceError, learn_of_cluster};
use meshlock_wire::sites::Introduction;

use crate::output::Usage;
use crate::settings::file::{File, ListedSite, Source};
use crate::settings::{self, Flags};

/// How long to go on asking: whoever starts a whole cluster starts all of it at once.
const ASK_FOR: Duration = Duration::from_secs(30);

/// How long to leave those alone who did not answer.
const PAUSE: Duration = Duration::from_millis(500);

/// Puts into the flags what the first of these addresses that answers says of its cluster.
pub(super) fn into(flags: &mut Flags, file: &File, source: &Source, at: &[Address]) -> anyhow::Result<()> {
    let (me, security) = settings::who_joins(file, source, flags)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ask = async {
        let until = Instant::now() + ASK_FOR;
        let mut complained = false;
        loop {
            let mut refused: Option<IntroduceError> = None;
            for address in at {
                match learn_of_cluster(address, &me, &security).await {
                    Ok(introduction) => return Ok(introduction),
                    Err(error) => refused = refused.or(Some(error)),
                }
            }
            let refused = refused.ok_or_else(|| Usage::new("--join: give an address"))?;
            if Instant::now() >= until {
                return Err(anyhow::Error::from(refused));
            }
            if !std::mem::replace(&mut complained, true) {
                tracing::warn!(%refused, "asks again and again");
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let Introduction { cluster, sites } = runtime.block_on(ask)?;
    let names: Vec<&str> = sites.iter().map(|(site, _)| site.as_str()).collect();
    tracing::info!(%cluster, sites = names.join(", "), "joins");
    flags.cluster = Some(cluster);
    flags.founders = sites.iter().map(|(site, _)| site.clone()).collect();
    // A view says where the others are reached.
    let listed = |(name, address): (_, Option<Address>)| address.map(|address| ListedSite { name, address });
    flags.join = sites.into_iter().filter_map(listed).collect();
    Ok(())
}
