//! Leases: for how long a client that may have gone is believed to be there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use meshlock_cluster::access::Principal;
use meshlock_cluster::names::ClientLabel;
use meshlock_cluster::time::{Span, Time};
use meshlock_host::gate::Caller;

/// The number of a lease: positive, because clients of etcd take zero for none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LeaseId(i64);

impl LeaseId {
    /// The lease `number`, if it is one.
    pub(crate) fn new(number: i64) -> Option<Self> {
        (number > 0).then_some(LeaseId(number))
    }

    pub(crate) const fn number(self) -> i64 {
        self.0
    }
}

/// As etcd writes it in keys: lower-case hexadecimal.
impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// When a lease ends if nobody ends it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lasts {
    /// So long after it was granted or renewed.
    For(Span),
    /// As long as the connection that it belongs to.
    WithItsConnection,
}

/// One lease.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) lasts: Lasts,
    /// Not for one that lasts as long as a connection.
    end: Option<Time>,
    /// For so long after its end nobody else gets what hangs on it.
    delay: Span,
    /// It is over, and the delay has begun.
    delayed: bool,
    /// For so long its client may believe in what it has without a word from here, if not for as long as the lease lasts.
    pub(crate) silence: Option<Span>,
    /// Its client has lost something, and is told so by not being able to renew it.
    doomed: bool,
    /// Who has it, for operators.
    pub(crate) who: Option<ClientLabel>,
    /// Whose it is, and the request that it began with. For everyone else it is not there.
    pub(crate) owner: Caller,
    /// What hangs on it.
    pub(crate) keys: BTreeSet<Vec<u8>>,
}

/// All leases that this site has granted.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    all: BTreeMap<LeaseId, Lease>,
    /// In the order in which they end.
    ends: BTreeSet<(Time, LeaseId)>,
}

impl Leases {
    /// Adds a lease whose number is free.
    pub(crate) fn add(
        &mut self,
        id: LeaseId,
        lasts: Lasts,
        who: Option<ClientLabel>,
        owner: Caller,
        now: Time,
    ) {
        let end = lasts.from(now);
        self.ends.extend(end.map(|end| (end, id)));
        let (delay, keys) = (Span::ZERO, BTreeSet::new());
        let lease =
            Lease { lasts, end, delay, delayed: false, silence: None, doomed: false, who, owner, keys };
        let before = self.all.insert(id, lease);
        assert!(before.is_none(), "the caller has looked");
    }

    /// The lease, unless it is over or doomed; also if nobody has noticed yet that its time is up.
    pub(crate) fn get(&self, id: LeaseId, now: Time) -> Option<&Lease> {
        self.all.get(&id).filter(|lease| lease.is_alive(now))
    }

    /// A key hangs on the lease from now on.
    pub(crate) fn hang(&mut self, id: LeaseId, key: Vec<u8>) {
        if let Some(lease) = self.all.get_mut(&id) {
            lease.keys.insert(key);
        }
    }

    /// Whether the number is taken, be it by a lease whose time is up.
    pub(crate) fn knows(&self, id: LeaseId) -> bool {
        self.all.contains_key(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn all_ids(&self) -> impl Iterator<Item = LeaseId> {
        self.all.keys().copied()
    }

    /// Those of somebody that are not over.
    pub(crate) fn ids_of(&self, owner: &Principal, now: Time) -> impl Iterator<Item = LeaseId> {
        let is_its = move |(_, lease): &(&LeaseId, &Lease)| lease.is_alive(now) && lease.is_of(owner);
        self.all.iter().filter(is_its).map(|(&id, _)| id)
    }

    /// Whether the lease is somebody's, be it that its time is up.
    pub(crate) fn is_of(&self, id: LeaseId, owner: &Principal) -> bool {
        self.all.get(&id).is_some_and(|lease| lease.is_of(owner))
    }

    /// Begins the time of a lease anew, if it is not over: nothing brings one back.
    pub(crate) fn renew(&mut self, id: LeaseId, now: Time) -> Option<&Lease> {
        let lease = self.all.get_mut(&id).filter(|lease| lease.is_alive(now))?;
        if let Some(end) = lease.end {
            self.ends.remove(&(end, id));
            lease.end = lease.lasts.from(now);
            self.ends.extend(lease.end.map(|end| (end, id)));
        }
        Some(lease)
    }

    /// The time of a lease that has lasted with its connection begins.
    pub(crate) fn begin_time(&mut self, id: LeaseId, lasts: Lasts, now: Time) {
        let Some(lease) = self.all.get_mut(&id).filter(|lease| lease.end.is_none()) else { return };
        (lease.lasts, lease.end) = (lasts, lasts.from(now));
        self.ends.extend(lease.end.map(|end| (end, id)));
    }

    /// Nothing can be done with a lease any more. What hangs on it stays until its time is up: until then its client may believe
    /// that it has it.
    pub(crate) fn doom(&mut self, id: LeaseId) {
        if let Some(lease) = self.all.get_mut(&id) {
            lease.doomed = true;
        }
    }

    /// What hangs on the lease stays for so long after its end, and its client believes in it so long without a word from here.
    pub(crate) fn set_delay(&mut self, id: LeaseId, delay: Span, silence: Option<Span>) {
        if let Some(lease) = self.all.get_mut(&id) {
            (lease.delay, lease.silence) = (delay, silence);
        }
    }

    /// The lease is over now, and what hangs on it stays for its delay, if there is such a time and such a thing: gives back whose it
    /// is. The delay is taken only once.
    pub(crate) fn begin_delay(&mut self, id: LeaseId, now: Time) -> Option<Caller> {
        let lease = self.all.get_mut(&id)?;
        let delay = std::mem::replace(&mut lease.delay, Span::ZERO);
        if delay == Span::ZERO || lease.keys.is_empty() {
            return None;
        }
        if let Some(end) = lease.end {
            self.ends.remove(&(end, id));
        }
        (lease.doomed, lease.delayed) = (true, true);
        let free = now + delay;
        lease.end = Some(free);
        self.ends.insert((free, id));
        Some(lease.owner.clone())
    }

    /// Ends a lease.
    pub(crate) fn remove(&mut self, id: LeaseId) -> Option<Lease> {
        let lease = self.all.remove(&id)?;
        if let Some(end) = lease.end {
            self.ends.remove(&(end, id));
        }
        Some(lease)
    }

    /// Whether the lease is over, and what hangs on it stays for a while.
    pub(crate) fn is_delayed(&self, id: LeaseId) -> bool {
        self.all.get(&id).is_some_and(|lease| lease.delayed)
    }

    /// One whose time is up.
    pub(crate) fn next_over(&self, now: Time) -> Option<LeaseId> {
        self.ends.first().filter(|(end, _)| *end <= now).map(|&(_, id)| id)
    }

    /// When the time of the next one is up.
    pub(crate) fn next_end(&self) -> Option<Time> {
        self.ends.first().map(|&(end, _)| end)
    }

    /// A key hangs on the lease no more. The lease itself may be gone.
    pub(crate) fn drop_key(&mut self, id: LeaseId, key: &[u8]) {
        if let Some(lease) = self.all.get_mut(&id) {
            lease.keys.remove(key);
        }
    }
}

impl Lasts {
    /// How long from each renewal on; none if that is up to a connection.
    pub(crate) fn span(self) -> Option<Span> {
        match self {
            Lasts::For(span) => Some(span),
            Lasts::WithItsConnection => None,
        }
    }

    fn from(self, now: Time) -> Option<Time> {
        self.span().map(|span| now + span)
    }
}

impl Lease {
    /// Whether it is somebody's.
    pub(crate) fn is_of(&self, owner: &Principal) -> bool {
        self.owner.principal == *owner
    }

    fn is_alive(&self, now: Time) -> bool {
        !self.doomed && self.end.is_none_or(|end| now < end)
    }

    /// How long it still lasts; none if that is up to its connection.
    pub(crate) fn left(&self, now: Time) -> Option<Span> {
        self.end.map(|end| end.since(now))
    }
}
