//! All metric families, in the order in which they are exported.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use meshlock_cluster::fence_floor;
use meshlock_cluster::table::{AcquireOutcome, LossReason, MessageCounts, ServedBy};
use meshlock_host::front::Front;
use meshlock_host::{Port, Readings, Traffic, Via};
use meshlock_tls::Expiry;
use meshlock_wire::sites::VERSIONS;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::SessionEnd;
use super::page::{Labels, MetricFamily, Page, label, seconds};
use crate::sessions::Sessions;

/// The values of all metrics at one moment.
#[derive(Debug)]
pub(super) struct Snapshot {
    readings: Readings,
    build: Labels,
    ends: Vec<(Labels, u64)>,
    /// Connections that had to make room, by port.
    evicted: Vec<(Labels, u64)>,
    buffered_bytes: usize,
    audit_lines_lost: u64,
    /// When the site's certificate and its authority end, in seconds since 1970; nothing without TLS.
    expiries: Vec<(Labels, u64)>,
    /// Of the APIs; `None` if they are not served.
    api: Option<ApiSnapshot>,
}

/// The values of the metrics of the APIs.
#[derive(Debug)]
struct ApiSnapshot {
    sessions: usize,
    keys: usize,
    calls: Vec<(Labels, u64)>,
    /// Calls that were forwarded: not answered, answered.
    forwarded: [u64; 2],
    /// Calls that were executed for other sites.
    executed: u64,
    /// Calls that wait for an answer of another site.
    waiting: usize,
    /// Sessions of another site that are mirrored here.
    mirrored: u64,
}

impl Snapshot {
    /// Reads the metrics of a node, and those of the APIs if they are served.
    pub(super) fn take(front: &Front, sessions: Option<&Sessions>) -> Self {
        let readings = front.node().readings();
        let cluster = front.cluster_name();
        let build = vec![
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("wire", format!("{}-{}", VERSIONS.0, VERSIONS.1)),
            ("cluster", cluster),
            ("site", front.site().to_string()),
        ];
        let end = |of: &str, reason: &str| vec![("of", of.to_owned()), ("reason", reason.to_owned())];
        let node = meshlock_host::SessionEnd::ALL;
        let of_node = node.iter().map(|why| (end("node", why.label()), readings.session_ends(*why)));
        let mut ends: Vec<_> = of_node.collect();
        let api = sessions.map(|sessions| {
            let (meter, (leases, keys)) = (sessions.meter(), sessions.registry().counts());
            let waiting = sessions.outgoing().waiting();
            ends.extend(SessionEnd::ALL.map(|why| (end("api", why.label()), meter.session_ends(why))));
            let forwarded =
                [&meter.forwarded[0], &meter.forwarded[1]].map(|count| count.load(Ordering::Relaxed));
            let executed = meter.executed.load(Ordering::Relaxed);
            let (calls, mirrored) = (meter.calls.counts(), meter.mirrored.load(Ordering::Relaxed));
            ApiSnapshot { sessions: leases, keys, calls, forwarded, executed, waiting, mirrored }
        });
        let evictions = front.node().evictions();
        let ports = Port::ALL.into_iter().filter(|port| *port != Port::Api || api.is_some());
        let evicted = ports.map(|port| (label("port", port.label()), evictions.count(port))).collect();
        let (buffered_bytes, audit_lines_lost) = (front.buffered_bytes(), front.audit().lost());
        let expiries = front.node().trust().expiries();
        let expiry = |expiry: &Expiry| (label("certificate", expiry.of.label()), expiry.at.as_secs());
        let expiries = expiries.iter().map(expiry).collect();
        Snapshot { readings, build, ends, evicted, buffered_bytes, audit_lines_lost, expiries, api }
    }

    fn clients(&self, page: &mut Page<'_>) -> fmt::Result {
        let tally = &self.readings.tally;
        page.counters(
            MetricFamily { name: "acquisitions", help: "Lock acquisitions by outcome." },
            AcquireOutcome::ALL
                .iter()
                .map(|outcome| (label("outcome", outcome.label()), tally.outcomes(*outcome))),
        )?;
        page.histograms(
            MetricFamily {
                name: "wait",
                help: "Time from the request for a lock to its grant, by what let the waiter in.",
            },
            ServedBy::ALL.iter().map(|served| (label("served", served.label()), tally.waits(*served))),
        )?;
        page.histograms(
            MetricFamily { name: "hold", help: "Time from the grant of a lock to its release." },
            [(Labels::new(), &tally.holds)],
        )?;
        page.histograms(
            MetricFamily {
                name: "hand_over",
                help: "Time within this site from the release or message that lets a waiter in until the waiter is notified.",
            },
            Via::ALL.iter().map(|via| (label("via", via.label()), self.readings.hand_overs(*via))),
        )?;
        page.gauge(
            MetricFamily { name: "waiters", help: "Acquisitions that are waiting now." },
            self.readings.waiters,
        )?;
        page.gauge(
            MetricFamily { name: "holders", help: "Acquisitions that are granted and not yet released." },
            self.readings.holders,
        )?;
        page.gauge(
            MetricFamily { name: "locks", help: "Locks that this site has state for, in use or idle." },
            self.readings.locks,
        )?;
        page.counters(
            MetricFamily { name: "lost_locks", help: "Locks lost by their holders, by reason." },
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
            MetricFamily {
                name: "messages_sent",
                help: "Messages of the lock algorithms sent to other sites.",
            },
            kinds(&tally.sent),
        )?;
        page.counters(
            MetricFamily {
                name: "messages_received",
                help: "Messages of the lock algorithms received from other sites.",
            },
            kinds(&tally.received),
        )?;
        let peers = |count: fn(&Traffic) -> u64| -> Vec<(Labels, u64)> {
            self.readings.traffic.iter().map(|peer| (label("peer", &peer.site), count(peer))).collect()
        };
        page.counters(
            MetricFamily { name: "peer_frames_sent", help: "Frames sent to another member." },
            peers(|peer| peer.sent.0),
        )?;
        page.counters(
            MetricFamily { name: "peer_frames_received", help: "Frames received from another member." },
            peers(|peer| peer.received.0),
        )?;
        page.counters(
            MetricFamily {
                name: "peer_bytes_sent",
                help: "Bytes of frames sent to another member, before TLS.",
            },
            peers(|peer| peer.sent.1),
        )?;
        page.counters(
            MetricFamily {
                name: "peer_bytes_received",
                help: "Bytes of frames received from another member, after TLS.",
            },
            peers(|peer| peer.received.1),
        )?;
        page.gauges(
            MetricFamily {
                name: "peer_wire_version",
                help: "Wire protocol version spoken with another member; 0 without a connection.",
            },
            peers(|peer| u64::from(peer.version.unwrap_or(0))),
        )
    }

    fn membership(&self, page: &mut Page<'_>) -> fmt::Result {
        let Readings { tally, epoch, members, is_member, is_open, leads, lease_left, .. } = &self.readings;
        page.counters(
            MetricFamily { name: "views_installed", help: "Views that this site has installed." },
            [(Labels::new(), tally.views_installed)],
        )?;
        page.counters(
            MetricFamily {
                name: "views_opened",
                help: "Views that this site has opened, so that its locks run.",
            },
            [(Labels::new(), tally.views_opened)],
        )?;
        page.gauge(MetricFamily { name: "view_epoch", help: "Epoch of the installed view." }, *epoch)?;
        page.gauge(
            MetricFamily {
                name: "epochs_ahead_of_clock",
                help: "Epochs by which a cluster founded again by the clock alone would begin too low; 0 if its fences would be higher.",
            },
            ahead_of_clock(*epoch),
        )?;
        page.gauge(
            MetricFamily { name: "view_members", help: "Number of members of the installed view." },
            *members,
        )?;
        page.gauge(
            MetricFamily { name: "in_view", help: "1 if this site is a member of the installed view." },
            u64::from(*is_member),
        )?;
        page.gauge(
            MetricFamily {
                name: "view_open",
                help: "1 if the installed view is open, so that the locks of this site run.",
            },
            u64::from(*is_open),
        )?;
        page.gauge(
            MetricFamily { name: "leader", help: "1 if this site considers itself the leader." },
            u64::from(*leads),
        )?;
        page.gauge(
            MetricFamily {
                name: "lease_left_seconds",
                help: "Remaining time of this site's lease; 0 without a lease.",
            },
            seconds(*lease_left),
        )?;
        page.histograms(
            MetricFamily {
                name: "lease_margin",
                help: "Remaining time of this site's lease when it was renewed.",
            },
            [(Labels::new(), &tally.lease_left)],
        )?;
        self.voters(page)?;
        self.disk(page)
    }

    fn voters(&self, page: &mut Page<'_>) -> fmt::Result {
        let voters = &self.readings.voters;
        let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        page.gauge(
            MetricFamily { name: "voters", help: "Number of sites that vote." },
            number(voters.voters.len()),
        )?;
        page.gauge(
            MetricFamily { name: "quorum", help: "Number of voters that must be up." },
            number(voters.quorum()),
        )?;
        page.gauges(
            MetricFamily { name: "voter_up", help: "1 if this voter is up, as far as this site knows." },
            voters.voters.iter().map(|voter| (label("voter", &voter.site), u64::from(voter.is_up()))),
        )?;
        page.gauge(
            MetricFamily {
                name: "failures_survived",
                help: "Number of voters that may fail before no lock is granted; negative by how many are missing.",
            },
            voters.margin(),
        )?;
        page.gauge(
            MetricFamily { name: "voters_changing", help: "1 while a change of voters is under way." },
            u64::from(voters.is_changing()),
        )
    }

    fn disk(&self, page: &mut Page<'_>) -> fmt::Result {
        page.gauge(
            MetricFamily { name: "disk_failing", help: "1 if the last write to this site's disk failed." },
            u64::from(self.readings.disk_is_failing),
        )?;
        page.counters(
            MetricFamily {
                name: "disk_slow_writes",
                help: "Writes to this site's disk that took longer than other voters wait for a silent leader.",
            },
            [(Labels::new(), self.readings.slow_writes)],
        )
    }

    fn sessions(&self, page: &mut Page<'_>) -> fmt::Result {
        page.gauges(
            MetricFamily {
                name: "sessions",
                help: "Open sessions of the node, which has one for each acquisition of the APIs, and of the APIs.",
            },
            [(label("of", "node"), self.readings.sessions)]
                .into_iter()
                .chain(self.api.as_ref().map(|api| (label("of", "api"), api.sessions))),
        )?;
        if let Some(api) = &self.api {
            let family =
                MetricFamily { name: "api_keys", help: "Locks held or waited for through the APIs." };
            page.gauge(family, api.keys)?;
        }
        page.counters(
            MetricFamily { name: "session_ends", help: "Sessions that ended, by kind and reason." },
            self.ends.clone(),
        )?;
        page.counters(
            MetricFamily {
                name: "connections_evicted",
                help: "Connections that had not identified themselves and had to make room for others, by port.",
            },
            self.evicted.clone(),
        )?;
        page.gauge(
            MetricFamily {
                name: "buffered_bytes",
                help: "Bytes kept for clients: requests that have not arrived whole, and answers that were not read.",
            },
            self.buffered_bytes,
        )?;
        page.counters(
            MetricFamily {
                name: "audit_lines_lost",
                help: "Lines of the audit log that could not be written.",
            },
            [(Labels::new(), self.audit_lines_lost)],
        )?;
        page.gauges(
            MetricFamily {
                name: "certificate_expires_seconds",
                help: "When this site's certificate and its authority end, in seconds since 1970.",
            },
            self.expiries.clone(),
        )?;
        let Some(api) = &self.api else { return Ok(()) };
        page.counters(
            MetricFamily { name: "api_calls", help: "API calls by service and result code." },
            api.calls.clone(),
        )?;
        Snapshot::forwarded(api, page)
    }

    /// The calls that sites forward to each other.
    fn forwarded(api: &ApiSnapshot, page: &mut Page<'_>) -> fmt::Result {
        page.counters(
            MetricFamily {
                name: "forwarded_calls",
                help: "Calls of this site's clients that were forwarded to the site that has the session, by whether it answered.",
            },
            ["unanswered", "answered"].iter().zip(api.forwarded).map(|(outcome, count)| (label("outcome", outcome), count)),
        )?;
        page.counters(
            MetricFamily {
                name: "executed_calls",
                help: "Calls that other sites forwarded and this site executed.",
            },
            [(Labels::new(), api.executed)],
        )?;
        page.gauge(
            MetricFamily {
                name: "waiting_calls",
                help: "Calls of this site's clients that wait for another site, also for a lock that they wait for there.",
            },
            api.waiting,
        )?;
        page.gauge(
            MetricFamily {
                name: "mirrored_sessions",
                help: "Sessions of another site's clients that this site goes on with if that site dies or leaves.",
            },
            api.mirrored,
        )
    }
}

/// Returns by how many epochs the cluster is ahead of the clock; 0 also if the clock cannot be right.
fn ahead_of_clock(epoch: u64) -> u64 {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let epoch = u32::try_from(epoch).ok().and_then(fence_floor::Epoch::new);
    epoch.and_then(|epoch| fence_floor::ahead(epoch, seconds)).map_or(0, u64::from)
}

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        page.info(MetricFamily { name: "build", help: "Version and identity of this site." }, &self.build)?;
        self.clients(&mut page)?;
        self.network(&mut page)?;
        self.membership(&mut page)?;
        self.sessions(&mut page)
    }
}
