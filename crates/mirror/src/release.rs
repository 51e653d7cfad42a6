//! When the client of a release is told that it is done.

use meshlock_cluster::mutant::{self, Mutant};
use meshlock_cluster::time::{Span, Time};

use crate::{ChangeNumber, Source};

/// How long a release waits for the mirror to know it.
pub const ACKNOWLEDGE_WITHIN: Span = Span::from_millis(1000);

/// A release of which the mirror has to know.
#[derive(Clone, Copy, Debug)]
pub struct ReleaseWait {
    change: ChangeNumber,
    until: Time,
}

impl ReleaseWait {
    /// Begins to wait for the mirror to know a change that was made now.
    pub fn new(change: ChangeNumber, now: Time) -> Self {
        ReleaseWait { change, until: now + ACKNOWLEDGE_WITHIN }
    }

    /// Returns whether the mirror knows of the release, or there is none any more.
    pub fn is_known(&self, source: &Source) -> bool {
        source.is_known(self.change) || mutant::is_on(Mutant::AcknowledgedUnmirrored)
    }

    /// Returns until when the release waits, unless the mirror asks before; `None` if its client is to be told that it is done: the mirror
    /// knows it, or is not heard of.
    pub fn waits_until(&self, source: &Source, now: Time) -> Option<Time> {
        let is_over = self.is_known(source) || !source.is_followed(now, ACKNOWLEDGE_WITHIN);
        Some(self.until).filter(|until| !is_over && now < *until)
    }
}
