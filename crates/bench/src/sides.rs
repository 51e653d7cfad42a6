//! Compares all lock services: each is started, measured, and stopped.

use std::path::Path;

use anyhow::Context;

use super::peers::{etcd, redis, redlock, zookeeper};
use super::report::{BenchReport, Goal, GoalRow, Reference, Side};
use super::system::{System, contended, many_locks, uncontended};
use super::systems::{central::Central, daemons::Daemons, etcd_api::EtcdApi, library::Library};
use super::takeover::{self, Killed};
use super::{Arguments, Measurement, memory, note};

/// The numbers of clients that compete for one lock.
const CLIENTS: [usize; 4] = [3, 8, GOAL_CLIENTS, API_CLIENTS];

/// The number of clients in the run that has most of the goals: eight at each of three sites.
const GOAL_CLIENTS: usize = 24;

/// The number of clients in the run that compares our etcd API with etcd.
const API_CLIENTS: usize = 50;

const MANY_LOCKS: usize = 10_000;
const MANY_LOCKS_CLIENTS: usize = 8;

const LIBRARY: &str = "Meshlock, 3 sites, library";
const DAEMONS: &str = "Meshlock, 3 processes, Unix sockets";
const ETCD_API: &str = "Meshlock, 3 sites, etcd API";
const CENTRAL: &str = "smallest central server, TCP";

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
            report.machine.peers.push(etcd::version());
            one(arguments, name, etcd::Etcd::start().await?).await
        }
        PeerService::ZooKeeper => {
            let zookeeper = zookeeper::ZooKeeper::start().await?;
            report.machine.peers.push(zookeeper.version.clone());
            one(arguments, name, zookeeper).await
        }
        PeerService::RedisPolling => {
            report.machine.peers.push(redis::version());
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
        let run = many_locks(&system, MANY_LOCKS, MANY_LOCKS_CLIENTS, window).await;
        side.many_locks = Some(run.context("many locks")?);
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

/// Returns the rows with goals that compare ours with the others.
pub(super) fn goals(sides: &[Side]) -> Vec<GoalRow> {
    let side = |name: &str| sides.iter().find(|side| side.name == name);
    let mut rows = Vec::new();
    for ours in [LIBRARY, DAEMONS].into_iter().filter_map(side) {
        let beside =
            [(CENTRAL, 1.0), (PeerService::Etcd.name(), 100.0), (PeerService::ZooKeeper.name(), 50.0)];
        for (theirs, least) in beside.into_iter().filter_map(|(name, least)| Some((side(name)?, least))) {
            let entries = (ours.contended_with(GOAL_CLIENTS), theirs.contended_with(GOAL_CLIENTS));
            let what = format!("{GOAL_CLIENTS} clients on one lock: {}", ours.name);
            rows.extend(at_least(what, entries, theirs.name, least));
        }
        rows.extend(ours.jain.map(|jain| GoalRow {
            what: format!("{GOAL_CLIENTS} clients on one lock: {}: Jain's index", ours.name),
            unit: "",
            ours: jain,
            reference: None,
            goal: Some(Goal::AtLeast(0.99)),
        }));
        if let Some(theirs) = side(PeerService::Etcd.name()) {
            let what = format!("{MANY_LOCKS_CLIENTS} clients, {MANY_LOCKS} locks: {}", ours.name);
            rows.extend(at_least(what, (ours.many_locks, theirs.many_locks), theirs.name, 20.0));
        }
    }
    if let (Some(ours), Some(theirs)) = (side(ETCD_API), side(PeerService::Etcd.name())) {
        let entries = (ours.contended_with(API_CLIENTS), theirs.contended_with(API_CLIENTS));
        let what = format!("{API_CLIENTS} clients on one lock: {ETCD_API}");
        rows.extend(at_least(what, entries, theirs.name, 10.0));
    }
    rows
}

fn at_least(
    what: String,
    (ours, theirs): (Option<f64>, Option<f64>),
    name: &str,
    least: f64,
) -> Option<GoalRow> {
    let reference = Some(Reference { what: name.to_owned(), value: theirs? });
    Some(GoalRow { what, unit: "entries/s", ours: ours?, reference, goal: Some(Goal::RatioAtLeast(least)) })
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
