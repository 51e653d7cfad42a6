//! A client's watch of the node: the client gets every trace line as long as it keeps up. Lines that it does not read in time are
//! counted instead of kept, so that a slow client costs the site neither memory nor time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use meshlock_cluster::node::{ClientAnswer, TraceLine};
use meshlock_cluster::rules::{Pattern, RulesError};
use meshlock_cluster::table::{LockEvent, Request, TraceWatch};
use meshlock_system::{now, wall};
use meshlock_wire::clients::{RefusalKind, Tag, ToClient};

use super::asked::OpenRequest;
use super::connected_client::{ConnectedClient, Greeted};
use super::convert;
use crate::engine::Listener;
use crate::front::{Changes, Front, NotWatched, show_line};
use crate::gate::WatchUse;

/// Maximum number of bytes that wait for a watching client before it loses lines.
const MAX_WAITING: usize = 1 << 20;

/// Maximum number of lines in a message: with their states they fit into a frame.
const MAX_AT_ONCE: usize = 64;

/// Change of the offset between the calendar clock and the node's clock, in microseconds, above which the new offset is used. Smaller
/// differences come from reading the two clocks one after the other, and would make the lines' times jump back and forth.
const NOTICED: u64 = 1000;

/// A client's watch.
pub(super) struct ClientWatch {
    client: Arc<ConnectedClient>,
    tag: Tag,
    request: OnceLock<Request>,
    /// Number of lost lines that the client was not told of yet.
    untold: AtomicU64,
    /// The calendar time at which the node's clock showed zero.
    origin: AtomicU64,
    /// Counts the watch towards the client's limit, until it ends.
    counted: OnceLock<Option<WatchUse>>,
}

/// Parses the locks that are meant: `*` means all.
pub(super) fn parsed(pattern: &str) -> Result<Option<Pattern>, RulesError> {
    if pattern == "*" { Ok(None) } else { Pattern::parse(pattern).map(Some) }
}

impl ConnectedClient {
    /// Starts a watch of the locks that match `pattern`.
    pub(super) fn watch(self: &Arc<Self>, by: &Greeted, tag: Tag, pattern: &str, states: bool) {
        let pattern = match parsed(pattern) {
            Ok(pattern) => pattern,
            Err(error) => return self.refuse(tag, RefusalKind::BadRequest, error),
        };
        if !self.reserve(tag) {
            return;
        }
        let (request, untold, origin) = (OnceLock::new(), AtomicU64::new(0), AtomicU64::new(0));
        let counted = OnceLock::new();
        let watching = Arc::new(ClientWatch { client: self.clone(), tag, request, untold, origin, counted });
        self.watches.store(true, Ordering::Relaxed);
        self.keep(tag, OpenRequest::Watch(watching.clone()));
        let watched = self.front.watch(&by.caller, watching.clone(), |request| {
            let _ = watching.request.set(request);
            TraceWatch { session: by.session, request, pattern, states }
        });
        match watched {
            Ok(counted) => drop(watching.counted.set(counted)),
            Err(error) => {
                self.forget(tag);
                self.refuse_watch(tag, &error);
            }
        }
    }

    /// Tells the client what happens to the locks that match `pattern`, until it cancels that.
    pub(super) fn tell_changes(self: &Arc<Self>, by: &Greeted, tag: Tag, pattern: &str) {
        let pattern = match parsed(pattern) {
            Ok(pattern) => pattern,
            Err(error) => return self.refuse(tag, RefusalKind::BadRequest, error),
        };
        if !self.reserve(tag) {
            return;
        }
        let mut watching = match self.front.changes(&by.caller, pattern) {
            Ok(watching) => watching,
            Err(error) => {
                self.forget(tag);
                return self.refuse_watch(tag, &error);
            }
        };
        let client = self.clone();
        let task = self.front.node().tasks().spawn(async move {
            let mut untold = 0;
            while let Some(Changes { changes, missed }) = watching.next().await {
                untold += missed;
                // What a client does not read in time is counted instead of kept.
                if client.channel.waiting() > MAX_WAITING {
                    untold += changes.len() as u64;
                    continue;
                }
                client.say(&ToClient::Changes { tag, changes, missed: std::mem::take(&mut untold) });
                client.channel.flush_soon();
            }
            if client.forget(tag) {
                client.say(&ToClient::Cancelled(tag));
                client.channel.flush_soon();
            }
        });
        self.keep(tag, OpenRequest::Question(task.abort_handle()));
    }

    fn refuse_watch(&self, tag: Tag, error: &NotWatched) {
        let kind = match error {
            NotWatched::Denied(_) => RefusalKind::Denied,
            NotWatched::Limit(_) => RefusalKind::TooManyOpen,
        };
        self.refuse(tag, kind, error);
    }

    /// Tells watches that have lost lines, and have room again, how many: there may be no new line for a long time.
    pub(super) fn tell_lost_lines(&self) {
        let owed = |open: &OpenRequest| match open {
            OpenRequest::Watch(watching) if watching.untold.load(Ordering::Relaxed) > 0 => {
                Some(watching.clone())
            }
            OpenRequest::Watch(_)
            | OpenRequest::Starting
            | OpenRequest::Lock(_)
            | OpenRequest::Question(_) => None,
        };
        if !self.watches.load(Ordering::Relaxed) {
            return;
        }
        let owed: Vec<Arc<ClientWatch>> = self.open().values().filter_map(owed).collect();
        for watching in owed {
            watching.tell(&[], 0);
        }
    }
}

impl ClientWatch {
    /// Ends the watch. Returns whether the client is told by a later answer.
    pub(super) fn end(&self, front: &Front) -> bool {
        if let Some(request) = self.request.get() {
            front.end_watch(*request);
        }
        self.request.get().is_some()
    }

    /// Removes the watch's listener, because the session is ending and the watch with it.
    pub(super) fn forget(&self, front: &Front) {
        if let Some(request) = self.request.get() {
            front.forget_watch(*request);
        }
    }

    /// Sends lines and the number of lines lost before them; or, if the client is too slow, counts them as lost.
    fn tell(&self, lines: &[TraceLine], lost: u64) {
        self.tell_some(&lines[..lines.len().min(MAX_AT_ONCE)], lost);
        lines.chunks(MAX_AT_ONCE).skip(1).for_each(|lines| self.tell_some(lines, 0));
        self.client.channel.flush_soon();
    }

    fn tell_some(&self, lines: &[TraceLine], lost: u64) {
        let more = lost + self.untold.load(Ordering::Relaxed);
        if self.client.channel.waiting() > MAX_WAITING {
            return self.untold.store(more + lines.len() as u64, Ordering::Relaxed);
        }
        self.untold.store(0, Ordering::Relaxed);
        let looked = wall().saturating_sub(now().micros());
        let mut origin = self.origin.load(Ordering::Relaxed);
        if looked.abs_diff(origin) > NOTICED {
            origin = looked;
            self.origin.store(origin, Ordering::Relaxed);
        }
        let lines = lines.iter().cloned().map(show_line).collect();
        self.client.say(&ToClient::Traced { tag: self.tag, origin, lines, lost: more });
    }
}

impl Listener for ClientWatch {
    fn on_answer(&self, answer: &ClientAnswer) {
        if let ClientAnswer::Traced { lines, lost, .. } = answer {
            return self.tell(lines, *lost);
        }
        let ClientAnswer::Lock(event) = answer else { return };
        self.client.forget(self.tag);
        if let LockEvent::Refused { why, .. } = event {
            self.client.refuse(self.tag, convert::kind_of_refusal(*why), why);
        } else {
            self.client.say(&ToClient::Cancelled(self.tag));
        }
        self.client.channel.flush_soon();
    }
}
