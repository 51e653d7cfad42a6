//! What a person does in a run, and why an act can be impossible.

use meshlock_protocol::{Algorithm, SiteId, SiteSet};
use meshlock_sim::Time;
use meshlock_sim::faults::Link;
use meshlock_sim::trace::TraceKind;

use super::agenda::Due;
use super::{DETECTION, LineKind, Playback};
use crate::act::{ChosenAct, MessagePlace, UserAct};
use crate::setup::LoadPattern;

/// Why an act is impossible at this point.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActError {
    #[error("there is no site {0}")]
    NoSuchSite(usize),
    /// A site that is busy cannot request.
    #[error("S{0} cannot request: its process waits, is inside, or has failed")]
    CannotRequest(usize),
    /// A site that is not inside cannot leave.
    #[error("S{0} cannot release: its process is not inside")]
    CannotRelease(usize),
    #[error("no message number {nth} is on its way from S{from} to S{to}")]
    NoSuchMessage {
        from: usize,
        to: usize,
        /// The number of older messages of the same pair.
        nth: usize,
    },
    /// The channel keeps its order.
    #[error("channels keep their order in this run: first what S{from} sent to S{to} before it")]
    KeepsOrder { from: usize, to: usize },
    /// A link that is cut delivers nothing.
    #[error("the link between S{0} and S{1} is cut; mend it first")]
    IsCut(usize, usize),
    #[error("S{0} has set no timer")]
    NoTimer(usize),
    #[error("S{0} has failed already")]
    IsDown(usize),
    #[error("S{0} cannot come back: it runs, or not all know yet that it failed")]
    CannotRecover(usize),
    /// The site has nothing to learn.
    #[error("S{to} has nothing to learn about S{about} now")]
    NothingToTell {
        /// The site that should learn it.
        to: usize,
        /// The site that it should learn about.
        about: usize,
    },
    /// The algorithm leaves this fault to its host.
    #[error("{algorithm} leaves {what} to its host; a Meshlock node starts it again with the next view")]
    LeftToHost {
        algorithm: &'static str,
        /// The fault.
        what: &'static str,
    },
    /// The step asks for fewer choices than were given, or one was no alternative.
    #[error(
        "the step does not ask for the choices that follow '_' in the address: it asks for fewer, or offers fewer alternatives; \
         without '_' they are drawn"
    )]
    NoSuchChoice,
    /// The link, or the network, is in that state already.
    #[error("the network is not in a state for that: {0}")]
    Network(&'static str),
}

impl<A: Algorithm> Playback<A> {
    /// Carries out an act with its choices, or returns why it is impossible; then nothing has changed.
    pub(super) fn act_choosing(&mut self, chosen: &ChosenAct) -> Result<(), ActError> {
        if chosen.answers.is_empty() {
            return self.act(&chosen.act);
        }
        let before = self.clone();
        self.world.answer(&chosen.answers);
        let done = self.act(&chosen.act);
        let done = done.and(if self.world.end_answers() { Ok(()) } else { Err(ActError::NoSuchChoice) });
        if done.is_err() {
            *self = before;
        }
        done
    }

    /// Carries out an act, or returns why it is impossible; then nothing has changed.
    fn act(&mut self, act: &UserAct) -> Result<(), ActError> {
        match *act {
            UserAct::Request(site) => self.act_request(site),
            UserAct::Release(site) => self.act_release(site, Self::release),
            UserAct::Return(site) => self.act_release(site, Self::release_and_request),
            UserAct::Deliver(place) => self.act_deliver(place),
            UserAct::Duplicate(place) => self.act_duplicate(place),
            UserAct::Drop(place) => self.act_drop(place),
            UserAct::Delay(place, tenths) => self.act_delay(place, tenths),
            UserAct::Wake(site) => self.act_wake(site),
            UserAct::Fail(site) => self.act_fail(site),
            UserAct::Recover(site) => self.act_recover(site),
            UserAct::Tell { to, about } => self.act_tell(to, about),
            UserAct::Cut(one, other) => self.act_cut(one, other),
            UserAct::Mend(one, other) => self.act_mend(one, other),
            UserAct::Split(ref away) => self.act_split(away),
            UserAct::Heal => self.act_heal(),
        }
    }

    fn exists(&self, site: SiteId) -> Result<(), ActError> {
        if site.index() < self.hosts.len() { Ok(()) } else { Err(ActError::NoSuchSite(site.index())) }
    }

    fn act_request(&mut self, site: SiteId) -> Result<(), ActError> {
        self.exists(site)?;
        if !self.may_request(site) {
            return Err(ActError::CannotRequest(site.index()));
        }
        self.request(site);
        Ok(())
    }

    fn act_release(&mut self, site: SiteId, leave: fn(&mut Self, SiteId)) -> Result<(), ActError> {
        self.exists(site)?;
        if !self.may_release(site) {
            return Err(ActError::CannotRelease(site.index()));
        }
        leave(self, site);
        Ok(())
    }

    /// Checks that the message is in flight and that its channel can deliver it.
    fn can_arrive(&self, MessagePlace { from, to, nth }: MessagePlace) -> Result<(), ActError> {
        self.is_on_its_way(MessagePlace { from, to, nth })?;
        if nth > 0 && self.setup.fifo {
            return Err(ActError::KeepsOrder { from: from.index(), to: to.index() });
        }
        if Link::between(from, to).is_some_and(|link| self.cut.contains(&link)) {
            return Err(ActError::IsCut(from.index(), to.index()));
        }
        Ok(())
    }

    fn is_on_its_way(&self, MessagePlace { from, to, nth }: MessagePlace) -> Result<(), ActError> {
        if self.channels.get(&(from, to)).is_some_and(|channel| nth < channel.len()) {
            Ok(())
        } else {
            Err(ActError::NoSuchMessage { from: from.index(), to: to.index(), nth })
        }
    }

    fn act_deliver(&mut self, place: MessagePlace) -> Result<(), ActError> {
        self.can_arrive(place)?;
        self.arrive(place.from, place.to, place.nth);
        Ok(())
    }

    fn act_duplicate(&mut self, place: MessagePlace) -> Result<(), ActError> {
        self.can_arrive(place)?;
        let MessagePlace { from, to, nth } = place;
        let up = self.world.is_up(to);
        self.note_message(
            if up { LineKind::Traced(TraceKind::Receive) } else { LineKind::Lost },
            from,
            to,
            nth,
        );
        self.has_faults = true;
        let effects = self.world.duplicate_nth(from, to, nth);
        self.perform(to, effects);
        Ok(())
    }

    fn act_drop(&mut self, place: MessagePlace) -> Result<(), ActError> {
        self.is_on_its_way(place)?;
        let MessagePlace { from, to, nth } = place;
        self.note_message(LineKind::Lost, from, to, nth);
        self.forget(from, to, nth);
        self.dropped += 1;
        self.has_faults = true;
        self.world.lose_nth(from, to, nth);
        Ok(())
    }

    /// Delays a message by this many tenths, and what was sent after it where channels keep their order.
    fn act_delay(&mut self, place: MessagePlace, tenths: u32) -> Result<(), ActError> {
        self.is_on_its_way(place)?;
        let MessagePlace { from, to, nth } = place;
        self.note_message(LineKind::Delay, from, to, nth);
        let Some(channel) = self.channels.get_mut(&(from, to)) else { return Ok(()) };
        let due = channel[nth].due().max(self.now) + Time::units(f64::from(tenths) / 10.0);
        let last = if self.setup.fifo { channel.len() } else { nth + 1 };
        for pending in &mut channel[nth..last] {
            self.agenda.remove(pending.key);
            let arrive = Due::Arrive { from, to, number: pending.number };
            pending.key = self.agenda.plan(pending.due().max(due), arrive);
        }
        Ok(())
    }

    fn act_wake(&mut self, site: SiteId) -> Result<(), ActError> {
        let Some((key, _)) = self.agenda.find(|due| due == Due::Wake(site)) else {
            return Err(ActError::NoTimer(site.index()));
        };
        self.agenda.remove(key);
        self.wake(site);
        Ok(())
    }

    fn act_fail(&mut self, site: SiteId) -> Result<(), ActError> {
        self.exists(site)?;
        if !self.world.is_up(site) {
            return Err(ActError::IsDown(site.index()));
        }
        self.note(LineKind::Traced(TraceKind::Fail), site, None);
        self.world.fail(site);
        self.has_faults = true;
        let of_its_process = |due| matches!(due, Due::Ask(at) | Due::Exit(at) | Due::Wake(at) if at == site);
        let to_it = |due| matches!(due, Due::Tell { to, about } if to == site || about == site);
        self.agenda.retain(|due| !of_its_process(due) && !to_it(due));
        (self.hosts[site.index()].backlog, self.hosts[site.index()].exit) = (0, None);
        self.plan_news(site);
        Ok(())
    }

    fn act_recover(&mut self, site: SiteId) -> Result<(), ActError> {
        self.exists(site)?;
        if !self.world.info().failures.recovery {
            return Err(ActError::LeftToHost {
                algorithm: self.world.info().name,
                what: "the return of failed sites",
            });
        }
        if !self.world.can_recover(site) {
            return Err(ActError::CannotRecover(site.index()));
        }
        self.note(LineKind::Traced(TraceKind::Recover), site, None);
        let effects = self.world.recover(site);
        self.perform(site, effects);
        self.plan_news(site);
        if self.setup.load != LoadPattern::Once {
            self.plan_request(site);
        }
        Ok(())
    }

    /// Schedules that the others learn that `about` has failed or runs again.
    fn plan_news(&mut self, about: SiteId) {
        let at = self.now + Time::units(DETECTION);
        for to in self.world.untold(about).iter() {
            self.agenda.plan(at, Due::Tell { to, about });
        }
    }

    fn act_tell(&mut self, to: SiteId, about: SiteId) -> Result<(), ActError> {
        self.exists(to)?;
        self.exists(about)?;
        if !self.world.can_tell(to, about) {
            return Err(ActError::NothingToTell { to: to.index(), about: about.index() });
        }
        self.tell(to, about);
        Ok(())
    }

    fn link(&self, one: SiteId, other: SiteId) -> Result<Link, ActError> {
        self.exists(one)?;
        self.exists(other)?;
        Link::between(one, other).ok_or(ActError::Network("no link joins a site to itself"))
    }

    fn act_cut(&mut self, one: SiteId, other: SiteId) -> Result<(), ActError> {
        let link = self.link(one, other)?;
        if !self.cut.insert(link) {
            return Err(ActError::Network("the link is cut already"));
        }
        self.note(LineKind::Cut, one, Some(other));
        Ok(())
    }

    fn act_mend(&mut self, one: SiteId, other: SiteId) -> Result<(), ActError> {
        let link = self.link(one, other)?;
        if !self.cut.remove(&link) {
            return Err(ActError::Network("the link is whole"));
        }
        self.note(LineKind::Mend, one, Some(other));
        Ok(())
    }

    fn partitions_are_handled(&self) -> Result<(), ActError> {
        if self.world.info().failures.partition {
            Ok(())
        } else {
            Err(ActError::LeftToHost { algorithm: self.world.info().name, what: "partitions" })
        }
    }

    fn act_split(&mut self, away: &SiteSet) -> Result<(), ActError> {
        self.partitions_are_handled()?;
        away.iter().try_for_each(|site| self.exists(site))?;
        if !self.world.away().is_empty() {
            return Err(ActError::Network("it is split already"));
        }
        if away.is_empty() || away.len() == self.hosts.len() {
            return Err(ActError::Network("some sites must be on each side"));
        }
        let crossing = |&(from, to): &(SiteId, SiteId)| away.contains(from) != away.contains(to);
        let lost: Vec<_> = self.channels.keys().copied().filter(crossing).collect();
        for (from, to) in lost {
            for nth in (0..self.channels[&(from, to)].len()).rev() {
                self.note_message(LineKind::Lost, from, to, nth);
                self.forget(from, to, nth);
            }
        }
        for site in away.iter() {
            self.note(LineKind::Cut, site, None);
        }
        self.has_faults = true;
        for (site, effects) in self.world.split(away) {
            self.perform(site, effects);
        }
        Ok(())
    }

    fn act_heal(&mut self) -> Result<(), ActError> {
        self.partitions_are_handled()?;
        if self.world.away().is_empty() {
            return Err(ActError::Network("it is whole"));
        }
        for site in self.world.away().iter() {
            self.note(LineKind::Mend, site, None);
        }
        for (site, effects) in self.world.heal() {
            self.perform(site, effects);
        }
        Ok(())
    }
}
