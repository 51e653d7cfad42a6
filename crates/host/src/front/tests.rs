//! The single admission path of a node, whichever API a request came through.

mod listing;

use std::path::Path;
use std::sync::Mutex;

use meshlock_cluster::access::{Access, Pace, RuleText, Tokens};
use meshlock_cluster::node::Config;
use meshlock_cluster::rules::RulesText;
use meshlock_cluster::table::Wait;
use meshlock_testing::{async_test, eventually, eventually_async, eventually_some, in_time};
use serde_json::Value;

use super::*;
use crate::engine::{self, Engine, NodeSetup};
use crate::gate::{Audit, AuditFile, AuditTarget, Each, Policy, WhenUnwritable};

/// Starts the first of these sites, without a network.
fn start(sites: &[&str], policy: Policy, each: Each, audit: Audit) -> (Engine, Front) {
    let sites: Vec<SiteName> = sites.iter().map(|name| name.parse().unwrap()).collect();
    let engine = Engine::start(NodeSetup::new(Config::new(sites[0].clone(), sites))).unwrap();
    let front = Front::new(engine.clone(), Arc::new(Gate::new(policy, each, audit)));
    (engine, front)
}

/// Starts a cluster of one site and waits until it can grant locks.
fn ready(policy: Policy, audit: Audit) -> (Engine, Front) {
    let (engine, front) = start(&["a"], policy, Each::default(), audit);
    eventually("the node can grant locks", || front.is_ready());
    (engine, front)
}

fn policy(rules: &[(&str, &str, &[Verb])]) -> Policy {
    let text = |&(principal, locks, verbs): &(&str, &str, &[Verb])| RuleText {
        principal: principal.into(),
        locks: locks.into(),
        verbs: verbs.to_vec(),
    };
    let rules: Vec<RuleText> = rules.iter().map(text).collect();
    Policy { access: Access::new(&rules).unwrap(), tokens: Tokens::default() }
}

/// A caller over a network.
fn caller(name: &str) -> Caller {
    let origin = CallerOrigin::Network(([10, 0, 0, 1], 4000).into());
    Caller {
        principal: Principal::Named(name.parse().unwrap()),
        origin,
        certificate: None,
        request: RequestId::new(),
    }
}

fn admitted(front: &Front, name: &str) -> Admitted {
    front.admit(caller(name), RequestKind::Ask).unwrap()
}

fn params(lock: &str, wait: Wait, permits: Option<u32>) -> AcquireParams {
    AcquireParams { lock: lock.parse().unwrap(), wait, permits, cause: None }
}

/// An owner with a session of its own.
fn own() -> Owner {
    Owner::Own { label: "test".parse().unwrap(), silence: None, party: None }
}

fn acquire(front: &Front, caller: &Admitted, params: AcquireParams) -> Arc<Acquisition<()>> {
    front.acquire(caller, own(), params, ())
}

/// Waits until the acquisition is no longer waiting.
fn decided(acquisition: &Acquisition<()>) -> AcquireState {
    let decided = || Some(acquisition.state()).filter(|state| *state != AcquireState::Waiting);
    eventually_some("the acquisition is decided", decided)
}

/// Whether the lock is held now, without waiting for anything.
fn is_held(acquisition: &Acquisition<()>) -> bool {
    matches!(acquisition.state(), AcquireState::Held(_))
}

fn not_granted(state: AcquireState) -> NotGranted {
    let AcquireState::Ended(Ended::NotGranted(why)) = state else { panic!("it is {state:?}") };
    why
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// How often `act` takes the node's lock on this thread.
fn locks_taken<R>(act: impl FnOnce() -> R) -> (u64, R) {
    let before = engine::locks_taken();
    let result = act();
    (engine::locks_taken() - before, result)
}

#[test]
fn an_acquisition_that_no_rule_allows_is_denied_before_the_node_is_asked() {
    let (_engine, front) = ready(policy(&[("ci", "deploy/*", &[Verb::Acquire])]), Audit::default());
    let ci = admitted(&front, "ci");
    let (locks, denied) = locks_taken(|| acquire(&front, &ci, params("orders", Wait::Forever, None)));
    assert!(matches!(not_granted(denied.state()), NotGranted::Denied(_)));
    assert_eq!(locks, 0);
    assert!(is_held(&acquire(&front, &ci, params("deploy/web", Wait::Forever, None))));
    let other = admitted(&front, "other");
    let denied = acquire(&front, &other, params("deploy/web", Wait::Try, None));
    assert!(matches!(not_granted(denied.state()), NotGranted::Denied(_)));
    // The program that runs the node needs no rule.
    assert!(is_held(&acquire(&front, &front.in_process(), params("orders", Wait::Forever, None))));
}

#[test]
fn a_right_to_one_verb_is_no_right_to_another() {
    async_test(async {
        let (_engine, front) = ready(policy(&[("viewer", "*", &[Verb::Watch])]), Audit::default());
        let viewer = admitted(&front, "viewer");
        let lock: LockName = "orders".parse().unwrap();
        assert!(front.queue(&viewer, lock.clone()).await.is_ok());
        assert!(matches!(front.break_lock(&viewer, lock).await, Err(NotAnswered::Denied(_))));
        assert!(matches!(front.leave(&viewer).await, Err(NotAnswered::Denied(_))));
        let denied = acquire(&front, &viewer, params("orders", Wait::Try, None));
        assert!(matches!(not_granted(denied.state()), NotGranted::Denied(_)));
    });
}

#[test]
fn the_status_takes_any_right_and_lists_the_held_locks_that_its_caller_may_watch() {
    async_test(async {
        let rules: &[(&str, &str, &[Verb])] = &[
            ("asker", "*", &[Verb::Acquire]),
            ("breaker", "*", &[Verb::Break]),
            ("viewer", "b", &[Verb::Watch]),
        ];
        let (_engine, front) = ready(policy(rules), Audit::default());
        let me = front.in_process();
        let held = ["a", "b"].map(|lock| acquire(&front, &me, params(lock, Wait::Forever, None)));
        assert!(held.iter().all(|held| is_held(held)));
        let seen = async |caller: &Admitted| {
            let overview = front.overview(caller).await.unwrap();
            let mut locks: Vec<String> = overview.held.iter().map(|held| held.lock.to_string()).collect();
            locks.sort();
            (overview.counts.holders, locks.join(" "))
        };
        assert_eq!(seen(&me).await, (2, "a b".to_owned()));
        assert_eq!(seen(&admitted(&front, "viewer")).await, (2, "b".to_owned()));
        assert_eq!(seen(&admitted(&front, "asker")).await, (2, String::new()));
        assert_eq!(seen(&admitted(&front, "breaker")).await, (2, String::new()));
        let nobody = admitted(&front, "nobody");
        let denied = front.overview(&nobody).await;
        assert!(
            matches!(&denied, Err(NotAnswered::Denied(denied)) if denied.to_string().contains("may not watch")),
            "a denial names the right that shows most"
        );
        assert!(front.rules(&admitted(&front, "asker")).is_err());
        assert!(front.rules(&admitted(&front, "viewer")).is_ok());
    });
}

#[test]
fn callers_over_a_network_are_limited_in_rate_and_the_program_itself_is_not() {
    let each = Each { pace: Pace { rate: 1, burst: 2 }, ..Each::default() };
    let (_engine, front) = start(&["a"], Policy::default(), each, Audit::default());
    let refused = (0..1000).find_map(|_| front.admit(caller("ci"), RequestKind::Ask).err());
    let error = refused.expect("the rate is limited");
    assert_eq!(error.principal.to_string(), "ci");
    // Renewals have a limit of their own, and so has every other principal.
    assert!(front.admit(caller("ci"), RequestKind::Renew).is_ok());
    assert!(front.admit(caller("other"), RequestKind::Ask).is_ok());
    let me = front.in_process();
    assert!((0..1000).all(|_| front.admit_again(&me, RequestKind::Ask).is_ok()));
}

#[test]
fn giving_something_back_is_never_refused_and_counts_as_a_request() {
    let each = Each { pace: Pace { rate: 1, burst: 100 }, ..Each::default() };
    let (_engine, front) = start(&["a"], Policy::default(), each, Audit::default());
    let asked = |name: &str| (0..100).filter(|_| front.admit(caller(name), RequestKind::Ask).is_ok()).count();
    assert!((0..1000).all(|_| front.admit(caller("ci"), RequestKind::GiveBack).is_ok()));
    assert_eq!(asked("other"), 100);
    assert!(asked("ci") < 100);
}

#[test]
fn a_semaphore_that_no_rule_names_takes_no_right_beyond_acquiring_and_leaves_nothing_behind() {
    let (_engine, front) = ready(policy(&[("ci", "*", &[Verb::Acquire])]), Audit::default());
    let (me, ci) = (front.in_process(), admitted(&front, "ci"));
    let lock: LockName = "pool".parse().unwrap();
    let rules = || front.node().look(|node| node.view().rules.clone());
    let before = rules();
    let first = acquire(&front, &ci, params("pool", Wait::Forever, Some(2)));
    let second = acquire(&front, &me, params("pool", Wait::Forever, Some(2)));
    for held in [&first, &second] {
        assert!(matches!(held.state(), AcquireState::Held(LockGrant { slot: Some(_), .. })), "at once");
    }
    let third = acquire(&front, &ci, params("pool", Wait::Try, Some(2)));
    assert_eq!(not_granted(decided(&third)), NotGranted::Busy);
    for (wants, say) in [(Some(3), 3), (Some(1), 1), (None, 1)] {
        let other = not_granted(decided(&acquire(&front, &me, params("pool", Wait::Forever, wants))));
        assert_eq!(
            other,
            NotGranted::Permits(PermitsError::InUse { lock: lock.clone(), has: 2, wants: say })
        );
    }
    assert_eq!(front.node().look(|node| super::permits::permits_of(node, &lock)), Some(2));
    first.release();
    second.release();
    assert_eq!(rules(), before);
    assert!(
        is_held(&acquire(&front, &me, params("pool", Wait::Try, None))),
        "the plain lock is free at once"
    );
    let beside = not_granted(decided(&acquire(&front, &ci, params("pool", Wait::Try, Some(2)))));
    assert_eq!(beside, NotGranted::Permits(PermitsError::InUse { lock, has: 1, wants: 2 }));
}

#[test]
fn a_number_of_permits_that_no_lock_can_have_is_refused_with_the_limit() {
    let (_engine, front) = ready(Policy::default(), Audit::default());
    let me = front.in_process();
    let many = acquire(&front, &me, params("pool", Wait::Forever, Some(1024)));
    assert!(matches!(many.state(), AcquireState::Held(_)));
    for wants in [0, 1025] {
        let error = not_granted(decided(&acquire(&front, &me, params("other", Wait::Forever, Some(wants)))));
        let text = format!("'other' cannot have {wants} permits; give 1 to 1024");
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn an_acquisition_of_a_permit_waits_no_longer_than_it_may() {
    // The second site does not exist, so the cluster never agrees on anything.
    let (_engine, front) = start(&["a", "b"], Policy::default(), Each::default(), Audit::default());
    let me = front.in_process();
    let tried = acquire(&front, &me, params("pool", Wait::Try, Some(2)));
    let within = Wait::Within(Span::from_millis(10));
    let timed = acquire(&front, &me, params("pool", within, Some(2)));
    let cancelled = acquire(&front, &me, params("pool", Wait::Forever, Some(2)));
    cancelled.cancel();
    assert_eq!(cancelled.state(), AcquireState::Ended(Ended::Cancelled));
    for decided in [decided(&timed), decided(&tried)] {
        let NotGranted::Unavailable(outage) = not_granted(decided) else { panic!("nobody has it") };
        assert_eq!(outage.to_string(), "a is not a member of the cluster: 1 of 2 voters is reachable");
    }
}

#[test]
fn the_audit_log_has_one_line_for_each_granted_or_denied_acquisition_and_each_ended_session() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.jsonl");
    let audit = Audit::open(&AuditTarget::File(AuditFile::new(&path))).unwrap();
    let (_engine, front) = ready(policy(&[("ci", "deploy/*", &[Verb::Acquire])]), audit);
    let ci = admitted(&front, "ci");
    let held = acquire(&front, &ci, params("deploy/web", Wait::Forever, None));
    assert!(is_held(&held));
    let busy = acquire(&front, &ci, params("deploy/web", Wait::Try, None));
    assert_eq!(not_granted(decided(&busy)), NotGranted::Busy);
    acquire(&front, &ci, params("orders", Wait::Forever, None));
    let me = front.in_process();
    let permit = acquire(&front, &me, params("pool", Wait::Forever, Some(2)));
    assert!(matches!(decided(&permit), AcquireState::Held(_)));
    held.release();
    permit.abandon();
    let session = front.open_session(&me);
    front.close_session::<()>(&me, session, [], "its program has ended");
    front.audit().flush();
    let written = lines(&path);
    let line = |line: &Value| {
        [&line["event"], &line["lock"]].map(|text| text.as_str().unwrap_or_default().to_owned())
    };
    let events: Vec<[String; 2]> = written.iter().map(line).collect();
    let acquired = [["granted", "deploy/web"], ["denied", "orders"], ["granted", "pool"]];
    assert_eq!(events[..3], acquired);
    assert_eq!(events[3..], [["session-ended", ""]]);
    assert_eq!(written[3]["why"], "its program has ended");
    assert_eq!(written[0]["request"], ci.request.to_string());
}

#[test]
fn an_acquisition_that_is_granted_at_once_takes_the_nodes_lock_once() {
    let (_engine, front) = ready(Policy::default(), Audit::default());
    let me = front.in_process();
    let session = front.open_session(&me);
    let params_of = |lock| params(lock, Wait::Forever, None);
    let (locks, held) = locks_taken(|| front.acquire(&me, Owner::Session(session), params_of("a"), ()));
    assert!(is_held(&held));
    assert_eq!(locks, 1, "with an existing session");
    let (locks, own) = locks_taken(|| acquire(&front, &me, params_of("b")));
    assert!(is_held(&own));
    assert_eq!(locks, 1, "with a session of its own");
    let first = acquire(&front, &me, params("pool", Wait::Forever, Some(2)));
    assert!(matches!(decided(&first), AcquireState::Held(_)));
    let (locks, second) = locks_taken(|| acquire(&front, &me, params("pool", Wait::Forever, Some(2))));
    assert!(matches!(decided(&second), AcquireState::Held(_)));
    assert_eq!(locks, 1, "for a permit");
    let (locks, ()) = locks_taken(|| held.abandon());
    assert_eq!(locks, 1, "to release it");
    let (locks, ()) = locks_taken(|| front.close_session(&me, session, [held], "it is closed"));
    assert_eq!(locks, 1, "to end a session");
}

/// Remembers all events.
#[derive(Default)]
struct Recorder(Mutex<Vec<AcquireEvent>>);

impl Observer for Recorder {
    fn on_event(&self, _: &Acquisition<Self>, event: &AcquireEvent) {
        self.0.lock().unwrap().push(event.clone());
    }
}

#[test]
fn an_observer_is_told_of_the_grant_and_once_of_the_end() {
    let (_engine, front) = ready(Policy::default(), Audit::default());
    let me = front.in_process();
    let acquisition = front.acquire(&me, own(), params("a", Wait::Forever, None), Recorder::default());
    let AcquireState::Held(grant) = acquisition.state() else { panic!("the lock is free") };
    acquisition.release();
    acquisition.close(Ended::SessionOver);
    acquisition.abandon();
    assert_eq!(acquisition.state(), AcquireState::Ended(Ended::Released));
    let events = acquisition.observer().0.lock().unwrap();
    assert_eq!(*events, [AcquireEvent::Granted(grant), AcquireEvent::Ended(Ended::Released)]);
}

/// Notes at each event whether others could see the acquisition's state before the observer was told.
#[derive(Default)]
struct VisibleEarly(Mutex<Vec<bool>>);

impl Observer for VisibleEarly {
    fn on_event(&self, acquisition: &Acquisition<Self>, _: &AcquireEvent) {
        self.0.lock().unwrap().push(acquisition.is_visible());
    }
}

#[test]
fn nobody_sees_a_grant_or_an_end_before_the_observer_is_told() {
    let (_engine, front) = ready(Policy::default(), Audit::default());
    let me = front.in_process();
    let acquisition = front.acquire(&me, own(), params("a", Wait::Forever, None), VisibleEarly::default());
    acquisition.close(Ended::SessionOver);
    assert!(acquisition.is_visible());
    assert_eq!(*acquisition.observer().0.lock().unwrap(), [false, false]);
}

#[test]
fn a_site_that_has_left_refuses_acquisitions() {
    async_test(async {
        let (_engine, front) = ready(Policy::default(), Audit::default());
        let me = front.in_process();
        front.leave(&me).await.unwrap();
        let refused = acquire(&front, &me, params("a", Wait::Forever, None));
        assert!(matches!(not_granted(decided(&refused)), NotGranted::Refused(_)));
    });
}

#[test]
fn nothing_is_granted_or_changed_while_a_required_audit_log_cannot_be_written() {
    async_test(async {
        let when_unwritable = WhenUnwritable::Refuse;
        // A disk that is full.
        let file = AuditFile { when_unwritable, ..AuditFile::new("/dev/full") };
        let (_engine, front) = ready(Policy::default(), Audit::open(&AuditTarget::File(file)).unwrap());
        let me = front.in_process();
        let ask = || front.acquire(&me, own(), params("a", Wait::Forever, None), ()).state();
        assert!(matches!(ask(), AcquireState::Held(_)), "its line is kept until it can be written");
        front.audit().flush();
        let AcquireState::Ended(Ended::NotGranted(NotGranted::Unaudited(error))) = ask() else {
            panic!("it is granted")
        };
        assert!(error.to_string().starts_with("this site does nothing without its audit log"), "{error}");
        let broken = in_time("an answer", front.break_lock(&me, "a".parse().unwrap())).await;
        assert!(matches!(broken, Err(NotAnswered::Unavailable(_))), "{broken:?}");
        let set = in_time("an answer", front.set_rules(&me, RulesText::default())).await;
        assert!(matches!(set, Err(NotAnswered::Unavailable(_))), "{set:?}");
        let why = front.why_not_ready().unwrap();
        assert!(
            front.is_ready() && why.starts_with("its audit log is required and cannot be written"),
            "{why}"
        );
        assert_eq!(front.audit().lost(), 0);
    });
}

#[test]
fn a_site_that_leaves_is_not_ready_also_while_its_clients_still_hold_something() {
    async_test(async {
        let (_engine, front) = ready(Policy::default(), Audit::default());
        let me = front.in_process();
        let held = acquire(&front, &me, params("a", Wait::Forever, None));
        assert_eq!(front.why_not_ready(), None);
        let look = async {
            eventually_async("it leaves", tokio::time::sleep, || front.is_leaving()).await;
            let why = front.why_not_ready();
            assert!(front.is_ready() && why.is_some_and(|why| why.starts_with("it leaves the cluster")));
            held.release();
        };
        let (left, ()) = in_time("it has left", async { tokio::join!(front.leave(&me), look) }).await;
        left.unwrap();
    });
}

/// A client may hold many locks, and each has one.
#[test]
fn an_acquisition_takes_little_memory() {
    assert!(size_of::<Acquisition<()>>() <= 176, "{}", size_of::<Acquisition<()>>());
}
