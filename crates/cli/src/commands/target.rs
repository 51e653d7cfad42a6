//! What all commands share that ask a node something: which node, and how the answer is printed.

use std::time::Duration;

use clap::Args;
use meshlock_cluster::names::{ClientLabel, LockName};
use meshlock_wire::clients::{RefusalKind, Status, ToClient, ToNode};

use crate::place::Where;
use meshlock_client::{Connection, ConnectionError};

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
    pub(crate) fn connect(&self, command: &str) -> anyhow::Result<Connection> {
        let place = self.node.find()?;
        let label = format!("meshlock {command}, process {}", std::process::id());
        Ok(place.connect(&label.parse::<ClientLabel>()?)?)
    }
}

/// A lock's name as an argument.
pub(crate) fn lock_name(text: &str) -> Result<LockName, String> {
    text.parse().map_err(|error| format!("{error}"))
}

/// How the node's site is.
pub(crate) fn status(remote: &mut Connection) -> anyhow::Result<Status> {
    let answer = remote.ask(ANSWER_WITHIN, |tag| ToNode::Status { tag })?;
    if let ToClient::Status { status, .. } = answer { Ok(*status) } else { Err(unexpected(remote, &answer)) }
}

/// The node answered another question than the one asked.
pub(crate) fn unexpected(remote: &Connection, answer: &ToClient) -> anyhow::Error {
    tracing::debug!(?answer, "unexpected");
    ConnectionError::Refused {
        endpoint: remote.endpoint().clone(),
        kind: RefusalKind::Other,
        why: "its answer is to another question; is it of another version?".to_owned(),
    }
    .into()
}
