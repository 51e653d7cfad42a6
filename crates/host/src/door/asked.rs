//! The open requests of a client, and how their events and answers become messages.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

use meshlock_cluster::claim::{Proof, Reserved};
use meshlock_cluster::node::VoterRefusal;
use meshlock_cluster::time::Span;
use meshlock_wire::clients::{RefusalKind, Tag, ToClient, ToNode};
use tokio::task::AbortHandle;

use super::connected_client::{ConnectedClient, Greeted};
use super::convert;
use super::guarded::kill_by;
use super::watch::{ClientWatch, parsed};
use crate::front::{
    AcquireEvent, AcquireParams, Acquisition, Admitted, ClaimNews, Front, NotAnswered, Observer, Owner,
    VotersNotChanged,
};

/// An open request of a client.
#[derive(Clone)]
pub(super) enum OpenRequest {
    /// It was just received and has not been started.
    Starting,
    Lock(Arc<Acquisition<ReplyObserver>>),
    Question(AbortHandle),
    Watch(Arc<ClientWatch>),
}

impl OpenRequest {
    /// Cancels the request. Returns whether the client is told by a later event.
    pub(super) fn cancel(&self, front: &Front) -> bool {
        match self {
            OpenRequest::Starting => false,
            OpenRequest::Lock(acquisition) => {
                acquisition.cancel();
                true
            }
            OpenRequest::Question(task) => {
                task.abort();
                false
            }
            OpenRequest::Watch(watching) => watching.end(front),
        }
    }

    /// Releases the lock, or cancels the request. Returns whether the client is told by a later event.
    pub(super) fn release(&self, front: &Front) -> bool {
        if let OpenRequest::Lock(acquisition) = self {
            acquisition.release();
            return true;
        }
        self.cancel(front)
    }

    /// Returns whether the client holds the lock and has not lost it.
    pub(super) fn holds(&self) -> bool {
        match self {
            OpenRequest::Lock(acquisition) => acquisition.observer().holds.load(Ordering::Relaxed),
            OpenRequest::Starting | OpenRequest::Question(_) | OpenRequest::Watch(_) => false,
        }
    }

    /// Ends the request because the client has gone, without telling it. Returns the acquisition that must be closed with the session.
    pub(super) fn end(self, front: &Front) -> Option<Arc<Acquisition<ReplyObserver>>> {
        match self {
            OpenRequest::Starting => None,
            OpenRequest::Lock(acquisition) => Some(acquisition),
            // The node carries the call out anyway.
            OpenRequest::Question(task) => {
                task.abort();
                None
            }
            OpenRequest::Watch(watching) => {
                watching.forget(front);
                None
            }
        }
    }
}

/// Sends the events of an acquisition to its client.
pub(super) struct ReplyObserver {
    client: Arc<ConnectedClient>,
    tag: Tag,
    /// Whether the client holds the lock and has not lost it.
    holds: AtomicBool,
}

impl ReplyObserver {
    /// Counts the locks that the client holds and has not lost.
    fn count(&self, event: &AcquireEvent) {
        let holds = matches!(event, AcquireEvent::Granted(_));
        match (self.holds.swap(holds, Ordering::Relaxed), holds) {
            (false, true) => drop(self.client.held.fetch_add(1, Ordering::Release)),
            (true, false) => drop(self.client.held.fetch_sub(1, Ordering::Release)),
            (false, false) | (true, true) => {}
        }
    }
}

impl Observer for ReplyObserver {
    fn on_event(&self, _: &Acquisition<Self>, event: &AcquireEvent) {
        let ReplyObserver { client, tag, .. } = self;
        self.count(event);
        if let AcquireEvent::Ended(_) = event {
            client.forget(*tag);
        }
        if let AcquireEvent::Lost { act_by, .. } = event
            && let Some(tree) = *client.tree.lock().unwrap_or_else(PoisonError::into_inner)
        {
            kill_by(tree, *act_by, client.front.node().tasks());
        }
        client.say(&convert::event(*tag, event));
        client.channel.flush_soon();
    }

    fn on_claim(&self, _: &Acquisition<Self>, news: &ClaimNews) {
        let ReplyObserver { client, tag, holds } = self;
        if !matches!(news, ClaimNews::Proof(_)) && !holds.swap(true, Ordering::Relaxed) {
            client.held.fetch_add(1, Ordering::Release);
        }
        client.say(&convert::claim_news(*tag, news));
        client.channel.flush_soon();
    }
}

impl ConnectedClient {
    /// Starts an acquisition.
    pub(super) fn acquire(self: &Arc<Self>, by: &Greeted, tag: Tag, wanted: AcquireParams) {
        if self.reserve(tag) {
            self.has_asked.store(true, Ordering::Relaxed);
            let observer = ReplyObserver { client: self.clone(), tag, holds: AtomicBool::new(false) };
            let acquisition = self.front.acquire(&by.caller, Owner::Session(by.session), wanted, observer);
            self.keep(tag, OpenRequest::Lock(acquisition));
        }
    }

    /// Claims a lock that the client holds through another site, or through a connection that was cut.
    pub(super) fn claim(self: &Arc<Self>, by: &Greeted, tag: Tag, proof: Proof, contact: Option<Span>) {
        if self.reserve(tag) {
            self.has_asked.store(true, Ordering::Relaxed);
            let reserved = contact.map_or(Reserved::Forever, |ago| Reserved::SinceContact { ago });
            let observer = ReplyObserver { client: self.clone(), tag, holds: AtomicBool::new(false) };
            let acquisition = self.front.prepare(&by.caller, &proof.hold().lock, observer);
            self.keep(tag, OpenRequest::Lock(acquisition.clone()));
            acquisition.claim(by.session, proof, reserved);
        }
    }

    /// Gives the client a proof of a lock that it holds. What it can prove is kept for it if its connection is cut.
    pub(super) fn prove(&self, tag: Tag) {
        let open = self.open().get(&tag).cloned();
        if let Some(OpenRequest::Lock(acquisition)) = open {
            self.has_proofs.store(true, Ordering::Relaxed);
            acquisition.prove();
        }
    }

    /// Starts a call that has a single answer.
    pub(super) fn ask(self: &Arc<Self>, caller: Admitted, tag: Tag, question: ToNode) {
        if !self.reserve(tag) {
            return;
        }
        let (client, front) = (self.clone(), self.front.clone());
        let mut asking: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            let answer = answer(&front, &caller, tag, question).await;
            client.forget(tag);
            match answer {
                Ok(message) => client.say(&convert::fitted(message)),
                Err(error) => client.refuse(tag, convert::kind_of(&error), error),
            }
            client.channel.flush_soon();
        });
        // Polled at once: so requests are started in order, and most answers need no task.
        if asking.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Pending {
            let task = self.front.node().tasks().spawn(asking);
            self.keep(tag, OpenRequest::Question(task.abort_handle()));
        }
    }
}

/// Makes the call and converts its answer to a message.
async fn answer(
    front: &Front,
    caller: &Admitted,
    tag: Tag,
    question: ToNode,
) -> Result<ToClient, NotAnswered> {
    Ok(match question {
        ToNode::Queue { lock, .. } => ToClient::Queue { tag, queue: front.queue(caller, lock).await? },
        ToNode::Status { .. } => {
            let overview = front.overview(caller).await?;
            let status = convert::status(&overview, front.disk_complaint());
            ToClient::Status { tag, status: Box::new(status) }
        }
        ToNode::Break { lock, .. } => {
            let broken = front.break_lock(caller, lock).await?;
            ToClient::Broken { tag, cut_off: broken.cut_off, missing: broken.missing }
        }
        ToNode::SetRules { rules, .. } => {
            ToClient::RulesSet { tag, epoch: front.set_rules(caller, rules).await?.number() }
        }
        ToNode::Locks { .. } => {
            let (sites, missing) = front.locks(caller).await?;
            ToClient::Locks { tag, sites, missing }
        }
        ToNode::Remove { site, .. } => {
            ToClient::Leaves { tag, leaves: front.remove_site(caller, site).await? }
        }
        ToNode::Leave { .. } => {
            front.leave(caller).await?;
            ToClient::Left(tag)
        }
        ToNode::ChangeVoters { change, .. } => match front.change_voters(caller, change).await {
            Ok(()) => ToClient::VotersChanged(tag),
            Err(VotersNotChanged::Refused(why)) => {
                ToClient::VotersRefused { tag, busy: why == VoterRefusal::Busy, why: why.to_string() }
            }
            Err(VotersNotChanged::NotAnswered(error)) => return Err(error),
        },
        ToNode::Access { .. } => ToClient::Access { tag, access: Box::new(front.access(caller)?) },
        ToNode::SetAccess { base, document, .. } => {
            ToClient::AccessSet { tag, version: front.set_access(caller, base, *document).await? }
        }
        ToNode::Diagnose { others, .. } => {
            ToClient::Diagnoses { tag, sites: front.diagnose(caller, others).await? }
        }
        ToNode::Deadlocks { .. } => {
            ToClient::Deadlocks { tag, deadlocks: Box::new(front.deadlocks(caller).await?) }
        }
        ToNode::LockPage { pattern, after, limit, .. } => match parsed(&pattern) {
            Ok(pattern) => {
                let page = Box::new(front.lock_page(caller, pattern, after, limit).await?);
                ToClient::LockPage { tag, page }
            }
            Err(error) => ToClient::Refused { tag, kind: RefusalKind::BadRequest, why: error.to_string() },
        },
        ToNode::Hello { .. }
        | ToNode::Ping(_)
        | ToNode::Acquire { .. }
        | ToNode::Cancel(_)
        | ToNode::Release(_)
        | ToNode::Guard { .. }
        | ToNode::KeepAlive
        | ToNode::StayInTouch
        | ToNode::Prove { .. }
        | ToNode::Claim { .. }
        | ToNode::Changes { .. }
        | ToNode::Party { .. }
        | ToNode::Watch { .. } => {
            let (kind, why) = (RefusalKind::BadRequest, "this is no question".to_owned());
            ToClient::Refused { tag, kind, why }
        }
    })
}
