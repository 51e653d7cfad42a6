//! Watches on keys of locks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use meshlock_cluster::names::LockName;
use meshlock_host::front::Admitted;
use meshlock_host::gate::RequestKind;
use tokio::sync::mpsc::{self, Sender};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming, async_trait};

use super::errors::{not_a_lock, not_watched};
use super::kv::{lock_of_key, lock_of_range};
use super::names::behind;
use super::view::pick;
use super::{Answers, Etcd};
use crate::caller::caller_of;
use crate::proto::etcdserverpb::watch_create_request::FilterType;
use crate::proto::etcdserverpb::watch_request::RequestUnion;
use crate::proto::etcdserverpb::watch_server::Watch;
use crate::proto::etcdserverpb::{RangeRequest, WatchCreateRequest, WatchRequest, WatchResponse};
use crate::proto::mvccpb::event::EventType;
use crate::proto::mvccpb::{Event, KeyValue};
use crate::sessions::{AcquireState, Holder, Watching};
use crate::slow::AHEAD;

/// How many keys one stream may watch.
const MAX_WATCHES: usize = 256;

type Out = Sender<Result<WatchResponse, Status>>;

/// The reader has gone.
pub(super) struct Hangup;

#[async_trait]
impl Watch for Etcd {
    type WatchStream = Answers<WatchResponse>;

    async fn watch(
        &self,
        request: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        self.check_leader(&request)?;
        let (out, answers) = mpsc::channel(AHEAD);
        let caller = caller_of(&request)?;
        let mut asked = request.into_inner();
        let mut watches = Watches::new(self.clone(), caller, out.clone());
        tokio::spawn(async move {
            loop {
                let message = tokio::select! {
                    message = asked.message() => message,
                    () = out.closed() => return,
                };
                let Ok(Some(WatchRequest { request_union })) = message else { return };
                // One that asks for nothing changes nothing.
                let Some(request) = request_union else { continue };
                if watches.on_request(request).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(self.while_read(Box::pin(ReceiverStream::new(answers)))))
    }
}

/// What etcd calls no watch at all.
const NO_WATCH: i64 = -1;

/// All watches of one stream. They end with it.
pub(super) struct Watches {
    etcd: Etcd,
    caller: Admitted,
    out: Out,
    tasks: JoinSet<()>,
    open: BTreeMap<i64, AbortHandle>,
    next: i64,
}

impl Watches {
    pub(super) fn new(etcd: Etcd, caller: Admitted, out: Out) -> Self {
        Watches { etcd, caller, out, tasks: JoinSet::new(), open: BTreeMap::new(), next: 0 }
    }

    pub(super) async fn on_request(&mut self, request: RequestUnion) -> Result<(), Hangup> {
        if let Err(too_fast) = self.etcd.pace(&self.caller, RequestKind::Ask) {
            let _ = self.out.send(Err(too_fast)).await;
            return Err(Hangup);
        }
        match request {
            RequestUnion::CreateRequest(create) => self.create(create).await,
            RequestUnion::CancelRequest(cancel) => {
                let Some(watch) = self.open.remove(&cancel.watch_id) else { return Ok(()) };
                watch.abort();
                self.say(WatchResponse {
                    watch_id: cancel.watch_id,
                    canceled: true,
                    ..WatchResponse::default()
                })
                .await
            }
            RequestUnion::ProgressRequest(_) => {
                self.say(WatchResponse { watch_id: NO_WATCH, ..WatchResponse::default() }).await
            }
        }
    }

    async fn create(&mut self, create: WatchCreateRequest) -> Result<(), Hangup> {
        // A stream lasts long, and those that have ended would be kept.
        while self.tasks.try_join_next().is_some() {}
        let watch_id = if create.watch_id != 0 { create.watch_id } else { self.next };
        self.next = self.next.max(watch_id.saturating_add(1));
        let watched = if self.open.len() >= MAX_WATCHES {
            Err(Status::resource_exhausted(format!(
                "meshlock: {MAX_WATCHES} watches on one stream; cancel some"
            )))
        } else if self.open.contains_key(&watch_id) {
            Err(Status::invalid_argument("etcdserver: duplicate watch ID"))
        } else {
            Watched::new(&self.etcd, &self.caller, &create).await
        };
        // The watch that has the number goes on: it is not what was refused.
        let told_id = if self.open.contains_key(&watch_id) { NO_WATCH } else { watch_id };
        let created = WatchResponse { watch_id: told_id, created: true, ..WatchResponse::default() };
        match watched {
            Ok(watched) => {
                self.say(created).await?;
                let teller = Teller { etcd: self.etcd.clone(), out: self.out.clone(), watch_id, create };
                let task = self.tasks.spawn(async move {
                    let _ = watched.run(teller).await;
                });
                self.open.insert(watch_id, task);
                Ok(())
            }
            Err(why) => {
                self.say(WatchResponse { canceled: true, cancel_reason: why.message().to_owned(), ..created })
                    .await
            }
        }
    }

    async fn say(&self, response: WatchResponse) -> Result<(), Hangup> {
        let response = WatchResponse { header: self.etcd.plain_header(), ..response };
        self.out.send(Ok(response)).await.map_err(|_| Hangup)
    }
}

/// What is watched. What it is has been looked at before the client is told that the watch is there: whatever happens from then on
/// is told.
enum Watched {
    /// The key in front of one that waits.
    Before { waits: Vec<u8> },
    /// One key.
    Key(Box<WatchedKey>),
    /// All who hold a lock.
    Lock { lock: LockName, holders: Watching, seen: Option<Seen> },
}

/// Who holds a lock.
type Seen = Arc<[Holder]>;

struct WatchedKey {
    name: Vec<u8>,
    lock: LockName,
    holders: Watching,
    here: watch::Receiver<u64>,
    local: Option<KeyValue>,
    seen: Option<Seen>,
}

/// How long a watch waits for a first look at other sites before it is said to be there.
const LOOK_WITHIN: Duration = Duration::from_millis(1500);

impl Watched {
    async fn new(etcd: &Etcd, caller: &Admitted, create: &WatchCreateRequest) -> Result<Self, Status> {
        if create.key.is_empty() {
            return Err(not_a_lock("a watch on all keys"));
        }
        if !create.range_end.is_empty() {
            let (key, range_end) = (create.key.clone(), create.range_end.clone());
            let lock = lock_of_range(&RangeRequest { key, range_end, ..RangeRequest::default() })?;
            let mut holders = etcd.sessions.watch(caller, &lock).map_err(not_watched)?;
            let seen = timeout(LOOK_WITHIN, holders.first()).await.ok();
            return Ok(Watched::Lock { lock, holders, seen });
        }
        etcd.check_sight(caller, &create.key)?;
        let Some(lock) = lock_of_key(etcd, &create.key)? else {
            return Ok(Watched::Before { waits: behind(&create.key).unwrap_or_default().to_vec() });
        };
        let holders = etcd.sessions.watch_as_seen(caller, &lock).map_err(not_watched)?;
        let (mut holders, here) = (holders, etcd.sessions.changes());
        let local = etcd.local(&create.key);
        let seen = match local {
            Some(_) => None,
            None => timeout(LOOK_WITHIN, holders.first()).await.ok(),
        };
        let name = create.key.clone();
        Ok(Watched::Key(Box::new(WatchedKey { name, lock, holders, here, local, seen })))
    }

    async fn run(self, teller: Teller) -> Result<(), Hangup> {
        match self {
            Watched::Before { waits } => {
                if let Some(key) = teller.etcd.sessions.anyones_key(&waits) {
                    key.driver.until(|state| *state != AcquireState::Waiting).await;
                }
                teller.gone(&KeyValue { key: teller.create.key.clone(), ..KeyValue::default() }).await
            }
            Watched::Key(watched) => watch_key(&teller, *watched).await,
            Watched::Lock { lock, holders, seen } => watch_lock(&teller, &lock, holders, seen).await,
        }
    }
}

async fn watch_key(teller: &Teller, watched: WatchedKey) -> Result<(), Hangup> {
    let WatchedKey { name, lock, mut holders, mut here, local, mut seen } = watched;
    let (etcd, since) = (&teller.etcd, teller.create.start_revision);
    // What has happened since a number that the client knows, it is told: of a key of this site exactly that, of another's all,
    // because numbers of two sites say nothing about each other.
    let is_news = local.as_ref().is_none_or(|kv| kv.mod_revision >= since);
    let mut last = local;
    if last.is_none() {
        if seen.is_none() {
            seen = Some(holders.first().await);
        }
        last = pick(&lock, &name, &etcd.as_keys(&lock, seen.as_deref().unwrap_or_default()));
    }
    match &last {
        Some(kv) if since > 0 && is_news => teller.tell(None, Some(kv)).await?,
        None if since > 0 => teller.gone(&KeyValue { key: name.clone(), ..KeyValue::default() }).await?,
        Some(_) | None => {}
    }
    loop {
        tokio::select! {
            _ = here.changed() => {}
            next = holders.next() => seen = next,
        }
        let held = || pick(&lock, &name, &etcd.as_keys(&lock, seen.as_deref().unwrap_or_default()));
        let now = etcd.local(&name).or_else(held);
        teller.tell(last.as_ref(), now.as_ref()).await?;
        last = now;
    }
}

async fn watch_lock(
    teller: &Teller,
    lock: &LockName,
    mut holders: Watching,
    seen: Option<Seen>,
) -> Result<(), Hangup> {
    let first = match seen {
        Some(seen) => seen,
        None => holders.first().await,
    };
    let mut seen = teller.etcd.as_keys(lock, &first);
    if teller.create.start_revision > 0 {
        for kv in &seen {
            teller.tell(None, Some(kv)).await?;
        }
    }
    while let Some(next) = holders.next().await {
        let now = teller.etcd.as_keys(lock, &next);
        for before in seen.iter().filter(|before| !now.iter().any(|kv| kv.key == before.key)) {
            teller.tell(Some(before), None).await?;
        }
        for kv in &now {
            teller.tell(seen.iter().find(|before| before.key == kv.key), Some(kv)).await?;
        }
        seen = now;
    }
    Ok(())
}

/// Tells one watch's events.
struct Teller {
    etcd: Etcd,
    out: Out,
    watch_id: i64,
    create: WatchCreateRequest,
}

impl Teller {
    /// Tells what has happened to a key between two looks at it.
    async fn tell(&self, before: Option<&KeyValue>, now: Option<&KeyValue>) -> Result<(), Hangup> {
        let is_same = match (before, now) {
            (Some(before), Some(now)) => {
                before.lease == now.lease && before.create_revision == now.create_revision
            }
            (None, _) | (_, None) => false,
        };
        if let Some(before) = before.filter(|_| !is_same) {
            self.gone(before).await?;
        }
        match now {
            Some(now) if !is_same || before.is_some_and(|before| before.value != now.value) => {
                self.event(EventType::Put, now.clone(), before.cloned()).await
            }
            Some(_) | None => Ok(()),
        }
    }

    async fn gone(&self, before: &KeyValue) -> Result<(), Hangup> {
        let mod_revision = self.etcd.sessions.revision();
        let kv = KeyValue { key: before.key.clone(), mod_revision, ..KeyValue::default() };
        self.event(EventType::Delete, kv, Some(before.clone())).await
    }

    async fn event(&self, kind: EventType, kv: KeyValue, before: Option<KeyValue>) -> Result<(), Hangup> {
        let filtered = match kind {
            EventType::Put => FilterType::Noput,
            EventType::Delete => FilterType::Nodelete,
        };
        if self.create.filters().any(|filter| filter == filtered) {
            return Ok(());
        }
        let prev_kv = before.filter(|_| self.create.prev_kv);
        let header = self.etcd.header(self.etcd.sessions.revision().max(kv.mod_revision));
        let events = vec![Event { r#type: kind.into(), kv: Some(kv), prev_kv }];
        let response = WatchResponse { header, watch_id: self.watch_id, events, ..WatchResponse::default() };
        self.out.send(Ok(response)).await.map_err(|_| Hangup)
    }
}
