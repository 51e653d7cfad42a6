//! When a site opens a view, no other member of it runs machines of an earlier one: a clause of the model of the census in
//! `crates/proof/src/models/census.rs`, by the states of the nodes themselves.

use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::Node;
use meshlock_protocol::Epoch;

use super::{CheckResult, broken};
use crate::clock::Moment;

/// Checks that `opener` is a member of the view that it has opened, and that everyone else who is has installed that view, or is gone: the
/// process runs no more, or as a later incarnation. `nodes` are the processes that run, by their sites.
pub(crate) fn on_opened<'a>(
    opener: &Node,
    epoch: Epoch,
    nodes: impl Fn(&SiteName) -> Option<&'a Node>,
    now: Moment,
) -> CheckResult {
    let view = opener.view();
    if view.epoch != epoch {
        // It has installed a later one in the same step.
        return Ok(());
    }
    let (me, number) = (opener.me(), epoch.number());
    if !view.contains(me) {
        return broken("views", now, format!("{me} opens view {number}, of which it is no member"));
    }
    let behind = view.members.iter().find(|member| {
        let node = nodes(&member.site).filter(|node| node.me() == *member);
        node.is_some_and(|node| node.view().epoch < epoch)
    });
    let what = |member| format!("{me} opens view {number}, and {member} has not installed it");
    behind.map_or(Ok(()), |member| broken("views", now, what(member)))
}
