//! Each half alone, and what crosses between them.

use super::*;
use crate::world::{enter, send};
use crate::{Clock, Effect, Outbox, Phase, SiteId, SiteSet, Timestamp};

/// A step of a half that lives at a site of its own, so that all it says goes to others.
fn step(call: impl FnOnce(&mut Post<'_>)) -> Vec<Effect<Message>> {
    let mut out = Outbox::new();
    let mut post = Post::new(SiteId::new(9), Clock::at(7), &mut out);
    call(&mut post);
    assert_eq!(post.take_home(), None);
    out.drain().collect()
}

fn at(clock: u64, site: SiteId) -> Timestamp {
    Timestamp::new(Clock::at(clock), site)
}

fn reply(to: u64, turn: u32) -> Message {
    Message::Reply { to: Clock::at(to), turn: Turn::at(turn), clock: Clock::at(7) }
}

fn inquire(to: u64, turn: u32) -> Message {
    Message::Inquire { to: Clock::at(to), turn: Turn::at(turn) }
}

fn failed(to: u64) -> Message {
    Message::Failed { to: Clock::at(to) }
}

fn yields(request: u64, turn: u32) -> Message {
    Message::Yield { request: Clock::at(request), turn: Turn::at(turn) }
}

/// A step that must be accepted.
fn accept(call: impl FnOnce(&mut Post<'_>) -> Judged) -> Vec<Effect<Message>> {
    step(|post| assert_eq!(call(post), Ok(())))
}

/// A step that must be refused, and send nothing.
fn refuse(call: impl FnOnce(&mut Post<'_>) -> Judged) -> &'static str {
    let mut why = "";
    assert_eq!(step(|post| why = call(post).expect_err("no correct peer says so")), []);
    why
}

#[test]
fn an_arbiter_inquires_once_and_permits_the_earliest_after_the_yield() {
    let [s1, s2, s3] = SiteId::first();
    let mut arbiter = Arbiter::new(DeadlockRules::Yield, None);
    assert_eq!(accept(|post| arbiter.on_request(at(5, s3), post)), [send(s3, reply(5, 1))]);
    assert_eq!(accept(|post| arbiter.on_request(at(4, s2), post)), [send(s3, inquire(5, 1))]);
    assert_eq!(accept(|post| arbiter.on_request(at(3, s1), post)), []);
    // Not "the pending request on behalf of which the INQUIRE was sent": an earlier one has come since.
    assert_eq!(accept(|post| arbiter.on_yield(at(5, s3), Turn::at(1), post)), [send(s1, reply(3, 1))]);
    assert_eq!(accept(|post| arbiter.on_release(at(3, s1), post)), [send(s2, reply(4, 1))]);
    assert_eq!(accept(|post| arbiter.on_release(at(4, s2), post)), [send(s3, reply(5, 2))]);
    assert_eq!(accept(|post| arbiter.on_release(at(5, s3), post)), []);
    assert!(arbiter.is_free());
}

#[test]
fn under_fail_whoever_has_an_earlier_request_before_it_is_told_once() {
    let [s1, s2, s3, s4] = SiteId::first();
    let mut arbiter = Arbiter::new(DeadlockRules::Fail, None);
    assert_eq!(accept(|post| arbiter.on_request(at(5, s3), post)), [send(s3, reply(5, 1))]);
    assert_eq!(accept(|post| arbiter.on_request(at(6, s4), post)), [send(s4, failed(6))]);
    assert_eq!(accept(|post| arbiter.on_request(at(4, s2), post)), [send(s3, inquire(5, 1))]);
    // The newcomer precedes the one for which the arbiter has inquired.
    assert_eq!(accept(|post| arbiter.on_request(at(3, s1), post)), [send(s2, failed(4))]);
    assert_eq!(accept(|post| arbiter.on_yield(at(5, s3), Turn::at(1), post)), [send(s1, reply(3, 1))]);
}

#[test]
fn a_request_that_overtakes_the_release_before_it_stands_for_it() {
    let [s1, s2] = SiteId::first();
    let mut arbiter = Arbiter::new(DeadlockRules::Fail, Some(at(0, s1)));
    assert_eq!(accept(|post| arbiter.on_request(at(1, s2), post)), [send(s2, failed(1))]);
    let effects = accept(|post| arbiter.on_request(at(2, s1), post));
    assert_eq!(effects, [send(s2, reply(1, 1)), send(s1, failed(2))]);
    assert_eq!(accept(|post| arbiter.on_release(at(0, s1), post)), [], "late, and so without effect");
}

#[test]
fn an_arbiter_refuses_duplicates_and_messages_without_a_grant() {
    let [s1, s2] = SiteId::first();
    let mut arbiter = Arbiter::new(DeadlockRules::Yield, None);
    let _ = accept(|post| arbiter.on_request(at(2, s1), post));
    let before = arbiter.clone();
    assert_eq!(
        refuse(|post| arbiter.on_request(at(2, s1), post)),
        "a request that is not newer than its last"
    );
    assert_eq!(
        refuse(|post| arbiter.on_yield(at(2, s1), Turn::at(1), post)),
        "a yield that nobody asked for"
    );
    assert_eq!(refuse(|post| arbiter.on_release(at(1, s2), post)), "a release of what it does not have");
    assert_eq!(refuse(|post| arbiter.on_release(at(3, s1), post)), "a release of what it does not have");
    assert_eq!(arbiter, before);
    let _ = accept(|post| arbiter.on_release(at(2, s1), post));
    assert_eq!(refuse(|post| arbiter.on_release(at(2, s1), post)), "a release of what it does not have");
}

#[test]
fn an_arbiter_forgets_a_failed_site() {
    let [s1, s2, s3] = SiteId::first();
    let mut arbiter = Arbiter::new(DeadlockRules::Yield, Some(at(0, s1)));
    let _ = accept(|post| arbiter.on_request(at(1, s2), post));
    let _ = accept(|post| arbiter.on_request(at(2, s3), post));
    assert_eq!(step(|post| arbiter.forget(s2, post)), []);
    assert_eq!(step(|post| arbiter.forget(s1, post)), [send(s3, reply(2, 1))]);
}

/// A requester that has asked S1 and S2 at clock 5.
fn waiting(rules: DeadlockRules) -> Requester {
    let [s1, s2, s3] = SiteId::first();
    let mut requester = Requester::new(rules);
    let quorum: SiteSet = [s1, s2].into_iter().collect();
    let ask = Message::Request { clock: Clock::at(5) };
    assert_eq!(
        step(|post| requester.request(at(5, s3), Some(&quorum), post)),
        [send(s1, ask), send(s2, ask)]
    );
    requester
}

fn on_reply(requester: &mut Requester, from: SiteId, turn: u32) -> Vec<Effect<Message>> {
    accept(|post| requester.on_reply(from, Clock::at(5), (Turn::at(turn), Clock::at(6)), post))
}

fn on_inquiry(requester: &mut Requester, from: SiteId, turn: u32) -> Vec<Effect<Message>> {
    accept(|post| requester.on_inquire(from, Clock::at(5), Turn::at(turn), post))
}

#[test]
fn under_yield_every_inquiry_is_obeyed_outside() {
    let [s1, s2] = SiteId::first();
    let mut requester = waiting(DeadlockRules::Yield);
    assert_eq!(on_reply(&mut requester, s1, 1), []);
    assert_eq!(on_inquiry(&mut requester, s1, 1), [send(s1, yields(5, 1))]);
    assert_eq!(on_reply(&mut requester, s2, 1), []);
    assert_eq!(on_reply(&mut requester, s1, 2), [enter()]);
    assert_eq!(on_inquiry(&mut requester, s2, 1), [], "inside it is answered by the release");
    let over = Message::Release { request: Clock::at(5) };
    assert_eq!(step(|post| requester.release(post)), [send(s1, over), send(s2, over)]);
    assert_eq!(requester.phase(), Phase::Idle);
}

#[test]
fn under_fail_an_inquiry_is_remembered_until_a_refusal() {
    let [s1, s2] = SiteId::first();
    let mut requester = waiting(DeadlockRules::Fail);
    assert_eq!(on_reply(&mut requester, s1, 1), []);
    assert_eq!(on_inquiry(&mut requester, s1, 1), []);
    assert_eq!(accept(|post| requester.on_failed(s2, Clock::at(5), post)), [send(s1, yields(5, 1))]);
    // It counts as refused where it has yielded, even once the other has permitted.
    assert_eq!(on_reply(&mut requester, s2, 1), []);
    assert_eq!(on_inquiry(&mut requester, s2, 1), [send(s2, yields(5, 1))]);
}

#[test]
fn as_printed_an_inquiry_before_a_refusal_is_lost() {
    let [s1, s2] = SiteId::first();
    let mut requester = waiting(DeadlockRules::Printed);
    assert_eq!(on_reply(&mut requester, s1, 1), []);
    assert_eq!(on_inquiry(&mut requester, s1, 1), []);
    assert_eq!(accept(|post| requester.on_failed(s2, Clock::at(5), post)), []);
}

#[test]
fn an_inquiry_that_overtakes_its_permission_is_obeyed_when_that_comes() {
    let [s1, s2] = SiteId::first();
    let mut requester = waiting(DeadlockRules::Yield);
    assert_eq!(on_inquiry(&mut requester, s1, 1), []);
    assert_eq!(on_reply(&mut requester, s1, 1), [send(s1, yields(5, 1))]);
    // Unless nothing else is missing.
    assert_eq!(on_inquiry(&mut requester, s1, 2), []);
    assert_eq!(on_reply(&mut requester, s2, 1), []);
    assert_eq!(on_reply(&mut requester, s1, 2), [enter()]);
}

#[test]
fn a_requester_refuses_duplicates_and_ignores_late_messages() {
    let [s1, s2, s3, s4] = SiteId::first();
    let mut requester = waiting(DeadlockRules::Fail);
    let _ = on_reply(&mut requester, s1, 1);
    let before = requester.clone();
    let again = |turn, from| {
        move |requester: &mut Requester, post: &mut Post<'_>| {
            requester.on_reply(from, Clock::at(5), (Turn::at(turn), Clock::at(6)), post)
        }
    };
    for (turn, from) in [(1, s1), (2, s1), (2, s2), (1, s4)] {
        assert_eq!(refuse(|post| again(turn, from)(&mut requester, post)), "a reply that nobody waits for");
    }
    assert_eq!(
        refuse(|post| requester.on_inquire(s2, Clock::at(5), Turn::at(2), post)),
        "an inquiry after a permission that was not given"
    );
    assert_eq!(
        refuse(|post| requester.on_failed(s3, Clock::at(5), post)),
        "an answer from a site that was not asked"
    );
    assert_eq!(
        refuse(|post| requester.on_failed(s1, Clock::at(8), post)),
        "an answer to a request that was not made"
    );
    // A refusal that the permission has overtaken, and one of an earlier request.
    assert_eq!(accept(|post| requester.on_failed(s1, Clock::at(5), post)), []);
    assert_eq!(accept(|post| requester.on_failed(s1, Clock::at(4), post)), []);
    assert_eq!(requester, before);
}

#[test]
fn without_a_quorum_a_requester_waits_and_returns_its_permissions() {
    let [s1, s2] = SiteId::first();
    let mut requester = waiting(DeadlockRules::Fail);
    let _ = on_reply(&mut requester, s1, 1);
    let _ = on_inquiry(&mut requester, s1, 1);
    assert!(requester.lose(s2));
    assert_eq!(step(|post| requester.form(None, post)), [send(s1, yields(5, 1))]);
    assert!(requester.is_stuck());
    assert_eq!(on_reply(&mut requester, s1, 2), [], "all asked have permitted, but they are no quorum");
    let only: SiteSet = [s1].into_iter().collect();
    assert_eq!(step(|post| requester.form(Some(&only), post)), [enter()]);
}
