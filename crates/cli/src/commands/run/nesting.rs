//! Refuses a command that would wait for itself: `meshlock run x -- … meshlock run x -- …`.
//!
//! Everything that runs under a lock is below its [supervisor](meshlock_supervisor), whose arguments say which lock of which node that is.
//! So it is enough to look at the processes above this one. Nothing of the environment is trusted.
//!
//! A node can be named in many ways (`node.sock`, `./node.sock`, a link, a name or a number of its machine), two nodes in the same way
//! from two directories, and every site of a cluster leads to the same locks. So if a process above this one holds a lock of the same
//! name, both nodes are asked which they are: nodes of one cluster know each other as members of their view. A command without such a
//! process above it, as almost all are, asks nothing and loses no time.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Read;
use std::net::ToSocketAddrs;
use std::path::PathBuf;

use meshlock_client::NodeEndpoint;
use meshlock_cluster::names::{ClientLabel, Incarnation, LockName, Member};
use meshlock_cluster::report::Party;
use meshlock_supervisor::SUPERVISE;
use meshlock_system::ancestors;
use meshlock_wire::clients::Status;

use crate::commands::target;
use crate::embedded;
use crate::location::{FoundBy, NodeFlags, NodeLocation, node_addresses};
use crate::output::UsageError;

/// Maximum number of processes above this one that are looked at.
const MAX_DEPTH: usize = 1000;

/// Maximum length of those arguments of a supervisor that are looked at: the program, two paths and the name of a lock.
const MAX_WORDS_BYTES: usize = 16 << 10;

/// What is said instead of the place of the embedded node, of which a user has one.
const EMBEDDED: &str = "embedded";

/// What is said instead of the directory of a certificate if the connection uses none.
const PLAIN: &str = "plain";

/// The variable of the environment by which what runs below this command learns that it is the same party. Nothing but the search for
/// deadlocks between locks goes by it.
pub(super) const PARTY_VARIABLE: &str = "MESHLOCK_PARTY";

/// Returns the party of the command above this one, or a new one.
pub(super) fn party() -> Party {
    let above = std::env::var(PARTY_VARIABLE).ok();
    let above = above.and_then(|text| u64::from_str_radix(&text, 16).ok()).filter(|number| *number != 0);
    // The system's random numbers: two commands do not choose the same.
    Party(above.unwrap_or_else(|| RandomState::new().build_hasher().finish()))
}

/// Returns the arguments of a supervisor by which commands below it find the node: its place, and the directory of the client's
/// certificate if one is used. `location` is `None` for the embedded node.
pub(super) fn words(location: Option<&NodeLocation>) -> [String; 2] {
    let Some(location) = location else { return [EMBEDDED.to_owned(), String::new()] };
    // Relative to another directory a path would be another one.
    let absolute =
        |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone()).display().to_string();
    match (location.endpoints(), location.certificate()) {
        ([NodeEndpoint::Socket(path)], _) => [absolute(path), String::new()],
        (_, None) => [location.to_string(), PLAIN.to_owned()],
        (_, Some(dir)) => [location.to_string(), absolute(dir)],
    }
}

/// Returns the node that a supervisor's arguments name, if it can be found.
fn location_of([place, certificate]: &[String; 2]) -> Option<NodeLocation> {
    let at_socket = |path: PathBuf| NodeLocation::socket(path, FoundBy::Arguments);
    match certificate.as_str() {
        "" if place == EMBEDDED => embedded::socket().map(at_socket),
        "" => Some(at_socket(place.into())),
        PLAIN => NodeFlags::at(node_addresses(place).ok()?, None, true).find().ok(),
        dir => NodeFlags::at(node_addresses(place).ok()?, Some(dir.into()), false).find().ok(),
    }
}

/// Refuses a request for a lock that processes above this one hold, unless it has more permits than they have taken. `location` is where
/// the lock is asked for.
pub(super) fn refuse_own_lock(
    location: Option<&NodeLocation>,
    lock: &LockName,
    permits: Option<u32>,
    who: &ClientLabel,
) -> Result<(), UsageError> {
    let permits = permits.unwrap_or(1) as usize;
    let above = ancestors().take(MAX_DEPTH).filter_map(|process| held_by(process, lock));
    let above: Vec<[String; 2]> = above.collect();
    if above.len() < permits {
        return Ok(());
    }
    let own = words(location);
    let mut asked = None;
    let held = above.iter().filter(|outer| {
        if place(outer) == place(&own) {
            return true;
        }
        let own = asked.get_or_insert_with(|| status_of(&own, who));
        are_one_cluster(own.as_ref(), status_of(outer, who).as_ref())
    });
    if held.count() < permits {
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

/// Returns of which node a process has the lock, if it is the supervisor of a command under this lock.
fn held_by(process: i32, lock: &LockName) -> Option<[String; 2]> {
    let mut line = [0; MAX_WORDS_BYTES];
    let read = File::open(format!("/proc/{process}/cmdline")).and_then(|mut file| file.read(&mut line));
    let mut words = line[..read.unwrap_or(0)].split(|byte| *byte == 0).skip(1);
    let mut next = || words.next().unwrap_or_default();
    let [name, place, certificate, held] = [next(), next(), next(), next()];
    let is_held = name == SUPERVISE.as_bytes() && held == lock.as_str().as_bytes();
    is_held.then(|| [place, certificate].map(|word| String::from_utf8_lossy(word).into_owned()))
}

/// Returns a place that is the same however it was written: a path without links, or an address of numbers.
fn place([place, certificate]: &[String; 2]) -> String {
    let same = if certificate.is_empty() {
        fs::canonicalize(place).ok().map(|path| path.display().to_string())
    } else {
        let addresses = place.to_socket_addrs().ok();
        addresses.and_then(|addresses| addresses.min()).map(|address| address.to_string())
    };
    same.unwrap_or_else(|| place.clone())
}

/// Asks a node where it stands. One that does not say is taken for another: if the outer command's node does not answer, that command
/// loses its lock, and nobody waits for ever.
fn status_of(node: &[String; 2], who: &ClientLabel) -> Option<Status> {
    let mut connection = location_of(node)?.connect(who).ok()?;
    target::status(&mut connection).ok()
}

/// Returns whether two nodes are of one cluster: they are the same, or one is or was a member of the other's view.
fn are_one_cluster(one: Option<&Status>, other: Option<&Status>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return false };
    let itself = |status: &Status| Member {
        site: status.site.clone(),
        incarnation: Incarnation::new(status.incarnation),
    };
    let knows = |status: &Status, member: &Member| {
        itself(status) == *member || status.view.members.contains(member) || status.view.past.contains(member)
    };
    one.cluster == other.cluster && (knows(one, &itself(other)) || knows(other, &itself(one)))
}
