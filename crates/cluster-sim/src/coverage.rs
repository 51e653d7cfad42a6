//! What a run exercised: how often each thing happened that a run is there for.

use std::collections::BTreeMap;

/// What is counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// What went wrong, by kind.
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

impl Group {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Group::Fault => "fault",
            Group::Partition => "partition",
            Group::Cluster => "cluster",
            Group::Client => "client",
            Group::Packet => "packet",
            Group::Message => "message",
        }
    }
}

macro_rules! rare {
    ($($variant:ident $group:ident $name:literal),+ $(,)?) => {
        /// Something that happens in a run, as a consequence of what goes wrong or without one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Rare {
            $(#[doc = $name] $variant),+
        }

        impl Rare {
            /// All of them.
            pub const ALL: &'static [Rare] = &[$(Rare::$variant),+];

            /// What it is counted with, and its name.
            pub const fn key(self) -> (Group, &'static str) {
                match self {
                    $(Rare::$variant => (Group::$group, $name)),+
                }
            }
        }
    };
}

rare! {
    BatchTorn Cluster "batch torn in the middle, so not written at all",
    Crashed Cluster "process died",
    Excluded Cluster "site found itself left out",
    HeldBack Cluster "packets held back by a partition came at its end",
    HolderLost Cluster "holder lost with its site",
    HoldersCarried Cluster "holders carried into the next view",
    Joined Cluster "site joined",
    JoinedAgain Cluster "site joined again, in a new incarnation",
    LateNews Cluster "packet of an old connection came after the new connection",
    LeaderElected Cluster "leader elected",
    LeaderLost Cluster "leader lost",
    LeaderLostInChange Cluster "leader lost in a view change",
    Left Cluster "site left",
    OtherCluster Cluster "packet of another cluster refused",
    OtherTerms Cluster "site goes by other terms than it is configured with",
    PartitionStays Cluster "partial partition that stays in the calm",
    Rejoined Cluster "site that had left joined again",
    RulesRefused Cluster "rules refused",
    RulesSet Cluster "rules set",
    SnapshotInstalled Cluster "snapshot installed",
    TailLost Cluster "restart with the disk's last batches lost",
    TailSurvived Cluster "restart with batches that were not known to be written",
    TokenLost Cluster "token lost with its holder",
    TooOld Cluster "incarnation too old to be let in",
    VoterWithoutDisk Cluster "voter does not vote without its first disk",
    ViewInstalled Cluster "view installed",
    ViewOpened Cluster "view opened",
    ViewProposed Cluster "view proposed",
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
    UpdateAccepted Client "update accepted",
    UpdateRejected Client "update rejected by its fence",
}

/// Group, what, and of which kind, if there are several.
type Key = (Group, &'static str, &'static str);

/// How often each thing happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage(BTreeMap<Key, u64>);

impl Coverage {
    /// It happened once more.
    pub fn saw(&mut self, what: Rare) {
        self.saw_times(what, 1);
    }

    /// It happened so often.
    pub fn saw_times(&mut self, what: Rare, times: u64) {
        let (group, name) = what.key();
        *self.0.entry((group, name, "")).or_default() += times;
    }

    /// One of this kind was seen once more.
    pub fn count(&mut self, group: Group, what: &'static str, kind: &'static str) {
        *self.0.entry((group, what, kind)).or_default() += 1;
    }

    /// Adds what another run exercised.
    pub fn add(&mut self, other: &Coverage) {
        for (key, count) in &other.0 {
            *self.0.entry(*key).or_default() += count;
        }
    }

    /// How often it happened, in all its kinds.
    pub fn of(&self, group: Group, what: &str) -> u64 {
        self.iter().filter(|(of, name, ..)| *of == group && *name == what).map(|(.., count)| count).sum()
    }

    /// Everything: group, what, of which kind, how often.
    pub fn iter(&self) -> impl Iterator<Item = (Group, &'static str, &'static str, u64)> {
        self.0.iter().map(|(&(group, what, kind), &count)| (group, what, kind, count))
    }
}
