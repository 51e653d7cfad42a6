//! The bytes of forwarded calls and their answers.

use meshlock_cluster::access::Principal;
use meshlock_wire::sites::calls::{
    CallAsk, CallReply, CallSubject, CallerName, ForwardedAnswer, ForwardedCall, ForwardedCaller,
    ForwardedRequest, KeyRecord,
};
use meshlock_wire::sites::mirror::{
    MirrorNews, MirroredConsul, MirroredContent, MirroredKey, MirroredSession,
};

use super::{MESSAGE_ADVICE, Sample, compare, covers, label};

fn call(principal: &Principal, ask: CallAsk) -> ForwardedCall {
    let address = ([10, 0, 0, 1], 4000).into();
    ForwardedCall { caller: ForwardedCaller::new(principal, address, 300).expect("known everywhere"), ask }
}

fn calls() -> Vec<(String, ForwardedCall)> {
    let lock = || "jobs".parse().expect("a name");
    let record = KeyRecord { created: 7, modified: 300, version: 1, lease: 77, value: b"v".to_vec() };
    let request = ForwardedRequest {
        method: "PUT".to_owned(),
        target: "/v1/kv/jobs?acquire=x".to_owned(),
        headers: vec![("content-type".to_owned(), b"text/plain".to_vec())],
        body: b"v".to_vec(),
    };
    let subjects = [
        CallSubject::Lease(300),
        CallSubject::Key(b"jobs/4d".to_vec()),
        CallSubject::Created { lock: lock(), revision: 300 },
        CallSubject::Lock(lock()),
        CallSubject::Site,
    ];
    let found = subjects
        .clone()
        .map(|subject| (label("CallSubject", &subject), call(&Principal::Local, CallAsk::Find(subject))));
    let asks = [
        CallAsk::Find(CallSubject::Site),
        CallAsk::Execute { subject: CallSubject::Lease(300), request },
        CallAsk::Look { key: b"jobs/4d".to_vec(), first: true, seen: Some(record) },
        CallAsk::Mirror { have: 300 },
    ];
    let asked = asks.map(|ask| (label("CallAsk", &ask), call(&Principal::Local, ask)));
    let names = [
        (CallerName::Local, Principal::Local),
        (CallerName::Anyone, Principal::Anyone),
        (CallerName::Named("ci".to_owned()), Principal::Named("ci".parse().expect("a name"))),
    ];
    let names = names.map(|(name, principal)| {
        (label("CallerName", &name), call(&principal, CallAsk::Find(CallSubject::Site)))
    });
    found.into_iter().chain(asked).chain(names).collect()
}

fn news() -> MirrorNews {
    let content = MirroredContent {
        lock: "jobs".parse().expect("a name"),
        is_held: true,
        is_permit: false,
        key: "jobs/.lock".to_owned(),
        flags: 300,
        value: b"v".to_vec(),
    };
    let consul = MirroredConsul {
        name: "n".to_owned(),
        deletes: false,
        lock_delay: 15_000_000,
        ttl: "10s".to_owned(),
        contents: vec![content],
    };
    let key = MirroredKey {
        name: b"jobs/4d".to_vec(),
        value: b"v".to_vec(),
        label: "who".to_owned(),
        created: 7,
        modified: 300,
        version: 1,
        proof: b"proof".to_vec(),
    };
    let session = MirroredSession {
        lease: 77,
        owner: call(&Principal::Local, CallAsk::Mirror { have: 0 }).caller,
        label: Some("who".to_owned()),
        lasts: 60_000_000,
        delay: 1_400_000,
        keys: vec![key],
        consul: Some(consul),
    };
    MirrorNews { version: 300, is_first: true, leaves: false, ended: vec![300], changed: vec![session] }
}

fn replies() -> Vec<(String, CallReply)> {
    let headers = |name: &str| vec![(name.to_owned(), b"0".to_vec())];
    let answer = ForwardedAnswer {
        status: 200,
        headers: headers("x-consul-index"),
        body: b"true".to_vec(),
        trailers: headers("grpc-status"),
    };
    let record = KeyRecord { created: 7, modified: 300, version: 1, lease: 77, value: b"v".to_vec() };
    let replies = [
        CallReply::Running,
        CallReply::NotHere,
        CallReply::Refused("why".to_owned()),
        CallReply::Found(2),
        CallReply::Done(answer),
        CallReply::Key(Some(record)),
        CallReply::Mirror(news()),
    ];
    replies.map(|reply| (label("CallReply", &reply), reply)).into_iter().collect()
}

#[test]
fn every_kind_of_forwarded_call_has_its_bytes() {
    let (calls, replies) = (calls(), replies());
    let names = || calls.iter().map(|(name, _)| name.as_str());
    covers::<CallSubject>("CallSubject", names());
    covers::<CallAsk>("CallAsk", names());
    covers::<CallerName>("CallerName", names());
    covers::<CallReply>("CallReply", replies.iter().map(|(name, _)| name.as_str()));
    let mut samples: Vec<Sample> = Vec::new();
    samples.extend(
        calls
            .into_iter()
            .map(|(name, call)| Sample::new(name, call.bytes().expect("short"), call, ForwardedCall::read)),
    );
    samples.extend(
        replies
            .into_iter()
            .map(|(name, reply)| Sample::new(name, reply.bytes().expect("short"), reply, CallReply::read)),
    );
    compare("calls.txt", MESSAGE_ADVICE, &samples);
}
