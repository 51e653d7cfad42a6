//! Meshlock's HTTP API, called with curl.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included: what fails must stop them")]

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use meshlock_cluster::node::Config;
use meshlock_host::front::Front;
use meshlock_host::{Engine, NodeSetup};
use meshlock_service::{ApiLimits, ServeError, Serving};
use meshlock_testing::{BoundedChild, BoundedCommand, Lines, eventually, needs_program};
use serde_json::{Value, json};

struct Api {
    serving: Serving,
    _engine: Engine,
}

impl Api {
    /// Starts a node with its API; `None` if curl is not installed, and the test is skipped.
    fn start() -> Option<Self> {
        Api::with(ApiLimits::default())
    }

    fn with(limits: ApiLimits) -> Option<Self> {
        Api::of(&["local"], limits)
    }

    /// Starts the first of these sites; the others never run.
    fn of(sites: &[&str], limits: ApiLimits) -> Option<Self> {
        if !needs_program("curl") {
            return None;
        }
        let sites: Vec<meshlock_cluster::names::SiteName> =
            sites.iter().map(|site| site.parse().unwrap()).collect();
        let engine = Engine::start(NodeSetup::new(Config::new(sites[0].clone(), sites))).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let setup = meshlock_service::ApiSetup { listener, limits };
        let serving = Serving::start(&Front::new((*engine).clone(), Arc::default()), setup).unwrap();
        Some(Api { serving, _engine: engine })
    }

    fn curl(&self, path: &str) -> Command {
        let mut curl = Command::new("curl");
        curl.args(["-sN", "--max-time", "60"]).arg(format!("http://{}{path}", self.serving.address()));
        curl
    }

    /// Makes a request, and returns the answer and its status.
    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let mut curl = self.curl(path);
        curl.args(["-X", method, "-w", "\n%{http_code}"]);
        if !body.is_empty() {
            curl.args(["-d", body]);
        }
        let output = curl.output_in_time();
        let text = String::from_utf8(output.stdout).unwrap();
        let (said, code) = text.rsplit_once('\n').unwrap();
        (code.parse().unwrap(), serde_json::from_str(said).unwrap_or_else(|_| said.into()))
    }

    fn get(&self, path: &str) -> Value {
        self.ask("GET", path, "").1
    }

    fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.ask("POST", path, &body.to_string())
    }

    /// Waits until this many clients wait for a lock.
    fn until_waiting(&self, lock: &str, count: usize) {
        let waits = || self.get(&format!("/v1/locks/{lock}"))["waiters"].as_array().map_or(0, Vec::len);
        eventually(&format!("{count} wait for '{lock}'"), || waits() == count);
    }

    /// Starts a request whose answer is read line by line.
    fn stream(&self, method: &str, path: &str, body: &str) -> Stream {
        let mut curl = self.curl(path);
        curl.args(["-X", method]).stdout(Stdio::piped());
        if !body.is_empty() {
            curl.args(["-d", body]);
        }
        let mut child = curl.spawn().unwrap();
        let lines = Lines::of(child.stdout.take().unwrap());
        Stream { child, lines }
    }
}

struct Stream {
    child: Child,
    lines: Lines,
}

impl Stream {
    fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.line("there is more")).unwrap()
    }

    /// Waits for the next list of this many holders.
    fn until(&mut self, count: usize) -> Value {
        self.find(&format!("{count} hold it"), |seen| seen["holders"].as_array().unwrap().len() == count)
    }

    /// Waits for the next value that satisfies `wanted`.
    fn find(&mut self, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let wanted = |line: &str| Some(serde_json::from_str(line).unwrap()).filter(&is_wanted);
        self.lines.find(what, wanted).unwrap_or_else(|| panic!("it ends without: {what}"))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.child.end();
    }
}

fn fence(grant: &Value) -> i64 {
    grant["fence"].as_str().unwrap().parse().unwrap()
}

#[test]
fn a_lock_is_acquired_refused_waited_for_and_released() {
    let Some(api) = Api::start() else { return };
    let (code, session) = api.post("/v1/sessions", &json!({ "ttl_ms": 60_000, "label": "first" }));
    assert_eq!((code, &session["locks"]), (200, &json!([])));
    let told = session["ttl_ms"].as_u64().unwrap();
    assert!((1..=2600).contains(&told), "no more than can be promised: {session}");
    let first = json!({ "session": session["session"] });
    let (code, grant) = api.post("/v1/locks/db%2Fmigrate/acquire", &first);
    assert_eq!((code, &grant["lock"]), (200, &json!("db/migrate")));
    // A repeated request returns the same grant, so a client whose answer was lost can retry.
    let (code, again) = api.post("/v1/locks/db%2Fmigrate/acquire", &first);
    assert_eq!((code, &again["fence"], &again["session"]), (200, &grant["fence"], &grant["session"]));
    let (code, busy) = api.post("/v1/locks/db%2Fmigrate/acquire", &json!({ "try": true }));
    assert_eq!((code, &busy["code"]), (409, &json!("busy")));
    let (code, late) = api.post("/v1/locks/db%2Fmigrate/acquire", &json!({ "wait_ms": 20 }));
    assert_eq!((code, &late["code"]), (408, &json!("timed_out")));
    let queue = api.get("/v1/locks/db%2Fmigrate");
    assert_eq!(
        (&queue["holders"][0]["who"], &queue["holders"][0]["fence"]),
        (&json!(r#"local (label "first")"#), &grant["fence"])
    );
    let session_path = format!("/v1/sessions/{}", session["session"].as_str().unwrap());
    assert_eq!(api.get(&session_path)["locks"], json!(["db/migrate"]));
    assert_eq!(api.post(&format!("{session_path}/keep-alive"), &json!({})).0, 200);
    assert_eq!(api.post("/v1/locks/db%2Fmigrate/release", &first), (200, json!({ "held": true })));
    assert_eq!(api.post("/v1/locks/db%2Fmigrate/release", &first).1["code"], "not_held");
    let (_, next) = api.post("/v1/locks/db%2Fmigrate/acquire", &json!({ "try": true }));
    assert!(fence(&next) > fence(&grant), "{next} after {grant}");
    assert_eq!(api.ask("DELETE", &session_path, "").0, 200);
    assert_eq!(api.ask("DELETE", &session_path, "").1["code"], "no_session");
}

#[test]
fn a_session_that_is_not_kept_alive_loses_its_lock_to_the_next_waiter() {
    let Some(api) = Api::start() else { return };
    let (_, first) = api.post("/v1/locks/a/acquire", &json!({ "ttl_ms": 500 }));
    let (code, second) = api.post("/v1/locks/a/acquire", &json!({}));
    assert_eq!(code, 200);
    assert!(fence(&second) > fence(&first));
    let gone = json!({ "session": first["session"] });
    assert_eq!(api.post("/v1/locks/a/release", &gone).1["code"], "not_held");
}

#[test]
fn a_client_that_disconnects_while_it_waits_or_holds_leaves_nothing_behind() {
    let Some(api) = Api::start() else { return };
    let mut watch = api.stream("GET", "/v1/locks/a/watch", "");
    watch.until(0);
    let mut hold = api.stream("POST", "/v1/locks/a/hold", r#"{"label":"held by a connection"}"#);
    let granted = hold.next();
    assert!(fence(&granted["granted"]) > 0, "{granted}");
    assert_eq!(watch.until(1)["holders"][0]["who"], r#"local (label "held by a connection")"#);
    let waiting = api.stream("POST", "/v1/locks/a/hold", "");
    api.until_waiting("a", 1);
    // The holder leaves and so does one waiter: the next waiter has the lock.
    drop(waiting);
    drop(hold);
    assert_eq!(api.post("/v1/locks/a/acquire", &json!({})).0, 200);
}

#[test]
fn a_hold_that_was_kept_alive_ends_when_its_client_is_silent() {
    let Some(api) = Api::start() else { return };
    let mut hold = api.stream("POST", "/v1/locks/a/hold", "");
    let granted = hold.next();
    let session = granted["granted"]["session"].as_str().unwrap();
    let (code, alive) = api.post(&format!("/v1/sessions/{session}/keep-alive"), &json!({}));
    assert!(code == 200 && alive["ttl_ms"].as_u64() > Some(0), "{alive}");
    // Its connection stays open, as that of a stopped program does.
    assert_eq!(api.post("/v1/locks/a/acquire", &json!({})).0, 200, "somebody else has it");
    let lost = hold.find("it is lost", |told| told.get("still").is_none());
    assert!(lost.get("lost").is_some(), "{lost}");
}

#[test]
fn a_broken_lock_is_lost_by_its_holder() {
    let Some(api) = Api::start() else { return };
    let mut hold = api.stream("POST", "/v1/locks/a/hold", "");
    hold.next();
    let (code, broken) = api.post("/v1/locks/a/break", &json!({}));
    assert_eq!((code, broken["cut_off"].as_array().unwrap().len()), (200, 1));
    let lost = hold.find("it is lost", |told| told.get("still").is_none());
    assert!(lost["lost"]["why"].as_str().unwrap().contains("broken"), "{lost}");
}

#[test]
fn all_locks_are_listed_page_by_page_and_what_happens_to_them_is_told() {
    let Some(api) = Api::start() else { return };
    let mut changes = api.stream("GET", "/v1/changes?pattern=jobs%2F*", "");
    assert_eq!(changes.next(), json!({ "changes": [], "missed": "0" }));
    let acquire =
        |lock: &str| api.post(&format!("/v1/locks/{lock}/acquire"), &json!({ "label": "backup.sh" })).1;
    let held = acquire("jobs%2F1");
    for lock in ["jobs%2F2", "jobs%2F3", "other"] {
        acquire(lock);
    }
    let acquired = changes.find("it is acquired", |told| !told["changes"].as_array().unwrap().is_empty());
    let first = &acquired["changes"][0];
    assert_eq!(
        (&first["change"], &first["lock"], &first["fence"]),
        (&json!("acquired"), &json!("jobs/1"), &held["fence"])
    );
    let page = api.get("/v1/locks?limit=2");
    let names = |page: &Value| -> Vec<String> {
        page["locks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|lock| lock["lock"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        (names(&page), &page["next"]),
        (vec!["jobs/1".to_owned(), "jobs/2".to_owned()], &json!("jobs/2"))
    );
    let holder = &page["locks"][0]["holders"][0];
    assert_eq!((&holder["who"], &holder["fence"]), (&json!("local (label \"backup.sh\")"), &held["fence"]));
    assert_eq!(
        (&page["locks"][0]["mode"], &page["locks"][0]["algorithm"]),
        (&json!("exclusive"), &json!("naimi-trehel"))
    );
    let rest = api.get("/v1/locks?limit=2&after=jobs%2F2");
    assert_eq!((names(&rest), &rest["next"]), (vec!["jobs/3".to_owned(), "other".to_owned()], &json!("")));
    assert_eq!(names(&api.get("/v1/locks?pattern=other")), ["other"]);
    for wrong in ["?limit=1001", "?limit=x", "?pattern=a*b", "?nonsense=1"] {
        let (code, error) = api.ask("GET", &format!("/v1/locks{wrong}"), "");
        assert_eq!((code, &error["code"]), (400, &json!("bad_request")), "{wrong}: {error}");
    }
    api.post("/v1/locks/jobs%2F1/break", &json!({}));
    let is_broken =
        |told: &Value| told["changes"].as_array().unwrap().iter().any(|change| change["change"] == "broken");
    changes.find("it is broken", is_broken);
}

#[test]
fn sessions_that_wait_for_each_other_are_named_and_the_youngest_is_refused_where_the_rule_says_so() {
    let Some(api) = Api::start() else { return };
    let session = || api.post("/v1/sessions", &json!({ "label": "transfer" })).1["session"].clone();
    let (first, second) = (session(), session());
    let acquire = |lock: &str, session: &Value| {
        api.stream("POST", &format!("/v1/locks/{lock}/acquire"), &json!({ "session": session }).to_string())
    };
    acquire("a", &first).next();
    acquire("b", &second).next();
    assert_eq!(api.get("/v1/deadlocks"), json!({ "deadlocks": [], "missing": [], "complete": true }));
    let mut waits = acquire("b", &first);
    api.until_waiting("b", 1);
    let mut refused = acquire("a", &second);
    api.until_waiting("a", 1);
    let found = api.get("/v1/deadlocks");
    let sessions = found["deadlocks"][0]["sessions"].as_array().unwrap();
    let locks = |of: &str| -> Vec<&str> {
        sessions.iter().map(|stuck| stuck[of][0]["lock"].as_str().unwrap()).collect()
    };
    assert_eq!((sessions.len(), &found["complete"]), (2, &json!(true)));
    assert!([["a", "b"], ["b", "a"]].contains(&[locks("holds")[0], locks("waits")[0]]), "{found}");
    assert_eq!(sessions[0]["who"], "local (label \"transfer\")");
    let rules = json!({ "rules": [{ "pattern": "", "algorithm": "naimi-trehel:on-deadlock=refuse" }] });
    assert_eq!(api.ask("PUT", "/v1/rules", &rules.to_string()).0, 200);
    assert_eq!(refused.next()["code"], "deadlock");
    let released = api.post("/v1/locks/b/release", &json!({ "session": second }));
    assert_eq!(released, (200, json!({ "held": true })));
    assert_eq!(waits.next()["lock"], "b");
}

#[test]
fn a_session_that_has_lost_a_lock_cannot_be_kept_alive() {
    let Some(api) = Api::start() else { return };
    let (_, held) = api.post("/v1/locks/a/acquire", &json!({}));
    let session = held["session"].as_str().unwrap();
    api.post("/v1/locks/a/break", &json!({}));
    let alive = api.post(&format!("/v1/sessions/{session}/keep-alive"), &json!({}));
    assert_eq!((alive.0, &alive.1["code"]), (404, &json!("no_session")));
    // Clients of etcd see that such a lease has expired.
    let lease = i64::from_str_radix(session, 16).unwrap();
    let alive = api.post("/v3/lease/keepalive", &json!({ "ID": lease }));
    assert_eq!((alive.0, &alive.1["result"]["TTL"]), (200, &Value::Null), "{alive:?}");
}

#[test]
fn a_semaphore_has_as_many_holders_as_permits_and_leaves_nothing_behind() {
    let Some(api) = Api::start() else { return };
    let two = json!({ "permits": 2, "try": true });
    let (first, second) =
        (api.post("/v1/locks/pool/acquire", &two), api.post("/v1/locks/pool/acquire", &two));
    assert_eq!((first.0, second.0), (200, 200), "{first:?} {second:?}");
    assert_eq!(api.post("/v1/locks/pool/acquire", &two).1["code"], "busy");
    for (other, expects) in [(json!({ "permits": 3 }), "expects 3"), (json!({}), "expects 1")] {
        let (status, refused) = api.post("/v1/locks/pool/acquire", &other);
        assert_eq!((status, &refused["code"]), (412, &json!("permits")), "{refused}");
        let message = refused["message"].as_str().unwrap();
        assert!(
            message.contains("'pool' is in use with 2 permits") && message.contains(expects),
            "{message}"
        );
    }
    assert_eq!(api.get("/v1/locks/pool")["permits"], 2);
    for held in [first, second] {
        let session = json!({ "session": held.1["session"] });
        assert_eq!(api.post("/v1/locks/pool/release", &session).0, 200);
    }
    let rules = api.get("/v1/rules");
    assert_eq!(rules["rules"].as_array().map(Vec::len), Some(1), "only the default: {rules}");
    assert_eq!(api.post("/v1/locks/pool/acquire", &json!({ "try": true })).0, 200);
    let (code, none) = api.ask("PUT", "/v1/rules", r#"{"rules":[]}"#);
    assert_eq!((code, &none["code"]), (400, &json!("bad_request")));
    let (_, changed) = api.ask("PUT", "/v1/rules", r#"{"rules":[{"algorithm":"raymond"}]}"#);
    assert_eq!(changed["rules"][0]["algorithm"], "raymond");
}

#[test]
fn invalid_requests_are_rejected_with_a_code_and_a_message() {
    let limits = ApiLimits { sessions: 2, ..ApiLimits::default() };
    let Some(api) = Api::with(limits) else { return };
    for (path, body, code) in [
        ("/v1/locks/a/acquire", "{", "bad_request"),
        ("/v1/locks/a/acquire", r#"{"waits":3}"#, "bad_request"),
        ("/v1/locks/a/acquire", r#"{"try":true,"wait_ms":3}"#, "bad_request"),
        ("/v1/locks/a/acquire", r#"{"permits":0}"#, "bad_request"),
        ("/v1/locks/a/acquire", r#"{"ttl_ms":1}"#, "bad_request"),
        ("/v1/locks/a/acquire", r#"{"session":"zz"}"#, "no_session"),
        ("/v1/locks/a/acquire", r#"{"session":"77"}"#, "no_session"),
        ("/v1/locks/a/release", "{}", "no_session"),
        ("/v1/sessions", r#"{"label":"a\u001bb"}"#, "bad_request"),
        ("/v1/nothing", "{}", "no_such_path"),
    ] {
        let (status, fault) = api.ask("POST", path, body);
        assert_eq!(fault["code"], code, "{path} {body}: {fault}");
        assert!((400..500).contains(&status) && fault["message"].as_str().unwrap().len() > 20, "{fault}");
    }
    let long = format!("/v1/locks/{}/acquire", "x".repeat(256));
    assert!(api.post(&long, &json!({})).1["message"].as_str().unwrap().contains("at most 255"));
    let huge = format!(r#"{{"label":"{}"}}"#, "x".repeat(100_000));
    assert_eq!(api.ask("POST", "/v1/sessions", &huge).0, 413);
    for _ in 0..2 {
        assert_eq!(api.post("/v1/sessions", &json!({})).0, 200);
    }
    let (status, fault) = api.post("/v1/sessions", &json!({}));
    assert_eq!((status, &fault["code"]), (429, &json!("too_many")), "{fault}");
}

#[test]
fn health_status_and_the_api_description_are_served() {
    let Some(api) = Api::start() else { return };
    assert_eq!(api.get("/healthz")["ok"], true);
    // Calls that wait for the node are answered when it is ready.
    api.post("/v1/locks/a/acquire", &json!({}));
    assert_eq!(api.get("/readyz")["ok"], true);
    let status = api.get("/v1/status");
    assert_eq!(
        (&status["site"], &status["members"], &status["ready"]),
        (&json!("local"), &json!(["local"]), &json!(true))
    );
    assert_eq!(api.get("/openapi.json")["info"]["title"], "Meshlock");
    let voters = &status["voters"];
    assert_eq!((&voters["quorum"], &voters["failures_survived"]), (&json!(1), &json!(0)), "{voters}");
    assert_eq!(voters["voters"][0], json!({ "site": "local", "number": "1", "state": "up" }));
}

#[test]
fn the_voters_are_changed_and_a_machine_is_told_whether_it_may_stop_its_site() {
    let Some(api) = Api::start() else { return };
    api.post("/v1/locks/a/acquire", &json!({}));
    let (status, probe) = api.ask("GET", "/healthz?cluster", "");
    assert_eq!((status, &probe["cluster"]["voters_up"]), (200, &json!(1)), "{probe}");
    let (status, probe) = api.ask("GET", "/healthz?cluster=may-stop", "");
    assert_eq!((status, &probe["cluster"]["may_stop"]), (503, &json!(false)), "it is the only one: {probe}");
    let (status, voters) = api.post("/v1/voters", &json!({ "promote": "local" }));
    assert_eq!((status, &voters["up"]), (200, &json!(1)), "it votes already: {voters}");
    let (status, fault) = api.post("/v1/voters", &json!({ "promote": "b", "demote": "c" }));
    assert_eq!((status, &fault["code"]), (412, &json!("voters")), "{fault}");
    assert!(fault["message"].as_str().unwrap().starts_with("c does not vote"), "{fault}");
    for body in [json!({}), json!({ "promote": "not a name" }), json!({ "promote": 7 })] {
        let (status, fault) = api.post("/v1/voters", &body);
        assert_eq!((status, &fault["code"]), (400, &json!("bad_request")), "{fault}");
    }
}

#[test]
fn without_a_quorum_every_api_says_that_the_lock_is_not_available_and_why() {
    let Some(api) = Api::of(&["a", "b", "c"], ApiLimits::default()) else { return };
    let why = "a is not a member of the cluster: 1 of 3 voters is reachable";
    for wait in [json!({ "try": true }), json!({ "wait_ms": 20 })] {
        let (status, said) = api.post("/v1/locks/jobs/acquire", &wait);
        assert_eq!((status, &said["code"]), (503, &"unavailable".into()), "{wait}: {said}");
        assert!(said["message"].as_str().unwrap().ends_with(why), "{said}");
    }
    let (_, session) = api.ask("PUT", "/v1/session/create", "");
    let session = session["ID"].as_str().unwrap();
    let (status, said) = api.ask("PUT", &format!("/v1/kv/jobs?acquire={session}"), "");
    assert_eq!((status, said), (503, format!("meshlock: {why}").into()), "Consul");
    let (status, said) = api.post("/v1/locks/jobs/break", &json!({}));
    assert_eq!((status, &said["code"]), (503, &"unavailable".into()), "{said}");
}

#[test]
fn a_site_without_a_majority_reports_it() {
    let Some(api) = Api::of(&["a", "b", "c"], ApiLimits::default()) else { return };
    assert_eq!(api.ask("GET", "/healthz", "").0, 200);
    let (code, ready) = api.ask("GET", "/readyz", "");
    assert_eq!((code, &ready["ok"]), (503, &json!(false)), "{ready}");
    assert_eq!(ready["cluster"]["failures_survived"], -1, "{ready}");
    assert_eq!(api.ask("GET", "/healthz?cluster", "").0, 503);
    // Clients of etcd may ask for an error at once if there is no leader. Others are told so after a while, because nothing can be promised.
    let grant = |header: &str| {
        let output = api.curl("/v3/lease/grant").args(["-d", r#"{"TTL":5}"#, "-H", header]).output_in_time();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    assert_eq!(grant("Grpc-Metadata-hasleader: true")["message"], "etcdserver: no leader");
    assert_eq!(grant("Accept: */*")["message"], "etcdserver: no leader");
}

#[test]
fn without_tls_and_rules_only_this_machine_is_served() {
    let site: meshlock_cluster::names::SiteName = "local".parse().unwrap();
    let engine = Engine::start(NodeSetup::new(Config::new(site.clone(), vec![site]))).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let setup = meshlock_service::ApiSetup { listener, limits: ApiLimits::default() };
    let error = Serving::start(&Front::new((*engine).clone(), Arc::default()), setup).unwrap_err();
    assert!(matches!(error, ServeError::Open(_)));
    assert!(error.to_string().contains("open to everyone who reaches 0.0.0.0:"), "{error}");
}

#[test]
fn locks_of_api_clients_are_free_when_the_api_has_stopped_and_they_cannot_believe_in_them_any_more() {
    let Some(Api { serving, _engine: engine }) = Api::start() else { return };
    let address = serving.address();
    let held = Command::new("curl")
        .args(["-s", "-d", "{}", &format!("http://{address}/v1/locks/a/acquire")])
        .output_in_time();
    assert!(held.status.success());
    assert_eq!(engine.look(|node| node.table().counts().holders), 1);
    drop(serving);
    assert_eq!(engine.look(|node| node.table().counts().holders), 1);
    eventually("the lock is free", || engine.look(|node| node.table().counts().holders) == 0);
}

#[test]
fn the_time_to_live_of_a_session_that_a_lock_opened_begins_with_the_grant() {
    let Some(api) = Api::start() else { return };
    let mut hold = api.stream("POST", "/v1/locks/a/hold", "");
    hold.next();
    let mut waiting = api.stream("POST", "/v1/locks/a/acquire", r#"{"ttl_ms":500}"#);
    api.until_waiting("a", 1);
    // For longer than the time to live, on the clock of the site.
    let waited =
        || api.get("/v1/locks/a")["waiters"][0]["waited_ms"].as_str().unwrap().parse::<u64>().unwrap();
    eventually("it has waited for longer than that", || waited() >= 700);
    drop(hold);
    let grant = waiting.next();
    assert_eq!(grant["ttl_ms"], 500, "{grant}");
    assert!((1..=500).contains(&grant["safe_ms"].as_u64().unwrap()), "{grant}");
}

#[test]
fn clients_are_told_how_long_a_lock_is_safe_which_is_never_longer_than_the_lease_of_their_site() {
    let Some(api) = Api::start() else { return };
    let lease = meshlock_cluster::lease::Terms::default().length.micros() / 1000;
    let mut hold = api.stream("POST", "/v1/locks/a/hold", "");
    let granted = hold.next()["granted"].clone();
    let path = format!("/v1/sessions/{}/keep-alive", granted["session"].as_str().unwrap());
    let (_, session) = api.post(&path, &json!({}));
    let (_, long) = api.post("/v1/sessions", &json!({ "ttl_ms": 3_600_000 }));
    for told in [&granted, &hold.next()["still"], &session, &long] {
        let safe = told["safe_ms"].as_u64().unwrap();
        assert!((1..=lease).contains(&safe), "{told}");
    }
}
