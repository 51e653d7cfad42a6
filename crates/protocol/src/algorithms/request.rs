//! What several algorithms know of a request: how it is identified, and how far it has come.

use crate::{Family, Numbers, Phase, SiteId, Timestamp};

/// Identifies a request by its site and its sequence number at that site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RequestId {
    pub site: SiteId,
    /// The number of requests that the site has made, including this one.
    pub number: u64,
}

impl RequestId {
    pub(super) fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        numbers.number(Family::Site(self.site), &mut self.number);
    }
}

/// State of the local process, for algorithms that keep no more of a request than its timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RequestState {
    Idle,
    /// Waits to enter, with this request.
    Waiting(Timestamp),
    /// Is in the critical section, on this request.
    Executing(Timestamp),
}

impl RequestState {
    pub(super) fn phase(self) -> Phase {
        match self {
            RequestState::Idle => Phase::Idle,
            RequestState::Waiting(_) => Phase::Waiting,
            RequestState::Executing(_) => Phase::Executing,
        }
    }

    pub(super) fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        if let RequestState::Waiting(request) | RequestState::Executing(request) = self {
            numbers.timestamp(request);
        }
    }

    pub(super) fn timestamp(self) -> Option<Timestamp> {
        match self {
            RequestState::Idle => None,
            RequestState::Waiting(request) | RequestState::Executing(request) => Some(request),
        }
    }
}
