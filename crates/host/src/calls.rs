//! Calls of clients that members forward to each other: passes the messages between the node and whoever executes and awaits calls.

use std::sync::{Arc, Mutex, PoisonError};

use meshlock_cluster::names::Member;
use meshlock_cluster::node::CallMessage;

/// Receives messages about forwarded calls. Called with the node's lock held: an implementation must neither wait nor call the engine.
/// A message that it does not take is lost; the members repeat what matters.
pub trait CallListener: Send + Sync {
    fn on_message(&self, from: Member, message: CallMessage);
}

/// The listener of a node, if there is one.
#[derive(Default)]
pub(super) struct CallDelivery(Mutex<Option<Arc<dyn CallListener>>>);

impl CallDelivery {
    /// Replaces the listener.
    pub(super) fn set(&self, listener: Option<Arc<dyn CallListener>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = listener;
    }

    pub(super) fn deliver(&self, from: Member, message: CallMessage) {
        let listener = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(listener) = listener {
            listener.on_message(from, message);
        }
    }
}
