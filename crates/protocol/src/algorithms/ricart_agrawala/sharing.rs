//! Option `modes`: processes that share the critical section. The file's parent says how and why; here are the rules.

use crate::mutant::{self, Mutant};
use crate::{Clock, Mode, Numbers, Outbox, SiteId, SiteSet, invariant};

use super::{Message, RicartAgrawala, RicartAgrawalaState};

/// What a site without the option says to a message that only sites with it send.
pub(super) const NOT_SHARING: &str = "a message of the option modes, which this lock does not have";

/// What a site knows beside the plain algorithm.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Sharing {
    // The local process.
    /// The mode in which it waits or is inside; exclusive while it is idle.
    pub(super) mode: Mode,
    /// While it waits to become exclusive: whose answers to the UPGRADE are missing.
    pub(super) upgrade: Option<SiteSet>,
    /// The number of its last upgrade; zero before the first. An answer to one that it has given up may still arrive.
    last_upgrade: Clock,
    /// While it waits to enter: the replies that count under another number than that of the request, because an upgrade has withdrawn
    /// the first one; also if they have arrived.
    renewals: Vec<Renewal>,
    // What this site knows of the others.
    /// Of those that I owe a reply: who wants to be shared, and who upgradeable. The others are exclusive.
    readers: SiteSet,
    upgradeables: SiteSet,
    /// Of those that I owe a reply: who wants it for an upgrade.
    upgrades: SiteSet,
}

/// A reply that an upgrade has withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Renewal {
    /// The site that upgrades.
    site: SiteId,
    /// The number of its upgrade, which its next reply names.
    number: Clock,
    /// The number that the withdrawn reply names, if that is still on its way.
    void: Option<Clock>,
}

/// What a reply of another site means to a waiting one.
pub(super) enum Meaning {
    Leave,
    /// It was withdrawn before it arrived; the upgrade with this number is answered now.
    Void(Clock),
    Nothing,
}

impl Sharing {
    /// At the start of a site whose process is inside in this mode, or idle.
    pub(super) fn start(inside: Option<Mode>) -> Self {
        Sharing { mode: inside.unwrap_or_default(), ..Sharing::default() }
    }

    /// What the reply of `from` that names `to` means to the request with the number `own`.
    pub(super) fn meaning(&self, from: SiteId, to: Clock, own: Clock) -> Meaning {
        match self.renewals.iter().find(|renewal| renewal.site == from) {
            Some(&Renewal { void: Some(void), number, .. }) if void == to => {
                if mutant::is_on(Mutant::RicartAgrawalaVoidReply) {
                    Meaning::Leave
                } else {
                    Meaning::Void(number)
                }
            }
            Some(Renewal { void: None, number, .. }) if *number == to => Meaning::Leave,
            None if own == to => Meaning::Leave,
            Some(_) | None => Meaning::Nothing,
        }
    }

    /// The number that the reply of `from` has to name.
    fn expected(&self, from: SiteId, own: Clock) -> Clock {
        self.renewals.iter().find(|renewal| renewal.site == from).map_or(own, |renewal| renewal.number)
    }

    /// The withdrawn reply of `from` has arrived.
    pub(super) fn on_void(&mut self, from: SiteId) {
        self.renewals
            .iter_mut()
            .filter(|renewal| renewal.site == from)
            .for_each(|renewal| renewal.void = None);
    }

    /// The process enters: no reply is awaited any more. Until then a renewed reply keeps its number, because the next upgrade of the same
    /// site names that if it withdraws the reply once more.
    pub(super) fn enter(&mut self) {
        self.renewals.clear();
    }

    /// Notes the mode of a request whose reply is deferred.
    pub(super) fn defer(&mut self, from: SiteId, mode: Mode) {
        match mode {
            Mode::Shared => self.readers.insert(from),
            Mode::Upgradeable => self.upgradeables.insert(from),
            Mode::Exclusive => false,
        };
    }

    /// The mode of a request whose reply is deferred.
    fn deferred_mode(&self, from: SiteId) -> Mode {
        match () {
            () if self.readers.contains(from) => Mode::Shared,
            () if self.upgradeables.contains(from) => Mode::Upgradeable,
            () => Mode::Exclusive,
        }
    }

    /// Whether what is deferred is the answer to an upgrade: who asks anew has given that up.
    pub(super) fn owes_for_upgrade(&self, from: SiteId) -> bool {
        self.upgrades.contains(from)
    }

    /// Forgets what was deferred for `from`.
    pub(super) fn forget(&mut self, from: SiteId) {
        self.readers.remove(from);
        self.upgradeables.remove(from);
        self.upgrades.remove(from);
    }

    /// The process leaves: nothing is deferred any more.
    pub(super) fn leave(&mut self) {
        (self.mode, self.upgrade) = (Mode::Exclusive, None);
        self.readers.clear();
        self.upgradeables.clear();
        self.upgrades.clear();
    }

    pub(super) fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        numbers.remembered_clock(&mut self.last_upgrade);
        for renewal in &mut self.renewals {
            numbers.clock(&mut renewal.number);
            renewal.void.iter_mut().for_each(|void| numbers.clock(void));
        }
    }
}

impl RicartAgrawala {
    /// The mode in which the process waits or is inside.
    pub(super) fn own_mode(&self) -> Mode {
        self.sharing.as_ref().map_or(Mode::Exclusive, |sharing| sharing.mode)
    }

    /// Whether the process is inside and waits to be exclusive.
    pub(super) fn upgrades(&self) -> bool {
        self.sharing.as_ref().is_some_and(|sharing| sharing.upgrade.is_some())
    }

    /// Whether a request in this mode has to wait for the own process, if that has precedence.
    pub(super) fn excludes(&self, mode: Mode) -> bool {
        let is_closed = self.upgrades() && !mutant::is_on(Mutant::RicartAgrawalaUpgradeAdmits);
        is_closed || !self.own_mode().admits(mode)
    }

    /// The process, which is inside, wants to be exclusive: ask everybody once more, under a new number. A reply that was given before and
    /// may not have been used yet is withdrawn with it.
    pub(super) fn begin_upgrade(&mut self, out: &mut Outbox<Message>) {
        let clock = self.clock.tick();
        for site in SiteId::others_from(self.me, self.last_request.len()) {
            let is_answered = !self.deferred.contains(site);
            let withdrawn = if is_answered { self.last_request[site.index()] } else { Clock::ZERO };
            out.send(site, Message::Upgrade { clock, withdrawn });
        }
        let missing = SiteSet::all_but(self.me, self.last_request.len());
        let sharing = self.sharing.as_mut().expect("only a site with modes upgrades");
        (sharing.upgrade, sharing.last_upgrade) = (Some(missing), clock);
        self.upgrade_if_all_answered(out);
    }

    /// The process, which is inside, admits more: reply to all that it keeps out no longer. A writer that waits keeps later readers out by
    /// itself, so that nobody is passed by this.
    pub(super) fn downgrade(&mut self, to: Mode, out: &mut Outbox<Message>) {
        let sharing = self.sharing.as_mut().expect("only a site with modes downgrades");
        sharing.mode = to;
        if mutant::is_on(Mutant::RicartAgrawalaDowngradeForgets) {
            return;
        }
        for site in SiteId::others_from(self.me, self.last_request.len()) {
            let admits = to.admits(sharing.deferred_mode(site))
                || mutant::is_on(Mutant::RicartAgrawalaDowngradeAdmitsWriter);
            if self.deferred.contains(site) && !sharing.upgrades.contains(site) && admits {
                self.deferred.remove(site);
                sharing.forget(site);
                out.send(site, Message::Reply { to: self.last_request[site.index()] });
            }
        }
    }

    /// A process that is inside wants to be exclusive. A process that is inside here, too, answers when it leaves, all others at once. If
    /// the process here waits and has been given leave already, that is withdrawn: it waits for another one.
    pub(super) fn on_upgrade(
        &mut self,
        from: SiteId,
        clock: Clock,
        withdrawn: Clock,
        out: &mut Outbox<Message>,
    ) {
        let Some(sharing) = &mut self.sharing else { return out.misbehaved(from, NOT_SHARING) };
        // It has given this upgrade up, and its next request was faster; or it is a duplicate.
        if clock <= self.last_request[from.index()] {
            return;
        }
        if self.deferred.contains(from) {
            return out.misbehaved(from, "an upgrade of a process that is not inside");
        }
        let withdraws = match &self.state {
            RicartAgrawalaState::Waiting { request, .. } => {
                withdrawn == sharing.expected(from, request.clock)
                    && !mutant::is_on(Mutant::RicartAgrawalaKeepsLeave)
            }
            RicartAgrawalaState::Idle | RicartAgrawalaState::Executing { .. } => false,
        };
        if withdraws && sharing.mode != Mode::Shared {
            return out.misbehaved(from, "an upgrade that withdraws what it cannot have given");
        }
        self.last_request[from.index()] = clock;
        self.clock.observe(clock);
        match &mut self.state {
            RicartAgrawalaState::Executing { .. }
                if !mutant::is_on(Mutant::RicartAgrawalaUpgradePassesReader) =>
            {
                self.deferred.insert(from);
                sharing.upgrades.insert(from);
            }
            RicartAgrawalaState::Waiting { request, missing } if withdraws => {
                let old = sharing.expected(from, request.clock);
                sharing.renewals.retain(|renewal| renewal.site != from);
                // Every reply is awaited before the next one is asked for, so that no late one is taken for it.
                let void = (!missing.insert(from)).then_some(old);
                sharing.renewals.push(Renewal { site: from, number: clock, void });
                if void.is_none() {
                    out.send(from, Message::Yield { to: clock });
                }
            }
            RicartAgrawalaState::Idle
            | RicartAgrawalaState::Waiting { .. }
            | RicartAgrawalaState::Executing { .. } => out.send(from, Message::Reply { to: clock }),
        }
    }

    /// A reader lets an upgrade of this site pass, and waits for another reply, which names that upgrade. If that is over or given up, it
    /// gets it at once: it has precedence over every later request of this site.
    pub(super) fn on_yield(&mut self, from: SiteId, to: Clock, out: &mut Outbox<Message>) {
        let Some(sharing) = &mut self.sharing else { return out.misbehaved(from, NOT_SHARING) };
        let is_new = to > self.last_request[from.index()] && to <= sharing.last_upgrade;
        let is_present = to == sharing.last_upgrade;
        let is_answered =
            is_present && sharing.upgrade.as_ref().is_some_and(|missing| !missing.contains(from));
        if !is_new || is_answered || self.deferred.contains(from) {
            return out.misbehaved(from, "it yields to no upgrade of mine");
        }
        self.last_request[from.index()] = to;
        let is_inside = matches!(self.state, RicartAgrawalaState::Executing { .. });
        if let Some(missing) = sharing.upgrade.as_mut().filter(|_| is_present) {
            missing.remove(from);
        }
        if is_inside && (sharing.upgrade.is_some() || !sharing.mode.admits(Mode::Shared)) {
            self.deferred.insert(from);
            sharing.defer(from, Mode::Shared);
        } else {
            out.send(from, Message::Reply { to });
        }
        self.upgrade_if_all_answered(out);
    }

    /// Takes a reply that is no leave to enter. Returns whether it answers an upgrade, even one that was given up.
    pub(super) fn answers_upgrade(&mut self, from: SiteId, to: Clock, out: &mut Outbox<Message>) -> bool {
        let Some(sharing) = &mut self.sharing else { return false };
        if let Some(missing) = &mut sharing.upgrade
            && to == sharing.last_upgrade
        {
            let is_missing = missing.remove(from);
            self.upgrade_if_all_answered(out);
            return is_missing;
        }
        to > Clock::ZERO && to <= sharing.last_upgrade && !mutant::is_on(Mutant::RicartAgrawalaLateAnswer)
    }

    fn upgrade_if_all_answered(&mut self, out: &mut Outbox<Message>) {
        if let Some(sharing) = &mut self.sharing
            && sharing.upgrade.as_ref().is_some_and(SiteSet::is_empty)
        {
            (sharing.mode, sharing.upgrade) = (Mode::Exclusive, None);
            out.upgraded();
        }
    }

    /// Whether this site, which waits, misses the reply of `other`.
    fn misses(&self, other: SiteId) -> bool {
        matches!(&self.state, RicartAgrawalaState::Waiting { missing, .. } if missing.contains(other))
    }

    /// The invariants of one site with modes.
    pub(super) fn check_sharing(&self) -> Result<(), &'static str> {
        let Some(sharing) = &self.sharing else { return Ok(()) };
        let is_inside = matches!(self.state, RicartAgrawalaState::Executing { .. });
        if let Some(missing) = &sharing.upgrade {
            invariant!(
                is_inside && sharing.mode == Mode::Upgradeable && !missing.is_empty(),
                "I5: a site that upgrades is inside, upgradeable, and misses an answer"
            );
        }
        let keeps_out = |site: SiteId| {
            self.upgrades()
                || sharing.upgrades.contains(site)
                || !sharing.mode.admits(sharing.deferred_mode(site))
        };
        invariant!(
            !is_inside || self.deferred.iter().all(keeps_out),
            "I6: a site inside that does not upgrade owes a reply only to those that its mode excludes"
        );
        invariant!(
            sharing.renewals.iter().all(|renewal| renewal.void.is_none() || self.misses(renewal.site)),
            "I7: a withdrawn reply that is still on its way is missing"
        );
        Ok(())
    }

    /// The invariants of two sites with modes.
    pub(super) fn check_sharing_of(&self, other: &Self) -> Result<(), &'static str> {
        let (Some(mine), Some(_)) = (&self.sharing, &other.sharing) else { return Ok(()) };
        if !matches!(self.state, RicartAgrawalaState::Executing { .. }) {
            return Ok(());
        }
        let waits = matches!(other.state, RicartAgrawalaState::Waiting { .. });
        invariant!(
            !waits || mine.mode.admits(other.own_mode()) || other.misses(self.me),
            "I8: who waits misses the reply of everybody inside that excludes it"
        );
        let has_answered = mine.upgrade.as_ref().is_some_and(|missing| !missing.contains(other.me));
        let is_inside = matches!(other.state, RicartAgrawalaState::Executing { .. });
        invariant!(
            !has_answered || !is_inside && (!waits || other.misses(self.me)),
            "I9: who has answered an upgrade is not inside, and does not enter before it ends"
        );
        Ok(())
    }
}
