//! What all commands that query a node share: the flags that name the node, and how the answer is printed.

use std::time::Duration;

use clap::Args;
use meshlock_cluster::names::{ClientLabel, LockName};
use meshlock_wire::clients::{RefusalKind, Status, ToClient, ToNode};

use crate::location::{NodeFlags, NodeLocation};
use meshlock_client::{Connection, ConnectionError};

/// How long a node may take to answer. It waits less long for the other sites that it asks.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The flags that name the node and the output format.
#[derive(Clone, Debug, Args)]
pub(crate) struct Target {
    #[command(flatten)]
    node: NodeFlags,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

impl Target {
    /// Finds the node and connects to it on behalf of the command of this name.
    pub(crate) fn connect(&self, command: &str) -> anyhow::Result<Connection> {
        Ok(self.find_and_connect(command)?.1)
    }

    /// The same, and returns also where the node is.
    pub(crate) fn find_and_connect(&self, command: &str) -> anyhow::Result<(NodeLocation, Connection)> {
        let location = self.node.find()?;
        let label = format!("meshlock {command}, process {}", std::process::id());
        let remote = location.connect(&label.parse::<ClientLabel>()?)?;
        Ok((location, remote))
    }
}

/// Parses the name of a lock as an argument.
pub(crate) fn lock_name(text: &str) -> Result<LockName, String> {
    text.parse().map_err(|error| format!("{error}"))
}

/// Asks the node for its status.
pub(crate) fn status(remote: &mut Connection) -> anyhow::Result<Status> {
    let answer = remote.ask(ANSWER_WITHIN, |tag| ToNode::Status { tag })?;
    if let ToClient::Status { status, .. } = answer { Ok(*status) } else { Err(unexpected(remote, &answer)) }
}

/// Returns the error that the node answered another question than the one asked.
pub(crate) fn unexpected(remote: &Connection, answer: &ToClient) -> anyhow::Error {
    tracing::debug!(?answer, "unexpected");
    ConnectionError::Refused {
        endpoint: remote.endpoint().clone(),
        kind: RefusalKind::Other,
        why: "its answer does not fit the question; it may run another version of Meshlock".to_owned(),
    }
    .into()
}
