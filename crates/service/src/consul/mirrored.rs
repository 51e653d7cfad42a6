//! What another site has to know of a Consul session to go on with it.

use std::sync::Weak;

use meshlock_cluster::names::LockName;
use meshlock_cluster::time::Span;
use meshlock_wire::sites::mirror::{MirroredConsul, MirroredContent};

use super::names::Form;
use super::records::{KeyContent, SessionOptions};
use super::{Consul, Inner, ids};
use crate::sessions::mirror::Companion;
use crate::sessions::registry::LeaseId;

/// Knows the options and keys of sessions, as long as the API is served.
pub(super) struct ConsulCompanion(pub(super) Weak<Inner>);

impl Companion for ConsulCompanion {
    fn describe(&self, lease: LeaseId, held: &[LockName]) -> Option<MirroredConsul> {
        let consul = Consul(self.0.upgrade()?);
        let records = consul.records();
        let SessionOptions { name, behavior, lock_delay, ttl, .. } = records.options(lease)?.clone();
        let content = |lock: &LockName, form: Option<Form>, content: &KeyContent| MirroredContent {
            lock: lock.clone(),
            is_held: form.is_some(),
            is_permit: form == Some(Form::Permit),
            key: content.key.clone(),
            flags: content.flags,
            value: content.value.clone(),
        };
        let of_lock = |lock: &LockName| {
            let held = records.held(lease, lock).map(|(form, mark)| content(lock, Some(*form), mark));
            let wanted = records.contender(lease, lock).map(|mark| content(lock, None, mark));
            [held, wanted]
        };
        let contents = held.iter().flat_map(of_lock).flatten().collect();
        let (deletes, lock_delay) = (behavior == "delete", lock_delay.micros());
        Some(MirroredConsul { name, deletes, lock_delay, ttl, contents })
    }

    fn adopt(&self, lease: LeaseId, lasts: Span, told: &MirroredConsul) {
        let Some(consul) = self.0.upgrade().map(Consul) else { return };
        let created = consul.indexes().of(&format!("session {}", ids::session(lease)), &(), None).created;
        if consul.records().needs_cleanup() {
            consul.forget_sessions();
        }
        let MirroredConsul { name, deletes, lock_delay, ttl, contents } = told.clone();
        let (behavior, lock_delay) =
            (if deletes { "delete" } else { "release" }, Span::from_micros(lock_delay));
        let max = consul.sessions.limits().keys;
        let mut records = consul.records();
        records.add(lease, SessionOptions { name, behavior, lock_delay, ttl, lasts, created });
        for MirroredContent { lock, is_held, is_permit, key, flags, value } in contents {
            let mark = KeyContent { key, flags, value };
            if is_held {
                let form = if is_permit { Form::Permit } else { Form::Whole };
                records.set_held(lease, lock, form, mark);
            } else {
                // Beyond the limit it asks again.
                let _ = records.add_contender(lease, lock, mark, max);
            }
        }
        drop(records);
        consul.touch();
    }
}
