//! `meshlock site remove`: takes the vote of a site away, makes it leave, and waits until it has left.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use meshlock_client::Connection;
use meshlock_cluster::names::{Member, SiteName};
use meshlock_cluster::node::{StopEffect, VoterRequest};
use meshlock_wire::clients::{Status, ToClient, ToNode};
use serde_json::json;

use super::super::target::{self, ANSWER_WITHIN, Target, unexpected};
use super::super::voters;
use super::admission::{self, Barred};
use super::change::{self, Changed};
use super::may_stop;
use crate::EXIT_NO_NODE;
use crate::output::{self, CommandOutcome, UsageError};

/// How long a site may take to leave: its clients first release their locks, or its lease ends.
const LEAVE_WITHIN: Duration = Duration::from_secs(30);

/// How long to wait until the site does not vote any more.
const DEMOTE_WITHIN: Duration = Duration::from_secs(30);

/// How often to check whether the site has left.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What the operator has agreed to.
#[derive(Clone, Copy)]
pub(super) struct Consent {
    /// Everything: nobody is asked.
    pub(super) yes: bool,
    /// A site that votes goes on being counted.
    pub(super) keep_vote: bool,
}

pub(super) fn run(
    target: &Target,
    name: &SiteName,
    consent: Consent,
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    if !consent.yes && !io::stdin().is_terminal() {
        return Err(UsageError::new(format!(
            "{name}: there is no terminal to ask on; say --yes to remove it"
        ))
        .into());
    }
    let mut remote = target.connect("site remove")?;
    let status = target::status(&mut remote)?;
    let votes = status.voters.as_ref().is_some_and(|voters| voters.votes(name));
    let member = status.view.member(name).cloned();
    if member.is_none() && (!votes || consent.keep_vote) {
        if !votes && let Barred::Recorded = admission::bar(&mut remote, &status, name)? {
            return tell_barred(target, name, out);
        }
        let voter = if votes { ", and stays one of those who vote" } else { "" };
        return Err(UsageError::new(format!(
            "{name} is not a member of the cluster{voter}; `meshlock site list` lists the members"
        ))
        .into());
    }
    if !consent.yes && !output::is_confirmed(&question(&status, name, member.as_ref(), consent))? {
        eprintln!("Nothing was done.");
        return Ok(CommandOutcome::Refuted);
    }
    if votes && !consent.keep_vote {
        let until = Instant::now() + DEMOTE_WITHIN;
        if let Changed::Refused(why) = change::ask(&mut remote, &VoterRequest::Demote(name.clone()), until)? {
            anyhow::bail!(
                "{name} was not removed, because its vote cannot be taken away: {why}. Give its vote to another member (`meshlock site \
                 replace {name} NEW`), or remove it with --keep-vote"
            );
        }
    }
    if !consent.keep_vote
        && let Barred::Not(why) = admission::bar(&mut remote, &status, name)?
    {
        eprintln!("meshlock: {name} will join again if it is restarted: {why}");
    }
    match member {
        Some(member) => leave(target, &mut remote, &member, out),
        None => tell_removed(target, &target::status(&mut remote)?, name, false, out),
    }
}

/// Returns the question to the operator: what exactly will happen.
fn question(status: &Status, name: &SiteName, member: Option<&Member>, consent: Consent) -> String {
    let mut said: Vec<String> = Vec::new();
    if let Some(voters) = status.voters.as_ref().filter(|voters| voters.votes(name)) {
        let effect = voters.if_stopped(name);
        if consent.keep_vote {
            let stop = may_stop::tell(name, voters, effect);
            said.push(if effect == StopEffect::None {
                format!("{name} stays one of the voters.")
            } else {
                format!("{name} keeps its vote and is counted while it is away. {stop}")
            });
        } else {
            let left = voters.voters.len().saturating_sub(1);
            said.push(format!(
                "{name} loses its vote: {left} voters are left, and {} of them must be up.",
                left / 2 + 1
            ));
            let others = status.view.members.iter().map(|member| &member.site);
            let free: Vec<&str> = others.filter(|site| !voters.votes(site)).map(SiteName::as_str).collect();
            if !free.is_empty() {
                said.push(format!(
                    "(To keep {} voters, say `meshlock site replace {name} NEW` first, where NEW is one of {}.)",
                    voters.voters.len(),
                    free.join(", ")
                ));
            }
        }
    }
    said.push(match member {
        Some(member) => format!("Remove {member} from the cluster?"),
        None => format!("{name} is not a member. Take its vote away?"),
    });
    said.join(" ")
}

/// Tells the member to leave, and waits until it has.
fn leave(
    target: &Target,
    remote: &mut Connection,
    member: &Member,
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    let (name, until) = (&member.site, Instant::now() + LEAVE_WITHIN);
    let mut acknowledged = false;
    // The order can be lost, and the site can crash: only the view says whether the site has left.
    loop {
        let now = target::status(remote)?;
        if !now.view.contains(member) {
            return tell_removed(target, &now, name, acknowledged, out);
        }
        if Instant::now() >= until {
            eprintln!("meshlock: {}", still_there(name, acknowledged));
            let is_outage = now.lease_left.is_none();
            return Ok(if is_outage { CommandOutcome::Exit(EXIT_NO_NODE) } else { CommandOutcome::Refuted });
        }
        // A site that has confirmed it leaves, whatever happens, and need not be told again.
        if !acknowledged {
            let answer = remote.ask(ANSWER_WITHIN, |tag| ToNode::Remove { tag, site: name.clone() })?;
            let ToClient::Leaves { leaves, .. } = answer else { return Err(unexpected(remote, &answer)) };
            acknowledged = leaves;
        }
        // The node sends nothing else to this session: this only waits.
        remote.receive(Some(LOOK_EVERY))?;
    }
}

fn still_there(name: &SiteName, acknowledged: bool) -> String {
    if acknowledged {
        let why =
            "its clients still hold locks (`meshlock status` lists them), or too few voters are reachable";
        return format!(
            "{name} is leaving, but has not left yet: {why}; it will leave without another command"
        );
    }
    format!(
        "{name} has not left: it does not answer, and too few voters are reachable to exclude it; see whether a majority of the voters runs"
    )
}

fn tell_removed(
    target: &Target,
    status: &Status,
    name: &SiteName,
    acknowledged: bool,
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    let voter = status.voters.as_ref().is_some_and(|voters| voters.votes(name));
    if target.json {
        let voters = status.voters.as_ref().map(voters::document);
        let document =
            json!({ "site": name, "left": true, "heard": acknowledged, "voter": voter, "voters": voters });
        output::json(out, &document)?;
        return Ok(CommandOutcome::Done);
    }
    if acknowledged && voter {
        writeln!(out, "{name} has left. Its node still runs but grants no locks: stop it, or restart it.")?;
    } else if acknowledged {
        writeln!(
            out,
            "{name} has left. Its node still runs but grants no locks: stop it. It comes back only after `meshlock site add {name}`."
        )?;
    } else {
        writeln!(out, "{name} did not answer. It is no longer a member.")?;
    }
    if voter {
        writeln!(out, "It keeps its vote, and is counted while it is away; restarted, it joins again.")?;
    }
    voters::print(status.voters.as_ref(), &status.view, out)?;
    Ok(CommandOutcome::Done)
}

/// Tells that a site that is not running is not let in any more.
fn tell_barred(target: &Target, name: &SiteName, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    if target.json {
        output::json(out, &json!({ "site": name, "left": true, "heard": false }))?;
        return Ok(CommandOutcome::Done);
    }
    writeln!(
        out,
        "{name} was not a member, and is not let in any more. `meshlock site add {name}` undoes that."
    )?;
    Ok(CommandOutcome::Done)
}
