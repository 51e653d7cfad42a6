//! `Hold`: a lock that is held for as long as a call lasts.

use futures_util::stream;
use meshlock_cluster::names::ClientLabel;
use meshlock_host::front::{AcquireParams, Admitted};
use tokio::time::sleep;
use tonic::Status;

use super::sessions::{CallSession, millis};
use super::{Answers, key};
use crate::proto::meshlock::hold_event::Event;
use crate::proto::meshlock::{HoldEvent, Lost, Still};
use crate::sessions::registry::KeyGrant;
use crate::sessions::{AcquireState, why_over};

/// A running `Hold` call. Dropping it ends the session and releases the lock.
pub(super) struct HoldCall {
    caller: Admitted,
    session: CallSession,
    name: Vec<u8>,
    granted: KeyGrant,
    phase: HoldPhase,
}

/// What the client has been told last.
enum HoldPhase {
    Nothing,
    Granted,
    Lost,
}

impl HoldCall {
    pub(super) async fn get(
        caller: Admitted,
        session: CallSession,
        asked: AcquireParams,
        who: ClientLabel,
    ) -> Result<Self, Status> {
        let name = key(&asked.lock, session.lease);
        let granted = session.own.get(&caller, asked, session.lease, who).await?;
        Ok(HoldCall { caller, session, name, granted, phase: HoldPhase::Nothing })
    }

    /// Streams the events of the lock: first that it is granted, then regularly that it is still held, finally that
    /// it is lost.
    pub(super) fn events(self, lock: String) -> Answers<HoldEvent> {
        let events = stream::unfold((self, lock), |(mut held, lock)| async move {
            let event = held.next(&lock).await?;
            Some((Ok(HoldEvent { event: Some(event) }), (held, lock)))
        });
        Box::pin(events)
    }

    async fn next(&mut self, lock: &str) -> Option<Event> {
        match self.phase {
            HoldPhase::Nothing => {
                self.phase = HoldPhase::Granted;
                Some(Event::Granted(self.session.own.grant(
                    &self.caller,
                    lock.to_owned(),
                    self.session.lease,
                    self.granted,
                )))
            }
            HoldPhase::Granted => {
                let sessions = &self.session.own.sessions;
                let gone = tokio::select! {
                    biased;
                    () = sessions.until_closing() => format!("the site '{}' stops", sessions.site()),
                    gone = self.gone() => gone,
                    () = sleep(sessions.safety_interval()) => {
                        return Some(Event::Still(Still { safe_ms: millis(sessions.front().safe_for()) }));
                    }
                };
                self.phase = HoldPhase::Lost;
                Some(Event::Lost(Lost { why: gone }))
            }
            HoldPhase::Lost => None,
        }
    }

    /// Waits until the lock is not held any more. Returns why.
    async fn gone(&self) -> String {
        let Some(key) = self.session.own.sessions.key(&self.caller, &self.name) else {
            return "it was released".to_owned();
        };
        let is_over =
            |state: &AcquireState| matches!(state, AcquireState::Lost { .. } | AcquireState::Ended(_));
        why_over(&key.driver.until(is_over).await)
    }
}
