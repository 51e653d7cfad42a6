//! Reads and blocking queries, which wait until something changes.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use meshlock_cluster::access::Verb;
use meshlock_host::front::{Admitted, QueueReader};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::Consul;
use super::calls::{ReadFormat, ReadTarget, Waits};
use super::errors::ConsulError;
use super::indexes::IndexOrigin;
use super::names::{KeyPath, lock_of_prefix};
use super::view::{KvEntry, Observed};
use crate::sessions::{Holder, HolderWatch};

/// If too many other locks are watched, a blocking query is answered after this time, and its client asks again.
const UNWATCHED_RETRY: Duration = Duration::from_secs(1);

/// A query with the index of another site is answered after this time, because nobody here knows what its client has seen. A change
/// answers it earlier.
const FOREIGN_WAIT: Duration = Duration::from_millis(250);

/// The result of a read, and its index.
pub(super) struct IndexedAnswer {
    pub(super) index: u64,
    found: Found,
}

enum Found {
    Nothing,
    Json(Vec<u8>),
    Raw(Vec<u8>),
}

impl IndexedAnswer {
    pub(super) fn json(index: u64, body: &impl Serialize) -> Self {
        let found = serde_json::to_vec(body).expect("entries consist of text and numbers");
        IndexedAnswer { index, found: Found::Json(found) }
    }
}

impl IntoResponse for IndexedAnswer {
    fn into_response(self) -> Response {
        let mut response = match self.found {
            Found::Nothing => StatusCode::NOT_FOUND.into_response(),
            Found::Json(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
            Found::Raw(body) => {
                // Values come from clients: no browser may render them as a page.
                let headers = [
                    (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
                    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
                    (header::CONTENT_SECURITY_POLICY, "sandbox"),
                ];
                (headers, body).into_response()
            }
        };
        let headers = response.headers_mut();
        headers.insert("x-consul-index", HeaderValue::from(self.index));
        headers.insert("x-consul-knownleader", HeaderValue::from_static("true"));
        headers.insert("x-consul-lastcontact", HeaderValue::from_static("0"));
        response
    }
}

impl Consul {
    /// Reads a key or all keys with a prefix; waits for a change if `waits` is given.
    pub(super) async fn read(
        &self,
        caller: &Admitted,
        target: &ReadTarget,
        format: &ReadFormat,
        waits: Option<Waits>,
    ) -> Result<IndexedAnswer, ConsulError> {
        let lock = match target {
            ReadTarget::Key { path, .. } => Some(path.lock().clone()),
            ReadTarget::Tree { prefix } => lock_of_prefix(prefix),
        };
        let reader = lock.map(|lock| self.reader(caller, Verb::Watch, &lock)).transpose()?;
        let Some(waits) = waits else { return self.look(caller, target, format, reader.as_ref()).await };
        // The other sessions of this site are part of the answer.
        let with_others = match target {
            ReadTarget::Key { path, .. } => matches!(path, KeyPath::Contender(..)),
            ReadTarget::Tree { .. } => true,
        };
        let mut change = BlockingQuery::new((self, caller), reader, with_others, waits);
        loop {
            let Some(seen) = change.see().await else {
                return self.look(caller, target, format, change.reader.as_ref()).await;
            };
            let answer = self.answer(caller, target, format, seen.as_ref());
            if change.is_news(&answer) || !change.wait().await {
                return Ok(answer);
            }
        }
    }

    /// Reads the current state.
    async fn look(
        &self,
        caller: &Admitted,
        target: &ReadTarget,
        format: &ReadFormat,
        reader: Option<&QueueReader>,
    ) -> Result<IndexedAnswer, ConsulError> {
        let seen = match reader {
            Some(reader) => Some(self.observe(reader).await?),
            None => None,
        };
        Ok(self.answer(caller, target, format, seen.as_ref()))
    }

    fn answer(
        &self,
        caller: &Admitted,
        target: &ReadTarget,
        format: &ReadFormat,
        seen: Option<&Observed>,
    ) -> IndexedAnswer {
        match target {
            ReadTarget::Key { key, path } => {
                let nobody = Observed::free(1);
                let (entry, index) = self.entry(key, path, seen.unwrap_or(&nobody));
                match (entry, format) {
                    (None, _) => IndexedAnswer { index, found: Found::Nothing },
                    (Some(entry), ReadFormat::Raw) => IndexedAnswer { index, found: Found::Raw(entry.value) },
                    (Some(entry), ReadFormat::Entries | ReadFormat::Names { .. }) => {
                        IndexedAnswer::json(index, &[entry])
                    }
                }
            }
            ReadTarget::Tree { prefix } => {
                let entries = self.tree(caller, prefix, seen);
                let index = self
                    .indexes()
                    .of(&format!("tree of {}: {prefix}", caller.principal), &entries, None)
                    .modified;
                match format {
                    ReadFormat::Names { separator } => {
                        let names = names(&entries, prefix, separator);
                        // The root always exists.
                        let is_there = !names.is_empty() || prefix.is_empty();
                        if is_there {
                            IndexedAnswer::json(index, &names)
                        } else {
                            IndexedAnswer { index, found: Found::Nothing }
                        }
                    }
                    ReadFormat::Entries | ReadFormat::Raw if entries.is_empty() => {
                        IndexedAnswer { index, found: Found::Nothing }
                    }
                    ReadFormat::Entries | ReadFormat::Raw => IndexedAnswer::json(index, &entries),
                }
            }
        }
    }

    /// Reads state that only this site has.
    pub(super) async fn read_here(
        &self,
        caller: &Admitted,
        waits: Option<Waits>,
        look: impl Fn() -> IndexedAnswer,
    ) -> IndexedAnswer {
        let Some(waits) = waits else { return look() };
        let mut change = BlockingQuery::new((self, caller), None, true, waits);
        loop {
            change.see_here();
            let answer = look();
            if change.is_news(&answer) || !change.wait().await {
                return answer;
            }
        }
    }
}

/// Returns the names of the keys, each cut after the first separator that follows the prefix, without duplicates.
fn names(entries: &[KvEntry], prefix: &str, separator: &str) -> Vec<String> {
    let cut = |entry: &KvEntry| {
        let rest = &entry.key[prefix.len()..];
        let end =
            if separator.is_empty() { None } else { rest.find(separator).map(|at| at + separator.len()) };
        entry.key[..end.map_or(entry.key.len(), |end| prefix.len() + end)].to_owned()
    };
    let mut names: Vec<String> = entries.iter().map(cut).collect();
    names.dedup();
    names
}

/// A blocking query: a read that waits for a change.
struct BlockingQuery<'a> {
    consul: &'a Consul,
    caller: &'a Admitted,
    /// Reads who has the lock, if the query is about one.
    reader: Option<QueueReader>,
    /// Whether the other sessions of this site matter besides the lock.
    with_others: bool,
    /// The index that the client has seen.
    known: u64,
    /// Where that was given.
    origin: IndexOrigin,
    deadline: Instant,
    here: watch::Receiver<u64>,
    touched: watch::Receiver<u64>,
    watching: Option<HolderWatch>,
    /// At the last look the lock was held by a client of this site.
    was_here: bool,
    by: ChangeSource,
}

/// Where the next change is noticed.
enum ChangeSource {
    /// At this site's own locks.
    Here,
    /// In polls of the whole cluster, shared by all who wait for the same lock.
    Watching,
}

impl<'a> BlockingQuery<'a> {
    fn new(
        (consul, caller): (&'a Consul, &'a Admitted),
        reader: Option<QueueReader>,
        with_others: bool,
        waits: Waits,
    ) -> Self {
        let origin = consul.indexes().origin(waits.index);
        let wait = if origin == IndexOrigin::Elsewhere { waits.wait.min(FOREIGN_WAIT) } else { waits.wait };
        BlockingQuery {
            consul,
            caller,
            reader,
            with_others,
            known: waits.index,
            origin,
            deadline: Instant::now() + wait,
            here: consul.sessions.changes(),
            touched: consul.touched.subscribe(),
            watching: None,
            was_here: false,
            by: ChangeSource::Here,
        }
    }

    /// Marks the current state as seen.
    fn see_here(&mut self) {
        self.here.mark_unchanged();
        self.touched.mark_unchanged();
        self.by = ChangeSource::Here;
    }

    /// Returns the current state of the lock; `None` if it cannot be determined from what this site watches, so that
    /// the cluster has to be asked.
    async fn see(&mut self) -> Option<Option<Observed>> {
        let was_here = std::mem::take(&mut self.was_here);
        self.see_here();
        let Some(reader) = &self.reader else { return Some(None) };
        if let Some(here) = self.consul.observe_here(reader) {
            self.was_here = true;
            return Some(Some(here));
        }
        if was_here {
            // The lock was lost or released. The former holder is told at once, whether other sites can be asked or
            // not.
            return Some(Some(Observed::free(1)));
        }
        self.by = ChangeSource::Watching;
        if self.watching.is_none() {
            self.watching = self.consul.sessions.watch(self.caller, Verb::Watch, reader.lock()).ok();
        }
        let Some(watching) = &mut self.watching else {
            sleep_until(self.deadline.min(Instant::now() + UNWATCHED_RETRY)).await;
            return None;
        };
        let holders: Arc<[Holder]> = timeout_at(self.deadline, watching.first()).await.ok()?;
        Some(Some(self.consul.as_observed(reader, &holders)))
    }

    fn is_news(&mut self, answer: &IndexedAnswer) -> bool {
        match self.origin {
            IndexOrigin::Here => answer.index > self.known,
            IndexOrigin::Unknown => true,
            IndexOrigin::Elsewhere => {
                // From now on a change is one of what is seen first.
                (self.known, self.origin) = (answer.index, IndexOrigin::Here);
                false
            }
        }
    }

    /// Waits for the next change. Returns whether there was one before the deadline.
    async fn wait(&mut self) -> bool {
        let listens_here = self.with_others || matches!(self.by, ChangeSource::Here);
        let BlockingQuery { consul, here, touched, watching, by, deadline, with_others, .. } = self;
        let with_others = *with_others;
        let elsewhere = async {
            match (by, watching) {
                (ChangeSource::Watching, Some(watching)) => watching.next().await.is_some(),
                _ => std::future::pending().await,
            }
        };
        let is_closing = consul.sessions.is_closing();
        tokio::select! {
            () = sleep_until(*deadline) => false,
            // Whoever holds a lock through this site is told that it is gone.
            () = consul.sessions.until_closing() => !is_closing,
            changed = here.changed(), if listens_here => changed.is_ok(),
            changed = touched.changed(), if with_others => changed.is_ok(),
            is_there = elsewhere => is_there,
        }
    }
}
