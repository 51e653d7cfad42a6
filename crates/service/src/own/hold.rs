//! A lock that is held for as long as a call lasts.

use futures_util::stream;
use meshlock_cluster::names::ClientLabel;
use meshlock_host::front::Admitted;
use tokio::time::sleep;
use tonic::Status;

use super::sessions::{Made, millis};
use super::{Answers, Asked, key};
use crate::proto::meshlock::hold_event::Event;
use crate::proto::meshlock::{HoldEvent, Lost, Still};
use crate::sessions::registry::Grant as Granted;
use crate::sessions::{AcquireState, why_over};

/// A lock that is held. The session ends when it is dropped, and with it the lock.
pub(super) struct Held {
    caller: Admitted,
    session: Made,
    name: Vec<u8>,
    granted: Granted,
    said: Said,
}

enum Said {
    Nothing,
    Granted,
    Lost,
}

impl Held {
    pub(super) async fn get(
        caller: Admitted,
        session: Made,
        asked: Asked,
        who: ClientLabel,
    ) -> Result<Self, Status> {
        let name = key(&asked.lock, session.lease);
        let granted = session.own.get(&caller, asked, session.lease, who).await?;
        Ok(Held { caller, session, name, granted, said: Said::Nothing })
    }

    /// What the client is told: first that it holds the lock, then that it still does, in the end that it does not.
    pub(super) fn events(self, lock: String) -> Answers<HoldEvent> {
        let events = stream::unfold((self, lock), |(mut held, lock)| async move {
            let event = held.next(&lock).await?;
            Some((Ok(HoldEvent { event: Some(event) }), (held, lock)))
        });
        Box::pin(events)
    }

    async fn next(&mut self, lock: &str) -> Option<Event> {
        match self.said {
            Said::Nothing => {
                self.said = Said::Granted;
                Some(Event::Granted(self.session.own.grant(
                    &self.caller,
                    lock.to_owned(),
                    self.session.lease,
                    self.granted,
                )))
            }
            Said::Granted => {
                let sessions = &self.session.own.sessions;
                let gone = tokio::select! {
                    gone = self.gone() => gone,
                    () = sleep(sessions.say_so_every()) => {
                        return Some(Event::Still(Still { safe_ms: millis(sessions.front().safe_for()) }));
                    }
                };
                self.said = Said::Lost;
                Some(Event::Lost(Lost { why: gone }))
            }
            Said::Lost => None,
        }
    }

    /// Completes when the lock is not held any more.
    async fn gone(&self) -> String {
        let Some(key) = self.session.own.sessions.key(&self.caller, &self.name) else {
            return "it was given back".to_owned();
        };
        let is_over =
            |state: &AcquireState| matches!(state, AcquireState::Lost { .. } | AcquireState::Ended(_));
        why_over(&key.driver.until(is_over).await)
    }
}
