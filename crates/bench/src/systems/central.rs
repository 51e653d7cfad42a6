//! A minimal central lock server over TCP: one thread, a queue for each lock, five bytes per message and one per grant. It has no fences
//! and does not handle clients that crash.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::oneshot;

use crate::system::{LockClient, System};

/// The first byte of a message; the number of the lock follows.
const ACQUIRE: u8 = b'a';
const RELEASE: u8 = b'r';

/// The server, on a thread of its own.
pub(crate) struct Central {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<std::io::Result<()>>>,
}

impl Central {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                tokio::select! {
                    served = serve(tokio::net::TcpListener::from_std(listener)?) => served,
                    _ = stopped => Ok(()),
                }
            })
        });
        Ok(Central { address, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Central {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether a lock is held, and the connections of the clients that wait.
#[derive(Default)]
struct CentralLock {
    held: bool,
    waiting: VecDeque<Arc<OwnedWriteHalf>>,
}

async fn serve(listener: tokio::net::TcpListener) -> std::io::Result<()> {
    let locks: Arc<Mutex<BTreeMap<u32, CentralLock>>> = Arc::default();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (mut reader, writer) = stream.into_split();
        let (writer, locks) = (Arc::new(writer), locks.clone());
        tokio::spawn(async move {
            let mut message = [0; 5];
            while reader.read_exact(&mut message).await.is_ok() {
                let [kind, number @ ..] = message;
                let next = {
                    let mut locks = locks.lock().unwrap_or_else(PoisonError::into_inner);
                    let lock = locks.entry(u32::from_le_bytes(number)).or_default();
                    if kind == RELEASE {
                        lock.held = false;
                    } else {
                        lock.waiting.push_back(writer.clone());
                    }
                    let next = if lock.held { None } else { lock.waiting.pop_front() };
                    lock.held |= next.is_some();
                    next
                };
                if let Some(next) = next {
                    // One byte always fits.
                    let _ = next.try_write(b"g");
                }
            }
        });
    }
}

/// A client of that server.
pub(crate) struct CentralClient {
    stream: TcpStream,
    held: u32,
}

impl System for Central {
    type Client = CentralClient;

    const TAKES_OVER: bool = false;

    async fn connect(&self, _number: usize, _expiry: Duration) -> anyhow::Result<Self::Client> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(CentralClient { stream, held: 0 })
    }

    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }

    fn kill_first(&mut self) -> bool {
        false
    }
}

impl CentralClient {
    async fn send(&mut self, kind: u8) -> anyhow::Result<()> {
        let [a, b, c, d] = self.held.to_le_bytes();
        Ok(self.stream.write_all(&[kind, a, b, c, d]).await?)
    }
}

impl LockClient for CentralClient {
    /// The server knows a lock by the number at the end of its name.
    async fn acquire(&mut self, lock: &str) -> anyhow::Result<Option<i64>> {
        let number = lock.rsplit('-').next().unwrap_or_default();
        self.held = number.parse().unwrap_or(u32::MAX);
        self.send(ACQUIRE).await?;
        self.stream.read_u8().await?;
        Ok(None)
    }

    async fn release(&mut self) -> anyhow::Result<()> {
        self.send(RELEASE).await
    }
}
