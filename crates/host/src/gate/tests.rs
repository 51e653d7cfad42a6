//! The gate's rules, limits and audit log.

use std::fs;

use serde_json::Value;

use super::audit::MAX_WAITING as MAX_WAITING_LINES;
use super::usage::MAX_PRINCIPALS;
use super::*;
use meshlock_cluster::access::{Pace, RuleText};
use meshlock_cluster::printable::is_invisible;

fn named(name: &str) -> Principal {
    Principal::Named(name.parse().unwrap())
}

fn caller(principal: Principal) -> Caller {
    Caller {
        principal,
        origin: CallerOrigin::Network(([10, 0, 0, 1], 4000).into()),
        certificate: None,
        request: RequestId(7),
    }
}

fn policy(principal: &str, locks: &str, verbs: &[Verb]) -> Policy {
    let rule = RuleText { principal: principal.into(), locks: locks.into(), verbs: verbs.to_vec() };
    Policy { access: Access::new(&[rule]).unwrap(), tokens: Tokens::default() }
}

fn lock() -> LockName {
    "deploy/web".parse().unwrap()
}

fn lines(path: &std::path::Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn callers_on_the_socket_are_bound_by_no_rule_and_others_by_the_current_rules() {
    let gate = Gate::new(policy("local", "*", &[]), Each::default(), Audit::default());
    let socket = Caller { origin: CallerOrigin::Socket { user: 1 }, ..caller(Principal::Local) };
    assert!(gate.check(&socket, Verb::Break, &lock()).is_ok());
    assert!(gate.check(&caller(Principal::Local), Verb::Break, &lock()).is_err());
    assert!(gate.check(&caller(named("ci")), Verb::Acquire, &lock()).is_err());
    gate.replace(policy("ci", "deploy/*", &[Verb::Acquire]));
    assert!(gate.check(&caller(named("ci")), Verb::Acquire, &lock()).is_ok());
}

#[test]
fn each_principal_has_a_pace_and_connections_of_its_own() {
    let each = Each { connections: 2, pace: Pace { rate: 1, burst: 3 }, ..Each::default() };
    let gate = Arc::new(Gate::new(Policy::default(), each, Audit::default()));
    let asked = |name: &str, times: usize| {
        (0..times).filter(|_| gate.pace(&caller(named(name)), RequestKind::Ask).is_ok()).count()
    };
    // On a slow machine a second may pass meanwhile, which allows one more.
    assert!((3..=4).contains(&asked("flood", 1000)));
    assert_eq!(asked("other", 3), 3);
    let error = gate.pace(&caller(named("flood")), RequestKind::Ask).unwrap_err().to_string();
    assert!(gate.pace(&caller(named("flood")), RequestKind::Renew).is_ok(), "what it has it can keep");
    assert!(error.starts_with("'flood' sends more than 1 requests a second"), "{error}");
    let held = [gate.connect(&named("flood")).unwrap(), gate.connect(&named("flood")).unwrap()];
    assert!(gate.connect(&named("flood")).is_err());
    assert!(gate.connect(&named("other")).is_ok());
    drop(held);
    assert!(gate.connect(&named("flood")).is_ok());
}

#[test]
fn callers_without_credentials_pay_for_their_network_and_probes_have_a_pace_of_their_own() {
    let each = Each { pace: Pace { rate: 1, burst: 3 }, ..Each::default() };
    let gate = Gate::new(Policy::default(), each, Audit::default());
    let from = |address: [u8; 4]| Caller {
        origin: CallerOrigin::Network((address, 4000).into()),
        ..caller(Principal::Anyone)
    };
    let is_refused = |caller: &Caller| (0..10).any(|_| gate.pace(caller, RequestKind::Ask).is_err());
    assert!(is_refused(&from([10, 0, 0, 1])) && gate.pace(&from([10, 0, 0, 2]), RequestKind::Ask).is_err());
    assert!(gate.pace(&from([10, 0, 1, 1]), RequestKind::Ask).is_ok(), "another network");
    assert!(gate.pace(&from([10, 0, 0, 1]), RequestKind::Probe).is_ok(), "whoever asks whether it is alive");
    // Whatever networks they choose, what is remembered of them is bounded.
    for network in 0..u16::try_from(3 * MAX_PRINCIPALS).unwrap() {
        let [high, low] = network.to_be_bytes();
        let _ = gate.pace(&from([11, high, low, 1]), RequestKind::Ask);
    }
    assert!(gate.usage().len() <= MAX_PRINCIPALS + 1, "{}", gate.usage().len());
}

#[test]
fn locks_waiters_and_watches_of_a_principal_are_limited_and_those_of_others_are_not() {
    let each = Each { locks: 3, waiters: 2, watches: 1, ..Each::default() };
    let gate = Arc::new(Gate::new(Policy::default(), each, Audit::default()));
    let (flood, other) = (caller(named("flood")), caller(named("other")));
    let mut first = gate.use_lock(&flood, &lock()).unwrap().unwrap();
    let _second = gate.use_lock(&flood, &lock()).unwrap();
    let waits = TooMany::Waiters { of: named("flood"), lock: lock(), max: 2 };
    assert_eq!(gate.use_lock(&flood, &lock()).err(), Some(waits));
    first.on_granted();
    let third = gate.use_lock(&flood, &lock()).unwrap();
    let another = "another".parse().unwrap();
    assert_eq!(gate.use_lock(&flood, &another).err(), Some(TooMany::Locks { of: named("flood"), max: 3 }));
    assert!(gate.use_lock(&other, &lock()).is_ok());
    drop((first, third));
    assert!(gate.use_lock(&flood, &another).is_ok(), "what was given back counts no more");
    let watch = gate.use_watch(&flood).unwrap();
    assert_eq!(gate.use_watch(&flood).err(), Some(TooMany::Watches { of: named("flood"), max: 1 }));
    assert!(gate.use_watch(&other).is_ok());
    drop(watch);
    assert!(gate.use_watch(&flood).is_ok());
    let socket = Caller { origin: CallerOrigin::Socket { user: 1 }, ..caller(Principal::Local) };
    assert!((0..10).all(|_| gate.use_watch(&socket).is_ok_and(|counted| counted.is_none())));
}

#[test]
fn bytes_are_counted_for_each_principal_and_for_all_of_them() {
    const LONG: usize = 100_000;
    let each = Each { buffered_bytes: 3 * LONG, ..Each::default() };
    let gate = Gate::new(Policy::default(), each, Audit::default()).with_buffered_bytes(4 * LONG);
    let buffers = [0; 4].map(|_| gate.buffer(&named("flood")));
    assert!(buffers[..3].iter().all(|buffer| buffer.resize(LONG).is_ok()));
    let too_much = TooMany::BytesOfPrincipal { of: named("flood"), max: 3 * LONG };
    assert_eq!(buffers[3].resize(LONG), Err(too_much));
    assert_eq!(gate.buffered_bytes(), 4 * LONG, "it is counted until it is given up");
    let other = gate.buffer(&named("other"));
    assert_eq!(other.resize(LONG), Err(TooMany::Bytes { max: 4 * LONG }));
    drop(buffers);
    assert!(other.resize(2 * LONG).is_ok());
    assert!(other.resize(100).is_ok());
    assert_eq!(gate.buffered_bytes(), 0, "every connection has a small one");
}

#[test]
fn a_denied_request_counts_more_than_a_served_one() {
    let each = Each { pace: Pace { rate: 1, burst: 100 }, ..Each::default() };
    let gate = Gate::new(Policy::default(), each, Audit::default());
    let who = caller(named("ci"));
    let asked = (0..1000).take_while(|_| gate.pace(&who, RequestKind::Ask).is_ok());
    let denied = asked.filter(|_| gate.check(&who, Verb::Break, &lock()).is_err()).count();
    // A slow machine allows a few more.
    assert!((5..10).contains(&denied), "{denied}");
}

#[test]
fn idle_principals_are_forgotten() {
    // The bucket is full again after each request, so that no principal is remembered for its requests.
    let each = Each { connections: 2, pace: Pace { rate: u32::MAX, burst: 1 }, ..Each::default() };
    let gate = Arc::new(Gate::new(Policy::default(), each, Audit::default()));
    let stays = gate.connect(&named("stays")).unwrap();
    for at in 0..10 * MAX_PRINCIPALS {
        drop(gate.connect(&named(&format!("client-{at}"))));
    }
    assert!(gate.usage().len() <= MAX_PRINCIPALS, "{}", gate.usage().len());
    assert!(gate.usage().known(&named("stays")).is_some());
    drop(stays);
}

#[test]
fn events_are_written_as_one_object_per_line_in_a_file_for_its_owner_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.jsonl");
    let audit = Audit::open(&AuditTarget::File(AuditFile::new(&path))).unwrap();
    let gate = Gate::new(Policy::default(), Each::default(), audit);
    assert!(gate.check(&caller(named("ci")), Verb::Break, &lock()).is_err());
    gate.audit().note(&caller(named("ci")), Some(&lock()), AuditEvent::Granted { fence: i64::MAX });
    gate.audit().flush();
    let written = lines(&path);
    assert_eq!(written.len(), 2);
    assert_eq!(written[0]["event"], "denied");
    assert_eq!(written[0]["verb"], "break");
    assert_eq!(written[0]["principal"], "ci");
    assert_eq!(written[0]["lock"], "deploy/web");
    assert_eq!(written[0]["from"], "10.0.0.1:4000");
    assert_eq!(written[0]["request"], "0000000000000007");
    assert_eq!(written[1]["fence"], i64::MAX.to_string());
    let time = written[0]["time"].as_str().unwrap();
    assert!(time.len() == 27 && time.starts_with("20") && time.ends_with('Z'), "{time}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_file_that_was_moved_away_is_created_again_on_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let (path, old) = (dir.path().join("audit.jsonl"), dir.path().join("audit.1"));
    let audit = Audit::open(&AuditTarget::File(AuditFile::new(&path))).unwrap();
    let note = |fence| audit.note(&caller(named("ci")), Some(&lock()), AuditEvent::Granted { fence });
    note(1);
    audit.flush();
    fs::rename(&path, &old).unwrap();
    note(2);
    audit.flush();
    audit.reopen();
    note(3);
    audit.flush();
    let fences = |path| lines(path).iter().map(|line| line["fence"].to_string()).collect::<Vec<_>>();
    assert_eq!(fences(&old), ["\"1\"", "\"2\""]);
    assert_eq!(fences(&path), ["\"3\""]);
}

#[test]
fn lines_that_cannot_be_written_are_counted_and_nobody_waits() {
    // A disk that is full.
    let audit = Audit::open(&AuditTarget::File(AuditFile::new("/dev/full"))).unwrap();
    let note = || audit.note(&caller(named("ci")), Some(&lock()), AuditEvent::Granted { fence: 1 });
    (0..100_000).for_each(|_| note());
    audit.flush();
    assert!(audit.lost() > 0);
}

#[test]
fn a_file_that_is_too_long_is_rotated_and_only_so_many_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.jsonl");
    let file = AuditFile { max_bytes: 1000, files: 2, ..AuditFile::new(&path) };
    // What an earlier process has written counts as well.
    for fences in [0..10, 10..20] {
        let audit = Audit::open(&AuditTarget::File(file.clone())).unwrap();
        for fence in fences {
            audit.note(&caller(named("ci")), Some(&lock()), AuditEvent::Granted { fence });
        }
        audit.flush();
    }
    let mut names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]);
    let files = ["audit.jsonl.2", "audit.jsonl.1", "audit.jsonl"].map(|name| dir.path().join(name));
    assert!(files.iter().all(|file| fs::metadata(file).unwrap().len() <= 1000));
    let fences: Vec<i64> = files
        .iter()
        .flat_map(|file| lines(file))
        .map(|line| line["fence"].as_str().unwrap().parse().unwrap())
        .collect();
    assert!(fences.len() > 8 && fences.last() == Some(&19), "{fences:?}");
    assert!(fences.windows(2).all(|pair| pair[1] == pair[0] + 1), "none is missing between two: {fences:?}");
}

#[test]
fn a_line_has_no_effect_on_a_terminal_that_prints_it_and_reads_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit");
    let audit = Audit::open(&AuditTarget::File(AuditFile::new(&path))).unwrap();
    let hostile: LockName = "\u{61c}\u{202e}\u{9b}31m\u{e0041}evil".parse().unwrap();
    audit.note(&caller(named("ci")), Some(&hostile), AuditEvent::Granted { fence: 1 });
    audit.flush();
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.trim_end().chars().any(is_invisible), "{text:?}");
    let line: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["lock"], hostile.as_str());
}

#[test]
fn a_required_log_that_cannot_be_written_refuses_and_loses_no_grant() {
    let required = |path: &std::path::Path| {
        let when_unwritable = WhenUnwritable::Refuse;
        Audit::open(&AuditTarget::File(AuditFile { when_unwritable, ..AuditFile::new(path) })).unwrap()
    };
    // A disk that is full.
    let audit = required(std::path::Path::new("/dev/full"));
    assert_eq!(audit.check(), Ok(()));
    audit.note(&caller(named("ci")), Some(&lock()), AuditEvent::Granted { fence: 1 });
    audit.flush();
    let refused = audit.check().unwrap_err().to_string();
    assert!(refused.contains("make room for /dev/full"), "{refused}");
    assert_eq!(audit.lost(), 0);

    // A disk that is full and then has room: a pipe that is full until it is read.
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let mut reader = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let audit = required(&pipe);
    let grants = 2 * i64::try_from(MAX_WAITING_LINES).unwrap();
    for fence in 0..grants {
        audit.note(&caller(named("ci")), Some(&lock()), AuditEvent::Granted { fence });
    }
    assert!(audit.check().is_err(), "the writer is behind");
    let mut read = std::io::BufRead::lines(std::io::BufReader::new(&mut reader));
    for fence in 0..grants {
        let line: Value = serde_json::from_str(&read.next().unwrap().unwrap()).unwrap();
        assert_eq!(line["fence"], fence.to_string(), "in order, and none is lost");
    }
    meshlock_testing::eventually("the site grants again", || audit.check().is_ok());
    assert_eq!(audit.lost(), 0);
}

#[test]
fn tokens_are_long_and_never_the_same() {
    let (one, other) = (new_token().unwrap(), new_token().unwrap());
    assert_ne!(one, other);
    assert_eq!(one.len(), "meshlock_".len() + 64);
}
