//! What happens after a node has panicked: a bug of ours, after which none of its outputs can be trusted.
//!
//! The node is never called again. It renews no lease, so the other sites go on without it. Holders at this site are told that their
//! locks are lost, and every new request is refused.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::core::Core;
use meshlock_cluster::node::{ClientAnswer, ClientCall, Input};
use meshlock_cluster::table::{LockEvent, LossReason, Request, RequestRefusal};
use meshlock_system::now;

impl Core {
    /// Handles a panic of the node: tells every listener how its request ends.
    pub(super) fn on_panic(&mut self) {
        tracing::error!("the node has panicked, which is a bug: what its clients hold is lost");
        self.has_failed = true;
        let node = &self.node;
        // The table may be inconsistent after the panic. If its holders cannot be read, every request is told that it has lost its
        // lock, which is safe.
        let holding = catch_unwind(AssertUnwindSafe(|| -> BTreeSet<Request> {
            node.table().holders().map(|(_, request, _)| request).collect()
        }));
        let act_by = self.node.lease().end().unwrap_or_else(now);
        for request in self.requests.keys().copied().collect::<Vec<_>>() {
            let tell = match &holding {
                Ok(holding) if !holding.contains(&request) => {
                    LockEvent::Refused { request, why: RequestRefusal::Failed }
                }
                Ok(_) | Err(_) => LockEvent::Lost { request, act_by, why: LossReason::Failed },
            };
            if let LockEvent::Lost { .. } = tell {
                self.meter.lost_by_failure();
            }
            let answer = ClientAnswer::Lock(tell);
            // The panic may have come from a listener.
            let _ = catch_unwind(AssertUnwindSafe(|| self.answer(&answer)));
        }
    }

    /// Answers a call on behalf of a node that has failed.
    pub(super) fn answer_for_the_failed(&mut self, input: &Input) {
        let Input::Call(call) = input else { return };
        let refused =
            |request| ClientAnswer::Lock(LockEvent::Refused { request, why: RequestRefusal::Failed });
        let answer = match *call {
            ClientCall::Release(request) | ClientCall::Cancel(request) => {
                ClientAnswer::Lock(LockEvent::Released { request })
            }
            ClientCall::ChangeMode { request, .. } => {
                ClientAnswer::Lock(LockEvent::ModeRefused { request, why: RequestRefusal::Failed })
            }
            ClientCall::Leave { request } => ClientAnswer::Left { request },
            ClientCall::Query { request, .. }
            | ClientCall::Overview { request }
            | ClientCall::Break { request, .. }
            | ClientCall::Locks { request }
            | ClientCall::Page { request, .. }
            | ClientCall::Deadlocks { request }
            | ClientCall::Changes { request, .. }
            | ClientCall::Remove { request, .. }
            | ClientCall::ChangeVoters { request, .. }
            | ClientCall::SetAccess { request, .. }
            | ClientCall::SetRules { request, .. }
            | ClientCall::Prove { request } => refused(request),
            ClientCall::Acquire(ref wanted) => refused(wanted.request),
            ClientCall::Watch(ref watch) => refused(watch.request),
            ClientCall::Claim(ref claim) => refused(claim.request),
            ClientCall::SessionEnded(_)
            | ClientCall::SessionCut { .. }
            | ClientCall::Introduce { .. }
            | ClientCall::JoinParty { .. }
            | ClientCall::Freeze
            | ClientCall::TakeAllAway
            | ClientCall::ServeCalls(_)
            | ClientCall::SendCall { .. } => return,
        };
        self.answer(&answer);
    }
}
