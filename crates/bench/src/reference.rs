//! Bare round trips, with which our figures are compared.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustls::Connection;

use super::statistics::median;

/// The size of what goes there and back, in bytes: about that of a hand-over and its acknowledgement.
pub(super) const SIZE: usize = 64;

/// Sends back what it receives, `size` bytes at a time, until the other side closes the connection.
pub(super) fn echo(mut stream: impl Read + Write + Send + 'static, size: usize) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut bytes = vec![0; size];
        while stream.read_exact(&mut bytes).is_ok() && stream.write_all(&bytes).is_ok() {}
    })
}

/// Returns the median time of round trips of `size` bytes, in microseconds, with a pause before each. A core that was asleep answers
/// later, so the pause must be the same as in the measurement that is compared.
pub(super) fn round_trips(
    stream: &mut (impl Read + Write),
    size: usize,
    times: usize,
    pause: Duration,
) -> std::io::Result<f64> {
    let (sent, mut received) = (vec![7; size], vec![0; size]);
    let mut trips = Vec::with_capacity(times);
    for _ in 0..times {
        spin(pause);
        let start = Instant::now();
        stream.write_all(&sent)?;
        stream.read_exact(&mut received)?;
        trips.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(trips))
}

/// Waits without sleeping.
pub(super) fn spin(pause: Duration) {
    let start = Instant::now();
    while start.elapsed() < pause {
        std::hint::spin_loop();
    }
}

/// Returns the two ends of a loopback connection.
fn tcp_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let here = TcpStream::connect(listener.local_addr()?)?;
    let (there, _) = listener.accept()?;
    here.set_nodelay(true)?;
    there.set_nodelay(true)?;
    Ok((here, there))
}

/// Returns the median time of a bare round trip between two threads, in microseconds: over TCP, or over TLS with these two ends.
pub(super) fn loopback_round_trip(
    tls: Option<(Connection, Connection)>,
    size: usize,
    times: usize,
    pause: Duration,
) -> io::Result<f64> {
    let (mut here, there) = tcp_pair()?;
    let Some((call, answer)) = tls else {
        let echoes = echo(there, size);
        let trip = round_trips(&mut here, size, times, pause);
        drop(here);
        let _ = echoes.join();
        return trip;
    };
    let mut here = Secured { stream: here, tls: call };
    let echoes = echo(Secured { stream: there, tls: answer }, size);
    // The handshake is not counted.
    round_trips(&mut here, size, 1, pause)?;
    let trip = round_trips(&mut here, size, times, pause);
    drop(here);
    let _ = echoes.join();
    trip
}

/// A TLS connection as a plain reader and writer.
struct Secured {
    stream: TcpStream,
    tls: Connection,
}

impl Read for Secured {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            self.flush()?;
            if self.tls.read_tls(&mut self.stream)? == 0 {
                return Ok(0);
            }
            self.tls
                .process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }
}

impl Write for Secured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        while self.tls.is_handshaking() {
            self.tls.complete_io(&mut self.stream)?;
        }
        let count = self.tls.writer().write(bytes)?;
        self.flush()?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.stream)?;
        }
        Ok(())
    }
}
