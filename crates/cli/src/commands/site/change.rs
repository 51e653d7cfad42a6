//! `meshlock site promote`, `demote` and `replace`: changes who votes, and waits until the change is complete.

use std::io::Write;
use std::time::{Duration, Instant};

use meshlock_client::{Connection, ConnectionError};
use meshlock_cluster::node::VoterRequest;
use meshlock_wire::clients::{HAS_VOTERS, RefusalKind, Status, ToClient, ToNode};
use serde_json::json;

use super::super::target::{self, Target};
use super::super::voters;
use crate::output::{self, CommandOutcome};
use crate::settings::duration::HumanDuration;

/// How often to look how far a change is.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long a node may take to answer. It gives a change up earlier, and is asked again.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// What became of a change.
pub(super) enum Changed {
    Done,
    /// The leader refuses it, for this reason, and nothing was changed.
    Refused(String),
}

/// What the node said to one request.
enum Said {
    Done,
    Refused(String),
    /// Another change is under way.
    Busy(String),
    /// It was not complete in time.
    Unavailable(ConnectionError),
}

pub(super) fn run(
    target: &Target,
    command: &str,
    change: &VoterRequest,
    wait: HumanDuration,
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    let mut remote = target.connect(command)?;
    if let VoterRequest::Promote(site) = change
        && let Some(voters) = &target::status(&mut remote)?.voters
        && let Some(warning) = voters::warning_of_second(voters, site)
    {
        eprintln!("meshlock: {warning}");
    }
    if let Changed::Refused(why) = ask(&mut remote, change, Instant::now() + wait.duration())? {
        anyhow::bail!("{why}");
    }
    let status = target::status(&mut remote)?;
    if target.json {
        let voters = status.voters.as_ref().map(voters::document);
        output::json(out, &json!({ "changed": true, "voters": voters }))?;
        return Ok(CommandOutcome::Done);
    }
    match change {
        VoterRequest::Promote(site) => writeln!(out, "{site} votes.")?,
        VoterRequest::Demote(site) => {
            writeln!(out, "{site} does not vote any more, and will not until it is promoted.")?;
        }
        VoterRequest::Replace { old, new } => writeln!(out, "{new} votes in the place of {old}.")?,
    }
    voters::print(status.voters.as_ref(), &status.view, out)?;
    Ok(CommandOutcome::Done)
}

/// Asks for a change, again and again while another one is under way, until it is complete, refused or the time is over. Says on standard
/// error how far it is.
pub(super) fn ask(remote: &mut Connection, change: &VoterRequest, until: Instant) -> anyhow::Result<Changed> {
    if remote.version() < HAS_VOTERS {
        anyhow::bail!(
            "the node of {} runs a version of Meshlock that cannot change voters; upgrade it, or name a newer one with --socket or --node",
            remote.site()
        );
    }
    let mut progress = ShownProgress::default();
    loop {
        let why = match ask_once(remote, change, &mut progress)? {
            Said::Done => return Ok(Changed::Done),
            Said::Busy(_) if Instant::now() < until => {
                progress.say("another change of voters is under way; waiting for its end");
                remote.receive(Some(LOOK_EVERY))?;
                continue;
            }
            Said::Refused(why) | Said::Busy(why) => return Ok(Changed::Refused(why)),
            Said::Unavailable(why) => why,
        };
        // In an outage waiting is of no use; otherwise the same request again waits for the same change.
        let is_outage = target::status(remote)?.lease_left.is_none();
        if is_outage || Instant::now() >= until {
            return Err(why.into());
        }
    }
}

fn ask_once(
    remote: &mut Connection,
    change: &VoterRequest,
    progress: &mut ShownProgress,
) -> anyhow::Result<Said> {
    let (tag, until) = (remote.tag(), Instant::now() + ANSWER_WITHIN);
    remote.send(&ToNode::ChangeVoters { tag, change: change.clone() })?;
    while Instant::now() < until {
        match remote.receive(Some(LOOK_EVERY))? {
            Some(ToClient::VotersChanged(of)) if of == tag => return Ok(Said::Done),
            Some(ToClient::VotersRefused { tag: of, why, busy }) if of == tag => {
                return Ok(if busy { Said::Busy(why) } else { Said::Refused(why) });
            }
            Some(ToClient::Refused { tag: of, kind, why }) if of == tag => {
                let error = ConnectionError::Refused { endpoint: remote.endpoint().clone(), kind, why };
                return if kind == RefusalKind::Unavailable {
                    Ok(Said::Unavailable(error))
                } else {
                    Err(error.into())
                };
            }
            Some(ToClient::Status { status, .. }) => progress.show(&status),
            Some(_) => {}
            None => {
                let tag = remote.tag();
                remote.send(&ToNode::Status { tag })?;
            }
        }
    }
    let endpoint = remote.endpoint().clone();
    Err(ConnectionError::Silent { endpoint, within: ANSWER_WITHIN }.into())
}

/// What was said last of how far a change is.
#[derive(Default)]
struct ShownProgress {
    said: String,
}

impl ShownProgress {
    fn show(&mut self, status: &Status) {
        let change = status.voters.as_ref().and_then(meshlock_cluster::node::VotersReport::change);
        self.say(&change.unwrap_or_else(|| "waiting for the leader".to_owned()));
    }

    fn say(&mut self, what: &str) {
        if self.said != what {
            eprintln!("meshlock: {what}");
            what.clone_into(&mut self.said);
        }
    }
}
