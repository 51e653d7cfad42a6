//! Lines: the record of a step that is drawn, exported and compared.

use meshlock_protocol::SiteId;
use meshlock_sim::Time;
use meshlock_sim::trace::TraceKind;

/// The kind of a line: those of the trace format, and those that only playback has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    Traced(TraceKind),
    /// A message never arrives: it was dropped, or its receiver has failed.
    Lost,
    /// A site learns that another has failed or recovered.
    Learn,
    /// A timer runs out.
    Wake,
    /// A link is cut, or the network split.
    Cut,
    /// A link is mended, or the network whole again.
    Mend,
    /// A message takes longer.
    Delay,
}

impl LineKind {
    /// Its name on the page.
    pub const fn name(self) -> &'static str {
        match self {
            LineKind::Traced(kind) => kind.name(),
            LineKind::Lost => "lost",
            LineKind::Learn => "learn",
            LineKind::Wake => "wake",
            LineKind::Cut => "cut",
            LineKind::Mend => "mend",
            LineKind::Delay => "delay",
        }
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct PlaybackLine<M> {
    pub step: usize,
    pub time: Time,
    pub what: LineKind,
    pub site: SiteId,
    /// The other end, or the site that the line is about.
    pub peer: Option<SiteId>,
    /// The message and its number: the same where it is sent, received and lost.
    pub message: Option<(usize, M)>,
}
