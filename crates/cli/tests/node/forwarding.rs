//! Calls at another site than that of their session, over TLS: they are forwarded once, in the name of their client, and both sites
//! write them down.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;

use meshlock_testing::{BoundedCommand, eventually, needs_program};
use serde_json::{Value, json};

use super::site::{Files, Process, json as output_json, says};

/// Two clients that may do the same, so that only whose a session is tells them apart.
const RULES: &str = "[[access]]\nprincipal = 'alice'\nlocks = '*'\nverbs = ['acquire', 'watch']\n\
                     [[access]]\nprincipal = 'bob'\nlocks = '*'\nverbs = ['acquire', 'watch']\n";

const SITES: [&str; 3] = ["a", "b", "c"];

/// Three sites with certificates, an API and an audit log each.
struct Protected {
    files: Files,
    apis: Vec<SocketAddr>,
    _sites: Vec<Process>,
}

impl Protected {
    fn start() -> Self {
        let listeners: Vec<TcpListener> =
            SITES.iter().map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
        let apis: Vec<SocketAddr> = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
        let files = Files::new(SITES.len(), true, RULES);
        for client in ["alice", "bob"] {
            says(files.home(), &["ca", "issue", client, "--client", "--dir", &files.path("ca")]);
        }
        for (site, api) in SITES.iter().zip(&apis) {
            let config = files.path(&format!("{site}.toml"));
            let text = fs::read_to_string(&config).unwrap();
            fs::write(&config, format!("api = '{api}'\naudit = '{site}.jsonl'\n{text}")).unwrap();
        }
        drop(listeners);
        let sites = files.start_all(&SITES);
        let cluster = Protected { files, apis, _sites: sites };
        eventually("all sites take part", || {
            let list = output_json(
                cluster.files.home(),
                &["site", "list", "--socket", &cluster.files.path("a.sock")],
            );
            list["sites"].as_array().map(Vec::len) == Some(SITES.len())
        });
        cluster
    }

    /// Returns the command for a call of a client at a site.
    fn curl(&self, site: &str, who: &str, path: &str) -> Command {
        let at = SITES.iter().position(|name| *name == site).unwrap();
        let file = |name: &str| self.files.path(&format!("ca/client-{who}/{name}"));
        let mut curl = Command::new("curl");
        // The certificates of the sites name no hosts. The client's is what is tested.
        curl.args(["-sk", "--max-time", "60", "--cert", &file("cert.pem"), "--key", &file("key.pem")]);
        curl.arg(format!("https://{}{path}", self.apis[at]));
        curl
    }

    /// Returns the answer to a call.
    fn post(&self, site: &str, who: &str, path: &str, body: &Value) -> Value {
        let output = self.curl(site, who, path).args(["-d", &body.to_string()]).output_in_time();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }

    /// Returns the lines of a site's audit log about forwarded calls: what happened, the other site, whose call it was, the call, and
    /// the number of the request.
    fn audited(&self, site: &str) -> Vec<[String; 5]> {
        let text = fs::read_to_string(self.files.path(&format!("{site}.jsonl"))).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let forwarded = lines.filter(|line| line["event"] == "forwarded" || line["event"] == "received");
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let fields = |line: Value| {
            let other = if line["event"] == "forwarded" { &line["to"] } else { &line["by"] };
            [&line["event"], other, &line["principal"], &line["call"], &line["request"]].map(word)
        };
        forwarded.map(fields).collect()
    }

    /// Returns a number of the metrics of a site, added up over all labels.
    fn metric(&self, site: &str, name: &str) -> u64 {
        let output = self.curl(site, "alice", "/metrics").output_in_time();
        let metrics = String::from_utf8(output.stdout).unwrap();
        assert!(metrics.contains(name), "{metrics}");
        metrics
            .lines()
            .filter(|line| line.starts_with(name))
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum()
    }
}

#[test]
fn a_client_cannot_touch_the_session_of_another_through_any_site_and_both_sites_audit_the_call() {
    if !needs_program("curl") {
        return;
    }
    let cluster = Protected::start();
    let opened = cluster.post("a", "alice", "/v1/sessions", &json!({ "ttl_ms": 60_000 }));
    let session = opened["session"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned();
    let held = cluster.post("b", "alice", "/v1/locks/jobs/acquire", &json!({ "session": session }));
    assert!(held["fence"].is_string(), "{held}");
    let lease = cluster.post("a", "alice", "/v3/lease/grant", &json!({ "TTL": 60 }))["ID"].clone();
    for site in SITES {
        let alive = format!("/v1/sessions/{session}/keep-alive");
        assert_eq!(cluster.post(site, "bob", &alive, &json!({}))["code"], "no_session", "{site}");
        let released = cluster.post(site, "bob", "/v1/locks/jobs/release", &json!({ "session": session }));
        assert_eq!(released["code"], "not_held", "{site}: {released}");
        let revoked = cluster.post(site, "bob", "/v3/lease/revoke", &json!({ "ID": lease }));
        assert_eq!(revoked["message"], "etcdserver: requested lease not found", "{site}: {revoked}");
        assert_eq!(cluster.post(site, "alice", &alive, &json!({}))["locks"][0], "jobs", "{site}");
    }
    let given = cluster.post("c", "alice", "/v1/locks/jobs/release", &json!({ "session": session }));
    assert_eq!(given["held"], true, "it was alice's all the time: {given}");
    let acquired = ["POST /v1/locks/jobs/acquire", "POST /v1/locks/jobs/release"];
    for (site, call) in ["b", "c"].into_iter().zip(acquired) {
        let is_of_alice = |line: &&[String; 5]| line[2] == "alice" && line[3] == call;
        let (here, there) = (cluster.audited(site), cluster.audited("a"));
        let here: Vec<_> = here.iter().filter(is_of_alice).collect();
        let there: Vec<_> = there.iter().filter(is_of_alice).collect();
        let ([here], [there]) = (here.as_slice(), there.as_slice()) else { panic!("{here:?} {there:?}") };
        assert_eq!((&*here[0], &*here[1]), ("forwarded", "a"));
        assert_eq!((&*there[0], &*there[1]), ("received", site));
        assert_eq!(here[4], there[4], "both have the number of the same request");
    }
}

#[test]
fn a_forwarded_call_is_not_forwarded_again() {
    if !needs_program("curl") {
        return;
    }
    let cluster = Protected::start();
    let session_at = |site: &str| {
        let opened = cluster.post(site, "alice", "/v1/sessions", &json!({ "ttl_ms": 60_000 }));
        opened["session"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned()
    };
    let alive = |site: &str, session: &str| {
        cluster.post(site, "alice", &format!("/v1/sessions/{session}/keep-alive"), &json!({}))
    };
    // Chosen numbers do not name their site: every site has to find it, and remembers where it was.
    let lease = json!({ "ID": "77" });
    cluster.post("a", "alice", "/v3/lease/grant", &json!({ "TTL": 60, "ID": "77" }));
    for site in ["b", "c"] {
        let found = cluster.post(site, "alice", "/v3/lease/timetolive", &lease);
        assert_ne!(found["TTL"], "-1", "{site}: {found}");
    }
    assert!(cluster.post("a", "alice", "/v3/lease/revoke", &lease)["header"].is_object());
    // The sites b and c still believe that a has it, and a does not: nobody passes the call on in turn.
    for site in ["b", "c"] {
        let gone = cluster.post(site, "alice", "/v3/lease/revoke", &lease);
        assert_eq!(gone["message"], "etcdserver: requested lease not found", "{gone}");
    }
    for (home, other, third) in [("a", "b", "c"), ("b", "c", "a"), ("c", "a", "b")] {
        let session = session_at(home);
        let count = |site: &str| {
            let counts = ["meshlock_forwarded_calls_total", "meshlock_executed_calls_total"];
            counts.map(|name| cluster.metric(site, name))
        };
        let before = [home, other, third].map(count);
        assert_eq!(alive(other, &session)["session"], json!(session));
        let after = [home, other, third].map(count);
        let [at_home, at_other, at_third] =
            [0, 1, 2].map(|site| [0, 1].map(|kind| after[site][kind] - before[site][kind]));
        assert_eq!((at_other, at_home), ([1, 0], [0, 1]), "forwarded once, and executed once");
        assert_eq!(at_third, [0, 0], "nobody else has heard of it");
    }
    for site in SITES {
        let lines = cluster.audited(site);
        let received: Vec<&String> =
            lines.iter().filter(|line| line[0] == "received").map(|line| &line[4]).collect();
        let sent_on =
            lines.iter().filter(|line| line[0] == "forwarded" && received.contains(&&line[4])).count();
        assert_eq!(sent_on, 0, "{site}: {lines:?}");
    }
}
