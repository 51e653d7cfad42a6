//! Sites without a quorum, sites that stop, and a disk that is put back: what commands and logs say.

use std::fs;
use std::path::Path;

use meshlock_testing::{eventually, eventually_some};
use rustix::process::Signal;

use crate::site::{Files, Process, fails, json, output, says};

/// Leases that end soon.
const SHORT: &str = "[lease]\nlength = '2s'\nmargin = '200ms'\nrenew_every = '400ms'\n";

/// Starts three sites, and waits until all of them know all.
fn three(tls: bool, more: &str) -> (Files, Vec<Process>) {
    let files = Files::new(3, tls, more);
    let sites = files.start_all(&["a", "b", "c"]);
    for site in ["a", "b", "c"] {
        eventually("all take part", || {
            status(&files, site)["view"]["members"].as_array().unwrap().len() == 3
        });
    }
    (files, sites)
}

fn status(files: &Files, site: &str) -> serde_json::Value {
    json(files.home(), &["status", "--socket", &files.path(&format!("{site}.sock"))])
}

/// Returns the lines of a log that warn, or worse.
fn warnings(log: &str) -> Vec<&str> {
    log.lines().filter(|line| line.contains(" WARN ") || line.contains(" ERROR ")).collect()
}

#[test]
fn a_lock_that_a_required_audit_log_cannot_record_is_not_to_be_had_and_nobody_is_said_to_have_it() {
    let files = Files::new(1, false, "audit = '/dev/full'\naudit_required = true\n");
    let _site = files.start_all(&["a"]);
    let socket = files.path("a.sock");
    // The first line that cannot be written is noticed when it is written.
    let said = eventually_some("it is refused", || {
        let refused = output(files.home(), &["run", "jobs", "--try", "--socket", &socket, "--", "true"]);
        (!refused.status.success()).then_some(refused)
    });
    assert_eq!(said.status.code(), Some(69));
    let said = String::from_utf8(said.stderr).unwrap();
    assert!(said.contains("audit"), "{said}");
    for arguments in [&["break", "jobs", "--yes"][..], &["rules", "set", "pool", "raymond"]] {
        let error = fails(files.home(), 69, &[arguments, &["--socket", &socket]].concat());
        assert!(error.contains("audit log, which cannot be written now"), "{error}");
    }
}

#[test]
fn without_a_quorum_commands_say_so_and_nothing_takes_effect_later() {
    let (files, mut sites) = three(false, SHORT);
    let (home, a) = (files.home(), files.path("a.sock"));
    let run = |more: &[&str]| {
        let arguments = [&["run", "jobs"], more, &["--socket", &a, "--", "true"]].concat();
        let output = output(home, &arguments);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    sites[1].signal(Signal::STOP);
    sites[2].signal(Signal::STOP);
    let why = "a has no lease: 1 of 3 voters is reachable";
    let said = eventually_some("it says that there is no quorum", || {
        let (code, said) = run(&["--try"]);
        assert_ne!(code, Some(75), "nobody has the lock: {said}");
        said.contains(why).then_some((code, said))
    });
    assert_eq!(said, (Some(69), format!("meshlock: cannot get the lock 'jobs' now: {why}\n")));
    assert_eq!(run(&["--wait", "50ms"]), said);
    let error = fails(home, 69, &["break", "jobs", "--yes", "--socket", &a]);
    assert!(error.contains(why) && error.contains("nothing was done"), "{error}");
    let error = fails(home, 69, &["site", "remove", "b", "--yes", "--socket", &a]);
    assert!(error.contains(why) && error.contains("nothing was done"), "{error}");
    let error = fails(home, 69, &["rules", "set", "pool", "raymond", "--socket", &a]);
    assert!(error.contains(why) && error.contains("the rules were not changed"), "{error}");
    let log = sites[0].log();
    assert!(!log.contains("removed-site") && !log.contains("\"broke\""), "nothing happened: {log}");
    for line in ["the lease of this site has ended", "the quorum is lost"] {
        eventually(line, || warnings(&sites[0].log()).iter().any(|warning| warning.contains(line)));
    }
    sites[1].signal(Signal::CONT);
    sites[2].signal(Signal::CONT);
    for line in ["the quorum is regained", "this site has a lease again"] {
        eventually(line, || warnings(&sites[0].log()).iter().any(|warning| warning.contains(line)));
    }
    assert!(!says(home, &["rules", "show", "--socket", &a]).contains("pool"), "it was given up");
    // Once more, and now it is told to stop.
    sites[1].signal(Signal::STOP);
    sites[2].signal(Signal::STOP);
    eventually("its lease is over", || run(&["--try"]).1.contains("has no lease"));
    sites[0].signal(Signal::TERM);
    assert_eq!(sites[0].end().code(), Some(0), "{}", sites[0].log());
}

#[test]
fn a_site_that_fails_is_named_by_the_others() {
    let (_files, mut sites) = three(false, SHORT);
    sites[2].signal(Signal::KILL);
    sites[2].end();
    for site in &sites[..2] {
        eventually("it is named", || {
            warnings(&site.log())
                .iter()
                .any(|line| line.contains("a site was given up") && line.contains("member=c#"))
        });
    }
}

#[test]
fn a_clean_stop_warns_nobody_except_the_one_with_which_the_cluster_stops() {
    let (files, mut sites) = three(true, "");
    let mut before: Vec<usize> = sites.iter().map(|site| site.log().len()).collect();
    for (stopping, name) in [(2, "c"), (1, "b"), (0, "a")] {
        sites[stopping].signal(Signal::TERM);
        assert_eq!(sites[stopping].end().code(), Some(0));
        for (at, site) in ["a", "b"].iter().enumerate().filter(|(at, _)| *at < stopping) {
            eventually("it has left for all", || {
                let members = status(&files, site)["view"]["members"].to_string();
                !members.contains(&format!("\"{name}"))
            });
            let log = sites[at].log();
            assert!(log[before[at]..].contains("a site has left the cluster"), "{log}");
        }
        for (site, from) in sites.iter().zip(&mut before) {
            let log = site.log();
            let warned = warnings(&log[*from..]);
            // Without c, two of three voters are up, and with b the majority goes.
            let expected = |line: &&str| {
                line.contains("this site stops, and with it the cluster") && line.contains("site=b")
            };
            assert_eq!(warned.iter().filter(|line| !expected(line)).count(), 0, "{name} stops: {warned:?}");
            *from = log.len();
        }
    }
    assert!(sites[1].log().contains("this site stops, and with it the cluster"), "{}", sites[1].log());
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn a_disk_that_was_put_back_is_reported_at_its_site_and_nobody_else_is_blamed() {
    let (files, mut sites) = three(false, "");
    let leader = status(&files, "a")["leader"].as_str().unwrap().to_owned();
    let (at, name) = if leader == "c" { (1, "b") } else { (2, "c") };
    let data = files.home().join(format!("data-{name}"));
    let (old, socket) = (files.home().join("old"), files.path(&format!("{leader}.sock")));
    sites[at].signal(Signal::TERM);
    sites[at].end();
    copy(&data, &old);
    sites[at] = files.start_all(&[name]).remove(0);
    says(files.home(), &["rules", "set", "pool", "raymond", "--socket", &socket]);
    eventually("it has the new rules", || {
        let own = files.path(&format!("{name}.sock"));
        says(files.home(), &["rules", "show", "--socket", &own]).contains("pool")
    });
    sites[at].signal(Signal::TERM);
    sites[at].end();
    copy(&old, &data);
    let before = sites[at].log().len();
    sites[at] = files.start(name);
    let is_named = |log: &str| log[before..].contains("is older than what this site has confirmed");
    eventually("it says that its disk is old", || is_named(&sites[at].log()));
    let remedy = "put its newest disk back or empty its data directory";
    assert!(sites[at].log().contains(remedy), "{}", sites[at].log());
    for site in &sites {
        assert!(!site.log().contains("a peer sent something"), "nobody is blamed: {}", site.log());
    }
}
