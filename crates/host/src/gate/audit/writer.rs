//! The thread that writes the audit log's file, and rotates it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use meshlock_cluster::printable::printable_json;
use serde_json::{Value, json};

use super::{AuditFile, WhenUnwritable, WriterMessage, WriterState};

/// How often a failed write is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// Lines are written together until they are this long.
const BATCH_BYTES: usize = 64 << 10;

/// The writing thread.
pub(super) struct Writer {
    file: AuditFile,
    out: File,
    /// Length of the file; `None` if it is not a regular file and cannot be rotated.
    length: Option<u64>,
    /// Lines that are not written yet, and their number. The first may be the end of a line whose beginning is written.
    pending: Vec<u8>,
    lines: usize,
    is_within_line: bool,
    /// Number of lost lines that a pending line reports.
    reported: u64,
    shared: Arc<WriterState>,
}

/// Opens the file. Returns its length, too, if it is a regular file.
fn open(path: &Path) -> io::Result<(File, Option<u64>)> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    let metadata = file.metadata()?;
    Ok((file, metadata.is_file().then_some(metadata.len())))
}

impl Writer {
    pub(super) fn open(file: AuditFile, shared: Arc<WriterState>) -> io::Result<Self> {
        let (out, length) = open(&file.path)?;
        let (pending, lines, reported) = (Vec::new(), 0, 0);
        Ok(Writer { file, out, length, pending, lines, is_within_line: false, reported, shared })
    }

    /// Writes until all senders are dropped.
    pub(super) fn run(mut self, waiting: &Receiver<WriterMessage>) {
        loop {
            let next = if self.pending.is_empty() {
                waiting.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                waiting.recv_timeout(RETRY)
            };
            match next {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.write(),
            }
            while let Ok(message) = waiting.try_recv() {
                self.take(message);
            }
            self.write();
        }
    }

    fn take(&mut self, message: WriterMessage) {
        if self.shared.reopen.swap(false, Ordering::Acquire) {
            self.write();
            self.reopen();
        }
        match message {
            WriterMessage::Wake => {}
            WriterMessage::Flush(done) => {
                self.write();
                let _ = done.send(());
            }
            WriterMessage::Entry(entry) => {
                let lost = self.shared.lost.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    // It is the first of those that wait, and so is written if any is.
                    self.write();
                    self.reported += lost;
                    self.shared.waiting.fetch_add(1, Ordering::Relaxed);
                    self.append(&json!({ "event": "lines-lost", "count": lost }));
                }
                self.append(&Value::Object(entry.fields()));
            }
        }
    }

    /// Appends a line to those that wait, after rotating the file if it would become too long.
    fn append(&mut self, line: &Value) {
        let line = printable_json(&line.to_string()) + "\n";
        let length = self.length.map(|length| length + self.pending.len() as u64);
        let is_full =
            length.is_some_and(|length| length > 0 && length + line.len() as u64 > self.file.max_bytes);
        if is_full || self.pending.len() >= BATCH_BYTES {
            self.write();
        }
        if is_full && self.pending.is_empty() {
            self.rotate();
        }
        self.pending.extend_from_slice(line.as_bytes());
        self.lines += 1;
    }

    /// Writes what waits. If that fails, the rest is lost, or waits on if the log is required.
    fn write(&mut self) {
        while !self.pending.is_empty() {
            match self.out.write(&self.pending) {
                Ok(0) => return self.fail(&io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    let written: Vec<u8> = self.pending.drain(..count).collect();
                    self.length = self.length.map(|length| length + count as u64);
                    self.is_within_line = written.last() != Some(&b'\n');
                    let lines = written.split(|byte| *byte == b'\n').count() - 1;
                    if lines > 0 {
                        self.reported = 0;
                    }
                    self.leave(lines);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.fail(&error),
            }
        }
        if self.shared.fails.swap(false, Ordering::Relaxed) {
            tracing::warn!(path = %self.file.path.display(), "the audit log can be written again");
        }
    }

    fn fail(&mut self, error: &io::Error) {
        let path = self.file.path.display();
        let is_news = !self.shared.fails.swap(true, Ordering::Relaxed);
        if self.file.when_unwritable == WhenUnwritable::Refuse {
            if is_news {
                tracing::error!(%path, %error, "cannot write the audit log: make room; nothing is granted or changed until then");
            }
            return;
        }
        if is_news {
            tracing::error!(%path, %error, "cannot write the audit log: make room; lines are lost until then");
        }
        // A line whose beginning is in the file is completed later.
        let end = self.pending.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        self.pending.truncate(if self.is_within_line { end } else { 0 });
        let lost = self.lines - usize::from(!self.pending.is_empty());
        self.leave(lost);
        let reports = u64::from(self.reported > 0);
        // What the lost line would have reported is still lost, and was counted before.
        self.shared.lost.fetch_add(std::mem::take(&mut self.reported), Ordering::Relaxed);
        self.shared.lose(lost as u64 - reports.min(lost as u64));
    }

    /// Counts lines that wait no more.
    fn leave(&mut self, lines: usize) {
        self.lines -= lines;
        self.shared.waiting.fetch_sub(lines, Ordering::Relaxed);
    }

    fn reopen(&mut self) {
        match open(&self.file.path) {
            Ok((out, length)) => (self.out, self.length) = (out, length),
            Err(error) => {
                let path = self.file.path.display();
                tracing::error!(%path, %error, "cannot open the audit log again: it goes on with the old file");
            }
        }
    }

    /// Moves the file away, and each of the older files; the oldest is deleted.
    fn rotate(&mut self) {
        let AuditFile { path, files, .. } = &self.file;
        let older = |nth: u32| -> PathBuf {
            let mut name = path.clone().into_os_string();
            name.push(format!(".{nth}"));
            name.into()
        };
        let moves = (1..*files).rev().map(|nth| (older(nth), older(nth + 1)));
        let moved = moves.filter(|(from, _)| from.exists()).try_for_each(|(from, to)| fs::rename(from, to));
        let moved =
            moved.and_then(|()| if *files == 0 { fs::remove_file(path) } else { fs::rename(path, older(1)) });
        match moved {
            Ok(()) => self.reopen(),
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "cannot rotate the audit log: it goes on with the same file");
                // Tried again once the file is twice as long.
                self.length = Some(0);
            }
        }
    }
}
