//! A client that is connected: what it says, what it hears, and how its session ends.
//!
//! A client of this machine is gone when no process has its connection open any more. One that comes over a network says
//! so (TLS has a word for it), or falls silent; then its session lasts as long as it can still believe that it has one.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::time::timeout;

use super::super::channel::Channel;
use super::super::clock::now;
use super::super::engine::{Handle, Listener};
use super::super::lobby::Seat;
use super::super::permits::agree_on_permits;
use super::super::tls::TlsError;
use super::group::Group;
use super::protocol::{Contact, MOST_OPEN, Patience, Tag, ToClient, ToNode, VERSION, put, take};
use super::words::answered;
use crate::names::{ClientLabel, LockName};
use crate::node::{Answer, Call};
use crate::table::{Request, Session, Tell, Wait};
use crate::time::{Drift, Span, Time};

/// How much is read from a client at once.
const READ_BYTES: usize = 16 << 10;

/// How long a client over a network may take to say who it is.
const GREET_WITHIN: Duration = Duration::from_secs(5);

/// How long one that does not want to wait waits until the cluster has agreed on a semaphore's permits.
const TRY_WITHIN: Duration = Duration::from_secs(2);

/// How long a greeting may be.
const MOST_HELLO_BYTES: u32 = 1024;

/// Which way a client came in.
pub(super) enum Door {
    /// On this machine, as this user.
    Local { owner: Option<u32> },
    /// Over a network. Its session ends after so long without a word.
    Network { address: IpAddr, silence: Span, seat: Mutex<Option<Seat>> },
}

/// A connected client.
pub(super) struct Client {
    node: Handle,
    channel: Channel,
    door: Door,
    greeted: OnceLock<()>,
    /// When it said something last, in microseconds.
    heard: AtomicU64,
    open: Mutex<FxHashMap<Tag, Arc<Asked>>>,
    /// What is to be ended when something is lost.
    group: Mutex<Option<Group>>,
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
struct Asked {
    client: Arc<Client>,
    tag: Tag,
    /// The node's number for it, once it has one.
    request: OnceLock<Request>,
}

impl Client {
    /// Talks with a client until its connection ends; with it, its session.
    pub(super) async fn talk(node: Handle, channel: Channel, door: Door) {
        let (open, group, greeted) = (Mutex::default(), Mutex::default(), OnceLock::new());
        let heard = AtomicU64::new(now().micros());
        let client = Arc::new(Client { node, channel, door, greeted, heard, open, group });
        let session = client.node.open_session(client.clone());
        let ending = tokio::select! {
            ending = client.hear_all(session) => ending,
            () = client.channel.keep_writing() => Ending::CutOff,
        };
        client.channel.flush();
        if ending == Ending::CutOff {
            client.channel.close();
            tokio::time::sleep(client.may_believe_for()).await;
        }
        // A copy: should the lock be lost meanwhile, the group is ended.
        let group = *client.group.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = group {
            group.until_gone().await;
        }
        // What was asked refers to the client: let go of each other.
        let open = std::mem::take(&mut *client.open());
        let requests = open.values().filter_map(|asked| asked.request.get().copied());
        client.node.close_session(session, requests);
        // Whoever waits for the end of the connection knows then that everything is free.
        client.channel.close();
    }

    /// For how long a client that was cut off, and may still run, can believe that it has what it was given.
    fn may_believe_for(&self) -> Duration {
        let left = match &self.door {
            _ if self.greeted.get().is_none() => Span::ZERO,
            Door::Local { .. } => {
                self.node.look(|node| node.lease().end().map_or(Span::ZERO, |end| end.since(now())))
            }
            Door::Network { silence, .. } => {
                let heard = Time::from_micros(self.heard.load(Ordering::Relaxed));
                (heard + self.drift().stretch(*silence)).since(now())
            }
        };
        Duration::from_micros(left.micros())
    }

    /// By how much clocks may differ, as the cluster has agreed.
    fn drift(&self) -> Drift {
        self.node.look(|node| node.lease().terms().drift)
    }

    /// How long to wait for the next word; for ever from a client of this machine.
    fn patience(&self) -> Option<Duration> {
        match &self.door {
            Door::Local { .. } => None,
            Door::Network { .. } if self.greeted.get().is_none() => Some(GREET_WITHIN),
            Door::Network { .. } => Some(self.may_believe_for()),
        }
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
            self.channel.flush();
        }
    }

    /// Whether a connection that has ended says that the client has.
    fn has_gone(&self, read: &io::Result<bool>) -> bool {
        match (&self.door, read) {
            (Door::Local { .. }, Ok(_)) => true,
            // So it is said where the other side is gone altogether and had not read everything.
            (Door::Local { .. }, Err(error)) => error.kind() == io::ErrorKind::ConnectionReset,
            (Door::Network { .. }, Ok(_)) => self.channel.was_ended_by_peer(),
            // TLS has ended, and something came behind it.
            (Door::Network { .. }, Err(error)) => {
                error.kind() == io::ErrorKind::UnexpectedEof && self.channel.was_ended_by_peer()
            }
        }
    }

    /// Writes down why a client over a network is not listened to any more; what clients of this machine do is their own affair.
    fn complain(&self, error: Option<io::Error>) {
        let Door::Network { address, .. } = &self.door else { return };
        let greeted = self.greeted.get().is_some();
        match error {
            Some(error) if error.kind() == io::ErrorKind::TimedOut => {
                tracing::warn!(%address, greeted, "a client is silent: its session ends");
            }
            Some(error) => {
                let error = if greeted { error.to_string() } else { TlsError::of(error).to_string() };
                tracing::warn!(%address, greeted, %error, "a client's connection broke: its session ends when it can believe in it no more");
            }
            None => {
                tracing::warn!(%address, greeted, "a client's connection was cut: its session ends when it can believe in it no more");
            }
        }
    }

    /// The client has said something. Gives back whether it may go on.
    fn hear_from(self: &Arc<Self>, session: Session, said: ToNode) -> bool {
        match said {
            ToNode::Hello { version, who } => return self.welcome(session, version, who),
            _ if self.greeted.get().is_none() => {
                self.refuse(0, "say hello first".to_owned());
                return false;
            }
            ToNode::Ping(tag) => self.say(&ToClient::Pong { tag, time: now() }),
            ToNode::Acquire { tag, lock, patience, permits } => {
                self.acquire(session, tag, lock, patience, permits);
            }
            ToNode::Cancel(tag) => self.about(tag, Call::Cancel),
            ToNode::Release(tag) => self.about(tag, Call::Release),
            ToNode::Guard { group } => self.guard(group),
            ToNode::Queue { tag, lock } => self.ask(tag, |request| Call::Query { request, lock }),
            ToNode::Status { tag } => self.ask(tag, |request| Call::Overview { request }),
            ToNode::Break { tag, lock } => self.ask(tag, |request| Call::Break { request, lock }),
            ToNode::SetRules { tag, rules } => self.ask(tag, |request| Call::SetRules { request, rules }),
            ToNode::Locks { tag } => self.ask(tag, |request| Call::Locks { request }),
            ToNode::Remove { tag, site } => self.ask(tag, |request| Call::Remove { request, site }),
            ToNode::Leave { tag } => self.ask(tag, |request| Call::Leave { request }),
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
        let who = match self.certified(who) {
            Ok(who) => who,
            Err(error) => {
                if let Door::Network { address, .. } = &self.door {
                    tracing::warn!(%address, %error, "a client is not let in");
                }
                self.refuse(0, error.to_string());
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
        let _ = self.greeted.set(());
        let hears_within = contact.map_or(Span::ZERO, |contact| contact.drift.stretch(contact.silence));
        self.node.tell(Call::Introduce { session, who, hears_within });
        let site = self.node.look(|node| node.me().site.clone());
        self.say(&ToClient::Welcome { version: VERSION, site, time: now(), contact });
        true
    }

    /// Who a client is to others: what it says, and behind that what its certificate says.
    fn certified(&self, who: ClientLabel) -> Result<ClientLabel, TlsError> {
        let Some(client) = self.channel.peer_client() else { return Ok(who) };
        let client = client?;
        let short = || format!("client {client}").parse().unwrap_or_else(|_| who.clone());
        Ok(format!("{who}, client {client}").parse().unwrap_or_else(|_| short()))
    }

    fn guard(&self, group: i32) {
        let group = match &self.door {
            Door::Local { owner } => Group::of(group, *owner),
            Door::Network { .. } => Err(io::Error::other(
                "a process group of another machine cannot be ended from here; `meshlock run --node` does it there",
            )),
        };
        match group {
            Ok(group) => *self.group.lock().unwrap_or_else(PoisonError::into_inner) = Some(group),
            Err(error) => self.refuse(0, error.to_string()),
        }
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
        let Some(asked) = self.begin(tag) else { return };
        let call = {
            let lock = lock.clone();
            move |request| Call::Acquire { session, request, lock, wait }
        };
        let Some(permits) = permits else { return asked.put(call) };
        let client = self.clone();
        self.node.tasks().spawn(async move {
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
                Ok(()) if client.open().contains_key(&tag) => asked.put(call),
                Ok(()) => {}
                Err(error) => {
                    client.open().remove(&tag);
                    client.refuse(tag, error.to_string());
                }
            }
            client.channel.flush();
        });
    }

    /// A client was not ready to wait until the cluster had agreed on a semaphore's permits.
    fn too_late(&self, tag: Tag, patience: Patience) {
        if self.open().remove(&tag).is_some() {
            let only_tried = patience == Patience::Try;
            self.say(&if only_tried { ToClient::Busy(tag) } else { ToClient::TimedOut(tag) });
            self.channel.flush();
        }
    }

    fn ask(self: &Arc<Self>, tag: Tag, call: impl FnOnce(Request) -> Call) {
        if let Some(asked) = self.begin(tag) {
            asked.put(call);
        }
    }

    /// Opens a wish or question, if its number is new and there are not too many.
    fn begin(self: &Arc<Self>, tag: Tag) -> Option<Arc<Asked>> {
        let mut open = self.open();
        if open.contains_key(&tag) || open.len() >= MOST_OPEN {
            drop(open);
            self.refuse(
                tag,
                format!("number {tag} is in use, or more than {MOST_OPEN} are open; end some first"),
            );
            return None;
        }
        let asked = Arc::new(Asked { client: self.clone(), tag, request: OnceLock::new() });
        open.insert(tag, asked.clone());
        Some(asked)
    }

    fn about(&self, tag: Tag, call: impl FnOnce(Request) -> Call) {
        let asked = self.open().get(&tag).cloned();
        match asked.map(|asked| asked.request.get().copied()) {
            Some(Some(request)) => self.node.tell(call(request)),
            Some(None) => {
                self.open().remove(&tag);
                self.say(&ToClient::Cancelled(tag));
            }
            None => self.refuse(tag, format!("there is no wish {tag}; it may be over")),
        }
    }

    fn refuse(&self, tag: Tag, why: String) {
        self.say(&ToClient::Refused { tag, why });
    }

    fn say(&self, message: &ToClient) {
        self.channel.push(|bytes| put(message, bytes));
    }

    fn open(&self) -> MutexGuard<'_, FxHashMap<Tag, Arc<Asked>>> {
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

/// Whether a connection may begin like this. Whoever speaks something else need not be waited for.
fn may_be_hello(bytes: &[u8]) -> bool {
    bytes.first_chunk::<4>().is_none_or(|length| u32::from_le_bytes(*length) <= MOST_HELLO_BYTES)
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
        let Some((message, over)) = answered(self.tag, answer) else { return };
        if over {
            self.client.open().remove(&self.tag);
        }
        if let ToClient::Lost { act_by, .. } = message
            && let Some(group) = &*self.client.group.lock().unwrap_or_else(PoisonError::into_inner)
        {
            group.end_by(act_by, self.client.node.tasks());
        }
        self.client.say(&message);
        self.client.channel.flush_soon();
    }
}
