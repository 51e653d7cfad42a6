//! What makes etcd's calls work at every site: which lease or key a call is about, keep-alives of other sites' leases, and looks at
//! other sites' keys.

use std::time::Duration;

use meshlock_host::front::Admitted;
use meshlock_wire::sites::calls::{CallAsk, CallReply, CallSubject, KeyRecord};
use tokio::time::{sleep, timeout};
use tonic::Status;

use super::Etcd;
use super::kv::lock_of_range;
use super::names::leases_of_key;
use super::shapes::{TxnAction, shape};
use crate::forward::{ForwardError, KEEP_ALIVE};
use crate::proto::etcdserverpb::{
    LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
    RangeRequest, TxnRequest,
};
use crate::proto::mvccpb::KeyValue;
use crate::sessions::SessionPlace;

/// The path of the call that says how long a lease lasts.
const TIME_TO_LIVE: &str = "/etcdserverpb.Lease/LeaseTimeToLive";

/// How often a key is looked at that does not exist yet: no change is noted when a client begins to wait.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Returns what a read is about. Any site can say who holds a lock; but only the site of a lease knows what waits, and who is asking
/// what is before its own key.
pub(crate) fn subject_of_range(request: RangeRequest) -> Option<CallSubject> {
    if request.range_end.is_empty() {
        return (!leases_of_key(&request.key).is_empty()).then_some(CallSubject::Key(request.key));
    }
    let revision = request.max_create_revision.checked_add(1).filter(|revision| *revision > 1)?;
    Some(CallSubject::Created { lock: lock_of_range(&request).ok()?, revision })
}

/// Returns what a transaction is about.
pub(crate) fn subject_of_txn(request: TxnRequest) -> Option<CallSubject> {
    let transaction = shape(request).ok()?;
    Some(match transaction.action {
        TxnAction::Create { lease, .. } => CallSubject::Lease(lease.number()),
        TxnAction::SetValue { .. } | TxnAction::Delete { .. } | TxnAction::Look { .. } => {
            CallSubject::Key(transaction.key)
        }
    })
}

fn record(kv: KeyValue) -> KeyRecord {
    let KeyValue { create_revision, mod_revision, version, value, lease, .. } = kv;
    KeyRecord { created: create_revision, modified: mod_revision, version, lease, value }
}

impl Etcd {
    /// Renews a lease at the site that has it. Returns `None` if that cannot be said now: then the client hears nothing, as from a server that
    /// it does not reach, and its other leases are not affected.
    pub(super) async fn keep_alive_anywhere(
        &self,
        caller: &Admitted,
        id: i64,
    ) -> Option<Result<LeaseKeepAliveResponse, Status>> {
        let asked = LeaseKeepAliveRequest { id };
        match self.sessions.at_lease(caller, id, KEEP_ALIVE, &asked).await {
            Ok(Some(renewed)) => Some(Ok(renewed)),
            Ok(None) => Some(self.keep_alive(caller, id).await),
            Err(status) => {
                tracing::debug!(
                    lease = id,
                    error = status.message(),
                    "a lease of another site is not renewed"
                );
                None
            }
        }
    }

    /// Returns whether the caller has a lease, at any site.
    pub(super) async fn is_alive_anywhere(&self, caller: &Admitted, id: i64) -> Result<bool, Status> {
        let asked = LeaseTimeToLiveRequest { id, keys: false };
        let found: Option<LeaseTimeToLiveResponse> =
            self.sessions.at_lease(caller, id, TIME_TO_LIVE, &asked).await?;
        Ok(found.map_or_else(|| self.is_alive(caller, id), |found| found.ttl >= 0))
    }

    /// Returns the state of a key of this site as soon as it is not `seen`; at once if this is the first look.
    pub(crate) async fn look(
        &self,
        caller: &Admitted,
        key: &[u8],
        first: bool,
        seen: Option<KeyRecord>,
    ) -> Result<Option<KeyRecord>, Status> {
        // Once it could be seen, its client is told what becomes of it, as by a watch at this site.
        if first {
            self.check_visible(caller, key)?;
        }
        let mut changes = self.sessions.changes();
        loop {
            changes.mark_unchanged();
            let now = self.local(key).map(record);
            if first || now != seen {
                return Ok(now);
            }
            let _ = timeout(LOOK_INTERVAL, changes.changed()).await;
        }
    }
}

/// A key of another site that is looked at again and again.
pub(super) struct KeyElsewhere {
    etcd: Etcd,
    caller: Admitted,
    name: Vec<u8>,
    /// What it was at the last look, if it was there.
    seen: Option<KeyRecord>,
    /// Whether it was looked at.
    was_seen: bool,
}

impl KeyElsewhere {
    /// Returns `None` if the key does not name a lease of another site. Otherwise its state now is seen.
    pub(super) async fn find(etcd: &Etcd, caller: &Admitted, name: &[u8]) -> Result<Option<Self>, Status> {
        if leases_of_key(name).is_empty() {
            return Ok(None);
        }
        let subject = CallSubject::Key(name.to_vec());
        let SessionPlace::At(_) = etcd.sessions.place_of(caller, &subject).await else { return Ok(None) };
        let mut key = KeyElsewhere {
            etcd: etcd.clone(),
            caller: caller.clone(),
            name: name.to_vec(),
            seen: None,
            was_seen: false,
        };
        key.next().await?;
        Ok(Some(key))
    }

    /// Returns what was seen last.
    pub(super) fn seen(&self) -> Option<KeyValue> {
        let KeyRecord { created, modified, version, lease, value } = self.seen.clone()?;
        Some(KeyValue {
            key: self.name.clone(),
            create_revision: created,
            mod_revision: modified,
            version,
            value,
            lease,
        })
    }

    /// Notes that no site has the key. It is not looked for again at once.
    async fn absent(&mut self) -> Option<KeyValue> {
        let was_absent = self.was_seen && self.seen.is_none();
        (self.seen, self.was_seen) = (None, true);
        if was_absent {
            sleep(LOOK_INTERVAL).await;
        }
        None
    }

    /// Waits until the key is not what it was, and returns it. A key whose site has none of it does not exist.
    pub(super) async fn next(&mut self) -> Result<Option<KeyValue>, Status> {
        let subject = CallSubject::Key(self.name.clone());
        let site = match self.etcd.sessions.place_of(&self.caller, &subject).await {
            SessionPlace::At(site) => site,
            SessionPlace::Here | SessionPlace::Nowhere => return Ok(self.absent().await),
            SessionPlace::Unknown(missing) => return Err(ForwardError::Unknown(missing).into()),
        };
        let (first, seen) = (!self.was_seen, self.seen.clone());
        let ask = CallAsk::Look { key: self.name.clone(), first, seen };
        match self.etcd.sessions.forward(&site, &self.caller, ask).await? {
            CallReply::Key(record) => (self.seen, self.was_seen) = (record, true),
            CallReply::Refused(why) => return Err(Status::unavailable(format!("meshlock: {why}"))),
            CallReply::NotHere
            | CallReply::Running
            | CallReply::Found(_)
            | CallReply::Done(_)
            | CallReply::Mirror(_) => {
                return Ok(self.absent().await);
            }
        }
        Ok(self.seen())
    }
}
