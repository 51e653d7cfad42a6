//! Effects: what a site asks of its host, as plain values in order.

use crate::choice::Chooser;
use crate::{SiteId, SiteSet};

/// The number of the permit that a grant uses, where the algorithm numbers its K tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Slot(pub u32);

/// The reason for refusing a message whose sender is not another site of the view.
pub const NOT_A_PEER: &str = "not another site of this view";

/// One effect of a call: something that a site asks of its host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect<M> {
    /// Send `message` to the site `to`, which is never the sender itself.
    Send { to: SiteId, message: M },
    /// The process at this site is in the critical section from now on, until the host calls `release`.
    Enter {
        /// The permit it uses, where permits are numbered.
        slot: Slot,
    },
    /// The process at this site, which is inside, is exclusive from now on.
    Upgraded,
    /// Call [`Site::wake`](crate::Site::wake) once, after `delays` times the longest message delay.
    Timer {
        /// The time, in units of the longest message delay T.
        delays: u32,
    },
    /// Nothing to do: the site asked for a choice and was answered.
    Chose {
        /// The alternative that was chosen, from 0.
        taken: u32,
        /// The number of alternatives, at least two.
        of: u32,
    },
    /// `peer` sent what no correct peer could have sent; the site's state is unchanged.
    Misbehaved {
        /// The sender.
        peer: SiteId,
        why: &'static str,
    },
}

impl<M> Effect<M> {
    /// The same effect with another message, if it sends one.
    pub fn map<N>(self, message_of: impl FnOnce(M) -> N) -> Effect<N> {
        match self {
            Effect::Send { to, message } => Effect::Send { to, message: message_of(message) },
            Effect::Enter { slot } => Effect::Enter { slot },
            Effect::Upgraded => Effect::Upgraded,
            Effect::Timer { delays } => Effect::Timer { delays },
            Effect::Chose { taken, of } => Effect::Chose { taken, of },
            Effect::Misbehaved { peer, why } => Effect::Misbehaved { peer, why },
        }
    }
}

/// Collects the effects of a call, and answers what the call leaves open. The host empties it after each call and reuses it: at
/// steady state it does not allocate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outbox<M> {
    effects: Vec<Effect<M>>,
    chooser: Chooser,
}

impl<M> Default for Outbox<M> {
    fn default() -> Self {
        Outbox { effects: Vec::new(), chooser: Chooser::First }
    }
}

impl<M> Outbox<M> {
    /// An empty outbox, which takes the first alternative of every choice.
    pub fn new() -> Self {
        Outbox::default()
    }

    /// An empty outbox, which asks `chooser`.
    pub fn choosing(chooser: Chooser) -> Self {
        Outbox { effects: Vec::new(), chooser }
    }

    /// From now on asks `chooser`.
    pub fn set_chooser(&mut self, chooser: Chooser) {
        self.chooser = chooser;
    }

    /// The source of answers.
    pub(crate) fn chooser_mut(&mut self) -> &mut Chooser {
        &mut self.chooser
    }

    /// Exchanges the sources of answers of two outboxes.
    pub(crate) fn swap_chooser<N>(&mut self, other: &mut Outbox<N>) {
        std::mem::swap(&mut self.chooser, &mut other.chooser);
    }

    /// Asks the host for one of `of` alternatives that the paper leaves open; they are numbered from 0. The answer shows among the
    /// effects, unless there is only one alternative.
    pub fn choose(&mut self, of: usize) -> usize {
        assert!(of > 0, "a choice has an alternative");
        if of == 1 {
            return 0;
        }
        let of = u32::try_from(of).expect("fewer than 2^32 alternatives");
        let taken = self.chooser.answer(of);
        self.effects.push(Effect::Chose { taken, of });
        taken as usize
    }

    /// Brings `items` into any order, which the host chooses.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        self.shuffle_first(items.len(), items);
    }

    /// Brings any `count` of `items` to their front, which the host chooses, in any order.
    pub fn shuffle_first<T>(&mut self, count: usize, items: &mut [T]) {
        for at in 0..count.min(items.len()) {
            let chosen = at + self.choose(items.len() - at);
            items.swap(at, chosen);
        }
    }

    /// Sends `message` to `to`.
    #[inline]
    pub fn send(&mut self, to: SiteId, message: M) {
        self.effects.push(Effect::Send { to, message });
    }

    /// Lets the process of this site into the critical section.
    pub fn enter(&mut self) {
        self.enter_slot(Slot::default());
    }

    /// Lets the process of this site into the critical section, on the permit `slot`.
    #[inline]
    pub fn enter_slot(&mut self, slot: Slot) {
        self.effects.push(Effect::Enter { slot });
    }

    /// Lets the process of this site, which is inside, go on in exclusive mode, as it has asked.
    pub fn upgraded(&mut self) {
        self.effects.push(Effect::Upgraded);
    }

    /// Asks to be woken after `delays` times the longest message delay.
    pub fn set_timer(&mut self, delays: u32) {
        self.effects.push(Effect::Timer { delays });
    }

    /// Reports that `peer` sent what no correct peer could have sent.
    pub fn misbehaved(&mut self, peer: SiteId, why: &'static str) {
        self.effects.push(Effect::Misbehaved { peer, why });
    }

    /// The effects so far, in order.
    pub fn effects(&self) -> &[Effect<M>] {
        &self.effects
    }

    /// Takes the effects out, in order, and leaves the outbox empty with its memory.
    pub fn drain(&mut self) -> impl Iterator<Item = Effect<M>> + '_ {
        self.effects.drain(..)
    }
}

impl<M> Extend<Effect<M>> for Outbox<M> {
    fn extend<I: IntoIterator<Item = Effect<M>>>(&mut self, effects: I) {
        self.effects.extend(effects);
    }
}

impl<M: Clone> Outbox<M> {
    /// Sends a copy of `message` to every site of `to`.
    pub fn send_all(&mut self, to: &SiteSet, message: &M) {
        for site in to.iter() {
            self.send(site, message.clone());
        }
    }

    /// Sends a copy of `message` to all of `0..sites` but `me`.
    pub fn broadcast(&mut self, me: SiteId, sites: usize, message: &M) {
        for site in SiteId::all(sites).filter(|&site| site != me) {
            self.send(site, message.clone());
        }
    }
}
