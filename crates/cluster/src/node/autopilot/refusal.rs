//! The reasons why the voters are not changed.

use meshlock_protocol::numbered;

use crate::membership::MAX_VOTERS;
use crate::names::SiteName;

/// The reason why the voters are not changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum VoterRefusal {
    #[error("{0} is not a member of the cluster; start it, and ask again when `meshlock site list` shows it")]
    NotMember(SiteName),
    #[error("{0} does not vote; `meshlock site list` shows who does")]
    NotVoter(SiteName),
    #[error("{0} votes already; give a member that does not")]
    Votes(SiteName),
    #[error("another change of voters is under way; ask again when it is done")]
    Busy,
    #[error(
        "{} run a program that does not know changes of voters, or have not said yet that they do; upgrade them, and ask again",
        list(.0)
    )]
    OlderVersion(Vec<SiteName>),
    #[error("too few of the voters would be up to decide anything; start more of them first")]
    NoMajority,
    #[error("there are {MAX_VOTERS} voters, and more only make agreement slower; replace or demote one")]
    TooMany,
    #[error("{0} is the only voter; promote another site first")]
    LastVoter(SiteName),
    #[error(
        "it is not known with which disk {0} votes: it does not run, and too few others have recorded it; start it, or replace it first"
    )]
    DiskUnknown(SiteName),
}

numbered! { VoterRefusal {
    0 => NotMember(value),
    1 => NotVoter(value),
    2 => Votes(value),
    3 => Busy,
    4 => OlderVersion(value),
    5 => NoMajority,
    6 => TooMany,
    7 => LastVoter(value),
    8 => DiskUnknown(value),
} }

fn list(sites: &[SiteName]) -> String {
    sites.iter().map(SiteName::as_str).collect::<Vec<_>>().join(", ")
}
