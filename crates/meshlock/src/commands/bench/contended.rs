//! Three sites with eight clients each on one lock, beside the smallest central lock server with as many clients.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::bail;
use meshlock::Cluster;
use tokio::sync::Barrier;

use super::reference::{Client, serve_one_lock};
use super::{Goal, Reference, Row, wait_for};

const SITES: usize = 3;
const CLIENTS: usize = 8;

/// What clients count under the lock, and whether two ever did so at once.
#[derive(Default)]
struct Guarded {
    inside: AtomicBool,
    entries: AtomicU64,
    overlaps: AtomicU64,
    last: AtomicUsize,
    /// Entries by the client that had entered last.
    repeats: AtomicU64,
}

impl Guarded {
    fn enter(&self, client: usize) -> u64 {
        if self.inside.swap(true, Ordering::SeqCst) {
            self.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        if self.last.swap(client, Ordering::SeqCst) == client {
            self.repeats.fetch_add(1, Ordering::SeqCst);
        }
        let entry = self.entries.fetch_add(1, Ordering::SeqCst);
        self.inside.store(false, Ordering::SeqCst);
        entry
    }
}

pub(super) fn measure(entries: usize) -> anyhow::Result<Vec<Row>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (ours, jain) = ours(&runtime, entries)?;
    let central = central(&runtime, entries)?;
    let reference = Some(Reference { what: "smallest central lock server, TCP", value: central });
    let what = format!("{SITES} sites × {CLIENTS} clients on one lock");
    Ok(vec![
        Row { what: what.clone(), unit: "entries/s", ours, reference, goal: Some(Goal::RatioAtLeast(1.0)) },
        Row {
            what: format!("{what}: Jain's index"),
            unit: "",
            ours: jain,
            reference: None,
            goal: Some(Goal::AtLeast(0.99)),
        },
    ])
}

fn ours(runtime: &tokio::runtime::Runtime, entries: usize) -> anyhow::Result<(f64, f64)> {
    let cluster = Cluster::local(SITES)?;
    wait_for(cluster.ready())?;
    let (guarded, begin) = (Arc::new(Guarded::default()), Arc::new(Barrier::new(SITES * CLIENTS)));
    let start = Instant::now();
    let mut clients = Vec::new();
    for client in 0..SITES * CLIENTS {
        let (node, guarded, begin) = (cluster[client % SITES].clone(), guarded.clone(), begin.clone());
        clients.push(runtime.spawn(async move {
            let mut entered = 0_u64;
            begin.wait().await;
            loop {
                let guard = node.lock("bench").await?;
                let entry = guarded.enter(client);
                drop(guard);
                tokio::task::yield_now().await;
                if entry >= entries as u64 {
                    return anyhow::Ok(entered);
                }
                entered += 1;
            }
        }));
    }
    let mut each = Vec::new();
    for client in clients {
        each.push(runtime.block_on(client)??);
    }
    let seconds = start.elapsed().as_secs_f64();
    judge(&guarded)?;
    Ok((entries as f64 / seconds, jain(&each)))
}

fn central(runtime: &tokio::runtime::Runtime, entries: usize) -> anyhow::Result<f64> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    // A thread of its own, as a server has.
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = std::thread::spawn(move || -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            tokio::select! {
                served = serve_one_lock(tokio::net::TcpListener::from_std(listener)?) => served,
                _ = stopped => Ok(()),
            }
        })
    });
    let (guarded, begin) = (Arc::new(Guarded::default()), Arc::new(Barrier::new(SITES * CLIENTS)));
    let start = Instant::now();
    let mut clients = Vec::new();
    for client in 0..SITES * CLIENTS {
        let (guarded, begin) = (guarded.clone(), begin.clone());
        clients.push(runtime.spawn(async move {
            let mut connection = Client::connect(address).await?;
            begin.wait().await;
            loop {
                connection.acquire().await?;
                let entry = guarded.enter(client);
                connection.release().await?;
                tokio::task::yield_now().await;
                if entry >= entries as u64 {
                    return std::io::Result::Ok(());
                }
            }
        }));
    }
    for client in clients {
        runtime.block_on(client)??;
    }
    let seconds = start.elapsed().as_secs_f64();
    let _ = stop.send(());
    let _ = server.join();
    judge(&guarded)?;
    Ok(entries as f64 / seconds)
}

fn judge(guarded: &Guarded) -> anyhow::Result<()> {
    let overlaps = guarded.overlaps.load(Ordering::SeqCst);
    if overlaps > 0 {
        bail!("two clients were inside at once, {overlaps} times");
    }
    let (repeats, entries) = (guarded.repeats.load(Ordering::SeqCst), guarded.entries.load(Ordering::SeqCst));
    // Only the first and the last few entries of a run, when not everyone is there, may follow on one's own.
    if repeats > entries / 20 {
        bail!("{repeats} of {entries} entries by the client that had just left: this was not contended");
    }
    Ok(())
}

/// 1 if all have the same, 1/n if one has everything.
fn jain(each: &[u64]) -> f64 {
    let sum: f64 = each.iter().map(|entries| *entries as f64).sum();
    let squares: f64 = each.iter().map(|entries| (*entries as f64).powi(2)).sum();
    sum * sum / (each.len() as f64 * squares)
}
