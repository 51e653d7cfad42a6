//! Connections: who is let in, and how they are served.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use meshlock_node::shell::Security;
use meshlock_node::shell::tls::bearer_of_chain;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

use super::principal::Principal;
use crate::ledger::Limits;

/// How long a client may take for its side of the handshake, and to say what it wants.
const GREET_WITHIN: Duration = Duration::from_secs(10);

/// A client that has not been heard of for so long is asked whether it is there, and has as long again to say so.
const ASK_AFTER: Duration = Duration::from_secs(20);

/// How many calls one connection may have open.
const MOST_CALLS: u32 = 1024;

/// How much is kept for one connection that reads slowly, before its calls wait for it.
const MOST_UNREAD: usize = 64 << 10;

/// What every connection is served by.
#[derive(Clone)]
pub(super) struct Door {
    tls: Option<TlsAcceptor>,
    router: Router,
    builder: Arc<Builder<TokioExecutor>>,
}

impl Door {
    pub(super) fn new(security: &Security, router: Router, limits: Limits) -> Self {
        let tls = match security {
            Security::Plain => None,
            Security::Tls(identity) => {
                Some(TlsAcceptor::from(Arc::new(identity.serving(&[b"h2", b"http/1.1"]))))
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
        Door { tls, router, builder: Arc::new(builder) }
    }

    pub(super) async fn keep_accepting(&self, listener: TcpListener, places: Arc<Semaphore>) {
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
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
                if let Err(error) = door.serve(stream).await {
                    tracing::debug!(%error, "a connection to the API ended");
                }
                drop(place);
            });
        }
    }

    async fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        let Some(tls) = &self.tls else {
            // Whoever says nothing does not keep a place.
            timeout(GREET_WITHIN, stream.peek(&mut [0])).await.map_err(late)??;
            return self.talk(stream, Principal::ThisMachine).await;
        };
        let stream = timeout(GREET_WITHIN, tls.accept(stream)).await.map_err(late)??;
        let bearer = bearer_of_chain(stream.get_ref().1.peer_certificates()).map_err(io::Error::other)?;
        self.talk(stream, Principal::Certificate(bearer)).await
    }

    async fn talk(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        principal: Principal,
    ) -> io::Result<()> {
        let router = self.router.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(principal.clone());
            router.clone().call(request.map(Body::new))
        });
        let serving = self.builder.serve_connection(TokioIo::new(stream), service);
        serving.await.map_err(io::Error::other)
    }
}
