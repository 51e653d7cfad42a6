//! Messages that nobody has read for some time, because this process was stopped. They count before a deadline that has passed meanwhile:
//! the node may have extended the lease all the time.

use std::time::Duration;

use meshlock_cluster::time::Time;
use meshlock_system::now;
use meshlock_wire::clients::ToClient;

use super::connection::Connection;
use super::error::ConnectionError;

/// How long to wait for more after messages were left unread for some time: a sender that was blocked sends them now. Meanwhile the
/// node, or the process that keeps the session with it, ends the processes that it guards if necessary.
const MORE_WITHIN: Duration = Duration::from_millis(50);

/// Handles the messages that are waiting, until no loss is due any more. `on_message` handles one, and returns when a loss is due then.
/// To be called when a loss is due.
pub(super) fn catch_up(
    connection: &mut Connection,
    mut on_message: impl FnMut(&Connection, ToClient) -> Option<Time>,
) -> Result<(), ConnectionError> {
    let mut next = connection.receive_available()?;
    while let Some(message) = next {
        if on_message(connection, message).is_none_or(|due| now() < due) {
            return Ok(());
        }
        next = connection.receive(Some(MORE_WITHIN))?;
    }
    Ok(())
}
