//! Access rules of the configuration, and the audit log.

use std::fs;
use std::path::Path;
use std::process::Command;

use meshlock_testing::{BoundedCommand, eventually, needs_program};
use rustix::process::Signal;
use serde_json::Value;

use super::site::{Files, Process, fails, json, meshlock, output, says};

/// Returns the answer to a request of curl for a path of the API, with a token or without.
fn ask(address: &str, token: Option<&str>, path: &str) -> Value {
    let mut curl = Command::new("curl");
    curl.args(["-s", "--max-time", "60", "-d", "{}", &format!("http://{address}{path}")]);
    if let Some(token) = token {
        curl.args(["-H", &format!("Authorization: Bearer {token}")]);
    }
    serde_json::from_slice(&curl.output_in_time().stdout).unwrap()
}

fn lines(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn tokens_rules_and_the_audit_log_follow_the_configuration_and_are_reloaded() {
    if !needs_program("curl") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let made = json(home.path(), &["token", "new", "bot"]);
    let (token, hash) = (made["token"].as_str().unwrap(), made["sha256"].as_str().unwrap());
    let config = home.path().join("a.toml");
    let write = |verbs: &str| {
        let rules = format!("[[access]]\nprincipal = 'bot'\nlocks = 'jobs'\nverbs = [{verbs}]\n");
        let closed = "[[access]]\nprincipal = 'local'\nlocks = '*'\nverbs = []\n";
        let tokens = format!("[[tokens]]\nname = 'bot'\nsha256 = '{hash}'\n");
        fs::write(&config, format!("api = '127.0.0.1:0'\naudit = 'audit.jsonl'\n{rules}{closed}{tokens}"))
            .unwrap();
    };
    write("'acquire'");
    let mut command = meshlock(home.path());
    command.args(["node", "--config"]).arg(&config);
    let mut node = Process::start(command, home.path().join("log"));
    let line = node.line();
    let address = line.rsplit_once("; API: ").expect("it says where").1;

    let held = ask(address, Some(token), "/v1/locks/jobs/acquire");
    assert!(held["fence"].is_string(), "{held}");
    assert_eq!(ask(address, Some(token), "/v1/locks/other/acquire")["code"], "denied");
    assert_eq!(ask(address, Some(token), "/v1/locks/jobs/break")["code"], "denied");
    assert_eq!(ask(address, None, "/v1/locks/jobs/acquire")["code"], "denied", "a rule closes the machine");
    assert_eq!(ask(address, Some("a guess"), "/v1/locks/jobs/acquire")["code"], "unauthenticated");
    // The rules do not apply to the user who runs the node.
    assert_eq!(json(home.path(), &["queue", "jobs"])["holders"].as_array().unwrap().len(), 1);

    write("'break'");
    node.signal(Signal::HUP);
    eventually("the new rules hold", || {
        ask(address, Some(token), "/v1/locks/jobs/acquire")["code"] == "denied"
    });
    let broken = ask(address, Some(token), "/v1/locks/jobs/break");
    assert_eq!(broken["cut_off"].as_array().unwrap().len(), 1, "{broken}");
    fs::write(&config, "[[access]]\nprincipal = 1").unwrap();
    node.signal(Signal::HUP);
    eventually("the log says what is wrong", || {
        node.log().contains("the access rules and tokens stay as they were")
    });
    assert_eq!(ask(address, Some(token), "/v1/locks/jobs/acquire")["code"], "denied");

    node.signal(Signal::TERM);
    assert!(node.end().success());
    let audit = lines(&home.path().join("audit.jsonl"));
    let of = |event: &str| audit.iter().filter(|line| line["event"] == event).cloned().collect::<Vec<_>>();
    let granted = of("granted");
    assert_eq!(granted.len(), 1, "{granted:?}");
    assert_eq!((&granted[0]["principal"], &granted[0]["lock"]), (&"bot".into(), &"jobs".into()));
    assert_eq!(granted[0]["fence"], held["fence"]);
    assert_eq!(of("broke")[0]["fences"][0], held["fence"]);
    assert!(
        of("denied").len() >= 4 && of("unknown").len() == 1 && !of("session-ended").is_empty(),
        "{audit:?}"
    );
    let secret = token.trim_start_matches("meshlock_");
    for file in ["audit.jsonl", "log"] {
        let text = fs::read_to_string(home.path().join(file)).unwrap();
        assert!(!text.contains(secret) && !text.contains("a guess"), "a token is in {file}");
    }
}

#[test]
fn rules_apply_to_client_certificates_over_a_network() {
    let rules = "clients = '127.0.0.1:0'\n\
                 [[access]]\nprincipal = 'ci'\nlocks = 'deploy/*'\nverbs = ['acquire', 'watch']\n\
                 [[access]]\nprincipal = 'ops'\nlocks = '*'\nverbs = ['watch', 'break', 'admin']\n";
    let files = Files::new(1, true, rules);
    for name in ["ci", "ops", "nobody"] {
        says(files.home(), &["ca", "issue", name, "--client", "--dir", &files.path("ca")]);
    }
    let node = files.start("a");
    let line = node.line();
    let address = line.rsplit_once(" and ").expect("it says where").1.to_owned();
    let run = |who: &str, arguments: &[&str]| {
        let (dir, place) = (files.path(&format!("ca/client-{who}")), address.as_str());
        let (flags, rest) =
            arguments.split_at(arguments.iter().position(|a| *a == "--").unwrap_or(arguments.len()));
        let all: Vec<&str> = flags
            .iter()
            .copied()
            .chain(["--node", place, "--certificate", &dir])
            .chain(rest.iter().copied())
            .collect();
        let output = output(files.home(), &all);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (who, arguments, denied) in [
        ("ci", &["run", "deploy/web", "--", "true"] as &[&str], None),
        ("ci", &["queue", "deploy/web"], None),
        ("ci", &["run", "other", "--", "true"], Some("'ci' may not acquire 'other'")),
        ("ci", &["queue", "other"], Some("'ci' may not watch 'other'")),
        ("ci", &["break", "deploy/web", "--yes"], Some("'ci' may not break 'deploy/web'")),
        ("ci", &["status"], None),
        ("ci", &["top", "--once"], Some("'ci' may not watch")),
        ("ci", &["rules", "set", "x", "raymond"], Some("'ci' may not ")),
        ("ci", &["run", "deploy/pool", "--permits", "3", "--", "true"], None),
        ("ops", &["status"], None),
        ("ops", &["rules", "set", "x", "raymond"], None),
        ("ops", &["run", "deploy/web", "--", "true"], Some("'ops' may not acquire 'deploy/web'")),
        (
            "nobody",
            &["run", "deploy/web", "--", "true"],
            Some("'nobody' may not acquire: no [[access]] rule"),
        ),
        ("nobody", &["status"], Some("'nobody' may not acquire: no [[access]] rule")),
    ] {
        let (code, error) = run(who, arguments);
        match denied {
            None => assert_eq!(code, Some(0), "{who} {arguments:?}: {error}"),
            Some(why) => assert!(code != Some(0) && error.contains(why), "{who} {arguments:?}: {error}"),
        }
    }
    assert!(node.log().contains("\"event\":\"denied\""), "the log has denials without being told so");
}

#[test]
fn a_token_is_printed_with_the_hash_to_store_and_invalid_names_are_rejected() {
    let home = tempfile::tempdir().unwrap();
    let text = says(home.path(), &["token", "new", "ci-1"]);
    assert!(text.contains("[[tokens]]\n  name = \"ci-1\"\n  sha256 = \""), "{text}");
    assert_ne!(text, says(home.path(), &["token", "new", "ci-1"]));
    let text = says(home.path(), &["token", "new", "ci-1", "--expires", "2030-01-31"]);
    assert!(text.contains("\"\n  expires = 2030-01-31T00:00:00Z\n"), "{text}");
    let error = fails(home.path(), 64, &["token", "new", "ci-1", "--expires", "soon"]);
    assert!(error.contains("'soon' is not a date such as 2027-01-31"), "{error}");
    let error = fails(home.path(), 64, &["token", "new", "local"]);
    assert!(error.contains("'local' means something else in access rules"), "{error}");
    let error = fails(home.path(), 64, &["token", "new", "a b"]);
    assert!(error.contains("'a b' cannot be the name of a client"), "{error}");
}
