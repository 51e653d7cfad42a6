//! Connections that only keep the sessions of a process open, and over which nothing can be asked.
//!
//! A command under a lock inherits such a connection. The kernel says when the last process has closed it, also if everything that
//! watched over the command was killed. Whoever writes to it is cut off.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use meshlock_system::ProcessOwner;
use tokio::sync::Notify;

/// The open keep-alive connections of this machine's clients.
#[derive(Default)]
pub(super) struct KeepAlives {
    open: Mutex<BTreeMap<ProcessOwner, usize>>,
    closed: Notify,
}

/// An open keep-alive connection. It is counted until this is dropped.
pub(super) struct KeepAlive {
    all: Arc<KeepAlives>,
    peer: ProcessOwner,
}

impl KeepAlives {
    /// Counts a connection that this process has opened.
    pub(super) fn add(self: &Arc<Self>, peer: ProcessOwner) -> KeepAlive {
        *self.open().entry(peer).or_default() += 1;
        KeepAlive { all: self.clone(), peer }
    }

    /// Waits until all connections that this process has opened are closed, in whichever processes they are by now.
    pub(super) async fn until_closed(&self, peer: ProcessOwner) {
        loop {
            let mut closed = std::pin::pin!(self.closed.notified());
            closed.as_mut().enable();
            if !self.open().contains_key(&peer) {
                return;
            }
            closed.await;
        }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<ProcessOwner, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for KeepAlive {
    fn drop(&mut self) {
        let mut open = self.all.open();
        if let Some(count) = open.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.peer);
            }
        }
        drop(open);
        self.all.closed.notify_waiters();
    }
}
