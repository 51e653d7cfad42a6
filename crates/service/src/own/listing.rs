//! Our own API about all locks: pages of those in use, and what happens to them.

use futures_util::stream;
use meshlock_cluster::names::LockName;
use meshlock_cluster::node::{LockSummary, MAX_PAGE, SiteChange};
use meshlock_cluster::report::{PartyHold, PartyWait, StuckParty};
use meshlock_cluster::rules::Pattern;
use meshlock_host::front::{Admitted, Changes, NotWatched};
use tonic::{Code, Status};

use super::cluster::{holder, millis, names, who};
use super::errors::{api_error, bad, denied, unanswered};
use super::{Answers, Own};
use crate::proto::meshlock::{
    Deadlock, Deadlocks, ListLocksRequest, LockChange, LockChanges, LockInUse, LockPage, StuckHold,
    StuckSession, StuckWait,
};

/// Number of locks of a page whose caller does not say how many.
const LIMIT: u32 = 100;

/// How a lock is held: by one client at a time, or by as many as it has permits.
const MODE: &str = "exclusive";

/// Parses the locks that are meant.
fn pattern_of(text: &str) -> Result<Option<Pattern>, Status> {
    if text.is_empty() || text == "*" { Ok(None) } else { Pattern::parse(text).map(Some).map_err(bad) }
}

fn in_use(lock: LockSummary) -> LockInUse {
    let mode = if lock.holders_in_all > 0 { MODE } else { "" };
    LockInUse {
        lock: lock.lock.as_str().to_owned(),
        algorithm: lock.algorithm.unwrap_or_default(),
        permits: lock.permits,
        mode: mode.to_owned(),
        holders: lock.holders.iter().map(|held| holder(&held.site, &held.holder)).collect(),
        holders_in_all: lock.holders_in_all,
        waiters: lock.waiters,
        waited_ms: millis(lock.waited),
    }
}

fn told(SiteChange { site, change }: SiteChange) -> LockChange {
    LockChange {
        lock: change.lock.as_str().to_owned(),
        change: change.kind.name().to_owned(),
        site: site.to_string(),
        who: who(change.who.as_ref()),
        fence: change.fence.value(),
        slot: change.slot,
        ago_ms: millis(change.ago),
        mode: MODE.to_owned(),
    }
}

fn stuck(party: StuckParty) -> StuckSession {
    let hold = |hold: PartyHold| StuckHold {
        lock: hold.lock.as_str().to_owned(),
        fence: hold.fence.value(),
        slot: hold.slot,
        held_ms: millis(hold.held),
    };
    let wait =
        |wait: PartyWait| StuckWait { lock: wait.lock.as_str().to_owned(), waited_ms: millis(wait.waited) };
    StuckSession {
        site: party.site.to_string(),
        who: who(party.who.as_ref()),
        holds: party.holds.into_iter().map(hold).collect(),
        waits: party.waits.into_iter().map(wait).collect(),
    }
}

impl Own {
    pub(super) async fn page_of(
        &self,
        caller: &Admitted,
        asked: ListLocksRequest,
    ) -> Result<LockPage, Status> {
        let ListLocksRequest { pattern, after, limit } = asked;
        let limit = if limit == 0 { LIMIT } else { limit };
        if limit > MAX_PAGE {
            return Err(bad(format!("a page has at most {MAX_PAGE} locks; 'limit' is {limit}")));
        }
        let after: Option<LockName> = if after.is_empty() { None } else { Some(after.parse().map_err(bad)?) };
        let page = self.sessions.front().lock_page(caller, pattern_of(&pattern)?, after, limit).await;
        let page = page.map_err(unanswered)?;
        Ok(LockPage {
            locks: page.locks.into_iter().map(in_use).collect(),
            next: page.next.map(|next| next.as_str().to_owned()).unwrap_or_default(),
            missing: names(&page.missing),
        })
    }

    pub(super) async fn deadlocks_of(&self, caller: &Admitted) -> Result<Deadlocks, Status> {
        let found = self.sessions.front().deadlocks(caller).await.map_err(unanswered)?;
        let complete = found.missing.is_empty() && !found.is_cut;
        let deadlocks = found
            .found
            .into_iter()
            .map(|deadlock| Deadlock { sessions: deadlock.parties.into_iter().map(stuck).collect() });
        Ok(Deadlocks { deadlocks: deadlocks.collect(), missing: names(&found.missing), complete })
    }

    pub(super) fn changes_of(
        &self,
        caller: &Admitted,
        pattern: &str,
    ) -> Result<Answers<LockChanges>, Status> {
        let watching = self.sessions.front().changes(caller, pattern_of(pattern)?);
        let watching = watching.map_err(|error| match error {
            NotWatched::Denied(error) => denied(error),
            NotWatched::Limit(_) => api_error("too_many", Code::ResourceExhausted, error),
        })?;
        let changes = stream::unfold(watching, |mut watching| async move {
            let Changes { changes, missed } = watching.next().await?;
            Some((Ok(LockChanges { changes: changes.into_iter().map(told).collect(), missed }), watching))
        });
        Ok(Box::pin(changes))
    }
}
