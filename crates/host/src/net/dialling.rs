//! Dialling other sites: at every address that is known for them, and where none answers, by asking the sites that do answer.

use std::sync::Arc;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::greet::{GREET_WITHIN, GreetError, Greeted, greet};
use super::introduction::ask_for_everyone;
use super::{BACKOFF, Net, PacketHandler, PeerConnection, SHORT};
use meshlock_cluster::names::SiteName;
use meshlock_wire::sites::Hello;

/// If an address has not answered within this time, the next one is tried beside it: a machine that is gone does not even refuse.
const STAGGER: Duration = Duration::from_millis(250);

/// Pause between two rounds of asking other sites where the ones are that cannot be reached.
const ASK_AROUND_EVERY: Duration = Duration::from_secs(2);

/// Maximum number of sites that are asked in a round.
const MAX_ASKED: usize = 8;

/// What was tried in vain: addresses with the errors there.
type Failures = Vec<(String, String)>;

impl Net {
    /// Dials a site whenever something is to be sent to it and there is no connection.
    pub(super) async fn keep_dialling<H: PacketHandler>(
        self: Arc<Self>,
        peer: Arc<PeerConnection>,
        handler: Arc<H>,
    ) {
        let (mut backoff, mut complained) = (BACKOFF.0, false);
        let mut connected: Option<Instant> = None;
        loop {
            peer.wanted.notified().await;
            if peer.is_connected() {
                continue;
            }
            if connected.take().is_some_and(|since| since.elapsed() >= SHORT) {
                backoff = BACKOFF.0;
            }
            match self.dial(&peer.site).await {
                Ok(greeted) => {
                    (connected, complained) = (Some(Instant::now()), false);
                    self.adopt(greeted, true, &handler);
                }
                Err(failures) => {
                    let tried = shown(&failures);
                    self.places().on_failed(&peer.site, failures);
                    if !std::mem::replace(&mut complained, true) {
                        // A voter that has left is still told who leads.
                        if handler.is_member(&peer.site) {
                            tracing::warn!(site = %peer.site, tried, "cannot reach a site");
                        } else {
                            tracing::info!(site = %peer.site, tried, "cannot reach a site that is not a member");
                        }
                    }
                    peer.give_up();
                    self.clone().ask_around(&handler);
                }
            }
            // A site that refuses this one closes the connection soon, and must not be dialled all the time.
            sleep(backoff).await;
            backoff = (backoff * 2).min(BACKOFF.1);
        }
    }

    /// Dials a site at its addresses, one after the other, without waiting long for one that does not answer.
    async fn dial(self: &Arc<Self>, site: &SiteName) -> Result<Greeted, Failures> {
        let mut waiting = self.places().candidates(site).into_iter();
        let mut dialled = JoinSet::new();
        let mut failures = Vec::new();
        loop {
            if let Some(address) = waiting.next() {
                let (net, site) = (self.clone(), site.clone());
                dialled.spawn(async move {
                    let greeted = net.dial_at(&site, &address).await;
                    (address, greeted)
                });
            } else if dialled.is_empty() {
                break;
            }
            let is_last = waiting.len() == 0;
            let joined = if is_last {
                dialled.join_next().await
            } else {
                timeout(STAGGER, dialled.join_next()).await.unwrap_or(None)
            };
            match joined {
                Some(Ok((address, Ok(greeted)))) => {
                    self.places().on_reached(site, address);
                    return Ok(greeted);
                }
                Some(Ok((address, Err(error)))) => failures.push((address, error.to_string())),
                // A task that has panicked, or the time for the next address.
                Some(Err(_)) | None => {}
            }
        }
        if failures.is_empty() {
            failures.push(("nowhere".to_owned(), "its address is not known here".to_owned()));
        }
        Err(failures)
    }

    async fn dial_at(&self, site: &SiteName, address: &str) -> Result<Greeted, GreetError> {
        let dial = async {
            let stream = TcpStream::connect(address).await?;
            self.know(stream.peer_addr()?.ip());
            let hello = Hello { from: self.me.clone(), to: site.clone(), incarnation: self.process };
            greet(stream, self.trust.dialling(site)?, hello, self.speaks, &self.trust).await
        };
        timeout(GREET_WITHIN, dial).await.unwrap_or(Err(GreetError::Silent))
    }

    /// Asks other sites, and those to be joined, where everyone is; not more often than every few seconds. What they say is tried, and
    /// nothing else depends on it.
    fn ask_around<H: PacketHandler>(self: Arc<Self>, handler: &Arc<H>) {
        {
            let mut last = self.asked_around.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            if last.is_some_and(|last| now.duration_since(last) < ASK_AROUND_EVERY) {
                return;
            }
            *last = Some(now);
        }
        let (net, handler) = (self.clone(), handler.clone());
        self.tasks.spawn(async move {
            let cluster = handler.introduce().cluster;
            let mut asked = JoinSet::new();
            for address in net.whom_to_ask().await {
                let net = net.clone();
                asked.spawn(async move { ask_for_everyone(&address, &net.me, &net.trust.security()).await });
            }
            while let Some(answer) = asked.join_next().await {
                let Ok(Ok((by, everyone))) = answer else { continue };
                // Another cluster's sites may have the same names.
                if everyone.cluster == cluster {
                    net.on_everyone(&by, everyone.sites);
                }
            }
        });
    }

    /// Returns the addresses of sites to ask where others are: first those that are connected, then those where the cluster is to be
    /// looked for.
    async fn whom_to_ask(&self) -> Vec<String> {
        let mut addresses = self.known_addresses();
        for seed in &self.seeds {
            match seed.look_up().await {
                Ok(found) => addresses.extend(found.iter().map(ToString::to_string)),
                Err(error) => tracing::debug!(place = %seed, error, "a place to join cannot be looked up"),
            }
        }
        addresses.truncate(2 * MAX_ASKED);
        addresses
    }

    fn known_addresses(&self) -> Vec<String> {
        let places = self.places();
        let mut sites = places.sites();
        sites.retain(|site| *site != self.me);
        sites.sort_by_key(|site| !places.failures(site).is_empty());
        sites.iter().filter_map(|site| places.best(site)).take(MAX_ASKED).collect()
    }

    /// Remembers where other sites are, as the site `by` says.
    fn on_everyone(&self, by: &SiteName, sites: Vec<(SiteName, Option<meshlock_cluster::address::Address>)>) {
        for (site, address) in sites {
            let Some(address) = address.filter(|_| site != self.me) else { continue };
            if self.places().on_told(&site, address.to_string()) {
                tracing::info!(%site, %address, %by, "another site says where a site is");
            }
        }
    }
}

/// Returns what was tried in vain, for a log.
pub(super) fn shown(failures: &[(String, String)]) -> String {
    failures.iter().map(|(address, error)| format!("{address}: {error}")).collect::<Vec<_>>().join("; ")
}
