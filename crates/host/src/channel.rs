//! One connection that many threads write to and one task reads.
//!
//! Writers append to a queue. A writer that finds no other thread writing then writes the whole queue at once, so messages that were
//! queued meanwhile go out together. Only when the socket's buffer is full does a task wait for it.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use meshlock_tls::{ClientName, TlsError, client_of, drain_tls, open_tls};
use rustls::Connection;
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Notify;

use crate::gate::Buffered;
use crate::trust::{Ending, Trust, Watched};

/// Maximum number of bytes queued for a slow peer before the connection is closed. Links resend what matters.
const MAX_WAITING: usize = 16 << 20;

/// While this many bytes wait to be written to the socket, no more are moved from the queue, whose length is limited.
const MAX_SEALED: usize = 1 << 20;

/// What a connection runs over.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    async fn readable(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.readable().await,
            Stream::Unix(stream) => stream.readable().await,
        }
    }

    async fn writable(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.writable().await,
            Stream::Unix(stream) => stream.writable().await,
        }
    }

    /// Reads after [`readable`](Stream::readable). A read that does not fill `into` has emptied the socket, and clears its readiness: the
    /// next wait then really waits instead of causing another read that finds nothing.
    fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        let mut taken = None;
        let read = || {
            let count = self.read_now(into)?;
            taken = Some(count);
            if count > 0 && count < into.len() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
        };
        let tried = match self {
            Stream::Tcp(stream) => stream.try_io(Interest::READABLE, read),
            Stream::Unix(stream) => stream.try_io(Interest::READABLE, read),
        };
        taken.map_or(tried, Ok)
    }

    /// Reads what the socket has, whether or not the runtime has reported it as readable.
    fn read_now(&self, into: &mut [u8]) -> io::Result<usize> {
        Ok(match self {
            Stream::Tcp(stream) => rustix::io::read(stream, into),
            Stream::Unix(stream) => rustix::io::read(stream, into),
        }?)
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.try_write(bytes),
            Stream::Unix(stream) => stream.try_write(bytes),
        }
    }

    fn shut_down(&self) {
        // This fails only if the other side has already closed the connection.
        let _ = match self {
            Stream::Tcp(stream) => rustix::net::shutdown(stream, rustix::net::Shutdown::Both),
            Stream::Unix(stream) => rustix::net::shutdown(stream, rustix::net::Shutdown::Both),
        };
    }
}

/// A connection whose greeting is complete.
pub(super) struct Channel {
    stream: Stream,
    tls: Option<Mutex<Connection>>,
    queue: Mutex<Queue>,
    /// Bytes to be written to the socket, in wire form. The lock is held while writing, never while waiting.
    wire: Mutex<Vec<u8>>,
    stuck: Notify,
    /// Received bytes that were not taken yet. The lock is held by the reader until it has passed them on.
    inbox: Mutex<Inbox>,
    /// Counts what waits to be written, if a limit applies to the peer.
    counted: OnceLock<CountedOutput>,
}

/// Counts the bytes that a client has not read: in the queue, and in wire form. Each is recorded with its own lock held.
struct CountedOutput {
    queue: Buffered,
    wire: Buffered,
}

#[derive(Default)]
struct Inbox {
    bytes: Vec<u8>,
    scratch: Vec<u8>,
}

#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    closed: Option<ClosedBy>,
}

/// Which side ended a connection, if this side noticed it first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClosedBy {
    /// This side. The peer may still be there; a reader on this side sees the same end of stream as if the peer had closed.
    Us,
    /// The peer: it accepts no more data.
    Peer,
}

impl Channel {
    pub(super) fn new(stream: Stream, tls: Option<Connection>) -> Self {
        Channel {
            stream,
            tls: tls.map(Mutex::new),
            queue: Mutex::default(),
            wire: Mutex::default(),
            stuck: Notify::new(),
            inbox: Mutex::default(),
            counted: OnceLock::new(),
        }
    }

    /// Counts from now on what waits to be written, with these two buffers. If it becomes too much, the connection is closed.
    pub(super) fn count(&self, queue: Buffered, wire: Buffered) {
        let _ = self.counted.set(CountedOutput { queue, wire });
    }

    /// Queues what `put` appends; [`flush`](Channel::flush) sends it. Returns whether the connection is still open.
    pub(super) fn push(&self, put: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut queue = locked(&self.queue);
        if queue.closed.is_some() {
            return false;
        }
        put(&mut queue.bytes);
        let is_long = queue.bytes.len() > MAX_WAITING;
        let counted = self.counted.get().map_or(Ok(()), |counted| counted.queue.resize(queue.bytes.len()));
        if is_long || counted.is_err() {
            let why = counted.err().map(|error| error.to_string());
            tracing::warn!(why, "the other side reads too slowly; its connection is closed");
            drop(queue);
            self.close();
            return false;
        }
        true
    }

    /// Returns the number of bytes that are queued and not yet moved towards the socket.
    pub(super) fn waiting(&self) -> usize {
        locked(&self.queue).bytes.len()
    }

    /// Makes the connection's own task flush it, for callers that must not write themselves.
    pub(super) fn flush_soon(&self) {
        self.stuck.notify_one();
    }

    pub(super) fn is_open(&self) -> bool {
        self.closed_by().is_none()
    }

    /// Returns which side ended the connection; `None` if it is open or only its reader can have noticed the end.
    pub(super) fn closed_by(&self) -> Option<ClosedBy> {
        locked(&self.queue).closed
    }

    /// Closes the connection. Queued bytes are not sent.
    pub(super) fn close(&self) {
        self.close_as(ClosedBy::Us);
    }

    /// Closes the connection after a failed write.
    fn close_after(&self, error: &io::Error) {
        let is_gone = matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
        self.close_as(if is_gone { ClosedBy::Peer } else { ClosedBy::Us });
    }

    /// Forgets what waits to be written, after the connection was closed.
    pub(super) fn discard(&self) {
        let (mut wire, mut queue) = (locked(&self.wire), locked(&self.queue));
        (*wire, queue.bytes) = (Vec::new(), Vec::new());
        if let Some(counted) = self.counted.get() {
            // Becoming smaller never fails.
            let _ = counted.wire.resize(0);
            let _ = counted.queue.resize(0);
        }
    }

    fn close_as(&self, by: ClosedBy) {
        locked(&self.queue).close(by);
        // Wakes the writing task; the shutdown wakes the reader.
        self.stuck.notify_one();
        self.stream.shut_down();
    }

    /// Writes what is queued, as far as the socket accepts it now.
    pub(super) fn flush(&self) {
        while !locked(&self.queue).bytes.is_empty() {
            // The thread that is writing looks at the queue again after its write.
            let Ok(mut wire) = self.wire.try_lock() else { return };
            if wire.len() < MAX_SEALED {
                self.seal(&mut wire);
            }
            match self.write(&mut wire) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return self.stuck.notify_one();
                }
                Err(error) => return self.close_after(&error),
            }
        }
    }

    /// Moves the queued bytes to the end of `wire`, encrypted if the connection uses TLS.
    fn seal(&self, wire: &mut Vec<u8>) {
        let mut queue = locked(&self.queue);
        if let Some(counted) = self.counted.get() {
            // What is taken from the queue is counted as part of `wire`, once the socket has taken what it can.
            let _ = counted.queue.resize(0);
        }
        let Some(tls) = &self.tls else {
            if wire.is_empty() {
                std::mem::swap(wire, &mut queue.bytes);
            } else {
                wire.append(&mut queue.bytes);
            }
            return;
        };
        let bytes = std::mem::take(&mut queue.bytes);
        drop(queue);
        let mut tls = locked(tls);
        let sealed = io::Write::write_all(&mut tls.writer(), &bytes).and_then(|()| drain_tls(&mut tls, wire));
        if sealed.is_err() {
            drop(tls);
            self.close();
        }
    }

    fn write(&self, wire: &mut Vec<u8>) -> io::Result<()> {
        let mut at = 0;
        let written = loop {
            if at == wire.len() {
                break Ok(());
            }
            match self.stream.try_write(&wire[at..]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => at += count,
                Err(error) => break Err(error),
            }
        };
        wire.drain(..at);
        if wire.is_empty() && wire.capacity() > MAX_SEALED {
            *wire = Vec::new();
        }
        let counted = self.counted.get().map_or(Ok(()), |counted| counted.wire.resize(wire.len()));
        // More than the peer's share waits: it is closed, also if the socket would take more later.
        counted.map_err(io::Error::other).and(written)
    }

    /// Writes on behalf of others whenever the socket was full, once it has room again. Returns when the connection ends.
    pub(super) async fn keep_writing(&self) {
        while self.is_open() {
            self.stuck.notified().await;
            loop {
                if !self.is_open() || self.stream.writable().await.is_err() {
                    return;
                }
                let done = {
                    let mut wire = locked(&self.wire);
                    if wire.len() < MAX_SEALED {
                        self.seal(&mut wire);
                    }
                    self.write(&mut wire)
                };
                match done {
                    Ok(()) if locked(&self.queue).bytes.is_empty() => break,
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return self.close_after(&error),
                }
            }
        }
    }

    /// Returns the client named by the peer's certificate; `None` without TLS.
    pub(super) fn peer_client(&self) -> Option<Result<ClientName, TlsError>> {
        self.tls.as_ref().map(|tls| client_of(&locked(tls)))
    }

    /// Registers the connection with what the peer has shown; `None` without TLS.
    pub(super) fn register(&self, trust: &Trust, ending: &Arc<Ending>) -> Result<Option<Watched>, TlsError> {
        let Some(tls) = &self.tls else { return Ok(None) };
        trust.register_tls(Some(&locked(tls)), ending)
    }

    /// After the end of the stream, returns whether the peer itself ended the connection. With TLS the peer announces that; without the
    /// announcement anyone in between may have cut the connection.
    pub(super) fn was_ended_by_peer(&self) -> bool {
        let ended = |tls: &Mutex<Connection>| {
            locked(tls).process_new_packets().is_ok_and(|state| state.peer_has_closed())
        };
        self.tls.as_ref().is_none_or(ended)
    }

    /// Waits for bytes and appends them to `into`. Returns false at the end of the connection.
    pub(super) async fn read(&self, scratch: &mut [u8], into: &mut Vec<u8>) -> io::Result<bool> {
        let count = loop {
            self.stream.readable().await?;
            match self.stream.try_read(scratch) {
                Ok(count) => break count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        };
        self.open(&scratch[..count], into)?;
        // Awaiting a socket that always has more data never yields. This lets other tasks of the thread run.
        tokio::task::consume_budget().await;
        Ok(count > 0)
    }

    /// Reads once, at most `max_bytes`, on the connection's own task, and passes all bytes received so far to `take`, which removes what
    /// it can use. Returns false at the end of the connection. The inbox stays locked meanwhile, so frames are taken in order.
    pub(super) async fn read_frames(
        &self,
        max_bytes: usize,
        take: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<bool> {
        loop {
            self.stream.readable().await?;
            {
                let inbox = &mut *locked(&self.inbox);
                inbox.scratch.resize(max_bytes, 0);
                match self.stream.try_read(&mut inbox.scratch) {
                    Ok(0) => return Ok(false),
                    Ok(count) => {
                        self.open(&inbox.scratch[..count], &mut inbox.bytes)?;
                        take(&mut inbox.bytes);
                        break;
                    }
                    // Another thread has read it.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
        }
        // As in `read`.
        tokio::task::consume_budget().await;
        Ok(true)
    }

    /// Reads on any other thread, but only if no thread is reading and data is there. The end of the connection is left to its own task.
    pub(super) fn read_now(&self, take: impl FnOnce(&mut Vec<u8>)) {
        let Ok(mut inbox) = self.inbox.try_lock() else { return };
        let inbox = &mut *inbox;
        // The connection's own task has not begun to read.
        if inbox.scratch.is_empty() {
            return;
        }
        if let Ok(count @ 1..) = self.stream.read_now(&mut inbox.scratch) {
            match self.open(&inbox.scratch[..count], &mut inbox.bytes) {
                Ok(()) => take(&mut inbox.bytes),
                Err(_) => self.close(),
            }
        }
    }

    /// Passes the bytes that came with the greeting to `take`, before anything else is read.
    pub(super) fn take_first(&self, bytes: Vec<u8>, take: impl FnOnce(&mut Vec<u8>)) {
        let mut inbox = locked(&self.inbox);
        inbox.bytes = bytes;
        take(&mut inbox.bytes);
    }

    /// Appends received bytes to `into`, decrypted if the connection uses TLS.
    fn open(&self, sealed: &[u8], into: &mut Vec<u8>) -> io::Result<()> {
        let Some(tls) = &self.tls else {
            into.extend_from_slice(sealed);
            return Ok(());
        };
        let mut answers = Vec::new();
        let opened = {
            let mut tls = locked(tls);
            let opened = open_tls(&mut tls, sealed, into).map(|said| answers = said);
            if opened.is_err() {
                // An alert tells the peer why. If that fails too, the first error is the one to return.
                let _ = drain_tls(&mut tls, &mut answers);
            }
            opened
        };
        if !answers.is_empty() {
            let mut wire = locked(&self.wire);
            wire.extend(answers);
            if opened.is_err() {
                let _ = self.write(&mut wire);
            }
            self.stuck.notify_one();
        }
        opened
    }
}

impl Queue {
    fn close(&mut self, by: ClosedBy) {
        self.closed.get_or_insert(by);
        self.bytes = Vec::new();
    }
}

/// Locks a mutex, ignoring poison: a connection whose lock is poisoned is closed soon, because its thread has panicked.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
