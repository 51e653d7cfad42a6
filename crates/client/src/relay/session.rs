//! How a relay changes the messages of client and node: times of the node's clock become times of this machine's clock, and leases end
//! in time. Nothing here waits or reads a clock.

use std::collections::BTreeSet;

use meshlock_cluster::time::Time;
use meshlock_wire::clients::{Tag, ToClient, ToNode};

use crate::estimate::LeaseEstimate;

/// The tag of the relay's first ping. Clients number their requests from one.
const FIRST_PING: Tag = 1 << 63;

/// A client's session with a node on another machine.
#[derive(Debug, Default)]
pub(super) struct RelayedSession {
    hello_said: Time,
    estimate: Option<LeaseEstimate>,
    next_ping: Option<Time>,
    pings: u64,
    holds: BTreeSet<Tag>,
    has_asked: bool,
    /// When the client must have stopped, after a lock was lost.
    act_by: Option<Time>,
}

/// What to do with a message of the client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Send it to the node.
    Pass(ToNode),
    /// Answer it here.
    Answer(ToClient),
    /// Kill this process and what is below it when the lock is lost and the client has gone.
    Guard(i32),
}

impl RelayedSession {
    /// Handles a message of the client.
    pub(super) fn on_client(&mut self, said: ToNode, now: Time) -> Said {
        if let ToNode::Guard { group } = said {
            return Said::Guard(group);
        }
        if let ToNode::Ping(tag) = said {
            return Said::Answer(ToClient::Pong { tag, time: now });
        }
        if let ToNode::Hello { .. } = said {
            self.hello_said = now;
        }
        self.has_asked |= matches!(said, ToNode::Acquire { .. });
        Said::Pass(said)
    }

    /// Handles a message of the node. Returns the message for the client, if there is one.
    pub(super) fn on_node(&mut self, said: ToClient, now: Time) -> Option<ToClient> {
        if let ToClient::Welcome { version, site, time, contact } = said {
            let estimate = LeaseEstimate::new(contact, self.hello_said, time);
            self.next_ping = estimate.ping_every().map(|every| self.hello_said + every);
            self.estimate = Some(estimate);
            return Some(ToClient::Welcome { version, site, time: now, contact: None });
        }
        let Some(estimate) = &mut self.estimate else { return Some(said) };
        match said {
            ToClient::Pong { tag, time } => {
                let before = estimate.end();
                estimate.on_pong(tag, time);
                let lease_end = estimate.end();
                (lease_end > before && !self.holds.is_empty()).then_some(ToClient::Extended { lease_end })
            }
            ToClient::Extended { lease_end } => {
                estimate.on_lease(lease_end);
                Some(ToClient::Extended { lease_end: estimate.end() })
            }
            ToClient::Granted { tag, fence, slot, lease_end, margin } => {
                estimate.on_lease(lease_end);
                self.holds.insert(tag);
                Some(ToClient::Granted { tag, fence, slot, lease_end: estimate.end(), margin })
            }
            ToClient::Lost { tag, act_by, why } => {
                let act_by = estimate.local(act_by).min(estimate.end());
                self.act_by = Some(self.act_by.map_or(act_by, |known| known.min(act_by)));
                Some(ToClient::Lost { tag, act_by, why })
            }
            ToClient::Released(tag) => {
                self.holds.remove(&tag);
                Some(said)
            }
            ToClient::Welcome { .. }
            | ToClient::Cancelled(_)
            | ToClient::TimedOut(_)
            | ToClient::Busy(_)
            | ToClient::LostV2 { .. }
            | ToClient::Refused { .. }
            | ToClient::RefusedV2 { .. }
            | ToClient::Queue { .. }
            | ToClient::Status { .. }
            | ToClient::StatusWithDisk { .. }
            | ToClient::Broken { .. }
            | ToClient::RulesSet { .. }
            | ToClient::Locks { .. }
            | ToClient::Leaves { .. }
            | ToClient::Left(_)
            | ToClient::Traced { .. }
            | ToClient::StatusWithVoters { .. }
            | ToClient::VotersChanged(_)
            | ToClient::VotersRefused { .. }
            | ToClient::Access { .. }
            | ToClient::AccessSet { .. }
            | ToClient::Diagnoses { .. } => Some(said),
        }
    }

    /// Returns a ping, which tells the node that the client is still there, if one is due.
    pub(super) fn ping(&mut self, now: Time) -> Option<ToNode> {
        let (estimate, due) = (self.estimate.as_mut()?, self.next_ping.filter(|due| *due <= now)?);
        let tag = FIRST_PING + self.pings;
        self.pings += 1;
        estimate.on_ping(tag, now);
        // Skips pings that were missed while this machine was suspended.
        self.next_ping = estimate.ping_every().map(|every| (due + every).max(now + every.part(2)));
        Some(ToNode::Ping(tag))
    }

    /// Returns when the next ping is due.
    pub(super) fn next_ping(&self) -> Option<Time> {
        self.next_ping
    }

    /// Whether the client has ever asked for a lock.
    pub(super) fn has_asked(&self) -> bool {
        self.has_asked
    }

    /// Whether the node has welcomed the client.
    pub(super) fn is_welcome(&self) -> bool {
        self.estimate.is_some()
    }

    /// Returns a message with the time until when the client may rely on what it holds, if it holds anything.
    pub(super) fn extended(&self) -> Option<ToClient> {
        let lease_end = self.estimate.as_ref().filter(|_| !self.holds.is_empty())?.end();
        Some(ToClient::Extended { lease_end })
    }

    /// Returns when another client may get what this one holds, if it holds anything. No process may use it after that.
    pub(super) fn end(&self) -> Option<Time> {
        let estimate = self.estimate.as_ref().filter(|_| !self.holds.is_empty())?;
        Some(self.act_by.map_or(estimate.end(), |act_by| act_by.min(estimate.end())))
    }
}

#[cfg(test)]
mod tests {
    use meshlock_cluster::time::{Drift, Span};
    use meshlock_wire::clients::{Contact, LossKind};

    const VERSION: u16 = 3;

    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_micros(millis * 1000)
    }

    /// A session that was opened at 1 s, with a node whose clock showed 100 s.
    fn session() -> RelayedSession {
        let mut session = RelayedSession::default();
        let hello = ToNode::Hello { version: VERSION, who: "test".parse().unwrap() };
        assert_eq!(session.on_client(hello.clone(), at(1000)), Said::Pass(hello));
        let contact = Some(Contact { silence: Span::from_millis(2000), drift: Drift::from_ppm(0) });
        let site: meshlock_cluster::names::SiteName = "a".parse().unwrap();
        let welcome =
            |time, contact| ToClient::Welcome { version: VERSION, site: site.clone(), time, contact };
        let passed_on = session.on_node(welcome(at(100_000), contact), at(1010));
        assert_eq!(passed_on, Some(welcome(at(1010), None)));
        session
    }

    fn granted(tag: Tag, lease_end: Time) -> ToClient {
        ToClient::Granted { tag, fence: 7, slot: None, lease_end, margin: Span::from_millis(500) }
    }

    #[test]
    fn a_client_is_told_moments_of_its_own_clock_and_relies_on_nothing_beyond_the_session() {
        let mut session = session();
        assert_eq!(session.end(), None, "it holds nothing");
        // The lease has four seconds left; the session two, counted from when hello was said.
        let passed_on = session.on_node(granted(1, at(104_000)), at(1020));
        assert_eq!(passed_on, Some(granted(1, at(3000))));
        assert_eq!(session.end(), Some(at(3000)));
        assert_eq!(session.ping(at(1499)), None);
        let Some(ToNode::Ping(tag)) = session.ping(at(1500)) else { panic!("it is time") };
        let passed_on = session.on_node(ToClient::Pong { tag, time: at(100_600) }, at(1600));
        assert_eq!(passed_on, Some(ToClient::Extended { lease_end: at(3500) }));
        assert_eq!(session.end(), Some(at(3500)));
        assert_eq!(session.next_ping(), Some(at(2000)));
    }

    fn lost(act_by: Time) -> ToClient {
        ToClient::Lost { tag: 1, act_by, why: LossKind::Broken }
    }

    #[test]
    fn a_lock_that_is_lost_is_lost_by_the_clients_clock() {
        let mut session = session();
        session.on_node(granted(1, at(104_000)), at(1020));
        let passed_on = session.on_node(lost(at(100_500)), at(1030));
        assert_eq!(passed_on, Some(lost(at(1500))));
        assert_eq!(session.end(), Some(at(1500)));
        session.on_node(ToClient::Released(1), at(1040));
        assert_eq!(session.end(), None, "nothing is left to be ended for");
    }

    #[test]
    fn a_client_is_answered_here_what_the_node_cannot_know() {
        let mut session = session();
        assert_eq!(session.on_client(ToNode::Guard { group: 12 }, at(5)), Said::Guard(12));
        let pong = ToClient::Pong { tag: 3, time: at(6) };
        assert_eq!(session.on_client(ToNode::Ping(3), at(6)), Said::Answer(pong));
    }
}
