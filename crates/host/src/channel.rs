//! One connection, written to by whoever has something to say and read by one task.
//!
//! Writers append to a queue, then whoever finds nobody writing writes the whole queue at once: what gathered meanwhile
//! goes out in one piece. Only when the socket takes no more does a task wait until it does.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use meshlock_tls::{ClientName, TlsError, client_of, drain_tls, open_tls};
use rustls::Connection;
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Notify;

/// How much may wait for a slow peer before the connection is given up. Links send again what matters.
const MAX_WAITING: usize = 16 << 20;

/// While so much has not been taken by the socket, what is queued stays where it is counted.
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

    /// Reads after [`readable`](Stream::readable). A read that does not fill `into` has taken all there was: the next wait is a wait,
    /// not one more read that finds nothing.
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

    /// Reads what the socket has, whether or not anybody was told that it has something.
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
        // It fails only where the other side has done so already.
        let _ = match self {
            Stream::Tcp(stream) => rustix::net::shutdown(stream, rustix::net::Shutdown::Both),
            Stream::Unix(stream) => rustix::net::shutdown(stream, rustix::net::Shutdown::Both),
        };
    }
}

/// A connection whose greeting is done.
pub(super) struct Channel {
    stream: Stream,
    tls: Option<Mutex<Connection>>,
    queue: Mutex<Queue>,
    /// What is on its way into the socket, as the wire has it. Held while writing, never while waiting.
    wire: Mutex<Vec<u8>>,
    stuck: Notify,
    /// What has come and was not taken yet. Held by whoever reads, until it has been taken.
    inbox: Mutex<Inbox>,
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

/// Who has ended a connection, where that was noticed on this side first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClosedBy {
    /// This side: the other one may still be there, and reads the end of the connection here as its own.
    Us,
    /// The other side: it takes nothing any more.
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
        }
    }

    /// Queues what `put` appends; [`flush`](Channel::flush) sends it. Says whether the connection still takes any.
    pub(super) fn push(&self, put: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut queue = locked(&self.queue);
        if queue.closed.is_some() {
            return false;
        }
        put(&mut queue.bytes);
        if queue.bytes.len() > MAX_WAITING {
            tracing::warn!("the other side takes too slowly what it is sent; its connection is closed");
            drop(queue);
            self.close();
            return false;
        }
        true
    }

    /// How many bytes are queued and not on their way yet.
    pub(super) fn waiting(&self) -> usize {
        locked(&self.queue).bytes.len()
    }

    /// Has the connection's own task flush it: for whoever must not wait.
    pub(super) fn flush_soon(&self) {
        self.stuck.notify_one();
    }

    pub(super) fn is_open(&self) -> bool {
        self.closed_by().is_none()
    }

    /// Who has ended the connection; nobody if only its reader can have noticed.
    pub(super) fn closed_by(&self) -> Option<ClosedBy> {
        locked(&self.queue).closed
    }

    /// Ends the connection; what is queued is not sent.
    pub(super) fn close(&self) {
        self.close_as(ClosedBy::Us);
    }

    /// Writing has failed.
    fn close_after(&self, error: &io::Error) {
        let is_gone = matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
        self.close_as(if is_gone { ClosedBy::Peer } else { ClosedBy::Us });
    }

    fn close_as(&self, by: ClosedBy) {
        locked(&self.queue).close(by);
        // Wakes the task that waits on it, and its reader.
        self.stuck.notify_one();
        self.stream.shut_down();
    }

    /// Writes what is queued, as far as the socket takes it now.
    pub(super) fn flush(&self) {
        while !locked(&self.queue).bytes.is_empty() {
            // Whoever is writing looks at the queue once more after it is done.
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

    /// Turns what is queued into what the wire has, behind what is there already.
    fn seal(&self, wire: &mut Vec<u8>) {
        let mut queue = locked(&self.queue);
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
        written
    }

    /// Waits whenever the socket is full, until it is not, and goes on; returns when the connection ends.
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

    /// The client at the other end, where certificates say who that is.
    pub(super) fn peer_client(&self) -> Option<Result<ClientName, TlsError>> {
        self.tls.as_ref().map(|tls| client_of(&locked(tls)))
    }

    /// Whether it was the other side that ended the connection, once nothing more comes: with TLS it says so, and what ends otherwise may have
    /// been cut by anyone in between.
    pub(super) fn was_ended_by_peer(&self) -> bool {
        let ended = |tls: &Mutex<Connection>| {
            locked(tls).process_new_packets().is_ok_and(|state| state.peer_has_closed())
        };
        self.tls.as_ref().is_none_or(ended)
    }

    /// Waits for bytes and appends them to `into`; false at the end of the connection.
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
        // Waiting for a socket that always has more costs no turn: without this nobody else on the thread would have one.
        tokio::task::consume_budget().await;
        Ok(count > 0)
    }

    /// Reads once as the connection's own task does, at most `most` bytes, and shows all that is there to `take`, which takes what it can
    /// use; false at the end of the connection. Nobody else reads meanwhile, so that all is taken in order.
    pub(super) async fn hear(&self, most: usize, take: impl FnOnce(&mut Vec<u8>)) -> io::Result<bool> {
        loop {
            self.stream.readable().await?;
            {
                let inbox = &mut *locked(&self.inbox);
                inbox.scratch.resize(most, 0);
                match self.stream.try_read(&mut inbox.scratch) {
                    Ok(0) => return Ok(false),
                    Ok(count) => {
                        self.open(&inbox.scratch[..count], &mut inbox.bytes)?;
                        take(&mut inbox.bytes);
                        break;
                    }
                    // Someone else has read it.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
        }
        // As in `read`.
        tokio::task::consume_budget().await;
        Ok(true)
    }

    /// The same for others, who read only if nobody does and something is there. What ends the connection is left to its own task.
    pub(super) fn read_now(&self, take: impl FnOnce(&mut Vec<u8>)) {
        let Ok(mut inbox) = self.inbox.try_lock() else { return };
        let inbox = &mut *inbox;
        // Its own task has not begun.
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

    /// Shows what has come with the greeting to `take`, before anything is read.
    pub(super) fn hear_first(&self, bytes: Vec<u8>, take: impl FnOnce(&mut Vec<u8>)) {
        let mut inbox = locked(&self.inbox);
        inbox.bytes = bytes;
        take(&mut inbox.bytes);
    }

    /// Appends what came over the wire to `into`, opened.
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
                // It says why, to whoever is there. The error is what matters.
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

/// The state behind a lock. A thread that panicked while holding it has left a connection that is closed soon.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
