//! Accepts clients: on a Unix socket those of this machine and user, on a TCP port those that show a certificate.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use meshlock_cluster::time::Span;
use meshlock_tls::Security;
use tokio::net::{TcpListener, UnixListener};

use super::connected_client::ConnectedClient;
use super::presence::{Door, Newcomer};
use crate::channel::{Channel, Stream};
use crate::front::Front;
use crate::net::{UNACKNOWLEDGED, tune};
use crate::pending::{PLACES, PendingConnections, Port};

/// Maximum number of connected clients. Over a network only those count that have identified themselves.
const MAX_CONNECTIONS: usize = 10_000;

/// How long to wait if the machine has no file descriptor for another connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Why clients cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another node already serves clients at this path.
    #[error("another node serves clients at {0}; stop it, or give this one another socket")]
    Taken(PathBuf),
    /// The socket cannot be created.
    #[error("cannot make the socket {path}: {error}")]
    Bind { path: PathBuf, error: io::Error },
}

/// Opens a socket for clients that run as the same user. A socket left there by an earlier node is replaced.
pub fn listen(path: &Path) -> Result<std::os::unix::net::UnixListener, ServeError> {
    let bind = || {
        match std::os::unix::net::UnixStream::connect(path).map_err(|error| error.kind()) {
            Err(io::ErrorKind::NotFound) => {}
            // Nobody listens there any more.
            Err(io::ErrorKind::ConnectionRefused) => std::fs::remove_file(path)?,
            // A node listens there, and may be busy.
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

/// Handle of a task that serves clients. Dropping it does not stop the task, which runs as long as the node.
#[derive(Debug)]
pub struct Serving(tokio::task::AbortHandle);

impl Serving {
    /// Accepts no more clients; connected ones stay connected.
    pub fn stop(&self) {
        self.0.abort();
    }
}

/// Counts the connected clients and reports every change.
pub(super) struct Connections {
    count: Mutex<usize>,
    changed: Box<dyn Fn(usize) + Send + Sync>,
}

impl Connections {
    pub(super) fn new(changed: impl Fn(usize) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Connections { count: Mutex::default(), changed: Box::new(changed) })
    }

    /// Counts another client, unless there are too many. It is counted until what is returned is dropped.
    pub(super) fn enter(self: &Arc<Self>) -> Option<ConnectionSlot> {
        let connection = ConnectionSlot(self.clone());
        (self.change(1) <= MAX_CONNECTIONS).then_some(connection)
    }

    fn change(&self, by: isize) -> usize {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        *count = count.saturating_add_signed(by);
        (self.changed)(*count);
        *count
    }
}

/// A counted client.
pub(super) struct ConnectionSlot(Arc<Connections>);

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.change(-1);
    }
}

/// Serves clients of this machine, on the node's own thread until the node stops. `changed` is called with the number of clients
/// whenever it changes.
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
                ConnectedClient::talk(front, channel, Door::Local { owner }).await;
                drop(connection);
            });
        }
    });
    Serving(accepting.abort_handle())
}

/// Serves clients over a network, on the node's own thread until the node stops. The session of a client that has been silent for
/// `silence` is ended.
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
    // The connection must not be closed before the session's time is over.
    let timeout = UNACKNOWLEDGED.max(Duration::from_micros(silence.micros()));
    let (tasks, front) = (front.node().tasks().clone(), front.clone());
    let accepting = tasks.spawn(async move {
        let listener = TcpListener::from_std(listener).expect("within the node's runtime");
        let connections = Connections::new(|_| {});
        let pending = PendingConnections::new(Port::Clients, PLACES, front.node().evictions().clone());
        loop {
            let (stream, address) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    pending.make_room();
                    wait_for_descriptors(&error).await;
                    continue;
                }
            };
            let slot = pending.enter(address.ip());
            let tls = tune(&stream, timeout).map_err(|error| error.to_string());
            let tls = tls.and_then(|()| security.accepting().map_err(|error| error.to_string()));
            let tls = match tls {
                Ok(tls) => tls,
                Err(error) => {
                    tracing::warn!(%address, %error, "a client's connection cannot be used");
                    continue;
                }
            };
            let tls = tls.map(|mut tls| {
                // The channel's queue already limits what waits for a client.
                tls.set_buffer_limit(None);
                tls
            });
            let (front, connections) = (front.clone(), connections.clone());
            tokio::spawn(async move {
                if tls.is_some()
                    && let Err(error) = slot.turn().await
                {
                    return tracing::debug!(%address, %error, "a client's connection is refused");
                }
                let channel = Channel::new(Stream::Tcp(stream), tls);
                let door = Door::Network { address, silence, newcomer: Newcomer::new(slot, connections) };
                ConnectedClient::talk(front, channel, door).await;
            });
        }
    });
    Ok(Serving(accepting.abort_handle()))
}

async fn wait_for_descriptors(error: &io::Error) {
    tracing::warn!(%error, "cannot accept a client's connection");
    tokio::time::sleep(ACCEPT_RETRY).await;
}
