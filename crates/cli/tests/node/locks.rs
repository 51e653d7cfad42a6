//! `meshlock locks` on a running cluster: all locks in use, and what happens to them.

use std::path::Path;

use meshlock_cluster::report::Party;
use meshlock_testing::{BoundedCommand, eventually};
use meshlock_wire::clients::{RefusalKind, ToClient, ToNode};
use serde_json::Value;

use crate::site::{Client, Files, Process, fails, json, meshlock, says};

/// Runs a command, whatever its exit code, and returns what it says.
fn fails_or_says(home: &Path, arguments: &[&str]) -> String {
    let output = meshlock(home).args(arguments).output_in_time();
    String::from_utf8(output.stdout).unwrap()
}

/// Starts three sites and waits until all take part.
fn cluster(files: &Files) -> Vec<Process> {
    let sites = files.start_all(&["a", "b", "c"]);
    eventually("all take part", || {
        let of = |site: &str| json(files.home(), &["site", "list", "--socket", &files.path(site)]);
        ["a.sock", "b.sock", "c.sock"].iter().all(|site| of(site)["sites"].as_array().unwrap().len() == 3)
    });
    sites
}

fn names(listed: &Value) -> Vec<&str> {
    listed["locks"].as_array().unwrap().iter().map(|lock| lock["lock"].as_str().unwrap()).collect()
}

#[test]
fn the_locks_of_all_sites_are_listed_filtered_sorted_and_followed() {
    let files = Files::new(3, false, "");
    let _sites = cluster(&files);
    let (home, a) = (files.home(), files.path("a.sock"));
    let list = |more: &[&str]| json(home, &[&["locks", "--socket", &a], more].concat());
    let (mut first, mut second, mut third) =
        (files.client("b", "backup.sh"), files.client("c", "report.sh"), files.client("a", "waiter"));
    let fence = first.acquire("jobs/2");
    second.acquire("jobs/1");
    second.acquire("other");
    third.want("jobs/2");
    let mut all = Value::Null;
    eventually("the waiter of a is listed", || {
        all = list(&[]);
        all["locks"][1]["waiters_in_all"] == 1
    });
    assert_eq!(names(&all), ["jobs/1", "jobs/2", "other"]);
    let lock = &all["locks"][1];
    let own = rustix::process::getuid().as_raw();
    assert_eq!(lock["holders"][0]["who"], format!(r#"uid:{own} (label "backup.sh")"#));
    assert_eq!(lock["holders"][0]["fence"], fence.to_string());
    assert_eq!(
        (&lock["holders"][0]["site"], &lock["holders"][0]["mode"]),
        (&"b".into(), &"exclusive".into())
    );
    assert_eq!((&lock["algorithm"], &lock["permits"]), (&"naimi-trehel".into(), &1.into()));
    assert_eq!((&all["missing"], &all["more"]), (&serde_json::json!([]), &false.into()));

    assert_eq!(names(&list(&["jobs/*"])), ["jobs/1", "jobs/2"]);
    assert_eq!(names(&list(&["--waiting"])), ["jobs/2"]);
    assert_eq!(names(&list(&["--sort", "waiters", "--limit", "1"])), ["jobs/2"]);
    assert_eq!(list(&["--limit", "2"])["more"], true);
    assert_eq!(names(&list(&["nothing"])), [""; 0]);
    let text = says(home, &["locks", "jobs/2", "--socket", &a]);
    assert!(text.contains("exclusive") && text.contains(r#"(label "backup.sh")"#), "{text}");
    assert!(says(home, &["locks", "nothing", "--socket", &a]).starts_with("No lock is held"), "{text}");
    let error = fails(home, 64, &["locks", "a*b", "--socket", &a]);
    assert!(error.contains("'*' that is not at its end"), "{error}");
}

#[test]
fn what_happens_to_locks_at_any_site_is_printed_as_it_happens() {
    let files = Files::new(3, false, "");
    let _sites = cluster(&files);
    let mut command = meshlock(files.home());
    command.args(["locks", "jobs*", "--watch", "--json", "--socket", &files.path("a.sock")]);
    let watch = Process::start(command, files.home().join("watch.log"));
    let next = || serde_json::from_str::<Value>(&watch.line()).expect("a JSON object a line");
    // The locks come first, when everything from then on is told.
    assert_eq!(names(&next()), [""; 0]);
    let mut holder = files.client("b", "backup.sh");
    let fence = holder.acquire("jobs");
    let mut other = files.client("c", "other");
    other.acquire("elsewhere");
    let acquired = next();
    assert_eq!(
        (&acquired["change"], &acquired["lock"], &acquired["site"]),
        (&"acquired".into(), &"jobs".into(), &"b".into())
    );
    assert_eq!((&acquired["fence"], &acquired["mode"]), (&fence.to_string().into(), &"exclusive".into()));
    says(files.home(), &["break", "jobs", "--yes", "--socket", &files.path("c.sock")]);
    assert_eq!(next()["change"], "broken");
    assert!(matches!(holder.receive(), ToClient::Lost { .. }));
    holder.release();
    assert_eq!(next()["change"], "released");
}

#[test]
fn a_lock_at_a_site_that_does_not_answer_is_not_listed_and_the_site_is_named() {
    let files = Files::new(3, false, "");
    let sites = cluster(&files);
    let mut holder = files.client("b", "backup.sh");
    holder.acquire("jobs");
    sites[1].signal(rustix::process::Signal::STOP);
    let listed = json(files.home(), &["locks", "--socket", &files.path("a.sock")]);
    sites[1].signal(rustix::process::Signal::CONT);
    assert_eq!((names(&listed).len(), &listed["missing"]), (0, &serde_json::json!(["b"])));
}

/// Number of locks of the test of many.
const MANY: usize = 2500;

#[test]
fn more_locks_than_fit_on_a_page_are_all_listed_once() {
    let files = Files::new(1, false, "");
    let _site = files.start_all(&["a"]);
    let mut clients: Vec<_> =
        (0..MANY.div_ceil(1000)).map(|at| files.client("a", &format!("client {at}"))).collect();
    for at in 0..MANY {
        clients[at / 1000].acquire(&format!("lock/{:05}", at * 7 % MANY));
    }
    let listed = json(files.home(), &["locks", "--limit", "10000", "--socket", &files.path("a.sock")]);
    let expected: Vec<String> = (0..MANY).map(|at| format!("lock/{at:05}")).collect();
    assert_eq!(names(&listed), expected);
}

/// Makes two clients hold a lock each and wait for the other's. The one at c is the younger one.
fn in_a_deadlock(files: &Files) -> [Client; 2] {
    let mut clients = [files.client("b", "first"), files.client("c", "second")];
    for (number, client) in clients.iter_mut().enumerate() {
        client.say(&ToNode::Party { party: Party(1 + number as u64) });
        client.acquire(["one", "two"][number]);
    }
    clients[0].want("two");
    let waits = || json(files.home(), &["status", "--socket", &files.path("b.sock")])["waiters"] == 1;
    eventually("the first one waits", waits);
    clients[1].want("one");
    clients
}

#[test]
fn a_deadlock_between_clients_of_two_sites_is_named_at_a_third() {
    let files = Files::new(3, false, "");
    let _sites = cluster(&files);
    let (home, a) = (files.home(), files.path("a.sock"));
    assert!(says(home, &["deadlocks", "--socket", &a]).starts_with("No clients wait"));
    let _clients = in_a_deadlock(&files);
    let mut text = String::new();
    eventually("it is named", || {
        text = fails_or_says(home, &["deadlocks", "--socket", &a]);
        text.starts_with("1 deadlock:")
    });
    assert!(
        text.contains(r#"(label "first") of b holds one (for "#) && text.contains("waits for two (for "),
        "{text}"
    );
    assert!(text.contains(r#"(label "second") of c holds two (for "#), "{text}");
    let queue = json(home, &["queue", "one", "--socket", &a]);
    assert_eq!(queue["deadlocks"][0]["parties"].as_array().map(Vec::len), Some(2), "{queue}");
    assert_eq!(json(home, &["queue", "three", "--socket", &a])["deadlocks"], serde_json::json!([]));
}

#[test]
fn where_the_rule_says_so_the_youngest_of_a_deadlock_is_refused_and_the_other_one_waits_on() {
    let files = Files::new(3, false, "");
    let _sites = cluster(&files);
    says(
        files.home(),
        &["rules", "set", "*", "naimi-trehel", "--deadlock", "refuse", "--socket", &files.path("a.sock")],
    );
    let mut clients = in_a_deadlock(&files);
    let refused = clients[1].receive();
    assert!(matches!(refused, ToClient::Refused { kind: RefusalKind::Deadlock, .. }), "{refused:?}");
    // Its first request is the one that it holds.
    clients[1].say(&ToNode::Release(1));
    assert!(matches!(clients[1].receive(), ToClient::Released(1)));
    assert!(matches!(clients[0].receive(), ToClient::Granted { .. }), "the other one gets what was released");
}

#[test]
fn commands_below_each_other_that_wait_for_each_other_are_a_deadlock_and_one_exits_with_77() {
    let files = Files::new(1, false, "");
    let _site = files.start_all(&["a"]);
    let (home, a) = (files.home(), files.path("a.sock"));
    says(home, &["rules", "set", "*", "naimi-trehel", "--deadlock", "refuse", "--socket", &a]);
    let nested = |outer: &str, inner: &str| {
        let ready = files.path(&format!("{outer}.ready"));
        let other = files.path(&format!("{inner}.ready"));
        let program = env!("CARGO_BIN_EXE_meshlock");
        let script = format!(
            "touch {ready}; until [ -e {other} ]; do sleep 0.01; done; {program} run {inner} --socket {a} -- true; echo {outer} $?"
        );
        let mut command = meshlock(home);
        command.args(["run", outer, "--socket", &a, "--", "sh", "-c", &script]);
        Process::start(command, home.join(format!("{outer}.log")))
    };
    let (first, second) = (nested("one", "two"), nested("two", "one"));
    let mut codes = [first.line(), second.line()];
    codes.sort();
    let ends = |code: &str| codes.iter().filter(|line| line.ends_with(code)).count();
    assert_eq!((ends(" 77"), ends(" 0")), (1, 1), "{codes:?}");
}
