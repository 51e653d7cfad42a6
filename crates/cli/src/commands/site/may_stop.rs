//! `meshlock site may-stop`: says whether the cluster goes on if a site is stopped, before it is.

use std::io::Write;
use std::time::{Duration, Instant};

use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::{StopEffect, VotersReport};
use meshlock_wire::clients::Status;
use serde_json::json;

use super::super::target::{self, Target};
use crate::EXIT_NO_NODE;
use crate::output::{self, CommandOutcome, UsageError, counted};

/// How often to look again.
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub(super) fn run(
    target: &Target,
    name: &SiteName,
    wait: Duration,
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    let mut remote = target.connect("site may-stop")?;
    let until = Instant::now() + wait;
    let (voters, effect) = loop {
        let status = target::status(&mut remote)?;
        let has_lease = status.lease_left.is_some();
        let Some(voters) = &status.voters else {
            anyhow::bail!(
                "the node of {} runs a version of Meshlock that does not say who votes; upgrade it, or name a newer one with --socket or \
                 --node",
                remote.site()
            );
        };
        check_name(&status, voters, name)?;
        let effect = if has_lease { voters.if_stopped(name) } else { StopEffect::Stopped };
        if matches!(effect, StopEffect::None | StopEffect::Spare(_)) || Instant::now() >= until {
            break (voters.clone(), effect);
        }
        // The node sends nothing else to this session: this only waits.
        remote.receive(Some(LOOK_EVERY))?;
    };
    let may_stop = matches!(effect, StopEffect::None | StopEffect::Spare(_));
    let text = tell(name, &voters, effect);
    if target.json {
        let survived = if let StopEffect::Spare(spare) = effect {
            Some(spare)
        } else {
            voters.spare().filter(|_| may_stop)
        };
        let document =
            json!({ "site": name, "may_stop": may_stop, "failures_survived": survived, "why": text });
        output::json(out, &document)?;
    } else {
        writeln!(out, "{text}")?;
    }
    Ok(match effect {
        StopEffect::None | StopEffect::Spare(_) => CommandOutcome::Done,
        StopEffect::Stops => CommandOutcome::Refuted,
        StopEffect::Stopped => CommandOutcome::Exit(EXIT_NO_NODE),
    })
}

/// Checks that there is such a site: a name that was mistyped must not be answered with yes.
pub(super) fn check_name(status: &Status, voters: &VotersReport, name: &SiteName) -> Result<(), UsageError> {
    if status.view.member(name).is_some() || voters.votes(name) {
        return Ok(());
    }
    Err(UsageError::new(format!(
        "{name} is neither a member of the cluster nor a voter; `meshlock site list` lists them"
    )))
}

/// Says what happens if the site stops.
pub(super) fn tell(name: &SiteName, voters: &VotersReport, effect: StopEffect) -> String {
    let others: Vec<String> = voters
        .missing()
        .iter()
        .filter(|voter| voter.site != *name)
        .map(|voter| format!("{} {}", voter.site, voter.presence))
        .collect();
    let missing = if others.is_empty() { String::new() } else { format!(" ({})", others.join("; ")) };
    match effect {
        StopEffect::None => format!("{name} may be stopped: no vote of it is counted."),
        StopEffect::Spare(0) => {
            format!(
                "{name} may be stopped. Until it is back, no other voter may fail or be stopped{missing}."
            )
        }
        StopEffect::Spare(spare) => format!(
            "{name} may be stopped. Until it is back, {} can be survived{missing}.",
            counted(spare as u64, "more failure")
        ),
        StopEffect::Stops => format!(
            "If {name} stops, the cluster stops: {} of {} voters would be up, and {} must be{missing}. All leases would end, and no lock \
             would be granted. Start the missing voters, or replace them (`meshlock site replace`).",
            voters.up().saturating_sub(1),
            voters.voters.len(),
            voters.quorum()
        ),
        StopEffect::Stopped => format!(
            "The cluster grants no locks as it is: {} of {} voters are up, and {} must be{missing}. Start voters before you stop any site.",
            voters.up(),
            voters.voters.len(),
            voters.quorum()
        ),
    }
}
