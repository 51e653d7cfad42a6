//! `GET /metrics`, read with the parser of Prometheus' Python client, and compared with what a scenario did.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::Config;
use meshlock_host::front::Front;
use meshlock_host::{Engine, NodeSetup};
use meshlock_testing::{BoundedChild, BoundedCommand, needs_program};
use meshlock_tls::{Bearer, Identity, Security, ca};
use serde_json::{Value, json};

use super::other_sites::Cluster;
use super::programs::{prepared, run, text};
use super::promql::{Named, names};

/// Returns a Python that has the parser.
fn python() -> Option<PathBuf> {
    let fill = |dir: &Path| {
        run(Command::new("python3").args(["-m", "venv"]).arg(dir.join("env")))
            && run(Command::new(dir.join("env/bin/pip")).args([
                "install",
                "--quiet",
                "prometheus-client==0.23.1",
            ]))
    };
    if !needs_program("python3") || !needs_program("curl") {
        return None;
    }
    prepared("python-prometheus", fill).map(|dir| dir.join("env/bin/python"))
}

/// A page as the parser read it.
struct Page(BTreeMap<String, Value>);

impl Page {
    fn of(python: &Path, cluster: &Cluster, site: usize) -> Self {
        let url = format!("http://{}/metrics", cluster.address(site));
        let page = Command::new("curl").args(["-s", "--max-time", "60", &url]).output_in_time().stdout;
        Page::parse(python, &page)
    }

    /// Adds the metric that only a site with certificates exports.
    fn and_of_certificates(mut self, python: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        ca::init(dir.path(), 30).unwrap();
        let name: SiteName = "local".parse().unwrap();
        let files = ca::issue(dir.path(), &Bearer::Site(name.clone()), 30).unwrap();
        let mut setup = NodeSetup::new(Config::new(name.clone(), vec![name]));
        setup.trust = Security::Tls(Identity::load(&files).unwrap()).into();
        let engine = Engine::start(setup).unwrap();
        let front = Front::new((*engine).clone(), Arc::default());
        let page = Page::parse(python, meshlock_service::metrics_of(&front).as_bytes());
        self.0.extend(page.0.into_iter().filter(|(family, _)| family.starts_with("meshlock_certificate")));
        self
    }

    fn parse(python: &Path, page: &[u8]) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/metrics.py");
        let mut parser = Command::new(python)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        parser.stdin.take().unwrap().write_all(page).unwrap();
        let output = parser.output_in_time();
        assert!(output.status.success(), "{}\n{}", text(&output.stderr), text(page));
        Page(serde_json::from_slice(&output.stdout).unwrap())
    }

    fn samples(&self) -> impl Iterator<Item = &Value> {
        self.0.values().flat_map(|family| family["samples"].as_array().unwrap())
    }

    /// Returns the value of the series with this name that has these labels, among others.
    fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let fits = |sample: &&Value| {
            sample["name"] == name && labels.iter().all(|(label, value)| sample["labels"][label] == *value)
        };
        self.samples().filter(fits).map(|sample| sample["value"].as_f64().unwrap()).sum()
    }

    /// The same for a counter.
    fn count(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        self.value(name, labels).to_string().parse().expect("a whole number")
    }

    /// Returns the names of a series, and for each of its labels the values.
    fn series(&self) -> BTreeMap<&str, BTreeMap<&str, BTreeSet<&str>>> {
        let mut series: BTreeMap<&str, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
        for sample in self.samples() {
            let labels = series.entry(sample["name"].as_str().unwrap()).or_default();
            for (label, value) in sample["labels"].as_object().unwrap() {
                labels.entry(label).or_default().insert(value.as_str().unwrap());
            }
        }
        series
    }
}

/// Starts three sites and runs a scenario in which every metric changes: the first site passes a lock to the second and refuses it to
/// others.
fn busy_cluster() -> Cluster {
    let cluster = Cluster::start();
    let path = "/v1/locks/jobs/acquire";
    let held = cluster.post(1, path, &json!({ "label": "one" }));
    assert_eq!(cluster.post(1, path, &json!({ "try": true }))["code"], "busy");
    assert_eq!(cluster.post(1, path, &json!({ "wait_ms": 20 }))["code"], "timed_out");
    let mut waits = cluster.begin(2, path, &json!({ "label": "two" }));
    cluster.until_waits(2, "jobs");
    let session = json!({ "session": held["session"] });
    assert_eq!(cluster.post(1, "/v1/locks/jobs/release", &session)["held"], true);
    let session = waits.next()["session"].as_str().unwrap().to_owned();
    // At the second site it passes from one client to another, and is then broken.
    let mut next = cluster.begin(2, path, &json!({ "label": "three" }));
    cluster.until_waits(2, "jobs");
    cluster.post(2, "/v1/locks/jobs/release", &json!({ "session": session }));
    next.next();
    cluster.post(3, "/v1/locks/jobs/break", &json!({}));
    cluster
}

#[test]
fn exported_metrics_are_well_formed_and_agree_with_the_scenario() {
    let Some(python) = python() else { return };
    let cluster = busy_cluster();
    let (one, two) = (Page::of(&python, &cluster, 1), Page::of(&python, &cluster, 2));
    let outcome = |page: &Page, outcome| page.count("meshlock_acquisitions_total", &[("outcome", outcome)]);
    let outcomes = ["granted", "busy", "timed_out", "cancelled", "abandoned", "refused"];
    assert_eq!(outcomes.map(|name| outcome(&one, name)), [1, 1, 1, 0, 0, 0]);
    assert_eq!(outcomes.map(|name| outcome(&two, name)), [2, 0, 0, 0, 0, 0]);
    let waits = |served| two.count("meshlock_wait_seconds_count", &[("served", served)]);
    assert_eq!(["at_once", "here", "elsewhere"].map(waits), [0, 1, 1]);
    let hand_overs = |via| two.count("meshlock_hand_over_seconds_count", &[("via", via)]);
    assert_eq!(["here", "elsewhere"].map(hand_overs), [1, 1]);
    let took = two.value("meshlock_hand_over_seconds_sum", &[]);
    assert!(took > 0.0 && took < 10.0, "{took} s");
    assert_eq!(one.count("meshlock_hold_seconds_count", &[]), 1);
    assert_eq!((one.count("meshlock_holders", &[]), one.count("meshlock_waiters", &[])), (0, 0));
    assert_eq!(two.count("meshlock_lost_locks_total", &[("reason", "broken")]), 1);
    // The others have received what one site has sent.
    let pages = [&one, &two, &Page::of(&python, &cluster, 3)];
    let sum = |name| pages.iter().map(|page| page.count(name, &[("algorithm", "naimi-trehel")])).sum::<u64>();
    let (sent, received) = (sum("meshlock_messages_sent_total"), sum("meshlock_messages_received_total"));
    assert!(sent >= 2 && sent == received, "{sent} sent, {received} received");
    assert!(one.count("meshlock_peer_bytes_sent_total", &[("peer", "site-2")]) > 100);
    assert_eq!(one.count("meshlock_peer_wire_version", &[("peer", "site-2")]), 7);
    let everywhere = |name| pages.map(|page| page.count(name, &[]));
    assert_eq!(everywhere("meshlock_view_members"), [3; 3]);
    assert_eq!(everywhere("meshlock_in_view"), [1; 3]);
    assert_eq!(everywhere("meshlock_voters"), [3; 3]);
    assert_eq!(everywhere("meshlock_quorum"), [2; 3]);
    assert_eq!(everywhere("meshlock_failures_survived"), [1; 3]);
    assert_eq!(one.count("meshlock_voter_up", &[("voter", "site-2")]), 1);
    assert_eq!(everywhere("meshlock_leader").iter().sum::<u64>(), 1);
    assert!(
        pages
            .iter()
            .map(|page| page.value("meshlock_lease_left_seconds", &[]))
            .all(|left| left > 0.0 && left <= 5.0)
    );
    // Sessions of calls that failed.
    assert_eq!(one.count("meshlock_session_ends_total", &[("of", "api"), ("reason", "call_ended")]), 2);
    let calls = |code| one.count("meshlock_api_calls_total", &[("service", "http"), ("code", code)]);
    assert_eq!(["200", "409", "408"].map(calls)[1..], [1, 1]);
    assert!(calls("200") >= 2);
}

#[test]
fn the_dashboard_and_the_alerts_use_exactly_the_exported_metrics() {
    let Some(python) = python() else { return };
    let cluster = busy_cluster();
    let page = Page::of(&python, &cluster, 2).and_of_certificates(&python);
    let series = page.series();
    let mut used = BTreeSet::new();
    let (dashboard, alerts) = (expressions_of_the_dashboard(), expressions_of_the_alerts());
    assert!(dashboard.len() > 20 && alerts.len() > 4, "{} and {}", dashboard.len(), alerts.len());
    for expression in dashboard.iter().chain(&alerts) {
        let named = names(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
        assert!(!named.is_empty(), "{expression} names no metric");
        for Named { metric, labels } in named {
            let known =
                series.get(metric.as_str()).unwrap_or_else(|| panic!("{expression}: no series {metric}"));
            for (label, value) in labels {
                // Labels that Prometheus adds to everything that it scrapes.
                if matches!(label.as_str(), "instance" | "job") {
                    continue;
                }
                let values = known.get(label.as_str());
                let values = values.unwrap_or_else(|| panic!("{expression}: {metric} has no label {label}"));
                let found = value.as_ref().is_none_or(|value| values.contains(value.as_str()));
                assert!(found, "{expression}: {metric} has no {label} {value:?}, but {values:?}");
            }
            used.insert(metric);
        }
    }
    // Every exported metric is used.
    for (family, about) in &page.0 {
        let samples = about["samples"].as_array().unwrap();
        let shown = samples.iter().any(|sample| used.contains(sample["name"].as_str().unwrap()));
        assert!(shown, "{family} is on no panel and in no alert");
    }
}

#[test]
fn the_table_of_the_guide_lists_exactly_the_exported_metrics() {
    let Some(python) = python() else { return };
    let page = Page::of(&python, &busy_cluster(), 2).and_of_certificates(&python);
    let series = page.series();
    let row = |(family, about): (&String, &Value)| {
        let samples = about["samples"].as_array().unwrap();
        let of = |sample: &Value| sample["name"].as_str().unwrap().to_owned();
        let labels: BTreeSet<&str> =
            samples.iter().flat_map(|sample| series[of(sample).as_str()].keys().copied()).collect();
        let labels: Vec<String> =
            labels.into_iter().filter(|label| *label != "le").map(|label| format!("`{label}`")).collect();
        let suffix = match about["type"].as_str().unwrap() {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let (kind, help) = (about["type"].as_str().unwrap(), about["help"].as_str().unwrap());
        format!("| `{family}{suffix}` | {kind} | {} | {} |", labels.join(", "), help.trim_end_matches('.'))
    };
    let wanted: BTreeSet<String> = page.0.iter().map(row).collect();
    let guide = repository("docs/metrics.md");
    let listed: BTreeSet<String> =
        guide.lines().filter(|line| line.starts_with("| `meshlock_")).map(str::to_owned).collect();
    let wanted_text: Vec<&str> = wanted.iter().map(String::as_str).collect();
    assert_eq!(listed, wanted, "docs/metrics.md should have:\n{}", wanted_text.join("\n"));
}

fn repository(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn expressions_of_the_dashboard() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&repository("packaging/grafana/meshlock.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut found = Vec::new();
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let targets =
            panel["targets"].as_array().unwrap_or_else(|| panic!("{} asks nothing", panel["title"]));
        assert!(!targets.is_empty() && panel["description"].is_string(), "{}", panel["title"]);
        found.extend(targets.iter().map(|target| target["expr"].as_str().unwrap().to_owned()));
    }
    // The values of a variable are those of a label.
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        if let Some(query) = variable["query"]["query"].as_str() {
            let (metric, label) = query
                .strip_prefix("label_values(")
                .and_then(|query| query.strip_suffix(')')?.rsplit_once(", "))
                .unwrap_or_else(|| panic!("{query}"));
            found.push(format!("count by ({label}) ({metric})"));
        }
    }
    found
}

/// Every rule has what an operator needs: an expression, a duration, a severity and a description with the remedy.
fn expressions_of_the_alerts() -> Vec<String> {
    let file = repository("packaging/prometheus/alerts.yml");
    let rules: Vec<&str> = file.split("- alert: ").skip(1).collect();
    let expression = |rule: &&str| {
        let value = |key: &str| rule.lines().find_map(|line| line.trim().strip_prefix(key)).map(str::trim);
        for key in ["for:", "severity:", "summary:", "description:"] {
            assert!(value(key).is_some_and(|value| !value.is_empty()), "{key} is missing in\n{rule}");
        }
        value("expr:").unwrap_or_else(|| panic!("no expression in\n{rule}")).to_owned()
    };
    rules.iter().map(expression).collect()
}
