//! Compares all lock services: each is started, measured, and stopped.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use super::peers::{etcd, redis, redlock, zookeeper};
use super::report::{BenchReport, Goal, GoalRow, Reference, Side};
use super::system::{System, contended, uncontended};
use super::systems::{central::Central, daemons::Daemons, etcd_api::EtcdApi, library::Library};
use super::takeover::{self, Killed};
use super::workload::Workload;
use super::{Arguments, Measurement, memory, note};

/// The numbers of clients that compete for one lock.
const CLIENTS: [usize; 4] = [SITE_CLIENTS, 8, GOAL_CLIENTS, API_CLIENTS];

/// One client at each of three sites: every entry is a hand-over between sites.
const SITE_CLIENTS: usize = 3;

/// The number of clients in the run that has most of the goals: eight at each of three sites.
const GOAL_CLIENTS: usize = 24;

/// The number of clients in the run that compares our etcd API with etcd.
const API_CLIENTS: usize = 50;

const MANY_LOCKS: usize = 10_000;
const MANY_LOCKS_CLIENTS: usize = 8;

pub(super) const LIBRARY: &str = "Meshlock, 3 sites, library";
pub(super) const DAEMONS: &str = "Meshlock, 3 processes, Unix sockets";
const ETCD_API: &str = "Meshlock, 3 sites, etcd API";
pub(super) const CENTRAL: &str = "smallest central server, TCP";

/// Another lock service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerService {
    Etcd,
    ZooKeeper,
    RedisPolling,
    RedisTold,
    Redlock,
}

impl PeerService {
    pub(super) const ALL: [PeerService; 5] = [
        PeerService::Etcd,
        PeerService::ZooKeeper,
        PeerService::RedisPolling,
        PeerService::RedisTold,
        PeerService::Redlock,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            PeerService::Etcd => "etcd, 3 servers",
            PeerService::ZooKeeper => "ZooKeeper, 3 servers",
            PeerService::RedisPolling => "Redis, SET NX, polled",
            PeerService::RedisTold => "Redis, SET NX, pub/sub",
            PeerService::Redlock => "Redlock, 5 Redis servers",
        }
    }

    pub(super) fn is_installed(self) -> bool {
        match self {
            PeerService::Etcd => is_program("etcd"),
            PeerService::ZooKeeper => is_program("java") && zookeeper::is_installed(),
            PeerService::RedisPolling | PeerService::RedisTold | PeerService::Redlock => {
                is_program("redis-server")
            }
        }
    }

    pub(super) fn how_to_install(self) -> &'static str {
        match self {
            PeerService::Etcd => "apt-get install etcd-server",
            PeerService::ZooKeeper => "apt-get install zookeeper",
            PeerService::RedisPolling | PeerService::RedisTold | PeerService::Redlock => {
                "apt-get install redis-server"
            }
        }
    }
}

/// Returns whether a program of this name is installed.
pub(super) fn is_program(name: &str) -> bool {
    let places = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&places).any(|place| place.join(name).is_file())
}

/// Measures our lock services and the peers.
pub(super) async fn measure(
    arguments: &Arguments,
    program: &Path,
    peers: &[PeerService],
    report: &mut BenchReport,
) -> anyhow::Result<()> {
    note(LIBRARY);
    report.side_by_side.push(one(arguments, LIBRARY, Library::start().await?).await?);
    note(DAEMONS);
    report.side_by_side.push(one(arguments, DAEMONS, Daemons::start(program).await?).await?);
    note(ETCD_API);
    report.side_by_side.push(one(arguments, ETCD_API, EtcdApi::start(program).await?).await?);
    note(CENTRAL);
    report.side_by_side.push(one(arguments, CENTRAL, Central::start()?).await?);
    for peer in peers {
        note(peer.name());
        let side = measure_peer(arguments, *peer, report).await.with_context(|| peer.name())?;
        report.side_by_side.push(side);
    }
    report.notes.extend(explain(arguments, peers));
    Ok(())
}

async fn measure_peer(
    arguments: &Arguments,
    peer: PeerService,
    report: &mut BenchReport,
) -> anyhow::Result<Side> {
    let name = peer.name();
    match peer {
        PeerService::Etcd => {
            report.add_version(etcd::version());
            one(arguments, name, etcd::Etcd::start().await?).await
        }
        PeerService::ZooKeeper => {
            let zookeeper = zookeeper::ZooKeeper::start().await?;
            report.add_version(zookeeper.version.clone());
            one(arguments, name, zookeeper).await
        }
        PeerService::RedisPolling => {
            report.add_version(redis::version());
            one(arguments, name, redis::Redis::<false>::start().await?).await
        }
        PeerService::RedisTold => one(arguments, name, redis::Redis::<true>::start().await?).await,
        PeerService::Redlock => one(arguments, name, redlock::Redlock::start().await?).await,
    }
}

/// Measures one service, and stops it.
async fn one<S: System>(arguments: &Arguments, name: &'static str, mut system: S) -> anyhow::Result<Side> {
    let window = arguments.window();
    let mut side = Side { name, ..Side::default() };
    if arguments.wants(Measurement::Uncontended) {
        side.uncontended = Some(uncontended(&system, window).await.context("one client")?);
    }
    if arguments.wants(Measurement::Contended) {
        for clients in CLIENTS {
            let run = contended(&system, clients, window).await;
            let run = run.with_context(|| format!("{clients} clients on one lock"))?;
            side.contended.push((clients, run.entries_per_second));
            if clients == GOAL_CLIENTS {
                side.jain = Some(run.jain);
            }
        }
    }
    if arguments.wants(Measurement::Many) {
        let workload = Workload::new(MANY_LOCKS_CLIENTS, MANY_LOCKS, 0.0, Duration::ZERO);
        let run = workload.run(&system, window).await.context("many locks")?;
        side.many_locks = Some(run.entries_per_second);
    }
    let processes = system.processes();
    if arguments.wants(Measurement::Memory) && !processes.is_empty() {
        let bytes =
            processes.iter().map(|process| memory::resident_bytes(*process)).sum::<anyhow::Result<u64>>()?;
        side.memory = Some(bytes as f64 / f64::from(1 << 20));
    }
    if arguments.wants(Measurement::Takeover) {
        side.client_killed =
            takeover::measure(&mut system, Killed::Client).await.context("a killed client")?;
        // The last measurement, because it kills a site.
        side.site_killed = takeover::measure(&mut system, Killed::Site).await.context("a killed site")?;
    }
    Ok(side)
}

/// What a contended run is compared with: the number of clients, the other service, and the ratio that is the goal, if there is one.
type Comparison = (usize, &'static str, Option<f64>);

/// Returns the rows with goals that compare ours with the others.
pub(super) fn goals(sides: &[Side]) -> Vec<GoalRow> {
    let side = |name: &str| sides.iter().find(|side| side.name == name);
    let (etcd, zookeeper) = (PeerService::Etcd.name(), PeerService::ZooKeeper.name());
    let library: &[Comparison] = &[
        (SITE_CLIENTS, CENTRAL, None),
        (GOAL_CLIENTS, CENTRAL, Some(1.0)),
        (GOAL_CLIENTS, etcd, Some(100.0)),
        (GOAL_CLIENTS, zookeeper, Some(50.0)),
    ];
    let daemons: &[Comparison] = &[
        (SITE_CLIENTS, CENTRAL, Some(1.0)),
        (GOAL_CLIENTS, CENTRAL, Some(1.5)),
        (GOAL_CLIENTS, etcd, Some(100.0)),
        (GOAL_CLIENTS, zookeeper, Some(50.0)),
    ];
    let api: &[Comparison] = &[(API_CLIENTS, etcd, Some(10.0))];
    let mut rows = Vec::new();
    for (ours, comparisons) in [(LIBRARY, library), (DAEMONS, daemons), (ETCD_API, api)] {
        let Some(ours) = side(ours) else { continue };
        for (clients, theirs, least) in comparisons {
            let Some(theirs) = side(theirs) else { continue };
            let entries = (ours.contended_with(*clients), theirs.contended_with(*clients));
            let what = format!("{clients} clients on one lock: {}", ours.name);
            rows.extend(compared(what, entries, theirs.name, *least));
        }
        if ours.name == ETCD_API {
            continue;
        }
        rows.extend(ours.jain.map(|jain| GoalRow {
            what: format!("{GOAL_CLIENTS} clients on one lock: {}: Jain's index", ours.name),
            unit: "",
            ours: jain,
            reference: None,
            goal: Some(Goal::AtLeast(0.99)),
        }));
        if let Some(theirs) = side(etcd) {
            let what = format!("{MANY_LOCKS_CLIENTS} clients, {MANY_LOCKS} locks: {}", ours.name);
            rows.extend(compared(what, (ours.many_locks, theirs.many_locks), theirs.name, Some(20.0)));
        }
    }
    rows
}

/// Returns the row of two figures, if there are both.
fn compared(
    what: String,
    (ours, theirs): (Option<f64>, Option<f64>),
    name: &str,
    least: Option<f64>,
) -> Option<GoalRow> {
    let reference = Some(Reference { what: name.to_owned(), value: theirs? });
    Some(GoalRow { what, unit: "entries/s", ours: ours?, reference, goal: least.map(Goal::RatioAtLeast) })
}

/// Explains how the figures were obtained.
fn explain(arguments: &Arguments, peers: &[PeerService]) -> Vec<String> {
    let seconds = arguments.window().as_secs_f64();
    let mut notes = vec![
        format!(
            "Each run lasts {seconds} s. Clients are tasks of this process, spread over the sites or servers. Every client that holds the lock \
             increments a counter, and the run fails if an increment is lost or a fence does not increase (Redis and the central server have no fences)."
        ),
        format!(
            "{ETCD_API}: three processes, spoken to over gRPC by the same client as etcd, with the rate limit of a client lifted."
        ),
        "No client enters twice in a row: after it has released the lock, it asks again only once another client has entered.".to_owned(),
        "Where a client or a site is killed, leases, sessions and expiries last 5 s. The killed site is the one that the holder is connected \
         to; both are killed together. –: does not apply, or nobody takes over."
            .to_owned(),
    ];
    if peers.iter().any(|peer| matches!(peer, PeerService::Etcd | PeerService::ZooKeeper)) {
        let place = std::env::temp_dir();
        let place: &Path = &place;
        notes.push(format!(
            "etcd and ZooKeeper write every change to disk before they answer, in {}; Meshlock writes only changes of membership.",
            place.display()
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(name: &'static str, entries: [f64; 4]) -> Side {
        let contended = CLIENTS.into_iter().zip(entries).collect();
        Side { name, contended, jain: Some(1.0), many_locks: Some(50.0), ..Side::default() }
    }

    #[test]
    fn goals_compare_runs_with_the_same_number_of_clients() {
        let sides = [
            side(DAEMONS, [9.0, 1.0, 16.0, 1.0]),
            side(ETCD_API, [1.0, 1.0, 1.0, 95.0]),
            side(CENTRAL, [10.0, 1.0, 10.0, 1.0]),
            side(PeerService::Etcd.name(), [1.0, 1.0, 0.1, 10.0]),
        ];
        let rows = goals(&sides);
        let found: Vec<(String, Option<f64>, Option<bool>)> =
            rows.iter().map(|row| (row.what.clone(), row.ratio(), row.is_met())).collect();
        let expected = [
            (format!("3 clients on one lock: {DAEMONS}"), Some(0.9), Some(false)),
            (format!("24 clients on one lock: {DAEMONS}"), Some(1.6), Some(true)),
            (format!("24 clients on one lock: {DAEMONS}"), Some(160.0), Some(true)),
            (format!("24 clients on one lock: {DAEMONS}: Jain's index"), None, Some(true)),
            (format!("8 clients, 10000 locks: {DAEMONS}"), Some(1.0), Some(false)),
            (format!("50 clients on one lock: {ETCD_API}"), Some(9.5), Some(false)),
        ];
        assert_eq!(found, expected);
    }
}
