//! Reading and deleting the keys of locks, and the transactions of [`shapes`](super::shapes).

use std::time::Duration;

use meshlock_cluster::access::Verb;
use meshlock_cluster::names::LockName;
use meshlock_cluster::table::Wait;
use meshlock_host::front::Admitted;
use tonic::{Request, Response, Status, async_trait};

use super::Etcd;
use super::election::was_created;
use super::errors::{bad_name, denied, lease_not_found, not_a_lock, too_long};
use super::names::{Form, behind, label, lock_of_prefix, place_of, prefix_of_range};
use super::shapes::{KeyMatch, Shape, TxnAction, shape};
use super::view::{kv_before, kv_of_key};
use crate::caller::caller_of;
use crate::proto::etcdserverpb::kv_server::Kv;
use crate::proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use crate::proto::etcdserverpb::{
    DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RangeRequest, RangeResponse,
    ResponseOp, TxnRequest, TxnResponse, response_op,
};
use crate::proto::mvccpb::KeyValue;
use crate::sessions::registry::{KeyState, LeaseId, NewKey, RegistryError};
use crate::sessions::{AcquireError, AcquireState, IfKnown, KeyRequest, SessionKey};

/// How long a transaction that requests a lock waits for the grant: as long as a request takes if nobody holds the
/// lock. If the lock is granted within this time, the client needs no watch, and its key's creation revision is its
/// fence.
const GRANT_WAIT: Duration = Duration::from_millis(200);

/// How often a transaction is repeated that found a key taken and then could not read it. In etcd nothing happens
/// between the two, and clients rely on it; here the holder may have left in between.
const MAX_RETRIES: u32 = 3;

/// Result of a transaction.
struct TxnOutcome {
    succeeded: bool,
    revision: i64,
    /// The answer to the write of its branch.
    written: Option<response_op::Response>,
    /// The client's own key, if it exists now.
    own: Option<SessionKey>,
}

impl TxnOutcome {
    fn failed(revision: i64, own: Option<SessionKey>) -> Self {
        TxnOutcome { succeeded: false, revision, written: None, own }
    }
}

/// Puts holders before all waiters, whatever the revisions of two sites say. `max` is the largest revision of a waiter, or 0 for any.
///
/// Clients take the first key for the holder's. So while nobody holds the lock, those who wait are not shown: the first of them at this
/// site need not be the next holder.
fn in_line(mut holders: Vec<KeyValue>, waiting: Vec<KeyValue>, max: i64) -> Vec<KeyValue> {
    if !holders.is_empty() {
        holders.extend(waiting.into_iter().filter(|kv| max == 0 || kv.create_revision <= max));
    }
    holders
}

impl Etcd {
    /// Removes a key of this site, held or waiting. Returns what it was.
    pub(super) async fn remove(&self, caller: &Admitted, name: &[u8]) -> Result<Option<KeyValue>, Status> {
        if let Some(key) = self.sessions.release(caller, name) {
            return Ok(Some(kv_of_key(&key)));
        }
        let lock = self.lock_of_base(behind(name).unwrap_or(name))?;
        self.sessions.check(caller, Verb::Acquire, &lock).map_err(|error| denied(&error))?;
        // If a site does not answer, it may have the key: then this fails and nothing was done.
        if self.find(caller, Verb::Acquire, name).await?.is_none() {
            return Ok(None);
        }
        Err(Status::failed_precondition(format!(
            "meshlock: the key '{}' belongs to another client: only its holder can release it (operators: meshlock break)",
            String::from_utf8_lossy(name)
        )))
    }

    async fn read(&self, caller: &Admitted, request: &RangeRequest) -> Result<RangeResponse, Status> {
        if request.key.is_empty() {
            return Err(Status::invalid_argument("etcdserver: key is not provided"));
        }
        if request.range_end.is_empty() {
            let verb = self.check_visible(caller, &request.key)?;
            let found = self.find(caller, verb, &request.key).await?;
            let own = self.sessions.anyones_key(&request.key);
            let revision = own.map_or_else(|| self.sessions.revision(), |key| self.revision_of(&key));
            return Ok(self.found(request, found.into_iter().collect(), revision));
        }
        let lock = lock_of_range(request)?;
        let revision = self.sessions.revision();
        if let Some(key) = self.asks_who_is_before(caller, request.max_create_revision, &lock) {
            let before = if key.state == KeyState::Waiting { vec![kv_before(&key)] } else { Vec::new() };
            return Ok(self.found(request, before, revision));
        }
        let holders = self.holders(caller, Verb::Watch, &lock).await?;
        let waiting: Vec<KeyValue> = {
            let registry = self.sessions.registry();
            let waits = |key: &&SessionKey| key.lock == lock && key.state == KeyState::Waiting;
            registry.keys_from(lock.as_str().as_bytes()).filter(waits).map(kv_of_key).collect()
        };
        let mut all = in_line(holders, waiting, request.max_create_revision);
        if request.sort_order() == SortOrder::Descend {
            all.reverse();
        }
        Ok(self.found(request, all, revision))
    }

    /// Recognises a waiting client by its question for the keys that were created before its own. Returns its key.
    fn asks_who_is_before(&self, caller: &Admitted, before: i64, lock: &LockName) -> Option<SessionKey> {
        let created = before.checked_add(1).filter(|_| before > 0)?;
        self.sessions.registry().created_as(lock, created, &caller.principal).cloned()
    }

    fn found(&self, request: &RangeRequest, mut kvs: Vec<KeyValue>, revision: i64) -> RangeResponse {
        let count = i64::try_from(kvs.len()).unwrap_or(i64::MAX);
        let limit = usize::try_from(request.limit).ok().filter(|&limit| limit > 0).unwrap_or(usize::MAX);
        let more = kvs.len() > limit;
        kvs.truncate(if request.count_only { 0 } else { limit });
        if request.keys_only {
            for kv in &mut kvs {
                kv.value.clear();
            }
        }
        RangeResponse { header: self.header(revision), kvs, more, count }
    }

    /// Reads after a write in the same transaction. For the client's own key no other site need be asked.
    async fn read_after(
        &self,
        caller: &Admitted,
        request: &RangeRequest,
        own: Option<&SessionKey>,
    ) -> Result<RangeResponse, Status> {
        let Some(key) = own else { return self.read(caller, request).await };
        let revision = self.revision_of(key);
        if request.range_end.is_empty() && request.key == key.name {
            return Ok(self.found(request, vec![kv_of_key(key)], revision));
        }
        let is_its_lock = !request.range_end.is_empty() && lock_of_range(request)? == key.lock;
        match key.state {
            KeyState::Waiting if is_its_lock => Ok(self.found(request, vec![kv_before(key)], revision)),
            KeyState::Held(_) if is_its_lock => Ok(self.found(request, vec![kv_of_key(key)], revision)),
            KeyState::Waiting | KeyState::Held(_) => self.read(caller, request).await,
        }
    }

    async fn act(&self, caller: &Admitted, key: &[u8], act: TxnAction) -> Result<TxnOutcome, Status> {
        let (which, act) = match act {
            TxnAction::Create { value, lease } => return self.create(caller, key, value, lease).await,
            TxnAction::SetValue { which, value } => (which, Some(Some(value))),
            TxnAction::Delete { which } => (which, Some(None)),
            TxnAction::Look { which } => (which, None),
        };
        let its = match (self.sessions.key(caller, key), &act) {
            // A client that only reads may read the key of another.
            (None, None) => {
                self.check_visible(caller, key)?;
                self.sessions.anyones_key(key)
            }
            (its, _) => its,
        };
        let meant = its.filter(|key| match &which {
            KeyMatch::Created(created) => was_created(key, *created),
            KeyMatch::HasValue(value) => key.value == *value,
        });
        let Some(own) = meant else { return Ok(TxnOutcome::failed(self.sessions.revision(), None)) };
        let (written, own) = match act {
            Some(Some(value)) => {
                let own = self.proclaim_value(caller, &own, value)?.unwrap_or(own);
                (Some(response_op::Response::ResponsePut(PutResponse::default())), Some(own))
            }
            Some(None) => {
                let deleted = i64::from(self.sessions.release(caller, key).is_some());
                let deleted = DeleteRangeResponse { deleted, ..DeleteRangeResponse::default() };
                (Some(response_op::Response::ResponseDeleteRange(deleted)), None)
            }
            None => (None, Some(own)),
        };
        Ok(TxnOutcome { succeeded: true, revision: self.sessions.revision(), written, own })
    }

    /// Requests the lock of a key that does not exist yet.
    async fn create(
        &self,
        caller: &Admitted,
        name: &[u8],
        value: Vec<u8>,
        lease: LeaseId,
    ) -> Result<TxnOutcome, Status> {
        let (lock, form) = place_of(name, lease).map_err(bad_name)?;
        let who = label(&caller.principal, lease, form, &value).map_err(too_long)?;
        let wanted = NewKey { name: name.to_vec(), lock, lease, value };
        // A client can wait in a key only if the key is its own.
        let wait = if form == Form::Direct { Wait::Try } else { Wait::Forever };
        let request = KeyRequest { wanted, wait, permits: None, who, if_known: IfKnown::Refuse };
        let asked = match form {
            Form::Direct => self.sessions.acquire(caller, request).await.map(|(key, _)| key),
            Form::Hex | Form::Decimal => self.sessions.ask(caller, request, GRANT_WAIT).await,
        };
        if form == Form::Direct && matches!(asked, Err(AcquireError::Registry(RegistryError::KeyTaken))) {
            return Ok(self.taken(caller, name).await);
        }
        match asked {
            Ok(own) => Ok(TxnOutcome {
                succeeded: true,
                revision: own.revisions.created,
                written: Some(response_op::Response::ResponsePut(PutResponse::default())),
                own: Some(own),
            }),
            Err(AcquireError::Registry(RegistryError::KeyTaken)) => {
                let own = self.sessions.registry().fix_creation_revision(name, &caller.principal);
                let revision =
                    own.as_ref().map_or_else(|| self.sessions.revision(), |own| own.revisions.created);
                Ok(TxnOutcome::failed(revision, own))
            }
            Err(AcquireError::Busy | AcquireError::TimedOut) => {
                Ok(TxnOutcome::failed(self.sessions.revision(), None))
            }
            Err(error) => Err(self.not_held(error)),
        }
    }
}

impl Etcd {
    /// Result of creating a key that has the name of its lock and that another client of this site already has. If
    /// that client is still trying to get the lock, waits for the result.
    async fn taken(&self, caller: &Admitted, name: &[u8]) -> TxnOutcome {
        if let Some(key) = self.sessions.anyones_key(name) {
            key.driver.until(|state| *state != AcquireState::Waiting).await;
        }
        // Whether the client may see the key of another is checked when it is read.
        let held = self.sessions.key(caller, name).filter(|key| key.state != KeyState::Waiting);
        TxnOutcome::failed(self.sessions.revision(), held)
    }
}

/// Returns whether something was read and nothing was found.
fn read_nothing(responses: &[ResponseOp]) -> bool {
    let is_empty = |response: &ResponseOp| matches!(&response.response, Some(response_op::Response::ResponseRange(read)) if read.kvs.is_empty() && read.count == 0);
    !responses.is_empty() && responses.iter().all(is_empty)
}

/// Returns the lock that a range is about, if it covers the keys of one lock.
pub(super) fn lock_of_range(request: &RangeRequest) -> Result<LockName, Status> {
    let lock = prefix_of_range(&request.key, &request.range_end).and_then(lock_of_prefix);
    let lock =
        lock.ok_or_else(|| not_a_lock("a range other than all keys that begin with a lock's name and '/'"))?;
    let by_creation = matches!(request.sort_target(), SortTarget::Create | SortTarget::Key);
    if !by_creation && request.sort_order() != SortOrder::None {
        return Err(not_a_lock("a range that is sorted by something else than creation"));
    }
    Ok(lock)
}

#[async_trait]
impl Kv for Etcd {
    async fn range(&self, request: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
        self.check_leader(&request)?;
        Ok(Response::new(self.read(&caller_of(&request)?, request.get_ref()).await?))
    }

    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        let (caller, lease) = (caller_of(&request)?, request.get_ref().lease);
        // Clients learn by a put that their lease is gone.
        if lease != 0 && !self.is_alive_anywhere(&caller, lease).await? {
            return Err(lease_not_found());
        }
        Err(not_a_lock("a key is put without a transaction"))
    }

    async fn delete_range(
        &self,
        request: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        self.check_leader(&request)?;
        let caller = caller_of(&request)?;
        let DeleteRangeRequest { key, range_end, prev_kv } = request.into_inner();
        if key.is_empty() {
            return Err(Status::invalid_argument("etcdserver: key is not provided"));
        }
        let removed = if range_end.is_empty() {
            self.remove(&caller, &key).await?.into_iter().collect()
        } else {
            self.remove_range(&caller, &key, &range_end).await?
        };
        let deleted = i64::try_from(removed.len()).unwrap_or(i64::MAX);
        let prev_kvs = if prev_kv { removed } else { Vec::new() };
        Ok(Response::new(DeleteRangeResponse { header: self.plain_header(), deleted, prev_kvs }))
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        self.check_leader(&request)?;
        let caller = caller_of(&request)?;
        let Shape { key, action, then, otherwise } =
            shape(request.into_inner()).map_err(|why| not_a_lock(&format!("a transaction: {why}")))?;
        if key.is_empty() {
            return Err(Status::invalid_argument("etcdserver: key is not provided"));
        }
        let mut retries_left = MAX_RETRIES;
        loop {
            let TxnOutcome { succeeded, revision, written, own } =
                self.act(&caller, &key, action.clone()).await?;
            let mut responses: Vec<ResponseOp> =
                written.into_iter().map(|written| ResponseOp { response: Some(written) }).collect();
            for range in if succeeded { &then } else { &otherwise } {
                let read = self.read_after(&caller, range, own.as_ref()).await?;
                responses.push(ResponseOp { response: Some(response_op::Response::ResponseRange(read)) });
            }
            let creates = matches!(action, TxnAction::Create { .. });
            if creates && !succeeded && read_nothing(&responses) && retries_left > 0 {
                retries_left -= 1;
                continue;
            }
            return Ok(Response::new(TxnResponse { header: self.header(revision), succeeded, responses }));
        }
    }
}

/// Returns the lock that a single key is about; `None` for the virtual key in front of a waiting one.
pub(super) fn lock_of_key(etcd: &Etcd, name: &[u8]) -> Result<Option<LockName>, Status> {
    if behind(name).is_some() {
        return Ok(None);
    }
    etcd.lock_of_base(name).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_of_a_range_is_a_holder_s_or_there_is_none() {
        let key = |name: &str, created: i64| KeyValue {
            key: name.as_bytes().to_vec(),
            create_revision: created,
            ..KeyValue::default()
        };
        let (holder, waiter) = (key("jobs/1", 900), key("jobs/2", 5));
        let listed = in_line(vec![holder.clone()], vec![waiter.clone()], 0);
        assert_eq!(listed, [holder.clone(), waiter.clone()], "although the waiter's number is smaller");
        assert_eq!(in_line(vec![holder.clone()], vec![waiter.clone()], 4), [holder]);
        assert_eq!(in_line(Vec::new(), vec![waiter], 0), [], "who waits does not lead");
    }
}
