//! Watches on the keys of locks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use meshlock_cluster::access::Verb;
use meshlock_cluster::names::LockName;
use meshlock_host::front::Admitted;
use meshlock_host::gate::RequestKind;
use tokio::sync::mpsc::{self, Sender};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming, async_trait};

use super::anywhere::KeyElsewhere;
use super::errors::{not_a_lock, not_watched};
use super::kv::lock_of_key;
use super::names::behind;
use super::ranges::prefix_and_lock;
use super::view::pick;
use super::{Answers, Etcd, wants_leader};
use crate::caller::caller_of;
use crate::proto::etcdserverpb::watch_create_request::FilterType;
use crate::proto::etcdserverpb::watch_request::RequestUnion;
use crate::proto::etcdserverpb::watch_server::Watch;
use crate::proto::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use crate::proto::mvccpb::event::EventType;
use crate::proto::mvccpb::{Event, KeyValue};
use crate::sessions::{AcquireState, Holder, HolderWatch};
use crate::slow_reader::MAX_BUFFERED;

/// Maximum number of watches on one stream.
const MAX_WATCHES: usize = 256;

type Out = Sender<Result<WatchResponse, Status>>;

/// The reader of the stream has gone.
pub(super) struct Hangup;

#[async_trait]
impl Watch for Etcd {
    type WatchStream = Answers<WatchResponse>;

    async fn watch(
        &self,
        request: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        self.check_leader(&request)?;
        let (out, answers) = mpsc::channel(MAX_BUFFERED);
        let (caller, needs_leader) = (caller_of(&request)?, wants_leader(&request));
        let mut asked = request.into_inner();
        let mut watches = Watches::new(self.clone(), caller, out.clone());
        tokio::spawn(async move {
            loop {
                let message = tokio::select! {
                    message = asked.message() => message,
                    () = out.closed() => return,
                };
                let Ok(Some(WatchRequest { request_union })) = message else { return };
                // A request without content changes nothing.
                let Some(request) = request_union else { continue };
                if watches.on_request(request).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(self.while_read(Box::pin(ReceiverStream::new(answers)), needs_leader)))
    }
}

/// etcd's id for "no watch".
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
        // Streams are long-lived, so ended tasks must be removed.
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
            WatchTarget::new(&self.etcd, &self.caller, &create).await
        };
        // An existing watch with this id goes on: it is not the one that was refused.
        let told_id = if self.open.contains_key(&watch_id) { NO_WATCH } else { watch_id };
        let created = WatchResponse { watch_id: told_id, created: true, ..WatchResponse::default() };
        match watched {
            Ok(watched) => {
                self.say(created).await?;
                let sender = EventSender { etcd: self.etcd.clone(), out: self.out.clone(), watch_id, create };
                let task = self.tasks.spawn(async move {
                    let _ = watched.run(sender).await;
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

/// What a watch observes. Its state is read before the client is told that the watch exists, so every later change is
/// reported.
enum WatchTarget {
    /// The virtual key in front of a waiting one.
    Before {
        waits: Vec<u8>,
    },
    Key(Box<WatchedKey>),
    /// A key of a lease of another site, or the virtual key in front of it.
    Elsewhere(Box<KeyElsewhere>),
    /// All holders of a lock.
    Lock {
        lock: LockName,
        holders: HolderWatch,
        seen: Option<HolderList>,
    },
}

/// The holders of a lock.
type HolderList = Arc<[Holder]>;

struct WatchedKey {
    name: Vec<u8>,
    lock: LockName,
    holders: HolderWatch,
    here: watch::Receiver<u64>,
    local: Option<KeyValue>,
    seen: Option<HolderList>,
}

/// How long a watch waits for the first answer of other sites before the client is told that it exists.
const FIRST_LOOK_TIMEOUT: Duration = Duration::from_millis(1500);

impl WatchTarget {
    async fn new(etcd: &Etcd, caller: &Admitted, create: &WatchCreateRequest) -> Result<Self, Status> {
        if create.key.is_empty() {
            return Err(not_a_lock("a watch on all keys"));
        }
        if !create.range_end.is_empty() {
            let (_, lock) = prefix_and_lock(&create.key, &create.range_end)?;
            let mut holders = etcd.sessions.watch(caller, Verb::Watch, &lock).map_err(not_watched)?;
            let seen = timeout(FIRST_LOOK_TIMEOUT, holders.first()).await.ok();
            return Ok(WatchTarget::Lock { lock, holders, seen });
        }
        if let Some(key) = KeyElsewhere::find(etcd, caller, &create.key).await? {
            return Ok(WatchTarget::Elsewhere(Box::new(key)));
        }
        let verb = etcd.check_visible(caller, &create.key)?;
        let Some(lock) = lock_of_key(etcd, &create.key)? else {
            return Ok(WatchTarget::Before { waits: behind(&create.key).unwrap_or_default().to_vec() });
        };
        let holders = etcd.sessions.watch(caller, verb, &lock).map_err(not_watched)?;
        let (mut holders, here) = (holders, etcd.sessions.changes());
        let local = etcd.local(&create.key);
        let seen = match local {
            Some(_) => None,
            None => timeout(FIRST_LOOK_TIMEOUT, holders.first()).await.ok(),
        };
        let name = create.key.clone();
        Ok(WatchTarget::Key(Box::new(WatchedKey { name, lock, holders, here, local, seen })))
    }

    async fn run(self, sender: EventSender) -> Result<(), Hangup> {
        match self {
            WatchTarget::Before { waits } => {
                if let Some(key) = sender.etcd.sessions.anyones_key(&waits) {
                    key.driver.until(|state| *state != AcquireState::Waiting).await;
                }
                sender.gone(&KeyValue { key: sender.create.key.clone(), ..KeyValue::default() }).await
            }
            WatchTarget::Key(watched) => watch_key(&sender, *watched).await,
            WatchTarget::Elsewhere(key) => watch_elsewhere(&sender, *key).await,
            WatchTarget::Lock { lock, holders, seen } => watch_lock(&sender, &lock, holders, seen).await,
        }
    }
}

async fn watch_key(sender: &EventSender, watched: WatchedKey) -> Result<(), Hangup> {
    let WatchedKey { name, lock, mut holders, mut here, local, mut seen } = watched;
    let (etcd, since) = (&sender.etcd, sender.create.start_revision);
    // With a start revision the client is told what has changed since: exactly, for a key of this site; for a key of
    // another site its current state, because revisions of two sites cannot be compared.
    let is_news = local.as_ref().is_none_or(|kv| kv.mod_revision >= since);
    let mut last = local;
    if last.is_none() {
        if seen.is_none() {
            seen = Some(holders.first().await);
        }
        last = pick(&lock, &name, &etcd.as_keys(&lock, seen.as_deref().unwrap_or_default()));
    }
    match &last {
        Some(kv) if since > 0 && is_news => sender.tell(None, Some(kv)).await?,
        None if since > 0 => sender.gone(&KeyValue { key: name.clone(), ..KeyValue::default() }).await?,
        Some(_) | None => {}
    }
    loop {
        tokio::select! {
            _ = here.changed() => {}
            next = holders.next() => seen = next,
        }
        let held = || pick(&lock, &name, &etcd.as_keys(&lock, seen.as_deref().unwrap_or_default()));
        let now = etcd.local(&name).or_else(held);
        sender.tell(last.as_ref(), now.as_ref()).await?;
        last = now;
    }
}

/// Reports what happens to a key of another site, as that site sees it.
async fn watch_elsewhere(sender: &EventSender, mut key: KeyElsewhere) -> Result<(), Hangup> {
    let mut last = key.seen();
    match &last {
        // The revisions of two sites cannot be compared: a client that asks for what has changed since is told how it is.
        Some(kv) if sender.create.start_revision > 0 && behind(&kv.key).is_none() => {
            sender.tell(None, Some(kv)).await?;
        }
        None if sender.create.start_revision > 0 || behind(&sender.create.key).is_some() => {
            let absent = KeyValue { key: sender.create.key.clone(), ..KeyValue::default() };
            sender.gone(&absent).await?;
        }
        Some(_) | None => {}
    }
    loop {
        match key.next().await {
            Ok(now) => {
                sender.tell(last.as_ref(), now.as_ref()).await?;
                last = now;
            }
            Err(why) => return sender.end(&why).await,
        }
        if last.is_none() && behind(&sender.create.key).is_some() {
            return Ok(());
        }
    }
}

async fn watch_lock(
    sender: &EventSender,
    lock: &LockName,
    mut holders: HolderWatch,
    seen: Option<HolderList>,
) -> Result<(), Hangup> {
    let first = match seen {
        Some(seen) => seen,
        None => holders.first().await,
    };
    let mut seen = sender.etcd.as_keys(lock, &first);
    if sender.create.start_revision > 0 {
        for kv in &seen {
            sender.tell(None, Some(kv)).await?;
        }
    }
    while let Some(next) = holders.next().await {
        let now = sender.etcd.as_keys(lock, &next);
        for before in seen.iter().filter(|before| !now.iter().any(|kv| kv.key == before.key)) {
            sender.tell(Some(before), None).await?;
        }
        for kv in &now {
            sender.tell(seen.iter().find(|before| before.key == kv.key), Some(kv)).await?;
        }
        seen = now;
    }
    Ok(())
}

/// Sends the events of one watch.
struct EventSender {
    etcd: Etcd,
    out: Out,
    watch_id: i64,
    create: WatchCreateRequest,
}

impl EventSender {
    /// Reports what happened to a key between two looks at it.
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

    /// Tells the client that its watch is over: it has to begin another one.
    async fn end(&self, why: &Status) -> Result<(), Hangup> {
        let (watch_id, cancel_reason) = (self.watch_id, why.message().to_owned());
        let header = self.etcd.plain_header();
        let response =
            WatchResponse { header, watch_id, canceled: true, cancel_reason, ..WatchResponse::default() };
        self.out.send(Ok(response)).await.map_err(|_| Hangup)
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
