//! Checks of what nodes report against the properties.

use super::client::Asked;
use super::coverage::Occurrence;
use super::event::Event;
use super::properties::admission::AdmissionCheck;
use super::properties::exclusion::ObservedGrant;
use super::properties::{CheckResult, PropertyViolation, broken, sound, views};
use super::wire_clients::FIRST;
use super::world::World;
use meshlock_cluster::membership::Pace;
use meshlock_cluster::membership::voters::{Voter, Voters};
use meshlock_cluster::names::{Member, SiteName};
use meshlock_cluster::node::{ClientAnswer, Config, LockQueue, Node, Note};
use meshlock_cluster::rules::Rules;
use meshlock_cluster::table::{LockEvent, Request, RequestRefusal};
use meshlock_cluster::time::Time;
use meshlock_cluster::view::View;
use meshlock_protocol::{Epoch, Fence};

impl World {
    pub(super) fn note(&mut self, machine: usize, note: Note) -> CheckResult {
        self.trace.note(self.now, machine, &note);
        if self.forgetful_voter && matches!(note, Note::DiskIsOld { .. }) {
            self.coverage.record(Occurrence::DiskIsOld);
            return Ok(());
        }
        sound::on_note(machine, &note, self.now)?;
        match note {
            Note::Installed(view) => self.on_installed(machine, view)?,
            Note::Opened(epoch) => self.on_opened(machine, epoch),
            Note::Excluded { .. } => self.coverage.record(Occurrence::Excluded),
            Note::Granted(member) => self.leases.on_granted(machine, member, self.now),
            Note::Proposed(view) => {
                self.coverage.record(Occurrence::ViewProposed);
                self.check_proposal(machine, &view)?;
            }
            Note::Leads(term) => {
                self.coverage.record(Occurrence::LeaderElected);
                self.leases.on_leads(machine, self.now);
                self.needless.on_leads(term, machine, self.now);
                let is_alone = self.needless.is_only_voter(machine);
                self.one_lease.on_leads(machine, is_alone, self.now);
                self.voting.on_leads(term, machine, self.now)?;
            }
            Note::VotersChanged(voters) => {
                self.one_lease.on_voters_changed(self.now);
                self.on_voters_changed(&voters);
            }
            Note::AccessAgreed(access) => {
                self.coverage.record(Occurrence::AccessLearnt);
                self.admission.on_learnt(machine, &access, self.now)?;
            }
            Note::NotAdmitted { .. } => self.coverage.record(Occurrence::NotAdmitted),
            Note::JoinRefused { .. } => self.coverage.record(Occurrence::JoinRefused),
            Note::BecomesVoter { .. } => self.coverage.record(Occurrence::BecameVoter),
            Note::VotesNoMore { .. } => self.coverage.record(Occurrence::VotesNoMore),
            Note::GaveUp(member) => {
                self.exclusion.on_gave_up(machine, self.now)?;
                self.leases.on_gave_up(member);
            }
            Note::OtherCluster { .. } => self.coverage.record(Occurrence::OtherCluster),
            Note::DiskReplaced { .. } => {
                self.coverage.record(Occurrence::VoterWithoutDisk);
                return sound::on_replaced(machine, self.machines[machine].lost_disk, self.now);
            }
            Note::OtherTerms { .. } => self.coverage.record(Occurrence::OtherTerms),
            Note::TooOld(_) => self.coverage.record(Occurrence::TooOld),
            Note::Detour { .. } => self.coverage.record(Occurrence::Detour),
            Note::DetourEnded { .. } => self.coverage.record(Occurrence::DetourEnded),
            Note::LeadershipLost(_) => self.count_step_down(machine),
            Note::LeaseEnded(_)
            | Note::LeaseRegained { .. }
            | Note::QuorumLost(_)
            | Note::QuorumRegained
            | Note::Departed { .. }
            | Note::DiskIsOld { .. }
            | Note::FirstStartWaits { .. }
            | Note::EpochsExhausted
            | Note::NoFenceFloor { .. }
            | Note::NameUsedTwice { .. }
            | Note::NameTaken { .. }
            | Note::Misbehaved { .. }
            | Note::Doubted { .. }
            | Note::CannotOpen { .. } => {}
        }
        Ok(())
    }

    /// Checks a view that a site installs.
    fn on_installed(&mut self, machine: usize, view: View) -> CheckResult {
        self.coverage.record(Occurrence::ViewInstalled);
        let me = self.machines[machine].node.as_ref().map(Node::me);
        let takes_part = me.is_some_and(|me| view.contains(me));
        self.needless.on_installed(machine, takes_part, self.now);
        self.machines[machine].installed = Some(view.epoch);
        self.agreement.on_installed(machine, &view, self.now)?;
        self.leases.on_installed(&view, self.now)?;
        self.on_newest(view)
    }

    /// Checks a view that a site opens. What is wrong there is told at the end of the run, if nothing comes of it before.
    fn on_opened(&mut self, machine: usize, epoch: Epoch) {
        self.coverage.record(Occurrence::ViewOpened);
        let node = |machine: usize| self.machines[machine].node.as_ref();
        let named = |site: &SiteName| self.names.iter().position(|name| name == site).and_then(node);
        let opened = node(machine).map_or(Ok(()), |opener| views::on_opened(opener, epoch, named, self.now));
        self.unstopped = std::mem::replace(&mut self.unstopped, Ok(())).and(opened);
    }

    /// Checks a view that a leader proposes.
    fn check_proposal(&self, machine: usize, view: &View) -> CheckResult {
        let node = self.machines[machine].node.as_ref().expect("it proposes");
        AdmissionCheck::on_proposed(machine, node, view, self.now)?;
        self.one_lease.on_proposed(node, machine, view, self.now)?;
        for out in node.view().members.iter().filter(|member| !view.contains(member)) {
            if let Some(at) = self.stays(out) {
                self.needless.on_left_out(at, machine, self.now)?;
            }
        }
        self.leases.on_proposed(machine, node.view(), view, self.now)
    }

    /// Returns the machine on which this member runs, unless it leaves.
    fn stays(&self, member: &Member) -> Option<usize> {
        let at = self.names.iter().position(|name| *name == member.site)?;
        let (host, node) = (&self.machines[at], self.machines[at].node.as_ref()?);
        let leaves = host.left || self.movers.stopping.contains_key(&at);
        (node.me() == member && !leaves).then_some(at)
    }

    /// Counts a leader that has stepped down while its disk has kept it waiting for as long as voters wait for a silent
    /// leader. (The first tick may come right after the write.)
    fn count_step_down(&mut self, machine: usize) {
        let Config { pace: Pace { election, .. }, tick, .. } = self.settings.config(machine, 1);
        let timeout = tick.times(election as u64 - 1).micros();
        if self.machines[machine].writing_since.is_some_and(|since| since.after(timeout) <= self.now) {
            self.coverage.record(Occurrence::LeaderMadeRoom);
        }
    }

    /// Records who votes, if nobody knew it before.
    fn on_voters_changed(&mut self, voters: &Voters) {
        if !self.voting.on_changed(voters) {
            return;
        }
        if voters.is_joint() {
            self.coverage.record(Occurrence::VotersJoint);
        }
        let places = |voters: &[Voter]| -> Vec<usize> {
            let place = |voter: &Voter| self.names.iter().position(|name| *name == voter.site);
            voters.iter().filter_map(place).collect()
        };
        let groups = [places(&voters.voters), places(&voters.outgoing)];
        let is_whole = |voter: &&Voter| {
            let machine = self.names.iter().position(|name| *name == voter.site);
            machine.is_some_and(|machine| {
                voter.disk.is_some() && self.machines[machine].disk.identity() == voter.disk
            })
        };
        let whole: Vec<Voter> = voters.deciding().filter(is_whole).cloned().collect();
        self.needless.on_voters(&groups, &places(&whole));
    }

    /// Records a view that nobody had installed before: its rules, and the members that have joined.
    fn on_newest(&mut self, view: View) -> CheckResult {
        if view.epoch <= self.newest.epoch {
            return Ok(());
        }
        self.steps.on_view(&self.newest, &view, self.now)?;
        self.quiet.map_or(Ok(()), |quiet| quiet.on_view(view.epoch, self.now))?;
        self.one_lease.on_view(&self.newest, &view, self.now)?;
        if view.floor > self.newest.floor {
            self.coverage.record(Occurrence::FloorRaised);
        }
        if let Ok(rules) = Rules::new(view.rules.clone()) {
            self.rules.insert(view.epoch, rules);
        }
        for member in view.members.iter().filter(|member| !self.newest.contains(member)) {
            let known = self.newest.member(&member.site).is_some()
                || self.newest.past.iter().any(|past| past.site == member.site);
            self.coverage.record(if known { Occurrence::JoinedAgain } else { Occurrence::Joined });
            let machine = self.names.iter().position(|name| *name == member.site);
            if machine.is_some_and(|machine| std::mem::take(&mut self.machines[machine].is_out)) {
                self.coverage.record(Occurrence::Rejoined);
            }
        }
        self.newest = view;
        Ok(())
    }

    /// Handles a node's answer to a client: it is checked now, and the client receives it a little later.
    pub(super) fn answer(&mut self, machine: usize, answer: ClientAnswer) -> CheckResult {
        let process = self.judge_answer(machine, &answer)?;
        self.tell_mover(machine, &answer);
        self.tell_sessions(machine, &answer)?;
        if let Some(process) = process {
            self.tell(process, answer);
        }
        Ok(())
    }

    /// Checks an answer, and returns the process that it is for, if it is one of those that stay at their sites.
    fn judge_answer(
        &mut self,
        machine: usize,
        answer: &ClientAnswer,
    ) -> Result<Option<usize>, PropertyViolation> {
        let process = match answer {
            ClientAnswer::Lock(LockEvent::Extended { lease_end }) => {
                self.on_extended(machine, *lease_end)?;
                None
            }
            ClientAnswer::Lock(tell) => {
                self.judge(machine, tell)?;
                self.recipient(tell)
            }
            ClientAnswer::Claim(event) => {
                self.judge_claim(machine, event)?;
                None
            }
            ClientAnswer::Leaving => {
                self.machines[machine].frozen = true;
                None
            }
            ClientAnswer::RulesSet { .. } => self.count(Occurrence::RulesSet),
            ClientAnswer::RulesRefused { .. } => self.count(Occurrence::RulesRefused),
            ClientAnswer::VotersChanged { .. } => self.count(Occurrence::VotersSet),
            ClientAnswer::VotersRefused { .. } => self.count(Occurrence::VotersRefused),
            ClientAnswer::AccessSet { .. } => self.count(Occurrence::AccessSet),
            ClientAnswer::AccessRefused { .. } => self.count(Occurrence::AccessRefused),
            ClientAnswer::Unavailable { .. } => self.count(Occurrence::RulesGivenUp),
            ClientAnswer::Left { .. } => {
                self.coverage.record(Occurrence::Left);
                self.machines[machine].is_out = true;
                self.on_stopped(machine);
                None
            }
            ClientAnswer::Queue { queue: LockQueue { missing, .. }, .. } => {
                self.coverage.record(if missing.is_empty() {
                    Occurrence::Queue
                } else {
                    Occurrence::QueueInPart
                });
                None
            }
            ClientAnswer::Broken { cut_off, .. } => {
                let is_held = !cut_off.is_empty();
                self.coverage.record(if is_held { Occurrence::TakenAway } else { Occurrence::NothingToTake });
                None
            }
            ClientAnswer::Overview { .. }
            | ClientAnswer::Locks { .. }
            | ClientAnswer::Page { .. }
            | ClientAnswer::Deadlocks { .. }
            | ClientAnswer::Changes { .. }
            | ClientAnswer::Leaves { .. }
            | ClientAnswer::Proof { .. }
            | ClientAnswer::Traced { .. } => None,
        };
        Ok(process)
    }

    /// Records something that was told to nobody in particular.
    fn count(&mut self, occurrence: Occurrence) -> Option<usize> {
        self.coverage.record(occurrence);
        None
    }

    /// Returns whose a request is, if it is of a client that may hold a lock twice for a while: at the site that it comes from, and where it
    /// goes on.
    fn roaming(&self, request: Request) -> Option<usize> {
        let of_wire = || Some(FIRST + self.wire.opened.get(self.wire.requests.get(&request)?)?.client);
        self.movers.requests.get(&request).copied().or_else(of_wire)
    }

    /// Lets a process receive an answer a little later, after those before.
    fn tell(&mut self, process: usize, answer: ClientAnswer) {
        let Some(session) = self.processes[process].session else { return };
        let delay = self.within(500);
        let at = self.now.after(delay).max(self.processes[process].last_told);
        self.processes[process].last_told = at;
        self.at(at, Event::Told { process, session, answer });
    }

    /// Handles the renewal of a site's lease: every process of the site that assumes that it holds something is told, as
    /// a node's host does.
    fn on_extended(&mut self, machine: usize, lease_end: Time) -> CheckResult {
        for process in self.processes_at(machine) {
            let Some(session) = self.processes[process].session else { continue };
            if self.exclusion.on_extended(session, lease_end, self.now)? {
                self.coverage.record(Occurrence::Extended);
                self.tell(process, ClientAnswer::Lock(LockEvent::Extended { lease_end }));
            }
        }
        for session in self.mover_sessions(machine) {
            self.exclusion.on_extended(session, lease_end, self.now)?;
        }
        Ok(())
    }

    /// Checks a grant.
    fn judge_grant(
        &mut self,
        machine: usize,
        request: Request,
        (fence, slot): (Fence, Option<u32>),
        lease_end: Time,
    ) -> CheckResult {
        self.coverage.record(Occurrence::Granted);
        self.steps.on_granted();
        // One step may grant and then install another view: the view that the node reported before counts.
        let Asked { lock, permits, mode, session, .. } =
            self.asked.get(&request).cloned().expect("only what was asked for is granted");
        let installed = self.machines[machine].installed;
        let rules = installed.and_then(|epoch| self.rules.get(&epoch));
        let rule = rules.map(|rules| (rules.names(&lock), rules.rule(&lock).permits));
        self.coverage.record(match rule {
            Some((_, by_rule)) if by_rule == permits => Occurrence::ByRule,
            Some((false, _)) => Occurrence::WithoutRule,
            Some((true, _)) | None => {
                let what = format!("s{machine} grants {lock} with {permits} permits, against its rule");
                return broken("exclusion", self.now, what);
            }
        });
        let client_runs =
            self.requester(request).is_some() || self.mover_waits(request) || self.wire_waits(request);
        let grant = ObservedGrant {
            request,
            session,
            lock: &lock,
            machine,
            until: lease_end,
            permits,
            mode,
            client_runs,
            mover: self.roaming(request),
        };
        self.exclusion.on_granted(grant, self.now)?;
        self.fences.on_granted(&lock, machine, (permits, slot, mode), fence, self.now)?;
        if let Some(shared) = Occurrence::of_grant(mode) {
            self.coverage.record(shared);
        }
        if self.exclusion.is_shared(&lock, self.now) {
            self.coverage.record(Occurrence::Beside);
        }
        self.trace.entered(self.now, machine, &lock, fence);
        Ok(())
    }

    fn judge(&mut self, machine: usize, tell: &LockEvent) -> CheckResult {
        match *tell {
            LockEvent::Granted { request, fence, slot, lease_end, .. } => {
                self.judge_grant(machine, request, (fence, slot), lease_end)?;
            }
            LockEvent::ModeChanged { request, mode, fence } => {
                self.judge_mode(machine, request, mode, fence)?;
            }
            LockEvent::ModeRefused { .. } => self.coverage.record(Occurrence::ModeRefused),
            // It is for no single request, and handled before.
            LockEvent::Extended { .. } => {}
            LockEvent::Lost { request, act_by, why } => {
                self.coverage.record(Occurrence::Lost);
                self.exclusion.on_lost(request, act_by);
                self.judge_loss(machine, request, why)?;
                if !self.is_leaving(machine) {
                    self.needless.on_lost(machine, why, self.now)?;
                }
            }
            LockEvent::Released { request } => {
                self.exclusion.on_left(request);
                if !self.is_leaving(machine) {
                    self.contention.on_ended(request, self.now);
                }
            }
            LockEvent::Cancelled { request } => {
                self.coverage.record(Occurrence::Cancelled);
                self.contention.on_ended(request, self.now);
            }
            LockEvent::TimedOut { request } => {
                self.coverage.record(Occurrence::TimedOut);
                self.contention.on_taken(request, self.now)?;
            }
            LockEvent::Busy { request } => {
                self.coverage.record(Occurrence::Busy);
                self.contention.on_taken(request, self.now)?;
            }
            LockEvent::Unavailable { request, .. } => {
                self.coverage.record(Occurrence::Unavailable);
                self.contention.on_ended(request, self.now);
            }
            LockEvent::Refused { request, why } => {
                self.coverage.record(refusal(why));
                self.contention.on_ended(request, self.now);
            }
        }
        Ok(())
    }
}

/// Returns what a refusal counts as.
fn refusal(why: RequestRefusal) -> Occurrence {
    if why == RequestRefusal::TooManyLocks {
        return Occurrence::FullAgain;
    }
    if why == RequestRefusal::MakingRoom {
        return Occurrence::MakingRoom;
    }
    if why == RequestRefusal::TooManyQuestions {
        return Occurrence::QuestionRefused;
    }
    if matches!(
        why,
        RequestRefusal::ExclusiveOnly { .. }
            | RequestRefusal::NoPriorities { .. }
            | RequestRefusal::ModeOfMany { .. }
    ) {
        return Occurrence::DemandUnknown;
    }
    if why == RequestRefusal::OlderMemberModes {
        return Occurrence::ModesBesideOlder;
    }
    if let RequestRefusal::PermitsInUse { has, wants } = why
        && has != wants
    {
        return Occurrence::InUseOtherwise;
    }
    if let RequestRefusal::PermitsByRule { has, wants } = why
        && has != wants
    {
        return Occurrence::OtherRule;
    }
    Occurrence::Refused
}
