//! What all commands share that ask a node something: which node, and how the answer is printed.

use std::time::Duration;

use clap::Args;
use meshlock_node::names::{ClientLabel, LockName};
use meshlock_node::shell::client::protocol::{Status, ToClient, ToNode};

use crate::remote::keeper::Keeping;
use crate::remote::place::Where;
use crate::remote::{Remote, RemoteError};

/// How long a node may take for what it knows itself or asks the other sites; it gives up on them sooner.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Which node, and how to print.
#[derive(Clone, Debug, Args)]
pub(crate) struct Target {
    #[command(flatten)]
    node: Where,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

impl Target {
    /// Connects to it, for the command of this name.
    pub(crate) fn connect(&self, command: &str) -> anyhow::Result<Remote> {
        let place = self.node.find()?;
        let label = format!("meshlock {command}, process {}", std::process::id());
        Remote::connect(&place, label.parse::<ClientLabel>()?, Keeping::Here)
    }
}

/// A lock's name as an argument.
pub(crate) fn lock_name(text: &str) -> Result<LockName, String> {
    text.parse().map_err(|error| format!("{error}"))
}

/// How the node's site is.
pub(crate) fn status(remote: &mut Remote) -> anyhow::Result<Status> {
    let answer = remote.ask(ANSWER_WITHIN, |tag| ToNode::Status { tag })?;
    if let ToClient::Status { status, .. } = answer { Ok(*status) } else { Err(unexpected(remote, &answer)) }
}

/// The node answered another question than the one asked.
pub(crate) fn unexpected(remote: &Remote, answer: &ToClient) -> anyhow::Error {
    tracing::debug!(?answer, "unexpected");
    RemoteError::Refused {
        place: remote.place().clone(),
        why: "its answer is to another question; is it of another version?".to_owned(),
    }
    .into()
}
