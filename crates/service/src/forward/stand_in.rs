//! Calls for a site that does not answer: its mirror may answer for it.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use meshlock_cluster::names::SiteName;
use meshlock_host::front::Admitted;
use meshlock_wire::sites::calls::{CallAsk, CallReply, CallSubject};
use tokio::time::{sleep, timeout};

use super::ForwardError;
use crate::etcd::leases_of_key;
use crate::sessions::Sessions;
use crate::sessions::mirror::mirror_of;
use crate::sessions::registry::LeaseId;

/// After these times in milliseconds without an answer the site's mirror is asked whether it answers for the site.
const ASK_AFTER: [u64; 6] = [100, 150, 250, 500, 1000, 2000];

/// How often it is looked whether a session is this site's own by now.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Returns the leases that a call may be about.
fn leases_of(subject: &CallSubject) -> Vec<LeaseId> {
    match subject {
        CallSubject::Lease(number) => LeaseId::new(*number).into_iter().collect(),
        CallSubject::Key(key) => leases_of_key(key),
        CallSubject::Created { .. } | CallSubject::Lock(_) | CallSubject::Site => Vec::new(),
    }
}

impl Sessions {
    /// Lets a site execute a call, or its mirror if that answers for the site. Returns `None` if this site is the mirror.
    pub(super) async fn forward_or_stand_in(
        &self,
        site: &SiteName,
        caller: &Admitted,
        subject: &CallSubject,
        ask: CallAsk,
    ) -> Result<Option<CallReply>, ForwardError> {
        let is_found = AtomicBool::new(false);
        let mut mirrors = pin!(self.ask_mirror(site, caller, subject, &ask, &is_found));
        let failure = tokio::select! {
            biased;
            reply = self.forward(site, caller, ask.clone()) => match reply {
                Ok(reply) => return Ok(Some(reply)),
                Err(error) => error,
            },
            reply = &mut mirrors => return Ok(reply),
        };
        // The mirror may be about to execute it: it waits until the site is gone.
        if !is_found.load(Ordering::Relaxed) {
            return Err(failure);
        }
        timeout(self.longest_wait() * 2, mirrors).await.map_err(|_| failure)
    }

    /// Asks a site's mirror again and again whether it answers for the site; for ever if it does not.
    async fn ask_mirror(
        &self,
        site: &SiteName,
        caller: &Admitted,
        subject: &CallSubject,
        ask: &CallAsk,
        is_found: &AtomicBool,
    ) -> Option<CallReply> {
        for pause in ASK_AFTER.iter().filter(|_| !leases_of(subject).is_empty()) {
            sleep(Duration::from_millis(*pause)).await;
            let members = self.front().members();
            let Some(mirror) = mirror_of(site, members.iter()) else { continue };
            if mirror == self.site() {
                if self.has(&caller.principal, subject) > 0 {
                    return None;
                }
                continue;
            }
            let found = self.forward(mirror, caller, CallAsk::Find(subject.clone())).await;
            is_found.store(matches!(found, Ok(CallReply::Found(rank)) if rank > 0), Ordering::Relaxed);
            if is_found.load(Ordering::Relaxed)
                && let Ok(reply @ CallReply::Done(_)) = self.forward(mirror, caller, ask.clone()).await
            {
                return Some(reply);
            }
        }
        std::future::pending().await
    }

    /// Waits until what a call is about is this site's own, if this site answers for another one. That takes about a lease; if it takes longer,
    /// the call is executed as it is and says what is wrong.
    pub(crate) async fn until_own(&self, subject: &CallSubject) {
        let leases = leases_of(subject);
        let until_own = async {
            while leases.iter().any(|lease| self.is_for_another(*lease)) {
                sleep(LOOK_EVERY).await;
            }
        };
        let _ = timeout(self.longest_wait() * 2, until_own).await;
    }
}
