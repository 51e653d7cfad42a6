//! A client that is connected: what it says, what it hears, and how its session ends.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::super::channel::Channel;
use super::super::engine::{Handle, Listener};
use super::super::gate::{Act, Gate};
use super::super::meter::SessionEnd;
use super::super::permits::agree_on_permits;
use super::door::{Door, may_be_hello};
use super::group::{kill_by, until_gone};
use super::rights::{Known, act_of};
use super::words::answered;
use meshlock_cluster::names::{ClientLabel, LockName};
use meshlock_cluster::node::{Answer, Call};
use meshlock_cluster::table::{Request, Session, Tell, Wait};
use meshlock_cluster::time::{Span, Time};
use meshlock_system::Group;
use meshlock_system::now;
use meshlock_wire::clients::{Contact, MOST_OPEN, Patience, Tag, ToClient, ToNode, VERSION, put, take};

/// How much is read from a client at once.
const READ_BYTES: usize = 16 << 10;

/// How long one that does not want to wait waits until the cluster has agreed on a semaphore's permits.
const TRY_WITHIN: Duration = Duration::from_secs(2);

/// A connected client.
pub(super) struct Client {
    pub(super) node: Handle,
    pub(super) channel: Channel,
    pub(super) door: Door,
    pub(super) opened: Time,
    pub(super) greeted: OnceLock<Known>,
    pub(super) gate: Arc<Gate>,
    /// When it said something last, in microseconds.
    pub(super) heard: AtomicU64,
    open: Mutex<FxHashMap<Tag, Arc<Asked>>>,
    /// Whether it has ever watched.
    pub(super) watches: OnceLock<()>,
    /// What is to be ended when something is lost.
    pub(super) group: Mutex<Option<Group>>,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// No process has it open any more.
    Gone,
    /// This node has ended it, or nobody knows.
    CutOff,
}

/// Something that a client asked for.
pub(super) struct Asked {
    pub(super) client: Arc<Client>,
    pub(super) tag: Tag,
    /// Which lock it is about, if it is about one.
    lock: Option<LockName>,
    /// The node's number for it, once it has one.
    request: OnceLock<Request>,
    /// Stops the agreement on a semaphore's permits, which comes first.
    agreeing: OnceLock<AbortHandle>,
    /// For one who watches: how many lines it has lost and not been told of, and how the two clocks of this machine differ.
    pub(super) untold: AtomicU64,
    pub(super) origin: AtomicU64,
}

impl Client {
    /// Talks with a client until its connection ends; with it, its session.
    pub(super) async fn talk(node: Handle, channel: Channel, door: Door, gate: Arc<Gate>) {
        let (open, group, greeted) = (Mutex::default(), Mutex::default(), OnceLock::new());
        let opened = now();
        let heard = AtomicU64::new(opened.micros());
        let watches = OnceLock::new();
        let client =
            Arc::new(Client { node, channel, door, opened, greeted, gate, heard, open, watches, group });
        let session = client.node.open_session(client.clone());
        let ending = tokio::select! {
            ending = client.hear_all(session) => ending,
            () = client.channel.keep_writing() => {
                if client.has_gone(&Ok(false)) { Ending::Gone } else { Ending::CutOff }
            }
        };
        client.node.note_session_end(match ending {
            Ending::Gone => SessionEnd::Disconnected,
            Ending::CutOff => SessionEnd::CutOff,
        });
        client.channel.flush();
        if ending == Ending::CutOff {
            client.channel.close();
            tokio::time::sleep(client.may_believe_for()).await;
        }
        // A copy: should the lock be lost meanwhile, the group is ended.
        let group = *client.group.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = group {
            until_gone(group).await;
        }
        // What was asked refers to the client: let go of each other.
        let open = std::mem::take(&mut *client.open());
        open.values().filter_map(|asked| asked.agreeing.get()).for_each(AbortHandle::abort);
        let requests = open.values().filter_map(|asked| asked.request.get().copied());
        client.node.close_session(session, requests);
        let why = if ending == Ending::Gone { "its client has gone" } else { "its client was cut off" };
        client.audit(None, || Act::Ended { session: None, why });
        // Whoever waits for the end of the connection knows then that everything is free.
        client.channel.close();
    }

    /// Hears all that the client says, until it has gone or has to be cut off.
    async fn hear_all(self: &Arc<Self>, session: Session) -> Ending {
        let (mut bytes, mut scratch) = (Vec::new(), vec![0; READ_BYTES]);
        loop {
            let read = self.channel.read(&mut scratch, &mut bytes);
            let read = match self.patience() {
                None => read.await,
                Some(patience) => {
                    timeout(patience, read).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
                }
            };
            match read {
                Ok(true) => self.heard.store(now().micros(), Ordering::Relaxed),
                Ok(false) | Err(_) if self.has_gone(&read) => return Ending::Gone,
                Ok(false) | Err(_) => {
                    self.complain(read.err());
                    return Ending::CutOff;
                }
            }
            if self.greeted.get().is_none() && !may_be_hello(&bytes) {
                self.complain(Some(io::Error::other(
                    "what it says is no greeting of a client; is it set to TLS?",
                )));
                return Ending::CutOff;
            }
            let mut at = 0;
            loop {
                match take::<ToNode>(&bytes[at..]) {
                    Ok(Some((said, length))) => {
                        at += length;
                        if !self.hear_from(session, said) {
                            return Ending::CutOff;
                        }
                    }
                    Ok(None) => break,
                    Err(error) => {
                        tracing::warn!(%error, "a client is cut off");
                        return Ending::CutOff;
                    }
                }
            }
            bytes.drain(..at);
            self.tell_lost();
            self.channel.flush();
        }
    }

    /// The client has said something. Gives back whether it may go on.
    fn hear_from(self: &Arc<Self>, session: Session, said: ToNode) -> bool {
        if let ToNode::Hello { version, who } = said {
            return self.welcome(session, version, who);
        }
        let Some(Known { caller, .. }) = self.greeted.get() else {
            self.refuse(0, "say hello first".to_owned());
            return false;
        };
        if let Some(refused) = self.judge(caller, &said) {
            self.refuse(refused.0, refused.1);
            return true;
        }
        match said {
            ToNode::Hello { .. } => {}
            ToNode::Ping(_) if self.pings_too_fast(caller) => {
                self.complain(Some(io::Error::other("it says too often that it is there")));
                return false;
            }
            ToNode::Ping(tag) => self.say(&ToClient::Pong { tag, time: now() }),
            ToNode::Acquire { tag, lock, patience, permits } => {
                self.acquire(session, tag, lock, patience, permits);
            }
            ToNode::Cancel(tag) => self.about(tag, Call::Cancel),
            ToNode::Release(tag) => self.about(tag, Call::Release),
            ToNode::Guard { group } => self.guard(group),
            ToNode::Queue { tag, lock } => self.ask(tag, None, |request| Call::Query { request, lock }),
            ToNode::Status { tag } => self.ask(tag, None, |request| Call::Overview { request }),
            ToNode::Break { tag, lock } => {
                self.ask(tag, Some(lock.clone()), |request| Call::Break { request, lock });
            }
            ToNode::SetRules { tag, rules } => {
                self.ask(tag, None, |request| Call::SetRules { request, rules });
            }
            ToNode::Locks { tag } => self.ask(tag, None, |request| Call::Locks { request }),
            ToNode::Remove { tag, site } => {
                self.audit(None, || Act::Removed { site: Some(site.clone()) });
                self.ask(tag, None, |request| Call::Remove { request, site });
            }
            ToNode::Leave { tag } => {
                self.audit(None, || Act::Removed { site: None });
                self.ask(tag, None, |request| Call::Leave { request });
            }
            ToNode::Watch { tag, pattern, states } => self.watch(session, tag, &pattern, states),
        }
        true
    }

    fn welcome(&self, session: Session, version: u16, who: ClientLabel) -> bool {
        if version != VERSION {
            self.refuse(
                0,
                format!("this node speaks version {VERSION} to clients, not {version}; use the same version"),
            );
            return false;
        }
        let (known, who) = match self.introduce(who) {
            Ok(known) => known,
            Err(error) => {
                if let Door::Network { address, .. } = &self.door {
                    tracing::warn!(%address, %error, "a client is not let in");
                }
                self.refuse(0, error);
                return false;
            }
        };
        let contact = match &self.door {
            Door::Local { .. } => None,
            Door::Network { silence, seat, .. } => {
                drop(seat.lock().unwrap_or_else(PoisonError::into_inner).take());
                Some(Contact { silence: *silence, drift: self.drift() })
            }
        };
        let _ = self.greeted.set(known);
        let hears_within = contact.map_or(Span::ZERO, |contact| contact.drift.stretch(contact.silence));
        self.node.tell(Call::Introduce { session, who, hears_within });
        let site = self.node.look(|node| node.me().site.clone());
        self.say(&ToClient::Welcome { version: VERSION, site, time: now(), contact });
        true
    }

    fn acquire(
        self: &Arc<Self>,
        session: Session,
        tag: Tag,
        lock: LockName,
        patience: Patience,
        permits: Option<u32>,
    ) {
        let wait = match patience {
            Patience::Forever => Wait::Forever,
            Patience::Within(span) => Wait::Until(now() + span),
            Patience::Try => Wait::Try,
        };
        let Some(asked) = self.begin(tag, Some(lock.clone())) else { return };
        let call = {
            let lock = lock.clone();
            move |request| Call::Acquire { session, request, lock, wait, cause: None }
        };
        let Some(permits) = permits else { return asked.put(call) };
        let (client, wish) = (self.clone(), asked.clone());
        let agreeing = self.node.tasks().spawn(async move {
            let agreed = agree_on_permits(&client.node, &lock, permits);
            let agreed = match agree_within(patience) {
                None => agreed.await,
                Some(within) => match timeout(within, agreed).await {
                    Ok(agreed) => agreed,
                    Err(_) => return client.too_late(tag, patience),
                },
            };
            match agreed {
                // Unless the client has taken it back meanwhile, or has gone.
                Ok(()) if client.is_open(&asked) => asked.put(call),
                Ok(()) => {}
                Err(error) => {
                    client.open().remove(&tag);
                    client.refuse(tag, error.to_string());
                }
            }
            client.channel.flush();
        });
        let _ = wish.agreeing.set(agreeing.abort_handle());
    }

    /// Whether this is what the client has open under its number.
    fn is_open(&self, asked: &Arc<Asked>) -> bool {
        self.open().get(&asked.tag).is_some_and(|open| Arc::ptr_eq(open, asked))
    }

    /// A client was not ready to wait until the cluster had agreed on a semaphore's permits.
    fn too_late(&self, tag: Tag, patience: Patience) {
        if self.open().remove(&tag).is_some() {
            let only_tried = patience == Patience::Try;
            self.say(&if only_tried { ToClient::Busy(tag) } else { ToClient::TimedOut(tag) });
            self.channel.flush();
        }
    }

    pub(super) fn ask(
        self: &Arc<Self>,
        tag: Tag,
        lock: Option<LockName>,
        call: impl FnOnce(Request) -> Call,
    ) {
        if let Some(asked) = self.begin(tag, lock) {
            asked.put(call);
        }
    }

    /// Opens a wish or question, if its number is new and there are not too many.
    fn begin(self: &Arc<Self>, tag: Tag, lock: Option<LockName>) -> Option<Arc<Asked>> {
        let mut open = self.open();
        if open.contains_key(&tag) || open.len() >= MOST_OPEN {
            drop(open);
            self.refuse(
                tag,
                format!("number {tag} is in use, or more than {MOST_OPEN} are open; end some first"),
            );
            return None;
        }
        let asked = Arc::new(Asked {
            client: self.clone(),
            tag,
            lock,
            request: OnceLock::new(),
            agreeing: OnceLock::new(),
            untold: AtomicU64::new(0),
            origin: AtomicU64::new(0),
        });
        open.insert(tag, asked.clone());
        Some(asked)
    }

    fn about(&self, tag: Tag, call: impl FnOnce(Request) -> Call) {
        let asked = self.open().get(&tag).cloned();
        match asked.map(|asked| asked.request.get().copied()) {
            Some(Some(request)) => self.node.tell(call(request)),
            Some(None) => {
                let taken_back = self.open().remove(&tag);
                if let Some(agreeing) = taken_back.as_ref().and_then(|asked| asked.agreeing.get()) {
                    agreeing.abort();
                }
                self.say(&ToClient::Cancelled(tag));
            }
            None => self.refuse(tag, format!("there is no wish {tag}; it may be over")),
        }
    }

    pub(super) fn refuse(&self, tag: Tag, why: String) {
        self.say(&ToClient::Refused { tag, why });
    }

    pub(super) fn say(&self, message: &ToClient) {
        self.channel.push(|bytes| put(message, bytes));
    }

    pub(super) fn open(&self) -> MutexGuard<'_, FxHashMap<Tag, Arc<Asked>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long the cluster may take to agree on a semaphore's permits for a client that waits so long.
fn agree_within(patience: Patience) -> Option<Duration> {
    match patience {
        Patience::Forever => None,
        Patience::Within(span) => Some(Duration::from_micros(span.micros())),
        Patience::Try => Some(TRY_WITHIN),
    }
}

impl Asked {
    fn put(self: &Arc<Self>, call: impl FnOnce(Request) -> Call) {
        let node = &self.client.node;
        node.ask(self.clone(), |request| {
            // Before the node sees it: the answer may come before this returns.
            let _ = self.request.set(request);
            call(request)
        });
    }
}

impl Listener for Client {
    fn hear(&self, answer: &Answer) {
        if let Answer::Lock(Tell::Extended { lease_end, .. }) = answer {
            self.say(&ToClient::Extended { lease_end: *lease_end });
            self.channel.flush_soon();
        }
    }
}

impl Listener for Asked {
    fn hear(&self, answer: &Answer) {
        if let Answer::Traced { lines, lost, .. } = answer {
            return self.tell_traced(lines, *lost);
        }
        let Some((mut message, over)) = answered(self.tag, answer) else { return };
        self.client.hide(&mut message);
        if let Some(act) = act_of(answer, self.client.gate.audit().wants_all()) {
            self.client.audit(self.lock.as_ref(), || act);
        }
        if over {
            self.client.open().remove(&self.tag);
        }
        if let ToClient::Lost { act_by, .. } = message
            && let Some(group) = &*self.client.group.lock().unwrap_or_else(PoisonError::into_inner)
        {
            kill_by(*group, act_by, self.client.node.tasks());
        }
        self.client.say(&message);
        self.client.channel.flush_soon();
    }
}
