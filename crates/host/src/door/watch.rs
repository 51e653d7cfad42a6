//! A client that watches the node: what happens is told as long as the client keeps up. What it does not take in time is counted
//! instead of kept, so that it costs the site neither memory nor time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::serve::{Asked, Client};
use meshlock_cluster::node::{Call, TraceLine};
use meshlock_cluster::rules::Pattern;
use meshlock_cluster::table::{Session, Watch};
use meshlock_system::{now, wall};
use meshlock_wire::clients::{Tag, ToClient};

/// How much may wait for a client that watches, in bytes, before it loses lines.
const MOST_WAITING: usize = 1 << 20;

/// How many lines are told at once: with their states they fit a frame.
const MOST_AT_ONCE: usize = 64;

/// By how much the calendar clock has to move against the node's own, in microseconds, to be looked at again: so lines do not go back
/// and forth by what two looks at two clocks differ.
const NOTICED: u64 = 1000;

impl Client {
    /// The client wants to know all that happens to these locks.
    pub(super) fn watch(self: &Arc<Self>, session: Session, tag: Tag, pattern: &str, states: bool) {
        let pattern = if pattern == "*" { Ok(None) } else { Pattern::parse(pattern).map(Some) };
        match pattern {
            Ok(pattern) => {
                let _ = self.watches.set(());
                self.ask(tag, None, |request| Call::Watch(Watch { session, request, pattern, states }));
            }
            Err(error) => self.refuse(tag, error.to_string()),
        }
    }

    /// Tells those who have lost lines, and take some again, how many: though nothing may happen for long.
    pub(super) fn tell_lost(&self) {
        if self.watches.get().is_none() {
            return;
        }
        let owed: Vec<Arc<Asked>> =
            self.open().values().filter(|asked| asked.untold.load(Ordering::Relaxed) > 0).cloned().collect();
        for asked in owed {
            asked.tell_traced(&[], 0);
        }
    }
}

impl Asked {
    /// Passes on what happened, and what was lost before it; or adds it to that.
    pub(super) fn tell_traced(&self, lines: &[TraceLine], lost: u64) {
        self.tell_some(&lines[..lines.len().min(MOST_AT_ONCE)], lost);
        lines.chunks(MOST_AT_ONCE).skip(1).for_each(|lines| self.tell_some(lines, 0));
        self.client.channel.flush_soon();
    }

    fn tell_some(&self, lines: &[TraceLine], lost: u64) {
        let more = lost + self.untold.load(Ordering::Relaxed);
        if self.client.channel.waiting() > MOST_WAITING {
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
