//! One connected client: its requests, the answers, and how its session ends.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use meshlock_cluster::access::{Subject, Verb};
use meshlock_cluster::names::ClientLabel;
use meshlock_cluster::table::Session;
use meshlock_cluster::time::{Span, Time};
use meshlock_system::{ProcessTree, now};
use meshlock_tls::TlsError;
use meshlock_wire::clients::{
    Contact, MAX_OPEN, MAX_REQUEST_BYTES, RefusalKind, Tag, ToClient, ToNode, VERSIONS, common_version,
    length_of_message, put_to_client, take_to_node,
};
use rustc_hash::FxHashMap;
use tokio::time::timeout;

use super::accept::ConnectionSlot;
use super::asked::OpenRequest;
use super::keep_alive::KeepAlive;
use super::presence::{Door, Gone, is_maybe_hello, proved_label};
use crate::channel::Channel;
use crate::front::{AcquireParams, Admitted, Front};
use crate::gate::{Buffered, Caller, Connected, RequestId, RequestKind, TooFast};
use crate::meter::SessionEnd;
use crate::trust::{Ending, Untrusted, Watched};

/// Maximum number of bytes of one read.
const READ_BYTES: usize = 16 << 10;

/// A connected client.
pub(super) struct ConnectedClient {
    pub(super) front: Front,
    pub(super) channel: Channel,
    pub(super) door: Door,
    pub(super) opened: Time,
    pub(super) greeted: OnceLock<Greeted>,
    /// When its last message came, in microseconds.
    pub(super) last_message: AtomicU64,
    /// Its requests that have not ended.
    open: Mutex<FxHashMap<Tag, OpenRequest>>,
    /// Number of locks that it holds and has not lost.
    pub(super) held: AtomicUsize,
    /// Whether it has ever started a watch.
    pub(super) watches: AtomicBool,
    /// The processes to kill when a lock is lost and the client has gone.
    pub(super) tree: Mutex<Option<ProcessTree>>,
    /// Whether it has ever asked for a lock.
    pub(super) has_asked: AtomicBool,
    /// Whether it has promised to send something regularly, though it is on this machine.
    pub(super) stays_in_touch: AtomicBool,
    /// Set if the connection only keeps the sessions of its process open.
    pub(super) keep_alive: OnceLock<KeepAlive>,
    /// Whether it has ever asked for a proof of a lock.
    pub(super) has_proofs: AtomicBool,
    /// Says when its certificate is not accepted any more.
    ending: Arc<Ending>,
}

/// What is known of a client once it has said hello.
pub(super) struct Greeted {
    pub(super) caller: Admitted,
    pub(super) session: Session,
    /// After how much silence the session ends, if the client has to stay in touch.
    pub(super) silence: Span,
    /// The version of the protocol that both sides speak.
    version: u16,
    /// Counts the part of a message that a client over a network has sent.
    input: Option<Buffered>,
    /// Count the connection of a client over a network.
    _connected: Option<Connected>,
    _connection: Option<ConnectionSlot>,
    /// Registers the certificate that it has shown.
    _watched: Option<Watched>,
}

/// Closes the connection when the task that serves it ends, also where the node is dropped and its tasks with it: the client then sees the
/// same as if the node's process had ended.
struct CloseOnDrop(Arc<ConnectedClient>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.channel.close();
    }
}

impl ConnectedClient {
    /// Serves a client until its connection ends, then ends its session.
    pub(super) async fn talk(front: Front, channel: Channel, door: Door) {
        let opened = now();
        let client = Arc::new(ConnectedClient {
            front,
            channel,
            door,
            opened,
            greeted: OnceLock::new(),
            last_message: AtomicU64::new(opened.micros()),
            open: Mutex::default(),
            held: AtomicUsize::new(0),
            watches: AtomicBool::new(false),
            tree: Mutex::default(),
            has_asked: AtomicBool::new(false),
            stays_in_touch: AtomicBool::new(false),
            keep_alive: OnceLock::new(),
            has_proofs: AtomicBool::new(false),
            ending: Arc::default(),
        });
        // The connection is closed last: its end tells the client that everything is released.
        let _closing = CloseOnDrop(client.clone());
        let gone = tokio::select! {
            gone = client.read_all() => gone,
            () = client.channel.keep_writing() => client.how_gone(&Ok(false)),
            () = client.keep_telling_renewals() => Gone::CutOff,
            () = client.tell_leaving() => Gone::CutOff,
            () = client.until_evicted() => Gone::CutOff,
            why = client.ending.happened() => client.dismiss(why),
        };
        client.front.node().note_session_end(match gone {
            Gone::Ended => SessionEnd::Disconnected,
            Gone::CutOff => SessionEnd::CutOff,
        });
        client.channel.flush();
        if gone == Gone::CutOff {
            client.channel.close();
            client.forget_buffers();
            if client.has_proofs.load(Ordering::Relaxed) {
                return client.cut_session();
            }
            tokio::time::sleep(client.relies_for()).await;
        }
        client.until_processes_gone().await;
        client.end_session(gone);
    }

    /// Tells the client of every renewal of the site's lease, while it holds something that it has not lost. What it has lost was told
    /// before, and is not extended.
    async fn keep_telling_renewals(&self) {
        let mut renewals = self.front.node().renewals();
        while renewals.changed().await.is_ok() {
            let lease_end = *renewals.borrow_and_update();
            if self.held.load(Ordering::Acquire) > 0 {
                self.say(&ToClient::Extended { lease_end });
                self.channel.flush_soon();
            }
        }
    }

    /// Tells a client that has proofs when this site leaves, so that it claims elsewhere what it holds.
    async fn tell_leaving(&self) {
        self.front.node().until(|state| state.leaving).await;
        if self.has_proofs.load(Ordering::Relaxed) {
            self.say(&ToClient::Leaving);
            self.channel.flush_soon();
        }
        std::future::pending::<()>().await;
    }

    /// Leaves the session of a client with proofs to the node: the client may claim what it holds elsewhere, or here again.
    fn cut_session(&self) {
        let Some(Greeted { caller, session, .. }) = self.greeted.get() else { return };
        let open = std::mem::take(&mut *self.open());
        let acquisitions: Vec<_> = open.into_values().filter_map(|open| open.end(&self.front)).collect();
        let last_contact = Time::from_micros(self.last_message.load(Ordering::Relaxed));
        let relies_for = Span::from_micros(u64::try_from(self.relies_for().as_micros()).unwrap_or(u64::MAX));
        self.front.cut_session(caller, *session, acquisitions, (last_contact, relies_for));
    }

    /// Tells a client whose certificate is not accepted any more why its session ends.
    fn dismiss(&self, why: &Untrusted) -> Gone {
        if let Door::Network { address, .. } = &self.door {
            tracing::warn!(%address, %why, "a client's connection is ended: its session ends once the client cannot rely on it any more");
        }
        let waiting: Vec<Tag> =
            self.open().iter().filter(|(_, open)| !open.holds()).map(|(tag, _)| *tag).collect();
        for tag in waiting.into_iter().chain([0]) {
            self.refuse(tag, RefusalKind::Denied, why);
        }
        Gone::CutOff
    }

    fn end_session(&self, gone: Gone) {
        // A client that has not said hello has no session, and nothing is open.
        let Some(Greeted { caller, session, .. }) = self.greeted.get() else { return };
        // Open requests and the client refer to each other: taking them out breaks the cycle.
        let open = std::mem::take(&mut *self.open());
        let acquisitions: Vec<_> = open.into_values().filter_map(|open| open.end(&self.front)).collect();
        let why = if gone == Gone::Ended { "its client has gone" } else { "its client was cut off" };
        self.front.close_session(caller, *session, acquisitions, why);
    }

    /// Reads and handles the client's messages until it has gone or must be cut off.
    async fn read_all(self: &Arc<Self>) -> Gone {
        let (mut bytes, mut scratch) = (Vec::new(), vec![0; MAX_REQUEST_BYTES]);
        loop {
            if self.greeted.get().is_some() && scratch.len() < READ_BYTES {
                scratch.resize(READ_BYTES, 0);
            }
            let read = self.channel.read(&mut scratch, &mut bytes);
            let read = match self.waits_for() {
                None => read.await,
                Some(longest) => timeout(longest, read).await.unwrap_or(Err(io::ErrorKind::TimedOut.into())),
            };
            if let Ok(true) = read {
                let at = now();
                self.last_message.store(at.micros(), Ordering::Relaxed);
                self.front.node().on_message_read(at);
            } else {
                let gone = self.how_gone(&read);
                if gone == Gone::CutOff {
                    self.log_end(read.err());
                }
                return gone;
            }
            if self.greeted.get().is_none() && !is_maybe_hello(&bytes) {
                let why = "its first message is not a client's greeting; check whether it uses TLS";
                self.log_end(Some(io::Error::other(why)));
                return Gone::CutOff;
            }
            if self.keep_alive.get().is_some() {
                self.log_end(Some(io::Error::other(
                    "nothing can be asked over a connection that keeps a session open",
                )));
                return Gone::CutOff;
            }
            let mut at = 0;
            loop {
                match take_to_node(&bytes[at..]) {
                    Ok(Some((message, length))) => {
                        at += length;
                        if !self.on_message(message) {
                            return Gone::CutOff;
                        }
                    }
                    Ok(None) => break,
                    Err(error) => {
                        tracing::warn!(%error, "a client is cut off");
                        return Gone::CutOff;
                    }
                }
            }
            bytes.drain(..at);
            if let Err(why) = self.check_input(&mut bytes) {
                tracing::warn!(%why, "a client is cut off");
                self.refuse(0, RefusalKind::TooManyOpen, why);
                return Gone::CutOff;
            }
            self.tell_lost_lines();
            self.channel.flush();
        }
    }

    /// Checks the beginning of a message that has not arrived whole: only who may change the rules sends long ones, and what waits counts
    /// towards the client's limit.
    fn check_input(&self, bytes: &mut Vec<u8>) -> Result<(), String> {
        let Some(greeted) = self.greeted.get() else { return Ok(()) };
        let length = length_of_message(bytes).map_err(|error| error.to_string())?;
        if let Some(length) = length.filter(|length| *length > MAX_REQUEST_BYTES)
            && !self.front.may(&greeted.caller, Verb::Admin, Subject::Cluster)
        {
            return Err(format!(
                "a message of {length} bytes; at most {MAX_REQUEST_BYTES} are allowed without the right to admin"
            ));
        }
        if bytes.is_empty() && bytes.capacity() > READ_BYTES {
            *bytes = Vec::new();
        }
        greeted
            .input
            .as_ref()
            .map_or(Ok(()), |input| input.resize(bytes.len()).map_err(|error| error.to_string()))
    }

    /// Forgets what was received and what was not sent: the session may last for longer than its connection.
    fn forget_buffers(&self) {
        self.channel.discard();
        if let Some(input) = self.greeted.get().and_then(|greeted| greeted.input.as_ref()) {
            // Becoming smaller never fails.
            let _ = input.resize(0);
        }
    }

    /// Handles a message. Returns whether the client may continue.
    fn on_message(self: &Arc<Self>, message: ToNode) -> bool {
        let Some(greeted) = self.greeted.get() else {
            return self.on_first_message(message);
        };
        let Some(kind) = kind_of(&message) else {
            self.refuse(0, RefusalKind::BadRequest, "hello is said once");
            return false;
        };
        let admitted = self.front.admit_again(&greeted.caller, kind);
        match message {
            ToNode::Ping(tag) => {
                if admitted.is_err() {
                    self.log_end(Some(io::Error::other("it sends pings too often")));
                    return false;
                }
                self.say(&ToClient::Pong { tag, time: now() });
            }
            ToNode::Cancel(tag) => self.on_end(tag, OpenRequest::cancel),
            ToNode::Release(tag) => self.on_end(tag, OpenRequest::release),
            ToNode::Guard { group } => self.guard(group),
            ToNode::Party { party } => self.front.join_party(greeted.session, party),
            ToNode::StayInTouch => self.stays_in_touch.store(true, Ordering::Relaxed),
            ToNode::Hello { .. } | ToNode::KeepAlive => {}
            ToNode::Acquire { tag, lock, wait, permits } => self.unless_too_fast(tag, admitted, || {
                self.acquire(greeted, tag, AcquireParams { lock, wait, permits, cause: None });
            }),
            // Without an answer a client has no proof. A refusal would mean its request for the lock.
            ToNode::Prove { tag } => {
                if admitted.is_ok() {
                    self.prove(tag);
                }
            }
            ToNode::Claim { tag, proof, contact } => self.unless_too_fast(tag, admitted, || {
                self.claim(greeted, tag, *proof, contact);
            }),
            ToNode::Changes { tag, pattern } => {
                self.unless_too_fast(tag, admitted, || self.tell_changes(greeted, tag, &pattern));
            }
            ToNode::Watch { tag, pattern, states } => {
                self.unless_too_fast(tag, admitted, || self.watch(greeted, tag, &pattern, states));
            }
            ToNode::Queue { tag, .. }
            | ToNode::Status { tag }
            | ToNode::Break { tag, .. }
            | ToNode::SetRules { tag, .. }
            | ToNode::Locks { tag }
            | ToNode::Remove { tag, .. }
            | ToNode::Leave { tag }
            | ToNode::ChangeVoters { tag, .. }
            | ToNode::Access { tag }
            | ToNode::SetAccess { tag, .. }
            | ToNode::LockPage { tag, .. }
            | ToNode::Deadlocks { tag }
            | ToNode::Diagnose { tag, .. } => {
                self.unless_too_fast(tag, admitted, || self.ask(greeted.caller.clone(), tag, message));
            }
        }
        true
    }

    /// Handles the message by which a connection says what it is for. Returns whether the client may continue.
    fn on_first_message(self: &Arc<Self>, message: ToNode) -> bool {
        if self.keep_alive.get().is_some() {
            return false;
        }
        if let ToNode::Hello { version, who } = message {
            return self.welcome(version, who);
        }
        if message == ToNode::KeepAlive {
            return self.keep_alive();
        }
        self.refuse(0, RefusalKind::BadRequest, "say hello first");
        false
    }

    /// Runs `act` if the client was admitted, or tells it that it exceeds its rate limit.
    fn unless_too_fast(&self, tag: Tag, admitted: Result<(), TooFast>, act: impl FnOnce()) {
        match admitted {
            Ok(()) => act(),
            Err(error) => self.refuse(tag, RefusalKind::TooFast, error),
        }
    }

    /// Counts what is kept for a client whom the rules bind, and returns the counter of what it has sent of a message.
    fn count_buffers(&self, caller: &Admitted) -> Option<Buffered> {
        let buffer = || caller.is_bound_by_rules().then(|| self.front.buffer(caller));
        if let (Some(queue), Some(wire)) = (buffer(), buffer()) {
            self.channel.count(queue, wire);
        }
        buffer()
    }

    /// Registers the certificate of a client over a network.
    fn watch_certificate(&self) -> Result<Option<Watched>, TlsError> {
        match &self.door {
            Door::Local { .. } => Ok(None),
            Door::Network { trust, .. } => self.channel.register(trust, &self.ending),
        }
    }

    fn welcome(self: &Arc<Self>, theirs: u16, who: ClientLabel) -> bool {
        let Some(version) = common_version(theirs) else {
            let (low, high) = VERSIONS;
            let why = format!(
                "this node speaks versions {low} to {high} to clients, and the client {theirs}; \
                 run versions of meshlock that are at most one apart"
            );
            self.refuse(0, RefusalKind::Version, why);
            return false;
        };
        let principal = self.principal().map_err(|error| error.to_string());
        let watched = self.watch_certificate().map_err(|error| error.to_string());
        let (principal, watched) = match (principal, watched) {
            (Ok(principal), Ok(watched)) => (Ok(principal), watched),
            (Err(error), _) | (_, Err(error)) => (Err(error), None),
        };
        let caller = principal.map(|principal| Caller {
            principal,
            origin: self.origin(),
            // The session ends with the connection, and so with the certificate.
            certificate: None,
            request: RequestId::new(),
        });
        let greeted = caller.and_then(|caller| self.front.greet(caller).map_err(|error| error.to_string()));
        let (caller, connected) = match greeted {
            Ok(greeted) => greeted,
            Err(error) => {
                if let Door::Network { address, .. } = &self.door {
                    tracing::warn!(%address, %error, "a client is refused");
                }
                self.say_in(version, &ToClient::Refused { tag: 0, kind: RefusalKind::Denied, why: error });
                return false;
            }
        };
        let connection = match &self.door {
            Door::Local { .. } => None,
            Door::Network { newcomer, .. } => {
                let Some(connection) = newcomer.settle() else {
                    let why = "too many clients are connected to this node; use another one, or try later";
                    self.say_in(
                        version,
                        &ToClient::Refused { tag: 0, kind: RefusalKind::TooManyOpen, why: why.to_owned() },
                    );
                    return false;
                };
                Some(connection)
            }
        };
        let (silence, drift) = (self.silence(), self.front.drift());
        let contact = Some(Contact { silence, drift });
        let unreachable_for = if connection.is_some() { silence } else { Span::ZERO };
        let input = self.count_buffers(&caller);
        let who = proved_label(&caller, &who);
        let session = self.front.open_client_session(&caller, who, unreachable_for);
        let _ = self.greeted.set(Greeted {
            caller,
            session,
            silence,
            version,
            input,
            _connected: connected,
            _connection: connection,
            _watched: watched,
        });
        self.say(&ToClient::Welcome { version, site: self.front.site().clone(), time: now(), contact });
        true
    }

    /// Reserves a tag, if it is new and not too many are open. The request is [stored](Self::keep) later, because its answer may come
    /// before that.
    pub(super) fn reserve(&self, tag: Tag) -> bool {
        let mut open = self.open();
        if open.contains_key(&tag) || open.len() >= MAX_OPEN {
            drop(open);
            let why = format!("number {tag} is in use, or more than {MAX_OPEN} are open; end some first");
            self.refuse(tag, RefusalKind::TooManyOpen, why);
            return false;
        }
        open.insert(tag, OpenRequest::Starting);
        true
    }

    /// Stores the request of a reserved tag, unless it has already ended.
    pub(super) fn keep(&self, tag: Tag, what: OpenRequest) {
        if let Some(open) = self.open().get_mut(&tag) {
            *open = what;
        }
    }

    /// Removes a request that has ended. Returns whether it was open.
    pub(super) fn forget(&self, tag: Tag) -> bool {
        self.open().remove(&tag).is_some()
    }

    fn on_end(&self, tag: Tag, end: impl FnOnce(&OpenRequest, &Front) -> bool) {
        // Cloned, so that the lock is not held while the request ends: its answer takes the lock.
        let open = self.open().get(&tag).cloned();
        let Some(open) = open else {
            return self.refuse(
                tag,
                RefusalKind::BadRequest,
                format!("there is no request {tag}; it may be over"),
            );
        };
        if !end(&open, &self.front) {
            self.forget(tag);
            self.say(&ToClient::Cancelled(tag));
        }
    }

    pub(super) fn refuse(&self, tag: Tag, kind: RefusalKind, why: impl std::fmt::Display) {
        self.say(&ToClient::Refused { tag, kind, why: why.to_string() });
    }

    /// Queues a message for the client. The caller flushes the channel.
    pub(super) fn say(&self, message: &ToClient) {
        // A client that has not said hello can only be refused. That is sent in the oldest version, which every client can read.
        self.say_in(self.greeted.get().map_or(VERSIONS.0, |greeted| greeted.version), message);
    }

    fn say_in(&self, version: u16, message: &ToClient) {
        self.channel.push(|bytes| put_to_client(message, version, bytes));
    }

    pub(super) fn open(&self) -> MutexGuard<'_, FxHashMap<Tag, OpenRequest>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns how a message counts towards the client's rate limit; `None` for a greeting, which is limited by the number of connections.
fn kind_of(message: &ToNode) -> Option<RequestKind> {
    match message {
        ToNode::Hello { .. } | ToNode::KeepAlive => None,
        ToNode::Ping(_) | ToNode::StayInTouch | ToNode::Prove { .. } | ToNode::Party { .. } => {
            Some(RequestKind::Renew)
        }
        // A guard says who must stop when a lock is lost: without it the lock could not be given back in time.
        ToNode::Cancel(_) | ToNode::Release(_) | ToNode::Guard { .. } => Some(RequestKind::GiveBack),
        ToNode::Acquire { .. }
        | ToNode::Claim { .. }
        | ToNode::Watch { .. }
        | ToNode::Queue { .. }
        | ToNode::Status { .. }
        | ToNode::Break { .. }
        | ToNode::SetRules { .. }
        | ToNode::Locks { .. }
        | ToNode::Remove { .. }
        | ToNode::Leave { .. }
        | ToNode::ChangeVoters { .. }
        | ToNode::Access { .. }
        | ToNode::SetAccess { .. }
        | ToNode::LockPage { .. }
        | ToNode::Deadlocks { .. }
        | ToNode::Changes { .. }
        | ToNode::Diagnose { .. } => Some(RequestKind::Ask),
    }
}
