//! How a connection between sites begins: TLS if configured, then both sides identify themselves.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::Connection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use meshlock_tls::{TlsError, drain_tls, open_tls, site_of};

use super::super::channel::{Channel, Stream};
use super::super::pending::TooManyHandshakes;
use super::super::trust::{Ending, Trust, Watched};
use meshlock_cluster::names::SiteName;
use meshlock_wire::diagnosis::{Diagnosis, DiagnosisError};
use meshlock_wire::sites::{FrameError, Hello, Versions, greeting, take_greeting};
use meshlock_wire::sites::{Introduction, IntroductionError, SiteQuestion};

/// Maximum duration of the greeting, including TLS.
pub(super) const GREET_WITHIN: Duration = Duration::from_secs(5);

/// A connection is closed after this long without a TCP acknowledgement by the other machine.
pub(in super::super) const UNACKNOWLEDGED: Duration = Duration::from_secs(3);

/// Idle time before TCP keepalive probes are sent; then one every second, three times.
const IDLE: Duration = Duration::from_secs(5);

/// Why a greeting failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum GreetError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(
        "it says that it is the site '{found}', not '{expected}'; compare the addresses in the configuration"
    )]
    OtherSite { expected: SiteName, found: SiteName },
    #[error(
        "it looks for the site '{sought}', and this is '{me}'; compare the addresses in its configuration"
    )]
    NotMe { sought: SiteName, me: SiteName },
    #[error("it says that it is the site '{said}', but its certificate is that of '{certified}'")]
    Impostor { said: SiteName, certified: SiteName },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("no answer within {} seconds", GREET_WITHIN.as_secs())]
    Silent,
    #[error(transparent)]
    Introduction(#[from] IntroductionError),
    #[error(transparent)]
    Diagnosis(#[from] DiagnosisError),
    #[error("it runs an older version of Meshlock, which does not answer this question")]
    OldProgram,
    #[error("too many connections that have not identified themselves: an older one had to make room")]
    Evicted,
    #[error(transparent)]
    Handshakes(#[from] TooManyHandshakes),
}

impl GreetError {
    /// Returns whether the peer has said nothing, or not enough to know what it is.
    pub(super) fn is_silence(&self) -> bool {
        match self {
            GreetError::Silent | GreetError::Evicted | GreetError::Handshakes(_) | GreetError::Io(_) => true,
            GreetError::Frame(_)
            | GreetError::OtherSite { .. }
            | GreetError::NotMe { .. }
            | GreetError::Impostor { .. }
            | GreetError::Tls(_)
            | GreetError::Introduction(_)
            | GreetError::Diagnosis(_)
            | GreetError::OldProgram => false,
        }
    }
}

/// A connection whose greeting is complete.
pub(super) struct Greeted {
    pub(super) channel: Arc<Channel>,
    pub(super) hello: Hello,
    /// The version of the wire format that both sides speak from here on.
    pub(super) version: u16,
    /// Bytes received after the greeting.
    pub(super) rest: Vec<u8>,
    /// The address of the other end.
    pub(super) address: Option<SocketAddr>,
    pub(super) relied_on: Arc<ReliedOn>,
}

/// The certificate of the peer, as far as the connection depends on it.
#[derive(Debug, Default)]
pub(super) struct ReliedOn {
    /// Says when the certificate is not accepted any more.
    pub(super) ending: Arc<Ending>,
    /// Registers the connection; `None` without TLS.
    _watched: Option<Watched>,
}

impl ReliedOn {
    fn register(trust: &Trust, tls: Option<&Connection>) -> Result<Arc<Self>, TlsError> {
        let ending = Arc::default();
        let watched = trust.register_tls(tls, &ending)?;
        Ok(Arc::new(ReliedOn { ending, _watched: watched }))
    }
}

/// A connection during the greeting, with or without TLS.
struct Newcomer {
    stream: TcpStream,
    tls: Option<Connection>,
    plain: Vec<u8>,
    speaks: Versions,
}

impl Newcomer {
    fn new(stream: TcpStream, mut tls: Option<Connection>, speaks: Versions) -> Self {
        if let Some(tls) = &mut tls {
            // Queued data is already limited by the channel.
            tls.set_buffer_limit(None);
        }
        Newcomer { stream, tls, plain: Vec::new(), speaks }
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return self.stream.write_all(bytes).await };
        io::Write::write_all(&mut tls.writer(), bytes)?;
        self.write_tls().await
    }

    async fn write_tls(&mut self) -> io::Result<()> {
        let mut wire = Vec::new();
        if let Some(tls) = &mut self.tls {
            drain_tls(tls, &mut wire)?;
        }
        self.stream.write_all(&wire).await
    }

    async fn read(&mut self) -> Result<(), GreetError> {
        let mut bytes = [0; 4096];
        let count = self.stream.read(&mut bytes).await?;
        if count == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let Some(tls) = &mut self.tls else {
            self.plain.extend_from_slice(&bytes[..count]);
            return Ok(());
        };
        let opened = open_tls(tls, &bytes[..count], &mut self.plain);
        // Also after an error TLS has something to send: the alert that says why.
        let answers = opened.as_ref().map(Clone::clone).unwrap_or_default();
        self.stream.write_all(&answers).await?;
        self.write_tls().await?;
        opened.map(drop).map_err(|error| TlsError::of(error).into())
    }

    async fn say(&mut self, hello: &Hello) -> io::Result<()> {
        let greeting = greeting(hello, self.speaks);
        self.write(&greeting).await
    }

    /// Reads the other side's greeting. Also returns the version that both speak.
    async fn hello(&mut self) -> Result<(Hello, u16), GreetError> {
        loop {
            if let Some(hello) = take_greeting(&mut self.plain, self.speaks)? {
                return Ok(hello);
            }
            self.read().await?;
        }
    }

    /// Reads what the other side says about its cluster.
    async fn introduction(&mut self) -> Result<Introduction, GreetError> {
        loop {
            if let Some((introduction, length)) = Introduction::take_with_length(&self.plain)? {
                self.plain.drain(..length);
                return Ok(introduction);
            }
            self.read().await?;
        }
    }

    /// Reads more of an answer; the end of the connection means that the other side does not know the question.
    async fn read_more(&mut self) -> Result<(), GreetError> {
        match self.read().await {
            Err(GreetError::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(GreetError::OldProgram)
            }
            read => read,
        }
    }

    fn greeted(self, hello: Hello, version: u16, relied_on: Arc<ReliedOn>) -> Greeted {
        let address = self.stream.peer_addr().ok();
        let channel = Arc::new(Channel::new(Stream::Tcp(self.stream), self.tls));
        Greeted { channel, hello, version, rest: self.plain, address, relied_on }
    }
}

/// Greets the site that was dialled.
pub(super) async fn greet(
    stream: TcpStream,
    tls: Option<Connection>,
    me: Hello,
    speaks: Versions,
    trust: &Trust,
) -> Result<Greeted, GreetError> {
    tune(&stream, UNACKNOWLEDGED)?;
    let mut newcomer = Newcomer::new(stream, tls, speaks);
    let expected = me.to.clone();
    newcomer.write_tls().await?;
    newcomer.say(&me).await?;
    let (hello, version) = newcomer.hello().await?;
    if hello.from != expected {
        return Err(GreetError::OtherSite { expected, found: hello.from });
    }
    check_certificate(newcomer.tls.as_ref(), &hello)?;
    let relied_on = ReliedOn::register(trust, newcomer.tls.as_ref())?;
    Ok(newcomer.greeted(hello, version, relied_on))
}

/// Reads the greeting of an incoming connection and answers it. Returns `None` if the peer only asked about the cluster.
pub(super) async fn welcome(
    stream: TcpStream,
    tls: Option<Connection>,
    (me, incarnation, speaks): (&SiteName, u64, Versions),
    trust: &Trust,
    answer: impl FnOnce(SiteQuestion) -> Vec<u8>,
) -> Result<Option<Greeted>, GreetError> {
    tune(&stream, UNACKNOWLEDGED)?;
    let mut newcomer = Newcomer::new(stream, tls, speaks);
    let hello = newcomer.hello().await;
    if let Ok((hello, _)) = &hello {
        check_certificate(newcomer.tls.as_ref(), hello)?;
    }
    let to = hello.as_ref().map_or_else(|_| me.clone(), |(hello, _)| hello.from.clone());
    if matches!(&hello, Ok(_) | Err(GreetError::Frame(FrameError::Version { .. }))) {
        // A peer of another version is answered too, so that it can tell its user why it is refused.
        newcomer.say(&Hello { from: me.clone(), to, incarnation }).await?;
    }
    let (hello, version) = hello?;
    if hello.to == hello.from {
        newcomer.write(&answer(SiteQuestion::of_number(hello.incarnation))).await?;
        return Ok(None);
    }
    if hello.to != *me {
        return Err(GreetError::NotMe { sought: hello.to, me: me.clone() });
    }
    let relied_on = ReliedOn::register(trust, newcomer.tls.as_ref())?;
    Ok(Some(newcomer.greeted(hello, version, relied_on)))
}

/// Answers of the site at the other end of a connection that was made only to ask.
pub(super) struct Asking {
    newcomer: Newcomer,
    /// The name of the site.
    pub(super) site: SiteName,
    /// What it says about its cluster.
    pub(super) introduction: Introduction,
}

impl Asking {
    /// Reads the answer to [`SiteQuestion::Everyone`].
    pub(super) async fn everyone(mut self) -> Result<Introduction, GreetError> {
        loop {
            if let Some(everyone) = Introduction::take(&self.newcomer.plain)? {
                return Ok(everyone);
            }
            self.newcomer.read_more().await?;
        }
    }

    /// Reads the answer to [`SiteQuestion::Diagnosis`].
    pub(super) async fn diagnosis(mut self) -> Result<Diagnosis, GreetError> {
        loop {
            if let Some(report) = Diagnosis::take(&self.newcomer.plain)? {
                return Ok(report);
            }
            self.newcomer.read_more().await?;
        }
    }
}

/// Asks the site at the other end about its cluster, and something more. A greeting whose sender names itself as the receiver means this
/// question.
pub(super) async fn ask_about(
    stream: TcpStream,
    tls: Option<Connection>,
    me: &SiteName,
    question: SiteQuestion,
) -> Result<Asking, GreetError> {
    tune(&stream, UNACKNOWLEDGED)?;
    let mut newcomer = Newcomer::new(stream, tls, Versions::default());
    newcomer.write_tls().await?;
    newcomer.say(&Hello { from: me.clone(), to: me.clone(), incarnation: question.number() }).await?;
    let (hello, _) = newcomer.hello().await?;
    check_certificate(newcomer.tls.as_ref(), &hello)?;
    let introduction = newcomer.introduction().await?;
    Ok(Asking { newcomer, site: hello.from, introduction })
}

/// Checks that the peer claims to be the site that its certificate names.
fn check_certificate(tls: Option<&Connection>, hello: &Hello) -> Result<(), GreetError> {
    let Some(tls) = tls else { return Ok(()) };
    let certified = site_of(tls)?;
    if certified == hello.from {
        return Ok(());
    }
    Err(GreetError::Impostor { said: hello.from.clone(), certified })
}

/// Sets TCP options: no delay, and timeouts so that a dead connection is closed within seconds. It is closed after `unacknowledged` without
/// an acknowledgement.
pub fn tune(stream: &TcpStream, unacknowledged: Duration) -> io::Result<()> {
    use rustix::net::sockopt::{
        set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_user_timeout,
    };
    stream.set_nodelay(true)?;
    let timeout = u32::try_from(unacknowledged.as_millis()).unwrap_or(u32::MAX);
    set_tcp_user_timeout(stream, timeout)?;
    set_socket_keepalive(stream, true)?;
    set_tcp_keepidle(stream, IDLE)?;
    set_tcp_keepintvl(stream, Duration::from_secs(1))?;
    set_tcp_keepcnt(stream, 3)?;
    Ok(())
}
