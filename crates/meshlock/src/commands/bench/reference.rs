//! What our figures stand beside: bare round trips, and the smallest lock server there can be.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::median;

/// Says back whatever it hears, `size` bytes at a time, until the other side is gone.
pub(super) fn echo(mut stream: impl Read + Write + Send + 'static, size: usize) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut bytes = vec![0; size];
        while stream.read_exact(&mut bytes).is_ok() && stream.write_all(&bytes).is_ok() {}
    })
}

/// The median of so many round trips of `size` bytes, in microseconds, with a pause before each: a machine that was asleep answers
/// later, so the pause must be that of what this stands beside.
pub(super) fn round_trips(
    stream: &mut (impl Read + Write),
    size: usize,
    times: usize,
    pause: Duration,
) -> std::io::Result<f64> {
    let (sent, mut heard) = (vec![7; size], vec![0; size]);
    let mut trips = Vec::with_capacity(times);
    for _ in 0..times {
        spin(pause);
        let start = Instant::now();
        stream.write_all(&sent)?;
        stream.read_exact(&mut heard)?;
        trips.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(trips))
}

/// Lets time pass without sleeping.
pub(super) fn spin(pause: Duration) {
    let start = Instant::now();
    while start.elapsed() < pause {
        std::hint::spin_loop();
    }
}

/// A bare TCP round trip between two threads, in microseconds.
pub(super) fn tcp_round_trip(size: usize, times: usize, pause: Duration) -> std::io::Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut stream = TcpStream::connect(listener.local_addr()?)?;
    let (other, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    other.set_nodelay(true)?;
    let echoes = echo(other, size);
    let trip = round_trips(&mut stream, size, times, pause);
    drop(stream);
    let _ = echoes.join();
    trip
}

/// The smallest central lock server: one lock, one thread, a byte for each message. `a` asks, `g` grants, `r` releases.
pub(super) async fn serve_one_lock(listener: tokio::net::TcpListener) -> std::io::Result<()> {
    use std::sync::{Arc, Mutex, PoisonError};
    let lock: Arc<Mutex<(bool, VecDeque<Arc<tokio::net::TcpStream>>)>> = Arc::default();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (stream, lock) = (Arc::new(stream), lock.clone());
        tokio::spawn(async move {
            let mut byte = [0];
            loop {
                if stream.readable().await.is_err() {
                    return;
                }
                match stream.try_read(&mut byte) {
                    Ok(1) => {}
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                    Ok(_) | Err(_) => return,
                }
                let next = {
                    let mut lock = lock.lock().unwrap_or_else(PoisonError::into_inner);
                    if byte == *b"r" {
                        lock.0 = false;
                    } else {
                        lock.1.push_back(stream.clone());
                    }
                    let next = if lock.0 { None } else { lock.1.pop_front() };
                    lock.0 |= next.is_some();
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
pub(super) struct Client(tokio::net::TcpStream);

impl Client {
    pub(super) async fn connect(address: SocketAddr) -> std::io::Result<Self> {
        let stream = tokio::net::TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Client(stream))
    }

    pub(super) async fn acquire(&mut self) -> std::io::Result<()> {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        self.0.write_all(b"a").await?;
        self.0.read_u8().await.map(drop)
    }

    pub(super) async fn release(&mut self) -> std::io::Result<()> {
        use tokio::io::AsyncWriteExt;
        self.0.write_all(b"r").await
    }
}
