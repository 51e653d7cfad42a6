//! A stream of keep-alives. Its client is told without being asked when a lease that it has renewed here is over.

use std::collections::{BTreeSet, VecDeque};
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{self, FuturesUnordered};
use futures_util::{Stream, StreamExt};
use meshlock_cluster::time::Span;
use meshlock_host::front::Admitted;
use meshlock_host::gate::RequestKind;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tonic::Status;

use super::leases::told;
use super::{Answers, Etcd, errors};
use crate::proto::etcdserverpb::{LeaseKeepAliveRequest, LeaseKeepAliveResponse};

/// How often it is looked whether the site's lease was renewed, while clients wait for it.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Maximum number of keep-alives of one stream that wait for an answer.
const MAX_WAITING: usize = 64;

type Incoming = Pin<Box<dyn Stream<Item = Result<LeaseKeepAliveRequest, Status>> + Send>>;

/// A keep-alive that another site answers; `None` if it cannot be answered now.
type Elsewhere = Pin<Box<dyn Future<Output = Option<Result<LeaseKeepAliveResponse, Status>>> + Send>>;

/// One stream of keep-alives.
pub(super) struct KeepAlive {
    etcd: Etcd,
    caller: Admitted,
    asked: Incoming,
    /// The client sends nothing more.
    asked_all: bool,
    /// The leases that were renewed here.
    renewed: BTreeSet<i64>,
    /// Those that wait until this site can promise something, in the order of their requests.
    waiting: VecDeque<Unanswered>,
    losses: watch::Receiver<u64>,
    /// Keep-alives of leases that this site does not have. A site that does not answer delays those of others by nothing.
    elsewhere: FuturesUnordered<Elsewhere>,
    /// Those of the renewed that are over, of which the client was not told yet.
    over: VecDeque<i64>,
    /// One of the renewed goes on at another site: the client has to go there.
    has_moved: bool,
    /// When there are as many leases, those that the client has ended itself are forgotten.
    forget_at: usize,
}

/// A keep-alive that was not answered yet.
struct Unanswered {
    id: i64,
    /// How long the lease lasts; `None` if it lasts as long as its connection.
    lasts: Option<Span>,
    deadline: Instant,
}

impl KeepAlive {
    pub(super) fn new(
        etcd: Etcd,
        caller: Admitted,
        asked: impl Stream<Item = Result<LeaseKeepAliveRequest, Status>> + Send + 'static,
    ) -> Self {
        let losses = etcd.sessions.losses();
        let (renewed, waiting) = (BTreeSet::new(), VecDeque::new());
        KeepAlive {
            etcd,
            caller,
            asked: Box::pin(asked),
            asked_all: false,
            renewed,
            waiting,
            losses,
            elsewhere: FuturesUnordered::new(),
            over: VecDeque::new(),
            has_moved: false,
            forget_at: MAX_WAITING,
        }
    }

    pub(super) fn answers(self) -> Answers<LeaseKeepAliveResponse> {
        Box::pin(stream::unfold(Some(self), |open| async move {
            let mut open = open?;
            match open.next().await? {
                Ok(answer) => Some((Ok(answer), Some(open))),
                Err(status) => Some((Err(status), None)),
            }
        }))
    }

    async fn next(&mut self) -> Option<Result<LeaseKeepAliveResponse, Status>> {
        loop {
            if let Some(answer) = self.ready() {
                return Some(answer);
            }
            if self.asked_all && self.waiting.is_empty() && self.elsewhere.is_empty() {
                return None;
            }
            let reads = !self.asked_all && self.waiting.len() + self.elsewhere.len() < MAX_WAITING;
            tokio::select! {
                changed = self.losses.changed() => {
                    changed.ok()?;
                    self.find_over();
                }
                asked = self.asked.next(), if reads => match asked {
                    Some(asked) => {
                        if let Err(status) = self.on_asked(asked) {
                            return Some(Err(status));
                        }
                    }
                    None => self.asked_all = true,
                },
                Some(answer) = self.elsewhere.next(), if !self.elsewhere.is_empty() => {
                    if answer.is_some() {
                        return answer;
                    }
                }
                () = sleep(LOOK_EVERY), if !self.waiting.is_empty() => {}
            }
        }
    }

    /// Returns an answer that needs no waiting: that a lease is over, or for how long one is safe.
    fn ready(&mut self) -> Option<Result<LeaseKeepAliveResponse, Status>> {
        let is_closing = self.etcd.sessions.is_closing();
        if is_closing {
            self.find_over();
        }
        if let Some(id) = self.over.pop_front() {
            return Some(Ok(self.etcd.renewed(id, 0)));
        }
        if is_closing || self.has_moved {
            return Some(Err(errors::stopped()));
        }
        let Unanswered { id, lasts, deadline } = self.waiting.front()?;
        let ttl = told(*lasts, self.etcd.promise_for(*id));
        if ttl == 0 {
            return (*deadline <= Instant::now()).then(|| Err(errors::no_leader()));
        }
        let id = *id;
        self.waiting.pop_front();
        Some(Ok(self.etcd.renewed(id, ttl)))
    }

    /// Notes which of the leases are over.
    fn find_over(&mut self) {
        let KeepAlive { etcd, caller, renewed, waiting, over, has_moved, .. } = self;
        let before = over.len();
        renewed.retain(|id| {
            let is_alive = etcd.is_alive(caller, *id);
            if !is_alive && etcd.is_elsewhere(*id) {
                *has_moved = true;
            } else if !is_alive {
                over.push_back(*id);
            }
            is_alive
        });
        if over.len() > before {
            waiting.retain(|waiting| renewed.contains(&waiting.id));
        }
    }

    /// Restarts the time of a lease, here or at the site that has it.
    fn on_asked(&mut self, asked: Result<LeaseKeepAliveRequest, Status>) -> Result<(), Status> {
        self.etcd.pace(&self.caller, RequestKind::Renew)?;
        let id = asked?.id;
        let Some(lasts) = self.etcd.renew(&self.caller, id) else {
            self.renewed.remove(&id);
            let (etcd, caller) = (self.etcd.clone(), self.caller.clone());
            self.elsewhere.push(Box::pin(async move { etcd.keep_alive_anywhere(&caller, id).await }));
            return Ok(());
        };
        self.renewed.insert(id);
        if self.renewed.len() >= self.forget_at {
            let KeepAlive { etcd, caller, renewed, .. } = self;
            renewed.retain(|id| etcd.is_alive(caller, *id));
            self.forget_at = self.renewed.len().max(MAX_WAITING) * 2;
        }
        let deadline = Instant::now() + self.etcd.sessions.longest_wait();
        self.waiting.push_back(Unanswered { id, lasts: lasts.span(), deadline });
        Ok(())
    }
}
