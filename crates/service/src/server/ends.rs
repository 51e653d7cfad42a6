//! The end of all connections when the service stops: calls are ended with a word, which is sent before the connections close.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// How long clients may take to read the last words.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Tells all connections that they end, and waits for them. Clones share the same state.
#[derive(Clone)]
pub(super) struct ConnectionEnds(Arc<watch::Sender<bool>>);

/// A connection that is open until this is dropped.
pub(super) struct OpenConnection(
    #[expect(dead_code, reason = "it is counted until this is dropped")] watch::Receiver<bool>,
);

impl ConnectionEnds {
    pub(super) fn new() -> Self {
        ConnectionEnds(Arc::new(watch::Sender::new(false)))
    }

    /// Counts a connection.
    pub(super) fn open(&self) -> OpenConnection {
        OpenConnection(self.0.subscribe())
    }

    /// Returns whether connections end.
    pub(super) fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until connections end.
    pub(super) async fn begun(&self) {
        let _ = self.0.subscribe().wait_for(|begun| *begun).await;
    }

    /// Ends all connections: their calls complete, and no new ones begin. Waits for clients that read what they are sent.
    pub(super) async fn end_all(&self) {
        self.0.send_replace(true);
        let _ = timeout(LAST_WORDS, self.0.closed()).await;
    }
}
