//! What a client has asked for and not yet heard the end of.

use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

use meshlock_cluster::names::LockName;
use meshlock_cluster::table::{Session, Wait};
use meshlock_wire::clients::{RefusalKind, Tag, ToClient, ToNode};
use tokio::task::AbortHandle;

use super::client::Client;
use super::convert;
use super::group::kill_by;
use super::watching::Watching;
use crate::front::{AcquireEvent, Acquisition, Admitted, Front, LockRequest, NotAnswered, Observer, Owner};

/// Something that a client asked for.
#[derive(Clone)]
pub(super) enum Open {
    /// It was just asked for.
    Starting,
    Lock(Arc<Acquisition<Reply>>),
    Question(AbortHandle),
    Watch(Arc<Watching>),
}

impl Open {
    /// Stops it. Returns whether its end is told by itself.
    pub(super) fn cancel(&self, front: &Front) -> bool {
        match self {
            Open::Starting => false,
            Open::Lock(acquisition) => {
                acquisition.cancel();
                true
            }
            Open::Question(task) => {
                task.abort();
                false
            }
            Open::Watch(watching) => watching.end(front),
        }
    }

    /// Gives it back. Returns whether its end is told by itself.
    pub(super) fn release(&self, front: &Front) -> bool {
        if let Open::Lock(acquisition) = self {
            acquisition.release();
            return true;
        }
        self.cancel(front)
    }

    /// The client has gone: nobody is told anything more. What is left to be closed with the session is returned.
    pub(super) fn end(self, front: &Front) -> Option<Arc<Acquisition<Reply>>> {
        match self {
            Open::Starting => None,
            Open::Lock(acquisition) => Some(acquisition),
            // What it ordered is done all the same.
            Open::Question(task) => {
                task.abort();
                None
            }
            Open::Watch(watching) => {
                watching.forget(front);
                None
            }
        }
    }
}

/// Tells a client what becomes of its request.
pub(super) struct Reply {
    client: Arc<Client>,
    tag: Tag,
}

impl Observer for Reply {
    fn on_event(&self, _: &Acquisition<Self>, event: &AcquireEvent) {
        let Reply { client, tag } = self;
        if let AcquireEvent::Ended(_) = event {
            client.forget(*tag);
        }
        if let AcquireEvent::Lost { act_by, .. } = event
            && let Some(group) = *client.group.lock().unwrap_or_else(PoisonError::into_inner)
        {
            kill_by(group, *act_by, client.front.node().tasks());
        }
        client.say(&convert::event(*tag, event));
        client.channel.flush_soon();
    }
}

impl Client {
    pub(super) fn start_acquisition(
        self: &Arc<Self>,
        caller: &Admitted,
        session: Session,
        tag: Tag,
        lock: LockName,
        wait: Wait,
        permits: Option<u32>,
    ) -> Arc<Acquisition<Reply>> {
        let wanted = LockRequest { lock, wait, permits, cause: None };
        self.front.acquire(caller, Owner::Session(session), wanted, Reply { client: self.clone(), tag })
    }

    /// Asks a question, or gives an order, that has one answer.
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
        // What was said first is done first; and mostly the answer is there at once.
        if asking.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Pending {
            let task = self.front.node().tasks().spawn(asking);
            self.keep(tag, Open::Question(task.abort_handle()));
        }
    }
}

/// The one answer to a question.
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
            ToClient::Status { tag, status: Box::new(convert::status(&overview)) }
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
        ToNode::Hello { .. }
        | ToNode::Ping(_)
        | ToNode::Acquire { .. }
        | ToNode::Cancel(_)
        | ToNode::Release(_)
        | ToNode::Guard { .. }
        | ToNode::Watch { .. } => {
            let (kind, why) = (RefusalKind::BadRequest, "this is no question".to_owned());
            ToClient::Refused { tag, kind, why }
        }
    })
}
