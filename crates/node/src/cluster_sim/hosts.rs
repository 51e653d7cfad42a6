//! What happens to sites: they start, act, die; their disks complete writes; connections come and go.

use meshlock_protocol::{Epoch, Message};

use super::client::{Finale, State};
use super::clock::Moment;
use super::faults::Death;
use super::properties::exclusion::Grant;
use super::properties::{Verdict, sound};
use super::world::{Event, World};
use crate::founding::Founding;
use crate::links::Frame;
use crate::membership::disk::{Disk, Write};
use crate::names::Incarnation;
use crate::node::{Answer, Call, Content, Input, Letter, Matter, Node, Note, Output, Packet, Token};
use crate::rules::Rules;
use crate::table::{Request, Tell};
use crate::view::View;

impl World {
    /// A site starts with what its disk has.
    pub(super) fn start(&mut self, machine: usize) -> Verdict {
        if self.machines[machine].node.is_some() {
            return Ok(());
        }
        self.machines[machine].life += 1;
        let start = self.machines[machine].life;
        let config = self.settings.config(machine, start, self.mutants).check().expect("drawn to be sound");
        let host = &mut self.machines[machine];
        host.dying = None;
        host.rules = None;
        let mut out = Vec::new();
        let node = Node::start(config, host.disk.clone(), host.clock.at(self.now), &mut out);
        let node = node.expect("its own disk");
        host.node = Some(node);
        for peer in 0..self.machines.len() {
            if self.network.is_down(machine, peer) {
                self.after(1_000, Event::Connect(machine, peer));
            }
        }
        for at in 0..self.clients.len() {
            if self.clients[at].machine == machine {
                // Whoever had not noticed that the last process died does now.
                self.disconnect(at);
            }
        }
        self.perform_all(machine, out)
    }

    /// Gives a node an input, and the world what it wants done.
    pub(super) fn drive(&mut self, machine: usize, input: Input) -> Verdict {
        let host = &mut self.machines[machine];
        let Some(node) = &mut host.node else { return Ok(()) };
        let mut out = Vec::new();
        node.handle(host.clock.at(self.now), input, &mut out);
        self.perform_all(machine, out)
    }

    fn perform_all(&mut self, machine: usize, out: Vec<Output>) -> Verdict {
        for output in out {
            let is_write = matches!(output, Output::Persist { .. });
            self.perform(machine, output)?;
            if let Some(down) = self.dies_now(machine, is_write) {
                self.crash(machine, down);
                return Ok(());
            }
        }
        let Some(node) = &self.machines[machine].node else { return Ok(()) };
        self.leases.on_lease(node.me(), machine, node.lease().end());
        self.departed.check(node, self.now)?;
        sound::check(node, self.now)?;
        self.schedule_wake(machine);
        Ok(())
    }

    /// Whether its process dies after this output, and for how long.
    fn dies_now(&mut self, machine: usize, is_write: bool) -> Option<u64> {
        let (death, down) = self.machines[machine].dying.as_mut()?;
        match death {
            Death::AfterOutputs(0) => Some(*down),
            Death::AfterOutputs(left) => {
                *left -= 1;
                None
            }
            Death::AtNextWrite => is_write.then_some(*down),
        }
    }

    fn schedule_wake(&mut self, machine: usize) {
        let host = &mut self.machines[machine];
        let Some(node) = &host.node else { return };
        let due = host.clock.when(node.next_due()).max(self.now.after(1));
        if host.wake.is_none_or(|wake| wake > due || wake <= self.now) {
            host.wake = Some(due);
            self.at(due, Event::Wake(machine));
        }
    }

    fn perform(&mut self, machine: usize, output: Output) -> Verdict {
        match output {
            Output::Send { to, packet } => self.send(machine, to.as_str(), packet),
            Output::Persist { token, writes } => {
                if writes.iter().any(|write| matches!(write, Write::Install(_))) {
                    self.coverage.count("snapshot installed");
                }
                let slow = self.machines[machine].slow_until > self.now;
                let most = if slow { 800_000 } else { self.settings.disk };
                let delay = self.within(most);
                let host = &mut self.machines[machine];
                host.unsynced.push_back((token, writes));
                let life = host.life;
                self.after(delay, Event::Synced { machine, life, token });
            }
            Output::Answer(answer) => return self.answer(machine, answer),
            Output::Note(note) => return self.note(machine, note),
        }
        Ok(())
    }

    fn send(&mut self, from: usize, to: &str, packet: Packet) {
        let Some(to) = self.names.iter().position(|name| name.as_str() == to) else { return };
        self.coverage.count(packet.content.kind());
        if let Content::Link {
            frame: Frame::Data { body: Letter { matter: Matter::Lock(message), .. }, .. },
            ..
        } = &packet.content
        {
            let rules = self.machines[from].node.as_ref().and_then(|node| node.table().rules());
            let algorithm = rules.map_or("", |rules| rules.rule(&message.lock).spec.info.name);
            self.coverage.count(&format!("message: {algorithm} {}", message.message.kind()));
        }
        let delay = self.within(self.settings.delay);
        let generation = self.network.generation(from, to);
        if let Some(arrival) = self.network.send(from, to, self.now, delay) {
            self.at(arrival, Event::Packet { from, to, generation, packet: Box::new(packet) });
        }
    }

    fn note(&mut self, machine: usize, note: Note) -> Verdict {
        sound::on_note(machine, &note, self.now)?;
        self.trace.note(self.now, machine, &note);
        match note {
            Note::Installed(view) => {
                self.coverage.count("view installed");
                self.machines[machine].rules = Rules::new(view.rules.clone()).ok();
                self.agreement.on_installed(machine, &view, self.now)?;
                self.leases.on_installed(&view, self.now)?;
            }
            Note::Opened(_) => self.coverage.count("view opened"),
            Note::Excluded { .. } => self.coverage.count("found itself excluded"),
            Note::Granted(member) => self.leases.on_granted(machine, member, self.now),
            Note::Proposed(view) => {
                self.coverage.count("view proposed");
                let node = self.machines[machine].node.as_ref().expect("it proposes");
                let last = node.view().clone();
                if last.epoch.number() + 1 == view.epoch.number() {
                    self.leases.on_proposed(machine, &last, &view, self.now)?;
                }
            }
            Note::Leads(_) => {
                self.coverage.count("leader elected");
                self.leases.on_leads(machine, self.now);
            }
            Note::GaveUp(member) => self.leases.on_gave_up(member),
            Note::DiskReplaced { .. } => {
                self.coverage.count("voter without its disk");
                return sound::on_replaced(machine, self.machines[machine].lost_disk, self.now);
            }
            Note::OtherTerms { .. } => self.coverage.count("goes by other terms than configured"),
            Note::TooOld(_) => self.coverage.count("life too old"),
            Note::OtherCluster { .. } => self.coverage.count("packet of another cluster"),
            Note::FirstStartWaits { .. }
            | Note::EpochsExhausted
            | Note::Misbehaved { .. }
            | Note::CannotOpen { .. } => {}
        }
        Ok(())
    }

    /// A node answers a client: what that means is checked now, and the client hears it a little later.
    fn answer(&mut self, machine: usize, answer: Answer) -> Verdict {
        let client = match &answer {
            Answer::Lock(tell) => {
                self.judge(machine, tell)?;
                self.whose(machine, tell)
            }
            Answer::RulesSet { .. } => {
                self.coverage.count("rules set");
                None
            }
            Answer::RulesRefused { .. } => {
                self.coverage.count("rules refused");
                None
            }
            Answer::Left { .. } => {
                self.coverage.count("site left");
                None
            }
            Answer::Queue { missing, .. } => {
                self.coverage.count(if missing.is_empty() { "queue" } else { "queue without some members" });
                None
            }
            Answer::Broken { cut_off, .. } => {
                self.coverage.count(if cut_off.is_empty() { "nothing to take away" } else { "taken away" });
                None
            }
            Answer::Overview { .. } => None,
        };
        let Some(client) = client else { return Ok(()) };
        let Some(session) = self.clients[client].session else { return Ok(()) };
        let delay = self.within(500);
        let at = self.now.after(delay).max(self.clients[client].last_told);
        self.clients[client].last_told = at;
        self.at(at, Event::Told { client, session, answer });
        Ok(())
    }

    fn judge(&mut self, machine: usize, tell: &Tell) -> Verdict {
        match *tell {
            Tell::Granted { request, fence, slot, lease_end, .. } => {
                self.coverage.count("granted");
                // One step may grant and then install another view: what counts is what the node had said before.
                let lock = self.asked.get(&request).cloned().expect("only what was asked for is granted");
                let rules = self.machines[machine].rules.as_ref();
                let permits = rules.map_or(0, |rules| rules.rule(&lock).permits as usize);
                if permits > 1 {
                    self.updates.exempt(&lock);
                }
                let heard = self.whose(machine, tell).is_some();
                let grant = Grant { request, lock: &lock, machine, until: lease_end, permits, heard };
                self.exclusion.on_granted(grant, self.now)?;
                self.fences.on_granted(&lock, machine, slot, fence, self.now)?;
                self.trace.entered(self.now, machine, &lock, fence);
            }
            Tell::Extended { session, lease_end } => {
                let node = self.machines[machine].node.as_ref().expect("it speaks");
                let held = node.table().holders().filter(|(of, ..)| *of == session);
                let held: Vec<Request> = held.map(|(_, request, _)| request).collect();
                self.exclusion.on_extended(held.into_iter(), lease_end, self.now)?;
            }
            Tell::Lost { request, act_by } => {
                self.coverage.count("told that it has lost");
                self.exclusion.on_lost(request, act_by);
            }
            Tell::Released { request } => self.exclusion.on_left(request),
            Tell::Cancelled { .. } => self.coverage.count("cancelled"),
            Tell::TimedOut { .. } => self.coverage.count("timed out"),
            Tell::Busy { .. } => self.coverage.count("busy"),
            Tell::Refused { .. } => self.coverage.count("refused"),
        }
        Ok(())
    }

    /// The process of a node dies. Its disk keeps what was completed and some of the rest; its clients will notice.
    fn crash(&mut self, machine: usize, down: u64) {
        self.coverage.count("crashed");
        self.trace.crashed(self.now, machine);
        let host = &mut self.machines[machine];
        let Some(node) = host.node.take() else { return };
        self.leases.on_lease(node.me(), machine, node.lease().end());
        if node.leads().is_some() {
            self.coverage.count(if node.is_open() { "leader lost" } else { "leader lost in a view change" });
        }
        if node.table().holds_anything() {
            self.coverage.count("holder lost with its site");
        }
        let kept = self.draw.usize(..=host.unsynced.len());
        if kept < host.unsynced.len() {
            self.coverage.count("unsynced tail lost");
        }
        for (_, writes) in host.unsynced.drain(..).take(kept) {
            for write in &writes {
                host.disk.apply(write);
            }
        }
        host.unsynced.clear();
        (host.wake, host.dying) = (None, None);
        for peer in 0..self.machines.len() {
            self.cut(machine, peer);
        }
        for at in 0..self.clients.len() {
            if let (true, Some(session)) = (self.clients[at].machine == machine, self.clients[at].session) {
                let notice = self.within(100_000);
                self.after(notice, Event::Disconnected { client: at, session });
            }
        }
        let down = if self.calm { 0 } else { down.min(self.settings.calm.saturating_sub(self.now.0)) };
        self.after(down, Event::Start(machine));
    }

    /// A site's process dies, if it runs, and its disk is lost.
    pub(super) fn lose_disk(&mut self, machine: usize, down: u64) {
        if self.machines[machine].node.is_some() {
            self.crash(machine, down);
        }
        (self.machines[machine].disk, self.machines[machine].lost_disk) = (Disk::default(), true);
    }

    pub(super) fn synced(&mut self, machine: usize, life: u64, token: Token) -> Verdict {
        let host = &mut self.machines[machine];
        if host.life != life || host.node.is_none() {
            return Ok(());
        }
        // Batches complete in their order: whatever was given to the disk before is complete too.
        let mut last = None;
        while host.unsynced.front().is_some_and(|(first, _)| *first <= token) {
            let (done, writes) = host.unsynced.pop_front().expect("there is a first");
            for write in &writes {
                host.disk.apply(write);
            }
            last = Some(done);
        }
        last.map_or(Ok(()), |token| self.drive(machine, Input::Persisted(token)))
    }

    pub(super) fn cut(&mut self, a: usize, b: usize) {
        if self.network.cut(a, b) {
            let delay = self.draw.u64(1_000..300_000);
            self.after(delay, Event::Connect(a, b));
        }
    }

    pub(super) fn connect(&mut self, a: usize, b: usize) -> Verdict {
        if !self.network.is_down(a, b) || self.machines[a].node.is_none() || self.machines[b].node.is_none() {
            return Ok(());
        }
        if !self.network.connect(a, b) {
            self.after(200_000, Event::Connect(a, b));
            return Ok(());
        }
        self.drive(a, Input::Connected(self.names[b].clone()))?;
        self.drive(b, Input::Connected(self.names[a].clone()))
    }

    pub(super) fn reconnect_all(&mut self) {
        for a in 0..self.machines.len() {
            for b in a + 1..self.machines.len() {
                if self.network.is_down(a, b) {
                    self.after(1_000, Event::Connect(a, b));
                }
            }
        }
    }

    /// An operator takes a site out. Its clients stop.
    pub(super) fn leave(&mut self, machine: usize) -> Verdict {
        // Somebody must stay to serve the rest.
        let staying = self.machines.iter().filter(|host| !host.left).count();
        if self.machines[machine].node.is_none() || self.machines[machine].left || staying < 2 {
            return Ok(());
        }
        self.machines[machine].left = true;
        for at in 0..self.clients.len() {
            if self.clients[at].machine == machine && self.clients[at].state != State::Resting {
                self.client_crash(at);
            }
            if self.clients[at].machine == machine {
                self.clients[at].finale = Finale::Done;
            }
        }
        self.last_request += 1;
        let request = Request(self.last_request);
        self.drive(machine, Input::Call(Call::Leave { request }))
    }

    /// A site of another cluster, called like a site of this one, says what was agreed on there.
    pub(super) fn mistake(&mut self, machine: usize, from: usize) -> Verdict {
        let Some(node) = self.machines[machine].node.as_ref().filter(|_| machine != from) else {
            return Ok(());
        };
        let founding = Founding::new("elsewhere".parse().expect("a fixed name"), &self.names[from..=from]);
        let epoch = Epoch::new(node.view().epoch.number() + 1).expect("few views are installed here");
        let content = Content::View(View { epoch, ..View::default() });
        let packet = Packet { cluster: founding.id(), incarnation: Incarnation::new(1), content };
        self.drive(machine, Input::Packet { from: self.names[from].clone(), packet })
    }

    /// When the machine's clock shows this.
    pub(super) fn moment(&self, machine: usize, time: crate::time::Time) -> Moment {
        self.machines[machine].clock.when(time)
    }
}
