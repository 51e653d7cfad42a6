//! What drives the machines of `meshlock_mirror` at every site, as `crates/service/src/sessions/mirror` does for a node: the questions of
//! mirrors and their answers, the claims, the sessions that are adopted, releases that are acknowledged, and sites that leave.

use super::coverage::Occurrence;
use super::event::Event;
use super::properties::{CheckResult, broken};
use super::site_sessions::{MirrorClaim, SiteKey, SiteSession, SiteSessions};
use super::world::World;
use meshlock_cluster::access::Principal;
use meshlock_cluster::claim::Reserved;
use meshlock_cluster::lease::Terms;
use meshlock_cluster::names::Member;
use meshlock_cluster::node::{CallMessage, CallPart, ClientAnswer, ClientCall};
use meshlock_cluster::table::{ClaimEvent, LockClaim};
use meshlock_cluster::time::{Span, Time};
use meshlock_mirror::{
    Adoption, ClaimState, HeldQuestion, LOOK_EVERY, LeaseId, Mirror, MirrorEffect, NewClaim, PAUSE,
    Surroundings, Vouched, mirror_of,
};
use meshlock_wire::sites::calls::{CallAsk, CallReply, ForwardedCall, ForwardedCaller};
use meshlock_wire::sites::mirror::{MirrorNews, MirroredKey, MirroredSession};

impl World {
    /// Begins with the sessions of a site's new process.
    pub(super) fn start_sessions(&mut self, machine: usize) -> CheckResult {
        if self.wire.all.is_empty() {
            return Ok(());
        }
        self.sites[machine] = SiteSessions::default();
        self.site_calls(machine, ClientCall::ServeCalls(true))?;
        self.look_again(machine, LOOK_EVERY);
        Ok(())
    }

    /// Forgets the sessions of a process that has ended.
    pub(super) fn lose_sessions(&mut self, machine: usize) {
        if let Some(site) = self.sites.get_mut(machine) {
            *site = SiteSessions::default();
        }
    }

    fn look_again(&mut self, machine: usize, after: Span) {
        let at = self.moment(machine, self.local(machine) + after);
        let incarnation = self.machines[machine].incarnation;
        self.at(at.max(self.now.after(1)), Event::SiteLook { machine, incarnation });
    }

    /// Lets a site look what is due, as it does at regular times.
    pub(super) fn on_site_look(&mut self, machine: usize, incarnation: u64) -> CheckResult {
        if self.machines[machine].incarnation != incarnation || self.machines[machine].node.is_none() {
            return Ok(());
        }
        self.step_site(machine)?;
        if self.machines[machine].node.is_some() {
            self.look_again(machine, LOOK_EVERY);
        }
        Ok(())
    }

    /// Lets a site look once what is due.
    pub(super) fn on_site_step(&mut self, machine: usize, incarnation: u64) -> CheckResult {
        if self.machines[machine].incarnation != incarnation || !self.runs(machine) {
            return Ok(());
        }
        self.step_site(machine)
    }

    /// Does everything that is due at a site.
    pub(super) fn step_site(&mut self, machine: usize) -> CheckResult {
        self.move_sessions(machine)?;
        self.expire_sessions(machine)?;
        self.look_at_source(machine)?;
        self.ask_source(machine)?;
        self.answer_held(machine)?;
        self.end_cleared(machine)?;
        self.acknowledge_releases(machine);
        Ok(())
    }

    fn runs(&self, machine: usize) -> bool {
        self.machines[machine].node.is_some()
    }

    fn is_frozen(&self, machine: usize) -> bool {
        self.machines[machine].frozen
    }

    /// Returns the terms of leases that were agreed on, as a site knows them.
    pub(super) fn agreed_terms(&self, machine: usize) -> Terms {
        self.machines[machine].node.as_ref().map_or(self.settings.terms, |node| node.lease().terms())
    }

    /// Returns for how long after an answer a mirror may count on it, on the site's clock.
    fn mirror_window(&self, machine: usize) -> Span {
        let terms = self.agreed_terms(machine);
        terms.drift.stretch(terms.resume_window())
    }

    /// Lets a site that leaves say so, and forget what its mirror answers for.
    fn move_sessions(&mut self, machine: usize) -> CheckResult {
        if !self.is_frozen(machine) || !self.runs(machine) {
            return Ok(());
        }
        let site = &mut self.sites[machine];
        if !std::mem::replace(&mut site.has_told_leaving, true) {
            site.source.on_leaving();
        }
        for lease in site.source.moved().unwrap_or_default() {
            let site = &mut self.sites[machine];
            let session = site.all.remove(&lease);
            site.source.on_change(lease);
            site.source.on_moved(lease);
            let Some(key) = session.and_then(|session| session.key) else { continue };
            self.coverage.record(Occurrence::SessionMoved);
            self.exclusion.on_moved(key.request);
            self.site_calls(machine, ClientCall::SessionEnded(key.session))?;
        }
        Ok(())
    }

    /// Ends the sessions whose time is up, without their clients' word.
    fn expire_sessions(&mut self, machine: usize) -> CheckResult {
        let now = self.local(machine);
        let over = self.sites[machine].all.iter().filter(|(_, session)| session.end <= now);
        for lease in over.map(|(lease, _)| *lease).collect::<Vec<_>>() {
            let site = &mut self.sites[machine];
            let session = site.all.remove(&lease);
            site.source.on_change(lease);
            let owed = site.source.owes_unasked(lease, now);
            let Some(key) = session.and_then(|session| session.key) else { continue };
            self.coverage.record(Occurrence::SessionExpired);
            match owed {
                Some(_) => self.sites[machine].ending.push((owed, now, key.session)),
                None => self.site_calls(machine, ClientCall::SessionEnded(key.session))?,
            }
        }
        Ok(())
    }

    /// Gives to others what has ended without its client's word, as soon as nobody counts on it.
    fn end_cleared(&mut self, machine: usize) -> CheckResult {
        let (now, window) = (self.local(machine), self.mirror_window(machine));
        let site = &mut self.sites[machine];
        let source = &site.source;
        let is_due = |(owed, by, _): &mut (Option<_>, Time, _)| {
            *by <= now && owed.is_none_or(|change| source.is_cleared(change, (now, window)))
        };
        let due: Vec<_> = site.ending.extract_if(.., is_due).collect();
        for (.., session) in due {
            self.site_calls(machine, ClientCall::SessionEnded(session))?;
        }
        Ok(())
    }

    fn acknowledge_releases(&mut self, machine: usize) {
        let now = self.local(machine);
        let site = &mut self.sites[machine];
        let source = &site.source;
        let due: Vec<_> =
            site.releases.extract_if(.., |(wait, ..)| wait.waits_until(source, now).is_none()).collect();
        for (wait, lease, key) in due {
            let is_known = wait.is_known(&self.sites[machine].source);
            self.acknowledge(lease, &key, is_known);
        }
    }

    /// Lets the mirror's machine decide something, and does what it asks for.
    fn decide(
        &mut self,
        machine: usize,
        decide: impl FnOnce(&mut Mirror, &Surroundings<'_>, &mut Vec<MirrorEffect>) -> bool,
    ) -> Result<bool, super::properties::PropertyViolation> {
        let (now, leaves, terms) = (self.local(machine), self.is_frozen(machine), self.agreed_terms(machine));
        let site = &mut self.sites[machine];
        let claims = |number| site.claims.get(&number).map_or(ClaimState::Pending, |claim| claim.state);
        let at = Surroundings { now, terms, leaves, claims: &claims, is_revoked: &|_: &Principal| false };
        let mut out = Vec::new();
        let decided = decide(&mut site.mirror, &at, &mut out);
        let process = self.machines[machine].incarnation;
        while !out.is_empty() {
            for effect in std::mem::take(&mut out) {
                self.perform_effect(machine, effect, &mut out)?;
                if !self.runs(machine) || self.machines[machine].incarnation != process {
                    return Ok(false);
                }
            }
        }
        Ok(decided)
    }

    /// Looks whether the member that a site mirrors is silent or gone.
    fn look_at_source(&mut self, machine: usize) -> CheckResult {
        let Some(node) = &self.machines[machine].node else { return Ok(()) };
        let (view, me, site) = (node.view(), node.me(), &mut self.sites[machine]);
        if site.epoch != Some(view.epoch) {
            site.epoch = Some(view.epoch);
            let others = view.members.iter().filter(|member| *member != me).cloned().collect();
            site.mirror.on_view(&me.site, view.contains(me).then_some(others));
        }
        self.decide(machine, |mirror, at, out| {
            mirror.look(at, out);
            true
        })?;
        Ok(())
    }

    /// Asks the member before this one what has changed, unless it was asked.
    fn ask_source(&mut self, machine: usize) -> CheckResult {
        if !self.runs(machine) {
            return Ok(());
        }
        let (now, leaves, terms) = (self.local(machine), self.is_frozen(machine), self.agreed_terms(machine));
        let site = &mut self.sites[machine];
        let mirror = &site.mirror;
        let given_up =
            site.asked.take_if(|(question, _, sent)| mirror.is_given_up(question, *sent, leaves, now, terms));
        let Some(question) = site.mirror.question(leaves) else { return Ok(()) };
        let is_known =
            self.machines[machine].node.as_ref().is_some_and(|node| node.forwards_to(&question.source));
        if site.asked.is_some() || now < site.pause_until && given_up.is_none() || !is_known {
            return Ok(());
        }
        site.last_call += 1;
        let (to, number) = (question.source.clone(), site.last_call);
        let ask = CallAsk::Mirror { have: question.have };
        site.asked = Some((question, number, now));
        let caller = caller(0);
        let body = ForwardedCall { caller, ask }.bytes().expect("it is short");
        self.send_call(machine, to, number, CallPart::Call(body))
    }

    fn send_call(&mut self, machine: usize, to: Member, number: u64, part: CallPart) -> CheckResult {
        self.site_calls(machine, ClientCall::SendCall { to, message: CallMessage { number, part } })
    }

    /// Handles a message of another site about a question.
    pub(super) fn on_call_message(
        &mut self,
        machine: usize,
        incarnation: u64,
        from: Member,
        message: CallMessage,
    ) -> CheckResult {
        if self.machines[machine].incarnation != incarnation || !self.runs(machine) {
            return Ok(());
        }
        let CallMessage { number, part } = message;
        match part {
            CallPart::Call(body) => {
                let asked = ForwardedCall::read(&body).map(|call| call.ask);
                let Ok(CallAsk::Mirror { have }) = asked else {
                    return broken(
                        "sound",
                        self.now,
                        format!("s{machine} cannot read the question of {from}"),
                    );
                };
                self.on_question(machine, from, number, have)
            }
            CallPart::Answer(body) => self.on_mirror_answer(machine, &from, number, &body),
            CallPart::Ended => Ok(()),
        }
    }

    /// Handles the question of a site's mirror.
    fn on_question(&mut self, machine: usize, from: Member, number: u64, have: u64) -> CheckResult {
        let Some(node) = &self.machines[machine].node else { return Ok(()) };
        let members = node.view().members.iter().map(|member| &member.site);
        let is_mirror = mirror_of(&node.me().site, members) == Some(&from.site);
        let (now, window) = (self.local(machine), self.mirror_window(machine));
        let terms = self.agreed_terms(machine);
        let site = &mut self.sites[machine];
        let all = site.all.keys().copied().collect::<Vec<_>>();
        let refusal = if !is_mirror {
            Some(CallReply::Refused("not the mirror".to_owned()))
        } else if site.source.on_question(&from, have, all.into_iter(), (now, window)).is_err() {
            Some(CallReply::NotHere)
        } else {
            None
        };
        if let Some(reply) = refusal {
            return self.reply(machine, from, number, &reply);
        }
        site.held = Some((from, number, HeldQuestion::new(&site.source, now, terms)));
        self.step_site(machine)
    }

    fn reply(&mut self, machine: usize, to: Member, number: u64, reply: &CallReply) -> CheckResult {
        let body = reply.bytes().expect("within the bounds of an answer");
        self.send_call(machine, to, number, CallPart::Answer(body))
    }

    /// Answers the question of a site's mirror, if that is due.
    fn answer_held(&mut self, machine: usize) -> CheckResult {
        if !self.runs(machine) {
            return Ok(());
        }
        let now = self.local(machine);
        let site = &mut self.sites[machine];
        let Some((_, _, held)) = &mut site.held else { return Ok(()) };
        if let Some(until) = held.waits_until(&site.source, now) {
            if until < now + LOOK_EVERY {
                self.look_once(machine, until);
            }
            return Ok(());
        }
        let Some((mirror, number, _)) = site.held.take() else { return Ok(()) };
        let dirty = site.source.take_dirty();
        let until = site.source.changes();
        let mut looked = Vec::new();
        for lease in dirty {
            looked.push((lease, self.mirrored(machine, lease)?));
        }
        if !self.runs(machine) {
            return Ok(());
        }
        let reply = self.sites[machine].source.answer(&mirror, looked, until, now);
        self.reply(machine, mirror, number, &reply.map_or(CallReply::NotHere, CallReply::Mirror))
    }

    /// Lets a site look once at this time.
    fn look_once(&mut self, machine: usize, time: Time) {
        let (at, incarnation) = (self.moment(machine, time), self.machines[machine].incarnation);
        self.at(at.max(self.now.after(1)), Event::SiteStep { machine, incarnation });
    }

    /// Returns a session as its mirror has to know it, if it holds something.
    fn mirrored(
        &mut self,
        machine: usize,
        lease: LeaseId,
    ) -> Result<Option<MirroredSession>, super::properties::PropertyViolation> {
        let now = self.local(machine);
        let key = |world: &World| {
            let session = world.sites[machine].all.get(&lease)?;
            let is_own = session.is_alive(now) && session.vouched == Vouched::Here;
            session.key.clone().filter(|key| is_own && key.fence.is_some())
        };
        let Some(held) = key(self) else { return Ok(None) };
        if held.proof.is_none() {
            self.site_calls(machine, ClientCall::Prove { request: held.request })?;
        }
        let Some(SiteKey { lock, proof: Some(proof), .. }) = key(self) else { return Ok(None) };
        let opened = &self.wire.opened[&lease];
        let label = format!("wire-{}", opened.client);
        let name = lock.as_str().as_bytes().to_vec();
        let (value, created, modified, version) = (Vec::new(), 1, 1, 1);
        let keys = vec![MirroredKey { name, value, label, created, modified, version, proof }];
        let (owner, lasts) = (caller(lease.number()), opened.lasts.micros());
        let (label, delay, consul) = (None, 0, None);
        Ok(Some(MirroredSession { lease: lease.number(), owner, label, lasts, delay, keys, consul }))
    }

    /// Handles the answer to a site's question.
    fn on_mirror_answer(&mut self, machine: usize, from: &Member, number: u64, body: &[u8]) -> CheckResult {
        let now = self.local(machine);
        let site = &mut self.sites[machine];
        let is_it =
            site.asked.as_ref().is_some_and(|(question, of, _)| *of == number && question.source == *from);
        let Some((question, _, sent)) = site.asked.take_if(|_| is_it) else { return Ok(()) };
        let is_answered = match CallReply::read(body) {
            Ok(CallReply::Mirror(news)) => self.on_news(machine, &question.source, news, sent)?,
            Ok(CallReply::NotHere) => {
                site.mirror.on_unknown(&question.source);
                false
            }
            Ok(_) | Err(_) => false,
        };
        if !is_answered {
            self.sites[machine].pause_until = now + PAUSE;
        }
        self.step_site(machine)
    }

    fn on_news(
        &mut self,
        machine: usize,
        source: &Member,
        news: MirrorNews,
        sent: Time,
    ) -> Result<bool, super::properties::PropertyViolation> {
        let leaves = news.leaves;
        self.coverage.record(Occurrence::MirrorTold);
        let is_complete =
            self.decide(machine, |mirror, at, out| mirror.on_news(source, news, sent, at, out))?;
        if leaves {
            self.look_at_source(machine)?;
        }
        // What could not be claimed is asked for anew, after a pause.
        let next = self.sites[machine].mirror.question(false);
        Ok(is_complete && next.is_none_or(|next| next.have > 0))
    }

    /// Carries out what the mirror's machine asks for.
    fn perform_effect(
        &mut self,
        machine: usize,
        effect: MirrorEffect,
        out: &mut Vec<MirrorEffect>,
    ) -> CheckResult {
        match effect {
            MirrorEffect::Claim(wanted) => return self.claim_for_mirror(machine, *wanted),
            MirrorEffect::GiveUp(number) => {
                if let Some(claim) = self.sites[machine].claims.remove(&number) {
                    return self.site_calls(machine, ClientCall::SessionEnded(claim.session));
                }
            }
            MirrorEffect::Adopt(adoption) => {
                let is_adopted = self.adopt_session(machine, &adoption);
                self.sites[machine].mirror.on_adopted(adoption.lease, is_adopted);
            }
            MirrorEffect::Vouch { lease, vouched } => {
                let site = &mut self.sites[machine];
                site.source.on_change(lease);
                match site.all.get_mut(&lease) {
                    Some(session) => session.vouched = vouched,
                    None => site.mirror.on_over(lease, out),
                }
            }
            MirrorEffect::Withdraw { lease, .. } => {
                let site = &mut self.sites[machine];
                site.all.remove(&lease);
                site.source.on_change(lease);
            }
            MirrorEffect::TakeOver { lease, claims, .. } => {
                let site = &mut self.sites[machine];
                site.source.on_change(lease);
                for number in &claims {
                    site.claims.remove(number);
                }
                if let Some(session) = site.all.get_mut(&lease) {
                    session.vouched = Vouched::Here;
                }
                return self.judge_taken_over(machine, lease);
            }
        }
        Ok(())
    }

    /// Checks a session that has become its mirror's own: what it holds was not acknowledged as released.
    fn judge_taken_over(&mut self, machine: usize, lease: LeaseId) -> CheckResult {
        let key = self.sites[machine].all.get(&lease).and_then(|session| session.key.clone());
        let Some(SiteKey { lock, fence: Some(fence), request, .. }) = key else { return Ok(()) };
        self.coverage.record(Occurrence::MirrorTakesOver);
        if self.wire_relies_on(request) {
            self.coverage.record(Occurrence::MirrorKeeps);
        }
        if self.wire.acknowledged.contains(&(lock.clone(), fence)) && self.settings.keeps_drift(usize::MAX) {
            let what = format!("s{machine} holds {lock} with fence {fence}, whose release was acknowledged");
            return broken("releases", self.now, what);
        }
        Ok(())
    }

    fn claim_for_mirror(&mut self, machine: usize, wanted: NewClaim) -> CheckResult {
        let hold = wanted.proof.hold().clone();
        let lease = i64::try_from(wanted.owner.request).ok().and_then(LeaseId::new);
        let lease = lease.expect("the number that this simulation gives");
        let (session, request) = self.new_wire_request(lease, &hold.lock, hold.permits);
        let claim = MirrorClaim { request, session, state: ClaimState::Pending };
        self.sites[machine].claims.insert(wanted.claim, claim);
        let reacts_within = wanted.lasts;
        self.site_calls(machine, ClientCall::Introduce { session, who: wanted.label, reacts_within })?;
        let claim = LockClaim { session, request, proof: wanted.proof, reserved: Reserved::Standing };
        self.site_calls(machine, ClientCall::Claim(Box::new(claim)))
    }

    /// Lets a site answer for a session. Returns whether it does.
    fn adopt_session(&mut self, machine: usize, adoption: &Adoption) -> bool {
        let Adoption { lease, keys, vouched, end, .. } = adoption;
        let site = &mut self.sites[machine];
        let Some((number, key, hold)) = keys.first() else { return false };
        let Some(claim) = site.claims.get(number).filter(|_| !site.all.contains_key(lease)) else {
            return false;
        };
        let (request, session) = (claim.request, claim.session);
        let (fence, proof) = (Some(hold.fence), None);
        debug_assert_eq!(key.name, hold.lock.as_str().as_bytes());
        let key = Some(SiteKey { request, session, lock: hold.lock.clone(), fence, proof });
        site.all.insert(*lease, SiteSession { end: *end, vouched: *vouched, is_lost: false, key });
        site.source.on_change(*lease);
        true
    }

    /// Handles what a node says to the sessions of its site: of their proofs, and of the mirror's claims.
    pub(super) fn tell_sessions(&mut self, machine: usize, answer: &ClientAnswer) -> CheckResult {
        if let ClientAnswer::Lock(event) = answer {
            return self.wire_told(machine, event);
        }
        if let ClientAnswer::Proof { request, proof: Some(proof) } = answer {
            let lease = self.wire.requests.get(request);
            let session = lease.and_then(|lease| self.sites[machine].all.get_mut(lease));
            let key = session.and_then(|session| session.key.as_mut());
            if let Some(key) = key.filter(|key| key.request == *request) {
                key.proof = Some(proof.to_bytes());
            }
        }
        if let ClientAnswer::Claim(event) = answer {
            let request = event.request();
            let state = match event {
                ClaimEvent::Pending { .. } => ClaimState::Pending,
                ClaimEvent::Settled { .. } => ClaimState::Settled,
                ClaimEvent::Refused { why, .. } => ClaimState::refused(*why),
            };
            let mut claims = self.sites[machine].claims.values_mut();
            if let Some(claim) = claims.find(|claim| claim.request == request) {
                claim.state = state;
            }
        }
        Ok(())
    }
}

/// Returns the client in whose name a session of this number is told.
fn caller(lease: i64) -> ForwardedCaller {
    let number = u64::try_from(lease).expect("numbers of leases are positive");
    ForwardedCaller::new(&Principal::Local, ([127, 0, 0, 1], 1).into(), number).expect("known everywhere")
}
