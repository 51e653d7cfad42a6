//! The audit log: grants, denials and administrative actions, as one JSON object per line.
//!
//! It never makes a site wait. Callers pass a value to a thread of its own, which formats and writes it. If that thread cannot keep up,
//! or the disk is full, lines are lost, and the next line says how many.

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

use super::Caller;
use meshlock_cluster::access::Verb;
use meshlock_cluster::names::{LockName, SiteName};

/// Maximum number of lines waiting to be written.
const MAX_WAITING: usize = 8192;

/// How long a flush waits for the last lines.
const FLUSH_WITHIN: Duration = Duration::from_secs(2);

/// An event in the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AuditEvent {
    Granted {
        fence: i64,
    },
    /// The access rules deny a request.
    Denied {
        verb: Verb,
    },
    /// The caller could not be identified.
    Unknown,
    /// A limit was reached. For a rate limit at most one line per second is written.
    Limited {
        why: String,
    },
    /// A lock was taken away from its holders, whose fences these are.
    Broke {
        fences: Vec<i64>,
    },
    /// The cluster's rules were changed, and take effect in the view of this epoch.
    SetRules {
        epoch: u32,
    },
    /// A site was told to leave; `None` is this site itself.
    Removed {
        site: Option<SiteName>,
    },
    /// A session ended, and what it held is free.
    Ended {
        /// Its identifier, if it has one.
        session: Option<String>,
        why: &'static str,
    },
}

impl AuditEvent {
    fn name(&self) -> &'static str {
        match self {
            AuditEvent::Granted { .. } => "granted",
            AuditEvent::Denied { .. } => "denied",
            AuditEvent::Unknown => "unknown",
            AuditEvent::Limited { .. } => "limited",
            AuditEvent::Broke { .. } => "broke",
            AuditEvent::SetRules { .. } => "set-rules",
            AuditEvent::Removed { .. } => "removed-site",
            AuditEvent::Ended { .. } => "session-ended",
        }
    }

    /// Whether the event is logged even if no audit log is configured.
    fn is_notable(&self) -> bool {
        !matches!(self, AuditEvent::Granted { .. } | AuditEvent::Ended { .. })
    }
}

/// Where audit lines go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AuditTarget {
    /// The log, but only events that affect others or are refusals.
    #[default]
    Notable,
    /// The log, with all events, under the target `audit`.
    Log,
    /// This file, with all events.
    File(PathBuf),
}

/// The audit log. All clones write to the same one.
#[derive(Clone)]
pub struct Audit(Arc<Sink>);

enum Sink {
    Notable,
    Log,
    File { lines: SyncSender<WriterMessage>, shared: Arc<WriterState> },
}

/// What the writing thread shares with its callers.
#[derive(Default)]
struct WriterState {
    lost: AtomicU64,
    reopen: AtomicBool,
}

/// A message to the writing thread.
enum WriterMessage {
    Entry(Box<AuditEntry>),
    /// Writes nothing, but makes the thread reopen the file.
    Wake,
    /// Flushes everything before it, then answers.
    Flush(SyncSender<()>),
}

/// An event with its time, caller and lock.
struct AuditEntry {
    at: SystemTime,
    caller: Caller,
    lock: Option<LockName>,
    event: AuditEvent,
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
            AuditTarget::File(path) => {
                let file = open(path)?;
                let (lines, waiting) = sync_channel(MAX_WAITING);
                let shared = Arc::new(WriterState::default());
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

    /// Whether frequent events, such as grants, are logged too. If not, callers need not build them.
    pub(crate) fn wants_all(&self) -> bool {
        !matches!(*self.0, Sink::Notable)
    }

    /// Writes an event, without waiting for the disk.
    pub(crate) fn note(&self, caller: &Caller, lock: Option<&LockName>, event: AuditEvent) {
        match &*self.0 {
            Sink::Notable if !event.is_notable() => {}
            Sink::Notable | Sink::Log => {
                let entry =
                    AuditEntry { at: SystemTime::now(), caller: caller.clone(), lock: lock.cloned(), event };
                let line = Value::Object(entry.fields());
                tracing::info!(target: "audit", %line, "audit");
            }
            Sink::File { lines, shared } => {
                let entry =
                    AuditEntry { at: SystemTime::now(), caller: caller.clone(), lock: lock.cloned(), event };
                if lines.try_send(WriterMessage::Entry(Box::new(entry))).is_err() {
                    shared.lost.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Returns the number of lost lines that no later line has reported yet.
    #[cfg(test)]
    pub(crate) fn lost(&self) -> u64 {
        match &*self.0 {
            Sink::Notable | Sink::Log => 0,
            Sink::File { shared, .. } => shared.lost.load(Ordering::Relaxed),
        }
    }

    /// Reopens the file, after log rotation has moved it away.
    pub fn reopen(&self) {
        if let Sink::File { lines, shared } = &*self.0 {
            shared.reopen.store(true, Ordering::Release);
            // If the queue is full the thread is not idle, and checks the flag before the next line.
            let _ = lines.try_send(WriterMessage::Wake);
        }
    }

    /// Waits for a limited time until all events so far are written.
    pub fn flush(&self) {
        if let Sink::File { lines, .. } = &*self.0 {
            let (done, is_done) = sync_channel(1);
            if lines.try_send(WriterMessage::Flush(done)).is_ok() {
                let _ = is_done.recv_timeout(FLUSH_WITHIN);
            }
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// The writing thread.
struct Writer {
    path: PathBuf,
    out: BufWriter<File>,
    shared: Arc<WriterState>,
    /// Whether the last write failed. The error is logged once.
    fails: bool,
}

impl Writer {
    fn run(mut self, waiting: &Receiver<WriterMessage>) {
        // Ends when all senders are dropped.
        while let Ok(first) = waiting.recv() {
            self.take(first);
            while let Ok(line) = waiting.try_recv() {
                self.take(line);
            }
            let flushed = self.out.flush();
            self.look(flushed, 0);
        }
    }

    fn take(&mut self, line: WriterMessage) {
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
            WriterMessage::Wake => {}
            WriterMessage::Flush(done) => {
                let flushed = self.out.flush();
                self.look(flushed, 0);
                let _ = done.send(());
            }
            WriterMessage::Entry(entry) => {
                let lost = self.shared.lost.swap(0, Ordering::Relaxed);
                let written = self.write(&entry, lost);
                self.look(written, lost + 1);
            }
        }
    }

    fn write(&mut self, entry: &AuditEntry, lost: u64) -> io::Result<()> {
        if lost > 0 {
            writeln!(self.out, "{}", serde_json::json!({ "event": "lines-lost", "count": lost }))?;
        }
        writeln!(self.out, "{}", Value::Object(entry.fields()))
    }

    /// Counts the lines of a failed write as lost; the next line that can be written reports them.
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

impl AuditEntry {
    fn fields(&self) -> Map<String, Value> {
        let AuditEntry { at, caller, lock, event } = self;
        let mut fields = Map::new();
        let mut put = |key: &str, value: Value| {
            fields.insert(key.to_owned(), value);
        };
        put("time", moment(*at).into());
        put("event", event.name().into());
        put("principal", caller.principal.to_string().into());
        put("from", caller.origin.to_string().into());
        put("request", caller.request.to_string().into());
        if let Some(lock) = lock {
            put("lock", lock.as_str().into());
        }
        match event {
            // As text, as everywhere in our JSON: the numbers of some languages cannot hold it.
            AuditEvent::Granted { fence } => {
                put("verb", Verb::Acquire.name().into());
                put("fence", fence.to_string().into());
            }
            AuditEvent::Denied { verb } => put("verb", verb.name().into()),
            AuditEvent::Unknown => {}
            AuditEvent::Limited { why } => put("why", why.as_str().into()),
            AuditEvent::Broke { fences } => {
                put("verb", Verb::Break.name().into());
                put("fences", fences.iter().map(ToString::to_string).collect::<Vec<_>>().into());
            }
            AuditEvent::SetRules { epoch } => {
                put("verb", Verb::Admin.name().into());
                put("epoch", (*epoch).into());
            }
            AuditEvent::Removed { site } => {
                put("verb", Verb::Admin.name().into());
                put("site", site.as_ref().map_or(Value::Null, |site| site.as_str().into()));
            }
            AuditEvent::Ended { session, why } => {
                put("session", session.as_deref().map_or(Value::Null, Into::into));
                put("why", (*why).into());
            }
        }
        fields
    }
}

/// Formats a time as in RFC 3339, in UTC.
fn moment(at: SystemTime) -> String {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:06}Z", since.subsec_micros())
}

/// Returns the year, month and day that is this many days after the first of January 1970 (`civil_from_days` of Howard Hinnant's
/// "chrono-Compatible Low-Level Date Algorithms"). Years begin in March here, so that a leap day is the last day of its year.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since the first of March of the year 0
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153; // 0 is March
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, in_next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year_of_era + in_next_year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar_with_its_leap_years() {
        // From `date --utc --date=@SECONDS`.
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00"),
            (68_256_000, "1972-03-01T00:00:00"),
            (951_782_400, "2000-02-29T00:00:00"),
            (951_868_799, "2000-02-29T23:59:59"),
            (951_868_800, "2000-03-01T00:00:00"),
            (1_704_067_199, "2023-12-31T23:59:59"),
            (1_709_210_096, "2024-02-29T12:34:56"),
            (4_107_542_399, "2100-02-28T23:59:59"),
            (4_107_542_400, "2100-03-01T00:00:00"),
        ] {
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(moment(at), format!("{text}.000000Z"));
        }
        let at = SystemTime::UNIX_EPOCH + Duration::from_micros(1_709_210_096_000_042);
        assert_eq!(moment(at), "2024-02-29T12:34:56.000042Z");
    }
}
