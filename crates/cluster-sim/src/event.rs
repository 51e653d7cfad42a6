//! Events, their queue, and a hash of those that happened.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{Hash, Hasher};

use meshlock_protocol::Fence;

use super::clock::Moment;
use super::movers::MoverEvent;
use super::site_sessions::WireCall;
use super::wire_clients::WireEvent;
use meshlock_cluster::names::{LockName, Member};
use meshlock_cluster::node::{CallMessage, ClientAnswer, ClientCall, Packet, WriteToken};
use meshlock_cluster::table::Session;

/// An event.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A site starts, again or for the first time.
    Start(usize),
    /// A node is due to be called.
    Wake(usize),
    /// A paused site continues.
    Resume(usize),
    Packet {
        from: usize,
        to: usize,
        generation: u64,
        packet: Box<Packet>,
    },
    /// A packet of a connection that has broken since then is read late.
    Late {
        from: usize,
        to: usize,
        packet: Box<Packet>,
    },
    /// A disk has completed a batch.
    Synced {
        machine: usize,
        incarnation: u64,
        token: WriteToken,
    },
    /// Two sites try to connect again.
    Connect(usize, usize),
    /// A client calls its node.
    Call {
        machine: usize,
        incarnation: u64,
        call: ClientCall,
    },
    /// A client process receives an answer.
    Told {
        process: usize,
        session: Session,
        answer: ClientAnswer,
    },
    /// A client process notices that its node is gone.
    Disconnected {
        process: usize,
        session: Session,
    },
    /// A client's own timer.
    Client {
        client: usize,
        timer: u64,
    },
    /// An update reaches the counter that a lock protects.
    Update {
        client: usize,
        timer: u64,
        lock: LockName,
        fence: Fence,
        read: u64,
    },
    /// Something happens to a client that moves from site to site.
    Mover {
        mover: usize,
        what: MoverEvent,
    },
    /// A client of the wire APIs gets to know something, or something is due.
    Wire {
        client: usize,
        what: WireEvent,
    },
    /// A client of the wire APIs calls a site.
    SiteCall {
        machine: usize,
        incarnation: u64,
        call: WireCall,
    },
    /// A site looks what is due of the sessions of its clients, as it does at regular times.
    SiteLook {
        machine: usize,
        incarnation: u64,
    },
    /// It does so once, in between.
    SiteStep {
        machine: usize,
        incarnation: u64,
    },
    /// A site handles what another one says of a forwarded call.
    SiteMessage {
        machine: usize,
        incarnation: u64,
        from: Member,
        message: CallMessage,
    },
    Fault(usize),
    /// The second process under a site's name is due to be called, or to end.
    Second,
    /// An operator lets a site that has left come back.
    Rejoin(usize),
    /// Somebody starts a site that was removed.
    StartRemoved(usize),
    /// A partition ends.
    Unblock(usize),
    /// Somebody copies the disk that a fault puts back later.
    Copy(usize),
    /// Faults have stopped: everything is repaired.
    Calm,
    /// The time by which every client must have been served.
    Bound,
}

impl Event {
    /// Mixes the event into the hash of a run.
    pub(super) fn mix(&self, hash: &mut EventHash) {
        std::mem::discriminant(self).hash(hash);
        match self {
            Event::Packet { from, to, packet, .. } | Event::Late { from, to, packet } => {
                (from, to, packet).hash(hash);
            }
            Event::Start(at)
            | Event::Wake(at)
            | Event::Resume(at)
            | Event::Fault(at)
            | Event::Rejoin(at)
            | Event::StartRemoved(at)
            | Event::Unblock(at)
            | Event::Copy(at) => at.hash(hash),
            Event::Synced { machine, token, .. } => (machine, token).hash(hash),
            Event::Connect(a, b) => (a, b).hash(hash),
            Event::Told { process, session, .. } | Event::Disconnected { process, session } => {
                (process, session).hash(hash);
            }
            Event::Client { client, timer } => (client, timer).hash(hash),
            Event::Update { client, lock, fence, read, .. } => (client, lock, fence, read).hash(hash),
            Event::Mover { mover, what } => (mover, std::mem::discriminant(what)).hash(hash),
            Event::Wire { client, what } => (client, std::mem::discriminant(what)).hash(hash),
            Event::Call { machine, .. }
            | Event::SiteCall { machine, .. }
            | Event::SiteLook { machine, .. }
            | Event::SiteStep { machine, .. } => machine.hash(hash),
            Event::SiteMessage { machine, message, .. } => (machine, message.number).hash(hash),
            Event::Second | Event::Calm | Event::Bound => {}
        }
    }
}

/// Events that are to happen: the earliest first, and those of the same moment in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    /// For each event its moment, its number and its place.
    order: BinaryHeap<Reverse<(Moment, u64, usize)>>,
    /// Events are large, and stay at their places while others come and go.
    events: Vec<Option<Event>>,
    free: Vec<usize>,
    last: u64,
}

impl EventQueue {
    pub(super) fn push(&mut self, moment: Moment, event: Event) {
        self.last += 1;
        let place = self.free.pop().unwrap_or(self.events.len());
        if place == self.events.len() {
            self.events.push(Some(event));
        } else {
            self.events[place] = Some(event);
        }
        self.order.push(Reverse((moment, self.last, place)));
    }

    pub(super) fn pop(&mut self) -> Option<(Moment, Event)> {
        let Reverse((moment, _, place)) = self.order.pop()?;
        self.free.push(place);
        let event = self.events[place].take().expect("each place in the order has an event");
        Some((moment, event))
    }
}

/// A hash that is the same everywhere: a product and a rotation for each word.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EventHash(u64);

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
