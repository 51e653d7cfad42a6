//! Connections: who is let in, and how they are served.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use meshlock_cluster::access::Principal;
use meshlock_host::gate::{Connected, Gate, TooManyConnections};
use meshlock_host::{PendingConnections, PendingSlot};
use meshlock_tls::Security;
use meshlock_tls::{Bearer, TlsError, bearer_of_chain};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

use super::farewell::Farewell;
use super::patient::Patient;
use crate::sessions::registry::Limits;

/// How long a client may take for its side of the handshake, and to say what it wants.
const GREET_WITHIN: Duration = Duration::from_secs(10);

/// A client that has not been heard of for so long is asked whether it is there, and has as long again to say so.
const ASK_AFTER: Duration = Duration::from_secs(20);

/// How many calls one connection may have open.
const MAX_CALLS: u32 = 1024;

/// How much is kept for one connection that reads slowly, before its calls wait for it; and by the system beside it.
const MAX_UNREAD: usize = 64 << 10;

/// Who is at the other end of a connection.
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    shown: Shown,
    /// Whom the connection counts for.
    charged: Mutex<Charged>,
}

/// What a connection shows before anything is asked.
enum Shown {
    /// That it is of this machine: it is not protected.
    ThisMachine,
    /// A certificate.
    Certificate(Bearer),
    /// Nothing: a token may follow.
    Nothing,
}

/// Whom a connection counts for, and that there is room for it.
enum Charged {
    /// Nobody yet: it has one of the places of those who may do nothing.
    Nobody(#[expect(dead_code, reason = "it is taken until it is dropped")] Option<PendingSlot>),
    /// Whose certificate it shows, before anything is asked.
    AtFirst(Connected),
    /// Whoever asked first, and might.
    To(#[expect(dead_code, reason = "it counts until it is dropped")] Connected),
}

impl Peer {
    fn new(address: SocketAddr, shown: Shown, slot: Option<PendingSlot>) -> Arc<Self> {
        Arc::new(Peer { address, shown, charged: Mutex::new(Charged::Nobody(slot)) })
    }

    /// Who it is without a token; a site is nobody.
    pub(super) fn principal(&self) -> Result<Principal, Bearer> {
        match &self.shown {
            Shown::ThisMachine => Ok(Principal::Local),
            Shown::Certificate(Bearer::Client(name)) => Ok(Principal::Named(name.clone())),
            Shown::Certificate(site @ Bearer::Site(_)) => Err(site.clone()),
            Shown::Nothing => Ok(Principal::Anyone),
        }
    }

    /// Counts the connection of somebody who has shown a certificate, before anything is asked. One who has too many is told so, from
    /// the places of those who may do nothing.
    fn charge_at_first(&self, gate: &Arc<Gate>) {
        if let Ok(to @ Principal::Named(_)) = self.principal()
            && let Ok(connected) = gate.connect(&to)
        {
            *self.charged() = Charged::AtFirst(connected);
        }
    }

    /// Counts the connection for whoever asks first and may, which a token may say.
    pub(super) fn charge(&self, gate: &Arc<Gate>, to: &Principal) -> Result<(), TooManyConnections> {
        let mut charged = self.charged();
        let connected = match &*charged {
            Charged::To(_) => return Ok(()),
            Charged::AtFirst(at_first) if at_first.principal() == to => None,
            Charged::AtFirst(_) | Charged::Nobody(_) => Some(gate.connect(to)?),
        };
        *charged = match (std::mem::replace(&mut *charged, Charged::Nobody(None)), connected) {
            (_, Some(connected)) | (Charged::AtFirst(connected), None) => Charged::To(connected),
            (other @ (Charged::Nobody(_) | Charged::To(_)), None) => other,
        };
        Ok(())
    }

    /// Whether somebody has asked something, and there was room for its connection.
    fn is_used(&self) -> bool {
        matches!(&*self.charged(), Charged::To(_))
    }

    fn charged(&self) -> MutexGuard<'_, Charged> {
        self.charged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl Peer {
    /// A connection that shows nothing.
    pub(super) fn unknown() -> Arc<Self> {
        Peer::new(([10, 0, 0, 1], 4000).into(), Shown::Nothing, None)
    }

    /// One that shows this certificate.
    pub(super) fn of(bearer: Bearer) -> Arc<Self> {
        Peer::new(([10, 0, 0, 1], 4000).into(), Shown::Certificate(bearer), None)
    }
}

/// What every connection is served by.
#[derive(Clone)]
pub(super) struct Door {
    tls: Option<Acceptors>,
    router: Router,
    builder: Arc<Builder<TokioExecutor>>,
    gate: Arc<Gate>,
    slow_reader: Duration,
    /// For those of whom nothing has been heard that they might ask for.
    pending: Arc<PendingConnections>,
    /// Told of connections over a network that end without a word.
    on_cut: OnCut,
}

/// Hears that the connection to this client was cut.
pub(super) type OnCut = Arc<dyn Fn(SocketAddr) + Send + Sync>;

/// For those who show a certificate, and for those who may show a token instead: as soon as there are tokens.
#[derive(Clone)]
struct Acceptors {
    certificates: TlsAcceptor,
    tokens: TlsAcceptor,
}

impl Door {
    pub(super) fn new(
        security: &Security,
        router: Router,
        limits: Limits,
        gate: Arc<Gate>,
        on_cut: OnCut,
    ) -> Self {
        let tls = match security {
            Security::Plain => None,
            Security::Tls(identity) => {
                let accepting = |anonymous| {
                    TlsAcceptor::from(Arc::new(identity.serving(&[b"h2", b"http/1.1"], anonymous)))
                };
                Some(Acceptors { certificates: accepting(false), tokens: accepting(true) })
            }
        };
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(GREET_WITHIN).max_buf_size(MAX_UNREAD);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_CALLS)
            .max_header_list_size(u32::try_from(limits.request_bytes).unwrap_or(u32::MAX))
            .max_send_buf_size(MAX_UNREAD)
            .keep_alive_interval(ASK_AFTER)
            .keep_alive_timeout(ASK_AFTER);
        let builder = Arc::new(builder);
        // One address cannot take all places by asking for nothing that it may have, nor can all who do so.
        let pending =
            PendingConnections::new((limits.connections / 2).max(1), (limits.connections / 4).max(1));
        let pending = Arc::new(pending);
        Door { tls, router, builder, gate, slow_reader: limits.slow_reader, pending, on_cut }
    }

    pub(super) async fn keep_accepting(&self, listener: TcpListener, places: Arc<Semaphore>) {
        loop {
            let (stream, address) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot take a connection to the API");
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let (Ok(place), Some(slot)) =
                (places.clone().try_acquire_owned(), self.pending.enter(address.ip()))
            else {
                tracing::warn!(%address, "a connection to the API is refused: there are too many");
                continue;
            };
            let door = self.clone();
            tokio::spawn(async move {
                if let Err(error) = door.serve(stream, address, slot).await {
                    tracing::debug!(%error, "a connection to the API ended");
                }
                drop(place);
            });
        }
    }

    async fn serve(&self, stream: TcpStream, address: SocketAddr, slot: PendingSlot) -> io::Result<()> {
        // The system ends what leads nowhere; it would wait for a quarter of an hour otherwise.
        meshlock_host::tune(&stream, self.slow_reader)?;
        // Without this the system would keep megabytes for each of those who do not read.
        rustix::net::sockopt::set_socket_send_buffer_size(&stream, MAX_UNREAD)?;
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        let Some(tls) = &self.tls else {
            let stream = Patient::new(stream, self.slow_reader);
            return self.talk(stream, Peer::new(address, Shown::ThisMachine, Some(slot))).await;
        };
        let tls = if self.gate.policy().tokens.is_empty() { &tls.certificates } else { &tls.tokens };
        let stream = Patient::new(stream, self.slow_reader);
        let stream = timeout(GREET_WITHIN, tls.accept(stream)).await.map_err(late)??;
        let shown = match bearer_of_chain(stream.get_ref().1.peer_certificates()) {
            Ok(bearer) => Shown::Certificate(bearer),
            Err(TlsError::Anonymous) => Shown::Nothing,
            Err(error) => return Err(io::Error::other(error)),
        };
        let on_cut = self.on_cut.clone();
        let stream = Farewell::new(stream, move || on_cut(address));
        self.talk(stream, Peer::new(address, shown, Some(slot))).await
    }

    async fn talk(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: Arc<Peer>,
    ) -> io::Result<()> {
        let (router, known) = (self.router.clone(), peer.clone());
        peer.charge_at_first(&self.gate);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer.clone());
            router.clone().call(request.map(Body::new))
        });
        let serving = self.builder.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(serving);
        tokio::select! {
            served = &mut serving => return served.map_err(io::Error::other),
            () = sleep(GREET_WITHIN) => {}
        }
        // Whoever asks for nothing, or may have nothing, does not keep a place.
        if !known.is_used() {
            return Err(io::Error::other("nobody who is known has asked anything"));
        }
        serving.await.map_err(io::Error::other)
    }
}
