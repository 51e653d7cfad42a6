//! The audit log: who was granted, denied or took what, as one JSON object a line.
//!
//! It never makes a site wait. Whoever has something to write down hands over a value; a thread of its own turns it into text and
//! writes it. If that thread cannot keep up, or the disk takes nothing, lines are lost, and the next line says how many.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};
use time::OffsetDateTime;

use super::Caller;
use meshlock_cluster::access::Verb;
use meshlock_cluster::names::{LockName, SiteName};

/// How many lines may wait for the disk.
const MAX_WAITING: usize = 8192;

/// How long whoever stops a node waits for the last lines.
const FLUSH_WITHIN: Duration = Duration::from_secs(2);

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// A lock was granted.
    Granted {
        /// The grant's number.
        fence: i64,
    },
    /// The rules do not give what was asked for.
    Denied {
        /// What was asked for.
        verb: Verb,
    },
    /// Nobody knows who asks, or it is nobody who may.
    Unknown,
    /// A limit was reached. Of those who ask too fast, one line a second is written.
    Limited {
        /// Which one.
        why: String,
    },
    /// A lock was taken away from its holders.
    Broke {
        /// Their numbers.
        fences: Vec<i64>,
    },
    /// The cluster's rules were changed.
    SetRules {
        /// The view from which on they hold.
        epoch: u32,
    },
    /// A site was told to leave.
    Removed {
        /// Which one; none for the site itself.
        site: Option<SiteName>,
    },
    /// A session is over, and what it held is free.
    Ended {
        /// Its number, where it has one.
        session: Option<String>,
        /// Why.
        why: &'static str,
    },
}

impl Act {
    fn name(&self) -> &'static str {
        match self {
            Act::Granted { .. } => "granted",
            Act::Denied { .. } => "denied",
            Act::Unknown => "unknown",
            Act::Limited { .. } => "limited",
            Act::Broke { .. } => "broke",
            Act::SetRules { .. } => "set-rules",
            Act::Removed { .. } => "removed-site",
            Act::Ended { .. } => "session-ended",
        }
    }

    /// Whether operators want to know it even where nothing was said about an audit log.
    fn is_notable(&self) -> bool {
        !matches!(self, Act::Granted { .. } | Act::Ended { .. })
    }
}

/// Where audit lines go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AuditTarget {
    /// Into the log, but only what changes something for others or is refused.
    #[default]
    Notable,
    /// All of them into the log, under the target `audit`.
    Log,
    /// All of them into this file.
    File(PathBuf),
}

/// The audit log. Clones are the same.
#[derive(Clone)]
pub struct Audit(Arc<Sink>);

enum Sink {
    Notable,
    Log,
    File { lines: SyncSender<Line>, shared: Arc<Shared> },
}

/// What the writer and those who write share.
#[derive(Default)]
struct Shared {
    lost: AtomicU64,
    reopen: AtomicBool,
}

enum Line {
    Entry(Box<Entry>),
    /// Nothing to write: the file is to be opened again.
    Wake,
    /// Everything before it is to be on its way to the disk.
    Flush(SyncSender<()>),
}

struct Entry {
    at: SystemTime,
    caller: Caller,
    lock: Option<LockName>,
    act: Act,
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
    /// Opens it. The file is made if it is not there, for its owner only.
    pub fn open(place: &AuditTarget) -> io::Result<Self> {
        let sink = match place {
            AuditTarget::Notable => Sink::Notable,
            AuditTarget::Log => Sink::Log,
            AuditTarget::File(path) => {
                let file = open(path)?;
                let (lines, waiting) = sync_channel(MAX_WAITING);
                let shared = Arc::new(Shared::default());
                let writer = Writer {
                    path: path.clone(),
                    out: BufWriter::new(file),
                    shared: shared.clone(),
                    fails: false,
                };
                std::thread::Builder::new().name("audit".to_owned()).spawn(move || writer.run(&waiting))?;
                Sink::File { lines, shared }
            }
        };
        Ok(Audit(Arc::new(sink)))
    }

    /// Whether what everyone does all the time is written down too: whoever does it need not prepare it otherwise.
    pub fn wants_all(&self) -> bool {
        !matches!(*self.0, Sink::Notable)
    }

    /// Writes something down, without waiting.
    pub fn note(&self, caller: &Caller, lock: Option<&LockName>, act: Act) {
        match &*self.0 {
            Sink::Notable if !act.is_notable() => {}
            Sink::Notable | Sink::Log => {
                let entry = Entry { at: SystemTime::now(), caller: caller.clone(), lock: lock.cloned(), act };
                let line = Value::Object(entry.fields());
                tracing::info!(target: "audit", %line, "audit");
            }
            Sink::File { lines, shared } => {
                let entry = Entry { at: SystemTime::now(), caller: caller.clone(), lock: lock.cloned(), act };
                if lines.try_send(Line::Entry(Box::new(entry))).is_err() {
                    shared.lost.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// How many lines were lost of which no line says so yet.
    pub fn lost(&self) -> u64 {
        match &*self.0 {
            Sink::Notable | Sink::Log => 0,
            Sink::File { shared, .. } => shared.lost.load(Ordering::Relaxed),
        }
    }

    /// Opens the file anew: whoever keeps logs has moved it away.
    pub fn reopen(&self) {
        if let Sink::File { lines, shared } = &*self.0 {
            shared.reopen.store(true, Ordering::Release);
            // If there is no room, there are lines, and before the next of them it is looked at.
            let _ = lines.try_send(Line::Wake);
        }
    }

    /// Waits a little until all that was noted is written.
    pub fn flush(&self) {
        if let Sink::File { lines, .. } = &*self.0 {
            let (done, heard) = sync_channel(1);
            if lines.try_send(Line::Flush(done)).is_ok() {
                let _ = heard.recv_timeout(FLUSH_WITHIN);
            }
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// The thread that writes.
struct Writer {
    path: PathBuf,
    out: BufWriter<File>,
    shared: Arc<Shared>,
    /// The last write failed: that is said once.
    fails: bool,
}

impl Writer {
    fn run(mut self, waiting: &Receiver<Line>) {
        // Until nobody is left who could write something down.
        while let Ok(first) = waiting.recv() {
            self.take(first);
            while let Ok(line) = waiting.try_recv() {
                self.take(line);
            }
            let flushed = self.out.flush();
            self.look(flushed, 0);
        }
    }

    fn take(&mut self, line: Line) {
        if self.shared.reopen.swap(false, Ordering::Acquire) {
            let flushed = self.out.flush();
            self.look(flushed, 0);
            match open(&self.path) {
                Ok(file) => self.out = BufWriter::new(file),
                Err(error) => {
                    tracing::error!(path = %self.path.display(), %error, "cannot open the audit log again: it goes on with the old file");
                }
            }
        }
        match line {
            Line::Wake => {}
            Line::Flush(done) => {
                let flushed = self.out.flush();
                self.look(flushed, 0);
                let _ = done.send(());
            }
            Line::Entry(entry) => {
                let lost = self.shared.lost.swap(0, Ordering::Relaxed);
                let written = self.write(&entry, lost);
                self.look(written, lost + 1);
            }
        }
    }

    fn write(&mut self, entry: &Entry, lost: u64) -> io::Result<()> {
        if lost > 0 {
            writeln!(self.out, "{}", serde_json::json!({ "event": "lines-lost", "count": lost }))?;
        }
        writeln!(self.out, "{}", Value::Object(entry.fields()))
    }

    /// What could not be written is lost, and said when something can be again.
    fn look(&mut self, written: io::Result<()>, lines: u64) {
        if let Err(error) = &written {
            self.shared.lost.fetch_add(lines, Ordering::Relaxed);
            if !self.fails {
                tracing::error!(path = %self.path.display(), %error, "cannot write the audit log: make room; lines are lost until then");
            }
        }
        self.fails = written.is_err();
    }
}

impl Entry {
    fn fields(&self) -> Map<String, Value> {
        let Entry { at, caller, lock, act } = self;
        let mut fields = Map::new();
        let mut put = |key: &str, value: Value| {
            fields.insert(key.to_owned(), value);
        };
        put("time", moment(*at).into());
        put("event", act.name().into());
        put("principal", caller.principal.to_string().into());
        put("from", caller.origin.to_string().into());
        put("request", caller.request.to_string().into());
        if let Some(lock) = lock {
            put("lock", lock.as_str().into());
        }
        match act {
            // As text, as everywhere in JSON: not every language's numbers hold it.
            Act::Granted { fence } => {
                put("verb", Verb::Acquire.name().into());
                put("fence", fence.to_string().into());
            }
            Act::Denied { verb } => put("verb", verb.name().into()),
            Act::Unknown => {}
            Act::Limited { why } => put("why", why.as_str().into()),
            Act::Broke { fences } => {
                put("verb", Verb::Break.name().into());
                put("fences", fences.iter().map(ToString::to_string).collect::<Vec<_>>().into());
            }
            Act::SetRules { epoch } => {
                put("verb", Verb::Admin.name().into());
                put("epoch", (*epoch).into());
            }
            Act::Removed { site } => {
                put("verb", Verb::Admin.name().into());
                put("site", site.as_ref().map_or(Value::Null, |site| site.as_str().into()));
            }
            Act::Ended { session, why } => {
                put("session", session.as_deref().map_or(Value::Null, Into::into));
                put("why", (*why).into());
            }
        }
        fields
    }
}

/// As RFC 3339 has it, in UTC.
fn moment(at: SystemTime) -> String {
    let at = OffsetDateTime::from(at);
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    let (hour, minute, second) = at.to_hms();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:06}Z", at.microsecond())
}
