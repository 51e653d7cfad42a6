//! Lines: the record of a step that is drawn, exported and compared.

use meshlock_protocol::SiteId;
use meshlock_sim::Time;
use meshlock_sim::trace::Kind;

/// The kind of a line: those of the trace format, and those that only playback has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A line of the trace format.
    Traced(Kind),
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

impl What {
    /// Its name on the page.
    pub const fn name(self) -> &'static str {
        match self {
            What::Traced(kind) => kind.name(),
            What::Lost => "lost",
            What::Learn => "learn",
            What::Wake => "wake",
            What::Cut => "cut",
            What::Mend => "mend",
            What::Delay => "delay",
        }
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line<M> {
    pub step: usize,
    pub time: Time,
    pub what: What,
    pub site: SiteId,
    /// The other end, or the site that the line is about.
    pub peer: Option<SiteId>,
    /// The message and its number: the same where it is sent, received and lost.
    pub message: Option<(usize, M)>,
}
