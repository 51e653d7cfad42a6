//! The state behind the engine's lock: the node itself, and how its outputs are carried out.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::disk::Sink;
use super::engine::{Listener, NodeState, SharedNode};
use super::log;
use super::meter::{HostMeter, Via};
use super::net::PeerConnection;
use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::{ClientAnswer, Input, Node, NodeOutput, Note, WriteToken};
use meshlock_cluster::table::{ClaimEvent, LockEvent, Request};
use meshlock_cluster::time::Time;
use meshlock_system::now;

/// The node, its listeners and its connections; everything that the engine's lock protects.
pub(super) struct Core {
    pub(super) node: Node,
    pub(super) outputs: Vec<NodeOutput>,
    pub(super) disk: Sink,
    /// WriteToken of the last batch that counts as written because there is no disk.
    pub(super) written: Option<WriteToken>,
    pub(super) peers: BTreeMap<SiteName, Arc<PeerConnection>>,
    pub(super) requests: FxHashMap<Request, Arc<dyn Listener>>,
    pub(super) open_sessions: usize,
    pub(super) last_request: u64,
    pub(super) last_session: u64,
    /// When the clock's task wakes up next.
    pub(super) armed: Time,
    /// Number of calls since packets of other sites were last read.
    pub(super) calls_without_read: u32,
    pub(super) has_failed: bool,
    pub(super) meter: HostMeter,
}

/// After this many calls, the caller of the next one also reads what the other sites have sent. While clients keep all cores busy the
/// node's own thread may not get to read, and then one site would keep a lock that others wait for far beyond its turns. Clients
/// alternate between acquire and release, so half of this is the number of entries a site may make while others wait.
const MAX_CALLS_WITHOUT_READ: u32 = 32;

/// Connections with newly queued packets, mostly none or one.
pub(super) type Touched = Vec<Arc<PeerConnection>>;

/// Writes queued packets to the sockets, after the lock is released.
pub(super) fn flush(touched: Touched) {
    for peer in touched {
        peer.flush();
    }
}

impl Core {
    pub(super) fn new(node: Node, outputs: Vec<NodeOutput>) -> Self {
        Core {
            node,
            outputs,
            disk: Sink::Memory,
            written: None,
            peers: BTreeMap::new(),
            requests: FxHashMap::default(),
            open_sessions: 0,
            last_request: 0,
            last_session: 0,
            armed: Time::ZERO,
            calls_without_read: 0,
            has_failed: false,
            meter: HostMeter::default(),
        }
    }

    /// Counts a call. Returns the connections that its caller has to read from, which is none for most calls.
    pub(super) fn peers_to_read(&mut self) -> Vec<Arc<PeerConnection>> {
        self.calls_without_read += 1;
        if self.calls_without_read < MAX_CALLS_WITHOUT_READ {
            return Vec::new();
        }
        self.calls_without_read = 0;
        self.peers.values().cloned().collect()
    }

    /// Lets the node handle an input. `since` is when the input was first noticed, if that was earlier than now.
    pub(super) fn handle(
        &mut self,
        input: Input,
        since: Option<Time>,
        shared: &Arc<SharedNode>,
        touched: &mut Touched,
    ) {
        if self.has_failed {
            return self.answer_for_the_failed(&input);
        }
        let handled = catch_unwind(AssertUnwindSafe(|| self.let_node_handle(input, since, shared, touched)));
        if handled.is_err() {
            self.on_panic();
            shared.state.send_modify(|state| (state.open, state.failed) = (false, true));
        }
    }

    fn let_node_handle(
        &mut self,
        input: Input,
        since: Option<Time>,
        shared: &Arc<SharedNode>,
        touched: &mut Touched,
    ) {
        let mut outputs = std::mem::take(&mut self.outputs);
        let mut next = Some(input);
        while let Some(input) = next {
            let (via, at) = (Via::of(&input), now());
            log::input(&input, &self.node);
            self.node.handle(at, input, &mut outputs);
            for output in outputs.drain(..) {
                let grants =
                    matches!(output, NodeOutput::Answer(ClientAnswer::Lock(LockEvent::Granted { .. })));
                self.perform(output, shared, touched);
                if let Some(via) = via.filter(|_| grants) {
                    self.meter.handed_over(via, now().since(since.unwrap_or(at)));
                }
            }
            next = self.written.take().map(Input::Persisted);
        }
        self.outputs = outputs;
    }

    fn perform(&mut self, output: NodeOutput, shared: &Arc<SharedNode>, touched: &mut Touched) {
        match output {
            NodeOutput::Send { to, packet } => {
                log::sends(&self.node.me().site, &to, &packet);
                let peer = self.peers.entry(to).or_insert_with_key(|to| shared.net.peer(to, shared));
                peer.push(&packet);
                if !touched.iter().any(|other| Arc::ptr_eq(other, peer)) {
                    touched.push(peer.clone());
                }
            }
            NodeOutput::Persist { token, writes } => match &self.disk {
                Sink::Memory => self.written = Some(token),
                Sink::Closed => {}
                // If the disk's thread has ended, the node is about to stop.
                Sink::Thread(disk) => drop(disk.send((token, writes))),
            },
            NodeOutput::Answer(ClientAnswer::Lock(LockEvent::Extended { lease_end })) => {
                shared.renewals.on_renewed(lease_end);
            }
            NodeOutput::Answer(ClientAnswer::Leaving) => {
                shared.state.send_modify(|state| state.leaving = true);
            }
            NodeOutput::Answer(answer) => {
                log::tells(&self.node.me().site, &answer);
                self.answer(&answer);
            }
            NodeOutput::Call { from, message } => shared.calls.deliver(from, message),
            NodeOutput::Note(note) => Core::note(&note, shared),
        }
    }

    pub(super) fn answer(&mut self, answer: &ClientAnswer) {
        let (request, over) = match answer {
            // It is for no request: whoever holds something asks for the lease's end.
            ClientAnswer::Lock(LockEvent::Extended { .. }) | ClientAnswer::Leaving => return,
            ClientAnswer::Lock(
                LockEvent::Granted { request, .. }
                | LockEvent::ModeChanged { request, .. }
                | LockEvent::ModeRefused { request, .. }
                | LockEvent::Lost { request, .. },
            )
            | ClientAnswer::Claim(
                ClaimEvent::Pending { request, .. } | ClaimEvent::Settled { request, .. },
            )
            | ClientAnswer::Proof { request, .. }
            | ClientAnswer::Traced { request, .. } => (request, false),
            ClientAnswer::Lock(
                LockEvent::Released { request }
                | LockEvent::Cancelled { request }
                | LockEvent::TimedOut { request }
                | LockEvent::Busy { request }
                | LockEvent::Unavailable { request, .. }
                | LockEvent::Refused { request, .. },
            )
            | ClientAnswer::Claim(ClaimEvent::Refused { request, .. })
            | ClientAnswer::Queue { request, .. }
            | ClientAnswer::Overview { request, .. }
            | ClientAnswer::Broken { request, .. }
            | ClientAnswer::Locks { request, .. }
            | ClientAnswer::Page { request, .. }
            | ClientAnswer::Deadlocks { request, .. }
            | ClientAnswer::Changes { request, .. }
            | ClientAnswer::Leaves { request, .. }
            | ClientAnswer::RulesSet { request, .. }
            | ClientAnswer::RulesRefused { request, .. }
            | ClientAnswer::AccessSet { request, .. }
            | ClientAnswer::AccessRefused { request, .. }
            | ClientAnswer::VotersChanged { request }
            | ClientAnswer::VotersRefused { request, .. }
            | ClientAnswer::Unavailable { request, .. }
            | ClientAnswer::Left { request } => (request, true),
        };
        let listener = if over { self.requests.remove(request) } else { self.requests.get(request).cloned() };
        if let Some(listener) = listener {
            listener.on_answer(answer);
        }
    }

    /// Logs a note and publishes what it changes: the node's state, and the addresses of an installed view's members.
    fn note(note: &Note, shared: &SharedNode) {
        log::note(note);
        if let Note::Opened(_) = note {
            shared.state.send_modify(|state| state.open = true);
        }
        if let Note::AccessAgreed(access) = note {
            shared.access.send_replace(Arc::new(access.clone()));
        }
        let Note::Installed(view) = note else { return };
        let (epoch, members) = (view.epoch, view.members.len());
        shared.state.send_modify(|state| {
            *state = NodeState { epoch, members, open: false, failed: false, leaving: state.leaving };
        });
        for member in &view.members {
            if let Some(address) = view.address(&member.site) {
                shared.net.learn_address(&member.site, address.to_string());
            }
        }
    }
}
