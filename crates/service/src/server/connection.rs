//! Connections: who is let in, and how they are served.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use meshlock_node::access::Principal;
use meshlock_node::shell::Security;
use meshlock_node::shell::gate::{Connected, Gate, TooManyConnections};
use meshlock_node::shell::tls::{Bearer, TlsError, bearer_of_chain};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

use super::farewell::Farewell;
use super::patient::Patient;
use crate::ledger::Limits;

/// How long a client may take for its side of the handshake, and to say what it wants.
const GREET_WITHIN: Duration = Duration::from_secs(10);

/// A client that has not been heard of for so long is asked whether it is there, and has as long again to say so.
const ASK_AFTER: Duration = Duration::from_secs(20);

/// How many calls one connection may have open.
const MOST_CALLS: u32 = 1024;

/// How much is kept for one connection that reads slowly, before its calls wait for it; and by the system beside it.
const MOST_UNREAD: usize = 64 << 10;

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
    Nobody,
    To(Principal, #[expect(dead_code, reason = "it counts until it is dropped")] Connected),
}

impl Peer {
    fn new(address: SocketAddr, shown: Shown) -> Arc<Self> {
        Arc::new(Peer { address, shown, charged: Mutex::new(Charged::Nobody) })
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

    /// Counts the connection for whoever uses it first, and is known.
    pub(super) fn charge(&self, gate: &Arc<Gate>, to: &Principal) -> Result<(), TooManyConnections> {
        let mut charged = self.charged();
        let is_settled = match &*charged {
            Charged::Nobody => false,
            Charged::To(whom, _) => *whom != Principal::Anyone || whom == to,
        };
        if !is_settled {
            *charged = Charged::To(to.clone(), gate.connect(to)?);
        }
        Ok(())
    }

    /// Whether somebody who is known has used it.
    fn is_known(&self) -> bool {
        matches!(&*self.charged(), Charged::To(whom, _) if *whom != Principal::Anyone)
    }

    fn charged(&self) -> MutexGuard<'_, Charged> {
        self.charged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl Peer {
    /// A connection that shows nothing.
    pub(super) fn unknown() -> Arc<Self> {
        Peer::new(([10, 0, 0, 1], 4000).into(), Shown::Nothing)
    }

    /// One that shows this certificate.
    pub(super) fn of(bearer: Bearer) -> Arc<Self> {
        Peer::new(([10, 0, 0, 1], 4000).into(), Shown::Certificate(bearer))
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
        builder.http1().timer(TokioTimer::new()).header_read_timeout(GREET_WITHIN).max_buf_size(MOST_UNREAD);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(MOST_CALLS)
            .max_header_list_size(u32::try_from(limits.request_bytes).unwrap_or(u32::MAX))
            .max_send_buf_size(MOST_UNREAD)
            .keep_alive_interval(ASK_AFTER)
            .keep_alive_timeout(ASK_AFTER);
        Door { tls, router, builder: Arc::new(builder), gate, slow_reader: limits.slow_reader, on_cut }
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
            let Ok(place) = places.clone().try_acquire_owned() else {
                tracing::warn!("a connection to the API is refused: there are too many");
                continue;
            };
            let door = self.clone();
            tokio::spawn(async move {
                if let Err(error) = door.serve(stream, address).await {
                    tracing::debug!(%error, "a connection to the API ended");
                }
                drop(place);
            });
        }
    }

    async fn serve(&self, stream: TcpStream, address: SocketAddr) -> io::Result<()> {
        // The system ends what leads nowhere; it would wait for a quarter of an hour otherwise.
        meshlock_node::shell::tune(&stream, self.slow_reader)?;
        // Without this the system would keep megabytes for each of those who do not read.
        rustix::net::sockopt::set_socket_send_buffer_size(&stream, MOST_UNREAD)?;
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        let Some(tls) = &self.tls else {
            let stream = Patient::new(stream, self.slow_reader);
            return self.talk(stream, Peer::new(address, Shown::ThisMachine)).await;
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
        self.talk(stream, Peer::new(address, shown)).await
    }

    async fn talk(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: Arc<Peer>,
    ) -> io::Result<()> {
        let (router, known) = (self.router.clone(), peer.clone());
        if let Ok(Principal::Anyone) = peer.principal() {
            // Counted from the start: whoever shows nothing must not keep out those whose token comes next.
            peer.charge(&self.gate, &Principal::Anyone).map_err(io::Error::other)?;
        }
        let asked = Arc::new(AtomicBool::new(false));
        let asks = asked.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            asks.store(true, Ordering::Relaxed);
            request.extensions_mut().insert(peer.clone());
            router.clone().call(request.map(Body::new))
        });
        let serving = self.builder.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(serving);
        tokio::select! {
            served = &mut serving => return served.map_err(io::Error::other),
            () = sleep(GREET_WITHIN) => {}
        }
        // Whoever says nothing does not keep a place.
        if !asked.load(Ordering::Relaxed) {
            return Err(io::Error::other("it has asked for nothing"));
        }
        if matches!(known.principal(), Ok(Principal::Anyone)) && !known.is_known() {
            return Err(io::Error::other("it has shown neither a certificate nor a token that is known"));
        }
        serving.await.map_err(io::Error::other)
    }
}
