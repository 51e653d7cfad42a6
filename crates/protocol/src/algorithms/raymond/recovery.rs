//! Section 9.12.7: a site that had failed learns from its neighbours where the privilege is.
//!
//! It has lost everything but its incarnation. It sends RESTART to its neighbours, and each answers with ADVISE. If
//! one of them does not have it for its HOLDER, the privilege is on that side; if all have, the privilege was here, or
//! was lost on its way here, and so it is here now. In the meantime requests, also its own, are queued and not acted
//! on.
//!
//! A privilege that the failed site had sent has arrived before anyone learns of the failure, so every neighbour's
//! HOLDER is right when it advises, and stays right: nothing crosses the edge while one end recovers. Whatever the
//! neighbour had sent before its ADVISE is covered by it.
//!
//! Where neighbours recover at the same time, each answers the other as soon as it can: at once if the other's
//! ADVISE has come, else when only that one is missing: then it says "not on my side" if all the rest said so.

use crate::registry::info::Text;
use crate::{Outbox, Phase, SiteId};

use super::{Edge, Holder, Message, Raymond};

/// How long the printed recovery waits for advice, in message delays. It is only a guess: a message may take longer.
const DELAY: u32 = 2;

/// What a recovering site has learnt so far.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Recovery {
    /// How many neighbours have not advised yet.
    missing: usize,
    /// The neighbour that does not have me for its HOLDER: the privilege is behind it.
    behind: Option<SiteId>,
    /// One for each neighbour, in the tree's order.
    talks: Box<[Talk]>,
}

/// What has passed between a recovering site and one neighbour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Talk {
    /// Its ADVISE has come.
    advised: bool,
    /// It recovers too, and I owe it an ADVISE.
    owed: bool,
    /// I have told it that the privilege is not on my side before its ADVISE came.
    yielded: bool,
}

/// The content of an ADVISE, seen from its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Advice {
    pub(super) holder_is_me: bool,
    pub(super) asked: bool,
    pub(super) crossings: u64,
}

impl Recovery {
    fn new(neighbours: usize) -> Self {
        Recovery { missing: neighbours, behind: None, talks: vec![Talk::default(); neighbours].into() }
    }

    pub(super) fn has_advised(&self, place: usize) -> bool {
        self.talks[place].advised
    }

    /// Whether the privilege is known to be behind `neighbour`.
    pub(super) fn is_behind(&self, neighbour: SiteId) -> bool {
        self.behind == Some(neighbour)
    }
}

impl Raymond {
    /// I run again: ask all neighbours.
    pub(super) fn on_own_restart(&mut self, out: &mut Outbox<Message>) {
        self.incarnation = self.incarnation.saturating_add(1);
        self.phase = Phase::Idle;
        self.queue.clear();
        self.edges.fill(Edge::default());
        self.holder = Holder::Sought(Box::new(Recovery::new(self.edges.len())));
        for neighbour in self.tree.neighbours(self.me) {
            out.send(neighbour, Message::Restart { incarnation: self.incarnation });
        }
        if self.text == Text::Printed {
            out.set_timer(DELAY);
        }
        self.finish_recovery(out);
    }

    /// As printed: the delay is over, and what has come must do. Where nothing has, the site waits once more.
    pub(super) fn on_delay_over(&mut self, out: &mut Outbox<Message>) {
        let Holder::Sought(recovery) = &mut self.holder else { return };
        if recovery.talks.iter().all(|talk| !talk.advised) {
            return out.set_timer(DELAY);
        }
        recovery.missing = 0;
        self.finish_recovery(out);
    }

    /// A failed neighbour wants nothing any more. What it had from its other neighbours it will ask for again.
    pub(super) fn on_failure_of(&mut self, peer: SiteId) {
        if let Some(place) = self.tree.place(self.me, peer) {
            self.unqueue(peer, place);
        }
    }

    /// A neighbour runs again: tell it what it needs to know.
    pub(super) fn on_restart(
        &mut self,
        from: SiteId,
        place: usize,
        incarnation: u32,
        out: &mut Outbox<Message>,
    ) {
        if incarnation <= self.edges[place].incarnation {
            // A RESTART is sent again to a neighbour that restarts too, so this may be the second one.
            return;
        }
        self.edges[place].incarnation = incarnation;
        self.unqueue(from, place);
        match &mut self.holder {
            Holder::Me => self.advise(from, place, false, false, out),
            Holder::Via { neighbour, asked } => {
                let (to_it, asked) = (*neighbour == from, *asked);
                self.advise(from, place, to_it, to_it && asked, out);
            }
            // Failures during the first INITIALIZE are the host's: it starts again.
            Holder::Unknown => {}
            Holder::Sought(recovery) => {
                recovery.talks[place].owed = true;
                if !recovery.talks[place].advised {
                    // My own RESTART may have reached it while it was down.
                    out.send(from, Message::Restart { incarnation: self.incarnation });
                }
                self.advise_where_possible(from, place, out);
            }
        }
    }

    /// What a neighbour knows. When all have spoken, the site is as good as before.
    pub(super) fn on_advise(
        &mut self,
        from: SiteId,
        place: usize,
        incarnation: u32,
        advice: Advice,
        out: &mut Outbox<Message>,
    ) {
        if incarnation < self.incarnation {
            return; // For a former incarnation.
        }
        let Holder::Sought(recovery) = &mut self.holder else {
            if self.text == Text::Repaired {
                out.misbehaved(from, "advice that nobody waits for");
            }
            return;
        };
        let talk = &mut recovery.talks[place];
        if incarnation > self.incarnation || talk.advised {
            return out.misbehaved(from, "advice that nobody waits for");
        }
        // Each said that the privilege is not on its side: it was lost between the two, and the smaller id takes it.
        let both_yielded = talk.yielded && advice.holder_is_me;
        let behind = !advice.holder_is_me || (both_yielded && from < self.me);
        if behind && recovery.behind.is_some() {
            return out.misbehaved(from, "advice that puts the privilege on two sides");
        }
        talk.advised = true;
        recovery.missing -= 1;
        if behind {
            recovery.behind = Some(from);
        }
        self.take_advice(from, place, advice);
        self.advise_where_possible(from, place, out);
        self.advise_the_last_missing(out);
        self.finish_recovery(out);
    }

    /// A request that came before the advice counts if it was made after it; what was made before is in the advice.
    fn take_advice(&mut self, from: SiteId, place: usize, advice: Advice) {
        let later_request = self.edges[place].queued && self.edges[place].crossings == advice.crossings;
        self.edges[place].crossings = advice.crossings;
        let waits = advice.holder_is_me && (advice.asked || later_request);
        if !waits {
            self.unqueue(from, place);
        } else if !std::mem::replace(&mut self.edges[place].queued, true) {
            self.queue.push_back(from);
        }
    }

    /// Answers the RESTART of a neighbour if this recovering site knows on which side of their edge the privilege is,
    /// or can know no more before it hears the neighbour itself.
    fn advise_where_possible(&mut self, to: SiteId, place: usize, out: &mut Outbox<Message>) {
        let Holder::Sought(recovery) = &mut self.holder else { return };
        let talk = &mut recovery.talks[place];
        if !talk.owed || !(talk.advised || recovery.missing == 1) {
            return;
        }
        talk.owed = false;
        let to_it = if talk.advised {
            recovery.behind == Some(to)
        } else {
            talk.yielded = recovery.behind.is_none();
            // Both ends have forgotten how often the privilege crossed: count on from above all earlier numbers.
            let edge = &mut self.edges[place];
            edge.crossings = (u64::from(self.incarnation) + u64::from(edge.incarnation)) << 32;
            recovery.behind.is_none()
        };
        self.advise(to, place, to_it, false, out);
    }

    fn advise_the_last_missing(&mut self, out: &mut Outbox<Message>) {
        if let Holder::Sought(recovery) = &self.holder
            && recovery.missing == 1
            && let Some(place) = recovery.talks.iter().position(|talk| !talk.advised)
        {
            let last = self.tree.neighbours(self.me).nth(place).expect("one talk for each neighbour");
            self.advise_where_possible(last, place, out);
        }
    }

    fn advise(&self, to: SiteId, place: usize, to_it: bool, asked: bool, out: &mut Outbox<Message>) {
        let Edge { incarnation, crossings, .. } = self.edges[place];
        out.send(to, Message::Advise { incarnation, holder_is_you: to_it, asked, crossings });
    }

    /// The end of the recovery phase: what was recorded is acted on.
    fn finish_recovery(&mut self, out: &mut Outbox<Message>) {
        let Holder::Sought(recovery) = &self.holder else { return };
        if recovery.missing > 0 {
            return;
        }
        self.holder = match recovery.behind {
            Some(neighbour) => Holder::Via { neighbour, asked: false },
            None => Holder::Me,
        };
        self.assign_privilege(out);
        self.make_request(out);
    }
}
