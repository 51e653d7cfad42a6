//! The reasons why a client's call is refused, why a lock cannot be had at present, and why a client loses its locks: as
//! types, so that programs can tell them apart.

use std::fmt;

use meshlock_protocol::{Mode, registry};

use crate::names::SiteName;
use crate::report::{Age, Names};
use crate::time::Span;

/// The reason why a client's call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RequestRefusal {
    /// There is no room for another lock, and no way to make some.
    #[error("this site keeps the maximum number of locks; use fewer names")]
    TooManyLocks,
    /// There is no room for another lock until a fresh view has dropped idle ones.
    #[error("this site makes room for more locks; ask again in a second")]
    MakingRoom,
    /// The site leaves its cluster and grants nothing more.
    #[error("this site is leaving the cluster; ask another one")]
    Leaving,
    /// Other clients hold the lock or wait for it, and take it for one with another number of permits.
    #[error("the lock is in use with {} and this request says {wants}; change one of the two, or ask again when the others have gone", PermitCount(*.has))]
    PermitsInUse { has: u32, wants: u32 },
    /// The cluster's rules give the lock another number of permits.
    #[error("the cluster's rules give the lock {} and this request says {wants}; change one of the two", PermitCount(*.has))]
    PermitsByRule { has: u32, wants: u32 },
    /// No lock can have this number of permits.
    #[error("{} are requested; give 1 to {}", PermitCount(*.wants), crate::rules::Rules::MAX_PERMITS)]
    TooManyPermits { wants: u32 },
    /// A member of the cluster runs a program that does not know semaphores without a rule.
    #[error(
        "a site of the cluster runs an older version of Meshlock, which knows {wants} permits only by a rule, and the rules give the lock {has}; upgrade all sites, or set a rule"
    )]
    OlderMember { has: u32, wants: u32 },
    /// The algorithm of the lock's rule does not let clients share.
    #[error(
        "the lock's rule runs {algorithm}, which knows no mode but exclusive; for {mode}, set a rule with one of: {}",
        registry::that_know_modes()
    )]
    ExclusiveOnly { algorithm: &'static str, mode: Mode },
    /// The algorithm of the lock's rule serves all requests alike.
    #[error(
        "the lock's rule runs {algorithm}, which knows no priorities; set a rule with one of: {}",
        registry::that_know_priorities()
    )]
    NoPriorities { algorithm: &'static str },
    /// Modes say who may share one permit.
    #[error("a lock with {} is only exclusive, not {mode}; modes are for locks with one permit", PermitCount(*.permits))]
    ModeOfMany { permits: u32, mode: Mode },
    /// A member of the cluster runs a program that does not know modes and priorities.
    #[error(
        "a site of the cluster runs an older version of Meshlock, which knows no modes and no priorities; upgrade all sites"
    )]
    OlderMemberModes,
    /// A client that is inside in shared mode wants more. Two that did would wait for each other for ever.
    #[error(
        "a shared lock cannot become {to}, because two that wanted it would wait for each other; ask for the upgradeable mode at first, or release the lock and ask again"
    )]
    UpgradeOfShared { to: Mode },
    /// The request is the youngest one of a deadlock, and the rule of its lock says that it does not wait.
    #[error(
        "this request waits for clients that wait for what this one holds, and the lock's rule says on-deadlock=refuse; release what you hold, and ask again"
    )]
    Deadlock,
    /// The number of the request was used before.
    #[error("this request number is already in use; use a new one")]
    DuplicateRequest,
    /// There is no request with this number.
    #[error("no such request; it may be over")]
    UnknownRequest,
    /// The request still waits, or is finished.
    #[error("this request does not hold the lock")]
    NotHeld,
    /// Too many questions to other sites are open.
    #[error("too many questions wait for replies; ask again in a second")]
    TooManyQuestions,
    /// Too many clients watch this site.
    #[error("this node has the maximum number of watches; end one of them first")]
    TooManyWatches,
    /// The node has panicked.
    #[error("this node has failed because of a bug; its log says more. Start it again, or ask another one")]
    Failed,
}

/// How many of a cluster's voters a site has heard from lately; it counts itself if it votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VotersInReach {
    pub reached: usize,
    pub voters: usize,
    /// Number of further ones that it has heard from, and that do not vote any more because they have lost their disks.
    pub replaced: usize,
}

impl VotersInReach {
    /// Returns whether they are enough to elect a leader.
    pub(crate) fn is_majority(self) -> bool {
        self.reached > self.voters / 2
    }
}

impl fmt::Display for VotersInReach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let VotersInReach { reached, voters, replaced } = self;
        let verb = if *reached == 1 { "is" } else { "are" };
        write!(f, "{reached} of {voters} voters {verb} reachable")?;
        match replaced {
            0 => {}
            1 => write!(f, ", and one more has lost its disk and does not vote")?,
            many => write!(f, ", and {many} more have lost their disks and do not vote")?,
        }
        if self.is_majority() {
            // How long that takes is not promised: one of them may have lost its disk, and this site does not know it.
            write!(f, "; they have to elect a leader, and it has to let this site in")?;
        }
        Ok(())
    }
}

/// The reason why the cluster could not serve a client, although nobody is known to have the lock that it wants.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Outage {
    /// The site has no lease on which it could grant anything: it is cut off, or the cluster has no leader.
    #[error("{site} has no lease: {voters}")]
    NoLease { site: SiteName, voters: VotersInReach },
    /// The site does not take part in the cluster, yet or any more.
    #[error("{site} is not a member of the cluster: {voters}")]
    NotMember { site: SiteName, voters: VotersInReach },
    /// The site changes views, and these members have not reported what their clients hold.
    #[error("{site} changes views and waits to hear from {}", Names(silent))]
    ViewChange { site: SiteName, silent: Vec<SiteName> },
    /// The cluster has rules that the site's program does not know.
    #[error("{site} does not know the cluster's rules; give it a newer program")]
    UnknownRules { site: SiteName },
    /// These members did not answer, and one of them may have the lock.
    #[error("no answer from {} for {}", Names(sites), Age(*silence))]
    Silent {
        sites: Vec<SiteName>,
        /// For how long the one of them that was heard last has been silent.
        silence: Span,
    },
    /// All members answered that nobody uses the lock, but the request for it was not granted.
    #[error("nobody holds the lock, but it was not handed over within {}", Age(*within))]
    NoAnswer { within: Span },
}

/// Prints a number of permits for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitCount(pub u32);

impl fmt::Display for PermitCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0 == 1 { "" } else { "s" };
        write!(f, "{} permit{plural}", self.0)
    }
}

/// The reason why a client lost its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LossReason {
    /// The site could not renew its lease in time: it was cut off, or paused.
    #[error("the site could not renew its lease")]
    LeaseEnd,
    /// An operator broke the lock.
    #[error("the lock was broken by an operator")]
    Broken,
    /// The site was excluded from a view.
    #[error("the site was excluded from the cluster")]
    Excluded,
    /// The site leaves its cluster, and its clients had their time to stop.
    #[error("the site is leaving the cluster")]
    Leaving,
    /// The node has panicked.
    #[error("the node has failed because of a bug")]
    Failed,
    /// The client claimed the lock here, and the site that had granted it does not keep it any longer.
    #[error("the site that granted the lock may give it to others")]
    ReservationOver,
    /// The client claimed the lock here, and others have it.
    #[error("the lock was claimed, and others have it")]
    Conflict,
    /// The client has claimed the lock through another connection.
    #[error("the lock was claimed through another connection")]
    TakenOver,
}
