//! Lines: the record of a step that is drawn, exported and compared.

use meshlock_protocol::SiteId;
use meshlock_sim::Time;
use meshlock_sim::trace::TraceKind;

/// The kind of a line: those of the trace format, and those that only playback has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineKind {
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
    pub(crate) const fn name(self) -> &'static str {
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
pub(crate) struct PlaybackLine<M> {
    pub(crate) step: usize,
    pub(crate) time: Time,
    pub(crate) what: LineKind,
    pub(crate) site: SiteId,
    /// The other end, or the site that the line is about.
    pub(crate) peer: Option<SiteId>,
    /// The message and its number: the same where it is sent, received and lost.
    pub(crate) message: Option<(usize, M)>,
    /// The alternative that the site chose, from 0, and the number of alternatives.
    pub(crate) choice: Option<(u32, u32)>,
}
