//! The disk's thread: it writes the node's batches in order, and several at once if they have queued up.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::store::StoreError;
use meshlock_cluster::membership::disk::DiskWrite;
use meshlock_cluster::node::WriteToken;

/// How long to wait before a write that failed is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The target of log lines about writes that fail. They are few, and each is about another event, so none of them is left out.
const TARGET: &str = "meshlock::disk";

type Batch = (WriteToken, Vec<DiskWrite>);

/// Where batches of writes go.
pub(super) enum Sink {
    /// Nowhere: batches count as written at once.
    Memory,
    /// Nowhere, and batches never count as written: the node has stopped.
    Closed,
    /// To the disk's thread.
    Thread(Sender<Batch>),
}

/// Starts the disk's thread. `write` makes writes durable; `done` is called with the last token that is durable.
///
/// A write for which the disk has no room is retried until it succeeds. Meanwhile the node is not told that it was written, so it makes
/// no promise that depends on it, its lease is not renewed on the strength of it, and its clients learn of that in time. Retries end
/// when the sender of `stopped` is dropped.
pub(super) fn start(
    name: String,
    mut write: impl FnMut(&[DiskWrite]) -> Result<(), StoreError> + Send + 'static,
    done: impl Fn(WriteToken) + Send + 'static,
    stopped: Receiver<()>,
) -> std::io::Result<(Sink, JoinHandle<()>)> {
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        while let Some((token, writes)) = gather(&receiver) {
            let mut attempts = 0_u64;
            while let Err(error) = write(&writes) {
                if !error.is_passing() {
                    return tracing::error!(%error, "the disk has failed: this site cannot vote or lead any more; replace the disk and start the site again");
                }
                attempts += 1;
                if attempts.is_power_of_two() {
                    tracing::error!(target: TARGET, %error, attempts, "cannot write what the cluster agreed on; trying again");
                }
                // Nothing is ever sent on this channel: it disconnects when the node stops.
                if stopped.recv_timeout(RETRY_AFTER) == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
            }
            if attempts > 0 {
                tracing::info!(target: TARGET, attempts, "the disk accepts writes again; all delayed writes are durable");
            }
            done(token);
        }
    })?;
    Ok((Sink::Thread(sender), thread))
}

/// Waits for a batch and merges all batches that have queued up by then; `None` once all senders are dropped.
fn gather(receiver: &Receiver<Batch>) -> Option<Batch> {
    let (mut token, mut writes) = receiver.recv().ok()?;
    while let Ok((next, more)) = receiver.try_recv() {
        token = next;
        writes.extend(more);
    }
    Some((token, writes))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use meshlock_cluster::names::Incarnation;

    #[test]
    fn batches_are_written_in_order_and_the_last_token_is_reported_after_all_of_them() {
        let (written, said) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let (to_write, to_say, seen) = (written.clone(), said.clone(), written.clone());
        let write = move |writes: &[DiskWrite]| {
            to_write.lock().unwrap().extend_from_slice(writes);
            Ok(())
        };
        let done = move |token: WriteToken| to_say.lock().unwrap().push((token, seen.lock().unwrap().len()));
        let (sink, thread) = start("disk".to_owned(), write, done, channel().1).unwrap();
        let Sink::Thread(sender) = sink else { panic!("a thread was asked for") };
        let incarnation = |number| DiskWrite::Incarnation(Incarnation::new(number));
        for number in 1..=10 {
            sender.send((WriteToken(number), vec![incarnation(number)])).unwrap();
        }
        drop(sender);
        meshlock_testing::joined("all is written", thread);
        assert_eq!(*written.lock().unwrap(), (1..=10).map(incarnation).collect::<Vec<_>>());
        let said = said.lock().unwrap();
        assert_eq!(said.last(), Some(&(WriteToken(10), 10)));
        assert!(said.iter().all(|(token, count)| *count as u64 == token.0), "{said:?}");
    }
}
