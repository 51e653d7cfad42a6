//! Refuses a command that would wait for itself: `meshlock run x -- … meshlock run x -- …`.
//!
//! Everything that runs under a lock is below its [supervisor](super::supervisor), whose arguments say which lock of which node that is.
//! So it is enough to look at the processes above this one. Nothing of the environment is trusted.
//!
//! A node can be named in many ways (`node.sock`, `./node.sock`, a link, a name or a number of its machine), two nodes in the same way
//! from two directories, and every site of a cluster leads to the same locks. So a node is known by what it says itself: its cluster,
//! its site and its incarnation, and the members of its view. A client that may not ask for these goes by the place only.

use std::fs;
use std::net::ToSocketAddrs;

use meshlock_client::{Connection, NodeEndpoint};
use meshlock_cluster::names::{ClusterName, Incarnation, LockName, Member};
use meshlock_system::ancestors;

use super::supervisor;
use crate::commands::target;
use crate::location::NodeLocation;
use crate::output::UsageError;

/// Maximum number of processes above this one that are looked at.
const MAX_DEPTH: usize = 1000;

/// What is used instead of the place of the embedded node, of which a user has one.
const EMBEDDED: &str = "embedded";

/// A node, as commands below this one recognise it.
pub(super) struct KnownNode {
    /// Where it is: a path or an address without what depends on the directory or on spelling.
    place: String,
    /// Its cluster, site and incarnation; empty if it does not say.
    identity: String,
    /// The same of all members that its view has or had, and its own.
    members: Vec<String>,
}

impl KnownNode {
    /// Asks a node who it is. `location` is `None` for the embedded node.
    pub(super) fn ask(connection: &mut Connection, location: Option<&NodeLocation>) -> Self {
        let place = location.map_or_else(|| EMBEDDED.to_owned(), |location| place(&location.endpoint));
        let mut known = KnownNode { place, identity: String::new(), members: Vec::new() };
        // Whoever may only acquire is refused. What else can go wrong here will go wrong again when the lock is asked for.
        if let Ok(status) = target::status(connection) {
            let own = Member { site: status.site, incarnation: Incarnation::new(status.incarnation) };
            let identity = |member: &Member| identity(&status.cluster, member);
            known.identity = identity(&own);
            known.members =
                status.view.members.iter().chain(&status.view.past).chain([&own]).map(identity).collect();
        }
        known
    }

    /// Returns the arguments of a supervisor by which [`KnownNode::has`] recognises the node.
    pub(super) fn words(&self) -> [&str; 2] {
        [&self.place, &self.identity]
    }

    /// Returns whether the locks of the node with these words are this node's, too.
    fn has(&self, place: &[u8], identity: &[u8]) -> bool {
        place == self.place.as_bytes() || self.members.iter().any(|member| member.as_bytes() == identity)
    }

    /// Refuses a request for a lock that processes above this one hold, unless it has more permits than they have taken.
    pub(super) fn refuse_own_lock(&self, lock: &LockName, permits: Option<u32>) -> Result<(), UsageError> {
        let permits = permits.unwrap_or(1) as usize;
        let held = ancestors().take(MAX_DEPTH).filter(|process| self.is_held_by(*process, lock)).count();
        if held < permits {
            return Ok(());
        }
        Err(UsageError::new(if permits == 1 {
            format!(
                "this command already runs under the lock '{lock}' and would wait for itself; leave out the inner `meshlock run`, or give it \
                 another lock"
            )
        } else {
            format!(
                "this command already has all {permits} permits of '{lock}' and would wait for itself; give it another lock"
            )
        }))
    }

    /// Returns whether a process is the supervisor of a command under this lock.
    fn is_held_by(&self, process: i32, lock: &LockName) -> bool {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0).skip(1);
        let mut next = || words.next().unwrap_or_default();
        let [name, place, identity, held] = [next(), next(), next(), next()];
        name == supervisor::NAME.as_bytes() && held == lock.as_str().as_bytes() && self.has(place, identity)
    }
}

fn identity(cluster: &ClusterName, member: &Member) -> String {
    format!("{cluster}/{member}")
}

/// Returns a path or an address that is the same however the endpoint was written.
fn place(endpoint: &NodeEndpoint) -> String {
    match endpoint {
        NodeEndpoint::Socket(path) => {
            fs::canonicalize(path).unwrap_or_else(|_| path.clone()).display().to_string()
        }
        NodeEndpoint::Tcp { address, .. } => {
            let resolved = address.as_str().to_socket_addrs().ok().and_then(|addresses| addresses.min());
            resolved.map_or_else(|| address.to_string(), |address| address.to_string())
        }
    }
}
