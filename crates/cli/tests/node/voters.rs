//! Who votes changes while clients are served: the runbooks of docs/operating.md as they are written, and what is said before a site stops.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};

use meshlock_testing::eventually;
use rustix::process::Signal;

use super::load::{Load, hold, is_still_held};
use super::runbook::{Runbook, commands_of};
use super::site::{Files, Process, fails, json, output, says};

/// Only operators change the voters: what the runbooks do is not done by anybody else.
const FIXED: &str = "voters = 'fixed'\n";

/// Writes the configuration of a site that joins, as `meshlock site add` describes it.
fn write_joiner(files: &Files, name: &str) {
    write_joiner_with(files, name, FIXED);
}

fn write_joiner_with(files: &Files, name: &str, more: &str) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let first = fs::read_to_string(files.home().join("a.toml")).unwrap();
    let sites = first.lines().find(|line| line.starts_with("sites = ")).unwrap();
    let text = format!(
        "site = '{name}'\nlisten = '{address}'\nadvertise = '{address}'\ndata = 'data-{name}'\nsocket = '{name}.sock'\n\
         tls = 'off'\n{sites}\n{more}"
    );
    fs::write(files.home().join(format!("{name}.toml")), text).unwrap();
}

/// The sites that run.
type Sites = BTreeMap<String, Process>;

fn start(files: &Files, names: &[&str]) -> Sites {
    names.iter().map(|name| (*name).to_owned()).zip(files.start_all(names)).collect()
}

/// Runs the commands of a runbook, with `a` as the node that they ask, and starts and stops sites for them. Returns what they print.
fn run(files: &Files, sites: &mut Sites, text: &str) -> String {
    let variables = [("SITES", "a b c")];
    let runbook = Runbook { home: files.home(), asks: "a", words: &["start", "stop"], variables: &variables };
    runbook.run(text, |word, arguments| {
        let name = arguments[0];
        if word == "start" {
            let site = files.start(name);
            site.until_line(&format!("{name} is ready"));
            sites.insert(name.to_owned(), site);
        } else {
            let mut site = sites.remove(name).unwrap();
            site.signal(Signal::TERM);
            assert!(site.end().success(), "{}", site.log());
        }
        (String::new(), 0)
    })
}

/// Returns the names of the voters, and how many more failures can be survived, as the site says.
pub(crate) fn voters(files: &Files, site: &str) -> (Vec<String>, Option<u64>) {
    let list = json(files.home(), &["site", "list", "--socket", &files.path(&format!("{site}.sock"))]);
    let names = list["voters"]["voters"].as_array().unwrap();
    let names = names.iter().map(|voter| voter["site"].as_str().unwrap().to_owned()).collect();
    (names, list["voters"]["failures_survived"].as_u64())
}

pub(crate) fn until_survives(files: &Files, site: &str, failures: u64) {
    eventually(&format!("{site} says that {failures} can be survived"), || {
        voters(files, site).1 == Some(failures)
    });
}

#[test]
fn a_burned_machine_is_replaced_by_the_commands_of_the_document_and_another_one_can_be_stopped() {
    let files = Files::new(3, false, FIXED);
    let mut sites = start(&files, &["a", "b", "c"]);
    write_joiner(&files, "d");
    until_survives(&files, "a", 1);
    let (mut holder, fence) = hold(&files, "a");
    let load = Load::start(&files, &["a", "b"]);
    load.goes_on(&["a", "b"]);
    let mut burned = sites.remove("c").unwrap();
    burned.signal(Signal::KILL);
    burned.end();
    fs::remove_dir_all(files.home().join("data-c")).unwrap();
    until_survives(&files, "a", 0);
    let error = fails_or_says(&files, &["site", "may-stop", "b", "--socket", &files.path("a.sock")]);
    assert!(
        error.0 == Some(1) && error.1.contains("If b stops, the cluster stops: 1 of 3 voters"),
        "{error:?}"
    );

    let steps = commands_of("### Replacing a machine that is gone");
    assert_eq!(steps.len(), 2, "{steps:?}");
    let said = run(&files, &mut sites, &steps[0]);
    assert!(said.contains("d votes in the place of c."), "{said}");
    assert_eq!(voters(&files, "a"), (["a", "b", "d"].map(str::to_owned).to_vec(), Some(1)));
    load.goes_on(&["a", "b"]);
    run(&files, &mut sites, &steps[1]);
    load.goes_on(&["a", "b"]);
    is_still_held(&files, "a", &fence);
    until_survives(&files, "a", 1);

    // The burned site comes back with an empty disk, and does not vote.
    let c = files.start("c");
    c.until_line("c is ready");
    assert_eq!(voters(&files, "c").0, ["a", "b", "d"]);
    load.end();
    holder.signal(Signal::TERM);
    assert!(!holder.end().success() && !holder.log().contains("lost"), "{}", holder.log());
}

/// Runs a command that may fail. Returns its exit code and what it says on standard output.
fn fails_or_says(files: &Files, arguments: &[&str]) -> (Option<i32>, String) {
    let output = output(files.home(), arguments);
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn one_site_becomes_three_by_the_commands_of_the_document() {
    let files = Files::new(1, false, FIXED);
    let mut sites = start(&files, &["a"]);
    for name in ["b", "c"] {
        write_joiner(&files, name);
    }
    assert_eq!(voters(&files, "a"), (vec!["a".to_owned()], Some(0)));
    let (_holder, fence) = hold(&files, "a");
    let load = Load::start(&files, &["a"]);
    let steps = commands_of("### Growing from one site to three");
    assert_eq!(steps.len(), 1, "{steps:?}");
    let said = run(&files, &mut sites, &steps[0]);
    assert!(said.contains("b votes.") && said.contains("c votes."), "{said}");
    assert!(said.contains("3 voters (a, b, c), and 2 must be up. 1 more failure can be survived."), "{said}");
    load.goes_on(&["a"]);
    is_still_held(&files, "b", &fence);
    load.end();
}

#[test]
fn all_sites_are_restarted_by_the_commands_of_the_document_and_nobody_loses_a_lock() {
    let files = Files::new(3, false, FIXED);
    let mut sites = start(&files, &["a", "b", "c"]);
    until_survives(&files, "a", 1);
    let load = Load::start(&files, &["a", "b", "c"]);
    load.goes_on(&["a", "b", "c"]);
    let steps = commands_of("### Restarting all sites one after the other");
    assert_eq!(steps.len(), 1, "{steps:?}");
    let said = run(&files, &mut sites, &steps[0]);
    assert_eq!(
        said.matches(" may be stopped. Until it is back, no other voter may fail").count(),
        3,
        "{said}"
    );
    load.goes_on(&["a", "b", "c"]);
    load.end();
    for site in sites.values() {
        assert!(!site.log().contains("and with it the cluster"), "{}", site.log());
    }
}

#[test]
fn a_site_is_removed_for_good_by_the_commands_of_the_document() {
    let files = Files::new(3, false, FIXED);
    let mut sites = start(&files, &["a", "b", "c"]);
    write_joiner(&files, "d");
    sites.extend(start(&files, &["d"]));
    until_survives(&files, "a", 1);
    let (_holder, fence) = hold(&files, "a");
    let load = Load::start(&files, &["a", "b"]);
    let steps = commands_of("### Removing a site for good");
    assert_eq!(steps.len(), 1, "{steps:?}");
    let said = run(&files, &mut sites, &steps[0]);
    assert!(said.contains("d votes in the place of c.") && said.contains("c has left."), "{said}");
    let members = json(files.home(), &["site", "list", "--socket", &files.path("b.sock")]);
    assert_eq!(members["sites"].as_array().unwrap().len(), 3, "{members}");
    assert_eq!(voters(&files, "b"), (["a", "b", "d"].map(str::to_owned).to_vec(), Some(1)));
    load.goes_on(&["a", "b"]);
    is_still_held(&files, "b", &fence);
    load.end();
    // One that votes loses its vote with its place, and the command says what is left.
    let said = says(files.home(), &["site", "remove", "d", "--yes", "--socket", &files.path("a.sock")]);
    assert!(said.starts_with("d has left.") && said.contains("2 voters (a, b), and 2 must be up."), "{said}");
    let error = fails(files.home(), 64, &["site", "remove", "d", "--yes", "--socket", &files.path("a.sock")]);
    assert!(error.contains("d is not a member of the cluster; `meshlock site list`"), "{error}");
}

#[test]
fn a_voter_that_came_back_without_its_disk_is_not_counted_and_a_stop_that_ends_the_cluster_is_told_before_and_after()
 {
    let files = Files::new(3, false, &format!("{FIXED}api = '127.0.0.1:0'\n"));
    let mut sites = files.start_all(&["a", "b", "c"]);
    let (home, a) = (files.home(), files.path("a.sock"));
    until_survives(&files, "a", 1);
    let refused = |code, arguments: &[&str], why: &str| {
        let error = fails(home, code, &[arguments, &["--socket", &a]].concat());
        assert!(error.contains(why), "{arguments:?}: {error}");
    };
    refused(1, &["site", "promote", "d"], "d is not a member of the cluster; start it");
    assert!(
        says(home, &["site", "promote", "b", "--socket", &a]).starts_with("b votes.\n"),
        "it is so already"
    );
    refused(1, &["site", "replace", "a", "b"], "b votes already");
    refused(1, &["site", "demote", "d"], "d does not vote");
    refused(64, &["site", "may-stop", "z"], "z is neither a member of the cluster nor a voter");

    sites[2].signal(Signal::KILL);
    sites[2].end();
    fs::remove_dir_all(home.join("data-c")).unwrap();
    sites[2] = files.start("c");
    sites[2].until_line("c is ready");
    for site in ["a", "b", "c"] {
        until_survives(&files, site, 0);
    }
    let b = files.path("b.sock");
    let lost = "c is up, but has lost the disk with which it voted. No more failure";
    eventually("the leader says what c lacks", || says(home, &["status", "--socket", &b]).contains(lost));
    refused(1, &["site", "demote", "b"], "too few of the voters would be up");
    refused(1, &["site", "remove", "b", "--yes"], "b was not removed, because its vote cannot be taken away");
    let (code, said) = fails_or_says(&files, &["site", "may-stop", "b", "--json", "--socket", &a]);
    assert!(code == Some(1) && said.contains("\"may_stop\": false"), "{said}");
    assert_eq!(fails_or_says(&files, &["site", "may-stop", "c", "--socket", &a]).0, Some(0));
    // It gets a vote again, under another number, when it is promoted.
    says(home, &["site", "promote", "c", "--socket", &a]);
    until_survives(&files, "b", 1);
    let audited = sites[0].log();
    assert!(audited.contains("changed-voters") && audited.contains("promoted"), "{audited}");

    sites[2].signal(Signal::KILL);
    sites[2].end();
    until_survives(&files, "b", 0);
    sites[1].signal(Signal::TERM);
    sites[1].end();
    let log = sites[1].log();
    assert!(log.contains("WARN") && log.contains("this site stops, and with it the cluster"), "{log}");
    eventually("nothing can be survived", || voters(&files, "a").1.is_none());
    assert_eq!(fails_or_says(&files, &["site", "may-stop", "a", "--socket", &a]).0, Some(69));
    let error = fails(home, 69, &["site", "promote", "c", "--socket", &a]);
    assert!(error.contains("nothing was done"), "{error}");
}

/// The leader changes the voters as soon as it may: the two times are the shortest that the lease allows.
const AUTO: &str = "voters = 'auto'\npromote_voter_after = '6s'\nreplace_voter_after = '6s'\n[lease]\nlength = '3s'\n\
                    margin = '300ms'\nrenew_every = '500ms'\n";

#[test]
fn one_voter_becomes_three_by_itself_and_one_that_is_gone_is_replaced_while_clients_are_served() {
    let files = Files::new(1, false, AUTO);
    let mut sites = start(&files, &["a"]);
    for name in ["b", "c", "d"] {
        write_joiner_with(&files, name, AUTO);
    }
    let (_holder, fence) = hold(&files, "a");
    let load = Load::start(&files, &["a", "b"]);
    for name in ["b", "c"] {
        let site = files.start(name);
        site.until_line(&format!("{name} is ready"));
        sites.insert(name.to_owned(), site);
    }
    let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let votes = |names: &[&str]| {
        let expected = (of(names), Some(1));
        eventually(&format!("{names:?} vote"), || voters(&files, "a") == expected);
    };
    votes(&["a", "b", "c"]);
    load.goes_on(&["a", "b"]);
    // The fourth one is a member that does not vote, until one of the three is gone for long.
    let spare = files.start("d");
    spare.until_line("d is ready");
    assert_eq!(voters(&files, "d").0, of(&["a", "b", "c"]));
    let mut gone = sites.remove("c").unwrap();
    gone.signal(Signal::KILL);
    gone.end();
    votes(&["a", "b", "d"]);
    // It comes back as it was, and finds its place taken.
    let back = files.start("c");
    back.until_line("c is ready");
    assert_eq!(voters(&files, "c").0, of(&["a", "b", "d"]));
    load.goes_on(&["a", "b"]);
    is_still_held(&files, "d", &fence);
    load.end();
}
