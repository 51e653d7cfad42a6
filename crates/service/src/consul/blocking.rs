//! Reads, and reads that wait until something is different.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use meshlock_cluster::access::Verb;
use meshlock_cluster::names::LockName;
use meshlock_host::front::Admitted;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::Consul;
use super::calls::{About, Shown, Waits};
use super::errors::Fault;
use super::names::{Place, lock_of_prefix};
use super::view::{Entry, Observed};
use crate::sessions::{Holder, Watching};

/// Where too many other locks are watched, a read that waits is answered after so long, and its client asks again.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What a read found, and the number of that.
pub(super) struct Answer {
    pub(super) index: u64,
    found: Found,
}

enum Found {
    Nothing,
    Json(Vec<u8>),
    Raw(Vec<u8>),
}

impl Answer {
    pub(super) fn json(index: u64, body: &impl Serialize) -> Self {
        let found = serde_json::to_vec(body).expect("what is shown is text and numbers");
        Answer { index, found: Found::Json(found) }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = match self.found {
            Found::Nothing => StatusCode::NOT_FOUND.into_response(),
            Found::Json(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
            Found::Raw(body) => {
                // What clients have put there is shown to nobody as a page.
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
    /// Reads a key or a tree of them.
    pub(super) async fn read(
        &self,
        caller: &Admitted,
        about: &About,
        shown: &Shown,
        waits: Option<Waits>,
    ) -> Result<Answer, Fault> {
        let lock = match about {
            About::Key { place, .. } => Some(place.lock().clone()),
            About::Tree { prefix } => lock_of_prefix(prefix),
        };
        if let Some(lock) = &lock {
            self.check(caller, Verb::Watch, lock)?;
        }
        let Some(waits) = waits else { return self.look(caller, about, shown, lock.as_ref()).await };
        // What else this site's sessions have, and want, matters to these.
        let with_others = match about {
            About::Key { place, .. } => matches!(place, Place::Contender(..)),
            About::Tree { .. } => true,
        };
        let mut change = Change::new((self, caller), lock, with_others, waits);
        loop {
            let Some(seen) = change.see().await else {
                return self.look(caller, about, shown, change.lock.as_ref()).await;
            };
            let answer = self.answer(caller, about, shown, seen.as_ref());
            if change.is_news(&answer) || !change.wait().await {
                return Ok(answer);
            }
        }
    }

    /// Reads what there is now.
    async fn look(
        &self,
        caller: &Admitted,
        about: &About,
        shown: &Shown,
        lock: Option<&LockName>,
    ) -> Result<Answer, Fault> {
        let seen = match lock {
            Some(lock) => Some(self.observe(lock).await?),
            None => None,
        };
        Ok(self.answer(caller, about, shown, seen.as_ref()))
    }

    fn answer(&self, caller: &Admitted, about: &About, shown: &Shown, seen: Option<&Observed>) -> Answer {
        match about {
            About::Key { key, place } => {
                let nobody = Observed::free(1);
                let (entry, index) = self.entry(key, place, seen.unwrap_or(&nobody));
                match (entry, shown) {
                    (None, _) => Answer { index, found: Found::Nothing },
                    (Some(entry), Shown::Raw) => Answer { index, found: Found::Raw(entry.value) },
                    (Some(entry), Shown::Entries | Shown::Names { .. }) => Answer::json(index, &[entry]),
                }
            }
            About::Tree { prefix } => {
                let entries = self.tree(caller, prefix, seen);
                let index = self
                    .indexes()
                    .of(&format!("tree of {}: {prefix}", caller.principal), &entries, None)
                    .modified;
                match shown {
                    Shown::Names { separator } => {
                        let names = names(&entries, prefix, separator);
                        // There is always a root.
                        let is_there = !names.is_empty() || prefix.is_empty();
                        if is_there {
                            Answer::json(index, &names)
                        } else {
                            Answer { index, found: Found::Nothing }
                        }
                    }
                    Shown::Entries | Shown::Raw if entries.is_empty() => {
                        Answer { index, found: Found::Nothing }
                    }
                    Shown::Entries | Shown::Raw => Answer::json(index, &entries),
                }
            }
        }
    }

    /// Reads what only this site knows, and changes only here.
    pub(super) async fn read_here(
        &self,
        caller: &Admitted,
        waits: Option<Waits>,
        look: impl Fn() -> Answer,
    ) -> Answer {
        let Some(waits) = waits else { return look() };
        let mut change = Change::new((self, caller), None, true, waits);
        loop {
            change.see_here();
            let answer = look();
            if change.is_news(&answer) || !change.wait().await {
                return answer;
            }
        }
    }
}

/// Names of keys, each cut off behind the first separator that follows the prefix.
fn names(entries: &[Entry], prefix: &str, separator: &str) -> Vec<String> {
    let cut = |entry: &Entry| {
        let rest = &entry.key[prefix.len()..];
        let end =
            if separator.is_empty() { None } else { rest.find(separator).map(|at| at + separator.len()) };
        entry.key[..end.map_or(entry.key.len(), |end| prefix.len() + end)].to_owned()
    };
    let mut names: Vec<String> = entries.iter().map(cut).collect();
    names.dedup();
    names
}

/// Waits for a change.
struct Change<'a> {
    consul: &'a Consul,
    caller: &'a Admitted,
    lock: Option<LockName>,
    /// Whether what this site's sessions have matters too, besides the lock.
    with_others: bool,
    /// The client knows what was there at this number.
    known: u64,
    /// It was given by this incarnation of the site.
    is_ours: bool,
    deadline: Instant,
    here: watch::Receiver<u64>,
    touched: watch::Receiver<u64>,
    watching: Option<Watching>,
    /// One of this site's clients had all of the lock.
    was_here: bool,
    by: By,
}

/// What tells of the next change.
enum By {
    /// This site's own locks.
    Here,
    /// Looks at the whole cluster, shared by all who wait for the same lock.
    Watching,
}

impl<'a> Change<'a> {
    fn new(
        (consul, caller): (&'a Consul, &'a Admitted),
        lock: Option<LockName>,
        with_others: bool,
        waits: Waits,
    ) -> Self {
        Change {
            consul,
            caller,
            lock,
            with_others,
            known: waits.index,
            is_ours: waits.index <= consul.indexes().last(),
            deadline: Instant::now() + waits.wait,
            here: consul.sessions.changes(),
            touched: consul.touched.subscribe(),
            watching: None,
            was_here: false,
            by: By::Here,
        }
    }

    /// What is to be told apart from what comes next begins now.
    fn see_here(&mut self) {
        self.here.mark_unchanged();
        self.touched.mark_unchanged();
        self.by = By::Here;
    }

    /// The lock now; none if it is not to be had within the time, and has to be asked for.
    async fn see(&mut self) -> Option<Option<Observed>> {
        let was_here = std::mem::take(&mut self.was_here);
        self.see_here();
        let Some(lock) = &self.lock else { return Some(None) };
        if let Some(here) = self.consul.observe_here(lock) {
            self.was_here = true;
            return Some(Some(here));
        }
        if was_here {
            // It is lost or given back. Who had it is told so at once, whether other sites can be asked or not.
            return Some(Some(Observed::free(1)));
        }
        self.by = By::Watching;
        if self.watching.is_none() {
            self.watching = self.consul.sessions.watch_as_seen(self.caller, lock).ok();
        }
        let Some(watching) = &mut self.watching else {
            sleep_until(self.deadline.min(Instant::now() + LOOK_AGAIN_AFTER)).await;
            return None;
        };
        let holders: Arc<[Holder]> = timeout_at(self.deadline, watching.first()).await.ok()?;
        Some(Some(self.consul.as_observed(lock, &holders)))
    }

    fn is_news(&self, answer: &Answer) -> bool {
        !self.is_ours || answer.index > self.known
    }

    /// Waits for the next change; gives back whether there was one in time.
    async fn wait(&mut self) -> bool {
        let hears_here = self.with_others || matches!(self.by, By::Here);
        let Change { here, touched, watching, by, deadline, with_others, .. } = self;
        let with_others = *with_others;
        let elsewhere = async {
            match (by, watching) {
                (By::Watching, Some(watching)) => watching.next().await.is_some(),
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            () = sleep_until(*deadline) => false,
            changed = here.changed(), if hears_here => changed.is_ok(),
            changed = touched.changed(), if with_others => changed.is_ok(),
            is_there = elsewhere => is_there,
        }
    }
}
