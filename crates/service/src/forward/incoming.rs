//! Calls that other members forward to this site.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use meshlock_cluster::access::Principal;
use meshlock_cluster::names::{Incarnation, Member, SiteName};
use meshlock_cluster::node::{CallMessage, CallPart, MAX_CALL_BYTES};
use meshlock_host::CallListener;
use meshlock_host::gate::{Caller, CallerOrigin, RequestId, RequestKind};
use meshlock_wire::sites::calls::{CallAsk, CallReply, ForwardedCall, ForwardedCaller, ForwardedRequest};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tower_service::Service;

use super::messages::{self, BodyError};
use super::subject::{forwardable, is_audited, is_executed};
use crate::etcd::Etcd;
use crate::sessions::Sessions;

/// Maximum number of messages, and of their bytes, that wait to be looked at. What is beyond is lost, and repeated.
const MAX_QUEUED: usize = 4096;
const MAX_QUEUED_BYTES: usize = 16 << 20;

/// A call that was not repeated for this long is given up: its site has forgotten it. An answer is kept for as long.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

/// How often that is looked at.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of calls of one member that are executed at a time, or whose answers are kept, and of their bytes.
const MAX_CALLS: usize = 2048;
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// Number of calls of one member that are known to have been executed. Those before count as executed, too.
const MAX_SEEN: usize = 16_384;

/// The largest answer: a little of a message is not the answer's body.
const MAX_ANSWER: usize = MAX_CALL_BYTES - (16 << 10);

/// Attached to a request that another member has forwarded: who has forwarded it, and the client that it was made by.
#[derive(Clone, Debug)]
pub(crate) struct ForwardedBy {
    pub(crate) site: SiteName,
    pub(crate) caller: Caller,
}

/// Queues messages for the task that handles them.
struct Queue {
    messages: mpsc::Sender<(Member, CallMessage)>,
    bytes: Arc<AtomicUsize>,
}

impl CallListener for Queue {
    fn on_message(&self, from: Member, message: CallMessage) {
        let length = message.body_len();
        if self.bytes.fetch_add(length, Ordering::Relaxed) + length > MAX_QUEUED_BYTES
            || self.messages.try_send((from, message)).is_err()
        {
            self.bytes.fetch_sub(length, Ordering::Relaxed);
        }
    }
}

/// Handles messages about forwarded calls on the current runtime, and executes calls by `router`, until what is returned is dropped.
pub(crate) fn serve(sessions: &Sessions, router: Router) -> ServingCalls {
    let (messages, incoming) = mpsc::channel(MAX_QUEUED);
    let bytes = Arc::new(AtomicUsize::new(0));
    let executor =
        Executor { sessions: sessions.clone(), router, peers: BTreeMap::new(), running: JoinSet::new() };
    let task = tokio::spawn(executor.run(incoming, bytes.clone())).abort_handle();
    sessions.front().serve_calls(Some(Arc::new(Queue { messages, bytes })));
    ServingCalls { sessions: sessions.clone(), task }
}

/// Calls of other members are served until this is dropped.
pub(crate) struct ServingCalls {
    sessions: Sessions,
    task: AbortHandle,
}

impl Drop for ServingCalls {
    fn drop(&mut self) {
        self.sessions.front().serve_calls(None);
        self.task.abort();
    }
}

/// Executes the calls of all members.
struct Executor {
    sessions: Sessions,
    router: Router,
    peers: BTreeMap<SiteName, PeerCalls>,
    running: JoinSet<(Member, u64, CallReply)>,
}

/// The calls of one incarnation of a member.
struct PeerCalls {
    incarnation: Incarnation,
    /// Calls with smaller numbers have been executed, or never will be.
    floor: u64,
    seen: BTreeSet<u64>,
    calls: BTreeMap<u64, PeerCall>,
}

/// A call that is being executed, or whose answer is kept.
struct PeerCall {
    task: AbortHandle,
    heard: Instant,
    answer: Option<Vec<u8>>,
}

impl Drop for PeerCall {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl PeerCalls {
    fn new(incarnation: Incarnation) -> Self {
        PeerCalls { incarnation, floor: 0, seen: BTreeSet::new(), calls: BTreeMap::new() }
    }

    /// Notes that a call is to be executed. Returns whether this is the first time.
    fn is_first(&mut self, number: u64) -> bool {
        if number < self.floor || !self.seen.insert(number) {
            return false;
        }
        while self.seen.len() > MAX_SEEN {
            if let Some(first) = self.seen.pop_first() {
                self.floor = first + 1;
            }
        }
        number >= self.floor
    }

    fn kept_bytes(&self) -> usize {
        self.calls.values().filter_map(|call| call.answer.as_ref()).map(Vec::len).sum()
    }
}

impl Executor {
    async fn run(mut self, mut incoming: mpsc::Receiver<(Member, CallMessage)>, bytes: Arc<AtomicUsize>) {
        let mut checks = interval(CHECK_INTERVAL);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                message = incoming.recv() => {
                    let Some((from, message)) = message else { return };
                    bytes.fetch_sub(message.body_len(), Ordering::Relaxed);
                    self.on_message(from, message);
                }
                Some(done) = self.running.join_next() => {
                    // A task that was aborted has nothing to say.
                    if let Ok((from, number, reply)) = done {
                        self.on_done(&from, number, &reply);
                    }
                }
                _ = checks.tick() => self.forget_old(),
            }
        }
    }

    fn on_message(&mut self, from: Member, message: CallMessage) {
        let number = message.number;
        match message.part {
            CallPart::Answer(body) => self.sessions.on_call_answer(&from, number, &body),
            CallPart::Call(body) => self.on_call(from, number, body),
            CallPart::Ended => {
                if let Some(peer) =
                    self.peers.get_mut(&from.site).filter(|peer| peer.incarnation == from.incarnation)
                {
                    peer.calls.remove(&number);
                }
            }
        }
    }

    fn on_call(&mut self, from: Member, number: u64, body: Vec<u8>) {
        let peer = self.peers.entry(from.site.clone()).or_insert_with(|| PeerCalls::new(from.incarnation));
        if peer.incarnation != from.incarnation {
            // The node passes on only what the incarnation says that is a member.
            *peer = PeerCalls::new(from.incarnation);
        }
        if let Some(call) = peer.calls.get_mut(&number) {
            call.heard = Instant::now();
            let answer = call.answer.clone();
            let reply = answer.map_or_else(|| CallReply::Running.bytes(), Ok);
            return self.answer(&from, number, reply.unwrap_or_default());
        }
        if peer.calls.len() >= MAX_CALLS || peer.kept_bytes() >= MAX_ANSWER_BYTES {
            let why =
                format!("it executes {} calls of '{}' already; try again later", peer.calls.len(), from.site);
            return self.reply(&from, number, &CallReply::Refused(why));
        }
        if !peer.is_first(number) {
            let why = "it was executed before, and the answer is not kept any more".to_owned();
            return self.reply(&from, number, &CallReply::Refused(why));
        }
        let (sessions, router, by) = (self.sessions.clone(), self.router.clone(), from.clone());
        let task = self.running.spawn(async move {
            let reply = execute(&sessions, router, &by, &body).await;
            (by, number, reply)
        });
        peer.calls.insert(number, PeerCall { task, heard: Instant::now(), answer: None });
    }

    /// Keeps the answer of a call, and sends it.
    fn on_done(&mut self, from: &Member, number: u64, reply: &CallReply) {
        let peer = self.peers.get_mut(&from.site).filter(|peer| peer.incarnation == from.incarnation);
        let Some(call) = peer.and_then(|peer| peer.calls.get_mut(&number)) else { return };
        let bytes = reply.bytes().or_else(|error| CallReply::Refused(error.to_string()).bytes());
        let bytes = bytes.unwrap_or_default();
        (call.answer, call.heard) = (Some(bytes.clone()), Instant::now());
        self.answer(from, number, bytes);
    }

    fn reply(&self, to: &Member, number: u64, reply: &CallReply) {
        self.answer(to, number, reply.bytes().unwrap_or_default());
    }

    fn answer(&self, to: &Member, number: u64, body: Vec<u8>) {
        self.sessions.front().answer_call(to, CallMessage { number, part: CallPart::Answer(body) });
    }

    /// Gives up calls of which nothing is heard any more, and all of sites that are no members.
    fn forget_old(&mut self) {
        let members = self.sessions.front().other_members();
        let is_member = |site: &SiteName, peer: &PeerCalls| {
            members.iter().any(|member| member.site == *site && member.incarnation == peer.incarnation)
        };
        self.peers.retain(|site, peer| is_member(site, peer));
        for peer in self.peers.values_mut() {
            peer.calls.retain(|_, call| call.heard.elapsed() < FORGOTTEN_AFTER);
        }
    }
}

/// Executes a call of another member in the name of its client.
pub(crate) async fn execute(sessions: &Sessions, router: Router, by: &Member, body: &[u8]) -> CallReply {
    let ForwardedCall { caller, ask } = match ForwardedCall::read(body) {
        Ok(call) => call,
        Err(error) => return CallReply::Refused(error.to_string()),
    };
    // It is in nobody's name.
    if let CallAsk::Mirror { have } = ask {
        return sessions.answer_mirror(by, have).await;
    }
    let caller = match identify(sessions, &caller) {
        Ok(caller) => caller,
        Err(why) => return CallReply::Refused(why),
    };
    match ask {
        CallAsk::Find(subject) => CallReply::Found(sessions.has(&caller.principal, &subject)),
        CallAsk::Execute { subject, .. } if sessions.has(&caller.principal, &subject) == 0 => {
            CallReply::NotHere
        }
        CallAsk::Execute { subject, request } => {
            if changes_something(&request) {
                sessions.until_own(&subject).await;
                if sessions.has(&caller.principal, &subject) == 0 {
                    return CallReply::NotHere;
                }
            }
            run(sessions, router, &by.site, caller, request).await
        }
        CallAsk::Mirror { .. } => CallReply::NotHere,
        CallAsk::Look { key, first, seen } => {
            let front = sessions.front();
            let caller = match front.admit(caller, RequestKind::Ask) {
                Ok(caller) => caller,
                Err(error) => return CallReply::Refused(error.to_string()),
            };
            let etcd = Etcd::new(sessions.clone(), &front.cluster_name());
            match etcd.look(&caller, &key, first, seen).await {
                Ok(record) => CallReply::Key(record),
                Err(status) => CallReply::Refused(status.message().to_owned()),
            }
        }
    }
}

/// Returns whether a call does more than to renew a session, or to read.
fn changes_something(request: &ForwardedRequest) -> bool {
    let path = request.target.split('?').next().unwrap_or_default();
    let method = axum::http::Method::from_bytes(request.method.as_bytes()).unwrap_or_default();
    forwardable(path).is_some_and(|kind| is_audited(kind, &method, path))
}

/// Returns the client that another member names.
fn identify(sessions: &Sessions, caller: &ForwardedCaller) -> Result<Caller, String> {
    let principal = caller.principal().ok_or("that is not the name of a client")?;
    let front = sessions.front();
    if principal == Principal::Local && !front.node().trust().is_plain() {
        // Where connections are protected nobody is known by the machine it calls from.
        return Err("'local' is not a client here: this site's connections are protected".to_owned());
    }
    if front.is_revoked(&principal) {
        return Err(format!("'{principal}' is revoked"));
    }
    let (origin, request) = (CallerOrigin::Network(caller.address), RequestId::of(caller.request));
    // The site that was called has checked the certificate, and refuses it from when it is revoked.
    Ok(Caller { principal, origin, request, certificate: None })
}

/// Lets the handlers of this site answer a request, as if it had come to its port.
async fn run(
    sessions: &Sessions,
    mut router: Router,
    by: &SiteName,
    caller: Caller,
    request: ForwardedRequest,
) -> CallReply {
    let Some(mut request) = messages::incoming(request).filter(|request| is_executed(request.uri().path()))
    else {
        return CallReply::Refused("this is not a call that is forwarded".to_owned());
    };
    let path = request.uri().path();
    if forwardable(path).is_some_and(|kind| is_audited(kind, request.method(), path)) {
        let call: String = format!("{} {path}", request.method()).chars().take(200).collect();
        sessions.front().note_received(&caller, by, &call);
    }
    request.extensions_mut().insert(ForwardedBy { site: by.clone(), caller });
    let response = match router.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    sessions.meter().executed();
    let (parts, body) = response.into_parts();
    match messages::read_body::<BodyError>(body, MAX_ANSWER, |_| Ok(())).await {
        Ok((body, trailers)) => {
            CallReply::Done(messages::answer(parts.status, &parts.headers, &body, &trailers))
        }
        Err(BodyError::TooLarge) => {
            CallReply::Refused("it was executed, but its answer is too long to be forwarded".to_owned())
        }
        Err(BodyError::CutOff) => {
            CallReply::Refused("it was executed, but its answer was cut off".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use meshlock_testing::async_test;

    use super::*;
    use crate::sessions::tests::sessions;

    /// Calls of a member `b`, of which none has ended.
    fn executor(sessions: Sessions) -> Executor {
        Executor { sessions, router: Router::new(), peers: BTreeMap::new(), running: JoinSet::new() }
    }

    fn b(incarnation: u64) -> Member {
        Member { site: "b".parse().unwrap(), incarnation: Incarnation::new(incarnation) }
    }

    fn call(number: u64, part: CallPart) -> CallMessage {
        CallMessage { number, part }
    }

    #[test]
    fn a_member_has_a_limited_number_of_calls_and_those_of_its_former_incarnation_are_given_up() {
        async_test(async {
            let (_engine, sessions) = sessions();
            let mut executor = executor(sessions);
            for number in 1..=MAX_CALLS as u64 + 10 {
                executor.on_message(b(1), call(number, CallPart::Call(Vec::new())));
            }
            let peer = &executor.peers[&b(1).site];
            assert_eq!((peer.calls.len(), executor.running.len()), (MAX_CALLS, MAX_CALLS));
            executor.on_message(b(1), call(1, CallPart::Ended));
            executor.on_message(b(1), call(MAX_CALLS as u64 + 10, CallPart::Call(Vec::new())));
            let peer = &executor.peers[&b(1).site];
            assert!(
                peer.calls.contains_key(&(MAX_CALLS as u64 + 10)),
                "one that was refused was not executed"
            );
            executor.on_message(b(2), call(1, CallPart::Call(Vec::new())));
            assert_eq!(executor.peers[&b(2).site].calls.len(), 1);
            executor.forget_old();
            assert!(executor.peers.is_empty(), "it is no member");
        });
    }

    #[test]
    fn a_member_whose_answers_nobody_fetches_is_refused_before_they_fill_the_memory() {
        async_test(async {
            let (_engine, sessions) = sessions();
            let mut executor = executor(sessions);
            let length = 1 << 20;
            for number in 0..=(MAX_ANSWER_BYTES / length) as u64 {
                executor.on_message(b(1), call(number, CallPart::Call(Vec::new())));
                let peer = executor.peers.get_mut(&b(1).site).unwrap();
                if let Some(call) = peer.calls.get_mut(&number) {
                    call.answer = Some(vec![0; length]);
                }
            }
            let peer = &executor.peers[&b(1).site];
            assert_eq!((peer.kept_bytes(), peer.calls.len()), (MAX_ANSWER_BYTES, MAX_ANSWER_BYTES / length));
        });
    }

    #[test]
    fn messages_that_wait_are_limited_by_their_number_and_by_their_bytes() {
        let queue = |messages| Queue { messages, bytes: Arc::default() };
        let (messages, mut incoming) = mpsc::channel(MAX_QUEUED);
        let many = queue(messages);
        for number in 0..MAX_QUEUED as u64 + 5 {
            many.on_message(b(1), call(number, CallPart::Ended));
        }
        assert_eq!(incoming.len(), MAX_QUEUED);
        incoming.close();
        let (messages, incoming) = mpsc::channel(MAX_QUEUED);
        let (long, length) = (queue(messages), 1 << 20);
        for number in 0..20 {
            long.on_message(b(1), call(number, CallPart::Call(vec![0; length])));
        }
        assert_eq!(incoming.len(), MAX_QUEUED_BYTES / length);
        assert_eq!(long.bytes.load(Ordering::Relaxed), MAX_QUEUED_BYTES, "what was lost is not counted");
    }

    #[test]
    fn a_call_is_executed_once_however_often_it_is_repeated_and_however_late() {
        let mut peer = PeerCalls::new(Incarnation::new(1));
        assert!(peer.is_first(5) && !peer.is_first(5));
        assert!(peer.is_first(3), "calls may overtake each other");
        for number in 10..10 + 2 * MAX_SEEN as u64 {
            assert!(peer.is_first(number));
        }
        assert!(peer.seen.len() <= MAX_SEEN);
        assert!(!peer.is_first(5) && !peer.is_first(4), "what was forgotten counts as executed");
        assert!(!peer.is_first(10));
    }
}
