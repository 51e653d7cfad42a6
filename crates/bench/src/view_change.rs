//! Measures a view change of three sites while many locks are held, beside what it takes to copy the census between them: who
//! holds what is all that a view change has to tell.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use meshlock::{Cluster, Guard};
use meshlock_cluster::founding::Founding;
use meshlock_cluster::links::Frame;
use meshlock_cluster::names::{Incarnation, LockName};
use meshlock_cluster::node::{Content, LinkPayload, Packet};
use meshlock_cluster::rules::{Clause, RulesText};
use meshlock_cluster::table::{CensusPiece, Holding};
use meshlock_wire::sites::{VERSIONS, decode_packet, encode_packet};
use tokio::task::JoinSet;

use super::report::{Goal, GoalRow, Reference};
use super::statistics::median;

const SITES: usize = 3;

/// Number of view changes, of copies and of other locks, of which the median counts.
const TIMES: usize = 5;

/// Locks in a piece of the census: about as many bytes as a node sends at once.
const IN_A_PIECE: usize = 4000;

/// How long other locks are acquired while these are held: several renewals of every site's lease.
const USED_FOR: Duration = Duration::from_secs(4);

fn name(number: usize) -> String {
    format!("backup/host-{number:06}")
}

/// Measures with this many held locks, a third of them at each site.
pub(super) async fn measure(held: usize) -> anyhow::Result<Vec<GoalRow>> {
    let cluster = Cluster::local_with(SITES, |_, builder| builder.max_locks((4 * held).max(1_000_000)))?;
    cluster.ready().await;
    let without = view_changes(&cluster).await?;
    let wait_without = longest_wait(&cluster).await?;
    let guards = hold(&cluster, held).await?;
    let wait_with = longest_wait(&cluster).await?;
    let with = view_changes(&cluster).await?;
    anyhow::ensure!(guards.iter().all(|guard| !guard.is_lost()), "locks were lost in a view change");
    drop(guards);
    let copied = tokio::task::spawn_blocking(move || copies(held)).await??;
    let what = format!("view change of three sites with {held} held locks");
    Ok(vec![
        GoalRow {
            what: what.clone(),
            unit: "ms",
            ours: with,
            reference: Some(Reference { what: "with none".to_owned(), value: without }),
            goal: Some(Goal::Below(300.0)),
        },
        GoalRow {
            what,
            unit: "ms",
            ours: with,
            reference: Some(Reference { what: "to copy its census".to_owned(), value: copied }),
            goal: Some(Goal::RatioAtMost(5.0)),
        },
        GoalRow {
            what: format!("longest wait for a free lock with {held} held, over some renewals"),
            unit: "ms",
            ours: wait_with,
            reference: Some(Reference { what: "with none".to_owned(), value: wait_without }),
            goal: None,
        },
    ])
}

/// Acquires the locks, a third of them at each site.
async fn hold(cluster: &Cluster, held: usize) -> anyhow::Result<Vec<Guard>> {
    let mut running = JoinSet::new();
    for site in 0..SITES {
        let node = cluster[site].clone();
        running.spawn(async move {
            let mut guards = Vec::with_capacity(held / SITES + 1);
            for number in (site..held).step_by(SITES) {
                guards.push(node.lock(&name(number)).await?);
                tokio::task::consume_budget().await;
            }
            anyhow::Ok(guards)
        });
    }
    let mut guards = Vec::with_capacity(held);
    while let Some(of_site) = running.join_next().await {
        guards.extend(of_site??);
    }
    Ok(guards)
}

/// Returns the milliseconds from the order to change the rules until all sites are open in the new view, the median of several.
async fn view_changes(cluster: &Cluster) -> anyhow::Result<f64> {
    let mut took = Vec::new();
    for round in 0..TIMES {
        // Renewals and acknowledgements of the last round are over.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let rules = vec![(format!("round/{round}"), Clause::exclusive("lamport"))];
        let front = cluster[0].front();
        let last = front.node().look(|node| node.view().epoch);
        let start = Instant::now();
        let rules = RulesText { rules, ..RulesText::default() };
        front.set_rules(&front.in_process(), rules).await.context("the rules are changed")?;
        for node in cluster.nodes() {
            node.front().node().until(|state| state.open && state.epoch > last).await;
        }
        took.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(took))
}

/// Returns the longest time in milliseconds that a client at the first site waits for a lock that nobody else uses.
async fn longest_wait(cluster: &Cluster) -> anyhow::Result<f64> {
    let (node, start) = (cluster[0].clone(), Instant::now());
    drop(node.lock("unrelated").await?);
    tokio::task::spawn_blocking(move || {
        let mut longest = Duration::ZERO;
        while start.elapsed() < USED_FOR {
            let asked = Instant::now();
            drop(node.lock_blocking("unrelated")?);
            longest = longest.max(asked.elapsed());
        }
        Ok(longest.as_secs_f64() * 1e3)
    })
    .await?
}

/// Returns the milliseconds that it takes to copy the census of each site to both others, over a connection for each pair as between
/// sites: every piece is written, sent and read. The median of several.
fn copies(held: usize) -> anyhow::Result<f64> {
    let census: Vec<Vec<Packet>> = (0..SITES).map(|site| census_of(site, held)).collect();
    let mut took = Vec::new();
    for _ in 0..TIMES {
        let (mut senders, mut receivers) = (Vec::new(), Vec::new());
        for pieces in &census {
            let mut connections = Vec::new();
            for _ in 1..SITES {
                let (ours, theirs) = connection()?;
                connections.push(ours);
                receivers.push((theirs, pieces.len()));
            }
            senders.push((connections, pieces));
        }
        let start = Instant::now();
        thread::scope(|scope| {
            let sending = senders.into_iter().map(|(to, pieces)| scope.spawn(move || send(to, pieces)));
            let receiving =
                receivers.into_iter().map(|(from, count)| scope.spawn(move || receive(from, count)));
            let all: Vec<_> = sending.chain(receiving).collect();
            all.into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| anyhow::anyhow!("a copy failed"))?)
        })?;
        took.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(took))
}

fn connection() -> anyhow::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let ours = TcpStream::connect(listener.local_addr()?)?;
    let (theirs, _) = listener.accept()?;
    ours.set_nodelay(true)?;
    Ok((ours, theirs))
}

fn send(mut to: Vec<TcpStream>, pieces: &[Packet]) -> anyhow::Result<()> {
    for piece in pieces {
        for to in &mut to {
            let bytes = encode_packet(piece, VERSIONS.1);
            to.write_all(&u32::try_from(bytes.len())?.to_le_bytes())?;
            to.write_all(&bytes)?;
        }
    }
    Ok(())
}

fn receive(mut from: TcpStream, pieces: usize) -> anyhow::Result<()> {
    let (mut length, mut kept) = ([0; 4], Vec::new());
    for _ in 0..pieces {
        from.read_exact(&mut length)?;
        let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
        from.read_exact(&mut bytes)?;
        kept.push(decode_packet(&bytes, VERSIONS.1)?);
    }
    anyhow::ensure!(kept.len() == pieces, "all pieces have come");
    Ok(())
}

/// Returns the packets of the census of one site.
fn census_of(site: usize, held: usize) -> Vec<Packet> {
    let cluster = Founding::new("bench".parse().expect("a name"), &[]).id();
    let numbers: Vec<usize> = (site..held).step_by(SITES).collect();
    let holding = |number: &usize| {
        let lock: LockName = name(*number).parse().expect("a name");
        Holding { lock, slots: vec![Some(0)], permits: Some(1), modes: Vec::new() }
    };
    let packet = |numbers: &[usize]| {
        let holdings = numbers.iter().map(holding).collect();
        let body = LinkPayload::Census(CensusPiece {
            holdings,
            last: false,
            has_permits: true,
            key: None,
            has_modes: true,
        });
        let frame = Frame::Data { number: 1, ack: 0, epoch: meshlock_protocol::Epoch::default(), body };
        let content = Content::Link { to: Incarnation::new(1), frame };
        Packet::direct(cluster, Incarnation::new(1), content)
    };
    numbers.chunks(IN_A_PIECE).map(packet).collect()
}
