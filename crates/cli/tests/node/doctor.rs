//! `meshlock doctor` with real processes: what it finds while the cluster works, and while it does not.

use std::fs;
use std::path::Path;

use meshlock_testing::{eventually, eventually_some};
use rustix::process::Signal;
use serde_json::Value;

use super::site::{Files, Process, meshlock, output, says};

/// Runs the doctor with `--json`. Returns its exit code and what it printed.
fn doctor(home: &Path, arguments: &[&str]) -> (i32, Value) {
    let arguments: Vec<&str> = ["doctor", "--json"].iter().chain(arguments).copied().collect();
    let output = output(home, &arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    let document =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{arguments:?}: {error}"));
    (output.status.code().unwrap(), document)
}

fn ids(document: &Value) -> Vec<&str> {
    let findings = document["findings"].as_array().unwrap();
    findings.iter().map(|finding| finding["id"].as_str().unwrap()).collect()
}

fn finding<'a>(document: &'a Value, id: &str) -> Option<&'a Value> {
    document["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == id)
}

#[test]
fn the_verdict_is_fine_then_a_warning_then_that_no_locks_are_granted_as_sites_are_killed() {
    let files = Files::new(3, true, "");
    let mut sites = files.start_all(&["a", "b", "c"]);
    let (socket, config) = (files.path("a.sock"), files.path("b.toml"));
    let by_socket: &[&str] = &["--socket", &socket];
    let by_file: &[&str] = &["--config", &config];
    for way in [by_socket, by_file] {
        let document = eventually_some(&format!("nothing is wrong, asked by {way:?}"), || {
            let (code, document) = doctor(files.home(), way);
            (code == 0).then_some(document)
        });
        assert_eq!((&document["verdict"], &document["may_fail"]), (&"fine".into(), &1.into()));
        let answers = document["sites"].as_array().unwrap();
        assert!(answers.len() == 3 && answers.iter().all(|site| site["serves"] == true), "{document}");
    }
    sites[2].signal(Signal::KILL);
    sites[2].end();
    for way in [by_socket, by_file] {
        eventually(&format!("the killed site is missed, asked by {way:?}"), || {
            let (code, document) = doctor(files.home(), way);
            let named = |id| finding(&document, id).is_some_and(|finding| finding["sites"][0] == "c");
            code == 1 && named("site-unreachable") && named("no-spare-voter")
        });
    }
    let tried = doctor(files.home(), by_socket).1;
    let tried = finding(&tried, "site-unreachable").unwrap()["what"].as_str().unwrap().to_owned();
    assert!(tried.contains("127.0.0.1:") && tried.contains("refused"), "{tried}");
    // The node that the file is of need not run.
    sites[1].signal(Signal::KILL);
    sites[1].end();
    for way in [by_socket, by_file] {
        eventually(&format!("no locks are granted, asked by {way:?}"), || {
            let (code, document) = doctor(files.home(), way);
            code == 2 && ids(&document).starts_with(&["locks-not-granted", "quorum-lost"])
        });
    }
    let page = output(files.home(), &["doctor", "--socket", &socket]);
    let page = String::from_utf8(page.stdout).unwrap();
    assert!(
        page.starts_with("Locks cannot be granted") && page.contains("\n  Next: Start the voters"),
        "{page}"
    );
    sites[0].signal(Signal::KILL);
    sites[0].end();
    let (code, document) = doctor(files.home(), by_file);
    assert_eq!((code, ids(&document)), (2, vec!["no-site-answers"]), "{document}");
    // A socket to which nobody listens is named, too.
    assert_eq!(doctor(files.home(), by_socket).0, 2);
}

#[test]
fn a_certificate_that_ends_soon_and_a_configuration_that_differs_are_found_with_their_sites() {
    let files = Files::new(2, true, "");
    fs::remove_dir_all(files.path("ca/site-b")).unwrap();
    says(files.home(), &["ca", "issue", "b", "--dir", &files.path("ca"), "--days", "3"]);
    let text = fs::read_to_string(files.path("b.toml")).unwrap();
    let more = "[lease]\nlength = '6s'\n[[access]]\nprincipal = 'x'\nlocks = '*'\nverbs = ['acquire']\n";
    // The terms of the first leader are agreed on, whichever that is.
    fs::write(files.path("b.toml"), format!("{text}{more}")).unwrap();
    let _sites = files.start_all(&["a", "b"]);
    let document = eventually_some("all of it is found", || {
        let (code, document) = doctor(files.home(), &["--socket", &files.path("a.sock")]);
        let all = ["certificate-ends", "access-rules-differ", "lease-terms-differ", "no-spare-voter"];
        (code == 1 && all.iter().all(|id| finding(&document, id).is_some())).then_some(document)
    });
    let found = finding(&document, "certificate-ends").unwrap();
    assert_eq!(found["sites"], serde_json::json!(["b"]), "{document}");
    assert!(found["next"].as_str().unwrap().contains("meshlock ca issue b"), "{found}");
}

#[test]
fn a_client_that_may_not_watch_everything_is_told_what_the_status_tells() {
    let more = "clients = '127.0.0.1:0'\n\
                [[access]]\nprincipal = 'ops'\nlocks = '*'\nverbs = ['watch']\n\
                [[access]]\nprincipal = 'app'\nlocks = 'app/*'\nverbs = ['acquire', 'watch']\n";
    let files = Files::new(1, true, more);
    let site = files.start("a");
    let address = site.line().rsplit_once(" and ").unwrap().1.to_owned();
    let certificate = |name: &str| {
        says(files.home(), &["ca", "issue", name, "--client", "--dir", &files.path("ca")]);
        files.path(&format!("ca/client-{name}"))
    };
    let ask = |name: &str| doctor(files.home(), &["--node", &address, "--certificate", &certificate(name)]);
    let (code, document) = ask("ops");
    assert_eq!((code, ids(&document)), (0, vec![]), "{document}");
    let (code, document) = ask("app");
    assert_eq!((code, ids(&document)), (1, vec!["report-missing"]), "{document}");
    assert_eq!(document["sites"][0]["program"], Value::Null);
    let nothing = ask("stranger").1;
    assert_eq!(ids(&nothing), ["no-site-answers"], "{nothing}");
}

#[test]
fn several_nodes_are_asked_at_once_and_the_one_that_is_gone_is_named_by_its_address() {
    let files = Files::new(2, false, "clients = '127.0.0.1:0'\n");
    let sites: Vec<Process> = ["a", "b"].iter().map(|site| files.start(site)).collect();
    let addresses: Vec<String> =
        sites.iter().map(|site| site.line().rsplit_once(" and ").unwrap().1.to_owned()).collect();
    // Nobody listens on the discard port of this machine.
    let list = format!("{},{},127.0.0.1:9", addresses[0], addresses[1]);
    let (code, document) = doctor(files.home(), &["--node", &list, "--plain"]);
    assert_eq!(code, 1, "{document}");
    assert_eq!(document["sites"].as_array().unwrap().len(), 3, "{document}");
    let what = finding(&document, "site-unreachable").unwrap()["what"].as_str().unwrap().to_owned();
    assert!(what.contains("127.0.0.1:9"), "{what}");
}

#[test]
fn without_any_node_the_exit_code_is_that_of_other_commands() {
    let home = tempfile::tempdir().unwrap();
    let mut command = meshlock(home.path());
    let none = meshlock_testing::BoundedCommand::output_in_time(command.arg("doctor"));
    assert_eq!(none.status.code(), Some(69), "{}", String::from_utf8_lossy(&none.stderr));
}
