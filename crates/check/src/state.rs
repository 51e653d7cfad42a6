//! A global state as a short list of numbers, and its encoding in bytes.
//!
//! ```text
//! seat of site 0 · … · seat of site N−1 · [weather] · [who knows of the last entries] · packet · packet · …
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

/// Everything that the future depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) seats: Vec<u32>,
    pub(crate) weather: u32,
    /// For each site and line of fences: whether the site knows of the last entry on that line.
    pub(crate) knows: u64,
    /// The packets on their way. Over FIFO channels: channel by channel, oldest first; else in the order of their numbers.
    pub(crate) packets: Vec<u32>,
}

impl State {
    /// Becomes a copy of `other` in the memory it has.
    pub(crate) fn copy(&mut self, other: &State) {
        self.seats.clone_from(&other.seats);
        self.packets.clone_from(&other.packets);
        (self.weather, self.knows) = (other.weather, other.knows);
    }
}

/// Which parts a state has in this run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    sites: usize,
    faults: bool,
    lines: u32,
}

impl Layout {
    pub(crate) fn of(info: &Info, bounds: &Bounds) -> Self {
        let permits = bounds.cluster.permits;
        // Fences increase along a line: the one permit, or each of K numbered ones. Permits without numbers have no line
        // of their own; each site's own fences increase by construction.
        let lines = match info.tokens {
            _ if !bounds.properties.contains(Property::Fences) => 0,
            Tokens::PerPermit => permits,
            Tokens::None | Tokens::One => usize::from(permits == 1),
        };
        let sites = bounds.cluster.sites;
        assert!(sites * lines <= 64, "{sites} sites with {lines} lines of fences are too many to explore");
        Layout { sites, faults: bounds.has_faults(), lines: lines as u32 }
    }

    /// How many lines of fences are followed.
    pub(crate) fn lines(self) -> u32 {
        self.lines
    }

    /// At the start everyone knows all there is to know.
    pub(crate) fn knows_all(self) -> u64 {
        let bits = self.sites as u32 * self.lines;
        u64::MAX.checked_shr(64 - bits).unwrap_or(0)
    }

    /// What `site` knows: a bit a line.
    pub(crate) fn known_to(self, knows: u64, site: SiteId) -> u32 {
        ((knows >> (site.index() as u32 * self.lines)) & u64::from(self.mask())) as u32
    }

    /// The same with `bits` known to `site` too.
    pub(crate) fn learn(self, knows: u64, site: SiteId, bits: u32) -> u64 {
        knows | u64::from(bits) << (site.index() as u32 * self.lines)
    }

    /// The same with nobody knowing of the last entry on `line`.
    pub(crate) fn forget(self, knows: u64, line: u32) -> u64 {
        (0..self.sites as u32).fold(knows, |knows, site| knows & !(1 << (site * self.lines + line)))
    }

    fn mask(self) -> u32 {
        (1 << self.lines) - 1
    }

    /// A packet with what its sender knew, as one number.
    pub(crate) fn join(self, packet: u32, knows: u32) -> u32 {
        packet << self.lines | knows
    }

    /// The packet and what its sender knew.
    pub(crate) fn split(self, code: u32) -> (u32, u32) {
        (code >> self.lines, code & self.mask())
    }

    /// Writes `state` behind what is in `bytes`.
    pub(crate) fn encode(self, state: &State, bytes: &mut Vec<u8>) {
        state.seats.iter().for_each(|&seat| write(u64::from(seat), bytes));
        if self.faults {
            write(u64::from(state.weather), bytes);
        }
        if self.lines > 0 {
            write(state.knows, bytes);
        }
        state.packets.iter().for_each(|&packet| write(u64::from(packet), bytes));
    }

    /// Reads `state` from exactly `bytes`.
    pub(crate) fn decode(self, mut bytes: &[u8], state: &mut State) {
        let bytes = &mut bytes;
        state.seats.clear();
        state.seats.extend((0..self.sites).map(|_| read(bytes) as u32));
        state.weather = if self.faults { read(bytes) as u32 } else { 0 };
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
