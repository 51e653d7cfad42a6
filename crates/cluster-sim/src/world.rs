//! The simulated world: one queue of events, and everything that they affect.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use fastrand::Rng;
use meshlock_protocol::Epoch;

use super::client::{Asked, ClientProcess, SimClient};
use super::clock::Moment;
use super::coverage::{Occurrence, OccurrenceCounter};
use super::event::{Event, EventHash, EventQueue};
use super::machine::SiteMachine;
use super::mirror_faults::MirrorFault;
use super::movers::Movers;
use super::network::SimNetwork;
use super::properties::CheckResult;
use super::properties::admission::AdmissionCheck;
use super::properties::agreement::Agreement;
use super::properties::contention::Contention;
use super::properties::departed::Departed;
use super::properties::exclusion::Exclusion;
use super::properties::fences::Fences;
use super::properties::leases::Leases;
use super::properties::needless::Needless;
use super::properties::one_lease::OneLease;
use super::properties::quiet::{self, Quiet};
use super::properties::starvation::Bound;
use super::properties::steps::Steps;
use super::properties::updates::Updates;
use super::properties::voting::VotingCheck;
use super::second_process::SecondProcess;
use super::settings::{SeedSettings, site};
use super::site_sessions::SiteSessions;
use super::trace::Trace;
use super::wire_clients::WireClients;
use super::{RunOptions, SeedReport};
use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::{ClientCall, Input};
use meshlock_cluster::rules::Rules;
use meshlock_cluster::table::Request;
use meshlock_cluster::view::View;

/// A whole simulated cluster: its machines, its network, its clients, and what happens next.
pub(super) struct World {
    pub(super) settings: SeedSettings,
    pub(super) now: Moment,
    queue: EventQueue,
    pub(super) draw: Rng,
    /// For what not all runs have.
    pub(super) more: Rng,
    /// For what clients that share locks do.
    pub(super) sharing: Rng,
    pub(super) machines: Vec<SiteMachine>,
    /// The second process under the name of one of them.
    pub(super) second: Option<SecondProcess>,
    pub(super) names: Vec<SiteName>,
    pub(super) processes: Vec<ClientProcess>,
    pub(super) clients: Vec<SimClient>,
    pub(super) movers: Movers,
    pub(super) wire: WireClients,
    /// Faults that strike when something happens between a site and its mirror.
    pub(super) armed: Vec<MirrorFault>,
    /// What each site knows of the sessions of wire clients.
    pub(super) sites: Vec<SiteSessions>,
    pub(super) network: SimNetwork,
    pub(super) exclusion: Exclusion,
    pub(super) fences: Fences,
    pub(super) updates: Updates,
    pub(super) agreement: Agreement,
    pub(super) admission: AdmissionCheck,
    pub(super) contention: Contention,
    pub(super) departed: Departed,
    pub(super) leases: Leases,
    /// Whether no view was opened while a member of it ran machines of an earlier one.
    pub(super) unstopped: CheckResult,
    pub(super) needless: Needless,
    pub(super) one_lease: OneLease,
    pub(super) voting: VotingCheck,
    pub(super) coverage: OccurrenceCounter,
    pub(super) trace: Trace,
    pub(super) calm: bool,
    /// Whether the disk of a voter was put back from an old copy.
    pub(super) forgetful_voter: bool,
    /// Until when a voter may be demoted, because an operator has asked for it.
    pub(super) demotes_until: Moment,
    pub(super) bound: Bound,
    pub(super) steps: Steps,
    /// When every client had been served in the calm.
    served: Option<Moment>,
    /// What follows on that.
    pub(super) quiet: Option<Quiet>,
    pub(super) last_session: u64,
    pub(super) last_request: u64,
    pub(super) asked: BTreeMap<Request, Asked>,
    /// The newest view that was installed anywhere.
    pub(super) newest: View,
    pub(super) rules: BTreeMap<Epoch, Rules>,
    hash: EventHash,
    events: u64,
}

impl World {
    pub(super) fn new(settings: SeedSettings, options: &RunOptions) -> Self {
        let most = options.faults.unwrap_or(usize::MAX);
        let (clocks, strict) = (settings.changed_clocks(most), settings.keeps_drift(most));
        let mut world = World {
            now: Moment::default(),
            queue: EventQueue::default(),
            draw: Rng::with_seed(settings.seed ^ 0x00c1_a551_c0de),
            more: Rng::with_seed(settings.seed ^ 0x00fa_17c0_de00),
            sharing: Rng::with_seed(settings.seed ^ 0x005a_4a12_e000),
            machines: clocks.iter().cloned().map(SiteMachine::new).collect(),
            second: None,
            names: (0..settings.machines).map(site).collect(),
            processes: (0..settings.machines * settings.processes)
                .map(|at| ClientProcess::new(at / settings.processes))
                .collect(),
            clients: (0..settings.machines * settings.clients)
                .map(|at| (at / settings.clients, at % settings.clients))
                .map(|(machine, at)| SimClient::new(machine * settings.processes + at % settings.processes))
                .collect(),
            movers: Movers::new(&settings),
            wire: WireClients::new(&settings),
            armed: Vec::new(),
            sites: vec![SiteSessions::default(); settings.machines],
            network: SimNetwork::default(),
            exclusion: Exclusion::new(clocks.clone(), strict),
            fences: Fences::new(strict),
            updates: Updates::default(),
            agreement: Agreement::default(),
            admission: AdmissionCheck::default(),
            contention: Contention::default(),
            departed: Departed::default(),
            leases: Leases::new(clocks.clone(), strict),
            unstopped: Ok(()),
            one_lease: OneLease::new(&settings, clocks),
            needless: Needless::new(&settings),
            voting: VotingCheck::default(),
            coverage: OccurrenceCounter::default(),
            trace: Trace::new(options.trace),
            calm: false,
            forgetful_voter: false,
            demotes_until: Moment::default(),
            bound: Bound::new(&settings),
            steps: Steps::new(&settings),
            served: None,
            quiet: None,
            last_session: 0,
            last_request: 0,
            asked: BTreeMap::new(),
            newest: View::default(),
            rules: BTreeMap::new(),
            hash: EventHash::default(),
            events: 0,
            settings,
        };
        for machine in 0..world.settings.machines {
            world.at(Moment(world.settings.starts[machine]), Event::Start(machine));
        }
        for at in 0..world.settings.faults.len().min(most) {
            let (time, fault) = &world.settings.faults[at];
            let (time, copied) = (Moment(*time), fault.copied_at());
            world.at(time, Event::Fault(at));
            if let Some(copied) = copied {
                world.at(copied, Event::Copy(at));
            }
        }
        world.start_movers();
        world.start_wire_clients();
        world.at(Moment(world.settings.calm), Event::Calm);
        world
    }

    /// Handles events until every client has been served in the calm and nothing has happened since, or a property does not hold.
    pub(super) fn run(mut self) -> SeedReport {
        let mut verdict = Ok(());
        while let Some((moment, event)) = self.queue.pop() {
            self.now = moment;
            verdict = match self.paused_machine(&event) {
                Some(machine) => {
                    self.machines[machine].postponed.push_back(event);
                    continue;
                }
                None => self.handle(event),
            };
            if verdict.is_err() || self.calm && self.has_been_quiet() {
                break;
            }
        }
        verdict = verdict.and(std::mem::replace(&mut self.unstopped, Ok(())));
        let served = self.served.filter(|_| verdict.is_ok()).map(|at| at.0 - self.settings.calm);
        if self.forgetful_voter && verdict.is_err() {
            // Nobody promises anything where a voter has forgotten what it had confirmed.
            self.coverage.record(Occurrence::BrokenByOldDisk);
            verdict = Ok(());
        }
        self.record_totals();
        SeedReport {
            seed: self.settings.seed,
            violation: verdict.err(),
            hash: self.hash.finish(),
            events: self.events,
            node_micros: self.now.0 * self.settings.machines as u64,
            served_micros: served,
            bound_micros: self.bound.micros(),
            left_out_micros: self.one_lease.longest,
            coverage: self.coverage.total(),
            trace: self.trace.lines,
        }
    }

    /// Returns whether every client has been served in the calm, and the quiet time after it is over.
    fn has_been_quiet(&mut self) -> bool {
        if self.quiet.is_none() && self.is_over() {
            let settled = Moment(self.settings.calm).after(self.bound.settle());
            self.served = Some(self.now);
            if !self.leases_outlast_renewals() {
                return true;
            }
            self.quiet = Some(Quiet::after(self.now, settled, self.bound.round()));
        }
        self.quiet.is_some_and(|quiet| quiet.is_over(self.now))
    }

    /// Returns whether no healthy member is left out because a clock is so fast that leases end before they can be renewed.
    fn leases_outlast_renewals(&self) -> bool {
        let clocks: Vec<_> = self.machines.iter().map(|machine| &machine.clock).collect();
        let grant = 8 * self.settings.trip() + 4 * self.settings.disk;
        let renewal = self.newest.terms.renew_every.micros() + grant;
        let length = self.newest.terms.length.micros();
        quiet::lease_outlasts_renewal(&clocks, Moment(self.settings.calm), length, renewal)
    }

    pub(super) fn at(&mut self, moment: Moment, event: Event) {
        self.queue.push(moment.max(self.now), event);
    }

    pub(super) fn after(&mut self, micros: u64, event: Event) {
        self.at(self.now.after(micros), event);
    }

    /// Draws a delay of at most this many microseconds.
    pub(super) fn within(&mut self, most: u64) -> u64 {
        if most == 0 { 0 } else { self.draw.u64(..=most) }
    }

    /// Returns the machine that the event is for, if it is paused: it gets all its events later, in order.
    fn paused_machine(&self, event: &Event) -> Option<usize> {
        if let Event::Wake(machine)
        | Event::Packet { to: machine, .. }
        | Event::Late { to: machine, .. }
        | Event::Synced { machine, .. }
        | Event::Call { machine, .. }
        | Event::SiteCall { machine, .. }
        | Event::SiteLook { machine, .. }
        | Event::SiteStep { machine, .. }
        | Event::SiteMessage { machine, .. } = event
        {
            return Some(*machine).filter(|machine| self.machines[*machine].paused_until.is_some());
        }
        // The clients of a suspended machine stand still with it.
        let machine = if let Event::Told { process, .. } = event {
            self.processes[*process].machine
        } else if let Event::Client { client, .. } = event {
            self.machine_of(*client)
        } else {
            return None;
        };
        Some(machine).filter(|machine| self.machines[*machine].suspended_until.is_some())
    }

    fn note_event(&mut self, event: &Event) -> CheckResult {
        self.events += 1;
        self.now.hash(&mut self.hash);
        event.mix(&mut self.hash);
        self.trace.event(self.now, event);
        self.steps.on_event(self.now)
    }

    /// Continues a paused machine, unless its pause was lengthened meanwhile.
    fn resume(&mut self, machine: usize) -> CheckResult {
        if self.machines[machine].paused_until.is_none_or(|until| until > self.now) {
            return Ok(());
        }
        self.machines[machine].paused_until = None;
        self.machines[machine].suspended_until = None;
        for event in std::mem::take(&mut self.machines[machine].postponed) {
            self.handle(event)?;
        }
        Ok(())
    }

    /// Lets a client make a call, unless the site has been started again since.
    pub(super) fn on_call(&mut self, machine: usize, incarnation: u64, call: ClientCall) -> CheckResult {
        if self.machines[machine].incarnation != incarnation {
            return Ok(());
        }
        if let ClientCall::SessionEnded(session) = call {
            self.departed.on_ended(session);
            // What a site that leaves does not let go of is taken until the site has left.
            if !self.is_leaving(machine) {
                self.contention.on_session_ended(session, self.now);
            }
        }
        if let ClientCall::Claim(claim) = &call {
            self.contention.on_claimed(machine, claim, self.now);
        }
        if let ClientCall::Acquire(wanted) = &call {
            self.contention.on_asked(machine, wanted, self.now);
        }
        self.drive(machine, Input::Call(call))
    }

    fn handle(&mut self, event: Event) -> CheckResult {
        self.note_event(&event)?;
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
            Event::Packet { from, to, generation, packet } => self.arrive((from, to), generation, packet),
            Event::Late { from, to, packet } => self.arrive_late((from, to), *packet),
            Event::Synced { machine, incarnation, token } => self.synced(machine, incarnation, token),
            Event::Connect(a, b) => self.connect(a, b),
            Event::Call { machine, incarnation, call } => self.on_call(machine, incarnation, call),
            Event::Told { process, session, answer } => {
                self.told(process, session, answer);
                Ok(())
            }
            Event::Disconnected { process, session } => {
                if self.processes[process].session == Some(session) {
                    self.disconnect(process);
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
            Event::Mover { mover, what } => self.on_mover(mover, what),
            Event::Wire { client, what } => self.on_wire(client, what),
            Event::SiteCall { machine, incarnation, call } => self.on_site_call(machine, incarnation, call),
            Event::SiteLook { machine, incarnation } => self.on_site_look(machine, incarnation),
            Event::SiteStep { machine, incarnation } => self.on_site_step(machine, incarnation),
            Event::SiteMessage { machine, incarnation, from, message } => {
                self.on_call_message(machine, incarnation, from, message)
            }
            Event::Fault(at) => self.fault(at),
            Event::Second => self.on_second(),
            Event::Unblock(at) => {
                self.unblock(at);
                Ok(())
            }
            Event::StartRemoved(machine) => self.restart_removed(machine),
            Event::Rejoin(machine) => {
                self.rejoin(machine);
                Ok(())
            }
            Event::Copy(at) => {
                self.copy_disk(at);
                Ok(())
            }
            Event::Calm => {
                self.become_calm();
                Ok(())
            }
            Event::Bound => self.reach_bound(),
        }
    }

    fn record_totals(&mut self) {
        if self.settings.environment.is_crowded {
            self.coverage.record(Occurrence::Crowded);
        }
        if self.settings.environment.has_regions() {
            self.coverage.record(Occurrence::Regions);
        }
        self.coverage.record_times(Occurrence::UpdateAccepted, self.updates.accepted);
        self.coverage.record_times(Occurrence::UpdateRejected, self.updates.rejected);
        self.coverage.record_times(Occurrence::StaleHolder, self.exclusion.stale_holders);
        for node in self.machines.iter_mut().filter_map(|machine| machine.node.take()).collect::<Vec<_>>() {
            self.count_links(&node);
        }
    }
}
