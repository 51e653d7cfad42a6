//! The leader's part in sharing: who is inside without the permit, which stays here meanwhile, and who may join them.
//!
//! As in the dispatcher, nothing is sent here. After every change [`Dispatcher::settle`] says what is to be done.

use smallvec::SmallVec;

use crate::mutant::{self, Mutant};
use crate::{Demand, Holders, Mode, Numbers, SiteId, View, invariant};

use super::dispatcher::{Dispatcher, Order};
use super::message::{Permit, Waiter, changes_of};

/// What the leader is to do, in order.
pub(super) type Orders = SmallVec<[Order; 2]>;

/// The permit while sites share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sharing {
    permit: Box<Permit>,
    /// Who is inside, as far as the leader knows: who has left may still be named. By site and number.
    inside: SmallVec<[Sharer; 2]>,
}

/// One site inside, as far as the leader knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sharer {
    pub(super) waiter: Waiter,
    pub(super) mode: Mode,
    /// Whether it waits to be exclusive.
    pub(super) upgrading: bool,
    /// Whether it may let others of its site in.
    pub(super) open: bool,
    /// The number of its last change of mode that has arrived here.
    heard: Option<u64>,
}

/// News of a change inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum News {
    Left,
    Upgrades { change: u64 },
    Lowered { change: u64, to: Mode },
}

/// News of the site that is bringing the permit home, which have overtaken that.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct EarlyNews {
    waiter: Waiter,
    news: News,
}

/// Why no correct site could say this.
type Refusal = &'static str;

const NOT_INSIDE: Refusal = "a change of what is not inside";
const NOT_FROM_THERE: Refusal = "a change to a mode that cannot follow";

impl News {
    /// The number of the change, if there is one.
    fn change(self) -> Option<u64> {
        match self {
            News::Left => None,
            News::Upgrades { change } | News::Lowered { change, .. } => Some(change),
        }
    }

    /// Whether this is later than `other`, of the same site.
    fn is_after(self, other: News) -> bool {
        match (self.change(), other.change()) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(mine), Some(theirs)) => mine > theirs,
        }
    }

    fn numbers(&mut self, site: SiteId, numbers: &mut Numbers<'_>) {
        match self {
            News::Left => {}
            News::Upgrades { change } | News::Lowered { change, .. } => {
                numbers.number(changes_of(site), change);
            }
        }
    }
}

impl EarlyNews {
    pub(super) fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        self.waiter.numbers(numbers);
        self.news.numbers(self.waiter.site, numbers);
    }
}

impl Sharer {
    fn new(waiter: Waiter, mode: Mode, open: bool) -> Self {
        Sharer { waiter, mode, upgrading: false, open, heard: None }
    }

    /// Takes note of a change of mode. News that were overtaken by later ones say nothing any more.
    fn hear(&mut self, change: u64, to: Mode) -> Result<(), Refusal> {
        if self.heard.is_some_and(|heard| heard >= change) {
            return Ok(());
        }
        let upgrades = to == Mode::Exclusive;
        let follows = if upgrades { self.mode != Mode::Shared } else { to < self.mode };
        // An exclusive one that upgrades has been upgradeable in between, and that change was overtaken.
        let skipped = self.heard.is_some_and(|heard| change - heard > 1);
        let again = upgrades && self.mode == Mode::Exclusive;
        if self.upgrading || !follows || (again && !skipped) {
            return Err(NOT_FROM_THERE);
        }
        self.heard = Some(change);
        self.mode = if upgrades { Mode::Upgradeable } else { to };
        self.upgrading = upgrades;
        if upgrades {
            self.open = false;
        }
        Ok(())
    }
}

impl Sharing {
    fn new(permit: Box<Permit>) -> Self {
        Sharing { permit, inside: SmallVec::new() }
    }

    /// The state at the start, if `holders` share the permit.
    pub(super) fn start(
        holders: &Holders,
        open: bool,
        permit: impl FnOnce() -> Box<Permit>,
    ) -> Option<Box<Sharing>> {
        let shares = holders.with_modes().any(|(_, mode)| mode != Mode::Exclusive);
        let sharer = |(site, mode)| Sharer::new(Waiter { site, number: 0 }, mode, open);
        shares.then(|| {
            Box::new(Sharing { permit: permit(), inside: holders.with_modes().map(sharer).collect() })
        })
    }

    /// Adds to a picture of the leader who is inside.
    pub(super) fn view(&self, view: View) -> View {
        let sharer = |sharer: &Sharer| {
            let Sharer { waiter, mode, upgrading, open, .. } = sharer;
            let more = if *upgrading { ", upgrades" } else { "" };
            format!("{} {mode}{more}{}", waiter.site, if *open { ", open" } else { "" })
        };
        view.queue("share", self.inside.iter().map(sharer))
    }

    pub(super) fn permit(&self) -> &Permit {
        &self.permit
    }

    fn find(&mut self, waiter: Waiter) -> Option<&mut Sharer> {
        self.inside.iter_mut().find(|sharer| sharer.waiter == waiter)
    }

    fn add(&mut self, sharer: Sharer) {
        let key = |sharer: &Sharer| (sharer.waiter.site, sharer.waiter.number);
        let at = self.inside.partition_point(|other| key(other) < key(&sharer));
        self.inside.insert(at, sharer);
    }

    /// How many of those who wait in these modes, in this order, may join those inside before the first that may not.
    fn joiners(&self, waiting: impl Iterator<Item = Mode>) -> usize {
        let passed = mutant::is_on(Mutant::DelegatedUpgradePassed);
        let is_closed = |sharer: &Sharer| sharer.mode == Mode::Exclusive || (sharer.upgrading && !passed);
        if self.inside.iter().any(is_closed) {
            return 0;
        }
        let second = mutant::is_on(Mutant::DelegatedSecondUpgradeable);
        let mut upgradeable = self.inside.iter().any(|sharer| sharer.mode == Mode::Upgradeable);
        let may_join = |mode: &Mode| match mode {
            Mode::Shared => true,
            Mode::Upgradeable => !std::mem::replace(&mut upgradeable, true) || second,
            Mode::Exclusive => false,
        };
        waiting.take_while(may_join).count()
    }

    pub(super) fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        self.permit.numbers(numbers);
        for sharer in &mut self.inside {
            sharer.waiter.numbers(numbers);
            let family = changes_of(sharer.waiter.site);
            sharer.heard.iter_mut().for_each(|heard| numbers.number(family, heard));
        }
    }
}

impl Dispatcher {
    /// Why no correct site could ask for this now, if so.
    pub(super) fn refuses_demand(&self, waiter: Waiter, demand: Demand) -> Option<Refusal> {
        if demand == Demand::PLAIN {
            return Some("a plain request that says more than it must");
        }
        if demand.mode != Mode::Exclusive && self.permits.len() > 1 {
            return Some("a mode, where permits are many");
        }
        self.refuses_request(waiter)
    }

    /// A request has come that is not plain.
    #[inline(never)]
    pub(super) fn on_ask(&mut self, waiter: Waiter, demand: Demand) -> Option<Order> {
        if demand.mode == Mode::Exclusive {
            return self.append_or(waiter, |dispatcher| dispatcher.enqueue(waiter, demand));
        }
        self.last[waiter.site.index()] = waiter.number;
        self.enqueue(waiter, demand);
        self.next_order()
    }

    /// Whether the permit is out, or on its way here, and `waiter` may have it.
    fn may_have_permit(&self, waiter: Waiter) -> bool {
        self.sharing.is_none()
            && self.permits.iter().any(|record| record.home.is_none() && record.chain.contains(&waiter))
    }

    /// Whether this request was granted, and has ended.
    fn is_over(&self, waiter: Waiter) -> bool {
        waiter.number <= self.last[waiter.site.index()]
            && !self.queue.iter().any(|queued| queued.waiter() == waiter)
            && !self.permits.iter().any(|record| record.chain.contains(&waiter))
    }

    /// A site tells that it has left, or changes its mode. What comes after the end of its request was overtaken by that, and changes nothing.
    pub(super) fn on_news(&mut self, waiter: Waiter, news: News) -> Result<(), Refusal> {
        if self.permits.len() > 1 {
            return Err("a mode, where permits are many");
        }
        if let Some(sharing) = &mut self.sharing
            && let Some(sharer) = sharing.find(waiter)
        {
            return match news {
                News::Left => {
                    sharing.inside.retain(|sharer| sharer.waiter != waiter);
                    Ok(())
                }
                News::Upgrades { change } => sharer.hear(change, Mode::Exclusive),
                News::Lowered { to: Mode::Exclusive, .. } => Err(NOT_FROM_THERE),
                News::Lowered { change, to } => sharer.hear(change, to),
            };
        }
        if self.may_have_permit(waiter) {
            return self.note_early(EarlyNews { waiter, news });
        }
        if news != News::Left && self.is_over(waiter) { Ok(()) } else { Err(NOT_INSIDE) }
    }

    /// Keeps the latest news of the site that is bringing the permit home. Nobody else can have any.
    fn note_early(&mut self, early: EarlyNews) -> Result<(), Refusal> {
        let known = self.early.take().filter(|known| self.may_have_permit(known.waiter));
        let (kept, result) = match known {
            Some(known) if known.waiter != early.waiter => (known, Err(NOT_INSIDE)),
            Some(known) if !early.news.is_after(known.news) => (known, Ok(())),
            Some(_) | None => (Box::new(early), Ok(())),
        };
        self.early = Some(kept);
        result
    }

    /// `last` has handed the permit back, and stays inside in this mode. The rest of its chain is served first, after it.
    pub(super) fn on_downgrade(&mut self, last: Waiter, change: u64, to: Mode, permit: Box<Permit>) {
        let slot = permit.slot.0 as usize;
        self.on_release(last, permit);
        let Some(permit) = self.permits[slot].home.take() else { return };
        let mut sharing = Box::new(Sharing::new(permit));
        sharing.add(Sharer { heard: Some(change), ..Sharer::new(last, to, false) });
        self.sharing = Some(sharing);
        let early = self.early.take().filter(|early| early.waiter == last);
        if let Some(early) = early.filter(|_| !mutant::is_on(Mutant::DelegatedEarlyForgotten)) {
            // What cannot follow is nothing that a correct site says, and says nothing now.
            let _ = self.on_news(last, early.news);
        }
    }

    /// From now on the permit is shared. Nobody is inside yet: `settle` lets the first ones in.
    #[inline(never)]
    pub(super) fn begin_sharing(&mut self, permit: Box<Permit>) -> Order {
        self.sharing = Some(Box::new(Sharing::new(permit)));
        Order::Settle
    }

    /// What follows from the last change among those who share, or wait for them: who may join them joins, who upgrades and is alone is
    /// exclusive, and the permit that nobody shares any more goes to whoever is next.
    #[inline(never)]
    pub(super) fn settle(&mut self) -> Orders {
        let mut orders = Orders::new();
        self.admit(&mut orders);
        let Some(sharing) = &mut self.sharing else { return orders };
        let beside = mutant::is_on(Mutant::DelegatedUpgradeBesideReader);
        let alone = sharing.inside.len() == 1 || beside;
        if let Some(sharer) = sharing.inside.iter_mut().find(|sharer| alone && sharer.upgrading) {
            sharer.upgrading = false;
            sharer.mode = Mode::Exclusive;
            orders.extend(sharer.heard.map(|change| Order::Upgraded(sharer.waiter, change)));
        }
        let upgrades = sharing.inside.iter().any(|sharer| sharer.upgrading);
        if !self.queue.is_empty() || upgrades {
            let forgotten = mutant::is_on(Mutant::DelegatedForgottenClose);
            for sharer in sharing.inside.iter_mut().filter(|sharer| sharer.open) {
                sharer.open = false;
                orders.extend((!forgotten).then_some(Order::Close(sharer.waiter)));
            }
        }
        if sharing.inside.is_empty()
            && let Some(over) = self.sharing.take()
        {
            let slot = over.permit.slot.0 as usize;
            self.permits[slot].home = Some(over.permit);
            orders.extend(self.next_grant());
        }
        orders
    }

    /// Lets in all at the head of the queue that may be inside together with those who are, up to the first that may not. If nobody
    /// is left behind, they may let others of their sites in.
    fn admit(&mut self, orders: &mut Orders) {
        let joiners = self.joiners();
        let Some(sharing) = &mut self.sharing else { return };
        let open = self.opens && joiners == self.queue.len();
        for next in self.queue.drain(..joiners) {
            sharing.add(Sharer::new(next.waiter(), next.mode, open));
            orders.push(Order::Share(next.waiter(), open));
        }
        self.queued_sharers -= joiners;
        self.issued += u64::from(joiners > 0);
    }

    /// How many at the head of the queue may join those who share. Nobody passes the rest of a chain.
    fn joiners(&self) -> usize {
        let Some(sharing) = &self.sharing else { return 0 };
        let rest = &self.permits[sharing.permit.slot.0 as usize].chain;
        if rest.is_empty() { sharing.joiners(self.queue.iter().map(|queued| queued.mode)) } else { 0 }
    }

    /// Who shares, as far as the leader knows.
    pub(super) fn sharers(&self) -> impl Iterator<Item = &Sharer> {
        self.sharing.iter().flat_map(|sharing| &sharing.inside)
    }

    /// The numbered invariants of sharing.
    pub(super) fn check_sharing(&self) -> Result<(), &'static str> {
        let Some(sharing) = &self.sharing else { return Ok(()) };
        let inside = &sharing.inside;
        let chain = &self.permits[sharing.permit.slot.0 as usize].chain;
        let excludes = |(at, one): (usize, &Sharer)| {
            let later = inside.iter().skip(at + 1);
            later.into_iter().any(|other| !one.mode.admits(other.mode))
        };
        invariant!(
            !inside.is_empty() && !inside.iter().enumerate().any(excludes),
            "I8: while the permit is shared somebody is inside, and all who are admit each other"
        );
        let upgrades = inside.iter().any(|sharer| sharer.upgrading);
        invariant!(self.joiners() == 0, "I9: whoever waits first may not join those who share");
        let is_waited_for = upgrades || !self.queue.is_empty() || !chain.is_empty();
        invariant!(
            !is_waited_for || inside.iter().all(|sharer| !sharer.open),
            "I10: while anyone waits, none of those who share is open"
        );
        Ok(())
    }
}
