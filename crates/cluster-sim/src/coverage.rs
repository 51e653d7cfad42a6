//! Coverage of runs: how often each occurrence was seen that the simulation is meant to exercise.

use std::collections::BTreeMap;

/// A group of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CoverageGroup {
    /// Faults, by kind.
    Fault,
    /// Partitions, by shape.
    Partition,
    /// What happened to sites.
    Cluster,
    /// What happened to clients.
    Client,
    /// Packets, by kind.
    Packet,
    /// Messages of algorithms, by kind.
    Message,
}

impl CoverageGroup {
    /// Returns the name of the group.
    pub const fn name(self) -> &'static str {
        match self {
            CoverageGroup::Fault => "fault",
            CoverageGroup::Partition => "partition",
            CoverageGroup::Cluster => "cluster",
            CoverageGroup::Client => "client",
            CoverageGroup::Packet => "packet",
            CoverageGroup::Message => "message",
        }
    }
}

macro_rules! occurrences {
    ($($variant:ident $group:ident $name:literal),+ $(,)?) => {
        /// An occurrence in a run that is counted, whether a fault caused it or not.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Occurrence {
            $(#[doc = $name] $variant),+
        }

        impl Occurrence {
            /// All occurrences.
            #[cfg(test)]
            pub(crate) const ALL: &'static [Occurrence] = &[$(Occurrence::$variant),+];

            /// Returns the group and the name.
            pub(crate) const fn key(self) -> (CoverageGroup, &'static str) {
                match self {
                    $(Occurrence::$variant => (CoverageGroup::$group, $name)),+
                }
            }
        }
    };
}

impl Occurrence {
    /// Returns what a grant in this mode counts as beside others.
    pub(crate) fn of_grant(mode: meshlock_protocol::Mode) -> Option<Self> {
        match mode {
            meshlock_protocol::Mode::Shared => Some(Occurrence::GrantedShared),
            meshlock_protocol::Mode::Upgradeable => Some(Occurrence::GrantedUpgradeable),
            meshlock_protocol::Mode::Exclusive => None,
        }
    }
}

occurrences! {
    BrokenByOldDisk Cluster "what nobody promises does not hold, after a voter's disk was put back",
    CensusInPieces Cluster "census sent in several pieces",
    Crowded Cluster "hundreds of clients and many locks",
    DiskIsOld Cluster "voter told that its disk is old",
    DiskStuckForGood Cluster "disk of a voter or member stuck for good",
    FloorRaised Cluster "past incarnation no longer listed",
    FullAgain Cluster "table full, nothing can be dropped",
    LeaderMadeRoom Cluster "leader stepped down because of its disk",
    LogCut Cluster "log cut to a snapshot",
    MakingRoom Cluster "table full until a fresh view",
    OldDiskOfMember Cluster "old disk put back, of a site that does not vote",
    OldDiskOfVoter Cluster "old disk put back, of a voter",
    OlderVersion Cluster "packet in an older version",
    PacketLost Cluster "packet lost inside a connection",
    QuestionRefused Cluster "question refused, because too many are open",
    Regions Cluster "sites in regions far apart",
    StartRefused Cluster "start refused, because the disk cannot be read",
    BecameVoter Cluster "site chosen as a voter",
    VotesNoMore Cluster "site told that it does not vote any more",
    VoterDiskLost Cluster "disk lost while voters change",
    VotersJoint Cluster "voters changed, by two majorities",
    VotersRefused Cluster "change of voters refused",
    VotersSet Cluster "voters changed on request",
    AccessLearnt Cluster "access document learnt",
    AccessRefused Cluster "change of the access document refused",
    AccessSet Cluster "access document changed",
    JoinRefused Cluster "site not let in, by the access document",
    NotAdmitted Cluster "site told that it is not let in",
    WriteStuck Cluster "write on a stuck disk",
    BatchTorn Cluster "batch torn in the middle, so not written at all",
    Crashed Cluster "process died",
    Excluded Cluster "site found itself left out",
    HeldBack Cluster "packets held back by a partition came at its end",
    HolderLost Cluster "holder lost with its site",
    HoldersCarried Cluster "holders carried into the next view",
    Joined Cluster "site joined",
    InquiryForgotten Cluster "inquiry about a lock forgotten for a newer one",
    RenewalForgotten Cluster "renewal that was not answered forgotten for a newer one",
    JoinedAgain Cluster "site joined again, in a new incarnation",
    Detour Cluster "packets between two members went through a third",
    DetourEnded Cluster "packets went directly again",
    LateNews Cluster "packet of an old connection came after the new connection",
    LeaderElected Cluster "leader elected",
    LeaderLost Cluster "leader lost",
    LeaderLostInChange Cluster "leader lost in a view change",
    Left Cluster "site left",
    LinkHeld Cluster "peer held back because too many of its messages waited",
    LinkSentAgain Cluster "message sent again",
    LinkVoid Cluster "message of an ended view dropped before it was sent",
    LinkWindowBytes Cluster "message waited for a window that was full of bytes",
    LinkWindow Cluster "message waited for a window that was full of messages",
    OtherCluster Cluster "packet of another cluster refused",
    OtherTerms Cluster "site goes by other terms than it is configured with",
    PartitionStays Cluster "partial partition that stays in the calm",
    Rejoined Cluster "site that had left joined again",
    RulesGivenUp Cluster "rules given up in an outage",
    RulesRefused Cluster "rules refused",
    RulesSet Cluster "rules set",
    SnapshotInstalled Cluster "snapshot installed",
    PauseSurvived Cluster "lease kept through a pause that was longer than a renewal",
    CutSurvived Cluster "lease kept through a cut from the leader that was longer than a renewal",
    TailLost Cluster "restart with the disk's last batches lost",
    TailSurvived Cluster "restart with batches that were not known to be written",
    TokenLost Cluster "token lost with its holder",
    TooOld Cluster "incarnation too old to be let in",
    VoterWithoutDisk Cluster "voter does not vote without its first disk",
    ViewInstalled Cluster "view installed",
    ViewOpened Cluster "view opened",
    ViewProposed Cluster "view proposed",
    MirrorTold Client "mirror told of what has changed",
    MirrorStandsIn Client "session renewed at the mirror of its site",
    FormerMirrorTold Client "former mirror told that all is over that it knows of",
    MirrorTakesOver Client "session of a site that is gone taken over by its mirror",
    MirrorKeeps Client "lock kept through a mirror, by a client that counts on it",
    ReleaseMirrored Client "release acknowledged that the mirror knows",
    SessionExpired Client "session over, without its client's word",
    SessionMoved Client "session moved from a site that leaves",
    ClaimPending Client "claim accepted at another site",
    ClaimSettled Client "claimed lock held through its new site",
    ClaimConflict Client "claim given up, because others have the lock",
    ClaimReservationOver Client "claim lost, because the former site keeps the lock no longer",
    ClaimAfterStop Client "claim of a lock of a site that is stopped",
    ClaimTooLate Client "claim refused, because the former site is no member any more",
    ClaimForged Client "claim refused, because of its proof",
    ClaimOfNothing Client "claim refused, because nothing is kept",
    ClaimElsewhere Client "claim refused, to be made at another site",
    MoverCut Client "connection of a mover cut",
    SiteStopped Cluster "site stopped, and left",
    SecondRefused Cluster "second process under a site's name refused",
    SecondTookPart Cluster "second process took part in place of the first",
    Stray Client "claim that no honest client makes",
    ByRule Client "granted by the lock's rule",
    WithoutRule Client "granted with a number of permits that no rule gives",
    InUseOtherwise Client "refused: in use with another number of permits",
    OtherRule Client "refused: a rule gives another number of permits",
    GrantedShared Client "granted in shared mode",
    GrantedUpgradeable Client "granted in upgradeable mode",
    Beside Client "granted beside others that share the lock",
    Upgraded Client "upgraded to be exclusive",
    UpgradeGivenUp Client "gave up an upgrade",
    Downgraded Client "went on in a weaker mode",
    ModeRefused Client "change of mode refused",
    DemandUnknown Client "refused: the rule knows no modes or priorities",
    ModesBesideOlder Client "refused: an older member knows no modes",
    Busy Client "did not want to wait",
    Cancelled Client "cancelled",
    CrashedHolding Client "crashed while holding",
    CrashedWaiting Client "crashed while waiting",
    Extended Client "lease extended while holding",
    Granted Client "granted",
    Lost Client "told that it has lost",
    NothingToTake Client "operator found nothing to take away",
    Queue Client "operator saw a whole queue",
    QueueInPart Client "operator saw a queue without some members",
    Refused Client "refused",
    Several Client "held several locks in one session",
    StaleHolder Client "stale holder, only the fence protects",
    TakenAway Client "operator took a lock away",
    TimedOut Client "timed out",
    Unavailable Client "not served because of an outage",
    UpdateAccepted Client "update accepted",
    UpdateRejected Client "update rejected by its fence",
}

/// Group, name, and the kind where there are several.
type CoverageKey = (CoverageGroup, &'static str, &'static str);

/// The number of times that each occurrence was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage(BTreeMap<CoverageKey, u64>);

impl Coverage {
    /// Adds the coverage of another run.
    pub fn add(&mut self, other: &Coverage) {
        for (key, count) in &other.0 {
            *self.0.entry(*key).or_default() += count;
        }
    }

    /// Returns how often it was seen, over all kinds.
    pub fn of(&self, group: CoverageGroup, what: &str) -> u64 {
        self.iter().filter(|(of, name, ..)| *of == group && *name == what).map(|(.., count)| count).sum()
    }

    /// Returns all counters: group, name, kind, count.
    pub fn iter(&self) -> impl Iterator<Item = (CoverageGroup, &'static str, &'static str, u64)> {
        self.0.iter().map(|(&(group, what, kind), &count)| (group, what, kind, count))
    }
}

/// Counts the occurrences of one run.
///
/// The same few texts come with every packet. So they are found by their addresses, without comparing them, and those that come often are
/// near the beginning of the list.
#[derive(Clone, Debug, Default)]
pub(crate) struct OccurrenceCounter(Vec<(CoverageKey, u64)>);

impl OccurrenceCounter {
    /// Counts one occurrence.
    pub(crate) fn record(&mut self, what: Occurrence) {
        self.record_times(what, 1);
    }

    /// Counts an occurrence several times.
    pub(crate) fn record_times(&mut self, what: Occurrence, times: u64) {
        let (group, name) = what.key();
        self.add((group, name, ""), times);
    }

    /// Counts one occurrence of this kind.
    pub(crate) fn count(&mut self, group: CoverageGroup, what: &'static str, kind: &'static str) {
        self.add((group, what, kind), 1);
    }

    fn add(&mut self, key: CoverageKey, times: u64) {
        let is_same = |(known, _): &(CoverageKey, u64)| {
            known.0 == key.0 && std::ptr::eq(known.1, key.1) && std::ptr::eq(known.2, key.2)
        };
        if let Some(at) = self.0.iter().position(is_same) {
            self.0[at].1 += times;
            self.0.swap(at, at / 2);
        } else {
            self.0.push((key, times));
        }
    }

    /// Returns the sums. Texts that are equal and are at several addresses are one.
    pub(crate) fn total(&self) -> Coverage {
        let mut total = Coverage::default();
        for (key, times) in &self.0 {
            *total.0.entry(*key).or_default() += times;
        }
        total
    }
}
