//! Our own API: gRPC `meshlock.v1`, and the same calls as JSON over HTTP.

mod cluster;
mod errors;
mod hold;
mod http;
mod listing;
mod sessions;
mod voters;

use meshlock_cluster::names::{ClientLabel, LockName};
use meshlock_cluster::table::Wait;
use meshlock_cluster::time::Span;
use meshlock_host::front::{AcquireParams, Admitted};
use meshlock_host::gate::Caller;
use tonic::{Code, Request, Response, Status, async_trait};

use crate::caller::caller_of;
use crate::proto::meshlock::locks_server::{Locks, LocksServer};
use crate::proto::meshlock::{
    AcquireRequest, BreakResponse, ChangeVotersRequest, Deadlocks, EndSessionResponse, GetRulesRequest,
    Grant, HoldEvent, HoldRequest, Holders, ListDeadlocksRequest, ListLocksRequest, LockChanges, LockPage,
    LockRequest, OpenSessionRequest, QueueResponse, ReleaseRequest, ReleaseResponse, Rules, Session,
    SessionRequest, StatusRequest, StatusResponse, Voters, WatchLocksRequest,
};
use crate::sessions::registry::{KeyGrant, LeaseDuration, LeaseId, NewKey};
use crate::sessions::{IfKnown, KeyRequest, Sessions, StreamEnd, until_end};
use crate::slow_reader::{Answers, while_read};
pub(crate) use errors::{api_error, denied};
use errors::{bad, not_held};
pub(crate) use http::{not_found, refused};

/// Our own API. Clones share the same state.
#[derive(Clone)]
pub(crate) struct Own {
    sessions: Sessions,
}

/// Parses the parameters of an acquisition.
fn params(
    lock: &str,
    try_only: bool,
    wait_ms: Option<u32>,
    permits: Option<u32>,
) -> Result<AcquireParams, Status> {
    let wait = match (try_only, wait_ms) {
        (true, Some(_)) => return Err(bad("give either 'try' or 'wait_ms', not both")),
        (true, None) => Wait::Try,
        (false, Some(millis)) => Wait::Within(Span::from_millis(u64::from(millis))),
        (false, None) => Wait::Forever,
    };
    if permits == Some(0) {
        return Err(bad("'permits' is 0; give 1 or more"));
    }
    Ok(AcquireParams { lock: lock.parse().map_err(bad)?, wait, permits, cause: None })
}

impl Own {
    pub(crate) fn new(sessions: Sessions) -> Self {
        Own { sessions }
    }

    /// Returns the gRPC service.
    pub(crate) fn grpc(&self) -> LocksServer<Own> {
        LocksServer::new(self.clone()).max_decoding_message_size(self.sessions.limits().request_bytes)
    }

    /// Returns the same calls as JSON over HTTP.
    pub(crate) fn http(&self) -> axum::Router {
        http::routes(self.clone())
    }

    /// Returns what a stream says at its end when this site stops.
    fn at_its_end(&self) -> StreamEnd {
        let closing = api_error(
            "unavailable",
            Code::Unavailable,
            format!("the site '{}' stops; use another one", self.sessions.site()),
        );
        StreamEnd { closing: Some(closing), no_leader: None }
    }

    /// Streams `answers` for as long as the client reads them.
    fn while_read<T: Send + 'static>(&self, caller: Admitted, answers: Answers<T>) -> Answers<T> {
        let sessions = self.sessions.clone();
        // The client may rely for a while on what it was told last, because it does not know that it was cut off.
        while_read(answers, sessions.limits().slow_reader, move || sessions.on_cut_off(&caller))
    }

    /// Waits for a lock in a session.
    async fn get(
        &self,
        caller: &Admitted,
        asked: AcquireParams,
        lease: LeaseId,
        who: ClientLabel,
    ) -> Result<KeyGrant, Status> {
        let AcquireParams { lock, wait, permits, .. } = asked;
        let name = key(&lock, lease);
        let text = lock.to_string();
        let wanted = NewKey { name, lock, lease, value: Vec::new() };
        let request = KeyRequest { wanted, wait, permits, who, if_known: IfKnown::Join };
        let held = self.sessions.acquire(caller, request).await;
        held.map(|(_, grant)| grant).map_err(|error| not_held(&text, error))
    }
}

/// Returns the key of a lock in a session. It is the same that etcd's clients would use for the lease of that number.
fn key(lock: &LockName, lease: LeaseId) -> Vec<u8> {
    format!("{}/{lease}", lock.as_str()).into_bytes()
}

/// Returns the label by which others see a client: what it has proved, and the label that it gives itself.
fn label(caller: &Caller, text: &str) -> Result<ClientLabel, Status> {
    let text = if text.is_empty() { "a client of the API" } else { text };
    Ok(ClientLabel::proved(&caller.principal, &text.parse().map_err(bad)?))
}

#[async_trait]
impl Locks for Own {
    async fn open_session(&self, request: Request<OpenSessionRequest>) -> Result<Response<Session>, Status> {
        let caller = caller_of(&request)?;
        let OpenSessionRequest { ttl_ms, label } = request.into_inner();
        let lease = self.open_lease(&caller, sessions::lasts(ttl_ms)?, &label)?;
        self.session(&caller, lease).map(Response::new)
    }

    async fn get_session(&self, request: Request<SessionRequest>) -> Result<Response<Session>, Status> {
        let caller = caller_of(&request)?;
        let lease = sessions::lease(&request.into_inner().session)?;
        self.session(&caller, lease).map(Response::new)
    }

    async fn keep_alive(&self, request: Request<SessionRequest>) -> Result<Response<Session>, Status> {
        let caller = caller_of(&request)?;
        let lease = sessions::lease(&request.into_inner().session)?;
        // If the session is over, looking it up fails.
        if self.sessions.renew(&caller, lease) == Some(LeaseDuration::UntilDisconnect) {
            // A connection stays open while its client is stopped. Whoever has begun to say that it runs, during a `hold`, must go on.
            let ttl = LeaseDuration::For(self.sessions.front().lease_length());
            self.sessions.start_ttl(lease, ttl);
        }
        self.session(&caller, lease).map(Response::new)
    }

    async fn end_session(
        &self,
        request: Request<SessionRequest>,
    ) -> Result<Response<EndSessionResponse>, Status> {
        let caller = caller_of(&request)?;
        let session = request.into_inner().session;
        let lease = sessions::lease(&session)?;
        if !self.sessions.revoke(&caller, lease) {
            return Err(errors::no_session(&lease.to_string()));
        }
        Ok(Response::new(EndSessionResponse {}))
    }

    async fn acquire(&self, request: Request<AcquireRequest>) -> Result<Response<Grant>, Status> {
        let caller = caller_of(&request)?;
        let AcquireRequest { lock, session, r#try, wait_ms, permits, ttl_ms, label } = request.into_inner();
        let asked = params(&lock, r#try, wait_ms, permits)?;
        let (lease, made) = if session.is_empty() {
            let lasts = sessions::lasts(ttl_ms)?;
            // While the call waits, its connection shows that the client is alive; the time to live starts with the
            // grant.
            let lease = self.open_lease(&caller, LeaseDuration::UntilDisconnect, &label)?;
            (lease, Some((sessions::CallSession::new(self, lease), lasts)))
        } else {
            (sessions::lease(&session)?, None)
        };
        let granted = self.get(&caller, asked, lease, self.who(&caller, lease)?).await?;
        if let Some((mut made, lasts)) = made {
            self.sessions.start_ttl(lease, lasts);
            self.sessions.detach_from_call(lease);
            made.keep();
        }
        Ok(Response::new(self.grant(&caller, lock, lease, granted)))
    }

    async fn release(&self, request: Request<ReleaseRequest>) -> Result<Response<ReleaseResponse>, Status> {
        let caller = caller_of(&request)?;
        let ReleaseRequest { lock, session } = request.into_inner();
        let (lock, lease): (LockName, _) = (lock.parse().map_err(bad)?, sessions::lease(&session)?);
        let Some(key) = self.sessions.release(&caller, &key(&lock, lease)) else {
            return Err(api_error(
                "not_held",
                Code::NotFound,
                format!("the session {lease} neither holds '{lock}' nor waits for it; it may have lost it"),
            ));
        };
        Ok(Response::new(ReleaseResponse { held: key.grant().is_some() }))
    }

    type HoldStream = Answers<HoldEvent>;

    async fn hold(&self, request: Request<HoldRequest>) -> Result<Response<Self::HoldStream>, Status> {
        let caller = caller_of(&request)?;
        let HoldRequest { lock, r#try, wait_ms, permits, label: who } = request.into_inner();
        let asked = params(&lock, r#try, wait_ms, permits)?;
        let who = label(&caller, &who)?;
        let lease = self.sessions.grant(&caller, LeaseDuration::UntilDisconnect, Some(who.clone()));
        let lease = lease.map_err(|error| not_held(&lock, error.into()))?;
        let session = sessions::CallSession::new(self, lease);
        let held = hold::HoldCall::get(caller.clone(), session, asked, who).await?;
        Ok(Response::new(self.while_read(caller, held.events(lock))))
    }

    type WatchStream = Answers<Holders>;

    async fn watch(&self, request: Request<LockRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let caller = caller_of(&request)?;
        let holders = self.holders_of(&caller, request.into_inner().lock.parse().map_err(bad)?)?;
        let holders = until_end(&self.sessions, holders, self.at_its_end());
        Ok(Response::new(self.while_read(caller, holders)))
    }

    async fn queue(&self, request: Request<LockRequest>) -> Result<Response<QueueResponse>, Status> {
        let caller = caller_of(&request)?;
        self.queue_of(&caller, request.into_inner().lock.parse().map_err(bad)?).await.map(Response::new)
    }

    async fn list_locks(&self, request: Request<ListLocksRequest>) -> Result<Response<LockPage>, Status> {
        let caller = caller_of(&request)?;
        self.page_of(&caller, request.into_inner()).await.map(Response::new)
    }

    type WatchLocksStream = Answers<LockChanges>;

    async fn watch_locks(
        &self,
        request: Request<WatchLocksRequest>,
    ) -> Result<Response<Self::WatchLocksStream>, Status> {
        let caller = caller_of(&request)?;
        let changes = self.changes_of(&caller, &request.into_inner().pattern)?;
        let changes = until_end(&self.sessions, changes, self.at_its_end());
        Ok(Response::new(self.while_read(caller, changes)))
    }

    async fn list_deadlocks(
        &self,
        request: Request<ListDeadlocksRequest>,
    ) -> Result<Response<Deadlocks>, Status> {
        self.deadlocks_of(&caller_of(&request)?).await.map(Response::new)
    }

    async fn r#break(&self, request: Request<LockRequest>) -> Result<Response<BreakResponse>, Status> {
        let caller = caller_of(&request)?;
        self.break_lock(&caller, request.into_inner().lock.parse().map_err(bad)?).await.map(Response::new)
    }

    async fn status(&self, request: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        self.status_response(&caller_of(&request)?).await.map(Response::new)
    }

    async fn get_rules(&self, request: Request<GetRulesRequest>) -> Result<Response<Rules>, Status> {
        self.rules(&caller_of(&request)?).map(Response::new)
    }

    async fn set_rules(&self, request: Request<Rules>) -> Result<Response<Rules>, Status> {
        let caller = caller_of(&request)?;
        self.change_rules(&caller, request.into_inner()).await.map(Response::new)
    }

    async fn change_voters(&self, request: Request<ChangeVotersRequest>) -> Result<Response<Voters>, Status> {
        let caller = caller_of(&request)?;
        self.ask_for_voters(&caller, request.into_inner()).await.map(Response::new)
    }
}
