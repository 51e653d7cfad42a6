//! What one member asks another on behalf of a client, and the answers: the bodies of
//! [`Content::Call`](meshlock_cluster::node::Content::Call) and
//! [`Content::CallAnswer`](meshlock_cluster::node::Content::CallAnswer).
//!
//! A call of a client is forwarded as the HTTP request that it is, whichever API it belongs to (a call of gRPC is a `POST`, too), so that the
//! other site executes exactly what it would execute at its own port. Credentials are not forwarded: the site that the client called has checked
//! them, and says who the client is.

use std::net::SocketAddr;

use meshlock_cluster::access::{ClientName, Principal};
use meshlock_cluster::names::LockName;
use meshlock_cluster::node::MAX_CALL_BYTES;
use meshlock_protocol::numbered;
use serde::{Deserialize, Serialize};

use super::mirror::{MirrorBoundsError, MirrorNews};

/// Maximum number of headers of a forwarded request or its answer.
pub const MAX_HEADERS: usize = 64;

/// A call of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardedCall {
    pub caller: ForwardedCaller,
    pub ask: CallAsk,
}

/// The client in whose name a member asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardedCaller {
    name: CallerName,
    /// The address from which it called.
    pub address: SocketAddr,
    /// The number of its request in the audit log.
    pub request: u64,
}

/// How a client is known. Users of a machine are not: they are known only there, and call over its socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallerName {
    Local,
    Anyone,
    Named(String),
}

numbered! { CallerName {
    0 => Local,
    1 => Anyone,
    2 => Named(value),
} }

impl ForwardedCaller {
    /// Returns `None` for a caller in whose name nothing is forwarded.
    pub fn new(principal: &Principal, address: SocketAddr, request: u64) -> Option<Self> {
        let name = match principal {
            Principal::Local => CallerName::Local,
            Principal::Anyone => CallerName::Anyone,
            Principal::Named(name) => CallerName::Named(name.as_str().to_owned()),
            Principal::User(_) => return None,
        };
        Some(ForwardedCaller { name, address, request })
    }

    /// Returns who it is. `None` if that is not a name of a client.
    pub fn principal(&self) -> Option<Principal> {
        Some(match &self.name {
            CallerName::Local => Principal::Local,
            CallerName::Anyone => Principal::Anyone,
            CallerName::Named(name) => Principal::Named(name.parse::<ClientName>().ok()?),
        })
    }
}

/// What a member asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallAsk {
    /// Whether the receiver has this.
    Find(CallSubject),
    /// Execute this request, if the receiver has what it is about.
    Execute { subject: CallSubject, request: ForwardedRequest },
    /// The state of a key of etcd's API, as soon as it is not `seen`; at once if this is the first look.
    Look { key: Vec<u8>, first: bool, seen: Option<KeyRecord> },
    /// What has changed of the receiver's sessions since the news of this version; 0 for everything. In the name of no client: the sender
    /// asks as the receiver's mirror.
    Mirror { have: u64 },
}

numbered! { CallAsk {
    0 => Find(value),
    1 => Execute { subject, request },
    2 => Look { key, first, seen },
    3 => Mirror { have },
} }

/// What a call is about: the site that has it executes the call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallSubject {
    /// A lease or session.
    Lease(i64),
    /// A key of etcd's API.
    Key(Vec<u8>),
    /// The caller's key of this lock that was created at this revision.
    Created { lock: LockName, revision: i64 },
    /// What the caller has of this lock.
    Lock(LockName),
    /// The receiver itself.
    Site,
}

numbered! { CallSubject {
    0 => Lease(value),
    1 => Key(value),
    2 => Created { lock, revision },
    3 => Lock(value),
    4 => Site,
} }

/// A request of HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardedRequest {
    pub method: String,
    /// Path and query.
    pub target: String,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
}

/// A key of etcd's API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    pub created: i64,
    pub modified: i64,
    pub version: i64,
    pub lease: i64,
    pub value: Vec<u8>,
}

/// A member's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallReply {
    /// It is being executed.
    Running,
    /// The receiver does not have what the call is about; nothing was done.
    NotHere,
    /// Nothing was done, and this is why.
    Refused(String),
    /// Whether the receiver has what was asked for, and how well it fits: 0 if it does not have it.
    Found(u8),
    /// The request was executed.
    Done(ForwardedAnswer),
    /// The state of a key; `None` if it does not exist.
    Key(Option<KeyRecord>),
    /// What the receiver's mirror does not know yet; nothing if nothing has changed for a while.
    Mirror(MirrorNews),
}

numbered! { CallReply {
    0 => Running,
    1 => NotHere,
    2 => Refused(value),
    3 => Found(value),
    4 => Done(value),
    5 => Key(value),
    6 => Mirror(value),
} }

/// An answer of HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardedAnswer {
    pub status: u16,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
    pub trailers: Vec<(String, Vec<u8>)>,
}

/// Why bytes are not a call or an answer to one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error("{bytes} bytes; at most {MAX_CALL_BYTES} are allowed")]
    TooLong { bytes: usize },
    #[error("not a call: {0}")]
    Malformed(#[from] postcard::Error),
    #[error("{0} headers; at most {MAX_HEADERS} are allowed")]
    TooManyHeaders(usize),
    #[error("the name of the client is not one")]
    Caller,
    #[error(transparent)]
    Mirror(#[from] MirrorBoundsError),
}

impl ForwardedCall {
    /// Returns its bytes.
    pub fn bytes(&self) -> Result<Vec<u8>, CallError> {
        written(self)
    }

    /// Reads it from bytes; all of them must belong to it.
    pub fn read(bytes: &[u8]) -> Result<Self, CallError> {
        let call: Self = read(bytes)?;
        if call.caller.principal().is_none() {
            return Err(CallError::Caller);
        }
        if let CallAsk::Execute { request, .. } = &call.ask {
            check_headers(&[&request.headers])?;
        }
        Ok(call)
    }
}

impl CallReply {
    /// Returns its bytes.
    pub fn bytes(&self) -> Result<Vec<u8>, CallError> {
        written(self)
    }

    /// Reads it from bytes; all of them must belong to it.
    pub fn read(bytes: &[u8]) -> Result<Self, CallError> {
        let reply: Self = read(bytes)?;
        if let CallReply::Done(answer) = &reply {
            check_headers(&[&answer.headers, &answer.trailers])?;
        }
        if let CallReply::Mirror(news) = &reply {
            news.check()?;
        }
        Ok(reply)
    }
}

fn check_headers(all: &[&Vec<(String, Vec<u8>)>]) -> Result<(), CallError> {
    let many = all.iter().map(|headers| headers.len()).find(|number| *number > MAX_HEADERS);
    many.map_or(Ok(()), |number| Err(CallError::TooManyHeaders(number)))
}

fn written<T: Serialize>(value: &T) -> Result<Vec<u8>, CallError> {
    let bytes = postcard::to_stdvec(value).expect("a call is plain data");
    check_length(&bytes).map(|()| bytes)
}

fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, CallError> {
    check_length(bytes)?;
    let (value, rest) = postcard::take_from_bytes(bytes)?;
    if rest.is_empty() { Ok(value) } else { Err(postcard::Error::DeserializeBadEncoding.into()) }
}

fn check_length(bytes: &[u8]) -> Result<(), CallError> {
    if bytes.len() > MAX_CALL_BYTES { Err(CallError::TooLong { bytes: bytes.len() }) } else { Ok(()) }
}

/// Checks that a call or an answer is read as it was written, or refused.
#[cfg(feature = "fuzz")]
pub(crate) fn fuzz(bytes: &[u8]) {
    if let Ok(call) = ForwardedCall::read(bytes) {
        assert_eq!(ForwardedCall::read(&call.bytes().expect("it was as long")), Ok(call));
    }
    if let Ok(reply) = CallReply::read(bytes) {
        assert_eq!(CallReply::read(&reply.bytes().expect("it was as long")), Ok(reply));
    }
}

/// Returns calls and answers, for tests and fuzzers.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn models() -> Vec<Vec<u8>> {
    let lock = || "jobs".parse::<LockName>().expect("a name");
    let named = Principal::Named("ci".parse().expect("a name"));
    let caller = |principal: &Principal| {
        ForwardedCaller::new(principal, ([10, 0, 0, 1], 4000).into(), 9).expect("known everywhere")
    };
    let headers = || vec![("content-type".to_owned(), b"application/grpc".to_vec())];
    let request = ForwardedRequest {
        method: "POST".to_owned(),
        target: "/v3lockpb.Lock/Lock".to_owned(),
        headers: headers(),
        body: vec![0, 255],
    };
    let key = KeyRecord { created: 7, modified: 8, version: 1, lease: 300, value: vec![1] };
    let asks = [
        (Principal::Local, CallAsk::Find(CallSubject::Lease(300))),
        (Principal::Anyone, CallAsk::Find(CallSubject::Created { lock: lock(), revision: 7 })),
        (named.clone(), CallAsk::Find(CallSubject::Lock(lock()))),
        (named.clone(), CallAsk::Execute { subject: CallSubject::Key(b"jobs/4d".to_vec()), request }),
        (named, CallAsk::Look { key: b"jobs/4d".to_vec(), first: false, seen: Some(key.clone()) }),
        (Principal::Anyone, CallAsk::Mirror { have: 300 }),
    ];
    let calls = asks.map(|(principal, ask)| ForwardedCall { caller: caller(&principal), ask }.bytes());
    let answer = ForwardedAnswer { status: 200, headers: headers(), body: vec![1, 2], trailers: headers() };
    let replies = [
        CallReply::Running,
        CallReply::NotHere,
        CallReply::Refused("why".to_owned()),
        CallReply::Found(2),
        CallReply::Done(answer),
        CallReply::Key(Some(key)),
        CallReply::Mirror(super::mirror::model()),
    ];
    let replies = replies.map(|reply| reply.bytes());
    calls.into_iter().chain(replies).map(|bytes| bytes.expect("models are short")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_as_it_was_written_and_nothing_else_is() {
        for mut bytes in models() {
            let call = ForwardedCall::read(&bytes).ok().map(|call| call.bytes());
            let reply = CallReply::read(&bytes).ok().map(|reply| reply.bytes());
            assert!(call == Some(Ok(bytes.clone())) || reply == Some(Ok(bytes.clone())), "{bytes:?}");
            bytes.push(0);
            assert!(call.is_none() || ForwardedCall::read(&bytes).is_err());
            assert!(reply.is_none() || CallReply::read(&bytes).is_err());
        }
        let long = vec![0; MAX_CALL_BYTES + 1];
        assert_eq!(CallReply::read(&long), Err(CallError::TooLong { bytes: long.len() }));
    }

    #[test]
    fn nothing_is_forwarded_for_users_of_a_machine_or_under_a_name_that_is_none() {
        let address = ([10, 0, 0, 1], 4000).into();
        assert_eq!(ForwardedCaller::new(&Principal::User(1000), address, 1), None);
        let caller = ForwardedCaller { name: CallerName::Named(String::new()), address, request: 1 };
        let call = ForwardedCall { caller, ask: CallAsk::Find(CallSubject::Site) };
        assert_eq!(ForwardedCall::read(&call.bytes().unwrap()), Err(CallError::Caller));
    }

    #[test]
    fn headers_are_limited() {
        let many = vec![("a".to_owned(), Vec::new()); MAX_HEADERS + 1];
        let answer = ForwardedAnswer { status: 200, headers: Vec::new(), body: Vec::new(), trailers: many };
        let bytes = CallReply::Done(answer).bytes().unwrap();
        assert_eq!(CallReply::read(&bytes), Err(CallError::TooManyHeaders(MAX_HEADERS + 1)));
    }
}
