//! The simulated world: one queue of events, and everything they happen to.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};

use fastrand::Rng;
use meshlock_protocol::Fence;

use super::client::{Client, Finale, State};
use super::clock::{Clock, Moment};
use super::coverage::Coverage;
use super::faults::{Death, Fault};
use super::network::Network;
use super::properties::agreement::Agreement;
use super::properties::departed::Departed;
use super::properties::exclusion::Exclusion;
use super::properties::fences::Fences;
use super::properties::leases::Leases;
use super::properties::updates::Updates;
use super::properties::{Verdict, starvation};
use super::settings::{Settings, site};
use super::trace::Trace;
use super::{Options, Report};
use crate::membership::disk::{Disk, Write};
use crate::mutant::Mutants;
use crate::names::{LockName, SiteName};
use crate::node::{Answer, Call, Input, Node, Packet, Token};
use crate::rules::Rules;
use crate::table::{Request, Session};

/// Something that happens.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A site starts, again or for the first time.
    Start(usize),
    /// A node wants to be called.
    Wake(usize),
    /// A site that stood still goes on.
    Resume(usize),
    Packet {
        from: usize,
        to: usize,
        generation: u64,
        packet: Box<Packet>,
    },
    /// A disk has completed a batch.
    Synced {
        machine: usize,
        life: u64,
        token: Token,
    },
    /// Two sites try to connect again.
    Connect(usize, usize),
    /// A client calls its node.
    Call {
        machine: usize,
        life: u64,
        call: Call,
    },
    /// A client is told something.
    Told {
        client: usize,
        session: Session,
        answer: Answer,
    },
    /// A client notices that its node is gone.
    Disconnected {
        client: usize,
        session: Session,
    },
    /// A client's own timer.
    Client {
        client: usize,
        timer: u64,
    },
    /// An update reaches the counter that a lock guards.
    Update {
        client: usize,
        timer: u64,
        lock: LockName,
        fence: Fence,
        read: u64,
    },
    Fault(usize),
    /// A partition ends.
    Unblock(usize),
    /// Faults have stopped: everything is repaired.
    Calm,
    /// Everyone must have been served.
    Bound,
}

/// A site's machine: the process of its node, its disk, its clock.
pub(super) struct Machine {
    pub(super) node: Option<Node>,
    /// Which process.
    pub(super) life: u64,
    pub(super) disk: Disk,
    /// Whether it has lost its disk, once or more.
    pub(super) lost_disk: bool,
    pub(super) unsynced: VecDeque<(Token, Vec<Write>)>,
    pub(super) clock: Clock,
    /// The rules of the view that its process has installed last, as it said.
    pub(super) rules: Option<Rules>,
    pub(super) paused_until: Option<Moment>,
    /// What has come for it meanwhile.
    postponed: VecDeque<Event>,
    pub(super) slow_until: Moment,
    /// The wake-up that counts.
    pub(super) wake: Option<Moment>,
    /// When it dies, and how long it stays down.
    pub(super) dying: Option<(Death, u64)>,
    /// An operator has taken it out.
    pub(super) left: bool,
}

pub(super) struct World {
    pub(super) settings: Settings,
    pub(super) mutants: Mutants,
    pub(super) now: Moment,
    queue: BTreeMap<(Moment, u64), Event>,
    sequence: u64,
    pub(super) draw: Rng,
    pub(super) machines: Vec<Machine>,
    /// Their names.
    pub(super) names: Vec<SiteName>,
    pub(super) clients: Vec<Client>,
    pub(super) network: Network,
    pub(super) exclusion: Exclusion,
    pub(super) fences: Fences,
    pub(super) updates: Updates,
    pub(super) agreement: Agreement,
    pub(super) departed: Departed,
    pub(super) leases: Leases,
    pub(super) coverage: Coverage,
    pub(super) trace: Trace,
    pub(super) calm: bool,
    pub(super) last_session: u64,
    pub(super) last_request: u64,
    /// Which lock each request is for.
    pub(super) asked: BTreeMap<Request, LockName>,
    hash: EventHash,
    events: u64,
}

impl World {
    pub(super) fn new(settings: Settings, options: &Options) -> Self {
        let machine = |&clock: &Clock| Machine {
            node: None,
            life: 0,
            disk: Disk::default(),
            lost_disk: false,
            unsynced: VecDeque::new(),
            clock,
            rules: None,
            paused_until: None,
            postponed: VecDeque::new(),
            slow_until: Moment::default(),
            wake: None,
            dying: None,
            left: false,
        };
        let (clocks, strict) = (settings.clocks.clone(), !settings.beyond_drift);
        let mut world = World {
            mutants: options.mutants,
            now: Moment::default(),
            queue: BTreeMap::new(),
            sequence: 0,
            draw: Rng::with_seed(settings.seed ^ 0x00c1_a551_c0de),
            machines: settings.clocks.iter().map(machine).collect(),
            names: (0..settings.machines).map(site).collect(),
            clients: (0..settings.machines * settings.clients)
                .map(|at| Client::new(at / settings.clients))
                .collect(),
            network: Network::default(),
            exclusion: Exclusion::new(clocks.clone(), strict),
            fences: Fences::new(strict),
            updates: Updates::default(),
            agreement: Agreement::default(),
            departed: Departed::default(),
            leases: Leases::new(clocks, strict),
            coverage: Coverage::default(),
            trace: Trace::new(options.trace),
            calm: false,
            last_session: 0,
            last_request: 0,
            asked: BTreeMap::new(),
            hash: EventHash::default(),
            events: 0,
            settings,
        };
        for machine in 0..world.settings.machines {
            world.at(Moment(world.settings.starts[machine]), Event::Start(machine));
        }
        let most = options.faults.unwrap_or(usize::MAX);
        for at in 0..world.settings.faults.len().min(most) {
            world.at(Moment(world.settings.faults[at].0), Event::Fault(at));
        }
        world.at(Moment(world.settings.calm), Event::Calm);
        world
    }

    /// Lets everything happen, until everyone has been served in the calm or something is wrong.
    pub(super) fn run(mut self) -> Report {
        let mut verdict = Ok(());
        while let Some(((moment, _), event)) = self.queue.pop_first() {
            self.now = moment;
            verdict = match self.standing_still(&event) {
                Some(machine) => {
                    self.machines[machine].postponed.push_back(event);
                    continue;
                }
                None => self.happen(event),
            };
            if verdict.is_err() || self.calm && self.is_over() {
                break;
            }
        }
        self.coverage_at_the_end();
        Report {
            seed: self.settings.seed,
            violation: verdict.err(),
            hash: self.hash.finish(),
            events: self.events,
            node_micros: self.now.0 * self.settings.machines as u64,
            faults: self.settings.faults.len(),
            coverage: self.coverage,
            trace: self.trace.lines,
        }
    }

    pub(super) fn at(&mut self, moment: Moment, event: Event) {
        self.sequence += 1;
        self.queue.insert((moment.max(self.now), self.sequence), event);
    }

    pub(super) fn after(&mut self, micros: u64, event: Event) {
        self.at(self.now.after(micros), event);
    }

    /// A delay of at most this many microseconds.
    pub(super) fn within(&mut self, most: u64) -> u64 {
        if most == 0 { 0 } else { self.draw.u64(..=most) }
    }

    /// The machine that the event is for, if it stands still: it gets everything later, in order.
    fn standing_still(&self, event: &Event) -> Option<usize> {
        let (Event::Wake(machine)
        | Event::Packet { to: machine, .. }
        | Event::Synced { machine, .. }
        | Event::Call { machine, .. }) = event
        else {
            return None;
        };
        Some(*machine).filter(|machine| self.machines[*machine].paused_until.is_some())
    }

    fn note_event(&mut self, event: &Event) {
        self.events += 1;
        self.now.hash(&mut self.hash);
        std::mem::discriminant(event).hash(&mut self.hash);
        match event {
            Event::Packet { from, to, packet, .. } => {
                (from, to, packet).hash(&mut self.hash);
                self.trace.packet(self.now, *from, *to, packet);
            }
            Event::Start(at)
            | Event::Wake(at)
            | Event::Resume(at)
            | Event::Fault(at)
            | Event::Unblock(at) => at.hash(&mut self.hash),
            Event::Synced { machine, token, .. } => (machine, token).hash(&mut self.hash),
            Event::Connect(a, b) => (a, b).hash(&mut self.hash),
            Event::Call { machine, call, .. } => {
                machine.hash(&mut self.hash);
                self.trace.call(self.now, *machine, call);
            }
            Event::Told { client, session, .. } | Event::Disconnected { client, session } => {
                (client, session).hash(&mut self.hash);
            }
            Event::Client { client, timer } => (client, timer).hash(&mut self.hash),
            Event::Update { client, lock, fence, read, .. } => {
                (client, lock, fence, read).hash(&mut self.hash);
            }
            Event::Calm | Event::Bound => {}
        }
    }

    /// A machine goes on, unless its pause was lengthened meanwhile.
    fn resume(&mut self, machine: usize) -> Verdict {
        if self.machines[machine].paused_until.is_none_or(|until| until > self.now) {
            return Ok(());
        }
        self.machines[machine].paused_until = None;
        for event in std::mem::take(&mut self.machines[machine].postponed) {
            self.happen(event)?;
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Verdict {
        self.note_event(&event);
        match event {
            Event::Resume(machine) => self.resume(machine),
            Event::Start(machine) => self.start(machine),
            Event::Wake(machine) => {
                if self.machines[machine].wake.is_none_or(|wake| wake > self.now) {
                    return Ok(());
                }
                self.machines[machine].wake = None;
                self.drive(machine, Input::Time)
            }
            Event::Packet { from, to, generation, packet } => {
                // What a broken connection had on its way is lost, or comes through behind the new connection's back.
                if generation != self.network.generation(from, to) && self.draw.usize(..3) != 0 {
                    return Ok(());
                }
                let from = self.names[from].clone();
                self.drive(to, Input::Packet { from, packet: *packet })
            }
            Event::Synced { machine, life, token } => self.synced(machine, life, token),
            Event::Connect(a, b) => self.connect(a, b),
            Event::Call { machine, life, call } => {
                if self.machines[machine].life != life {
                    return Ok(());
                }
                if let Call::SessionEnded(session) = call {
                    self.departed.on_ended(session);
                }
                self.drive(machine, Input::Call(call))
            }
            Event::Told { client, session, answer } => {
                self.told(client, session, answer);
                Ok(())
            }
            Event::Disconnected { client, session } => {
                if self.clients[client].session == Some(session) {
                    self.disconnect(client);
                }
                Ok(())
            }
            Event::Client { client, timer } => {
                self.client_timer(client, timer);
                Ok(())
            }
            Event::Update { client, timer, lock, fence, read } => {
                let accepted = self.updates.write(&lock, fence, read, self.now)?;
                self.updated(client, timer, accepted);
                Ok(())
            }
            Event::Fault(at) => self.fault(at),
            Event::Unblock(at) => {
                if let (_, Fault::Partition { blocked, .. }) = self.settings.faults[at].clone()
                    && !self.calm
                {
                    self.network.unblock(&blocked);
                    self.reconnect_all();
                }
                Ok(())
            }
            Event::Calm => {
                self.become_calm();
                Ok(())
            }
            Event::Bound => starvation::check(&self.unserved(), self.now),
        }
    }

    fn fault(&mut self, at: usize) -> Verdict {
        let fault = self.settings.faults[at].1.clone();
        self.coverage.count(&format!("fault: {}", fault.kind()));
        self.trace.fault(self.now, &fault);
        match fault {
            Fault::Crash { machine, when, down } => {
                if self.machines[machine].node.is_some() && self.machines[machine].dying.is_none() {
                    self.machines[machine].dying = Some((when, down));
                }
            }
            Fault::Pause { machine, length } => {
                let end = self.now.after(length).min(Moment(self.settings.calm));
                let until = &mut self.machines[machine].paused_until;
                *until = (*until).max(Some(end));
                self.at(end, Event::Resume(machine));
            }
            Fault::Break { a, b } => self.cut(a, b),
            Fault::Partition { blocked, length } => {
                self.network.block(&blocked);
                self.after(length, Event::Unblock(at));
            }
            Fault::ClientCrash { client } => self.client_crash(client),
            Fault::Leave { machine } => return self.leave(machine),
            Fault::Rules { machine, rules } => {
                self.last_request += 1;
                let request = Request(self.last_request);
                return self.drive(machine, Input::Call(Call::SetRules { request, rules }));
            }
            Fault::OtherCluster { machine, from } => return self.mistake(machine, from),
            Fault::LostDisk { machine, down } => self.lose_disk(machine, down),
            Fault::TakeAway { machine, lock } => {
                self.last_request += 2;
                let (query, order) = (Request(self.last_request - 1), Request(self.last_request));
                let lock = self.settings.locks[lock].clone();
                self.drive(machine, Input::Call(Call::Query { request: query, lock: lock.clone() }))?;
                return self.drive(machine, Input::Call(Call::Break { request: order, lock }));
            }
            Fault::SlowDisk { machine, length } => {
                self.machines[machine].slow_until = self.now.after(length);
            }
        }
        Ok(())
    }

    /// Repairs everything, and lets every client want in once more.
    fn become_calm(&mut self) {
        self.calm = true;
        self.network.heal();
        self.network.block(&self.settings.stubborn);
        if !self.settings.stubborn.is_empty() {
            self.coverage.count("partial partition that stays");
        }
        for machine in &mut self.machines {
            machine.slow_until = Moment::default();
            machine.dying = None;
        }
        self.reconnect_all();
        for at in 0..self.clients.len() {
            let machine = self.clients[at].machine;
            let owed = !self.machines[machine].left && self.settings.is_untouched(machine);
            self.clients[at].finale = if owed { Finale::Owed } else { Finale::Done };
            if self.clients[at].state == State::Resting {
                self.set_timer(at, 0);
            }
        }
        let bound = starvation::bound(self.clients.len() as u64, self.settings.hold);
        self.after(bound, Event::Bound);
    }

    fn is_over(&self) -> bool {
        self.clients.iter().all(|client| client.finale == Finale::Done)
    }

    fn unserved(&self) -> Vec<String> {
        let owed = self.clients.iter().enumerate().filter(|(_, client)| client.finale == Finale::Owed);
        owed.map(|(at, client)| format!("client {at} of s{} ({:?})", client.machine, client.state)).collect()
    }

    fn coverage_at_the_end(&mut self) {
        for (what, count) in [
            ("update accepted", self.updates.accepted),
            ("update rejected by its fence", self.updates.rejected),
            ("stale holder, only the fence protects", self.exclusion.stale_holders),
        ] {
            (0..count.min(1_000)).for_each(|_| self.coverage.count(what));
        }
    }
}

/// A hash that is the same everywhere: a product and a rotation for each word.
#[derive(Clone, Copy, Debug, Default)]
struct EventHash(u64);

impl Hasher for EventHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(u64::from(word));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}
