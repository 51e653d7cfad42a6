//! How the rest of the program calls a running node, from any thread.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;

use super::super::core::{Core, Touched, flush};
use super::super::log;
use super::super::pending::Evictions;
use super::super::published::Published;
use super::super::trust::Trust;
use super::{Listener, NodeState, SharedNode};
use meshlock_cluster::access::AgreedAccess;
use meshlock_cluster::node::{ClientCall, Input, Node};
use meshlock_cluster::table::{Request, Session};
use meshlock_cluster::time::Time;

/// A handle for calling a node. All clones refer to the same node.
#[derive(Clone)]
pub struct Handle {
    pub(in super::super) shared: Arc<SharedNode>,
    pub(super) tasks: tokio::runtime::Handle,
}

/// The node with its lock held.
pub(crate) struct Locked<'a> {
    core: MutexGuard<'a, Core>,
    shared: &'a Arc<SharedNode>,
    touched: Touched,
}

impl Handle {
    /// Returns the number of connections that had to make room for others, by port.
    pub fn evictions(&self) -> &Evictions {
        &self.shared.net.evictions
    }

    /// Returns a channel with the access document that the node knows, which changes with it.
    pub(crate) fn access(&self) -> watch::Receiver<Arc<AgreedAccess>> {
        self.shared.access.subscribe()
    }

    /// Returns what the node's connections rely on.
    pub fn trust(&self) -> &Trust {
        self.shared.net.trust()
    }

    /// Returns the runtime of the node's own thread. Tasks that run there learn of network events soonest.
    pub fn tasks(&self) -> &tokio::runtime::Handle {
        &self.tasks
    }

    /// Waits for `time` by the clock of the node's own runtime, so that callers need no runtime. Returns whether the node still runs;
    /// if it has stopped, nobody counts the time, and this returns at once.
    pub async fn sleep(&self, time: Duration) -> bool {
        /// Ends the task when its caller goes away.
        struct Sleeping(tokio::task::JoinHandle<()>);
        impl Drop for Sleeping {
            fn drop(&mut self) {
                self.0.abort();
            }
        }
        let mut sleeping = Sleeping(self.tasks.spawn(async move { tokio::time::sleep(time).await }));
        (&mut sleeping.0).await.is_ok()
    }

    /// Waits for `future`, at most for `limit` by the clock of the node's own runtime. Returns `None` if it did not complete in time.
    pub async fn within<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = future => Some(output),
            _ = self.sleep(limit) => None,
        }
    }

    /// Runs `act` with the node's lock taken once: to all other threads, everything that it does is one step.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Locked<'_>) -> R) -> R {
        let mut locked = Locked { core: self.shared.lock(), shared: &self.shared, touched: Touched::new() };
        let result = act(&mut locked);
        let Locked { mut core, touched, .. } = locked;
        self.shared.finish(&mut core);
        let to_read = core.peers_to_read();
        drop(core);
        flush(touched);
        for peer in to_read {
            peer.read_now(&self.shared);
        }
        result
    }

    /// Notices that a client's message came from a socket at this time.
    pub(in super::super) fn on_message_read(&self, at: Time) {
        self.shared.busy_poll.on_input(at);
    }

    /// Returns what may be read without the node's lock.
    pub(in super::super) fn published(&self) -> &Published {
        &self.shared.published
    }

    /// Returns until when everything lasts that is held here and not lost, as of the last renewal of the lease. A caller reads this before
    /// it looks whether its lock is lost.
    pub fn renewed_until(&self) -> Time {
        self.shared.renewals.end()
    }

    /// Returns a channel with that time, which changes after every renewal.
    pub(crate) fn renewals(&self) -> watch::Receiver<Time> {
        self.shared.renewals.watch()
    }

    /// Returns the node's state, without the node's lock.
    pub fn state(&self) -> NodeState {
        *self.shared.state.borrow()
    }

    /// Waits until `wanted` holds of the node's state.
    pub async fn until(&self, wanted: impl FnMut(&NodeState) -> bool) -> NodeState {
        let mut state = self.shared.state.subscribe();
        *state.wait_for(wanted).await.expect("this handle keeps the other end")
    }

    /// Reads the node's state with its lock held.
    pub fn look<R>(&self, look: impl FnOnce(&Node) -> R) -> R {
        look(&self.shared.lock().node)
    }
}

impl Locked<'_> {
    pub(crate) fn node(&self) -> &Node {
        &self.core.node
    }

    /// Opens a session.
    pub(crate) fn open_session(&mut self) -> Session {
        self.core.last_session += 1;
        self.core.open_sessions += 1;
        Session(self.core.last_session)
    }

    /// Ends a session, once, and releases what it holds. The listeners of its `requests` are not called again.
    pub(crate) fn close_session(&mut self, session: Session, requests: impl IntoIterator<Item = Request>) {
        self.core.open_sessions = self.core.open_sessions.saturating_sub(1);
        for request in requests {
            self.core.requests.remove(&request);
            log::ends(&self.core.node.me().site, request);
        }
        self.call(ClientCall::SessionEnded(session));
    }

    /// Makes a call under a new request number. Its answers go to `listener`, possibly before this function returns.
    pub(crate) fn ask(
        &mut self,
        listener: Arc<dyn Listener>,
        call: impl FnOnce(Request) -> ClientCall,
    ) -> Request {
        self.core.last_request += 1;
        let request = Request(self.core.last_request);
        self.core.requests.insert(request, listener);
        self.call(call(request));
        request
    }

    /// Makes a call that concerns an existing request or session.
    pub(crate) fn call(&mut self, call: ClientCall) {
        self.core.handle(Input::Call(call), None, self.shared, &mut self.touched);
    }

    /// Removes the listener of this request.
    pub(crate) fn forget(&mut self, request: Request) {
        self.core.requests.remove(&request);
    }
}
