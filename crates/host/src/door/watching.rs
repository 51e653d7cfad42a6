//! A client that watches the node: it is told what happens as long as it keeps up. What it does not take in time is counted
//! instead of kept, so that it costs the site neither memory nor time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use meshlock_cluster::node::{ClientAnswer, TraceLine};
use meshlock_cluster::rules::Pattern;
use meshlock_cluster::table::{LockEvent, Request, Session, TraceWatch};
use meshlock_system::{now, wall};
use meshlock_wire::clients::{RefusalKind, Tag, ToClient};

use super::asked::Open;
use super::client::Client;
use super::convert;
use crate::engine::Listener;
use crate::front::{Admitted, Front};

/// How much may wait for a client that watches, in bytes, before it loses lines.
const MAX_WAITING: usize = 1 << 20;

/// How many lines are told at once: with their states they fit a frame.
const MAX_AT_ONCE: usize = 64;

/// By how much the calendar clock has to move against the node's own, in microseconds, to be read again: so lines do not go back
/// and forth by what two looks at two clocks differ.
const NOTICED: u64 = 1000;

/// A client's watch.
pub(super) struct Watching {
    client: Arc<Client>,
    tag: Tag,
    request: OnceLock<Request>,
    /// Number of lines that it has lost and was not told of.
    untold: AtomicU64,
    /// What the calendar clock showed when the node's clock showed nothing.
    origin: AtomicU64,
}

impl Client {
    /// Tells the client all that happens to these locks.
    pub(super) fn watch(
        self: &Arc<Self>,
        caller: &Admitted,
        session: Session,
        tag: Tag,
        pattern: &str,
        states: bool,
    ) {
        let pattern = if pattern == "*" { Ok(None) } else { Pattern::parse(pattern).map(Some) };
        let pattern = match pattern {
            Ok(pattern) => pattern,
            Err(error) => return self.refuse(tag, RefusalKind::BadRequest, error),
        };
        if !self.reserve(tag) {
            return;
        }
        let (request, untold, origin) = (OnceLock::new(), AtomicU64::new(0), AtomicU64::new(0));
        let watching = Arc::new(Watching { client: self.clone(), tag, request, untold, origin });
        self.watches.store(true, Ordering::Relaxed);
        self.keep(tag, Open::Watch(watching.clone()));
        let watched = self.front.watch(caller, watching.clone(), |request| {
            let _ = watching.request.set(request);
            TraceWatch { session, request, pattern, states }
        });
        if let Err(denied) = watched {
            self.forget(tag);
            self.refuse(tag, RefusalKind::Denied, denied);
        }
    }

    /// Tells watches that have lost lines, and take some again, how many: though nothing may happen for long.
    pub(super) fn tell_lost_lines(&self) {
        let owed = |open: &Open| match open {
            Open::Watch(watching) if watching.untold.load(Ordering::Relaxed) > 0 => Some(watching.clone()),
            Open::Watch(_) | Open::Starting | Open::Lock(_) | Open::Question(_) => None,
        };
        if !self.watches.load(Ordering::Relaxed) {
            return;
        }
        let owed: Vec<Arc<Watching>> = self.open().values().filter_map(owed).collect();
        for watching in owed {
            watching.tell(&[], 0);
        }
    }
}

impl Watching {
    /// Ends the watch. Returns whether that is told by itself.
    pub(super) fn end(&self, front: &Front) -> bool {
        if let Some(request) = self.request.get() {
            front.end_watch(*request);
        }
        self.request.get().is_some()
    }

    /// Nobody is told anything more: the session ends, and with it the watch.
    pub(super) fn forget(&self, front: &Front) {
        if let Some(request) = self.request.get() {
            front.forget_watch(*request);
        }
    }

    /// Passes on what happened, and how much was lost before it; or adds it to that.
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
        self.client.say(&ToClient::Traced { tag: self.tag, origin, lines: lines.to_vec(), lost: more });
    }
}

impl Listener for Watching {
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
