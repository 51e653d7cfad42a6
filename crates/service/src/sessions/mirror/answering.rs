//! The side of the site whose sessions are mirrored: answers the mirror's questions.

use std::time::Duration;

use meshlock_cluster::names::{LockName, Member};
use meshlock_cluster::time::{Span, Time};
use meshlock_host::gate::CallerOrigin;
use meshlock_mirror::HeldQuestion;
use meshlock_system::now;
use meshlock_wire::sites::calls::{CallReply, ForwardedCaller};
use meshlock_wire::sites::mirror::{MirrorNews, MirroredKey, MirroredSession};
use tokio::time::timeout;

use super::mirror_of;
use crate::sessions::registry::{HeldSession, LeaseId};
use crate::sessions::{Inner, KeyAcquisition, SessionKey, Sessions};
use std::sync::Arc;

impl Sessions {
    /// Answers a question of this site's mirror, which has the news of version `have`: at once if something has changed, or after a while.
    /// A mirror that another one has replaced is told that all is over.
    pub(crate) async fn answer_mirror(&self, from: &Member, have: u64) -> CallReply {
        let others = self.front().other_members();
        let next = mirror_of(self.site(), others.iter().map(|member| &member.site));
        let window = self.0.mirror_window();
        let terms = self.front().lease_terms();
        let mut held = {
            let mut registry = self.registry();
            registry.source.on_view(&others);
            if !registry.source.is_mirror(from, next) {
                let news = registry.source.on_former_question(from, have, now());
                drop(registry);
                // The present mirror may have to be told of what the former one has dropped, and a release may be known.
                self.0.confirmed.send_modify(|count| *count += 1);
                self.0.note_change();
                return news.map_or(CallReply::NotHere, CallReply::Mirror);
            }
            let all = registry.all_leases();
            if registry.source.on_question(from, have, all.into_iter(), (now(), window)).is_err() {
                return CallReply::NotHere;
            }
            HeldQuestion::new(&registry.source, now(), terms)
        };
        self.0.confirmed.send_modify(|count| *count += 1);
        let mut changes = self.changes();
        loop {
            changes.mark_unchanged();
            let until = held.waits_until(&self.registry().source, now());
            let Some(until) = until else { break };
            let left = Duration::from_micros(until.since(now()).micros());
            let _ = timeout(left, changes.changed()).await;
        }
        self.news(from).map_or(CallReply::NotHere, CallReply::Mirror)
    }

    /// Returns what the mirror does not know.
    fn news(&self, mirror: &Member) -> Option<MirrorNews> {
        let (until, held) = {
            let (mut registry, now) = (self.registry(), now());
            let dirty = registry.source.take_dirty();
            let held = dirty.into_iter().map(|lease| (lease, registry.held_session(lease, now)));
            let held: Vec<_> = held.collect();
            (registry.source.changes(), held)
        };
        let looked = held
            .into_iter()
            .map(|(lease, held)| (lease, held.and_then(|held| self.0.mirrored(lease, held))))
            .collect();
        self.registry().source.answer(mirror, looked, until, now())
    }
}

impl Inner {
    /// Returns for how long after an answer a mirror may count on it, on this site's clock.
    pub(in crate::sessions) fn mirror_window(&self) -> Span {
        let terms = self.front().lease_terms();
        terms.drift.stretch(terms.resume_window())
    }

    /// Returns a session as the mirror has to know it, unless something of it cannot be proved: then it was just lost.
    fn mirrored(&self, lease: LeaseId, held: HeldSession<Arc<KeyAcquisition>>) -> Option<MirroredSession> {
        let HeldSession { owner, who, lasts, delay, keys } = held;
        let CallerOrigin::Network(address) = owner.origin else { return None };
        let owner = ForwardedCaller::new(&owner.principal, address, owner.request.number())?;
        let locks: Vec<LockName> = keys.iter().map(|key| key.lock.clone()).collect();
        let keys = keys.iter().map(mirrored_key).collect::<Option<Vec<_>>>()?;
        let consul = self.companion.get().and_then(|companion| companion.describe(lease, &locks));
        Some(MirroredSession {
            lease: lease.number(),
            owner,
            label: who.map(|who| who.as_str().to_owned()),
            lasts: lasts.micros(),
            delay: delay.micros(),
            keys,
            consul,
        })
    }

    /// Returns whether nobody counts any more on what was before a change.
    pub(in crate::sessions) fn is_cleared(&self, change: super::ChangeNumber, now: Time) -> bool {
        let window = self.mirror_window();
        self.registry().source.is_cleared(change, (now, window))
    }
}

/// Returns a key with the proof that its session holds the lock.
fn mirrored_key(key: &SessionKey) -> Option<MirroredKey> {
    let observer = key.driver.observer();
    if observer.proof().is_none() {
        key.driver.prove();
    }
    Some(MirroredKey {
        name: key.name.clone(),
        value: key.value.clone(),
        label: observer.label().as_str().to_owned(),
        created: key.revisions.created,
        modified: key.revisions.modified,
        version: key.revisions.version,
        proof: observer.proof()?,
    })
}
