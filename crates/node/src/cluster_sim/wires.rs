//! What happens between sites: packets are sent, connections break and are made anew.

use meshlock_protocol::Message;

use super::event::Event;
use super::properties::Verdict;
use super::world::World;
use crate::links::Frame;
use crate::node::{Content, Input, Letter, Matter, Packet};

impl World {
    pub(super) fn send(&mut self, from: usize, to: &str, packet: Packet) {
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
}
