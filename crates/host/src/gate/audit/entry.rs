//! The events of the audit log, and how each becomes a JSON object.

use std::time::SystemTime;

use meshlock_cluster::access::Verb;
use meshlock_cluster::names::{LockName, SiteName};
use meshlock_cluster::node::VoterRequest;
use serde_json::{Map, Value};

use crate::gate::Caller;

/// An event in the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AuditEvent {
    Granted {
        fence: i64,
    },
    /// A lock that was granted by another site was claimed here.
    Claimed {
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
    /// The cluster's access document was changed, to this version.
    SetAccess {
        version: u64,
    },
    /// A site was told to leave; `None` is this site itself.
    Removed {
        site: Option<SiteName>,
    },
    /// The voters were changed as requested.
    ChangedVoters {
        change: VoterRequest,
    },
    /// A call was forwarded to the site that has the caller's session.
    Forwarded {
        to: SiteName,
        call: String,
    },
    /// Another site has forwarded a call, which is executed here.
    Received {
        by: SiteName,
        call: String,
    },
    /// A session ended, and what it held is free.
    Ended {
        /// Its identifier, if it has one.
        session: Option<String>,
        why: &'static str,
    },
}

impl AuditEvent {
    pub(super) fn name(&self) -> &'static str {
        match self {
            AuditEvent::Granted { .. } => "granted",
            AuditEvent::Claimed { .. } => "claimed",
            AuditEvent::Denied { .. } => "denied",
            AuditEvent::Unknown => "unknown",
            AuditEvent::Limited { .. } => "limited",
            AuditEvent::Broke { .. } => "broke",
            AuditEvent::SetRules { .. } => "set-rules",
            AuditEvent::SetAccess { .. } => "set-access",
            AuditEvent::Removed { .. } => "removed-site",
            AuditEvent::ChangedVoters { .. } => "changed-voters",
            AuditEvent::Forwarded { .. } => "forwarded",
            AuditEvent::Received { .. } => "received",
            AuditEvent::Ended { .. } => "session-ended",
        }
    }

    /// Whether the event is logged even if no audit log is configured.
    pub(super) fn is_notable(&self) -> bool {
        !matches!(
            self,
            AuditEvent::Granted { .. }
                | AuditEvent::Claimed { .. }
                | AuditEvent::Ended { .. }
                | AuditEvent::Forwarded { .. }
                | AuditEvent::Received { .. }
        )
    }

    /// Whether the event says that somebody was given something or changed something. Where the audit log is required, nothing of that
    /// happens without its line; the other events are refusals and ends.
    pub(super) fn is_act(&self) -> bool {
        match self {
            AuditEvent::Granted { .. }
            | AuditEvent::Claimed { .. }
            | AuditEvent::Broke { .. }
            | AuditEvent::SetRules { .. }
            | AuditEvent::Removed { .. }
            | AuditEvent::ChangedVoters { .. }
            | AuditEvent::SetAccess { .. } => true,
            AuditEvent::Denied { .. }
            | AuditEvent::Unknown
            | AuditEvent::Limited { .. }
            | AuditEvent::Forwarded { .. }
            | AuditEvent::Received { .. }
            | AuditEvent::Ended { .. } => false,
        }
    }
}

/// An event with its time, caller and lock.
pub(super) struct AuditEntry {
    pub(super) at: SystemTime,
    pub(super) caller: Caller,
    pub(super) lock: Option<LockName>,
    pub(super) event: AuditEvent,
}

impl AuditEntry {
    pub(super) fn fields(&self) -> Map<String, Value> {
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
            AuditEvent::Granted { fence } | AuditEvent::Claimed { fence } => {
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
            AuditEvent::SetAccess { version } => {
                put("verb", Verb::Admin.name().into());
                put("version", (*version).into());
            }
            AuditEvent::SetRules { epoch } => {
                put("verb", Verb::Admin.name().into());
                put("epoch", (*epoch).into());
            }
            AuditEvent::Removed { site } => {
                put("verb", Verb::Admin.name().into());
                put("site", site.as_ref().map_or(Value::Null, |site| site.as_str().into()));
            }
            AuditEvent::ChangedVoters { change } => {
                put("verb", Verb::Admin.name().into());
                let (promoted, demoted) = match change {
                    VoterRequest::Promote(site) => (Some(site), None),
                    VoterRequest::Demote(site) => (None, Some(site)),
                    VoterRequest::Replace { old, new } => (Some(new), Some(old)),
                };
                for (key, site) in [("promoted", promoted), ("demoted", demoted)] {
                    if let Some(site) = site {
                        put(key, site.as_str().into());
                    }
                }
            }
            AuditEvent::Forwarded { to: site, call } => {
                put("to", site.as_str().into());
                put("call", call.as_str().into());
            }
            AuditEvent::Received { by: site, call } => {
                put("by", site.as_str().into());
                put("call", call.as_str().into());
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
    use std::time::Duration;

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
