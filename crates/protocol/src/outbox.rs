//! Effects: what a site asks of its host, as plain values in order.

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
    /// Call [`Site::wake`](crate::Site::wake) once, after `delays` times the longest message delay.
    Timer {
        /// The time, in units of the longest message delay T.
        delays: u32,
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
            Effect::Timer { delays } => Effect::Timer { delays },
            Effect::Misbehaved { peer, why } => Effect::Misbehaved { peer, why },
        }
    }
}

/// Collects the effects of a call. The host empties it after each call and reuses it: at steady state it does
/// not allocate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outbox<M> {
    effects: Vec<Effect<M>>,
}

impl<M> Default for Outbox<M> {
    fn default() -> Self {
        Outbox { effects: Vec::new() }
    }
}

impl<M> Outbox<M> {
    /// An empty outbox.
    pub fn new() -> Self {
        Outbox::default()
    }

    /// Sends `message` to `to`.
    pub fn send(&mut self, to: SiteId, message: M) {
        self.effects.push(Effect::Send { to, message });
    }

    /// Lets the process of this site into the critical section.
    pub fn enter(&mut self) {
        self.enter_slot(Slot::default());
    }

    /// Lets the process of this site into the critical section, on the permit `slot`.
    pub fn enter_slot(&mut self, slot: Slot) {
        self.effects.push(Effect::Enter { slot });
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
