//! Connections: accepting them, identifying the client, and serving its requests.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use meshlock_cluster::access::{ClientName, Principal};
use meshlock_host::front::Front;
use meshlock_host::gate::{Connected, TooManyConnections};
use meshlock_host::{Ending, Evicted, PLACES, PendingConnections, PendingSlot, Port, Trust, Watched};
use meshlock_tls::{Bearer, Identity, Security, Serial, ShownBy, TlsError, bearer_of_chain, serial_of_chain};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tower_service::Service;

use super::cut_detector::CutDetector;
use super::ends::ConnectionEnds;
use super::write_timeout::WriteTimeout;
use crate::caller::ServedAt;
use crate::sessions::registry::ApiLimits;

/// How long a client may take for the TLS handshake, and until its first request that is allowed.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A silent client is pinged after this time, and cut off if it does not answer within the same time again.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// Maximum number of simultaneous calls on one connection.
const MAX_CALLS: u32 = 1024;

/// Maximum size of the send buffer of one connection, before its calls wait for the client to read; and of the
/// system's buffer for it.
const MAX_SEND_BUFFER: usize = 64 << 10;

/// Maximum size of the headers of a request, and of what one connection may send of an HTTP/1 request before it is read.
const MAX_HEADERS: u32 = 16 << 10;

/// How much of an HTTP/2 request, and of all requests on one connection, a client may send before it is read.
const MAX_UNREAD_REQUEST: u32 = 64 << 10;
const MAX_UNREAD_REQUESTS: u32 = 256 << 10;

/// The client at the other end of a connection.
pub(super) struct RemoteClient {
    pub(super) address: SocketAddr,
    shown: Credentials,
    /// The principal whose limit the connection counts towards.
    charged: Mutex<Charged>,
    /// The places for connections on which a request was allowed.
    places: Arc<Semaphore>,
    /// Registers what the connection relies on.
    watched: Watched,
}

/// What a connection shows about the client before its first request.
enum Credentials {
    /// An unprotected connection from this machine.
    ThisMachine,
    Certificate(Bearer, Option<Serial>),
    /// No certificate; requests may carry a token.
    Nothing,
}

/// The limit that a connection counts towards.
enum Charged {
    /// No principal yet: it takes one of the places for connections that have not been used.
    Pending(#[expect(dead_code, reason = "the place is taken until this is dropped")] Option<PendingSlot>),
    /// The principal of its certificate, before the first request.
    Provisional(Connected),
    /// The principal of the first request that was allowed.
    Principal { _connected: Connected, _place: OwnedSemaphorePermit },
}

/// Why a connection cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoPlace {
    #[error(transparent)]
    OfPrincipal(#[from] TooManyConnections),
    #[error("this site has as many connections to its API as it may have; close some, or use another site")]
    OfSite,
}

impl RemoteClient {
    fn new(
        address: SocketAddr,
        shown: Credentials,
        slot: Option<PendingSlot>,
        (places, watched): (Arc<Semaphore>, Watched),
    ) -> Arc<Self> {
        let charged = Mutex::new(Charged::Pending(slot));
        Arc::new(RemoteClient { address, shown, charged, places, watched })
    }

    /// Notes that a request with a token of this client came over the connection, which ends with the token.
    pub(super) fn note_token(&self, name: &ClientName, expires: Option<u64>) {
        self.watched.note_token(name, expires);
    }

    /// Returns the principal of a request without a token. A site's certificate is an error.
    pub(super) fn principal(&self) -> Result<Principal, Bearer> {
        match &self.shown {
            Credentials::ThisMachine => Ok(Principal::Local),
            Credentials::Certificate(Bearer::Client(name), _) => Ok(Principal::Named(name.clone())),
            Credentials::Certificate(site @ Bearer::Site(_), _) => Err(site.clone()),
            Credentials::Nothing => Ok(Principal::Anyone),
        }
    }

    /// Returns the certificate that the connection has shown.
    pub(super) fn certificate(&self) -> Option<&Serial> {
        match &self.shown {
            Credentials::Certificate(_, serial) => serial.as_ref(),
            Credentials::ThisMachine | Credentials::Nothing => None,
        }
    }

    /// Counts a connection with a client certificate before its first request. A client with too many connections
    /// keeps one of the places for unused connections, and is refused at its first request.
    fn charge_provisionally(&self, front: &Front) {
        if let Ok(to @ Principal::Named(_)) = self.principal()
            && let Ok(connected) = front.connect(&to)
        {
            *self.charged() = Charged::Provisional(connected);
        }
    }

    /// Counts the connection for the principal of the first allowed request, which a token may determine.
    pub(super) fn charge(&self, front: &Front, to: &Principal) -> Result<(), NoPlace> {
        let mut charged = self.charged();
        let again = match &*charged {
            Charged::Principal { .. } => return Ok(()),
            Charged::Provisional(provisional) if provisional.principal() == to => None,
            Charged::Provisional(_) | Charged::Pending(_) => Some(front.connect(to)?),
        };
        let place = self.places.clone().try_acquire_owned().map_err(|_| NoPlace::OfSite)?;
        let before = std::mem::replace(&mut *charged, Charged::Pending(None));
        if let (Some(connected), _) | (None, Charged::Provisional(connected)) = (again, before) {
            *charged = Charged::Principal { _connected: connected, _place: place };
        }
        Ok(())
    }

    /// Returns whether a request was allowed on this connection.
    fn is_used(&self) -> bool {
        matches!(&*self.charged(), Charged::Principal { .. })
    }

    fn charged(&self) -> MutexGuard<'_, Charged> {
        self.charged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl RemoteClient {
    /// A connection without a certificate.
    pub(super) fn unknown() -> Arc<Self> {
        RemoteClient::new(([10, 0, 0, 1], 4000).into(), Credentials::Nothing, None, in_test())
    }

    /// An unprotected connection from this machine.
    pub(super) fn local() -> Arc<Self> {
        RemoteClient::new(([127, 0, 0, 1], 4000).into(), Credentials::ThisMachine, None, in_test())
    }

    /// A connection with this certificate.
    pub(super) fn of(bearer: Bearer) -> Arc<Self> {
        RemoteClient::new(
            ([10, 0, 0, 1], 4000).into(),
            Credentials::Certificate(bearer, None),
            None,
            in_test(),
        )
    }
}

/// The places and the registration of a connection that nobody serves.
#[cfg(test)]
fn in_test() -> (Arc<Semaphore>, Watched) {
    let watched = Trust::default().register(None, ShownBy::Caller, &Arc::default());
    (Arc::new(Semaphore::new(1)), watched.expect("nothing is shown"))
}

/// Serves connections.
#[derive(Clone)]
pub(super) struct ConnectionServer {
    trust: Trust,
    router: Router,
    builder: Arc<Builder<TokioExecutor>>,
    front: Front,
    slow_reader: Duration,
    /// Places for connections on which no request has been allowed yet.
    pending: Arc<PendingConnections>,
    /// Places for the others.
    places: Arc<Semaphore>,
    /// Called when a connection over a network ends without being closed.
    on_cut: OnCut,
    ends: ConnectionEnds,
}

/// Called with the address of a client whose connection was cut.
pub(super) type OnCut = Arc<dyn Fn(SocketAddr) + Send + Sync>;

impl ConnectionServer {
    pub(super) fn new(
        router: Router,
        limits: ApiLimits,
        front: Front,
        on_cut: OnCut,
        ends: ConnectionEnds,
    ) -> Self {
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HANDSHAKE_TIMEOUT)
            .max_buf_size(MAX_HEADERS as usize);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_CALLS)
            .max_header_list_size(MAX_HEADERS)
            .initial_stream_window_size(MAX_UNREAD_REQUEST)
            .initial_connection_window_size(MAX_UNREAD_REQUESTS)
            .max_send_buf_size(MAX_SEND_BUFFER)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_INTERVAL);
        let builder = Arc::new(builder);
        let pending = PendingConnections::new(
            Port::Api,
            limits.connections.min(PLACES),
            front.node().evictions().clone(),
        );
        let places = Arc::new(Semaphore::new(limits.connections));
        ConnectionServer {
            trust: front.node().trust().clone(),
            router,
            builder,
            front,
            slow_reader: limits.slow_reader,
            pending,
            places,
            on_cut,
            ends,
        }
    }

    pub(super) async fn accept_connections(&self, listener: TcpListener) {
        loop {
            let (stream, address) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection to the API");
                    self.pending.make_room();
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let (server, slot) = (self.clone(), self.pending.enter(address.ip()));
            let open = self.ends.open();
            tokio::spawn(async move {
                let _open = open;
                if let Err(error) = server.serve(stream, address, slot).await {
                    tracing::debug!(%address, %error, "a connection to the API ended");
                }
            });
        }
    }

    async fn serve(&self, stream: TcpStream, address: SocketAddr, slot: PendingSlot) -> io::Result<()> {
        // Make the system end a dead connection; by default it would take a quarter of an hour.
        meshlock_host::tune(&stream, self.slow_reader)?;
        // Otherwise the system would buffer megabytes for each client that does not read.
        rustix::net::sockopt::set_socket_send_buffer_size(&stream, MAX_SEND_BUFFER)?;
        let (evicted, places, ending) = (slot.evicted(), self.places.clone(), Arc::default());
        let local = stream.local_addr()?;
        let stream = WriteTimeout::new(stream, self.slow_reader);
        let Security::Tls(identity) = self.trust.security() else {
            let watched = self.register(None, &ending)?;
            let client = RemoteClient::new(address, Credentials::ThisMachine, Some(slot), (places, watched));
            let served_at = ServedAt { address: local, is_tls: false };
            return self.serve_http(stream, (client, served_at), evicted, ending).await;
        };
        let tls = self.acceptor(&identity);
        let handshake = async {
            slot.turn().await.map_err(io::Error::other)?;
            let late = |_| io::Error::from(io::ErrorKind::TimedOut);
            timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await.map_err(late)?
        };
        let stream = tokio::select! {
            stream = handshake => stream?,
            () = evicted.notified() => return Err(io::Error::other("it was silent, and had to make room for others")),
        };
        let chain = stream.get_ref().1.peer_certificates();
        let watched = self.register(chain, &ending)?;
        let shown = match bearer_of_chain(chain) {
            Ok(bearer) => Credentials::Certificate(bearer, serial_of_chain(chain)),
            Err(TlsError::Anonymous) => Credentials::Nothing,
            Err(error) => return Err(io::Error::other(error)),
        };
        let on_cut = self.on_cut.clone();
        let stream = CutDetector::new(stream, move || on_cut(address));
        let client = RemoteClient::new(address, shown, Some(slot), (places, watched));
        let served_at = ServedAt { address: local, is_tls: true };
        self.serve_http(stream, (client, served_at), evicted, ending).await
    }

    /// Returns the acceptor of a connection. As soon as there are tokens, clients need no certificate.
    fn acceptor(&self, identity: &Identity) -> TlsAcceptor {
        let config = identity.serving(&[b"h2", b"http/1.1"], self.front.has_tokens());
        TlsAcceptor::from(Arc::new(config))
    }

    fn register(&self, chain: Option<&[CertificateDer<'_>]>, ending: &Arc<Ending>) -> io::Result<Watched> {
        self.trust.register(chain, ShownBy::Caller, ending).map_err(io::Error::other)
    }

    async fn serve_http(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: (Arc<RemoteClient>, ServedAt),
        evicted: Evicted,
        ending: Arc<Ending>,
    ) -> io::Result<()> {
        let address = peer.0.address;
        tokio::select! {
            served = self.serve_requests(stream, peer, evicted) => served,
            why = ending.happened() => {
                tracing::warn!(%address, %why, "a connection to the API is ended");
                // Its client may rely on its locks for as long as it was told.
                (self.on_cut)(address);
                Err(io::Error::other(why.clone()))
            }
        }
    }

    async fn serve_requests(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        (peer, served_at): (Arc<RemoteClient>, ServedAt),
        evicted: Evicted,
    ) -> io::Result<()> {
        let (router, known) = (self.router.clone(), peer.clone());
        peer.charge_provisionally(&self.front);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer.clone());
            request.extensions_mut().insert(served_at);
            rewrite_old_path(&mut request);
            router.clone().call(request.map(Body::new))
        });
        let serving = self.builder.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(serving);
        tokio::select! {
            served = &mut serving => return served.map_err(io::Error::other),
            () = sleep(HANDSHAKE_TIMEOUT) => {}
            () = evicted.notified() => {}
            () = self.ends.begun() => {}
        }
        if self.ends.has_begun() {
            serving.as_mut().graceful_shutdown();
            return serving.await.map_err(io::Error::other);
        }
        // A connection without an allowed request does not keep its place.
        if !known.is_used() {
            return Err(io::Error::other(
                "no request was allowed in time, or before others needed its place",
            ));
        }
        tokio::select! {
            served = &mut serving => return served.map_err(io::Error::other),
            () = self.ends.begun() => serving.as_mut().graceful_shutdown(),
        }
        serving.await.map_err(io::Error::other)
    }
}

/// The paths of etcd's JSON API before its version 3.4, which some clients still use.
const OLD_PATHS: &str = "/v3beta/";

/// Turns a path of an earlier version of etcd's JSON API into that of the current one.
fn rewrite_old_path<T>(request: &mut Request<T>) {
    let uri = request.uri();
    let Some(rest) = uri.path_and_query().and_then(|path| path.as_str().strip_prefix(OLD_PATHS)) else {
        return;
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = format!("/v3/{rest}").parse().ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
}
