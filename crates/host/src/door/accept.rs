//! Takes clients in: on a Unix socket those of this machine and user, on a TCP port those who show a certificate.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use meshlock_cluster::time::Span;
use meshlock_tls::Security;
use tokio::net::{TcpListener, UnixListener};

use super::client::Client;
use super::presence::Door;
use crate::channel::{Channel, Stream};
use crate::front::Front;
use crate::net::{UNACKNOWLEDGED, tune};
use crate::pending::PendingConnections;

/// How many connections may be there that have not said who they are, and how many of one address: many clients of one machine may
/// start at once.
const MAX_PENDING: usize = 1024;
const MAX_PENDING_PER_ADDRESS: usize = 256;

/// How many clients may be connected at once.
const MAX_CONNECTIONS: usize = 10_000;

/// How long to wait where the machine has no descriptor for another connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

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

/// How many are connected, and who is told.
struct Connections<F> {
    count: Mutex<usize>,
    changed: F,
}

impl<F: Fn(usize)> Connections<F> {
    fn new(changed: F) -> Arc<Self> {
        Arc::new(Connections { count: Mutex::default(), changed })
    }

    /// Lets one more in, unless there are too many. It leaves when what is given back is dropped.
    fn enter(self: &Arc<Self>) -> Option<ConnectionSlot<F>> {
        let connection = ConnectionSlot(self.clone());
        (self.tell(1) <= MAX_CONNECTIONS).then_some(connection)
    }

    fn tell(&self, by: isize) -> usize {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        *count = count.saturating_add_signed(by);
        (self.changed)(*count);
        *count
    }
}

struct ConnectionSlot<F: Fn(usize)>(Arc<Connections<F>>);

impl<F: Fn(usize)> Drop for ConnectionSlot<F> {
    fn drop(&mut self) {
        self.0.tell(-1);
    }
}

/// Serves clients of this machine, on the node's own thread until the node stops. `changed` is told how many are connected.
pub fn serve(
    front: &Front,
    listener: std::os::unix::net::UnixListener,
    changed: impl Fn(usize) + Send + Sync + 'static,
) -> Serving {
    let (tasks, front) = (front.node().tasks().clone(), front.clone());
    let accepting = tasks.spawn(async move {
        let listener = UnixListener::from_std(listener).expect("within the node's runtime");
        let connections = Connections::new(changed);
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    wait_for_descriptors(&error).await;
                    continue;
                }
            };
            let Some(connection) = connections.enter() else { continue };
            let owner = stream.peer_cred().ok().map(|credentials| credentials.uid());
            let channel = Channel::new(Stream::Unix(stream), None);
            let front = front.clone();
            tokio::spawn(async move {
                Client::talk(front, channel, Door::Local { owner }).await;
                drop(connection);
            });
        }
    });
    Serving(accepting.abort_handle())
}

/// Serves clients that come over a network, on the node's own thread until the node stops. The session of one that has been
/// silent for so long is ended.
pub fn serve_network(
    front: &Front,
    listener: std::net::TcpListener,
    security: Security,
    silence: Span,
) -> io::Result<Serving> {
    listener.set_nonblocking(true)?;
    if matches!(security, Security::Plain) {
        tracing::warn!(
            address = ?listener.local_addr().ok(),
            "clients are not protected: programs of this machine may do what the rules give 'local', others what they give 'anyone'"
        );
    }
    // A connection is not given up before the session is.
    let patience = UNACKNOWLEDGED.max(Duration::from_micros(silence.micros()));
    let (tasks, front) = (front.node().tasks().clone(), front.clone());
    let accepting = tasks.spawn(async move {
        let listener = TcpListener::from_std(listener).expect("within the node's runtime");
        let (connections, pending) = (
            Connections::new(|_| {}),
            Arc::new(PendingConnections::new(MAX_PENDING, MAX_PENDING_PER_ADDRESS)),
        );
        loop {
            let (stream, address) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    wait_for_descriptors(&error).await;
                    continue;
                }
            };
            let (Some(connection), Some(slot)) = (connections.enter(), pending.enter(address.ip())) else {
                tracing::debug!(%address, "too many connections: one is not taken");
                continue;
            };
            let tls = tune(&stream, patience).map_err(|error| error.to_string());
            let tls = tls.and_then(|()| security.accepting().map_err(|error| error.to_string()));
            let tls = match tls {
                Ok(tls) => tls,
                Err(error) => {
                    tracing::warn!(%address, %error, "a client's connection cannot be used");
                    continue;
                }
            };
            let tls = tls.map(|mut tls| {
                // What waits for a client is bounded before it comes here.
                tls.set_buffer_limit(None);
                tls
            });
            let channel = Channel::new(Stream::Tcp(stream), tls);
            let door = Door::Network { address, silence, slot: Mutex::new(Some(slot)) };
            let front = front.clone();
            tokio::spawn(async move {
                Client::talk(front, channel, door).await;
                drop(connection);
            });
        }
    });
    Ok(Serving(accepting.abort_handle()))
}

async fn wait_for_descriptors(error: &io::Error) {
    tracing::warn!(%error, "cannot take a client's connection");
    tokio::time::sleep(ACCEPT_RETRY).await;
}
