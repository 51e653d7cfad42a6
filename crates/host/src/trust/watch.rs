//! The node's own timer: looks every few seconds whether a connection must end, whether the files have changed, and whether a warning is
//! due.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use meshlock_tls::{ExpiringPart, ExpiryWarning, Security, shown_time};
use tokio::time::{Instant, sleep};

use super::{Inner, Reloaded, Trust};

/// How often the node looks.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// A warning is repeated after this time.
pub(super) const WARN_EVERY: Duration = Duration::from_hours(24);

/// The target of lines about this site's certificates. Each is about another event, and none is left out as a repetition.
pub(super) const LOG: &str = "meshlock::certificates";

/// How many peers a line of the log names.
const MAX_NAMED: usize = 20;

/// What was last warned about: the period before the end, and when that was.
#[derive(Debug, Default)]
pub(super) struct Warnings(BTreeMap<ExpiringPart, (u64, Instant)>);

impl Warnings {
    /// Returns whether to write this warning now: the first time in each period, and then once a day. Time is that of a clock that nobody
    /// sets, so that a wall clock that jumps does not fill the log.
    pub(super) fn is_due(&mut self, of: ExpiringPart, warning: Option<&ExpiryWarning>, now: Instant) -> bool {
        let Some(warning) = warning else {
            self.0.remove(&of);
            return false;
        };
        let is_due = self
            .0
            .get(&of)
            .is_none_or(|(days, last)| warning.days < *days || now.duration_since(*last) >= WARN_EVERY);
        if is_due {
            self.0.insert(of, (warning.days, now));
        }
        is_due
    }
}

impl Trust {
    /// Looks every few seconds, until the last clone of this is dropped.
    pub(crate) async fn keep_looking(self) {
        let inner = Arc::downgrade(&self.0);
        drop(self);
        let (mut warnings, mut reading) = (Warnings::default(), None);
        while let Some(inner) = inner.upgrade() {
            let trust = Trust(inner);
            trust.look();
            trust.warn(&mut warnings, Instant::now());
            trust.read_in_background(&mut reading);
            drop(trust);
            sleep(LOOK_EVERY).await;
        }
    }

    /// Writes the warnings that are due to the log.
    pub(super) fn warn(&self, warnings: &mut Warnings, now: Instant) {
        let Security::Tls(identity) = self.security() else { return };
        for expiry in identity.expiries() {
            let warning = expiry.warning(identity.bearer(), self.now());
            if warnings.is_due(expiry.of, warning.as_ref(), now)
                && let Some(warning) = warning
            {
                tracing::warn!(target: LOG, certificate = expiry.of.label(), days = warning.days, "{warning}");
            }
        }
    }

    /// Looks at the files on a thread of its own. A disk that does not answer then holds up nothing else.
    fn read_in_background(&self, reading: &mut Option<JoinHandle<()>>) {
        let has_files = match self.security() {
            Security::Plain => false,
            Security::Tls(identity) => identity.files().is_some(),
        };
        if !has_files || reading.as_ref().is_some_and(|reading| !reading.is_finished()) {
            return;
        }
        let inner = Arc::downgrade(&self.0);
        let read = move || {
            if let Some(trust) = inner.upgrade().map(|inner: Arc<Inner>| Trust(inner))
                && let Some(Err(error)) = trust.look_at_files()
            {
                log_refusal(&error);
            }
        };
        // Without a thread the files are looked at next time.
        *reading = std::thread::Builder::new().name("certificates".to_owned()).spawn(read).ok();
    }
}

impl Reloaded {
    /// Writes to the log what is used from now on, and who cannot come back.
    pub(super) fn log(&self) {
        let [own, authority] = &self.expiries;
        tracing::info!(
            target: LOG,
            authorities = self.authorities,
            file = %own.file.display(),
            ends = shown_time(own.at),
            authority_ends = shown_time(authority.at),
            "read the certificates again: new connections use them"
        );
        if !self.left.is_empty() {
            let names: Vec<String> = self.left.iter().take(MAX_NAMED).map(ToString::to_string).collect();
            tracing::warn!(
                target: LOG,
                peers = self.left.len(),
                first = names.join(", "),
                "these are connected by certificates of an authority that is not trusted any more: their connections stay, but they \
                 cannot come back; issue them new certificates"
            );
        }
    }
}

/// Writes to the log why certificates were not replaced.
pub fn log_refusal(error: &dyn std::fmt::Display) {
    tracing::error!(
        target: LOG,
        %error,
        "the new certificates cannot be used, and the old ones stay in use; `meshlock node --check` checks them"
    );
}
