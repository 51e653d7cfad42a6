//! How commands show who votes: in words, and as JSON.

use std::fmt;
use std::io::Write;

use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::{VoterPresence, VoterState, VotersReport};
use meshlock_cluster::view::View;
use serde_json::{Value, json};

use crate::output::counted;

/// What a site has to do with votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Voter(VoterPresence),
    /// It is about to become a voter.
    Learner,
}

impl Role {
    /// Returns the word for machines.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Role::Voter(presence) => presence.label(),
            Role::Learner => "learner",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Voter(VoterPresence::Up) => "votes",
            Role::Voter(VoterPresence::Away) => "has a vote, and does not vote now",
            Role::Voter(VoterPresence::WithoutDisk) => "has lost its disk, and cannot vote",
            Role::Learner => "will vote",
        })
    }
}

/// Returns what the site has to do with votes; `None` if nothing, or if the node is too old to say so.
pub(crate) fn role(voters: Option<&VotersReport>, site: &SiteName) -> Option<Role> {
    let voters = voters?;
    if voters.learners.contains(site) {
        return Some(Role::Learner);
    }
    // A site that has two numbers during a change is what the new one says.
    let all = voters.voters.iter().rev().chain(voters.outgoing.iter().rev());
    let mut of_site = all.filter(|voter| voter.site == *site);
    of_site.next().map(|voter| Role::Voter(voter.presence))
}

/// Why two voters are worse than one, and what to do about it.
const TWO_VOTERS: &str = "Two voters are more fragile than one: if either stops, no lock is granted, and if either loses its disk, the cluster must \
     be recovered (`meshlock recover`). Let a third site vote (`meshlock site promote`).";

/// Returns a warning if there is one voter, and the site will be the second.
pub(crate) fn warning_of_second(voters: &VotersReport, site: &SiteName) -> Option<String> {
    let is_second = voters.voters.len() == 1 && !voters.votes(site);
    is_second.then(|| format!("{site} will be the second voter. {TWO_VOTERS}"))
}

/// Returns how many more failures the cluster survives, as a sentence.
pub(crate) fn survives(voters: &VotersReport) -> String {
    match voters.spare() {
        Some(0) if voters.voters.len() == 1 => {
            "It is the only voter: no lock is granted while it is down.".to_owned()
        }
        Some(0) if voters.voters.len() == 2 && voters.up() == 2 => TWO_VOTERS.to_owned(),
        Some(0) => "No more failure can be survived: if one of those that are up stops, no lock is granted."
            .to_owned(),
        Some(spare) => format!("{} can be survived.", counted(spare as u64, "more failure")),
        None => {
            let missing = voters.margin().unsigned_abs();
            format!("Too few voters are up: no lock is granted until {missing} more of them run.")
        }
    }
}

/// Says what is wrong with a voter that is not up. One whose site is a member all the same is silent, or its disk takes no writes.
pub(super) fn trouble(voter: &VoterState, view: &View) -> String {
    if voter.presence == VoterPresence::Away && view.member(&voter.site).is_some() {
        return format!(
            "{site} takes part, but does not vote: it is silent, or cannot write to its disk (`meshlock doctor` says which)",
            site = voter.site
        );
    }
    format!("{} {}", voter.site, voter.presence)
}

/// Prints who votes, how many more failures can be survived, and what is under way.
pub(crate) fn print(voters: Option<&VotersReport>, view: &View, out: &mut dyn Write) -> anyhow::Result<()> {
    let Some(voters) = voters else {
        writeln!(out, "The node runs an older version, which does not say who votes.")?;
        return Ok(());
    };
    let names =
        |voters: &[VoterState]| voters.iter().map(|voter| voter.site.as_str()).collect::<Vec<_>>().join(", ");
    let count = counted(voters.voters.len() as u64, "voter");
    write!(out, "{count} ({}), and {} must be up.", names(&voters.voters), voters.quorum())?;
    for voter in voters.missing() {
        write!(out, " {}.", trouble(voter, view))?;
    }
    writeln!(out, " {}", survives(voters))?;
    if let Some(change) = voters.change() {
        writeln!(out, "A change is under way: {change}.")?;
    }
    Ok(())
}

/// Returns who votes as JSON.
pub(crate) fn document(voters: &VotersReport) -> Value {
    let voter = |voter: &VoterState| json!({ "site": voter.site, "number": voter.id, "state": voter.presence.label() });
    let missing: Vec<&SiteName> = voters.missing().iter().map(|voter| &voter.site).collect();
    json!({
        "voters": voters.voters.iter().map(voter).collect::<Vec<_>>(),
        "quorum": voters.quorum(),
        "up": voters.up(),
        "missing": missing,
        "failures_survived": voters.spare(),
        "automatic": voters.automatic,
        "change": voters.change(),
        "outgoing": voters.outgoing.iter().map(voter).collect::<Vec<_>>(),
        "learners": voters.learners,
        "resting": voters.resting,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(presences: &[VoterPresence]) -> VotersReport {
        let voter = |(at, presence): (usize, &VoterPresence)| VoterState {
            site: format!("s{at}").parse().unwrap(),
            id: at as u64,
            presence: *presence,
        };
        VotersReport { voters: presences.iter().enumerate().map(voter).collect(), ..VotersReport::default() }
    }

    fn printed(voters: &VotersReport) -> String {
        let mut text = Vec::new();
        print(Some(voters), &View::default(), &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn it_is_said_who_is_missing_and_how_many_more_may_fail() {
        use VoterPresence::{Away, Up, WithoutDisk};
        for (presences, text) in [
            (
                &[Up][..],
                "1 voter (s0), and 1 must be up. It is the only voter: no lock is granted while it is down.\n",
            ),
            (
                &[Up, Up],
                "2 voters (s0, s1), and 2 must be up. Two voters are more fragile than one: if either stops, no lock is \
                 granted, and if either loses its disk, the cluster must be recovered (`meshlock recover`). Let a third site vote (`meshlock \
                 site promote`).\n",
            ),
            (&[Up, Up, Up], "3 voters (s0, s1, s2), and 2 must be up. 1 more failure can be survived.\n"),
            (
                &[Up, WithoutDisk, Up],
                "3 voters (s0, s1, s2), and 2 must be up. s1 is up, but has lost the disk with which it voted. No more failure can be \
                 survived: if one of those that are up stops, no lock is granted.\n",
            ),
            (
                &[Up, Away, Away],
                "3 voters (s0, s1, s2), and 2 must be up. s1 is away. s2 is away. Too few voters are up: no lock is granted until 1 more \
                 of them run.\n",
            ),
        ] {
            assert_eq!(printed(&report(presences)), text);
        }
    }

    #[test]
    fn a_voter_that_is_a_member_and_does_not_vote_is_not_said_to_be_away() {
        let voters = report(&[VoterPresence::Up, VoterPresence::Away]);
        let incarnation = meshlock_cluster::names::Incarnation::new(1);
        let mut view = View::default();
        view.members.push(meshlock_cluster::names::Member { site: "s1".parse().unwrap(), incarnation });
        let mut text = Vec::new();
        print(Some(&voters), &view, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains(" s1 takes part, but does not vote: it is silent, or cannot write"), "{text}");
        assert!(printed(&voters).contains(" s1 is away."));
    }

    #[test]
    fn a_second_voter_is_warned_of_and_a_first_or_third_one_is_not() {
        let second = |voters: &VotersReport, site: &str| warning_of_second(voters, &site.parse().unwrap());
        let one = report(&[VoterPresence::Up]);
        let warning = second(&one, "s1").unwrap();
        assert!(
            warning.starts_with("s1 will be the second voter. Two voters are more fragile than one"),
            "{warning}"
        );
        assert_eq!(second(&one, "s0"), None, "it votes already");
        assert_eq!(second(&report(&[VoterPresence::Up; 2]), "s2"), None);
    }

    #[test]
    fn a_change_that_is_under_way_is_shown() {
        let mut voters = report(&[VoterPresence::Up; 3]);
        voters.learners = vec!["d".parse().unwrap()];
        voters.replaced = Some("s2".parse().unwrap());
        let text = printed(&voters);
        assert!(
            text.ends_with("A change is under way: d will vote in the place of s2, and receives the log.\n"),
            "{text}"
        );
        assert_eq!(role(Some(&voters), &"d".parse().unwrap()), Some(Role::Learner));
        assert_eq!(document(&voters)["failures_survived"], 1);
    }
}
