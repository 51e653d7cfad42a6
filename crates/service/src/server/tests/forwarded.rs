//! Calls that another member forwards: they are executed in their client's name, under this site's rules, and never forwarded further.

use meshlock_cluster::access::Principal;
use meshlock_cluster::names::{Incarnation, Member};
use meshlock_wire::sites::calls::{
    CallAsk, CallReply, CallSubject, ForwardedAnswer, ForwardedCall, ForwardedCaller, ForwardedRequest,
};
use serde_json::json;

use super::*;
use crate::forward::execute;

fn named(name: &str) -> Principal {
    Principal::Named(name.parse().unwrap())
}

fn request(method: &str, target: &str, body: &str) -> ForwardedRequest {
    let headers = vec![("content-type".to_owned(), b"application/json".to_vec())];
    ForwardedRequest {
        method: method.to_owned(),
        target: target.to_owned(),
        headers,
        body: body.as_bytes().to_vec(),
    }
}

/// Another member.
fn far() -> Member {
    Member { site: "far".parse().unwrap(), incarnation: Incarnation::new(1) }
}

impl TestServer {
    /// Executes what the site `far` asks in the name of a client.
    async fn forwarded(&self, caller: &Principal, ask: CallAsk) -> CallReply {
        let caller = ForwardedCaller::new(caller, ([10, 0, 0, 9], 4000).into(), 0xabc).unwrap();
        let bytes = ForwardedCall { caller, ask }.bytes().unwrap();
        let far = far();
        in_time("an answer", execute(&self.sessions, self.router.clone(), &far, &bytes)).await
    }

    async fn executed(&self, caller: &Principal, request: ForwardedRequest) -> CallReply {
        self.forwarded(caller, CallAsk::Execute { subject: CallSubject::Site, request }).await
    }
}

fn done(reply: CallReply) -> ForwardedAnswer {
    let CallReply::Done(answer) = reply else { panic!("{reply:?}") };
    answer
}

fn why(reply: CallReply) -> String {
    let CallReply::Refused(why) = reply else { panic!("{reply:?}") };
    why
}

#[test]
fn a_forwarded_call_is_executed_in_its_client_s_name_and_under_this_site_s_rules() {
    async_test(async {
        let server = TestServer::new(&[("ci", "*", &[Verb::Acquire])], &["ci", "guest"]);
        let opened = server.post("ci", "/v1/sessions", json!({})).await;
        let session = opened.body["session"].as_str().unwrap().to_owned();
        let lease = i64::from_str_radix(&session, 16).unwrap();
        let subject = CallSubject::Lease(lease);
        let found = server.forwarded(&named("ci"), CallAsk::Find(subject.clone())).await;
        assert_eq!(found, CallReply::Found(1));
        let other = CallAsk::Find(CallSubject::Lease(lease ^ 1));
        assert_eq!(server.forwarded(&named("ci"), other).await, CallReply::Found(0));
        let alive = || request("POST", &format!("/v1/sessions/{session}/keep-alive"), "");
        let ask = CallAsk::Execute { subject: subject.clone(), request: alive() };
        let answer = done(server.forwarded(&named("ci"), ask).await);
        assert_eq!(answer.status, 200);
        let id = answer.headers.iter().find(|(name, _)| name == "x-request-id").unwrap();
        assert_eq!(id.1, b"0000000000000abc", "both sites name the request alike");
        // Somebody without a right, and somebody with a right but not that session.
        let guest = done(server.executed(&named("guest"), alive()).await);
        assert_eq!(guest.status, 403);
        let server_of_two = TestServer::new(&[("*", "*", &[Verb::Acquire])], &["ci", "guest"]);
        assert_eq!(done(server_of_two.executed(&named("guest"), alive()).await).status, 404);
        assert_eq!(done(server.executed(&Principal::Anyone, alive()).await).status, 401);
        let elsewhere = CallAsk::Execute { subject: CallSubject::Lease(lease ^ 1), request: alive() };
        assert_eq!(server.forwarded(&named("ci"), elsewhere).await, CallReply::NotHere);
    });
}

#[test]
fn what_no_site_forwards_is_refused() {
    async_test(async {
        let server = TestServer::new(&[("ci", "*", &ALL)], &["ci"]);
        let ci = named("ci");
        for target in ["/v1/rules", "/v1/voters", "/metrics", "/meshlock.v1.Locks/SetRules", "/nothing", ""] {
            let refused = why(server.executed(&ci, request("POST", target, "{}")).await);
            assert!(refused.contains("not a call that is forwarded"), "{target}: {refused}");
        }
        let mut with_token = request("POST", "/v3/lease/revoke", "{}");
        with_token.headers.push(("authorization".to_owned(), b"Bearer x".to_vec()));
        assert!(why(server.executed(&ci, with_token).await).contains("not a call that is forwarded"));
        let long = "x".repeat(ApiLimits::default().request_bytes + 1);
        assert_eq!(done(server.executed(&ci, request("POST", "/v3/lease/revoke", &long)).await).status, 400);
        let far = far();
        let nonsense = execute(&server.sessions, server.router.clone(), &far, b"nonsense").await;
        assert!(why(nonsense).contains("not a call"));
    });
}

#[test]
fn what_was_forwarded_is_not_forwarded_again() {
    async_test(async {
        // A lease that names no session of this site: a call of this site's own client would go to its site.
        let server = TestServer::new(&[("ci", "*", &ALL)], &["ci"]);
        let body = r#"{"ID":"77"}"#;
        let answer = done(server.executed(&named("ci"), request("POST", "/v3/lease/revoke", body)).await);
        assert_eq!((answer.status, server.sessions.outgoing().waiting()), (404, 0));
    });
}
