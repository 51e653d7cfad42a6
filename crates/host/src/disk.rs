//! The disk's thread: what the node wants written is written in order, several batches in one go if they have gathered.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::store::StoreError;
use meshlock_cluster::membership::disk::Write;
use meshlock_cluster::node::Token;

/// How long to wait before a write that failed is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

type Batch = (Token, Vec<Write>);

/// Where batches of writes go.
pub(super) enum Sink {
    /// Nowhere: they count as written as soon as they are said.
    Memory,
    /// Nowhere, and they never count as written: the node has stopped.
    Closed,
    /// To the disk's thread.
    Thread(Sender<Batch>),
}

/// Starts the disk's thread: `write` makes writes durable, `done` is told the last token that is.
///
/// A write for which there is no room is tried again until there is: the node is not told, so it promises nothing meanwhile, its lease is
/// not renewed on what the disk does not have, and its clients learn of it in time. Once the other end of `stopped` is gone,
/// it is not tried again.
pub(super) fn start(
    name: String,
    mut write: impl FnMut(&[Write]) -> Result<(), StoreError> + Send + 'static,
    done: impl Fn(Token) + Send + 'static,
    stopped: Receiver<()>,
) -> std::io::Result<(Sink, JoinHandle<()>)> {
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        while let Some((token, writes)) = gather(&receiver) {
            let mut has_failed = false;
            while let Err(error) = write(&writes) {
                if !error.is_passing() {
                    return tracing::error!(%error, "the disk has failed: this site takes no part any more");
                }
                has_failed = true;
                tracing::error!(%error, "cannot write what the cluster agreed on; trying again");
                // Nothing is ever said here: it ends with the node.
                if stopped.recv_timeout(RETRY_AFTER) == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
            }
            if has_failed {
                tracing::info!("what could not be written is written");
            }
            done(token);
        }
    })?;
    Ok((Sink::Thread(sender), thread))
}

/// Waits for a batch and takes all that have gathered by then; none once nobody can send more.
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
    fn batches_are_written_in_order_and_the_last_token_is_said_after_all_of_them() {
        let (written, said) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let (to_write, to_say, seen) = (written.clone(), said.clone(), written.clone());
        let write = move |writes: &[Write]| {
            to_write.lock().unwrap().extend_from_slice(writes);
            Ok(())
        };
        let done = move |token: Token| to_say.lock().unwrap().push((token, seen.lock().unwrap().len()));
        let (sink, thread) = start("disk".to_owned(), write, done, channel().1).unwrap();
        let Sink::Thread(sender) = sink else { panic!("a thread was asked for") };
        let incarnation = |number| Write::Incarnation(Incarnation::new(number));
        for number in 1..=10 {
            sender.send((Token(number), vec![incarnation(number)])).unwrap();
        }
        drop(sender);
        meshlock_testing::joined("all is written", thread);
        assert_eq!(*written.lock().unwrap(), (1..=10).map(incarnation).collect::<Vec<_>>());
        let said = said.lock().unwrap();
        assert_eq!(said.last(), Some(&(Token(10), 10)));
        assert!(said.iter().all(|(token, count)| *count as u64 == token.0), "{said:?}");
    }
}
