//! Exact effects of every input on the requests of a session.

use super::*;

fn at(millis: u64) -> Time {
    Time::from_micros(millis * 1000)
}

/// The node's clock is a hundred seconds ahead.
fn local(node_time: Time) -> Time {
    node_time.before(Span::from_millis(100_000))
}

fn node_at(millis: u64) -> Time {
    at(100_000 + millis)
}

const MARGIN: Span = Span::from_millis(500);

const HELD: RequestState = RequestState::Held { fence: 7, slot: Some(2), margin: MARGIN };

fn granted(tag: Tag, lease_end: u64) -> ToClient {
    let lease_end = node_at(lease_end);
    ToClient::Granted { tag, fence: 7, slot: Some(2), lease_end, margin: MARGIN }
}

fn extended(lease_end: u64) -> ToClient {
    ToClient::Extended { lease_end: node_at(lease_end) }
}

fn lost(act_by: u64, why: Loss) -> RequestState {
    RequestState::Lost { act_by: at(act_by), why }
}

fn refused(kind: RefusalKind) -> NotGranted {
    NotGranted::Refused { kind, why: "no".to_owned() }
}

/// Requests with these numbers, which wait.
fn waiting(tags: impl IntoIterator<Item = Tag>) -> OpenRequests {
    let mut requests = OpenRequests::default();
    for tag in tags {
        requests.open(tag);
    }
    requests
}

/// One request, which is held with a lease until 5 s.
fn held() -> OpenRequests {
    let mut requests = waiting([1]);
    assert_eq!(requests.on_message(granted(1, 5000), local), Some(1));
    requests
}

#[test]
fn a_grant_makes_a_request_held_and_says_until_when() {
    let mut requests = waiting([1, 2]);
    assert_eq!((requests.due(), requests.lose_if_due(at(1 << 40))), (None, vec![]), "nothing is held");
    assert_eq!(requests.on_message(granted(1, 5000), local), Some(1));
    assert_eq!(requests.state(1), Some(&HELD));
    assert_eq!(requests.state(2), Some(&RequestState::Waiting));
    assert_eq!((requests.held_until(), requests.due()), (at(5000), Some(at(4500))));
    requests.forget(1);
    assert_eq!((requests.state(1), requests.due()), (None, None));
    assert_eq!(requests.on_message(granted(1, 6000), local), None, "it was cancelled meanwhile");
}

#[test]
fn an_extension_before_the_loss_is_due_keeps_the_lock_and_none_takes_time_back() {
    let mut requests = held();
    assert_eq!(requests.on_message(extended(8000), local), None);
    assert_eq!(requests.on_message(extended(6000), local), None);
    assert_eq!((requests.held_until(), requests.due()), (at(8000), Some(at(7500))));
    assert_eq!(requests.lose_if_due(at(7499)), []);
    assert_eq!(requests.state(1), Some(&HELD));
}

#[test]
fn a_node_that_is_silent_until_the_margin_loses_all_that_is_held() {
    let mut requests = waiting([1, 2, 3]);
    requests.on_message(granted(1, 5000), local);
    requests.on_message(granted(3, 5100), local);
    assert_eq!(requests.lose_if_due(at(4599)), []);
    assert_eq!(requests.lose_if_due(at(4600)), [1, 3]);
    assert_eq!(requests.state(1), Some(&lost(5100, Loss::NodeSilent)));
    assert_eq!(requests.state(2), Some(&RequestState::Waiting));
    assert_eq!((requests.due(), requests.lose_if_due(at(4601))), (None, vec![]), "once");
    requests.on_message(extended(9000), local);
    assert_eq!(requests.state(1), Some(&lost(5100, Loss::NodeSilent)), "it does not come back");
    assert_eq!(requests.on_message(granted(1, 9000), local), None);
    assert_eq!(requests.state(1), Some(&lost(5100, Loss::NodeSilent)));
}

#[test]
fn a_loss_that_is_told_has_its_reason_and_the_earliest_time_of_all_that_is_told() {
    for (message, why) in [
        (ToClient::Lost { tag: 1, act_by: node_at(4000), why: LossKind::Broken }, LossKind::Broken),
        (ToClient::LostV2 { tag: 1, act_by: node_at(4000) }, LossKind::Unknown),
    ] {
        let mut requests = held();
        assert_eq!(requests.on_message(message, local), Some(1));
        assert_eq!(requests.state(1), Some(&lost(4000, Loss::Told(why))));
        assert_eq!(requests.due(), None);
        let again = |act_by| ToClient::Lost { tag: 1, act_by: node_at(act_by), why: LossKind::LeaseEnd };
        assert_eq!(requests.on_message(again(4500), local), None);
        assert_eq!(requests.on_message(again(3500), local), Some(1));
        assert_eq!(requests.on_message(ToClient::Released(1), local), None);
        assert_eq!(requests.on_end(), []);
        assert_eq!(requests.state(1), Some(&lost(3500, Loss::Told(why))));
    }
}

#[test]
fn every_answer_that_is_no_grant_ends_a_request_that_waits() {
    let why = "no".to_owned();
    for (message, expected) in [
        (ToClient::Busy(1), NotGranted::Busy),
        (ToClient::TimedOut(1), NotGranted::TimedOut),
        (ToClient::Cancelled(1), NotGranted::Cancelled),
        (ToClient::Released(1), NotGranted::Cancelled),
        (
            ToClient::Refused { tag: 1, kind: RefusalKind::Leaving, why: why.clone() },
            refused(RefusalKind::Leaving),
        ),
        (ToClient::RefusedV2 { tag: 1, why }, refused(RefusalKind::Other)),
    ] {
        let mut requests = waiting([1]);
        assert_eq!(requests.on_message(message, local), Some(1));
        assert_eq!(requests.state(1), Some(&RequestState::Ended(expected.clone())));
        assert_eq!(requests.on_message(granted(1, 5000), local), None, "and nothing comes after it");
        assert_eq!(requests.on_message(ToClient::Busy(1), local), None);
        assert_eq!((requests.on_end(), requests.due()), (vec![], None));
        assert_eq!(requests.state(1), Some(&RequestState::Ended(expected)));
    }
}

#[test]
fn a_held_lock_of_which_the_node_says_that_it_has_ended_is_lost_at_once() {
    for message in [
        ToClient::Released(1),
        ToClient::Cancelled(1),
        ToClient::TimedOut(1),
        ToClient::Refused { tag: 1, kind: RefusalKind::Other, why: "no".to_owned() },
    ] {
        let mut requests = held();
        assert_eq!(requests.on_message(message, local), Some(1));
        assert_eq!(requests.state(1), Some(&lost(0, Loss::Told(LossKind::Unknown))));
    }
}

#[test]
fn with_the_connection_held_locks_are_lost_and_waiting_requests_end() {
    let mut requests = waiting([1, 2, 3]);
    requests.on_message(granted(2, 5000), local);
    requests.on_message(ToClient::Busy(3), local);
    assert_eq!(requests.on_end(), [2, 1]);
    assert_eq!(requests.state(1), Some(&RequestState::Ended(NotGranted::Disconnected)));
    assert_eq!(requests.state(2), Some(&lost(5000, Loss::Disconnected)));
    assert_eq!(requests.state(3), Some(&RequestState::Ended(NotGranted::Busy)));
    assert_eq!((requests.on_end(), requests.due()), (vec![], None));
}

#[test]
fn messages_about_other_things_change_nothing() {
    let mut requests = held();
    for message in [ToClient::Pong { tag: 1, time: node_at(1) }, ToClient::Busy(9), granted(9, 4000)] {
        assert_eq!(requests.on_message(message, local), None);
    }
    assert_eq!((requests.state(1), requests.due()), (Some(&HELD), Some(at(4500))));
}
