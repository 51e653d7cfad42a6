//! Movers: clients that are on no site's machine, prove what they hold, and go to another site when they lose theirs.
//!
//! Each asks for a lock at some site, works under it, and releases it. When its site dies, leaves, or is cut off from it, it claims the
//! lock at another site, or comes back to the same one, and goes on with its work. Beside them there are *strays*: claims
//! that no honest client makes at that time, with a forged proof, with one of a lock that was released long ago, or with one that is
//! shown to a second site as well.
//!
//! Not all seeds have movers. What they do is drawn from a generator of their own, so that the other seeds are as before.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use meshlock_protocol::Fence;

use super::clock::Moment;
use super::faults::ClusterFault;
use super::settings::SeedSettings;
use super::telling::MoverNews;
use meshlock_cluster::claim::{Proof, ProvedHold};
use meshlock_cluster::names::{LockName, SiteName};
use meshlock_cluster::table::{Request, Session};
use meshlock_cluster::time::Time;

/// One in this many seeds has movers.
const ONE_IN: u64 = 2;

/// Maximum number of faults that concern them.
const MAX_FAULTS: usize = 14;

/// Chosen such that the seeds that tests name have no movers: those are about something else.
const SALT: u64 = 0x0c1a_8154;

/// Maximum number of proofs of released locks that are kept, to show them again.
const MAX_OLD_PROOFS: usize = 8;

/// A fault that concerns movers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MoverFault {
    /// The connection of a mover is cut. The site learns it after `site` microseconds and the mover after `client`; they had heard nothing
    /// of each other for `silent` microseconds before.
    Cut { mover: usize, silent: u64, site: u64, client: u64 },
    /// A site is stopped: it tells its clients, leaves within `grace` microseconds, and is started again after `down`.
    Stop { machine: usize, grace: u64, down: u64 },
    /// Somebody claims a lock with a forged proof.
    Forge { machine: usize, of: usize, lock: usize },
    /// Somebody claims a lock at a site with the proof of a mover's hold that has been released.
    Replay { machine: usize, mover: usize },
    /// A mover also claims what it holds at this site, and does not give that up.
    Double { machine: usize, mover: usize },
    /// The process of a mover crashes.
    Crash { mover: usize },
}

impl MoverFault {
    /// Returns the name of its kind, for counting.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            MoverFault::Cut { .. } => "mover cut off",
            MoverFault::Stop { .. } => "site stopped",
            MoverFault::Forge { .. } => "proof forged",
            MoverFault::Replay { .. } => "proof shown again",
            MoverFault::Double { .. } => "claim at two sites",
            MoverFault::Crash { .. } => "mover crash",
        }
    }
}

impl ClusterFault {
    /// The names of the kinds that are drawn here.
    #[cfg(test)]
    pub(crate) const MOVER_KINDS: [&'static str; 6] = [
        "mover cut off",
        "site stopped",
        "proof forged",
        "proof shown again",
        "claim at two sites",
        "mover crash",
    ];
}

/// Draws how many movers there are, and the faults that concern them.
pub(super) fn draw(settings: &mut SeedSettings) {
    let mut draw = Rng::with_seed(settings.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ SALT);
    if draw.u64(..ONE_IN) > 0 || settings.machines < 2 {
        return;
    }
    let (machines, movers) = (settings.machines, draw.usize(1..=3));
    settings.movers = movers;
    let kinds: Vec<usize> = (0..6).filter(|_| draw.bool()).collect();
    for _ in 0..draw.usize(..=MAX_FAULTS) {
        let (time, machine) = (draw.u64(300_000..settings.calm), draw.usize(..machines));
        let mover = draw.usize(..movers);
        let Some(kind) = (!kinds.is_empty()).then(|| kinds[draw.usize(..kinds.len())]) else { break };
        let fault = match kind {
            0 => {
                let (site, client) = (draw.u64(..1_000_000), draw.u64(..1_000_000));
                MoverFault::Cut { mover, silent: draw.u64(..300_000), site, client }
            }
            1 => {
                let grace = draw.u64(..1_500_000);
                MoverFault::Stop { machine, grace, down: draw.u64(1_000..3_000_000) }
            }
            2 => {
                let (of, lock) = (draw.usize(..machines), draw.usize(..settings.locks.len()));
                MoverFault::Forge { machine, of, lock }
            }
            3 => MoverFault::Replay { machine, mover },
            4 => MoverFault::Double { machine, mover },
            _ => MoverFault::Crash { mover },
        };
        settings.faults.push((time, ClusterFault::Mover(fault)));
    }
    settings.faults.sort_by_key(|(time, _)| *time);
}

/// Something that happens to a mover.
#[derive(Clone, Debug)]
pub(super) enum MoverEvent {
    /// Its own timer, if it is the last one that was set.
    Timer(u64),
    /// It is told something over this connection.
    Told(Session, MoverNews),
    /// It notices that this connection has ended: because the site's process has, or because it was cut.
    Disconnected { session: Session, has_died: bool },
    /// It tries its claim again, if it is the last one that it has made.
    Retry(Request),
    /// The connection of the stray with this claim ends.
    StrayEnds(Request),
    /// A site that is stopped looks whether it may leave.
    StopStep { machine: usize, incarnation: u64, deadline: Moment },
}

/// A connection of a mover to a site.
#[derive(Clone, Debug)]
pub(super) struct MoverConnection {
    pub(super) machine: usize,
    /// The process of the site.
    pub(super) incarnation: u64,
    pub(super) session: Session,
    /// Since when nothing passes, and when the last message of the mover was sent that has certainly arrived.
    pub(super) cut: Option<(Moment, Moment)>,
    /// Whether the site has said that it leaves.
    pub(super) leaves: bool,
    pub(super) last_call: Moment,
    pub(super) last_told: Moment,
}

/// One mover.
#[derive(Clone, Debug)]
pub(super) struct Mover {
    /// The machine whose clock runs like its own.
    pub(super) clock: usize,
    pub(super) connection: Option<MoverConnection>,
    /// A connection to a site that leaves, which is closed when the lock is claimed elsewhere.
    pub(super) former: Option<MoverConnection>,
    pub(super) state: MoverState,
    pub(super) timer: u64,
    pub(super) old_proofs: Vec<Proof>,
}

/// The state of a mover.
#[derive(Clone, Debug)]
pub(super) enum MoverState {
    Resting,
    Waiting { request: Request, lock: LockName, permits: u32 },
    Inside(Box<MoverHold>),
}

/// A lock that a mover assumes that it holds.
#[derive(Clone, Debug)]
pub(super) struct MoverHold {
    pub(super) request: Request,
    pub(super) session: Session,
    pub(super) lock: LockName,
    pub(super) permits: u32,
    pub(super) fence: Fence,
    /// The machine of the site that vouches for it, on whose clock the following are.
    pub(super) machine: usize,
    pub(super) until: Time,
    /// However long that site's lease lasts, it must have stopped by then, on the clock of another machine.
    pub(super) cap: Option<(usize, Time)>,
    /// The value of the counter that it read.
    pub(super) read: Option<u64>,
    pub(super) proof: Option<Proof>,
    /// The claim that it has made and that is not answered.
    pub(super) claim: Option<Request>,
    /// When it has sent that claim.
    pub(super) claimed_at: Moment,
    /// How often it has tried.
    pub(super) tries: u32,
    /// When the last contact with the site that has made the proof was, unless that site keeps the lock for ever.
    pub(super) contact: Option<Moment>,
}

impl MoverHold {
    /// Returns whether another site vouches for the hold than the one that made the proof: it is claimed, and not settled.
    pub(super) fn is_claimed(&self, proof: &Proof, names: &[SiteName]) -> bool {
        names[self.machine] != proof.hold().holder.site
    }
}

impl Mover {
    fn new(clock: usize) -> Self {
        let (connection, former, state) = (None, None, MoverState::Resting);
        Mover { clock, connection, former, state, timer: 0, old_proofs: Vec::new() }
    }

    pub(super) fn hold(&self) -> Option<&MoverHold> {
        if let MoverState::Inside(hold) = &self.state { Some(hold) } else { None }
    }

    pub(super) fn hold_mut(&mut self) -> Option<&mut MoverHold> {
        if let MoverState::Inside(hold) = &mut self.state { Some(hold) } else { None }
    }

    /// Returns its open connection with this session, the present or the former one.
    pub(super) fn connection_of(&mut self, session: Session) -> Option<&mut MoverConnection> {
        let both = [self.connection.as_mut(), self.former.as_mut()].into_iter().flatten();
        both.into_iter().find(|connection| connection.session == session)
    }

    /// Keeps the proof of a hold that ends.
    pub(super) fn keep_proof(&mut self) {
        if let Some(proof) = self.hold().and_then(|hold| hold.proof.clone()) {
            if self.old_proofs.len() >= MAX_OLD_PROOFS {
                self.old_proofs.remove(0);
            }
            self.old_proofs.push(proof);
        }
    }
}

/// A claim that no honest client makes.
#[derive(Clone, Debug)]
pub(super) struct Stray {
    pub(super) machine: usize,
    pub(super) incarnation: u64,
    pub(super) session: Session,
    pub(super) hold: ProvedHold,
    pub(super) is_forged: bool,
}

/// All movers of a run.
#[derive(Clone, Debug)]
pub(super) struct Movers {
    pub(super) all: Vec<Mover>,
    pub(super) draw: Rng,
    /// Who has made a request.
    pub(super) requests: BTreeMap<Request, usize>,
    pub(super) strays: BTreeMap<Request, Stray>,
    /// Locks that strays have claimed: a mover that claims one of them may lose it.
    pub(super) contested: BTreeSet<LockName>,
    /// Sites that are stopped and have not left yet, and how long they stay down.
    pub(super) stopping: BTreeMap<usize, u64>,
    /// Until when the movers may rely on pending claims, on their own clocks.
    pub(super) caps: BTreeMap<Request, (usize, Time)>,
}

impl Movers {
    pub(super) fn new(settings: &SeedSettings) -> Self {
        let mut draw = Rng::with_seed(settings.seed ^ 0x30fe_125e);
        let all = (0..settings.movers).map(|_| Mover::new(draw.usize(..settings.machines))).collect();
        Movers {
            all,
            draw,
            requests: BTreeMap::new(),
            strays: BTreeMap::new(),
            contested: BTreeSet::new(),
            stopping: BTreeMap::new(),
            caps: BTreeMap::new(),
        }
    }
}
