//! Reading and changing the cluster's access document through a node.

use meshlock_client::{Connection, ConnectionError};
use meshlock_cluster::access::{AccessDocument, AgreedAccess};
use meshlock_wire::clients::{HAS_ACCESS, RefusalKind, ToClient, ToNode};

use crate::commands::target::{ANSWER_WITHIN, unexpected};
use crate::output::UsageError;

/// How often a change is tried again because someone else has changed the document meanwhile.
const TRIES: usize = 5;

/// Asks the node for the document.
pub(crate) fn read(remote: &mut Connection) -> anyhow::Result<AgreedAccess> {
    if !knows(remote) {
        let why = format!(
            "the node of {} runs an older version, which does not know the cluster's access document; upgrade it",
            remote.site()
        );
        return Err(UsageError::new(why).into());
    }
    let answer = remote.ask(ANSWER_WITHIN, |tag| ToNode::Access { tag })?;
    if let ToClient::Access { access, .. } = answer { Ok(*access) } else { Err(unexpected(remote, &answer)) }
}

/// Returns whether the node knows the document.
pub(crate) fn knows(remote: &Connection) -> bool {
    remote.version() >= HAS_ACCESS
}

/// Changes the document: `edit` is given the current one, and once more if someone else changes it meanwhile. Returns the document that
/// applies then.
pub(crate) fn change(
    remote: &mut Connection,
    edit: impl Fn(&mut AccessDocument, &AgreedAccess) -> Result<(), UsageError>,
) -> anyhow::Result<AgreedAccess> {
    let mut tries = 1;
    loop {
        let current = read(remote)?;
        let mut document = current.document.clone();
        edit(&mut document, &current)?;
        document.check().map_err(UsageError::new)?;
        let (base, wanted) = (current.version, Box::new(document.clone()));
        match remote.ask(ANSWER_WITHIN, |tag| ToNode::SetAccess { tag, base, document: wanted }) {
            Ok(ToClient::AccessSet { version, .. }) => return Ok(AgreedAccess { version, document }),
            Ok(other) => return Err(unexpected(remote, &other)),
            Err(error) if error.is_unavailable() => return Err(error.into()),
            Err(ConnectionError::Refused { kind, why, .. }) => {
                let is_outdated = read(remote)?.version != base;
                if is_outdated && tries < TRIES && kind != RefusalKind::Denied {
                    tries += 1;
                    continue;
                }
                return Err(UsageError::new(why).into());
            }
            Err(error) => return Err(error.into()),
        }
    }
}
