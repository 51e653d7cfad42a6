//! The trace format: one JSON object for each line, the same for every host.
//!
//! Each line: `time`, `kind`, `site`, `lock`, and where they apply `peer`, `message` (as the algorithm prints it), `choice`
//! (what the site chose, from 0, of how many alternatives) and `state` (the site's state after the step that the line is
//! about, if requested). A real cluster writes more ([`Written`]).

mod written;

use std::io::{self, Write};

use meshlock_protocol::SiteId;
use meshlock_protocol::registry::{AnyMessage, AnySite};
use serde::{Deserialize, Serialize};

use crate::time::Time;
pub use written::{Whose, Written};

/// The kind of a line in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TraceKind {
    Request,
    Send,
    Receive,
    Enter,
    Release,
    /// A site chooses what its paper leaves open.
    Choose,
    Fail,
    /// A failed site runs again.
    Recover,
    /// A view is installed and its machines run.
    View,
    /// A process gives up waiting.
    Cancel,
    /// A process has been waiting since before the trace began.
    Waits,
    /// A process has been inside since before the trace began.
    Holds,
    /// Lines of the site are lost: its watcher did not keep up.
    Lost,
}

impl TraceKind {
    /// Its name in a trace.
    pub const fn name(self) -> &'static str {
        match self {
            TraceKind::Request => "request",
            TraceKind::Send => "send",
            TraceKind::Receive => "receive",
            TraceKind::Enter => "enter",
            TraceKind::Release => "release",
            TraceKind::Choose => "choose",
            TraceKind::Fail => "fail",
            TraceKind::Recover => "recover",
            TraceKind::View => "view",
            TraceKind::Cancel => "cancel",
            TraceKind::Waits => "waits",
            TraceKind::Holds => "holds",
            TraceKind::Lost => "lost",
        }
    }
}

/// The name of the lock of a simulation.
const LOCK: &str = "sim";

/// One line of a trace.
#[derive(Clone, Copy, Debug)]
pub struct TracedEvent<'a> {
    pub time: Time,
    pub kind: TraceKind,
    pub site: SiteId,
    /// The other end of a message.
    pub peer: Option<SiteId>,
    /// The message, if the line is about one.
    pub message: Option<&'a AnyMessage>,
    /// The alternative that the site chose, from 0, and the number of alternatives.
    pub choice: Option<(u32, u32)>,
    /// The site's state after the step that the line is about.
    pub state: &'a AnySite,
}

/// Takes the lines of a trace.
pub trait Trace {
    /// Takes one line.
    fn line(&mut self, line: TracedEvent<'_>);

    /// Takes the number of entries measured so far, for showing progress.
    fn entered(&mut self, entries: u64) {
        let _ = entries;
    }
}

/// A trace that is written as JSON lines.
#[derive(Debug)]
pub struct JsonLines<W: Write> {
    out: W,
    lock: &'static str,
    with_state: bool,
    failure: Option<io::Error>,
}

impl<W: Write> JsonLines<W> {
    /// Writes to `out`; with each site's state if `with_state`.
    pub fn new(out: W, with_state: bool) -> Self {
        JsonLines { out, lock: LOCK, with_state, failure: None }
    }

    /// The same for a lock of this name.
    #[must_use]
    pub fn about(self, lock: &'static str) -> Self {
        JsonLines { lock, ..self }
    }

    /// Ends the trace. Returns the first error that occurred while writing it.
    pub fn finish(mut self) -> io::Result<()> {
        self.failure.map_or_else(|| self.out.flush(), Err)
    }
}

impl<W: Write> Trace for JsonLines<W> {
    fn line(&mut self, line: TracedEvent<'_>) {
        let number = |site: SiteId| Whose::Number(site.index());
        let line = Written {
            peer: line.peer.map(number),
            message: line.message.map(|message| format!("{message:?}")),
            choice: line.choice,
            state: self.with_state.then(|| format!("{:?}", line.state)),
            ..Written::new(line.time.as_units(), line.kind, number(line.site), self.lock)
        };
        let written = serde_json::to_writer(&mut self.out, &line).map_err(io::Error::from);
        let written = written.and_then(|()| self.out.write_all(b"\n"));
        if let Err(error) = written {
            self.failure.get_or_insert(error);
        }
    }
}
