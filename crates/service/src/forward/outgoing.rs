//! Calls of this site's clients at other members.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use meshlock_cluster::access::Principal;
use meshlock_cluster::names::{Member, SiteName};
use meshlock_cluster::node::{CallMessage, CallPart};
use meshlock_host::front::{Admitted, ForwardPath, NotForwarded};
use meshlock_host::gate::CallerOrigin;
use meshlock_wire::sites::calls::{
    CallAsk, CallError, CallReply, CallSubject, ForwardedAnswer, ForwardedCall, ForwardedCaller,
    ForwardedRequest,
};
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::{Code, Status};

use super::messages;
use crate::own::api_error;
use crate::sessions::{SessionPlace, Sessions};

/// A call is repeated after this time without a word about it.
const REPEAT_INTERVAL: Duration = Duration::from_secs(1);

/// After this many repetitions without a word the other site counts as cut off.
const MAX_SILENT: u32 = 5;

/// Maximum number of calls that are forwarded at a time: in all, to one site, and for one principal.
const MAX_CALLS: usize = 4096;
const MAX_CALLS_TO: usize = 2048;
const MAX_CALLS_OF: usize = 1024;

/// Longer targets are cut in the audit log.
pub(super) const MAX_AUDITED: usize = 200;

/// Why a call was not forwarded, or not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ForwardError {
    #[error(transparent)]
    NotForwarded(#[from] NotForwarded),
    #[error(
        "'{of}' waits for {max} calls at other sites, the limit of one client here; wait for some of them"
    )]
    TooManyOf { of: Principal, max: usize },
    #[error(
        "this site waits for {0} calls at other sites, which is its limit; try again later, or at another site"
    )]
    TooMany(usize),
    #[error("a call that is forwarded to another site has at most 256 KiB, and this one is longer: {0}")]
    TooLarge(#[from] CallError),
    #[error("nothing is forwarded in the name of '{0}'")]
    Caller(Principal),
    #[error(
        "the site '{0}', which has the session, does not answer; whether the call was executed is not known"
    )]
    Silent(SiteName),
    #[error("the site '{site}', which has the session, refuses the call: {why}")]
    Refused { site: SiteName, why: String },
    #[error("no site that answers has the session, and {0:?} do not answer; try again")]
    Unknown(Vec<SiteName>),
}

impl From<ForwardError> for Status {
    fn from(error: ForwardError) -> Status {
        let (code, grpc) = match &error {
            ForwardError::TooManyOf { .. } | ForwardError::TooMany(_) => {
                ("too_many", Code::ResourceExhausted)
            }
            ForwardError::TooLarge(_) => ("too_large", Code::OutOfRange),
            ForwardError::Caller(_) => ("denied", Code::PermissionDenied),
            ForwardError::NotForwarded(_)
            | ForwardError::Silent(_)
            | ForwardError::Refused { .. }
            | ForwardError::Unknown(_) => ("unavailable", Code::Unavailable),
        };
        api_error(code, grpc, format!("meshlock: {error}"))
    }
}

/// Returns whether a call may be executed by another site than the one that it was meant for: it was not sent, or it only renews or reads.
fn may_ask_again(why: &NotForwarded, audited: Option<&str>) -> bool {
    match why {
        NotForwarded::NotAMember(_) => true,
        NotForwarded::Over(_) => audited.is_none(),
        NotForwarded::OlderVersion(_) => false,
    }
}

/// The calls that wait for an answer of another member.
#[derive(Debug, Default)]
pub(crate) struct Outgoing(Mutex<OutgoingCalls>);

#[derive(Debug, Default)]
struct OutgoingCalls {
    /// The number of the last call. No number is used twice.
    last: u64,
    waiting: BTreeMap<u64, WaitingCall>,
}

#[derive(Debug)]
struct WaitingCall {
    to: Member,
    /// The client in whose name it is; none for what this site asks itself.
    by: Option<Principal>,
    replies: mpsc::Sender<CallReply>,
}

impl Outgoing {
    fn calls(&self) -> MutexGuard<'_, OutgoingCalls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of calls that wait for an answer.
    pub(crate) fn waiting(&self) -> usize {
        self.calls().waiting.len()
    }

    fn begin(
        &self,
        to: &Member,
        by: Option<&Principal>,
    ) -> Result<(u64, mpsc::Receiver<CallReply>), ForwardError> {
        let mut calls = self.calls();
        let count = |is_meant: &dyn Fn(&WaitingCall) -> bool| {
            calls.waiting.values().filter(|call| is_meant(call)).count()
        };
        if calls.waiting.len() >= MAX_CALLS || count(&|call| call.to.site == to.site) >= MAX_CALLS_TO {
            return Err(ForwardError::TooMany(calls.waiting.len()));
        }
        if let Some(of) = by.filter(|by| count(&|call| call.by.as_ref() == Some(*by)) >= MAX_CALLS_OF) {
            return Err(ForwardError::TooManyOf { of: of.clone(), max: MAX_CALLS_OF });
        }
        // Room for the answer and for a word that it is still being executed.
        let (replies, answers) = mpsc::channel(2);
        calls.last += 1;
        let number = calls.last;
        calls.waiting.insert(number, WaitingCall { to: to.clone(), by: by.cloned(), replies });
        Ok((number, answers))
    }

    /// Hands an answer to the call that waits for it. Returns whether there is one.
    fn on_answer(&self, from: &Member, number: u64, body: &[u8]) -> bool {
        let replies = {
            let calls = self.calls();
            let call = calls.waiting.get(&number).filter(|call| call.to == *from);
            call.map(|call| call.replies.clone())
        };
        let Some(replies) = replies else { return false };
        let reply = match body {
            // It serves no clients, and has no sessions.
            [] => CallReply::NotHere,
            body => CallReply::read(body)
                .unwrap_or_else(|error| CallReply::Refused(format!("its answer cannot be read: {error}"))),
        };
        // If there is no room, the same has been said already, and the call is repeated.
        let _ = replies.try_send(reply);
        true
    }
}

/// A call in progress. When it is dropped, the other site is told that no answer is wanted any more.
struct CallInProgress<'a> {
    sessions: &'a Sessions,
    path: &'a ForwardPath,
    number: u64,
}

impl Drop for CallInProgress<'_> {
    fn drop(&mut self) {
        self.sessions.outgoing().calls().waiting.remove(&self.number);
        let ended = CallMessage { number: self.number, part: CallPart::Ended };
        // If that is not possible, the other site notices by itself.
        let _ = self.sessions.front().send_call(self.path, ended);
    }
}

impl Sessions {
    /// Handles an answer of another member.
    pub(super) fn on_call_answer(&self, from: &Member, number: u64, body: &[u8]) {
        if !self.outgoing().on_answer(from, number, body) {
            self.front().answer_call(from, CallMessage { number, part: CallPart::Ended });
        }
    }

    /// Asks another member in the caller's name, and waits for the answer as long as the member is heard of.
    pub(crate) async fn forward(
        &self,
        to: &SiteName,
        caller: &Admitted,
        ask: CallAsk,
    ) -> Result<CallReply, ForwardError> {
        let unknown = || ForwardError::Caller(caller.principal.clone());
        let CallerOrigin::Network(address) = caller.origin else { return Err(unknown()) };
        let named = ForwardedCaller::new(&caller.principal, address, caller.request.number());
        let body = ForwardedCall { caller: named.ok_or_else(unknown)?, ask }.bytes()?;
        self.send_until_answered(to, Some(&caller.principal), body).await
    }

    /// Asks another member something in the name of no client, and waits for the answer as long as the member is heard of.
    pub(crate) async fn ask_member(&self, to: &SiteName, ask: CallAsk) -> Result<CallReply, ForwardError> {
        let nobody = ForwardedCaller::new(&Principal::Anyone, ([0, 0, 0, 0], 0).into(), 0);
        let caller = nobody.ok_or(ForwardError::Caller(Principal::Anyone))?;
        let body = ForwardedCall { caller, ask }.bytes()?;
        self.send_until_answered(to, None, body).await
    }

    async fn send_until_answered(
        &self,
        to: &SiteName,
        by: Option<&Principal>,
        body: Vec<u8>,
    ) -> Result<CallReply, ForwardError> {
        let path = self.front().path_to(to)?;
        let (number, mut answers) = self.outgoing().begin(&path.to, by)?;
        let _call = CallInProgress { sessions: self, path: &path, number };
        let mut silent = 0;
        loop {
            let part = CallPart::Call(body.clone());
            self.front().send_call(&path, CallMessage { number, part })?;
            loop {
                match timeout(REPEAT_INTERVAL, answers.recv()).await {
                    Ok(Some(CallReply::Running)) => silent = 0,
                    Ok(Some(reply)) => return Ok(reply),
                    Ok(None) => return Err(ForwardError::Silent(to.clone())),
                    Err(_) => break,
                }
            }
            silent += 1;
            if silent > MAX_SILENT {
                return Err(ForwardError::Silent(to.clone()));
            }
        }
    }

    /// Lets the site that has `subject` execute a request. Returns `None` if that is this site, or if nobody has it. The audit log names
    /// the call as `audited`, if it is to have a line.
    pub(super) async fn dispatch(
        &self,
        caller: &Admitted,
        (subject, at): (&CallSubject, Option<SiteName>),
        request: &ForwardedRequest,
        audited: Option<&str>,
    ) -> Result<Option<ForwardedAnswer>, ForwardError> {
        let mut place = match at {
            Some(site) => SessionPlace::At(site),
            None => self.place_of(caller, subject).await,
        };
        let mut is_second = false;
        loop {
            let site = match place {
                SessionPlace::Here => {
                    if audited.is_some() {
                        self.until_own(subject).await;
                    }
                    return Ok(None);
                }
                SessionPlace::Nowhere => return Ok(None),
                SessionPlace::Unknown(missing) => return Err(ForwardError::Unknown(missing)),
                SessionPlace::At(site) => site,
            };
            if let Some(call) = audited {
                self.front().note_forwarded(caller, &site, call);
            }
            let ask = CallAsk::Execute { subject: subject.clone(), request: request.clone() };
            let reply = self.forward_or_stand_in(&site, caller, subject, ask).await;
            self.meter().forwarded(reply.is_ok());
            match reply {
                // The site is gone: another one may have what it had.
                Err(ForwardError::NotForwarded(why)) if !is_second && may_ask_again(&why, audited) => {
                    self.forget_place(subject);
                    place = self.ask_members(caller, subject).await;
                    is_second = true;
                }
                Err(error) => return Err(error),
                Ok(None) => place = SessionPlace::Here,
                Ok(Some(CallReply::Done(answer))) => return Ok(Some(answer)),
                Ok(Some(CallReply::NotHere)) if is_second => return Ok(None),
                Ok(Some(CallReply::NotHere)) => {
                    self.forget_place(subject);
                    place = self.ask_members(caller, subject).await;
                    is_second = true;
                }
                Ok(Some(CallReply::Refused(why))) => return Err(ForwardError::Refused { site, why }),
                Ok(Some(
                    CallReply::Running | CallReply::Found(_) | CallReply::Key(_) | CallReply::Mirror(_),
                )) => {
                    return Err(ForwardError::Refused {
                        site,
                        why: "its answer is for another call".to_owned(),
                    });
                }
            }
        }
    }

    /// Lets the site that has a lease execute a call of gRPC with one message. Returns `None` if that is this site, or if nobody has it.
    pub(crate) async fn at_lease<A: Message + Default>(
        &self,
        caller: &Admitted,
        lease: i64,
        path: &str,
        message: &impl Message,
    ) -> Result<Option<A>, Status> {
        let request = messages::grpc_request(path, message);
        let answer = self.dispatch(caller, (&CallSubject::Lease(lease), None), &request, None).await?;
        answer.map(|answer| messages::grpc_answer(&answer)).transpose()
    }

    /// Lets another member execute a call of gRPC with one message. Returns `None` if it serves no clients.
    pub(crate) async fn at_site<A: Message + Default>(
        &self,
        caller: &Admitted,
        site: &SiteName,
        path: &str,
        message: &impl Message,
    ) -> Result<Option<A>, Status> {
        let answer = self.ask_site(caller, site, messages::grpc_request(path, message)).await?;
        answer.map(|answer| messages::grpc_answer(&answer)).transpose()
    }

    /// Lets another member execute a GET. Returns `None` if it serves no clients.
    pub(crate) async fn get_at_site(
        &self,
        caller: &Admitted,
        site: &SiteName,
        target: &str,
    ) -> Result<Option<ForwardedAnswer>, Status> {
        Ok(self.ask_site(caller, site, bare("GET", target, &[])).await?)
    }

    /// Lets another member execute a DELETE for what it has itself. Returns `None` if it serves no clients.
    pub(crate) async fn delete_at_site(
        &self,
        caller: &Admitted,
        site: &SiteName,
        target: &str,
    ) -> Result<Option<ForwardedAnswer>, Status> {
        self.front().note_forwarded(caller, site, &audited("DELETE", target));
        Ok(self.ask_site(caller, site, bare("DELETE", target, &[])).await?)
    }

    async fn ask_site(
        &self,
        caller: &Admitted,
        site: &SiteName,
        request: ForwardedRequest,
    ) -> Result<Option<ForwardedAnswer>, ForwardError> {
        let reply =
            self.forward(site, caller, CallAsk::Execute { subject: CallSubject::Site, request }).await;
        self.meter().forwarded(reply.is_ok());
        let why = match reply? {
            CallReply::Done(answer) => return Ok(Some(answer)),
            CallReply::NotHere => return Ok(None),
            CallReply::Refused(why) => why,
            CallReply::Running | CallReply::Found(_) | CallReply::Key(_) | CallReply::Mirror(_) => {
                "its answer is for another call".to_owned()
            }
        };
        Err(ForwardError::Refused { site: site.clone(), why })
    }

    /// Lets the site that has a lease execute a PUT of Consul's API. Returns `None` if that is this site, or if nobody has it.
    pub(crate) async fn put_at_lease(
        &self,
        caller: &Admitted,
        lease: i64,
        target: &str,
        body: &[u8],
    ) -> Result<Option<ForwardedAnswer>, Status> {
        let subject = (&CallSubject::Lease(lease), None);
        let call = audited("PUT", target);
        Ok(self.dispatch(caller, subject, &bare("PUT", target, body), Some(&call)).await?)
    }
}

/// Builds a request without headers.
fn bare(method: &str, target: &str, body: &[u8]) -> ForwardedRequest {
    ForwardedRequest {
        method: method.to_owned(),
        target: target.to_owned(),
        headers: Vec::new(),
        body: body.to_vec(),
    }
}

/// Returns how the audit log names a call.
fn audited(method: &str, target: &str) -> String {
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    format!("{method} {path}").chars().take(MAX_AUDITED).collect()
}

#[cfg(test)]
mod tests {
    use meshlock_cluster::names::Incarnation;

    use super::*;

    fn member(site: &str) -> Member {
        Member { site: site.parse().unwrap(), incarnation: Incarnation::new(1) }
    }

    fn client(name: &str) -> Principal {
        Principal::Named(name.parse().unwrap())
    }

    #[test]
    fn calls_are_limited_for_each_client_for_each_site_and_in_all() {
        let outgoing = Outgoing::default();
        let mut open = Vec::new();
        let mut begin = |site: &str, by: &str| {
            let begun = outgoing.begin(&member(site), Some(&client(by)));
            begun.map(|(number, answers)| open.push((number, answers)))
        };
        for _ in 0..MAX_CALLS_OF {
            begin("b", "greedy").unwrap();
        }
        let too_many_of = ForwardError::TooManyOf { of: client("greedy"), max: MAX_CALLS_OF };
        assert_eq!(begin("c", "greedy"), Err(too_many_of), "at all sites together");
        for _ in MAX_CALLS_OF..MAX_CALLS_TO {
            begin("b", "second").unwrap();
        }
        assert_eq!(
            begin("b", "third"),
            Err(ForwardError::TooMany(MAX_CALLS_TO)),
            "this site is served no more"
        );
        for at in MAX_CALLS_TO..MAX_CALLS {
            begin("c", &format!("client-{}", at % 3)).unwrap();
        }
        assert_eq!(begin("d", "third"), Err(ForwardError::TooMany(MAX_CALLS)));
        assert_eq!(outgoing.waiting(), MAX_CALLS);
        let (number, _) = open[0];
        outgoing.calls().waiting.remove(&number);
        assert!(outgoing.begin(&member("d"), Some(&client("greedy"))).is_ok(), "one of its calls has ended");
    }

    #[test]
    fn an_answer_counts_only_from_the_member_that_was_asked_and_only_for_a_call_that_waits() {
        let outgoing = Outgoing::default();
        let (number, mut answers) = outgoing.begin(&member("b"), None).unwrap();
        let found = CallReply::Found(1).bytes().unwrap();
        let restarted = Member { incarnation: Incarnation::new(2), ..member("b") };
        for (from, number) in [(member("c"), number), (restarted, number), (member("b"), number + 1)] {
            assert!(!outgoing.on_answer(&from, number, &found), "{from:?} {number}");
        }
        assert!(answers.try_recv().is_err());
        assert!(outgoing.on_answer(&member("b"), number, &found));
        assert_eq!(answers.try_recv(), Ok(CallReply::Found(1)));
        assert!(outgoing.on_answer(&member("b"), number, b"rubbish"));
        assert!(matches!(answers.try_recv(), Ok(CallReply::Refused(_))));
        // However often it repeats itself, two answers are kept.
        for _ in 0..1000 {
            assert!(outgoing.on_answer(&member("b"), number, &found));
        }
        assert_eq!((answers.len(), answers.max_capacity()), (2, 2));
    }
}
