//! The leader's dispatcher: it keeps the queue of requests and the permits, and assigns requests to chains.
//!
//! The dispatcher only decides. The leader's site carries out its decisions, by a message or, where they concern the leader
//! itself, by a call.

use std::collections::VecDeque;

use crate::mutant::{self, Mutant};
use crate::{
    Cluster, Demand, Family, Holders, Mode, ModelFacts, Numbers, Priority, SiteId, Slot, View, invariant,
};

use super::DelegatedSetup;
use super::message::{Permit, Waiter};
use super::sharing::{EarlyNews, Sharing};

/// What the leader keeps beyond what every site keeps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Dispatcher {
    /// Maximum length of a chain: B.
    max_chain: usize,
    priorities: Priorities,
    /// Whether those who share may let others of their sites in while nobody waits.
    pub(super) opens: bool,
    /// How many of those in the queue ask to share.
    pub(super) queued_sharers: usize,
    /// Those that wait and are in no chain, in order.
    pub(super) queue: VecDeque<QueuedWaiter>,
    /// The number of the last request of each site.
    pub(super) last: Box<[u64]>,
    /// The permits, by slot.
    pub(super) permits: Box<[Record]>,
    /// How many chains have been issued, and how many times others were let in to share.
    pub(super) issued: u64,
    /// The permit while sites share it, and who they are.
    pub(super) sharing: Option<Box<Sharing>>,
    /// News that have overtaken a permit.
    pub(super) early: Option<Box<EarlyNews>>,
}

/// A request in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct QueuedWaiter {
    // The two parts of its request and those of its place, apart so that they pack.
    number: u64,
    /// How many chains had been issued when it came; for one that rode in, when the chain that it rode on was issued.
    since: u64,
    site: SiteId,
    priority: Priority,
    pub(super) mode: Mode,
}

/// Where a request stands in the queue: the smaller, the earlier. Of equal ones the first that came is the first.
///
/// Priorities that age need no clock: a request whose priority is larger by one stands where it would if it had come one chain earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct QueuePlace {
    /// With strict priorities, how far this one is below the highest; otherwise 0.
    level: u8,
    /// How many chains had been issued when it came, and one less for each level of its priority, if priorities age.
    due: i128,
}

/// What the leader knows of one permit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Record {
    /// The permit, while it is here and nobody shares it.
    pub(super) home: Option<Box<Permit>>,
    /// Its running chain as far as the leader knows: all that it was issued for or that were appended. While the
    /// permit is at home, those that were appended too late and must be served first; while it is shared, those that come after.
    pub(super) chain: VecDeque<Waiter>,
    /// How many chains had been issued before this one.
    since: u64,
}

/// What the leader is to do.
#[derive(Debug)]
pub(super) enum Order {
    /// Give the permit to this request.
    Grant(Waiter, Box<Permit>),
    /// Tell `tail` that `next` follows it.
    Append { tail: Waiter, next: Waiter },
    /// Ask what is to be done about those who share.
    Settle,
    /// Let this one in to share, open or not.
    Share(Waiter, bool),
    /// Tell this one, which shares, that somebody waits.
    Close(Waiter),
    /// Tell this one that its upgrade of this number is done.
    Upgraded(Waiter, u64),
}

/// What priorities do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Priorities {
    /// A waiter rises one level with each chain or batch that is issued before it.
    Age,
    /// The most urgent is the next, however long another waits.
    Strict,
}

impl Priorities {
    /// Where a request stands that counts as come when so many chains had been issued.
    fn place(self, since: u64, priority: Priority) -> QueuePlace {
        let since = i128::from(since);
        match self {
            Priorities::Age => QueuePlace { level: 0, due: since - i128::from(priority.0) },
            Priorities::Strict => QueuePlace { level: u8::MAX - priority.0, due: since },
        }
    }
}

impl QueuedWaiter {
    fn new(since: u64, waiter: Waiter, demand: Demand) -> Self {
        let (Waiter { site, number }, Demand { mode, priority }) = (waiter, demand);
        QueuedWaiter { number, since, site, priority, mode }
    }

    fn place(&self, priorities: Priorities) -> QueuePlace {
        priorities.place(self.since, self.priority)
    }

    pub(super) fn waiter(&self) -> Waiter {
        Waiter { site: self.site, number: self.number }
    }
}

impl Dispatcher {
    /// What a picture of the leader shows: who waits, and who was told to pass the permits on to whom.
    pub(super) fn view(&self) -> View {
        let home = self.permits.iter().filter(|record| record.home.is_some());
        let queued = |queued: &QueuedWaiter| match queued.mode {
            Mode::Exclusive => queued.site.to_string(),
            mode @ (Mode::Shared | Mode::Upgradeable) => format!("{} {mode}", queued.site),
        };
        let view = View::new()
            .queue("queue", self.queue.iter().map(queued))
            .value("permits at home", home.count())
            .value("longest chain B", self.max_chain)
            .table("last request", &self.last);
        let chains = self.permits.iter().filter(|record| !record.chain.is_empty());
        let view = chains
            .fold(view, |view, record| view.queue("chain", record.chain.iter().map(|waiter| waiter.site)));
        self.sharing.iter().fold(view, |view, sharing| sharing.view(view))
    }

    /// When the chain of a permit that is at home, or shared, was issued does not matter any more.
    pub(super) fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        for (site, number) in SiteId::all(self.last.len()).zip(&mut self.last) {
            numbers.number(Family::Site(site), number);
        }
        for queued in &mut self.queue {
            numbers.number(Family::Site(queued.site), &mut queued.number);
            numbers.number(Family::Token(0), &mut queued.since);
        }
        self.sharing.iter_mut().for_each(|sharing| sharing.numbers(numbers));
        self.early.iter_mut().for_each(|early| early.numbers(numbers));
        for record in &mut self.permits {
            match &mut record.home {
                Some(permit) => {
                    permit.numbers(numbers);
                    record.since = 0;
                }
                None if self.sharing.is_some() => record.since = 0,
                None => numbers.number(Family::Token(0), &mut record.since),
            }
            record.chain.iter_mut().for_each(|waiter| waiter.numbers(numbers));
        }
        numbers.number(Family::Token(0), &mut self.issued);
    }

    /// The first slots are with the holders, the other permits at home; the only one may be shared.
    pub(super) fn new(setup: &DelegatedSetup, holders: &Holders) -> Self {
        let DelegatedSetup { cluster, max_chain, opens, strict, .. } = *setup;
        let room = max_chain.min(cluster.sites);
        let strict = strict || mutant::is_on(Mutant::DelegatedNoAgeing);
        let sharing = Sharing::start(holders, opens, || Box::new(Permit::fresh(0, room)));
        let mut inside = holders.iter().filter(|_| sharing.is_none());
        let record = |slot: usize| {
            let mut chain = VecDeque::with_capacity(room);
            chain.extend(inside.next().map(|site| Waiter { site, number: 0 }));
            let home = chain.is_empty() && sharing.is_none();
            Record { home: home.then(|| Box::new(Permit::fresh(slot, room))), chain, since: 0 }
        };
        Dispatcher {
            max_chain,
            priorities: if strict { Priorities::Strict } else { Priorities::Age },
            opens,
            queued_sharers: 0,
            permits: (0..cluster.permits).map(record).collect(),
            queue: VecDeque::with_capacity(cluster.sites),
            last: vec![0; cluster.sites].into(),
            issued: 1,
            sharing,
            early: None,
        }
    }

    /// Puts a request into the queue, behind those that stand as early.
    pub(super) fn enqueue(&mut self, waiter: Waiter, demand: Demand) {
        let (mut demand, mut since) = (demand, self.issued);
        if mutant::is_on(Mutant::DelegatedPriorityIgnored) {
            demand.priority = Priority::default();
        }
        if mutant::is_on(Mutant::DelegatedReaderPassesWriter) && demand.mode == Mode::Shared {
            since = 0;
        }
        self.insert(since, waiter, demand);
        self.queued_sharers += usize::from(demand.mode != Mode::Exclusive);
    }

    /// Puts a request that counts as come when so many chains had been issued behind those that stand as early.
    fn insert(&mut self, since: u64, waiter: Waiter, demand: Demand) {
        let (priorities, queued) = (self.priorities, QueuedWaiter::new(since, waiter, demand));
        let place = queued.place(priorities);
        let at = self.queue.partition_point(|other| other.place(priorities) <= place);
        self.queue.insert(at, queued);
    }

    /// Why no correct site could ask for this now, if so.
    pub(super) fn refuses_request(&self, waiter: Waiter) -> Option<&'static str> {
        if self.last[waiter.site.index()].checked_add(1) != Some(waiter.number) {
            return Some("a request that is not its next one");
        }
        let queued = self.queue.iter().any(|queued| queued.site == waiter.site);
        queued.then_some("a second request before the first was served")
    }

    /// A plain request has come. If it is not appended, it stands behind all others.
    pub(super) fn on_request(&mut self, waiter: Waiter) -> Option<Order> {
        self.append_or(waiter, |dispatcher| {
            dispatcher.queue.push_back(QueuedWaiter::new(dispatcher.issued, waiter, Demand::PLAIN));
        })
    }

    /// An exclusive request has come. If no permit is at home and nobody is queued, it is appended to the shortest chain that has room;
    /// otherwise `enqueue` puts it into the queue. A chain that ends in an earlier request of the same site is over: its permit is on
    /// its way here.
    pub(super) fn append_or(&mut self, waiter: Waiter, enqueue: impl FnOnce(&mut Self)) -> Option<Order> {
        self.last[waiter.site.index()] = waiter.number;
        if self.queue.is_empty() && self.permits.iter().all(|record| record.home.is_none()) {
            let max_chain = self.max_chain;
            let has_room = |record: &&mut Record| {
                record.chain.len() < max_chain
                    && record.chain.back().is_some_and(|tail| tail.site != waiter.site)
            };
            let open = self.permits.iter_mut().filter(has_room).min_by_key(|record| record.chain.len());
            if let Some(record) = open {
                let tail = *record.chain.back()?;
                record.chain.push_back(waiter);
                return Some(Order::Append { tail, next: waiter });
            }
        }
        enqueue(self);
        self.next_order()
    }

    /// What follows from a new request in the queue.
    #[inline]
    pub(super) fn next_order(&mut self) -> Option<Order> {
        if self.sharing.is_some() { Some(Order::Settle) } else { self.next_grant() }
    }

    /// Why no correct site could hand back this permit now, if so.
    pub(super) fn refuses_release(&self, last: Waiter, permit: &Permit) -> Option<&'static str> {
        let record = self.permits.get(permit.slot.0 as usize);
        let Some(record) = record.filter(|record| record.home.is_none() && self.sharing.is_none()) else {
            return Some("a permit that is not out");
        };
        let Some(at) = record.chain.iter().position(|waiter| *waiter == last) else {
            return Some("a permit of another's");
        };
        // Who rides has just been served by this chain, and those who ride do so in its order.
        let mut served = record.chain.iter().take(at + 1);
        let rode = |rider: &Waiter| {
            served
                .any(|waiter| waiter.site == rider.site && waiter.number.checked_add(1) == Some(rider.number))
                && self.last[rider.site.index()].checked_add(1) == Some(rider.number)
        };
        if !permit.next.is_empty() || !permit.again.iter().all(rode) {
            return Some("a permit with requests that cannot be");
        }
        None
    }

    /// The permit is back from `last`. Whoever was to follow it in the chain was appended too late, and is served
    /// first. The requests that rode in take their places in the queue: after those that were there when their chain
    /// was issued, before those that came later.
    pub(super) fn on_release(&mut self, last: Waiter, mut permit: Box<Permit>) {
        let record = &mut self.permits[permit.slot.0 as usize];
        let done = record.chain.iter().take_while(|waiter| **waiter != last).count() + 1;
        let forgotten = mutant::is_on(Mutant::DelegatedForgottenTail);
        record.chain.drain(..if forgotten { record.chain.len() } else { done });
        let since = record.since;
        for waiter in permit.again.drain(..) {
            self.last[waiter.site.index()] = waiter.number;
            self.insert(since, waiter, Demand::PLAIN);
        }
        let slot = permit.slot.0 as usize;
        self.permits[slot].home = Some(permit);
    }

    /// The next chain to issue, if a permit is at home and someone waits. With K permits a chain takes a K-th of the
    /// queue, so that the others find work when they come back. It ends before the first that asks to share; if that is the head of the
    /// queue, the permit is shared.
    pub(super) fn next_grant(&mut self) -> Option<Order> {
        let waiting = !self.queue.is_empty();
        let ready = |record: &&mut Record| record.home.is_some() && (waiting || !record.chain.is_empty());
        let shares = self.permits.len();
        let record = self.permits.iter_mut().find(ready)?;
        let mut permit = record.home.take()?;
        let room = self.max_chain.saturating_sub(record.chain.len());
        let mut share = self.queue.len().div_ceil(shares).min(room);
        if self.queued_sharers > 0 && !mutant::is_on(Mutant::DelegatedChainTakesReader) {
            let exclusive = self.queue.iter().take_while(|queued| queued.mode == Mode::Exclusive).count();
            share = share.min(exclusive);
            if share == 0 && record.chain.is_empty() {
                return Some(self.begin_sharing(permit));
            }
        }
        record.chain.extend(self.queue.drain(..share).map(|queued| queued.waiter()));
        record.since = self.issued;
        self.issued += 1;
        permit.next.extend(record.chain.iter().skip(1));
        record.chain.front().map(|&first| Order::Grant(first, permit))
    }

    /// How many permits are here, and not shared.
    fn permits_at_home(&self) -> usize {
        self.permits.iter().filter(|record| record.home.is_some()).count()
    }

    /// How many permits are here.
    pub(super) fn tokens(&self) -> usize {
        self.permits_at_home() + usize::from(self.sharing.is_some())
    }

    /// Whether all permits are here, and none is shared. Then nobody waits.
    pub(super) fn is_quiet(&self) -> bool {
        self.permits_at_home() == self.permits.len()
    }

    /// The slots that are here.
    pub(super) fn slots_at_home(&self) -> impl Iterator<Item = Slot> {
        let home = self.permits.iter().filter_map(|record| record.home.as_ref()).map(|permit| permit.slot);
        home.chain(self.sharing.iter().map(|sharing| sharing.permit().slot))
    }

    /// Whether, as far as the leader knows, `holder` may have this permit, with these to follow.
    pub(super) fn knows(&self, holder: Waiter, permit: &Permit) -> bool {
        let chain = &self.permits[permit.slot.0 as usize].chain;
        let mut after = chain.iter().skip_while(|waiter| **waiter != holder);
        after.next().is_some() && permit.next.iter().all(|waiter| after.next() == Some(waiter))
    }

    /// Whether `next` comes right after `tail` in some chain.
    pub(super) fn follows(&self, tail: Waiter, next: Waiter) -> bool {
        let pairs = |record: &Record| {
            let after = record.chain.iter().skip(1);
            record.chain.iter().zip(after).any(|pair| pair == (&tail, &next))
        };
        self.permits.iter().any(pairs)
    }

    /// Adds what the leader knows, in the terms of the model.
    pub(super) fn facts(&self, facts: &mut ModelFacts) {
        for (site, last) in SiteId::all(self.last.len()).zip(&self.last) {
            facts.value("last", &[&site], last);
        }
        for (at, QueuedWaiter { site, number, .. }) in self.queue.iter().enumerate() {
            facts.holds("queued", &[site, number]);
            for later in self.queue.iter().skip(at + 1) {
                facts.holds("ahead", &[site, &later.site]);
            }
        }
        for Record { home, chain, .. } in &self.permits {
            facts.holds_if(home.is_some(), "home", &[]);
            for (at, Waiter { site, number }) in chain.iter().enumerate() {
                facts.holds("chain", &[site, number]);
                for later in chain.iter().skip(at + 1) {
                    facts.holds("before", &[site, number, &later.site, &later.number]);
                }
            }
        }
    }

    /// The numbered invariants of the dispatcher.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let at_home = || self.permits.iter().filter(|record| record.home.is_some());
        invariant!(
            at_home().next().is_none() || self.queue.is_empty(),
            "I2: while a permit is at home nobody is queued"
        );
        invariant!(
            at_home().all(|record| record.chain.is_empty())
                && self.permits.iter().all(|record| record.chain.len() <= self.max_chain),
            "I3: no chain is longer than B, and a permit at home has none"
        );
        let sites = self.queue.iter().map(|queued| queued.site);
        let distinct: crate::SiteSet = sites.collect();
        invariant!(
            self.queue.iter().is_sorted_by_key(|queued| queued.place(self.priorities))
                && distinct.len() == self.queue.len(),
            "I4: the queue is in order and names no site twice"
        );
        let sharers = self.queue.iter().filter(|queued| queued.mode != Mode::Exclusive).count();
        invariant!(
            sharers == self.queued_sharers,
            "I11: the leader knows how many in the queue ask to share"
        );
        self.check_sharing()
    }
}

impl Permit {
    /// The permit `slot`, with room for `room` waiters.
    pub(super) fn fresh(slot: usize, room: usize) -> Permit {
        Permit {
            slot: Slot(u32::try_from(slot).expect("fewer than 2^32 permits")),
            next: VecDeque::with_capacity(room),
            again: Vec::with_capacity(room),
        }
    }

    /// Whether it can be one of this cluster's, handed to `me`.
    pub(super) fn fits(&self, cluster: Cluster, me: SiteId) -> bool {
        let known = |site: SiteId| site.index() < cluster.sites;
        (self.slot.0 as usize) < cluster.permits
            && self.next.len() <= cluster.sites
            && self.again.len() <= cluster.sites
            && self.next.iter().all(|waiter| waiter.site != me)
            && self.next.iter().chain(&self.again).all(|waiter| known(waiter.site))
    }
}
