//! Our own API: gRPC `meshlock.v1`, and the same calls as JSON over HTTP.

mod cluster;
mod fault;
mod hold;
mod http;
mod sessions;

use meshlock_cluster::names::{ClientLabel, LockName};
use meshlock_cluster::table::Wait;
use meshlock_cluster::time::Span;
use meshlock_host::front::Admitted;
use tonic::{Code, Request, Response, Status, async_trait};

use crate::caller::caller_of;
use crate::proto::meshlock::locks_server::{Locks, LocksServer};
use crate::proto::meshlock::{
    AcquireRequest, BreakResponse, EndSessionResponse, GetRulesRequest, Grant, HoldEvent, HoldRequest,
    Holders, LockRequest, OpenSessionRequest, QueueResponse, ReleaseRequest, ReleaseResponse, Rules, Session,
    SessionRequest, StatusRequest, StatusResponse,
};
use crate::sessions::registry::{Grant as Granted, Lasts, LeaseId, NewKey};
use crate::sessions::{IfKnown, KeyRequest, Sessions};
use crate::slow::{Answers, while_read};
use fault::{bad, not_held};
pub(crate) use fault::{denied, fault};
pub(crate) use http::{nowhere, refused};

/// Our own API. Clones are the same.
#[derive(Clone)]
pub(crate) struct Own {
    sessions: Sessions,
}

/// What a call asks for.
struct Asked {
    lock: LockName,
    wait: Wait,
    permits: Option<u32>,
}

impl Asked {
    fn new(lock: &str, try_only: bool, wait_ms: Option<u32>, permits: Option<u32>) -> Result<Self, Status> {
        let wait = match (try_only, wait_ms) {
            (true, Some(_)) => return Err(bad("give either 'try' or 'wait_ms', not both")),
            (true, None) => Wait::Try,
            (false, Some(millis)) => Wait::Within(Span::from_millis(u64::from(millis))),
            (false, None) => Wait::Forever,
        };
        if permits == Some(0) {
            return Err(bad("a lock has 1 permit or more; give 'permits' so"));
        }
        Ok(Asked { lock: lock.parse().map_err(bad)?, wait, permits })
    }
}

impl Own {
    pub(crate) fn new(sessions: Sessions) -> Self {
        Own { sessions }
    }

    /// The gRPC service.
    pub(crate) fn grpc(&self) -> LocksServer<Own> {
        LocksServer::new(self.clone()).max_decoding_message_size(self.sessions.limits().request_bytes)
    }

    /// The same as JSON over HTTP.
    pub(crate) fn http(&self) -> axum::Router {
        http::routes(self.clone())
    }

    /// What a client is streamed, for as long as it reads it.
    fn while_read<T: Send + 'static>(&self, caller: Admitted, answers: Answers<T>) -> Answers<T> {
        let sessions = self.sessions.clone();
        // What it was told last it may believe for a while: it has not heard that this is over.
        while_read(answers, sessions.limits().slow_reader, move || sessions.on_cut_off(&caller))
    }

    /// Waits for a lock in a session.
    async fn get(
        &self,
        caller: &Admitted,
        asked: Asked,
        lease: LeaseId,
        who: ClientLabel,
    ) -> Result<Granted, Status> {
        let Asked { lock, wait, permits } = asked;
        let name = key(&lock, lease);
        let text = lock.to_string();
        let wanted = NewKey { name, lock, lease, value: Vec::new() };
        let order = KeyRequest { wanted, wait, who, if_known: IfKnown::Join };
        let held = self.sessions.acquire(caller, order, permits).await;
        held.map(|(_, grant)| grant).map_err(|error| not_held(&text, error))
    }
}

/// The key of a lock in a session: the same that etcd's clients would have for the lease of that number.
fn key(lock: &LockName, lease: LeaseId) -> Vec<u8> {
    format!("{lock}/{lease}").into_bytes()
}

/// Who a client says it is.
fn label(text: &str) -> Result<ClientLabel, Status> {
    let text = if text.is_empty() { "a client of the API" } else { text };
    text.parse().map_err(bad)
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
        // Of one that is over, the session is not found either.
        self.sessions.renew(&caller, lease);
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
            return Err(self.no_session(lease));
        }
        Ok(Response::new(EndSessionResponse {}))
    }

    async fn acquire(&self, request: Request<AcquireRequest>) -> Result<Response<Grant>, Status> {
        let caller = caller_of(&request)?;
        let AcquireRequest { lock, session, r#try, wait_ms, permits, ttl_ms, label } = request.into_inner();
        let asked = Asked::new(&lock, r#try, wait_ms, permits)?;
        let (lease, made) = if session.is_empty() {
            let lasts = sessions::lasts(ttl_ms)?;
            // While it waits the client is there for as long as its call is; its time begins when it has the lock.
            let lease = self.open_lease(&caller, Lasts::WithItsConnection, &label)?;
            (lease, Some((sessions::Made::new(self, lease), lasts)))
        } else {
            (sessions::lease(&session)?, None)
        };
        let granted = self.get(&caller, asked, lease, self.who(&caller, lease)?).await?;
        if let Some((mut made, lasts)) = made {
            self.sessions.begin_time(lease, lasts);
            made.keep();
        }
        Ok(Response::new(self.grant(&caller, lock, lease, granted)))
    }

    async fn release(&self, request: Request<ReleaseRequest>) -> Result<Response<ReleaseResponse>, Status> {
        let caller = caller_of(&request)?;
        let ReleaseRequest { lock, session } = request.into_inner();
        let (lock, lease): (LockName, _) = (lock.parse().map_err(bad)?, sessions::lease(&session)?);
        let Some(key) = self.sessions.release(&caller, &key(&lock, lease)) else {
            return Err(fault(
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
        let asked = Asked::new(&lock, r#try, wait_ms, permits)?;
        let who = label(&who)?;
        let lease = self.sessions.grant(&caller, Lasts::WithItsConnection, Some(who.clone()));
        let lease = lease.map_err(|error| not_held(&lock, error.into()))?;
        let session = sessions::Made::new(self, lease);
        let held = hold::Held::get(caller.clone(), session, asked, who).await?;
        Ok(Response::new(self.while_read(caller, held.events(lock))))
    }

    type WatchStream = Answers<Holders>;

    async fn watch(&self, request: Request<LockRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let caller = caller_of(&request)?;
        let holders = self.holders_of(&caller, request.into_inner().lock.parse().map_err(bad)?)?;
        Ok(Response::new(self.while_read(caller, holders)))
    }

    async fn queue(&self, request: Request<LockRequest>) -> Result<Response<QueueResponse>, Status> {
        let caller = caller_of(&request)?;
        self.queue_of(&caller, request.into_inner().lock.parse().map_err(bad)?).await.map(Response::new)
    }

    async fn r#break(&self, request: Request<LockRequest>) -> Result<Response<BreakResponse>, Status> {
        let caller = caller_of(&request)?;
        self.take_away(&caller, request.into_inner().lock.parse().map_err(bad)?).await.map(Response::new)
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        self.how_it_is().await.map(Response::new)
    }

    async fn get_rules(&self, _: Request<GetRulesRequest>) -> Result<Response<Rules>, Status> {
        Ok(Response::new(self.rules()))
    }

    async fn set_rules(&self, request: Request<Rules>) -> Result<Response<Rules>, Status> {
        let caller = caller_of(&request)?;
        self.change_rules(&caller, request.into_inner()).await.map(Response::new)
    }
}
