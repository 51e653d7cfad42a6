//! The leader's dispatcher: it keeps the queue of requests and the permits, and assigns requests to chains.
//!
//! The dispatcher only decides. The leader's site carries out its decisions, by a message or, where they concern the leader
//! itself, by a call.

use std::collections::VecDeque;

use crate::mutant::{self, Mutant};
use crate::{Cluster, Family, Holders, ModelFacts, Numbers, SiteId, Slot, View, invariant};

use super::message::{Permit, Waiter};

/// What the leader keeps beyond what every site keeps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Dispatcher {
    /// Maximum length of a chain: B.
    max_chain: usize,
    /// Those that wait and are in no chain, in order.
    queue: VecDeque<QueuedWaiter>,
    /// The number of the last request of each site.
    last: Box<[u64]>,
    /// The permits, by slot.
    permits: Box<[Record]>,
    /// How many chains have been issued.
    issued: u64,
}

/// A request in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct QueuedWaiter {
    waiter: Waiter,
    /// How many chains had been issued when it came; for one that rode in, when the chain it rode on was issued.
    since: u64,
}

/// What the leader knows of one permit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Record {
    /// The permit, while it is here.
    home: Option<Box<Permit>>,
    /// Its running chain as far as the leader knows: all that it was issued for or that were appended. While the
    /// permit is at home, those that were appended too late and must be served first.
    chain: VecDeque<Waiter>,
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
}

impl Dispatcher {
    /// What a picture of the leader shows: who waits, and who was told to pass the permits on to whom.
    pub(super) fn view(&self) -> View {
        let home = self.permits.iter().filter(|record| record.home.is_some());
        let view = View::new()
            .queue("queue", self.queue.iter().map(|queued| queued.waiter.site))
            .value("permits at home", home.count())
            .value("longest chain B", self.max_chain)
            .table("last request", &self.last);
        let chains = self.permits.iter().filter(|record| !record.chain.is_empty());
        chains.fold(view, |view, record| view.queue("chain", record.chain.iter().map(|waiter| waiter.site)))
    }

    /// When the chain of a permit that is at home was issued does not matter any more.
    pub(super) fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        for (site, number) in SiteId::all(self.last.len()).zip(&mut self.last) {
            numbers.number(Family::Site(site), number);
        }
        for queued in &mut self.queue {
            queued.waiter.numbers(numbers);
            numbers.number(Family::Token(0), &mut queued.since);
        }
        for record in &mut self.permits {
            match &mut record.home {
                Some(permit) => {
                    permit.numbers(numbers);
                    record.since = 0;
                }
                None => numbers.number(Family::Token(0), &mut record.since),
            }
            record.chain.iter_mut().for_each(|waiter| waiter.numbers(numbers));
        }
        numbers.number(Family::Token(0), &mut self.issued);
    }

    /// The first slots are with the holders, the other permits at home.
    pub(super) fn new(cluster: Cluster, max_chain: usize, holders: &Holders) -> Self {
        let room = max_chain.min(cluster.sites);
        let mut inside = holders.iter();
        let record = |slot: usize| {
            let mut chain = VecDeque::with_capacity(room);
            chain.extend(inside.next().map(|site| Waiter { site, number: 0 }));
            let home = chain.is_empty().then(|| Box::new(Permit::fresh(slot, room)));
            Record { home, chain, since: 0 }
        };
        Dispatcher {
            max_chain,
            permits: (0..cluster.permits).map(record).collect(),
            queue: VecDeque::with_capacity(cluster.sites),
            last: vec![0; cluster.sites].into(),
            issued: 1,
        }
    }

    /// Why no correct site could ask for this now, if so.
    pub(super) fn refuses_request(&self, waiter: Waiter) -> Option<&'static str> {
        if self.last[waiter.site.index()].checked_add(1) != Some(waiter.number) {
            return Some("a request that is not its next one");
        }
        let queued = self.queue.iter().any(|queued| queued.waiter.site == waiter.site);
        queued.then_some("a second request before the first was served")
    }

    /// A request has come. If no permit is at home, it is appended to the shortest chain that has room. A chain that ends
    /// in an earlier request of the same site is over: its permit is on its way here.
    pub(super) fn on_request(&mut self, waiter: Waiter) -> Option<Order> {
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
        self.queue.push_back(QueuedWaiter { waiter, since: self.issued });
        self.next_grant()
    }

    /// Why no correct site could hand back this permit now, if so.
    pub(super) fn refuses_release(&self, last: Waiter, permit: &Permit) -> Option<&'static str> {
        let record = self.permits.get(permit.slot.0 as usize);
        let Some(record) = record.filter(|record| record.home.is_none()) else {
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
        let place = self.queue.partition_point(|queued| queued.since <= since);
        for (place, waiter) in (place..).zip(permit.again.drain(..)) {
            self.last[waiter.site.index()] = waiter.number;
            self.queue.insert(place, QueuedWaiter { waiter, since });
        }
        record.home = Some(permit);
    }

    /// The next chain to issue, if a permit is at home and someone waits. With K permits a chain takes a K-th of the
    /// queue, so that the others find work when they come back.
    pub(super) fn next_grant(&mut self) -> Option<Order> {
        let waiting = !self.queue.is_empty();
        let ready = |record: &&mut Record| record.home.is_some() && (waiting || !record.chain.is_empty());
        let shares = self.permits.len();
        let record = self.permits.iter_mut().find(ready)?;
        let mut permit = record.home.take()?;
        let room = self.max_chain.saturating_sub(record.chain.len());
        let share = self.queue.len().div_ceil(shares).min(room);
        record.chain.extend(self.queue.drain(..share).map(|queued| queued.waiter));
        record.since = self.issued;
        self.issued += 1;
        permit.next.extend(record.chain.iter().skip(1));
        record.chain.front().map(|&first| Order::Grant(first, permit))
    }

    /// How many permits are here.
    pub(super) fn permits_at_home(&self) -> usize {
        self.permits.iter().filter(|record| record.home.is_some()).count()
    }

    /// Whether all permits are here. Then nobody waits.
    pub(super) fn is_quiet(&self) -> bool {
        self.permits_at_home() == self.permits.len()
    }

    /// The slots that are here.
    pub(super) fn slots_at_home(&self) -> impl Iterator<Item = Slot> {
        self.permits.iter().filter_map(|record| record.home.as_ref()).map(|permit| permit.slot)
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
        for (at, QueuedWaiter { waiter, .. }) in self.queue.iter().enumerate() {
            facts.holds("queued", &[&waiter.site, &waiter.number]);
            for later in self.queue.iter().skip(at + 1) {
                facts.holds("ahead", &[&waiter.site, &later.waiter.site]);
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
        let sites = self.queue.iter().map(|queued| queued.waiter.site);
        let distinct: crate::SiteSet = sites.collect();
        invariant!(
            self.queue.iter().is_sorted_by_key(|queued| queued.since) && distinct.len() == self.queue.len(),
            "I4: the queue is in order and names no site twice"
        );
        Ok(())
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
