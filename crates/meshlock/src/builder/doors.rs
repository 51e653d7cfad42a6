//! What serves the clients of a node: its Unix socket, its TCP port, and its API.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use meshlock_cluster::time::Span;
use meshlock_host::door;
use meshlock_host::front::Front;
#[cfg(feature = "api")]
use meshlock_host::listen;

use crate::config::Limits;
use crate::error::StartError;

/// What serves the clients of a node, until it is dropped.
pub(crate) struct OpenDoors {
    #[cfg(feature = "api")]
    pub(crate) api: Option<meshlock_service::Serving>,
    doors: Vec<door::Serving>,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) clients: Option<SocketAddr>,
}

impl OpenDoors {
    /// Accepts no more clients; connected ones stay connected. The socket's file is removed, because nobody can connect to it any more.
    pub(crate) fn stop_accepting(&self) {
        self.doors.iter().for_each(door::Serving::stop);
        #[cfg(feature = "api")]
        if let Some(api) = &self.api {
            api.stop_accepting();
        }
        if let Some(socket) = &self.socket {
            // It is fine if the file is already gone.
            let _ = std::fs::remove_file(socket);
        }
    }
}

/// The Unix socket of a node: its path and its permissions.
pub(super) struct OwnSocket {
    pub(super) path: PathBuf,
    pub(super) mode: u32,
}

/// Starts to serve clients in every way that was configured.
pub(super) fn serve(
    front: &Front,
    socket: Option<OwnSocket>,
    clients: Option<TcpListener>,
    session_ttl: Span,
    api: Option<String>,
    limits: &Limits,
) -> Result<OpenDoors, StartError> {
    let mut doors = Vec::new();
    if let Some(OwnSocket { path, mode }) = &socket {
        let listener = door::listen(path, *mode).map_err(StartError::of_socket)?;
        doors.push(door::serve(front, listener, |_| {}));
    }
    let address = clients.as_ref().map(TcpListener::local_addr).transpose()?;
    if let Some(listener) = clients {
        doors.push(door::serve_network(front, listener, session_ttl)?);
    }
    #[cfg(feature = "api")]
    let api = match api {
        None => None,
        Some(address) => {
            let listener = listen(&address).map_err(StartError::of_listen)?;
            let setup = meshlock_service::ApiSetup { listener, limits: limits.of_api() };
            let serving = meshlock_service::Serving::start(front, setup);
            Some(serving.map_err(|error| StartError::of_api(address, error))?)
        }
    };
    #[cfg(not(feature = "api"))]
    let _ = (api, limits);
    Ok(OpenDoors {
        #[cfg(feature = "api")]
        api,
        doors,
        socket: socket.map(|socket| socket.path),
        clients: address,
    })
}
