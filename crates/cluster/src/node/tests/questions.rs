//! Questions to the whole cluster, as one node asks and answers them.

use super::*;
use crate::names::ClientLabel;
use crate::node::NodeLimits;
use crate::rules::Rules;
use crate::table::MAX_LISTED;
use crate::table::{LossReason, RequestRefusal};

/// Returns site a in a view with b, which votes and whose packets the test makes up.
pub(super) fn beside_b() -> Lone {
    let mut lone = Lone::start(&["b"], Disk::default());
    lone.write();
    let b = Member { site: "b".parse().unwrap(), incarnation: Incarnation::new(1) };
    let members = vec![lone.node.me().clone(), b];
    let view = View { epoch: Epoch::new(1).unwrap(), members, ..View::default() };
    from_b(&mut lone, Content::View(view));
    lone.sent.clear();
    lone
}

pub(super) fn from_b(lone: &mut Lone, content: Content) {
    let packet = Packet::direct(lone.node.cluster, Incarnation::new(1), content);
    lone.input(Input::Packet { from: "b".parse().unwrap(), packet });
}

fn jobs() -> LockName {
    "jobs".parse().unwrap()
}

/// Makes a call, and returns the question that b receives.
pub(super) fn ask(lone: &mut Lone, call: ClientCall) -> Option<QuestionId> {
    lone.sent.clear();
    lone.input(Input::Call(call));
    let (to, content) = lone.sent.pop()?;
    let Content::Ask { question, .. } = content else { return None };
    (to.as_str() == "b").then_some(question)
}

/// Returns a reply of b: this site's own reply under b's name.
fn reply_of_b(lone: &mut Lone) -> SiteQueue {
    let question = ask(lone, ClientCall::Query { request: Request(900), lock: jobs() }).unwrap();
    from_b(lone, Content::Ask { question, ask: PeerQuestion::Queue(jobs()) });
    let Some((_, Content::Reply { reply: PeerReply::Queue(mut queue), .. })) = lone.sent.last().cloned()
    else {
        panic!("it replies: {:?}", lone.sent)
    };
    queue.site = "b".parse().unwrap();
    lone.pass(Span::from_millis(1000));
    lone.answers.clear();
    queue
}

#[test]
fn the_answer_comes_when_all_members_have_replied() {
    let mut lone = beside_b();
    lone.acquire(1, "jobs");
    let of_b = reply_of_b(&mut lone);
    let question = ask(&mut lone, ClientCall::Query { request: Request(5), lock: jobs() }).unwrap();
    assert_eq!(lone.answers, []);
    from_b(&mut lone, Content::Reply { question, reply: PeerReply::Queue(of_b.clone()) });
    let [ClientAnswer::Queue { request, queue }] = &lone.answers[..] else {
        panic!("one answer: {:?}", lone.answers)
    };
    let LockQueue { sites, missing, permits, algorithm, .. } = queue;
    assert_eq!((*request, *permits, algorithm.as_deref()), (Request(5), 1, Some("naimi-trehel")));
    assert_eq!((sites.len(), &missing[..]), (2, &[] as &[SiteName]));
    // This site does not have b's census, and says so.
    assert_eq!(sites[0].standing, Standing::Awaits(vec!["b".parse().unwrap()]));
    let why = line(sites, missing, *permits)[0].why.to_string();
    assert_eq!(why, "because a changes views and waits to hear from b");
    // A reply that comes twice or too late is not an answer.
    from_b(&mut lone, Content::Reply { question, reply: PeerReply::Queue(of_b) });
    assert_eq!(lone.answers.len(), 1);
}

#[test]
fn the_answer_has_the_permits_that_were_settled_at_another_site() {
    let mut lone = beside_b();
    let of_b = SiteQueue { settled: Some(3), ..reply_of_b(&mut lone) };
    let question = ask(&mut lone, ClientCall::Query { request: Request(5), lock: jobs() }).unwrap();
    from_b(&mut lone, Content::Reply { question, reply: PeerReply::Queue(of_b) });
    let [ClientAnswer::Queue { queue: LockQueue { permits, algorithm, .. }, .. }] = &lone.answers[..] else {
        panic!("one answer: {:?}", lone.answers)
    };
    assert_eq!((*permits, algorithm.as_deref()), (3, Some("central")));
}

#[test]
fn whoever_has_not_replied_in_time_is_named() {
    let mut lone = beside_b();
    ask(&mut lone, ClientCall::Query { request: Request(5), lock: jobs() });
    lone.pass(Span::from_millis(999));
    assert_eq!(lone.answers, []);
    lone.pass(Span::from_millis(1));
    let [ClientAnswer::Queue { queue: LockQueue { missing, sites, .. }, .. }] = &lone.answers[..] else {
        panic!("{:?}", lone.answers)
    };
    assert_eq!((missing.len(), missing[0].as_str(), sites.len()), (1, "b", 1));
}

#[test]
fn replies_to_other_questions_in_other_names_or_without_bounds_do_not_count() {
    let mut lone = beside_b();
    let of_b = reply_of_b(&mut lone);
    let question = ask(&mut lone, ClientCall::Query { request: Request(5), lock: jobs() }).unwrap();
    let of_another_name = SiteQueue { site: "c".parse().unwrap(), ..of_b.clone() };
    let mut long = of_b.clone();
    let label: Option<ClientLabel> = None;
    long.lock.waiters =
        vec![
            crate::table::WaiterReport { label, age: Span::ZERO, demand: meshlock_protocol::Demand::PLAIN };
            MAX_LISTED + 1
        ];
    long.lock.waiters_in_all = 1000;
    let [none, many] =
        [0, Rules::MAX_PERMITS + 1].map(|permits| SiteQueue { settled: Some(permits), ..of_b.clone() });
    let queues = [of_another_name, long, none, many].map(PeerReply::Queue);
    for reply in queues.into_iter().chain([PeerReply::Broken(Vec::new())]) {
        lone.notes.clear();
        from_b(&mut lone, Content::Reply { question, reply });
        assert!(matches!(&lone.notes[..], [Note::Misbehaved { .. }]), "{:?}", lone.notes);
        assert_eq!(lone.answers, []);
    }
    from_b(&mut lone, Content::Reply { question, reply: PeerReply::Queue(of_b) });
    assert_eq!(lone.answers.len(), 1);
}

#[test]
fn only_so_many_questions_wait_and_one_more_is_refused() {
    let (mut lone, most) = (beside_b(), NodeLimits::default().questions);
    for number in 0..most as u64 {
        lone.input(Input::Call(ClientCall::Query { request: Request(number), lock: jobs() }));
    }
    assert_eq!(lone.answers, []);
    lone.input(Input::Call(ClientCall::Break { request: Request(999), lock: jobs() }));
    assert!(matches!(
        &lone.answers[..],
        [ClientAnswer::Lock(LockEvent::Refused {
            request: Request(999),
            why: RequestRefusal::TooManyQuestions
        })]
    ));
    lone.pass(Span::from_millis(1000));
    assert_eq!(lone.answers.len(), 1 + most);
}

#[test]
fn a_site_outside_the_view_gets_no_answer_and_breaks_no_lock() {
    let mut lone = Lone::start(&["a"], Disk::default());
    lone.acquire(1, "jobs");
    lone.pass(Span::from_millis(1));
    let question = postcard::from_bytes(&[1, 1]).unwrap();
    for ask in [
        PeerQuestion::Queue(jobs()),
        PeerQuestion::Break(jobs()),
        PeerQuestion::Locks,
        PeerQuestion::Leave(lone.node.me().clone()),
    ] {
        let content = Content::Ask { question, ask };
        let packet = Packet::direct(lone.node.cluster, Incarnation::new(1), content);
        lone.input(Input::Packet { from: "z".parse().unwrap(), packet });
    }
    assert_eq!(lone.sent, []);
    assert!(!lone.node.table().held(lone.now)[0].holder.lost);
    lone.acquire(2, "other");
    assert!(lone.has_granted(2), "and makes nobody leave");
}

#[test]
fn a_break_reports_the_former_holders_and_the_next_client_enters_after_the_margin() {
    let mut lone = Lone::start(&["a"], Disk::default());
    lone.input(Input::Call(ClientCall::Introduce {
        session: Session(1),
        who: "backup.sh".parse().unwrap(),
        reacts_within: Span::ZERO,
    }));
    lone.acquire(1, "jobs");
    lone.pass(Span::from_millis(1));
    lone.acquire(2, "jobs");
    lone.answers.clear();
    lone.input(Input::Call(ClientCall::Break { request: Request(9), lock: jobs() }));
    let [
        ClientAnswer::Lock(LockEvent::Lost { request, act_by, why: LossReason::Broken }),
        ClientAnswer::Broken { cut_off, missing, .. },
    ] = &lone.answers[..]
    else {
        panic!("{:?}", lone.answers)
    };
    assert_eq!((*request, *act_by), (Request(1), lone.now + Span::from_millis(500)));
    assert_eq!((cut_off.len(), missing.len()), (1, 0));
    assert_eq!(cut_off[0].label.as_ref().unwrap().as_str(), "backup.sh");
    lone.pass(Span::from_millis(499));
    assert!(!lone.has_granted(2));
    lone.pass(Span::from_millis(1));
    assert!(lone.has_granted(2));
}

#[test]
fn an_overview_contains_the_state_of_the_site() {
    let mut lone = Lone::start(&["a"], Disk::default());
    lone.acquire(1, "jobs");
    lone.acquire(2, "jobs");
    lone.input(Input::Call(ClientCall::Overview { request: Request(7) }));
    let Some(ClientAnswer::Overview { overview, .. }) = lone.answers.pop() else { panic!("an overview") };
    assert_eq!((overview.standing, overview.lease_left), (Standing::Outside, None));
    lone.pass(Span::from_millis(100));
    lone.input(Input::Call(ClientCall::Overview { request: Request(8) }));
    let Some(ClientAnswer::Overview { overview, .. }) = lone.answers.pop() else { panic!("an overview") };
    assert_eq!(overview.standing, Standing::Open);
    assert_eq!(overview.leader.unwrap().as_str(), "a");
    assert!(overview.lease_left.unwrap() > Span::from_millis(4000));
    assert_eq!((overview.counts.holders, overview.counts.waiters), (1, 1));
    assert_eq!(overview.held[0].lock, jobs());
}

/// Asks for other rules, and returns what is said about them when they are given up.
fn rules_given_up(lone: &mut Lone, request: u64) -> String {
    let rules = RulesText { rules: Vec::new(), default: Clause::exclusive("maekawa") };
    lone.sent.clear();
    lone.answers.clear();
    lone.input(Input::Call(ClientCall::SetRules { request: Request(request), rules }));
    lone.pass(Span::from_millis(5000));
    let [ClientAnswer::Unavailable { request: of, why }] = &lone.answers[..] else {
        panic!("it is given up: {:?}", lone.answers)
    };
    assert_eq!(*of, Request(request));
    why.clone()
}

#[test]
fn rules_that_cannot_be_changed_are_given_up_and_not_asked_for_again() {
    let mut lone = beside_b();
    let sends_rules =
        |lone: &Lone| lone.sent.iter().any(|(_, content)| matches!(content, Content::SetRules { .. }));
    // b was there a moment ago, and may have got them.
    let why = rules_given_up(&mut lone, 1);
    assert!(sends_rules(&lone) && why.contains("may still take effect"), "{why}");
    lone.sent.clear();
    lone.pass(Span::from_millis(5000));
    assert!(!sends_rules(&lone), "it was given up");
    // By now it is known that b cannot be reached.
    let why = rules_given_up(&mut lone, 2);
    assert!(!sends_rules(&lone), "nothing can take effect later");
    assert!(
        why.starts_with("a has no lease: 0 of 1 voters are reachable; the rules were not changed"),
        "{why}"
    );
}

/// Returns b's page with these locks.
fn page_of_b(locks: &[&str], more: bool) -> PeerReply {
    let entry = |lock: &&str| crate::report::LockEntry {
        lock: lock.parse().unwrap(),
        permits: 1,
        holders: Vec::new(),
        holders_in_all: 0,
        waiters: 1,
        waited: Span::from_millis(30),
    };
    let entries = locks.iter().map(entry).collect();
    PeerReply::Page(SitePage { site: "b".parse().unwrap(), entries, more })
}

fn page_question(limit: u32) -> PageQuestion {
    PageQuestion { names: NameFilter::default(), after: None, limit }
}

#[test]
fn a_page_has_the_locks_of_all_members_and_the_algorithm_of_each() {
    let mut lone = beside_b();
    lone.acquire(1, "c");
    let call = ClientCall::Page { request: Request(5), question: page_question(10) };
    let question = ask(&mut lone, call).unwrap();
    from_b(&mut lone, Content::Reply { question, reply: page_of_b(&["a", "c", "d"], true) });
    let [ClientAnswer::Page { page, .. }] = &lone.answers[..] else { panic!("{:?}", lone.answers) };
    let locks: Vec<(&str, u64)> = page.locks.iter().map(|lock| (lock.lock.as_str(), lock.waiters)).collect();
    assert_eq!(locks, [("a", 1), ("c", 2), ("d", 1)]);
    assert_eq!(page.locks[0].algorithm.as_deref(), Some("naimi-trehel"));
    assert_eq!(
        (page.next.as_ref().map(LockName::as_str), &page.missing[..]),
        (Some("d"), &[] as &[SiteName])
    );
}

#[test]
fn a_page_that_no_correct_member_sends_is_reported_and_not_listed() {
    let mut lone = beside_b();
    let call = ClientCall::Page { request: Request(5), question: page_question(2) };
    let question = ask(&mut lone, call).unwrap();
    from_b(&mut lone, Content::Reply { question, reply: page_of_b(&["a", "b", "c"], true) });
    assert!(matches!(lone.notes.last(), Some(Note::Misbehaved { .. })), "{:?}", lone.notes);
    lone.pass(Span::from_millis(1000));
    let [ClientAnswer::Page { page, .. }] = &lone.answers[..] else { panic!("{:?}", lone.answers) };
    assert_eq!((page.locks.len(), page.missing.len()), (0, 1));
}

#[test]
fn a_member_of_an_older_version_is_missing_from_a_page_at_once_and_is_sent_no_question() {
    let mut lone = beside_b();
    let abilities = Abilities { lists_locks: false, ..Abilities::ALL };
    lone.input(Input::Connected { site: "b".parse().unwrap(), abilities });
    let call = ClientCall::Page { request: Request(5), question: page_question(2) };
    assert_eq!(ask(&mut lone, call), None);
    let [ClientAnswer::Page { page, .. }] = &lone.answers[..] else { panic!("{:?}", lone.answers) };
    assert_eq!(page.missing, ["b".parse().unwrap()]);
    lone.answers.clear();
    let site: SiteName = "b".parse().unwrap();
    ask(&mut lone, ClientCall::Changes { request: Request(6), site, after: None });
    assert_eq!(lone.answers, [ClientAnswer::Changes { request: Request(6), changes: None }]);
}

#[test]
fn one_member_is_asked_for_its_changes_and_this_site_answers_for_its_own() {
    let mut lone = beside_b();
    let site: SiteName = "a".parse().unwrap();
    assert_eq!(ask(&mut lone, ClientCall::Changes { request: Request(5), site, after: None }), None);
    let [ClientAnswer::Changes { changes: Some(own), .. }] = &lone.answers[..] else {
        panic!("{:?}", lone.answers)
    };
    let own = own.clone();
    lone.answers.clear();
    let site: SiteName = "b".parse().unwrap();
    let call = ClientCall::Changes { request: Request(6), site, after: Some(own.cursor) };
    let question = ask(&mut lone, call).unwrap();
    from_b(&mut lone, Content::Reply { question, reply: PeerReply::Changes(own.clone()) });
    assert_eq!(lone.answers, [ClientAnswer::Changes { request: Request(6), changes: Some(own) }]);
}
