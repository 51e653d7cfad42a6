//! A global state as a short list of numbers, and its encoding in bytes.
//!
//! ```text
//! local state of site 0 · … · local state of site N−1 · [fault state] · [knowledge of last entries] · packet · packet · …
//! ```
//!
//! Each number takes as many bytes as it needs, seven bits a byte: most states of three sites fit 12 to 16 bytes.

#![allow(
    clippy::cast_possible_truncation,
    reason = "a state packs numbers that fit by construction: a few sites, a few lines, ids below 2^32"
)]

use meshlock_protocol::registry::info::Tokens;
use meshlock_protocol::{Info, SiteId};

use crate::Bounds;
use crate::property::Property;

/// A global state: everything that the future of a run depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GlobalState {
    /// The local state of each site, by number.
    pub(crate) locals: Vec<u32>,
    /// The fault state, by number.
    pub(crate) faults: u32,
    /// For each site and fence line, whether the site knows of the last entry on that line.
    pub(crate) knows: u64,
    /// The packets in flight, each with what its sender knew ([`Layout::join`]). Over FIFO channels: channel by channel,
    /// oldest first; else in the order of their numbers.
    pub(crate) packets: Vec<u32>,
}

impl GlobalState {
    /// Becomes a copy of `other`, in the memory that this state has already.
    pub(crate) fn copy(&mut self, other: &GlobalState) {
        self.locals.clone_from(&other.locals);
        self.packets.clone_from(&other.packets);
        (self.faults, self.knows) = (other.faults, other.knows);
    }
}

/// The parts that a state has in this run, and how they are packed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    sites: usize,
    faults: bool,
    modes: bool,
    lines: u32,
}

impl Layout {
    pub(crate) fn of(info: &Info, bounds: &Bounds) -> Self {
        let permits = bounds.cluster.permits;
        // Fences increase along a fence line: one for the only permit (several with modes), or one for each of K numbered permits. Permits without
        // numbers have no line; each site's own fences increase by construction.
        let lines = match info.tokens {
            _ if !bounds.properties.contains(Property::Fences) => 0,
            _ if bounds.has_modes() => bounds.mode_lines(),
            Tokens::PerPermit => permits,
            Tokens::None | Tokens::One => usize::from(permits == 1),
        };
        let sites = bounds.cluster.sites;
        assert!(sites * lines <= 64, "{sites} sites with {lines} fence lines are too many to explore");
        Layout { sites, faults: bounds.has_faults(), modes: bounds.has_modes(), lines: lines as u32 }
    }

    /// Whether processes may be inside together on one permit.
    pub(crate) fn has_modes(self) -> bool {
        self.modes
    }

    /// The number of fence lines.
    pub(crate) fn lines(self) -> u32 {
        self.lines
    }

    /// The knowledge at the start: every site knows of the last entry on every line.
    pub(crate) fn knows_all(self) -> u64 {
        let bits = self.sites as u32 * self.lines;
        u64::MAX.checked_shr(64 - bits).unwrap_or(0)
    }

    /// The lines whose last entry `site` knows of, one bit each.
    pub(crate) fn known_to(self, knows: u64, site: SiteId) -> u32 {
        ((knows >> (site.index() as u32 * self.lines)) & u64::from(self.mask())) as u32
    }

    /// The knowledge after `site` has learnt `bits`.
    pub(crate) fn learn(self, knows: u64, site: SiteId, bits: u32) -> u64 {
        knows | u64::from(bits) << (site.index() as u32 * self.lines)
    }

    /// The knowledge after a new entry on `line`, of which no site knows yet.
    pub(crate) fn forget(self, knows: u64, line: u32) -> u64 {
        (0..self.sites as u32).fold(knows, |knows, site| knows & !(1 << (site * self.lines + line)))
    }

    fn mask(self) -> u32 {
        (1 << self.lines) - 1
    }

    /// Packs a packet and what its sender knew into one number.
    pub(crate) fn join(self, packet: u32, knows: u32) -> u32 {
        packet << self.lines | knows
    }

    /// Unpacks the packet and what its sender knew.
    pub(crate) fn split(self, code: u32) -> (u32, u32) {
        (code >> self.lines, code & self.mask())
    }

    /// Appends the encoding of `state` to `bytes`.
    pub(crate) fn encode(self, state: &GlobalState, bytes: &mut Vec<u8>) {
        state.locals.iter().for_each(|&local| write(u64::from(local), bytes));
        if self.faults {
            write(u64::from(state.faults), bytes);
        }
        if self.lines > 0 {
            write(state.knows, bytes);
        }
        state.packets.iter().for_each(|&packet| write(u64::from(packet), bytes));
    }

    /// Decodes all of `bytes` into `state`.
    pub(crate) fn decode(self, mut bytes: &[u8], state: &mut GlobalState) {
        let bytes = &mut bytes;
        state.locals.clear();
        state.locals.extend((0..self.sites).map(|_| read(bytes) as u32));
        state.faults = if self.faults { read(bytes) as u32 } else { 0 };
        state.knows = if self.lines > 0 { read(bytes) } else { 0 };
        state.packets.clear();
        while !bytes.is_empty() {
            state.packets.push(read(bytes) as u32);
        }
    }
}

fn write(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return number;
        }
        shift += 7;
    }
}
