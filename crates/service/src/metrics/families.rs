//! Every family that is exported, in the order in which it is.

use std::fmt;

use meshlock_cluster::table::{AcquireOutcome, LossReason, MessageCounts, ServedBy};
use meshlock_host::{Readings, Traffic, Via};
use meshlock_wire::sites::VERSIONS;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::SessionEnd;
use super::page::{Family, Labels, Page, label, seconds};
use crate::sessions::Sessions;

/// Everything that is exported, at one moment.
#[derive(Debug)]
pub(super) struct Snapshot {
    readings: Readings,
    build: Labels,
    sessions: usize,
    keys: usize,
    ends: Vec<(Labels, u64)>,
    calls: Vec<(Labels, u64)>,
}

impl Snapshot {
    pub(super) fn take(sessions: &Sessions) -> Self {
        let readings = sessions.front().node().readings();
        let cluster = sessions.front().node().look(|node| node.cluster_name().to_string());
        let build = vec![
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("wire", format!("{}-{}", VERSIONS.0, VERSIONS.1)),
            ("cluster", cluster),
            ("site", sessions.site().to_string()),
        ];
        let end = |of: &str, reason: &str| vec![("of", of.to_owned()), ("reason", reason.to_owned())];
        let node = meshlock_host::SessionEnd::ALL;
        let of_node = node.iter().map(|why| (end("node", why.label()), readings.session_ends(*why)));
        let (meter, (sessions, keys)) = (sessions.meter(), sessions.registry().counts());
        let of_api = SessionEnd::ALL.iter().map(|why| (end("api", why.label()), meter.session_ends(*why)));
        let ends = of_node.chain(of_api).collect();
        Snapshot { build, sessions, keys, ends, calls: meter.calls.counts(), readings }
    }

    fn clients(&self, page: &mut Page<'_>) -> fmt::Result {
        let tally = &self.readings.tally;
        page.counters(
            Family { name: "acquisitions", help: "Wishes for locks, by how they came out" },
            AcquireOutcome::ALL
                .iter()
                .map(|outcome| (label("outcome", outcome.label()), tally.outcomes(*outcome))),
        )?;
        page.histograms(
            Family { name: "wait", help: "From asking for a lock to having it, by what let the waiter in" },
            ServedBy::ALL.iter().map(|served| (label("served", served.label()), tally.waits(*served))),
        )?;
        page.histograms(
            Family { name: "hold", help: "From being granted a lock to having left it" },
            [(Labels::new(), &tally.holds)],
        )?;
        page.histograms(
            Family {
                name: "hand_over",
                help: "Within this site, from the release or the message that lets a waiter in until it is told",
            },
            Via::ALL.iter().map(|via| (label("via", via.label()), self.readings.hand_overs(*via))),
        )?;
        page.gauge(Family { name: "waiters", help: "Wishes that wait now" }, self.readings.waiters)?;
        page.gauge(
            Family { name: "holders", help: "Wishes that are granted and not given back now" },
            self.readings.holders,
        )?;
        page.gauge(
            Family { name: "locks", help: "Locks that this site keeps, in use or idle" },
            self.readings.locks,
        )?;
        page.counters(
            Family { name: "lost_locks", help: "Locks that were taken from their holders, by why" },
            LossReason::ALL.iter().map(|by| (label("reason", by.label()), self.readings.losses(*by))),
        )
    }

    fn network(&self, page: &mut Page<'_>) -> fmt::Result {
        let tally = &self.readings.tally;
        let kinds = |messages: &MessageCounts| -> Vec<(Labels, u64)> {
            let labels = |algorithm: &str, kind: &str| {
                vec![("algorithm", algorithm.to_owned()), ("kind", kind.to_owned())]
            };
            messages.counts().map(|(algorithm, kind, count)| (labels(algorithm, kind), count)).collect()
        };
        page.counters(
            Family { name: "messages_sent", help: "Messages of the algorithms to other sites" },
            kinds(&tally.sent),
        )?;
        page.counters(
            Family { name: "messages_received", help: "Messages of the algorithms from other sites" },
            kinds(&tally.received),
        )?;
        let peers = |count: fn(&Traffic) -> u64| -> Vec<(Labels, u64)> {
            self.readings.traffic.iter().map(|peer| (label("peer", &peer.site), count(peer))).collect()
        };
        page.counters(
            Family { name: "peer_frames_sent", help: "Frames for another member" },
            peers(|peer| peer.sent.0),
        )?;
        page.counters(
            Family { name: "peer_frames_received", help: "Frames from another member" },
            peers(|peer| peer.received.0),
        )?;
        page.counters(
            Family { name: "peer_bytes_sent", help: "Bytes of frames for another member, before TLS" },
            peers(|peer| peer.sent.1),
        )?;
        page.counters(
            Family { name: "peer_bytes_received", help: "Bytes of frames from another member, after TLS" },
            peers(|peer| peer.received.1),
        )?;
        page.gauges(
            Family {
                name: "peer_wire_version",
                help: "Version of the wire spoken with another member; 0 without a connection",
            },
            peers(|peer| u64::from(peer.version.unwrap_or(0))),
        )
    }

    fn membership(&self, page: &mut Page<'_>) -> fmt::Result {
        let Readings { tally, epoch, members, is_member, is_open, leads, lease_left, .. } = &self.readings;
        page.counters(
            Family { name: "views_installed", help: "Views that this site has learnt of" },
            [(Labels::new(), tally.views_installed)],
        )?;
        page.counters(
            Family { name: "views_opened", help: "Views in which this site has let its locks run" },
            [(Labels::new(), tally.views_opened)],
        )?;
        page.gauge(Family { name: "view_epoch", help: "Number of the view that is installed" }, *epoch)?;
        page.gauge(Family { name: "view_members", help: "Members of the view that is installed" }, *members)?;
        page.gauge(
            Family { name: "in_view", help: "1 if this site is a member of the view that is installed" },
            u64::from(*is_member),
        )?;
        page.gauge(
            Family { name: "view_open", help: "1 if the locks of this site run" },
            u64::from(*is_open),
        )?;
        page.gauge(
            Family { name: "leader", help: "1 if this site leads, as far as it knows" },
            u64::from(*leads),
        )?;
        page.gauge(
            Family {
                name: "lease_left_seconds",
                help: "How long the lease of this site lasts yet; 0 without one",
            },
            seconds(*lease_left),
        )?;
        page.histograms(
            Family { name: "lease_margin", help: "How much of the lease was left whenever it was renewed" },
            [(Labels::new(), &tally.lease_left)],
        )
    }

    fn sessions(&self, page: &mut Page<'_>) -> fmt::Result {
        page.gauges(
            Family {
                name: "sessions",
                help: "Sessions that are open: at the node, where each wish of the APIs is one, and of the APIs",
            },
            [(label("of", "node"), self.readings.sessions), (label("of", "api"), self.sessions)],
        )?;
        page.gauge(
            Family { name: "api_keys", help: "Locks that are held or waited for through the APIs" },
            self.keys,
        )?;
        page.counters(
            Family { name: "session_ends", help: "Sessions that ended, by whose they were and why" },
            self.ends.clone(),
        )?;
        page.counters(
            Family { name: "api_calls", help: "Calls of the APIs, by service and how they came out" },
            self.calls.clone(),
        )
    }
}

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        page.info(Family { name: "build", help: "What runs here" }, &self.build)?;
        self.clients(&mut page)?;
        self.network(&mut page)?;
        self.membership(&mut page)?;
        self.sessions(&mut page)
    }
}
