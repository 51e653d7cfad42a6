//! The same sites as a model of `stateright`, written without the explorer's table, packing and store.
//!
//! A state consists of the sites, the processes and the channels; a step is one call of a site. `stateright` must reach as many states
//! by as many steps as the explorer.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash};

use foldhash::quality::FixedState;
use meshlock_check::{Bounds, Entries};
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::world::Delivery;
use meshlock_protocol::{Algorithm, Demand, Effect, Mode, Outbox, Phase, SiteId};
use stateright::{Model, Property};

/// The model. It has no failures, losses or duplicates.
pub(crate) struct Peer<A: Algorithm> {
    pub(crate) bounds: Bounds,
    /// All sites at the start.
    sites: Vec<A>,
}

/// One site with its process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Post<A> {
    site: A,
    phase: Phase,
    /// While the process is not idle: the mode in which it waits or is inside, whether it waits to be exclusive, and how often it has
    /// changed its mode.
    mode: Option<Mode>,
    upgrades: bool,
    changes: u8,
    asked: u8,
    timers: u8,
}

/// A state. It contains a channel only while a message is on its way in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Moment<A: Algorithm> {
    posts: Vec<Post<A>>,
    channels: BTreeMap<(SiteId, SiteId), Vec<A::Message>>,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Deliver { from: SiteId, to: SiteId, nth: usize },
    Wake(SiteId),
    Request(SiteId, Demand),
    Release(SiteId),
    Change(SiteId, Mode),
}

impl<A: Algorithm> Peer<A> {
    pub(crate) fn new(bounds: &Bounds, values: &Values) -> Self {
        assert!(bounds.crashes + bounds.duplicates + bounds.losses == 0 && !bounds.returns);
        let plan = meshlock_protocol::registry::plan::<A>(bounds.cluster, values);
        let plan = plan.expect("the caller's bounds are right");
        let sites = SiteId::all(bounds.cluster.sites).map(|me| A::start(&plan, me, &bounds.holders));
        Peer { sites: sites.collect(), bounds: bounds.clone() }
    }

    fn may_ask(&self, post: &Post<A>) -> bool {
        match self.bounds.entries {
            Entries::Each(entries) => post.asked < entries,
            Entries::Endless => true,
        }
    }

    fn perform(&self, moment: &mut Moment<A>, site: SiteId, outbox: &mut Outbox<A::Message>) {
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to, message } => {
                    let channel = moment.channels.entry((site, to)).or_default();
                    channel.push(message);
                    if self.bounds.delivery == Delivery::Unordered {
                        // An unordered channel is a multiset, which is kept in one canonical order.
                        channel.sort_by_key(|message| FixedState::with_seed(1).hash_one(message));
                    }
                }
                Effect::Enter { .. } => moment.posts[site.index()].phase = Phase::Executing,
                Effect::Timer { .. } => moment.posts[site.index()].timers += 1,
                Effect::Upgraded => {
                    let post = &mut moment.posts[site.index()];
                    (post.mode, post.upgrades) = (Some(Mode::Exclusive), false);
                }
                // It does not try other choices: what it explores has none.
                Effect::Chose { .. } => panic!("a choice that only the explorer tries"),
                Effect::Misbehaved { .. } => {}
            }
        }
    }
}

impl<A: Algorithm> Moment<A> {
    fn take(&mut self, from: SiteId, to: SiteId, nth: usize) -> A::Message {
        let channel = self.channels.get_mut(&(from, to)).expect("a channel with messages");
        let message = channel.remove(nth);
        if channel.is_empty() {
            self.channels.remove(&(from, to));
        }
        message
    }

    fn is_safe(&self, permits: usize) -> bool {
        let inside: Vec<&Post<A>> = self.posts.iter().filter(|post| post.phase == Phase::Executing).collect();
        let count = |mode| inside.iter().filter(|post| post.mode == Some(mode)).count();
        let [shared, upgradeable, exclusive] = Mode::ALL.map(count);
        exclusive <= permits && upgradeable <= 1 && (exclusive == 0 || shared + upgradeable == 0)
    }

    /// Returns whether this is a deadlock: no message or timer is left, no site is inside, and a site waits.
    fn is_stuck(&self) -> bool {
        let idle = |post: &Post<A>| (post.phase != Phase::Executing || post.upgrades) && post.timers == 0;
        self.channels.is_empty()
            && self.posts.iter().all(idle)
            && self.posts.iter().any(|post| post.phase == Phase::Waiting || post.upgrades)
    }
}

impl<A: Algorithm> Model for Peer<A> {
    type State = Moment<A>;
    type Action = Event;

    fn init_states(&self) -> Vec<Moment<A>> {
        let posts = self.sites.iter().map(|site| Post {
            site: site.clone(),
            phase: site.phase(),
            mode: (site.phase() != Phase::Idle).then(|| site.mode()),
            upgrades: false,
            changes: 0,
            asked: 0,
            timers: 0,
        });
        vec![Moment { posts: posts.collect(), channels: BTreeMap::new() }]
    }

    fn actions(&self, moment: &Moment<A>, events: &mut Vec<Event>) {
        for (&(from, to), channel) in &moment.channels {
            for nth in 0..channel.len() {
                let offered = match self.bounds.delivery {
                    Delivery::Fifo => nth == 0,
                    Delivery::Unordered => !channel[..nth].contains(&channel[nth]),
                };
                if offered {
                    events.push(Event::Deliver { from, to, nth });
                }
            }
        }
        for (site, post) in SiteId::all(moment.posts.len()).zip(&moment.posts) {
            if post.timers > 0 {
                events.push(Event::Wake(site));
            }
            match post.phase {
                Phase::Executing => {
                    events.push(Event::Release(site));
                    let asked = |to: &Mode| self.bounds.demands.iter().any(|demand| demand.mode == *to);
                    let may = |to: &Mode| post.mode.is_some_and(|mode| mode.may_become(*to)) && asked(to);
                    if !post.upgrades && post.changes < self.bounds.changes {
                        events.extend(Mode::ALL.into_iter().filter(may).map(|to| Event::Change(site, to)));
                    }
                }
                Phase::Idle if self.may_ask(post) => {
                    events.extend(self.bounds.demands.iter().map(|&demand| Event::Request(site, demand)));
                }
                Phase::Idle | Phase::Waiting => {}
            }
        }
    }

    fn next_state(&self, moment: &Moment<A>, event: Event) -> Option<Moment<A>> {
        let (mut next, mut outbox) = (moment.clone(), Outbox::new());
        let site = match event {
            Event::Deliver { from, to, nth } => {
                let message = next.take(from, to, nth);
                next.posts[to.index()].site.receive(from, message, &mut outbox);
                to
            }
            Event::Wake(site) => {
                let post = &mut next.posts[site.index()];
                post.timers -= 1;
                post.site.wake(&mut outbox);
                site
            }
            Event::Request(site, demand) => {
                let post = &mut next.posts[site.index()];
                (post.phase, post.mode) = (Phase::Waiting, Some(demand.mode));
                post.asked += u8::from(self.bounds.entries != Entries::Endless);
                post.site.request_as(demand, &mut outbox);
                site
            }
            Event::Release(site) => {
                let post = &mut next.posts[site.index()];
                (post.phase, post.mode) = (Phase::Idle, None);
                (post.upgrades, post.changes) = (false, 0);
                post.site.release(&mut outbox);
                site
            }
            Event::Change(site, to) => {
                let post = &mut next.posts[site.index()];
                post.changes += 1;
                if to == Mode::Exclusive {
                    post.upgrades = true;
                } else {
                    post.mode = Some(to);
                }
                post.site.change_mode(to, &mut outbox);
                site
            }
        };
        self.perform(&mut next, site, &mut outbox);
        Some(next)
    }

    /// Checks one property only, so that `stateright` stops at the first violation, which has the smallest depth.
    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("safe and not stuck", |peer: &Self, moment: &Moment<A>| {
            moment.is_safe(peer.bounds.cluster.permits) && !moment.is_stuck()
        })]
    }

    fn within_boundary(&self, moment: &Moment<A>) -> bool {
        moment.posts.iter().all(|post| post.site.is_within_bounds())
    }
}
