//! Serves clients on a Unix socket.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::net::{UnixListener, UnixStream};

use super::super::channel::{Channel, Stream};
use super::super::clock::now;
use super::super::engine::{Handle, Listener};
use super::super::permits::agree_on_permits;
use super::group::Group;
use super::protocol::{MOST_OPEN, Patience, Tag, ToClient, ToNode, VERSION, put, take};
use super::words::answered;
use crate::names::{ClientLabel, LockName};
use crate::node::{Answer, Call};
use crate::table::{Request, Session, Tell, Wait};
use crate::time::Span;

/// How many clients may be connected at once.
const MOST_CONNECTIONS: usize = 10_000;

/// How much is read from a client at once.
const READ_BYTES: usize = 16 << 10;

/// Why clients cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Somebody serves there already.
    #[error("another node serves clients at {0}; stop it, or give this one another socket")]
    Taken(PathBuf),
    /// The socket cannot be made.
    #[error("cannot make the socket {path}: {error}")]
    Bind {
        /// Where.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

/// Opens a socket for clients that run as the same user. What an earlier node left there is replaced.
pub fn listen(path: &Path) -> Result<std::os::unix::net::UnixListener, ServeError> {
    let bind = || {
        match std::os::unix::net::UnixStream::connect(path).map_err(|error| error.kind()) {
            Err(io::ErrorKind::NotFound) => {}
            // Nobody listens there any more.
            Err(io::ErrorKind::ConnectionRefused) => std::fs::remove_file(path)?,
            // Somebody does, and is busy perhaps.
            Ok(_) | Err(_) => return Err(io::ErrorKind::AddrInUse.into()),
        }
        let listener = std::os::unix::net::UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    bind().map_err(|error: io::Error| {
        let taken = error.kind() == io::ErrorKind::AddrInUse;
        let path = path.to_owned();
        if taken { ServeError::Taken(path) } else { ServeError::Bind { path, error } }
    })
}

/// Clients are being served. They are for as long as the node runs, also when this is dropped.
#[derive(Debug)]
pub struct Serving(tokio::task::AbortHandle);

impl Serving {
    /// Takes no more clients; those who are connected stay so.
    pub fn stop(&self) {
        self.0.abort();
    }
}

/// Serves clients on the node's own thread until the node stops. `changed` is told how many are connected.
pub fn serve(
    node: &Handle,
    listener: std::os::unix::net::UnixListener,
    changed: impl Fn(usize) + Send + Sync + 'static,
) -> Serving {
    let (tasks, node) = (node.tasks().clone(), node.clone());
    let accepting = tasks.spawn(async move {
        let listener = UnixListener::from_std(listener).expect("within the node's runtime");
        let (count, changed) = (Arc::new(Mutex::new(0)), Arc::new(changed));
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot take a client's connection");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    continue;
                }
            };
            let tell = |count: &Mutex<usize>, by: isize| {
                let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
                *count = count.saturating_add_signed(by);
                changed(*count);
                *count
            };
            if tell(&count, 1) > MOST_CONNECTIONS {
                tell(&count, -1);
                continue;
            }
            let (node, count, changed) = (node.clone(), count.clone(), changed.clone());
            tokio::spawn(async move {
                Client::talk(node, stream).await;
                let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
                *count -= 1;
                changed(*count);
            });
        }
    });
    Serving(accepting.abort_handle())
}

/// A connected client.
struct Client {
    node: Handle,
    channel: Channel,
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
    async fn talk(node: Handle, stream: UnixStream) {
        let owner = stream.peer_cred().ok().map(|credentials| credentials.uid());
        let channel = Channel::new(Stream::Unix(stream), None);
        let client = Arc::new(Client { node, channel, open: Mutex::default(), group: Mutex::default() });
        let session = client.node.open_session(client.clone());
        let ending = tokio::select! {
            ending = client.hear_all(session, owner) => ending,
            () = client.channel.keep_writing() => Ending::CutOff,
        };
        client.channel.flush();
        client.channel.close();
        if ending == Ending::CutOff {
            // It may still run, and believes until the lease is over that it has what it was given.
            let left = client.node.look(|node| node.lease().end().map_or(Span::ZERO, |end| end.since(now())));
            tokio::time::sleep(Duration::from_micros(left.micros())).await;
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
    }

    /// Hears all that the client says, until it has gone or has to be cut off.
    async fn hear_all(self: &Arc<Self>, session: Session, owner: Option<u32>) -> Ending {
        let (mut bytes, mut scratch) = (Vec::new(), vec![0; READ_BYTES]);
        let mut greeted = false;
        loop {
            match self.channel.read(&mut scratch, &mut bytes).await {
                Ok(true) => {}
                Ok(false) => return Ending::Gone,
                // So it is said where the other side is gone altogether and had not read everything.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ending::Gone,
                Err(_) => return Ending::CutOff,
            }
            let mut at = 0;
            loop {
                match take::<ToNode>(&bytes[at..]) {
                    Ok(Some((said, length))) => {
                        at += length;
                        if !self.hear_from(session, said, owner, &mut greeted) {
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

    /// The client has said something. Gives back whether it may go on.
    fn hear_from(
        self: &Arc<Self>,
        session: Session,
        said: ToNode,
        owner: Option<u32>,
        greeted: &mut bool,
    ) -> bool {
        match said {
            ToNode::Hello { version, who } => {
                *greeted = true;
                return self.welcome(session, version, who);
            }
            _ if !*greeted => {
                self.refuse(0, "say hello first".to_owned());
                return false;
            }
            ToNode::Ping(tag) => self.say(&ToClient::Pong { tag, time: now() }),
            ToNode::Acquire { tag, lock, patience, permits } => {
                self.acquire(session, tag, lock, patience, permits);
            }
            ToNode::Cancel(tag) => self.about(tag, Call::Cancel),
            ToNode::Release(tag) => self.about(tag, Call::Release),
            ToNode::Guard { group } => match Group::of(group, owner) {
                Ok(group) => *self.group.lock().unwrap_or_else(PoisonError::into_inner) = Some(group),
                Err(error) => self.refuse(0, error.to_string()),
            },
            ToNode::Queue { tag, lock } => self.ask(tag, |request| Call::Query { request, lock }),
            ToNode::Status { tag } => self.ask(tag, |request| Call::Overview { request }),
            ToNode::Break { tag, lock } => self.ask(tag, |request| Call::Break { request, lock }),
            ToNode::SetRules { tag, rules } => self.ask(tag, |request| Call::SetRules { request, rules }),
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
        self.node.tell(Call::Introduce { session, who });
        let site = self.node.look(|node| node.me().site.clone());
        self.say(&ToClient::Welcome { version: VERSION, site, time: now() });
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
        let Some(asked) = self.begin(tag) else { return };
        let call = {
            let lock = lock.clone();
            move |request| Call::Acquire { session, request, lock, wait }
        };
        let Some(permits) = permits else { return asked.put(call) };
        let client = self.clone();
        self.node.tasks().spawn(async move {
            match agree_on_permits(&client.node, &lock, permits).await {
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
