//! The audit log: grants, denials and administrative actions, as one JSON object per line.
//!
//! It never makes a site wait. Callers pass a value to a thread of its own, which formats and writes it. If that thread cannot keep up,
//! or the disk is full, lines are lost, and the next line says how many; or, where the log is [required](WhenUnwritable::Refuse), nothing
//! more is granted or changed until they are written. A file that has become too long is [rotated](AuditFile::max_bytes).

mod entry;
mod writer;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, SystemTime};

use meshlock_cluster::names::LockName;
use serde_json::Value;

use super::Caller;
use entry::AuditEntry;
pub(crate) use entry::AuditEvent;
use writer::Writer;

/// Maximum number of lines waiting to be written. Where the log is required, nothing more is granted once half of it is reached: what
/// was asked for before may still be granted.
pub(super) const MAX_WAITING: usize = 8192;

/// How long a flush waits for the last lines.
const FLUSH_WITHIN: Duration = Duration::from_secs(2);

/// Where audit lines go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AuditTarget {
    /// The log, but only events that affect others or are refusals.
    #[default]
    Notable,
    /// The log, with all events, under the target `audit`.
    Log,
    /// A file, with all events.
    File(AuditFile),
}

/// A file of audit lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFile {
    pub path: PathBuf,
    /// The file is rotated before it becomes longer than this: `audit.jsonl` becomes `audit.jsonl.1`, which becomes `audit.jsonl.2`.
    pub max_bytes: u64,
    /// Number of such older files that are kept.
    pub files: u32,
    pub when_unwritable: WhenUnwritable,
}

/// What happens if audit lines cannot be written, because the disk is full or too slow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenUnwritable {
    /// Lines are lost, and counted.
    #[default]
    LoseLines,
    /// Nothing is granted or changed until they are written.
    Refuse,
}

impl AuditFile {
    /// The defaults of [`max_bytes`](AuditFile::max_bytes) and [`files`](AuditFile::files): together 320 MiB.
    pub const MAX_BYTES: u64 = 64 << 20;
    pub const FILES: u32 = 4;

    /// Describes a file with the default limits, which loses lines that cannot be written.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let when_unwritable = WhenUnwritable::LoseLines;
        AuditFile { path: path.into(), max_bytes: Self::MAX_BYTES, files: Self::FILES, when_unwritable }
    }
}

/// The audit log is required and cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this site does nothing without its audit log, which cannot be written now; make room for {}, or use another site",
    .path.display()
)]
pub struct Unaudited {
    pub path: PathBuf,
}

/// The audit log. All clones write to the same one.
#[derive(Clone)]
pub struct Audit(Arc<Sink>);

enum Sink {
    Notable,
    Log,
    File { file: AuditFile, lines: Sender<WriterMessage>, shared: Arc<WriterState> },
}

/// What the writing thread shares with its callers.
#[derive(Default)]
struct WriterState {
    /// Number of lines that are not in the file yet.
    waiting: AtomicUsize,
    /// Whether the last write failed.
    fails: AtomicBool,
    /// Number of lost lines that no line has reported yet, and of all.
    lost: AtomicU64,
    lost_in_total: AtomicU64,
    reopen: AtomicBool,
}

impl WriterState {
    fn lose(&self, lines: u64) {
        self.lost.fetch_add(lines, Ordering::Relaxed);
        self.lost_in_total.fetch_add(lines, Ordering::Relaxed);
    }
}

/// A message to the writing thread.
enum WriterMessage {
    Entry(Box<AuditEntry>),
    /// Writes nothing, but makes the thread reopen the file.
    Wake,
    /// Tries to write everything before it, then answers.
    Flush(SyncSender<()>),
}

impl Default for Audit {
    fn default() -> Self {
        Audit(Arc::new(Sink::Notable))
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Audit")
    }
}

impl Audit {
    /// Opens the audit log. A missing file is created, readable by its owner only.
    pub fn open(place: &AuditTarget) -> io::Result<Self> {
        let sink = match place {
            AuditTarget::Notable => Sink::Notable,
            AuditTarget::Log => Sink::Log,
            AuditTarget::File(file) => {
                let (lines, waiting) = channel();
                let shared = Arc::new(WriterState::default());
                let writer = Writer::open(file.clone(), shared.clone())?;
                std::thread::Builder::new().name("audit".to_owned()).spawn(move || writer.run(&waiting))?;
                Sink::File { file: file.clone(), lines, shared }
            }
        };
        Ok(Audit(Arc::new(sink)))
    }

    /// Whether frequent events, such as grants, are logged too. If not, callers need not build them.
    pub(crate) fn wants_all(&self) -> bool {
        !matches!(*self.0, Sink::Notable)
    }

    /// Checks whether something may be granted or changed: if the log is required, it must be possible to write it.
    pub(crate) fn check(&self) -> Result<(), Unaudited> {
        let Sink::File { file, shared, .. } = &*self.0 else { return Ok(()) };
        let is_behind = shared.waiting.load(Ordering::Relaxed) >= MAX_WAITING / 2;
        let is_stuck = is_behind || shared.fails.load(Ordering::Relaxed);
        if file.when_unwritable == WhenUnwritable::Refuse && is_stuck {
            return Err(Unaudited { path: file.path.clone() });
        }
        Ok(())
    }

    /// Writes an event, without waiting for the disk.
    pub(crate) fn note(&self, caller: &Caller, lock: Option<&LockName>, event: AuditEvent) {
        let entry =
            |event| AuditEntry { at: SystemTime::now(), caller: caller.clone(), lock: lock.cloned(), event };
        match &*self.0 {
            Sink::Notable if !event.is_notable() => {}
            Sink::Notable | Sink::Log => {
                let line = Value::Object(entry(event).fields());
                tracing::info!(target: "audit", %line, "audit");
            }
            Sink::File { file, lines, shared } => {
                let must_not_be_lost = file.when_unwritable == WhenUnwritable::Refuse && event.is_act();
                let before = shared.waiting.fetch_add(1, Ordering::Relaxed);
                let is_lost = before >= MAX_WAITING && !must_not_be_lost;
                if is_lost || lines.send(WriterMessage::Entry(Box::new(entry(event)))).is_err() {
                    shared.waiting.fetch_sub(1, Ordering::Relaxed);
                    shared.lose(1);
                }
            }
        }
    }

    /// Returns the number of lines that were lost.
    pub fn lost(&self) -> u64 {
        match &*self.0 {
            Sink::Notable | Sink::Log => 0,
            Sink::File { shared, .. } => shared.lost_in_total.load(Ordering::Relaxed),
        }
    }

    /// Reopens the file, after log rotation has moved it away.
    pub fn reopen(&self) {
        if let Sink::File { lines, shared, .. } = &*self.0 {
            shared.reopen.store(true, Ordering::Release);
            let _ = lines.send(WriterMessage::Wake);
        }
    }

    /// Waits for a limited time until all events so far are written.
    pub fn flush(&self) {
        if let Sink::File { lines, .. } = &*self.0 {
            let (done, is_done) = sync_channel(1);
            if lines.send(WriterMessage::Flush(done)).is_ok() {
                let _ = is_done.recv_timeout(FLUSH_WITHIN);
            }
        }
    }
}
