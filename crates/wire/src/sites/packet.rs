//! Encoding of a packet between sites.
//!
//! There are seven versions. In version 2 the number of the [cause](meshlock_cluster::cause) for which a lock's message was sent may
//! follow that message; in version 1 nothing follows. In version 3 the number of permits of each holding follows a piece of a census,
//! there are messages about permits and beats, and a packet may be carried by a third site: then [`CARRIED_TO`] or [`CARRIED_FROM`]
//! and a site's name stand before the content, where the number of its kind is otherwise. In version 4 the voters between which a message
//! of a voter goes, and who votes by the state in it, follow that message if they are not the first voters; and there are messages
//! about changes of voters. In version 5 the leader says which voters are not there, a program knows [fence floors](meshlock_cluster::fence_floor), the access document of the state in it follows that, if there is one, and there are messages about
//! the document. In version 6 the [key](meshlock_cluster::claim::ClaimKey) with which a site proves what its clients hold may follow the
//! numbers of permits of the last piece of its census, and members forward calls of clients to each other ([`calls`](super::calls)); the number of permits that was settled for a lock follows a
//! report about it, if there is one; and members tell the leader which disks of first voters they have recorded. In version 7 there are questions for pages of locks, for what happens to locks and for who waits for whom, and the letters of the modes of the holders follow the numbers of permits of a piece of a census, as far as one that is not exclusive; an older program takes all holders for exclusive. A reader of one version also reads those before; a census without numbers of permits is one of an older program, and an older program is told of holders with another number
//! than the rule's as if they were too many ([`Holdings::for_older`](meshlock_cluster::table::Holdings::for_older)).

use meshlock_cluster::access::AgreedAccess;
use meshlock_cluster::cause::Cause;
use meshlock_cluster::claim::ClaimKey;
use meshlock_cluster::founding::ClusterId;
use meshlock_cluster::membership::message::Ends;
use meshlock_cluster::membership::voters::Voters;
use meshlock_cluster::names::{Incarnation, SiteName};
use meshlock_cluster::node::PeerReply;
use meshlock_cluster::node::{Content, Packet, Route};
use meshlock_cluster::report::SiteQueue;
use meshlock_cluster::table::CensusPiece;
use meshlock_protocol::{Demand, Mode};
use serde::{Deserialize, Serialize};

/// The lowest and the highest version of the format between sites that this program speaks.
pub const VERSIONS: (u16, u16) = (1, 7);

/// The first version that carries causes.
const CARRIES_CAUSES: u16 = 2;

/// The first version that has numbers of permits.
pub const CARRIES_PERMITS: u16 = 3;

/// The first version in which a packet may be carried by a third site, and that has beats.
pub const CARRIES_FOR_OTHERS: u16 = 3;

/// The first version that has changes of voters.
pub const CHANGES_VOTERS: u16 = 4;

/// The first version in which the leader says which voters are not there.
pub const COUNTS_VOTERS: u16 = 5;
/// The first version whose programs know that the first view of a cluster can have another epoch than 1.
pub const KNOWS_FENCE_FLOORS: u16 = 5;
/// The first version that has the access document.
pub const AGREES_ON_ACCESS: u16 = 5;

/// The first version in which a census has the key of its sender's proofs.
pub const CARRIES_CLAIM_KEYS: u16 = 6;

/// The first version in which a census has the modes of holders, and whose programs know modes and priorities.
pub const CARRIES_MODES: u16 = 7;

/// The first version in which a report about a lock has the number of permits that was settled for it.
const REPORTS_PERMITS: u16 = 6;

/// The first version in which members tell the leader which disks of first voters they have recorded.
pub const REPORTS_RECORDS: u16 = 6;

/// The first version in which members forward calls of clients to each other.
pub const FORWARDS_CALLS: u16 = 6;

/// The first version that has questions for pages of locks and for what happens to them.
pub const LISTS_LOCKS: u16 = 7;

/// Stands before the name of the site to which a packet is to be carried. No kind of content has this number.
const CARRIED_TO: u8 = 16;

/// Stands before the name of the site from which a carried packet comes. No kind of content has this number.
const CARRIED_FROM: u8 = 17;

/// Maximum length of a packet in bytes. The largest are a view of a thousand members and a piece of a census.
pub(super) const MAX_PACKET_BYTES: usize = 4 << 20;

/// The reason why received bytes are not a packet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// The packet is longer than any that a site sends.
    #[error("a packet of {bytes} bytes; at most {MAX_PACKET_BYTES} are allowed")]
    TooLong { bytes: usize },
    /// The bytes are not in the form of a packet.
    #[error("not a packet: {0}")]
    Malformed(#[from] postcard::Error),
    /// The bytes after a packet are not a cause.
    #[error("the bytes after the packet are not a cause")]
    Cause,
    /// The bytes after a piece of a census are not one number of permits for each holding.
    #[error("the bytes after the census are not its numbers of permits")]
    Permits,
    /// The bytes after the numbers of permits of a census, or after a report about a lock, are not the modes of holders and waiters.
    #[error("the bytes after the packet are not the modes of its holders")]
    Modes,
    /// The bytes after a voter's message are not voters, or belong to another message.
    #[error("the bytes after a voter's message do not say which voters it is about")]
    Voters,
    /// The version that is spoken with the receiver does not have this message.
    #[error("version {version} does not have this kind of packet")]
    NotInVersion { version: u16 },
    /// Bytes follow the packet.
    #[error("{bytes} bytes after the end of a packet")]
    Trailing { bytes: usize },
}

/// Appends a packet to `bytes` in this version of the format.
pub fn append_packet(packet: &Packet, version: u16, bytes: Vec<u8>) -> Vec<u8> {
    let bytes = append_route(packet, bytes);
    let is_census = packet.content.census_piece().is_some();
    let older = (is_census && version < CARRIES_PERMITS).then(|| as_read(packet.clone(), version).content);
    let content = older.as_ref().unwrap_or(&packet.content);
    let bytes = postcard::to_extend(content, bytes).expect("a packet is plain data");
    let numbered =
        packet.content.census_piece().filter(|piece| piece.has_permits && version >= CARRIES_PERMITS);
    if let Some(piece) = numbered {
        let numbers: Vec<u32> = piece.holdings.iter().map(|holding| holding.permits.unwrap_or(1)).collect();
        let bytes = postcard::to_extend(&numbers, bytes).expect("numbers are plain data");
        let bytes = if version >= CARRIES_MODES {
            postcard::to_extend(&letters(piece), bytes).expect("letters are plain data")
        } else {
            bytes
        };
        return match piece.key.filter(|_| piece.last && version >= CARRIES_CLAIM_KEYS) {
            Some(key) => postcard::to_extend(&key, bytes).expect("a key is plain data"),
            None => bytes,
        };
    }
    if let Some(message) = packet.content.raft_message().filter(|_| version >= CHANGES_VOTERS) {
        let access = message.access().filter(|_| version >= AGREES_ON_ACCESS);
        let beside = (message.ends, message.voters());
        if beside == (None, None) && access.is_none() {
            return bytes;
        }
        let bytes = postcard::to_extend(&beside, bytes).expect("voters are plain data");
        return match access {
            Some(access) => postcard::to_extend(access, bytes).expect("a document is plain data"),
            None => bytes,
        };
    }
    if let Some(modes) = packet.content.queue_report().and_then(ReportedModes::of)
        && version >= CARRIES_MODES
    {
        return postcard::to_extend(&modes, bytes).expect("modes are plain data");
    }
    if let Some(settled) = packet.content.queue_report().and_then(|queue| queue.settled)
        && (REPORTS_PERMITS..CARRIES_MODES).contains(&version)
    {
        return postcard::to_extend(&settled, bytes).expect("a number is plain data");
    }
    match packet.content.lock_message().and_then(|message| message.cause) {
        Some(cause) if version >= CARRIES_CAUSES => {
            postcard::to_extend(&cause.number(), bytes).expect("a number is plain data")
        }
        Some(_) | None => bytes,
    }
}

/// Returns a packet as a receiver reads it with which this version is spoken. Only from version 2 on it carries a cause, only from
/// version 3 on numbers of permits, only from version 6 on the key of its sender's proofs and settled numbers of permits, and only from version 7 on modes.
pub fn as_read(mut packet: Packet, version: u16) -> Packet {
    if version < CARRIES_CAUSES
        && let Some(message) = packet.content.lock_message_mut()
    {
        message.cause = None;
    }
    if version < REPORTS_PERMITS
        && let Some(queue) = packet.content.queue_report_mut()
    {
        queue.settled = None;
    }
    forget_modes(&mut packet.content, version);
    if let Some(piece) = packet.content.census_piece_mut() {
        let numbered = version >= CARRIES_PERMITS;
        piece.holdings = if numbered { piece.holdings.for_newer() } else { piece.holdings.for_older() };
        piece.has_permits &= numbered;
        piece.has_modes &= piece.has_permits && version >= CARRIES_MODES;
        if !piece.has_modes {
            piece.holdings.set_modes(&[]);
        }
        let has_key = piece.last && piece.has_permits && version >= CARRIES_CLAIM_KEYS;
        piece.key = piece.key.filter(|_| has_key);
    }
    packet
}

/// What follows a report about a lock in version 7, if it says anything.
#[derive(Serialize, Deserialize)]
struct ReportedModes {
    /// The number of permits that was settled for the lock.
    settled: Option<u32>,
    holders: Vec<Mode>,
    waiters: Vec<Demand>,
}

impl ReportedModes {
    /// Returns what follows this report, unless nothing was settled and everything is plain.
    fn of(queue: &SiteQueue) -> Option<Self> {
        let holders: Vec<Mode> = queue.lock.holders.iter().map(|holder| holder.mode).collect();
        let waiters: Vec<Demand> = queue.lock.waiters.iter().map(|waiter| waiter.demand).collect();
        let modes = ReportedModes { settled: queue.settled, holders, waiters };
        (!modes.is_empty()).then_some(modes)
    }

    fn is_empty(&self) -> bool {
        self.settled.is_none()
            && self.holders.iter().all(|mode| *mode == Mode::Exclusive)
            && self.waiters.iter().all(|demand| *demand == Demand::PLAIN)
    }

    /// Puts what follows a report into it.
    fn put_into(self, queue: &mut SiteQueue) -> Result<(), PacketError> {
        let lengths = (queue.lock.holders.len(), queue.lock.waiters.len());
        if self.is_empty() || (self.holders.len(), self.waiters.len()) != lengths {
            return Err(PacketError::Modes);
        }
        queue.settled = self.settled;
        queue.lock.holders.iter_mut().zip(self.holders).for_each(|(holder, mode)| holder.mode = mode);
        queue.lock.waiters.iter_mut().zip(self.waiters).for_each(|(waiter, demand)| waiter.demand = demand);
        Ok(())
    }
}

/// Forgets what this version does not say of modes: an older one nothing, and none the modes in a list
/// of locks, or of those who have lost one.
fn forget_modes(content: &mut Content, version: u16) {
    if let Content::Reply { reply: PeerReply::Locks(locks), .. } = content {
        for holder in locks.locks.iter_mut().filter_map(|lock| lock.holder.as_mut()) {
            holder.mode = Mode::Exclusive;
        }
    }
    if let Content::Reply { reply: PeerReply::Broken(holders), .. } = content {
        for holder in holders.iter_mut() {
            holder.mode = Mode::Exclusive;
        }
    }
    let older = content.queue_report_mut().filter(|_| version < CARRIES_MODES);
    let Some(SiteQueue { lock, .. }) = older else { return };
    lock.holders.iter_mut().for_each(|holder| holder.mode = Mode::Exclusive);
    lock.waiters.iter_mut().for_each(|waiter| waiter.demand = Demand::PLAIN);
}

/// Returns the letters of the modes of a census, one after the other, as far as one that is not exclusive; `None` if its sender runs an
/// older program, and a newer one carries the packet.
fn letters(piece: &CensusPiece) -> Option<String> {
    piece.has_modes.then(|| piece.holdings.modes().iter().map(|mode| mode.letter()).collect())
}

/// Takes the modes of a census: no more than it has slots. Returns what follows them.
fn take_modes<'a>(piece: &mut CensusPiece, bytes: &'a [u8]) -> Result<&'a [u8], PacketError> {
    let (letters, behind): (Option<&str>, _) = postcard::take_from_bytes(bytes)?;
    let Some(letters) = letters else { return Ok(behind) };
    let mode_of = |letter| Mode::ALL.into_iter().find(|mode| mode.letter() == letter);
    let modes: Option<Vec<Mode>> = letters.chars().map(mode_of).collect();
    let ends_well = modes.as_ref().is_some_and(|modes| modes.last() != Some(&Mode::Exclusive));
    if !ends_well || !piece.holdings.set_modes(&modes.unwrap_or_default()) {
        return Err(PacketError::Modes);
    }
    piece.has_modes = true;
    Ok(behind)
}

/// Appends what stands before the content.
fn append_route(packet: &Packet, bytes: Vec<u8>) -> Vec<u8> {
    let sender = (&packet.cluster, packet.incarnation);
    let bytes = postcard::to_extend(&sender, bytes).expect("two numbers are plain data");
    let (number, site) = match &packet.route {
        Route::Direct => return bytes,
        Route::To(site) => (CARRIED_TO, site),
        Route::From(site) => (CARRIED_FROM, site),
    };
    postcard::to_extend(&(number, site), bytes).expect("a name is plain data")
}

/// Takes what stands before the content.
fn take_route(bytes: &[u8]) -> Result<(ClusterId, Incarnation, Route, &[u8]), PacketError> {
    let ((cluster, incarnation), rest) = postcard::take_from_bytes(bytes)?;
    let route = match rest.first() {
        Some(&CARRIED_TO) => Route::To,
        Some(&CARRIED_FROM) => Route::From,
        Some(_) | None => return Ok((cluster, incarnation, Route::Direct, rest)),
    };
    let (site, rest): (SiteName, _) = postcard::take_from_bytes(&rest[1..])?;
    Ok((cluster, incarnation, route(site), rest))
}

/// Checks that this version of the format has what the packet says.
pub(super) fn check_version(packet: &Packet, version: u16) -> Result<(), PacketError> {
    let needs_carriers = packet.route != Route::Direct || packet.content.is_beat();
    let is_known = (version >= CARRIES_PERMITS || !packet.content.is_about_permits())
        && (version >= CHANGES_VOTERS || !packet.content.is_about_voters())
        && (version >= COUNTS_VOTERS || !packet.content.is_absence())
        && (version >= AGREES_ON_ACCESS || !packet.content.is_about_access())
        && (version >= REPORTS_RECORDS || !packet.content.is_records())
        && (version >= LISTS_LOCKS || !packet.content.is_about_listings())
        && (version >= FORWARDS_CALLS || !packet.content.is_about_calls())
        && (version >= CARRIES_FOR_OTHERS || !needs_carriers);
    if is_known { Ok(()) } else { Err(PacketError::NotInVersion { version }) }
}

/// Returns the bytes of a packet in this version of the format.
pub fn encode_packet(packet: &Packet, version: u16) -> Vec<u8> {
    append_packet(packet, version, Vec::new())
}

/// Reads a packet from bytes in this version of the format; all of them must belong to it.
pub fn decode_packet(bytes: &[u8], version: u16) -> Result<Packet, PacketError> {
    if bytes.len() > MAX_PACKET_BYTES {
        return Err(PacketError::TooLong { bytes: bytes.len() });
    }
    let (cluster, incarnation, route, rest) = take_route(bytes)?;
    let (content, mut rest): (Content, _) = postcard::take_from_bytes(rest)?;
    let mut packet = Packet { cluster, incarnation, route, content };
    if version >= CARRIES_CAUSES
        && !rest.is_empty()
        && let Some(message) = packet.content.lock_message_mut()
    {
        let (number, behind) = postcard::take_from_bytes(rest)?;
        message.cause = Some(Cause::new(number).ok_or(PacketError::Cause)?);
        rest = behind;
    }
    if version >= CARRIES_PERMITS
        && !rest.is_empty()
        && let Some(piece) = packet.content.census_piece_mut()
    {
        let (numbers, behind): (Vec<u32>, _) = postcard::take_from_bytes(rest)?;
        if numbers.len() != piece.holdings.len() {
            return Err(PacketError::Permits);
        }
        piece.holdings.set_permits(numbers.into_iter().map(Some));
        (piece.has_permits, rest) = (true, behind);
        if version >= CARRIES_MODES {
            rest = take_modes(piece, rest)?;
        }
        if version >= CARRIES_CLAIM_KEYS && piece.last && !rest.is_empty() {
            let (key, behind): (ClaimKey, _) = postcard::take_from_bytes(rest)?;
            (piece.key, rest) = (Some(key), behind);
        }
    }
    if version >= REPORTS_PERMITS
        && !rest.is_empty()
        && let Some(queue) = packet.content.queue_report_mut()
    {
        if version >= CARRIES_MODES {
            let (modes, behind): (ReportedModes, _) = postcard::take_from_bytes(rest)?;
            modes.put_into(queue)?;
            rest = behind;
        } else {
            let (settled, behind): (u32, _) = postcard::take_from_bytes(rest)?;
            (queue.settled, rest) = (Some(settled), behind);
        }
    }
    if version >= CHANGES_VOTERS
        && !rest.is_empty()
        && let Some(message) = packet.content.raft_message_mut()
    {
        let (beside, behind): ((Option<Ends>, Option<Voters>), _) = postcard::take_from_bytes(rest)?;
        let has_access = version >= AGREES_ON_ACCESS && !behind.is_empty();
        let is_empty = beside == (None, None) && !has_access;
        let has_state = message.snapshot.is_some() || beside.1.is_none() && !has_access;
        if is_empty || !has_state {
            return Err(PacketError::Voters);
        }
        message.set_beside(beside.0, beside.1);
        rest = behind;
        if has_access {
            let (access, behind): (AgreedAccess, _) = postcard::take_from_bytes(rest)?;
            message.set_access(access);
            rest = behind;
        }
    }
    check_version(&packet, version)?;
    if !rest.is_empty() {
        return Err(PacketError::Trailing { bytes: rest.len() });
    }
    Ok(packet)
}

#[cfg(test)]
mod tests;
