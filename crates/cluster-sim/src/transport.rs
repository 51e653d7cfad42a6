//! Transport between sites: packets are sent, connections break and are made again.

use meshlock_protocol::Message;

use super::clock::Moment;
use super::coverage::{CoverageGroup, Occurrence};
use super::event::Event;
use super::network::{Sent, Way};
use super::properties::{CheckResult, sound};
use super::world::World;
use meshlock_cluster::links::Frame;
use meshlock_cluster::names::Member;
use meshlock_cluster::node::{Abilities, Content, Input, LinkPayload, Packet, Route};
use meshlock_wire::sites::{
    AGREES_ON_ACCESS, CARRIES_FOR_OTHERS, CHANGES_VOTERS, COUNTS_VOTERS, FORWARDS_CALLS, KNOWS_FENCE_FLOORS,
    LISTS_LOCKS, REPORTS_RECORDS, VERSIONS,
};

impl World {
    /// Sends a packet of a node, encoded as bytes.
    pub(super) fn send(&mut self, from: usize, to: &str, packet: Packet) -> CheckResult {
        let Some(to) = self.names.iter().position(|name| name.as_str() == to) else { return Ok(()) };
        self.count_packet(&packet);
        let version = self.speaks(from).min(self.speaks(to));
        if version < VERSIONS.1 {
            self.coverage.record(Occurrence::OlderVersion);
        }
        let is_too_new = version < CARRIES_FOR_OTHERS
            && (packet.content.is_beat() || packet.route != Route::Direct)
            || version < CHANGES_VOTERS && packet.content.is_about_voters()
            || version < COUNTS_VOTERS && packet.content.is_absence()
            || version < AGREES_ON_ACCESS && packet.content.is_about_access()
            || version < REPORTS_RECORDS && packet.content.is_records()
            || version < LISTS_LOCKS && packet.content.is_about_listings()
            || version < FORWARDS_CALLS && is_call(&packet.content);
        if is_too_new {
            // A host does not send what the other side cannot read.
            return Ok(());
        }
        let packet = if self.speaks(from) < CHANGES_VOTERS { without_annotation(packet) } else { packet };
        let packet = sound::travel(packet, version, self.now)?;
        self.put_on_the_wire((from, to), packet);
        Ok(())
    }

    /// Returns the version that a site's program speaks.
    pub(super) fn speaks(&self, machine: usize) -> u16 {
        self.settings.environment.version(machine, self.machines[machine].incarnation)
    }

    fn put_on_the_wire(&mut self, (from, to): Way, packet: Packet) {
        let delay = self.within(self.settings.delay) + self.settings.environment.distance(from, to);
        if self.network.loses((from, to), self.now, &mut self.more) {
            return self.coverage.record(Occurrence::PacketLost);
        }
        let generation = self.network.generation(from, to);
        let calm = Moment(self.settings.calm);
        if let Sent::Arrives(arrival, packet) = self.network.send((from, to), packet, self.now, delay, calm) {
            self.at(arrival, Event::Packet { from, to, generation, packet });
        }
    }

    fn count_packet(&mut self, packet: &Packet) {
        self.coverage.count(CoverageGroup::Packet, packet.content.kind(), "");
        let Content::Link { frame: Frame::Data { epoch, body, .. }, .. } = &packet.content else { return };
        match body {
            LinkPayload::Lock(message) => {
                // The step that sent it may have gone on to another view.
                if let Some(rules) = self.rules.get(epoch) {
                    let algorithm = rules.rule(&message.lock).spec.info.name;
                    self.coverage.count(CoverageGroup::Message, algorithm, message.message.kind());
                }
            }
            LinkPayload::Census(piece) if !piece.holdings.is_empty() => {
                self.coverage.record(Occurrence::HoldersCarried);
                if !piece.last {
                    self.coverage.record(Occurrence::CensusInPieces);
                }
            }
            LinkPayload::Census(_) | LinkPayload::Left(_) | LinkPayload::Permits(_) => {}
        }
    }

    /// Handles the arrival of a packet, on a connection that may have broken since: then it may come late, or not at
    /// all.
    pub(super) fn arrive(&mut self, (from, to): Way, generation: u64, packet: Box<Packet>) -> CheckResult {
        if generation != self.network.generation(from, to) {
            match self.network.remains((from, to), generation) {
                None => return Ok(()),
                Some(0) => {}
                Some(later) => {
                    self.after(later, Event::Late { from, to, packet });
                    return Ok(());
                }
            }
        }
        self.deliver((from, to), *packet)
    }

    /// Handles the late arrival of a packet of an old connection.
    pub(super) fn arrive_late(&mut self, (from, to): Way, packet: Packet) -> CheckResult {
        self.one_lease.on_disturbed(self.now);
        if !self.network.is_down(from, to) && self.machines[to].node.is_some() {
            self.coverage.record(Occurrence::LateNews);
        }
        self.deliver((from, to), packet)
    }

    fn deliver(&mut self, (from, to): Way, packet: Packet) -> CheckResult {
        let from = self.names[from].clone();
        if matches!(packet.content, Content::Join { .. } | Content::JoinWithToken { .. }) {
            let site = if let Route::From(origin) = &packet.route { origin } else { &from };
            let member = Member { site: site.clone(), incarnation: packet.incarnation };
            self.one_lease.on_asked(to, member, self.now);
        }
        if self.has_second(to) {
            self.second_hears(&from, packet.clone())?;
        }
        self.drive(to, Input::Packet { from, packet })
    }

    /// Sends the packets that partitions held back.
    pub(super) fn release(&mut self, held: Vec<(Way, Vec<Packet>)>) {
        for (way, packets) in held {
            self.coverage.record(Occurrence::HeldBack);
            for packet in packets {
                self.put_on_the_wire(way, packet);
            }
        }
    }

    pub(super) fn cut(&mut self, a: usize, b: usize) {
        if self.network.cut(a, b, &mut self.draw) {
            self.needless.on_connection(a, b, false, self.now);
            self.one_lease.on_disturbed(self.now);
            let delay = self.draw.u64(1_000..300_000);
            self.after(delay, Event::Connect(a, b));
        }
    }

    pub(super) fn connect(&mut self, a: usize, b: usize) -> CheckResult {
        if !self.network.is_down(a, b) || self.machines[a].node.is_none() || self.machines[b].node.is_none() {
            return Ok(());
        }
        let paused_until = self.machines[a].paused_until.max(self.machines[b].paused_until);
        if let Some(until) = paused_until {
            // A process that is stopped greets nobody.
            self.at(until, Event::Connect(a, b));
            return Ok(());
        }
        if !self.network.connect(a, b) {
            self.after(200_000, Event::Connect(a, b));
            return Ok(());
        }
        self.needless.on_connection(a, b, true, self.now);
        self.one_lease.on_disturbed(self.now);
        for (at, other) in [(a, b), (b, a)] {
            let version = self.speaks(other).min(self.speaks(at));
            let abilities = Abilities {
                carries: version >= CARRIES_FOR_OTHERS,
                changes_voters: version >= CHANGES_VOTERS,
                counts_voters: version >= COUNTS_VOTERS,
                knows_floors: version >= KNOWS_FENCE_FLOORS,
                agrees_on_access: version >= AGREES_ON_ACCESS,
                forwards_calls: version >= FORWARDS_CALLS,
                reports_records: version >= REPORTS_RECORDS,
                lists_locks: version >= LISTS_LOCKS,
            };
            self.drive(at, Input::Connected { site: self.names[other].clone(), abilities })?;
        }
        Ok(())
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
}

/// Returns whether a packet is about a forwarded call.
fn is_call(content: &Content) -> bool {
    matches!(content, Content::Call { .. } | Content::CallAnswer { .. } | Content::CallEnded { .. })
}

/// Returns a packet as an older program sends it, whose voters say nothing about leases with Raft's messages.
fn without_annotation(mut packet: Packet) -> Packet {
    if let Content::Raft(message) = &mut packet.content {
        message.remove_annotation();
    }
    packet
}
