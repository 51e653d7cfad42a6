//! How clients are told that something ends: a lease whose lock was lost, this site's lease, or the service as a whole.

use std::sync::Weak;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use meshlock_cluster::table::RequestRefusal;
use meshlock_cluster::time::Span;
use meshlock_host::front::{Ended, NotGranted};
use meshlock_system::now;
use tokio::sync::watch;
use tokio::time::sleep;
use tonic::Status;

use super::promise::can_promise;
use super::{AcquireState, Inner, SessionKey, Sessions};
use crate::metrics::SessionEnd;
use crate::sessions::registry::LeaseId;
use crate::slow_reader::Answers;

/// How often it is looked whether this site can promise anything.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// For how many looks it cannot until streams are ended: while a view changes, locks are not granted for a moment.
const MANY_LOOKS: u32 = 10;

/// What long calls are told of.
pub(super) struct Stopping {
    /// Incremented when a lease ends that its client did not end.
    losses: watch::Sender<u64>,
    /// Whether the site can promise its clients anything: what etcd's clients call having a leader.
    has_leader: watch::Sender<bool>,
    /// Whether the service ends.
    closing: watch::Sender<bool>,
}

impl Default for Stopping {
    fn default() -> Self {
        Stopping {
            losses: watch::Sender::new(0),
            has_leader: watch::Sender::new(true),
            closing: watch::Sender::new(false),
        }
    }
}

impl Stopping {
    pub(super) fn note_loss(&self) {
        self.losses.send_modify(|count| *count += 1);
    }
}

/// What a stream is told at its end.
pub(crate) struct StreamEnd {
    /// When the service ends; `None` if the stream itself says so.
    pub(crate) closing: Option<Status>,
    /// When the site loses its lease; `None` if the stream goes on without.
    pub(crate) no_leader: Option<Status>,
}

impl Sessions {
    /// Returns whether the service ends: nothing more is granted, and long calls are ended.
    pub(crate) fn is_closing(&self) -> bool {
        *self.0.stopping.closing.borrow()
    }

    /// Waits until the service ends.
    pub(crate) async fn until_closing(&self) {
        let mut closing = self.0.stopping.closing.subscribe();
        let _ = closing.wait_for(|closing| *closing).await;
    }

    /// A counter that is incremented when a lease ends that its client did not end, or cannot be renewed any more.
    pub(crate) fn losses(&self) -> watch::Receiver<u64> {
        self.0.stopping.losses.subscribe()
    }

    /// Waits until this site can promise nothing.
    async fn until_no_leader(&self) {
        let mut has_leader = self.0.stopping.has_leader.subscribe();
        while has_leader.wait_for(|has| !has).await.is_ok() {
            // It may have got one since it was looked.
            if !self.has_leader() || has_leader.changed().await.is_err() {
                return;
            }
        }
    }

    /// Ends all leases because this site stops serving. Clients are told, and waiting calls end. What is held stays taken until the end of
    /// this site's lease, because nobody knows whether the clients have heard it.
    pub(crate) fn close(&self) {
        let leases = self.0.registry().all_leases();
        self.0.stopping.closing.send_replace(true);
        for id in leases {
            self.0.close_lease(id);
        }
        self.0.stopping.note_loss();
        self.0.note_change();
    }
}

impl Inner {
    fn close_lease(&self, id: LeaseId) {
        let revoked = self.registry().revoke(id);
        let Some((owner, keys)) = revoked else { return };
        self.note_end(id, &owner, SessionEnd::Stopped);
        let leaving = || Ended::NotGranted(NotGranted::Refused(RequestRefusal::Leaving));
        for key in keys {
            if key.driver.state() == AcquireState::Waiting {
                self.end(&key, leaving());
            } else {
                self.end_with_lease(key);
            }
        }
    }

    /// Ends a held key when the site's lease, as it is now, is over. The node does it, because the service is gone by then.
    fn end_with_lease(&self, key: SessionKey) {
        key.driver.end(Ended::SessionOver);
        let left = self.front().lease_end().map_or(Span::ZERO, |end| end.since(now()));
        self.front().node().tasks().spawn(async move {
            sleep(Duration::from_micros(left.micros())).await;
            key.driver.close(Ended::SessionOver);
        });
    }
}

/// Notes when this site can promise nothing any more, and when it can again.
pub(super) async fn keep_looking(sessions: Weak<Inner>) {
    let mut without = 0;
    loop {
        let Some(sessions) = sessions.upgrade() else { return };
        without = if can_promise(&sessions.front) { 0 } else { MANY_LOOKS.min(without + 1) };
        let has_one = without < MANY_LOOKS;
        sessions.stopping.has_leader.send_if_modified(|has| std::mem::replace(has, has_one) != has_one);
        drop(sessions);
        sleep(LOOK_EVERY).await;
    }
}

/// Waits until it has happened and returns the status, if there is one; otherwise for ever.
async fn then(status: Option<Status>, happens: impl Future<Output = ()>) -> Status {
    match status {
        None => std::future::pending().await,
        Some(status) => {
            happens.await;
            status
        }
    }
}

/// Passes `answers` on until the service ends, or the site loses its lease. The last answer says so.
pub(crate) fn until_end<T: Send + 'static>(
    sessions: &Sessions,
    answers: Answers<T>,
    end: StreamEnd,
) -> Answers<T> {
    let sessions = sessions.clone();
    let StreamEnd { closing, no_leader } = end;
    let why = async move {
        tokio::select! {
            biased;
            status = then(closing, sessions.until_closing()) => status,
            status = then(no_leader, sessions.until_no_leader()) => status,
        }
    };
    Box::pin(stream::unfold(Some((answers, Box::pin(why))), |open| async move {
        let (mut answers, mut why) = open?;
        tokio::select! {
            biased;
            status = &mut why => Some((Err(status), None)),
            answer = answers.next() => Some((answer?, Some((answers, why)))),
        }
    }))
}
