//! What a node says of itself and of the other sites to whoever looks for what is wrong: `meshlock doctor`, through a client's connection or
//! that of another site. Nothing of it needs a view, a lease, or more than one running site.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::engine::{Handle, SharedNode};
use super::gate::Gate;
use super::net::ask_diagnosis;
use meshlock_cluster::address::Address;
use meshlock_cluster::lease::Terms;
use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::Node;
use meshlock_system::now;
use meshlock_tls::ExpiringPart;
use meshlock_wire::clients;
use meshlock_wire::diagnosis::{AskedSite, CertificateEnd, Diagnosis, LeaseReport, PeerReport};
use meshlock_wire::sites::{Introduction, SiteQuestion, Versions};

/// Maximum number of other sites that are asked for a client.
const MAX_ASKED: usize = 256;

/// How many of them are asked at the same time: each costs this node a handshake.
const ASKED_AT_ONCE: usize = 8;

/// How long the whole round may take. Sites that have not answered by then are named as such.
const ROUND: Duration = Duration::from_secs(8);

/// What a node says of itself and does not know otherwise.
pub(super) struct About {
    /// The terms of leases in its configuration.
    terms: Terms,
    speaks: Versions,
    /// Its access rules and its audit log, once clients are served.
    gate: OnceLock<Arc<Gate>>,
    /// Taken while other sites are asked: a client cannot make this node ask them all many times at once.
    asking: Semaphore,
}

impl About {
    pub(super) fn new(terms: Terms, speaks: Versions) -> Self {
        About { terms, speaks, gate: OnceLock::new(), asking: Semaphore::new(1) }
    }
}

impl SharedNode {
    /// Returns what a site is told that knows only this one's address.
    pub(super) fn introduction(&self) -> Introduction {
        let core = self.lock();
        let node = &core.node;
        let sites = node.founders().iter().map(|site| (site.clone(), self.place(node, site))).collect();
        Introduction { cluster: node.cluster_name().clone(), sites }
    }

    /// Returns the same with all sites that are known here and their addresses.
    fn everyone(&self) -> Introduction {
        let core = self.lock();
        let node = &core.node;
        let mut sites: BTreeSet<SiteName> = node.founders().iter().cloned().collect();
        sites.extend(node.view().members.iter().map(|member| member.site.clone()));
        sites.extend(self.net.known_sites());
        let sites = sites.into_iter().map(|site| (site.clone(), self.place(node, &site))).collect();
        Introduction { cluster: node.cluster_name().clone(), sites }
    }

    fn place(&self, node: &Node, site: &SiteName) -> Option<Address> {
        let own = (*site == node.me().site).then(|| node.address().clone());
        own.or_else(|| self.net.address(site).and_then(|address| address.parse().ok()))
    }

    /// Returns the bytes that answer a site which has connected only to ask.
    pub(super) fn answer_to_site(&self, question: SiteQuestion) -> Vec<u8> {
        let first = self.introduction().frame();
        let second = match question {
            SiteQuestion::Introduction => Vec::new(),
            SiteQuestion::Everyone => self.everyone().frame(),
            SiteQuestion::Diagnosis => self.diagnosis().frame(),
        };
        [first, second].concat()
    }

    /// Returns what this site says of itself.
    pub(super) fn diagnosis(&self) -> Diagnosis {
        let (disk, wall_clock) = (self.published.disk.complaint(now()), wall_clock());
        let refuses = self.about.gate.get().and_then(|gate| gate.audit().check().err());
        let refuses = refuses.map(|_| "its audit log is required and cannot be written".to_owned());
        let certificates = self.net.trust().expiries().into_iter().map(|expiry| CertificateEnd {
            is_authority: expiry.of == ExpiringPart::Authority,
            at: expiry.at.as_secs(),
        });
        let certificates = certificates.collect();
        let configuration = self.configuration();
        let core = self.lock();
        let (node, health) = (&core.node, core.node.health(now()));
        let failed = core.has_failed.then(|| "its node has panicked, which is a bug".to_owned());
        let outage = failed.or_else(|| node.outage().map(|outage| outage.to_string())).or(refuses);
        let mut known: BTreeSet<SiteName> = health.voters.iter().cloned().collect();
        known.extend(node.view().members.iter().map(|member| member.site.clone()));
        known.extend(node.founders().iter().cloned());
        known.extend(health.heard.iter().map(|(site, _)| site.clone()));
        known.remove(&node.me().site);
        let peer = |site: &SiteName| {
            let heard = health.heard.iter().find(|(heard, _)| heard == site).map(|(_, ago)| *ago);
            PeerReport { heard, ..self.net.report(site) }
        };
        Diagnosis {
            site: node.me().site.clone(),
            incarnation: node.me().incarnation.number(),
            cluster: node.cluster_name().clone(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            site_versions: self.about.speaks.range(),
            client_versions: clients::VERSIONS,
            founders: node.founders().to_vec(),
            voters: health.voters,
            replaced: u32::try_from(health.replaced).unwrap_or(u32::MAX),
            epoch: node.view().epoch.number(),
            members: node.view().members.iter().map(|member| member.site.clone()).collect(),
            leader: health.leader,
            outage,
            leaving: health.leaving,
            disk,
            lease: LeaseReport {
                terms: node.lease().terms(),
                configured: self.about.terms,
                left: health.lease_left,
                tightest: node.lease().tightest_renewal(),
            },
            wall_clock,
            certificates,
            peers: known.iter().map(peer).collect(),
            configuration,
        }
        .bounded()
    }

    /// Returns the hashes of what is configured alike at all sites and is in no view.
    fn configuration(&self) -> Vec<(String, u64)> {
        let Some(gate) = self.about.gate.get() else { return Vec::new() };
        let policy = gate.policy();
        vec![
            ("access".to_owned(), policy.access.fingerprint()),
            ("tokens".to_owned(), policy.tokens.fingerprint()),
        ]
    }
}

impl Handle {
    /// Tells the node which access rules and which audit log its clients are bound by, for its reports. Only the first call counts.
    pub(crate) fn serves_through(&self, gate: &Arc<Gate>) {
        let _ = self.shared.about.gate.set(gate.clone());
    }

    /// Returns where the node looks for the sites that it cannot reach: each with its addresses and the errors there.
    pub fn unreached(&self) -> Vec<(SiteName, String)> {
        let reports = self.shared.net.known_sites().into_iter().map(|site| self.shared.net.report(&site));
        reports.filter_map(|report| Some((report.site, report.error?))).collect()
    }

    /// Returns what this site says of itself, and if `others`, also what every other site says that it knows an address of. They are asked
    /// directly, each with a connection of its own.
    pub(crate) async fn diagnose(&self, others: bool) -> Vec<AskedSite> {
        let own = self.shared.diagnosis();
        let (me, address) = (own.site.clone(), self.look(|node| node.address().clone()));
        let own = AskedSite {
            site: me.clone(),
            address: Some(address),
            took: meshlock_cluster::time::Span::ZERO,
            ahead: 0,
            answer: Ok(Box::new(own)),
        };
        let mut all = vec![own];
        if others {
            let asked = self.within(ROUND, self.ask_others(me)).await;
            all.extend(asked.unwrap_or_default());
        }
        all
    }

    async fn ask_others(&self, me: SiteName) -> Vec<AskedSite> {
        let Ok(_turn) = self.shared.about.asking.acquire().await else { return Vec::new() };
        let mut places = self.shared.everyone().sites;
        places.retain(|(site, _)| *site != me);
        places.truncate(MAX_ASKED);
        let at_once = Arc::new(Semaphore::new(ASKED_AT_ONCE));
        let mut asked = JoinSet::new();
        for (site, address) in places {
            let (me, at_once, security) = (me.clone(), at_once.clone(), self.trust().security());
            let asking = async move {
                let Some(address) = address else {
                    return AskedSite::without_answer(site, None, "its address is not known here");
                };
                let _turn = at_once.acquire().await;
                let (asked_at, before) = (now(), wall_clock());
                let answer = ask_diagnosis(&address, &me, &security).await;
                let took = now().since(asked_at);
                match answer {
                    Ok(report) if report.site == site => {
                        let middle = before.saturating_add(took.micros() / 2);
                        let ahead = i64::try_from(i128::from(report.wall_clock) - i128::from(middle));
                        let (address, ahead) = (Some(address), ahead.unwrap_or(i64::MAX));
                        AskedSite { site, address, took, ahead, answer: Ok(Box::new(report)) }
                    }
                    Ok(report) => {
                        let why = format!("the site '{}' answers there", report.site);
                        AskedSite::without_answer(site, Some(address), &why)
                    }
                    Err(error) => AskedSite::without_answer(site, Some(address), &error.why),
                }
            };
            asked.spawn_on(asking, self.tasks());
        }
        let mut all = Vec::new();
        while let Some(one) = asked.join_next().await {
            all.extend(one);
        }
        all.sort_by(|a, b| a.site.cmp(&b.site));
        all
    }
}

/// Returns the calendar time of this machine, in microseconds since 1970.
fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
