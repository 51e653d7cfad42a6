//! Leases: for how long a silent client is assumed to be alive.

use std::collections::{BTreeMap, BTreeSet};

use meshlock_cluster::access::Principal;
use meshlock_cluster::names::ClientLabel;
use meshlock_cluster::time::{Span, Time};
use meshlock_host::gate::Caller;
use meshlock_mirror::{LeaseId, Vouched};
use meshlock_tls::Serial;

use super::AdoptedSession;

/// How long a lease lasts unless it is ended earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseDuration {
    /// This long after it was granted or last renewed.
    For(Span),
    /// As long as the connection it belongs to.
    UntilDisconnect,
}

/// A lease, or session, of a client.
#[derive(Debug)]
pub(crate) struct ClientLease {
    pub(crate) lasts: LeaseDuration,
    pub(crate) vouched: Vouched,
    /// It belongs to a call over a connection, and is over when that is cut.
    is_of_call: bool,
    /// `None` for a lease that lasts as long as its connection.
    end: Option<Time>,
    /// For how long after its end its locks stay taken.
    delay: Span,
    /// The lease is over and its delay has begun.
    delayed: bool,
    /// For how long its client may rely on its locks without a message from this site; `None` means as long as the
    /// lease lasts.
    pub(crate) silence: Option<Span>,
    /// A lock of this lease was lost. The client learns of it by not being able to renew the lease.
    unrenewable: bool,
    /// Label of the client, for operators.
    pub(crate) who: Option<ClientLabel>,
    /// The owner, the certificate with which it opened or last renewed the lease, and the request that opened it. For everyone else the lease does not exist.
    pub(crate) owner: Caller,
    /// Names of the keys that depend on it.
    pub(crate) keys: BTreeSet<Vec<u8>>,
}

/// All leases that this site has granted.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    all: BTreeMap<LeaseId, ClientLease>,
    /// Ordered by when they end.
    ends: BTreeSet<(Time, LeaseId)>,
}

impl Leases {
    /// Adds a lease. Its number must be free.
    pub(crate) fn add(
        &mut self,
        id: LeaseId,
        lasts: LeaseDuration,
        who: Option<ClientLabel>,
        owner: Caller,
        now: Time,
    ) {
        let end = lasts.from(now);
        self.ends.extend(end.map(|end| (end, id)));
        let (delay, keys) = (Span::ZERO, BTreeSet::new());
        let lease = ClientLease {
            lasts,
            vouched: Vouched::Here,
            is_of_call: lasts == LeaseDuration::UntilDisconnect,
            end,
            delay,
            delayed: false,
            silence: None,
            unrenewable: false,
            who,
            owner,
            keys,
        };
        let before = self.all.insert(id, lease);
        assert!(before.is_none(), "the caller checks that the number is free");
    }

    /// Adds a lease that another site has granted. Its number must be free.
    pub(super) fn adopt(&mut self, id: LeaseId, lease: ClientLease) {
        self.ends.extend(lease.end.map(|end| (end, id)));
        let before = self.all.insert(id, lease);
        assert!(before.is_none(), "the caller checks that the number is free");
    }

    /// Changes who vouches for the locks of a lease. Returns whether there is one.
    pub(super) fn set_vouched(&mut self, id: LeaseId, vouched: Vouched) -> bool {
        let Some(lease) = self.all.get_mut(&id) else { return false };
        lease.vouched = vouched;
        true
    }

    /// Lets a lease outlive the call that it was made for.
    pub(crate) fn detach_from_call(&mut self, id: LeaseId) {
        if let Some(lease) = self.all.get_mut(&id) {
            lease.is_of_call = false;
        }
    }

    /// Returns the lease if another site may answer for it: it can be renewed, for a time that its client has asked for.
    pub(super) fn mirrored(&self, id: LeaseId, now: Time) -> Option<(&ClientLease, Span)> {
        let lease = self.get(id, now)?;
        let is_mirrored = lease.vouched == Vouched::Here && !lease.is_of_call && lease.silence.is_none();
        Some((lease, lease.lasts.span().filter(|_| is_mirrored)?))
    }

    /// Returns the lease if its time is not up and it can still be renewed, whether or not its end has been processed
    /// yet.
    pub(crate) fn get(&self, id: LeaseId, now: Time) -> Option<&ClientLease> {
        self.all.get(&id).filter(|lease| lease.is_alive(now))
    }

    /// Makes a key depend on the lease.
    pub(crate) fn attach(&mut self, id: LeaseId, key: Vec<u8>) {
        if let Some(lease) = self.all.get_mut(&id) {
            lease.keys.insert(key);
        }
    }

    /// Returns whether the number is taken, even by a lease whose time is up.
    pub(crate) fn knows(&self, id: LeaseId) -> bool {
        self.all.contains_key(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn all_ids(&self) -> impl Iterator<Item = LeaseId> {
        self.all.keys().copied()
    }

    /// Returns the leases whose owner `is_meant`, each with the time until which its client may rely on what it holds: until the lease would
    /// end, or for a time without a message from this site, the last of which may be from now. `None` for a lease without a time to live.
    pub(crate) fn relied_on(
        &self,
        is_meant: impl Fn(&Caller) -> bool,
        now: Time,
    ) -> Vec<(LeaseId, Option<Time>)> {
        let meant = self.all.iter().filter(|(_, lease)| is_meant(&lease.owner));
        let until = |lease: &ClientLease| match (lease.end, lease.silence) {
            (Some(end), Some(silence)) => Some(end.max(now + silence)),
            (Some(end), None) => Some(end),
            (None, silence) => silence.map(|silence| now + silence),
        };
        meant.map(|(id, lease)| (*id, until(lease))).collect()
    }

    /// Returns the leases of `owner` that are not over, in the order in which they end, as etcd lists them.
    pub(crate) fn ids_of(&self, owner: &Principal, now: Time) -> Vec<LeaseId> {
        let is_its = |(_, lease): &(&LeaseId, &ClientLease)| lease.is_alive(now) && lease.is_of(owner);
        let mut its: Vec<_> = self.all.iter().filter(is_its).collect();
        its.sort_by_key(|(_, lease)| lease.end.unwrap_or(Time::from_micros(u64::MAX)));
        its.into_iter().map(|(&id, _)| id).collect()
    }

    /// Returns whether the lease belongs to `owner`, even if its time is up.
    pub(crate) fn is_of(&self, id: LeaseId, owner: &Principal) -> bool {
        self.all.get(&id).is_some_and(|lease| lease.is_of(owner))
    }

    /// Restarts the time of a lease that is not over. A lease that is over cannot be renewed.
    pub(crate) fn renew(&mut self, id: LeaseId, now: Time) -> Option<&ClientLease> {
        let lease = self.all.get_mut(&id).filter(|lease| lease.is_alive(now))?;
        if let Some(end) = lease.end {
            self.ends.remove(&(end, id));
            lease.end = lease.lasts.from(now);
            self.ends.extend(lease.end.map(|end| (end, id)));
        }
        Some(lease)
    }

    /// Notes with which certificate the owner has renewed the lease.
    pub(crate) fn note_certificate(&mut self, id: LeaseId, certificate: Option<&Serial>) {
        if let Some(lease) = self.all.get_mut(&id) {
            lease.owner.certificate = certificate.cloned();
        }
    }

    /// Gives a lease that lasted as long as its connection a time to live, which starts now.
    pub(crate) fn start_ttl(&mut self, id: LeaseId, lasts: LeaseDuration, now: Time) {
        let Some(lease) = self.all.get_mut(&id).filter(|lease| lease.end.is_none()) else { return };
        (lease.lasts, lease.end) = (lasts, lasts.from(now));
        self.ends.extend(lease.end.map(|end| (end, id)));
    }

    /// Makes the lease unusable. Its keys stay until its time is up, because its client may rely on them until then.
    pub(crate) fn forbid_renewal(&mut self, id: LeaseId) {
        if let Some(lease) = self.all.get_mut(&id) {
            lease.unrenewable = true;
        }
    }

    /// Sets for how long the keys of a lease stay after its end, and for how long its client relies on its locks
    /// without a message from this site.
    pub(crate) fn set_delay(&mut self, id: LeaseId, delay: Span, silence: Option<Span>) {
        if let Some(lease) = self.all.get_mut(&id) {
            (lease.delay, lease.silence) = (delay, silence);
        }
    }

    /// Ends the lease and starts its delay, during which its keys stay. Returns the owner, or `None` if the lease has
    /// no delay or no keys. A delay is used only once.
    pub(crate) fn begin_delay(&mut self, id: LeaseId, now: Time) -> Option<Caller> {
        let lease = self.all.get_mut(&id)?;
        let delay = std::mem::replace(&mut lease.delay, Span::ZERO);
        if delay == Span::ZERO || lease.keys.is_empty() {
            return None;
        }
        if let Some(end) = lease.end {
            self.ends.remove(&(end, id));
        }
        (lease.unrenewable, lease.delayed) = (true, true);
        let free = now + delay;
        lease.end = Some(free);
        self.ends.insert((free, id));
        Some(lease.owner.clone())
    }

    /// Removes a lease.
    pub(crate) fn remove(&mut self, id: LeaseId) -> Option<ClientLease> {
        let lease = self.all.remove(&id)?;
        if let Some(end) = lease.end {
            self.ends.remove(&(end, id));
        }
        Some(lease)
    }

    /// Returns whether the lease is over and its keys stay for its delay.
    pub(crate) fn is_delayed(&self, id: LeaseId) -> bool {
        self.all.get(&id).is_some_and(|lease| lease.delayed)
    }

    /// Returns a lease whose time is up.
    pub(crate) fn next_over(&self, now: Time) -> Option<LeaseId> {
        self.ends.first().filter(|(end, _)| *end <= now).map(|&(_, id)| id)
    }

    /// Returns when the next lease ends.
    pub(crate) fn next_end(&self) -> Option<Time> {
        self.ends.first().map(|&(end, _)| end)
    }

    /// Removes a key from its lease, which may not exist any more.
    pub(crate) fn detach(&mut self, id: LeaseId, key: &[u8]) {
        if let Some(lease) = self.all.get_mut(&id) {
            lease.keys.remove(key);
        }
    }
}

impl LeaseDuration {
    /// Returns the time to live; `None` for a lease that lasts as long as its connection.
    pub(crate) fn span(self) -> Option<Span> {
        match self {
            LeaseDuration::For(span) => Some(span),
            LeaseDuration::UntilDisconnect => None,
        }
    }

    fn from(self, now: Time) -> Option<Time> {
        self.span().map(|span| now + span)
    }
}

impl ClientLease {
    /// Returns a lease of another site that ends at `end` unless its client renews it.
    pub(super) fn adopted(session: AdoptedSession, end: Time) -> Self {
        let AdoptedSession { lasts, delay, who, owner, vouched, .. } = session;
        ClientLease {
            lasts: LeaseDuration::For(lasts),
            vouched,
            is_of_call: false,
            end: Some(end),
            delay,
            delayed: false,
            silence: None,
            unrenewable: false,
            who,
            owner,
            keys: BTreeSet::new(),
        }
    }

    /// Returns for how long its locks stay taken after its end.
    pub(crate) fn delay(&self) -> Span {
        self.delay
    }

    /// Returns whether the lease belongs to `owner`.
    pub(crate) fn is_of(&self, owner: &Principal) -> bool {
        self.owner.principal == *owner
    }

    fn is_alive(&self, now: Time) -> bool {
        !self.unrenewable && self.end.is_none_or(|end| now < end)
    }

    /// Returns the remaining time; `None` for a lease that lasts as long as its connection.
    pub(crate) fn left(&self, now: Time) -> Option<Span> {
        self.end.map(|end| end.since(now))
    }
}
