//! The part of a site that knows modes and priorities: requests that are not plain, sharing, upgrades and downgrades.
//!
//! None of it is inlined, so that the code that plain requests run through stays as small as it was.

use crate::mutant::{self, Mutant};
use crate::{Demand, Mode, Outbox, SiteId};

use super::message::{Message, Permit, Waiter};
use super::sharing::News;
use super::{Delegated, DelegatedState};

const NOT_THE_LEADER: &str = "a word of the leader's from a site that does not lead";

// As a member.
impl Delegated {
    /// Ask the leader for what is not plain.
    #[inline(never)]
    pub(super) fn ask(&mut self, demand: Demand, out: &mut Outbox<Message>) {
        assert!(self.state == DelegatedState::Idle, "the host requests only while the process is idle");
        self.number += 1;
        self.state = match demand.mode {
            Mode::Exclusive => DelegatedState::Waiting { next: None },
            mode @ (Mode::Shared | Mode::Upgradeable) => DelegatedState::Asking { mode, closed: false },
        };
        if self.dispatcher.is_some() {
            self.on_ask(self.waiter(), demand, out);
        } else {
            out.send(self.setup.leader, Message::Ask { number: self.number, demand });
        }
    }

    /// A downgrade takes effect here and now; an upgrade when the leader says so. Whoever has the permit brings it home on a downgrade.
    pub(super) fn begin_change(&mut self, to: Mode, out: &mut Outbox<Message>) {
        assert!(self.setup.cluster.permits == 1, "modes are for one permit");
        self.changes += 1;
        let (me, change) = (self.waiter(), self.changes);
        match std::mem::replace(&mut self.state, DelegatedState::Idle) {
            DelegatedState::Executing { permit } if to != Mode::Exclusive => {
                self.state = DelegatedState::Sharing { mode: to, upgrading: false, open: false };
                self.bring_home(permit, to, out);
            }
            DelegatedState::Sharing { mode, upgrading: false, open } if mode.may_become(to) => {
                let upgrading = to == Mode::Exclusive;
                let mode = if upgrading { mode } else { to };
                self.state = DelegatedState::Sharing { mode, upgrading, open: open && !upgrading };
                let news = if upgrading { News::Upgrades { change } } else { News::Lowered { change, to } };
                self.tell(me, news, out);
            }
            DelegatedState::Idle
            | DelegatedState::Waiting { .. }
            | DelegatedState::Asking { .. }
            | DelegatedState::Executing { .. }
            | DelegatedState::Sharing { .. } => {
                panic!("the host changes modes only of a process that is inside, to one that it may become")
            }
        }
    }

    /// Those who follow in the chain are known to the leader.
    fn bring_home(&mut self, mut permit: Box<Permit>, to: Mode, out: &mut Outbox<Message>) {
        let (me, change) = (self.waiter(), self.changes);
        if mutant::is_on(Mutant::DelegatedDowngradeLetsWriterIn) && !permit.next.is_empty() {
            return self.hand_on(me, permit, out);
        }
        permit.next.clear();
        if self.dispatcher.is_some() {
            self.on_downgrade(me, change, to, permit, out);
        } else {
            let message = Message::Downgrade { number: me.number, change, to, permit: Some(permit) };
            out.send(self.setup.leader, message);
        }
    }

    /// Tell the leader what has become of my request `me`.
    #[inline(never)]
    pub(super) fn tell(&mut self, me: Waiter, news: News, out: &mut Outbox<Message>) {
        let leader = self.setup.leader;
        if self.dispatcher.is_some() {
            return self.on_news(me, news, out);
        }
        let number = me.number;
        match news {
            News::Left => out.send(leader, Message::Done { number }),
            News::Upgrades { change } => out.send(leader, Message::Upgrade { number, change }),
            News::Lowered { change, to } => {
                out.send(leader, Message::Downgrade { number, change, to, permit: None });
            }
        }
    }

    /// Enter, if it is meant for the request that waits here.
    #[inline(never)]
    pub(super) fn on_share(&mut self, from: SiteId, number: u64, open: bool, out: &mut Outbox<Message>) {
        let asks = matches!(self.state, DelegatedState::Asking { .. }) && number == self.number;
        if !asks || from != self.setup.leader {
            return out.misbehaved(from, "a share that nobody waits for");
        }
        self.become_sharing(open, out);
    }

    pub(super) fn become_sharing(&mut self, open: bool, out: &mut Outbox<Message>) {
        let DelegatedState::Asking { mode, closed } = self.state else {
            unreachable!("I12: the leader lets in to share only whoever asks for that")
        };
        self.state = DelegatedState::Sharing { mode, upgrading: false, open: open && !closed };
        out.enter();
    }

    /// From now on nobody of my site joins me. Too late if I am out already.
    #[inline(never)]
    pub(super) fn on_close(&mut self, from: SiteId, number: u64, out: &mut Outbox<Message>) {
        if from != self.setup.leader {
            return out.misbehaved(from, NOT_THE_LEADER);
        }
        let has_permit =
            matches!(self.state, DelegatedState::Waiting { .. } | DelegatedState::Executing { .. });
        if number > self.number || (number == self.number && has_permit) {
            return out.misbehaved(from, "a close for what does not share");
        }
        if number == self.number {
            self.become_closed();
        }
    }

    pub(super) fn become_closed(&mut self) {
        match &mut self.state {
            DelegatedState::Asking { closed, .. } => *closed = true,
            DelegatedState::Sharing { open, .. } => *open = false,
            DelegatedState::Idle | DelegatedState::Waiting { .. } | DelegatedState::Executing { .. } => {}
        }
    }

    /// Exclusive from now on. Too late if I am out already.
    #[inline(never)]
    pub(super) fn on_upgraded(&mut self, from: SiteId, number: u64, change: u64, out: &mut Outbox<Message>) {
        if from != self.setup.leader {
            return out.misbehaved(from, NOT_THE_LEADER);
        }
        let waits = matches!(self.state, DelegatedState::Sharing { upgrading: true, .. });
        if waits && (number, change) == (self.number, self.changes) {
            return self.become_exclusive(out);
        }
        let has_left = number < self.number || (number == self.number && self.state == DelegatedState::Idle);
        if !has_left || change > self.changes {
            out.misbehaved(from, "an upgrade that nobody waits for");
        }
    }

    pub(super) fn become_exclusive(&mut self, out: &mut Outbox<Message>) {
        self.state = DelegatedState::Sharing { mode: Mode::Exclusive, upgrading: false, open: false };
        out.upgraded();
    }
}

// As the leader.
impl Delegated {
    pub(super) fn on_ask(&mut self, waiter: Waiter, demand: Demand, out: &mut Outbox<Message>) {
        let Some(dispatcher) = &mut self.dispatcher else {
            return out.misbehaved(waiter.site, "a request to a site that does not lead");
        };
        if let Some(why) = dispatcher.refuses_demand(waiter, demand) {
            return out.misbehaved(waiter.site, why);
        }
        if let Some(order) = dispatcher.on_ask(waiter, demand) {
            self.carry_out(order, out);
        }
    }

    #[inline(never)]
    pub(super) fn on_news(&mut self, waiter: Waiter, news: News, out: &mut Outbox<Message>) {
        let Some(dispatcher) = &mut self.dispatcher else {
            return out.misbehaved(waiter.site, "news for a site that does not lead");
        };
        match dispatcher.on_news(waiter, news) {
            Ok(()) => self.settle(out),
            Err(why) => out.misbehaved(waiter.site, why),
        }
    }

    #[inline(never)]
    pub(super) fn on_downgrade(
        &mut self,
        last: Waiter,
        change: u64,
        to: Mode,
        permit: Box<Permit>,
        out: &mut Outbox<Message>,
    ) {
        if to == Mode::Exclusive || self.setup.cluster.permits > 1 {
            return out.misbehaved(last.site, "a downgrade to what is not lower");
        }
        let Some(dispatcher) = self.accept_release(last, &permit, out) else { return };
        dispatcher.on_downgrade(last, change, to, permit);
        self.settle(out);
    }

    #[inline(never)]
    pub(super) fn settle(&mut self, out: &mut Outbox<Message>) {
        let orders = self.dispatcher.as_mut().map(|dispatcher| dispatcher.settle());
        for order in orders.into_iter().flatten() {
            self.carry_out(order, out);
        }
    }
}
