//! etcd's API at different sites of one cluster: what each site sees of the others' clients. `any_site.rs` has calls of one client at all
//! sites.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::Config;
use meshlock_host::front::Front;
use meshlock_host::{Engine, NodeSetup};
use meshlock_service::Serving;
use meshlock_testing::{BoundedChild, BoundedCommand, Lines, eventually, in_time, joined, needs_program};
use meshlock_wire::sites::{VERSIONS, Versions};
use serde_json::{Value, json};

use super::backend::serve;
use super::programs::client;

/// Three sites in this process, each with its API.
pub(crate) struct Cluster {
    pub(crate) sites: Vec<Site>,
}

/// A site that may have been killed.
pub(crate) struct Site {
    api: SocketAddr,
    pub(crate) running: Option<(Serving, Engine)>,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        Cluster::speaking([VERSIONS.1; 3])
    }

    /// Starts three sites that speak at most these versions of the format between sites.
    pub(crate) fn speaking(versions: [u16; 3]) -> Self {
        let names: Vec<SiteName> = (1..=3).map(|at| format!("site-{at}").parse().unwrap()).collect();
        let listeners: Vec<TcpListener> =
            names.iter().map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
        let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap().to_string());
        let book: BTreeMap<SiteName, String> = names.iter().cloned().zip(addresses).collect();
        let start = |((name, listener), version): ((&SiteName, TcpListener), u16)| {
            let mut config = Config::new(name.clone(), names.clone());
            config.address = book[name].parse().unwrap();
            let mut setup = NodeSetup::new(config);
            (setup.listen, setup.addresses) = (Some(listener), book.clone());
            setup.speaks = Versions::up_to(version);
            let engine = Engine::start(setup).unwrap();
            let serving = serve(&engine);
            Site { api: serving.address(), running: Some((serving, engine)) }
        };
        let cluster = Cluster { sites: names.iter().zip(listeners).zip(versions).map(start).collect() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for (_, engine) in cluster.sites.iter().flat_map(|site| &site.running) {
            let all = engine.until(|stand| stand.open && stand.members == 3);
            runtime.block_on(in_time("all sites take part", all));
        }
        cluster
    }

    pub(crate) fn address(&self, site: usize) -> String {
        self.sites[site - 1].api.to_string()
    }

    /// Ends a site without a word to anybody.
    pub(crate) fn kill(&mut self, site: usize) {
        let (serving, engine) = self.sites[site - 1].running.take().unwrap();
        // First the node, so that nothing that the service still says reaches anybody.
        drop(engine);
        drop(serving);
    }

    /// Lets a site leave, as when it is stopped by a signal.
    pub(crate) fn leave(&mut self, site: usize) -> Leaving {
        let (serving, engine) = self.sites[site - 1].running.take().unwrap();
        Leaving(std::thread::spawn(move || {
            let front = Front::new((*engine).clone(), Arc::default());
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let me = front.in_process();
            runtime.block_on(in_time("it leaves", front.leave(&me))).unwrap();
            drop(serving);
            drop(engine);
        }))
    }

    fn curl(&self, site: usize, path: &str, body: &Value) -> Command {
        let mut curl = Command::new("curl");
        let url = format!("http://{}{path}", self.address(site));
        curl.args(["-sN", "--max-time", "60", "-d", &body.to_string(), &url]).stdout(Stdio::piped());
        curl
    }

    pub(crate) fn post(&self, site: usize, path: &str, body: &Value) -> Value {
        let output = self.curl(site, path, body).output_in_time();
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| String::from_utf8_lossy(&output.stdout).into())
    }

    /// Waits until a client at the site waits for the lock.
    pub(crate) fn until_waits(&self, site: usize, lock: &str) {
        eventually(&format!("a client of site {site} waits for {lock}"), || {
            self.queue(site, lock)["waiters"][0]["site"] == format!("site-{site}")
        });
    }

    /// Returns the holders of a lock and its waiters, as a site knows them.
    pub(crate) fn queue(&self, site: usize, lock: &str) -> Value {
        let url = format!("http://{}/v1/locks/{lock}", self.address(site));
        let queue = Command::new("curl").args(["-s", "--max-time", "60", &url]).output_in_time();
        serde_json::from_slice(&queue.stdout).unwrap()
    }

    pub(crate) fn lease(&self, site: usize) -> String {
        let granted = self.post(site, "/v3/lease/grant", &json!({ "TTL": 100 }));
        granted["ID"].as_str().unwrap().to_owned()
    }

    /// Starts a request whose answer comes later, or line by line.
    pub(crate) fn begin(&self, site: usize, path: &str, body: &Value) -> Answer {
        let mut child = self.curl(site, path, body).spawn().unwrap();
        let lines = Lines::of(child.stdout.take().unwrap());
        Answer { child, lines }
    }
}

/// A site that leaves, until it has ended.
pub(crate) struct Leaving(JoinHandle<()>);

impl Leaving {
    pub(crate) fn until_left(self) {
        joined("the site has left", self.0);
    }
}

fn engine(cluster: &Cluster, site: usize) -> &Engine {
    &cluster.sites[site - 1].running.as_ref().unwrap().1
}

pub(crate) struct Answer {
    child: Child,
    lines: Lines,
}

impl Answer {
    pub(crate) fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.line("an answer")).unwrap()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.child.end();
    }
}

fn revision(answer: &Value) -> i64 {
    answer["header"]["revision"].as_str().unwrap_or_else(|| panic!("{answer}")).parse().unwrap()
}

/// "jobs" and a value, in base64.
pub(crate) const NAME: &str = "am9icw==";
pub(crate) const ALICE: &str = "YWxpY2U=";
pub(crate) const BOB: &str = "Ym9i";

#[test]
fn a_lock_goes_from_site_to_site_with_rising_fences() {
    if !needs_program("curl") {
        return;
    }
    let cluster = Cluster::start();
    let (first, second) = (cluster.lease(1), cluster.lease(2));
    let held = cluster.post(1, "/v3/lock/lock", &json!({ "name": NAME, "lease": first }));
    let mut waits = cluster.begin(2, "/v3/lock/lock", &json!({ "name": NAME, "lease": second }));
    // Meshlock's own API shows both.
    eventually("site 3 sees that a client of site 2 waits", || {
        let queue = cluster.queue(3, "jobs");
        assert_eq!(queue["holders"][0]["site"], "site-1", "{queue}");
        queue["waiters"][0]["site"] == "site-2"
    });
    cluster.post(1, "/v3/lease/revoke", &json!({ "ID": first }));
    let next = waits.next();
    assert!(revision(&next) > revision(&held), "{next} after {held}");
}

#[test]
fn etcdctl_waits_for_a_holder_at_another_site() {
    if !needs_program("etcdctl") {
        return;
    }
    let cluster = Cluster::start();
    let mut held = cluster.begin(1, "/v1/locks/jobs/hold", &json!({}));
    let fence: i64 = held.next()["granted"]["fence"].as_str().unwrap().parse().unwrap();
    let mut etcdctl = client("etcdctl")
        .env("ETCDCTL_API", "3")
        .args(["--endpoints", &cluster.address(2), "lock", "jobs", "--", "sh", "-c", "echo $ETCD_LOCK_REV"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = Lines::of(etcdctl.stdout.take().unwrap());
    // Once it waits, and sees the key before its own, the holder leaves.
    eventually("etcdctl waits", || engine(&cluster, 2).look(|node| node.table().counts().waiters) > 0);
    drop(held);
    let revision: i64 = lines.line("it runs its command").parse().unwrap();
    assert!(revision > fence);
    assert!(etcdctl.wait_in_time().success());
}

#[test]
fn a_leader_and_its_value_are_seen_at_every_site() {
    if !needs_program("curl") {
        return;
    }
    let cluster = Cluster::start();
    let (first, second) = (cluster.lease(1), cluster.lease(2));
    let campaign = |lease: &str, value: &str| json!({ "name": NAME, "lease": lease, "value": value });
    let leader = cluster.post(1, "/v3/election/campaign", &campaign(&first, ALICE))["leader"].clone();
    let seen = cluster.post(3, "/v3/election/leader", &json!({ "name": NAME }));
    let kv = &seen["kv"];
    assert_eq!(
        (&kv["value"], &kv["key"], &kv["lease"]),
        (&json!(ALICE), &leader["key"], &json!(first)),
        "{seen}"
    );
    let mut observed = cluster.begin(3, "/v3/election/observe", &json!({ "name": NAME }));
    assert_eq!(observed.next()["result"]["kv"]["value"], ALICE);
    let mut waits = cluster.begin(2, "/v3/election/campaign", &campaign(&second, BOB));
    cluster.post(1, "/v3/election/resign", &json!({ "leader": leader }));
    let next = waits.next();
    assert_eq!(observed.next()["result"]["kv"]["value"], BOB);
    let fence = |leader: &Value| leader["rev"].as_str().unwrap().parse::<i64>().unwrap();
    assert!(fence(&next["leader"]) > fence(&leader), "{next}");
}

#[test]
fn a_key_of_another_site_is_seen_watched_and_released() {
    if !needs_program("curl") {
        return;
    }
    let cluster = Cluster::start();
    let (first, second) = (cluster.lease(1), cluster.lease(2));
    // The clients of Python and Node.js do this.
    let lock = |lease: &str, value: &str| {
        json!({
            "compare": [{ "target": "CREATE", "key": NAME, "create_revision": "0" }],
            "success": [{ "request_put": { "key": NAME, "value": value, "lease": lease } }],
            "failure": [{ "request_range": { "key": NAME } }],
        })
    };
    assert_eq!(cluster.post(1, "/v3/kv/txn", &lock(&first, ALICE))["succeeded"], true);
    let busy = cluster.post(2, "/v3/kv/txn", &lock(&second, BOB));
    let kv = &busy["responses"][0]["response_range"]["kvs"][0];
    assert_eq!(
        (&busy["succeeded"], &kv["value"], &kv["lease"]),
        (&Value::Null, &json!(ALICE), &json!(first)),
        "{busy}"
    );
    let mut watch = cluster.begin(2, "/v3/watch", &json!({ "create_request": { "key": NAME } }));
    assert_eq!(watch.next()["result"]["created"], true);
    let release = json!({
        "compare": [{ "target": "VALUE", "key": NAME, "value": ALICE }],
        "success": [{ "request_delete_range": { "key": NAME } }],
    });
    assert_eq!(cluster.post(3, "/v3/kv/txn", &release)["succeeded"], true);
    assert_eq!(watch.next()["result"]["events"][0]["type"], "DELETE");
    assert_eq!(cluster.post(2, "/v3/kv/txn", &lock(&second, BOB))["succeeded"], true);
}
