//! The questions of mirrors and their answers, as `crates/service/src/sessions/mirror/following.rs` and `answering.rs` ask and answer them:
//! bytes in the packets of forwarded calls.

use super::coverage::Occurrence;
use super::event::Event;
use super::mirror_faults::MirrorPoint;
use super::properties::{CheckResult, PropertyViolation, broken};
use super::site_sessions::{AskedSource, SiteKey};
use super::world::World;
use meshlock_cluster::access::Principal;
use meshlock_cluster::names::Member;
use meshlock_cluster::node::{CallMessage, CallPart, ClientCall};
use meshlock_cluster::time::Time;
use meshlock_mirror::{HeldQuestion, LOOK_EVERY, LeaseId, PAUSE, Vouched, mirror_of};
use meshlock_wire::sites::calls::{CallAsk, CallReply, ForwardedCall, ForwardedCaller};
use meshlock_wire::sites::mirror::{MirrorNews, MirroredKey, MirroredSession};

impl World {
    /// Asks the members that this site wants to know of what has changed, unless they were asked.
    pub(super) fn ask_sources(&mut self, machine: usize) -> CheckResult {
        let (now, leaves, terms) = (self.local(machine), self.is_frozen(machine), self.agreed_terms(machine));
        let site = &mut self.sites[machine];
        let mirror = &site.mirror;
        let is_over = |asked: &AskedSource| {
            asked.number.is_some() && mirror.is_given_up(&asked.question, asked.at, leaves, now, terms)
                || asked.number.is_none() && asked.at + PAUSE <= now
        };
        site.asked.retain(|asked| !is_over(asked));
        let questions: Vec<_> = site.mirror.questions(leaves).collect();
        for question in questions {
            let is_asked =
                self.sites[machine].asked.iter().any(|asked| asked.question.source == question.source);
            let Some(node) = &self.machines[machine].node else { return Ok(()) };
            if is_asked || !node.forwards_to(&question.source) {
                continue;
            }
            let site = &mut self.sites[machine];
            site.last_call += 1;
            let (to, number) = (question.source.clone(), site.last_call);
            let ask = CallAsk::Mirror { have: question.have };
            site.asked.push(AskedSource { question, number: Some(number), at: now });
            let body = ForwardedCall { caller: caller(0), ask }.bytes().expect("it is short");
            self.send_call(machine, to, number, CallPart::Call(body))?;
        }
        Ok(())
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

    /// Handles the question of a site's mirror, or of one that was before.
    fn on_question(&mut self, machine: usize, from: Member, number: u64, have: u64) -> CheckResult {
        let Some(node) = &self.machines[machine].node else { return Ok(()) };
        let others = node.view().members.iter().filter(|member| *member != node.me()).cloned();
        let others: Vec<Member> = others.collect();
        let next = mirror_of(&node.me().site, others.iter().map(|member| &member.site));
        let (now, window) = (self.local(machine), self.mirror_window(machine));
        let terms = self.agreed_terms(machine);
        let site = &mut self.sites[machine];
        site.source.on_view(&others);
        let all = site.all.keys().copied().collect::<Vec<_>>();
        if !site.source.is_mirror(&from, next) {
            let news = site.source.on_former_question(&from, have, now);
            if news.is_some() {
                self.coverage.record(Occurrence::FormerMirrorTold);
                self.on_mirror_point(MirrorPoint::Dismissed, &self.names[machine].clone(), &from.site)?;
            }
            self.reply(machine, from, number, &news.map_or(CallReply::NotHere, CallReply::Mirror))?;
        } else if site.source.on_question(&from, have, all.into_iter(), (now, window)).is_err() {
            return self.reply(machine, from, number, &CallReply::NotHere);
        } else {
            site.held = Some((from, number, HeldQuestion::new(&site.source, now, terms)));
        }
        self.step_site(machine)
    }

    fn reply(&mut self, machine: usize, to: Member, number: u64, reply: &CallReply) -> CheckResult {
        let body = reply.bytes().expect("within the bounds of an answer");
        self.send_call(machine, to, number, CallPart::Answer(body))
    }

    /// Answers the question of a site's mirror, if that is due.
    pub(super) fn answer_held(&mut self, machine: usize) -> CheckResult {
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
        self.on_mirror_point(MirrorPoint::Answered, &self.names[machine].clone(), &mirror.site)?;
        self.reply(machine, mirror, number, &reply.map_or(CallReply::NotHere, CallReply::Mirror))
    }

    /// Lets a site look once at this time.
    pub(super) fn look_once(&mut self, machine: usize, time: Time) {
        let (at, incarnation) = (self.moment(machine, time), self.machines[machine].incarnation);
        self.at(at.max(self.now.after(1)), Event::SiteStep { machine, incarnation });
    }

    /// Returns a session as its mirror has to know it, if it holds something.
    fn mirrored(
        &mut self,
        machine: usize,
        lease: LeaseId,
    ) -> Result<Option<MirroredSession>, PropertyViolation> {
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
        let is_it = |asked: &mut AskedSource| asked.number == Some(number) && asked.question.source == *from;
        let Some(AskedSource { question, at: sent, .. }) = site.asked.extract_if(.., is_it).next() else {
            return Ok(());
        };
        let is_answered = match CallReply::read(body) {
            Ok(CallReply::Mirror(news)) => self.on_news(machine, &question.source, news, sent)?,
            Ok(CallReply::NotHere) => {
                site.mirror.on_unknown(&question.source);
                false
            }
            Ok(_) | Err(_) => false,
        };
        if !is_answered {
            self.sites[machine].asked.push(AskedSource { question, number: None, at: now });
        }
        self.step_site(machine)
    }

    fn on_news(
        &mut self,
        machine: usize,
        source: &Member,
        news: MirrorNews,
        sent: Time,
    ) -> Result<bool, PropertyViolation> {
        let leaves = news.leaves;
        self.coverage.record(Occurrence::MirrorTold);
        let is_complete =
            self.decide(machine, |mirror, at, out| mirror.on_news(source, news, sent, at, out))?;
        self.on_mirror_point(MirrorPoint::Heard, &source.site, &self.names[machine].clone())?;
        if leaves {
            self.look_at_source(machine)?;
        }
        // What could not be claimed is asked for anew, after a pause.
        let next = self.sites[machine].mirror.question_to(source, false);
        Ok(is_complete && next.is_none_or(|next| next.have > 0))
    }
}

/// Returns the client in whose name a session of this number is told.
fn caller(lease: i64) -> ForwardedCaller {
    let number = u64::try_from(lease).expect("numbers of leases are positive");
    ForwardedCaller::new(&Principal::Local, ([127, 0, 0, 1], 1).into(), number).expect("known everywhere")
}
