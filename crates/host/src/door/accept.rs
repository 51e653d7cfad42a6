//! Accepts clients: on a Unix socket those of this machine, whose user the kernel tells, on a TCP port those that show a certificate.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use meshlock_cluster::access::Principal;
use meshlock_cluster::time::Span;
use meshlock_system::ProcessOwner;
use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::{TcpListener, UnixListener};

use super::connected_client::ConnectedClient;
use super::keep_alive::KeepAlives;
use super::presence::{Door, Newcomer};
use crate::channel::{Channel, Stream};
use crate::front::Front;
use crate::net::{UNACKNOWLEDGED, tune};
use crate::pending::{PLACES, PendingConnections, Port};

/// Maximum number of connected clients, and the part of it that other users of this machine may take. Over a network only those count
/// that have identified themselves.
const MAX_CONNECTIONS: usize = 10_000;
const MAX_CONNECTIONS_OF_OTHERS: usize = 8_000;

/// Number of connections that wait until they are accepted; the kernel may allow fewer.
const BACKLOG: i32 = 1024;

/// The mode of a socket that only the node's own user and root can open.
pub const PRIVATE: u32 = 0o600;

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

/// Opens a socket for clients of this machine. `mode` says which users can open it; [`PRIVATE`] is for the node's own user only. A socket
/// left there by an earlier node is replaced.
pub fn listen(path: &Path, mode: u32) -> Result<StdUnixListener, ServeError> {
    let bind = || {
        match std::os::unix::net::UnixStream::connect(path).map_err(|error| error.kind()) {
            Err(io::ErrorKind::NotFound) => {}
            // Nobody listens there any more.
            Err(io::ErrorKind::ConnectionRefused) => std::fs::remove_file(path)?,
            // A node listens there, and may be busy.
            Ok(_) | Err(_) => return Err(io::ErrorKind::AddrInUse.into()),
        }
        let listener = bind_private(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        Ok(listener)
    };
    bind().map_err(|error: io::Error| {
        let taken = error.kind() == io::ErrorKind::AddrInUse;
        let path = path.to_owned();
        if taken { ServeError::Taken(path) } else { ServeError::Bind { path, error } }
    })
}

/// Binds a socket that no other user can open, not even for a moment: the kernel creates the file with the mode that the socket itself has.
fn bind_private(path: &Path) -> io::Result<StdUnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(PRIVATE))?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Returns who a process of this user is for the rules. Root and the node's own user could change the rules, so none applies to them.
fn principal_of(user: u32) -> Principal {
    let ours = user == 0 || user == rustix::process::geteuid().as_raw();
    if ours { Principal::Local } else { Principal::User(user) }
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

    /// Counts another client, unless there are `most` already. It is counted until what is returned is dropped.
    fn enter(self: &Arc<Self>, most: usize) -> Option<ConnectionSlot> {
        let connection = ConnectionSlot(self.clone());
        (self.change(1) <= most).then_some(connection)
    }

    /// Counts another client over a network, unless there are too many.
    pub(super) fn enter_from_network(self: &Arc<Self>) -> Option<ConnectionSlot> {
        self.enter(MAX_CONNECTIONS)
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
    listener: StdUnixListener,
    changed: impl Fn(usize) + Send + Sync + 'static,
) -> Serving {
    let (tasks, front) = (front.node().tasks().clone(), front.clone());
    let accepting = tasks.spawn(async move {
        let listener = UnixListener::from_std(listener).expect("within the node's runtime");
        let connections = Connections::new(changed);
        let keep_alives = Arc::<KeepAlives>::default();
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    wait_for_descriptors(&error).await;
                    continue;
                }
            };
            let peer = match stream.peer_cred() {
                Ok(peer) => ProcessOwner { process: peer.pid(), user: peer.uid() },
                Err(error) => {
                    tracing::warn!(%error, "the system does not say who a client is: it is refused");
                    continue;
                }
            };
            let principal = principal_of(peer.user);
            let is_ours = principal == Principal::Local;
            let most = if is_ours { MAX_CONNECTIONS } else { MAX_CONNECTIONS_OF_OTHERS };
            let counted = match (!is_ours).then(|| front.connect(&principal)).transpose() {
                Ok(counted) => counted,
                Err(error) => {
                    tracing::debug!(%error, "too many connections: this one is refused");
                    continue;
                }
            };
            let Some(connection) = connections.enter(most) else { continue };
            let keep_alives = keep_alives.clone();
            let door = Door::Local { peer, principal, keep_alives, _counted: counted };
            let channel = Channel::new(Stream::Unix(stream), None);
            let front = front.clone();
            tokio::spawn(async move {
                ConnectedClient::talk(front, channel, door).await;
                drop(connection);
            });
        }
    });
    Serving(accepting.abort_handle())
}

/// Serves clients over a network, on the node's own thread until the node stops. The session of a client that has been silent for
/// `silence` is ended.
pub fn serve_network(front: &Front, listener: std::net::TcpListener, silence: Span) -> io::Result<Serving> {
    listener.set_nonblocking(true)?;
    let trust = front.node().trust().clone();
    if trust.is_plain() {
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
            let tls = tls.and_then(|()| trust.accepting().map_err(|error| error.to_string()));
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
            let (front, connections, trust) = (front.clone(), connections.clone(), trust.clone());
            tokio::spawn(async move {
                if tls.is_some()
                    && let Err(error) = slot.turn().await
                {
                    return tracing::debug!(%address, %error, "a client's connection is refused");
                }
                let channel = Channel::new(Stream::Tcp(stream), tls);
                let door =
                    Door::Network { address, silence, newcomer: Newcomer::new(slot, connections), trust };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_made_with_the_mode_that_only_its_own_user_can_use() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let path = dir.path().join("a.sock");
        // Whatever the umask of whoever runs the tests is: no bit is ever there that has to be taken away again.
        let _listener = bind_private(&path).unwrap();
        assert_eq!(mode(&path) & 0o077, 0);
        let path = dir.path().join("b.sock");
        let _listener = listen(&path, 0o666).unwrap();
        assert_eq!(mode(&path), 0o666);
        assert!(matches!(listen(&path, PRIVATE), Err(ServeError::Taken(_))));
    }

    #[test]
    fn another_user_is_a_principal_of_its_own() {
        let own = rustix::process::geteuid().as_raw();
        assert_eq!([principal_of(0), principal_of(own)], [Principal::Local, Principal::Local]);
        assert_eq!(principal_of(own + 1), Principal::User(own + 1));
    }
}
