//! Watching a running cluster: `meshlock trace`, watchers that are too slow, and the lab's live page.

#[path = "../../../lab/tests/browser/driver/mod.rs"]
#[expect(dead_code, reason = "the lab's own tests use more of it")]
mod driver;

use std::collections::{BTreeMap, BTreeSet};

use meshlock_testing::{Deadline, WITHIN, eventually};
use meshlock_wire::clients::{ToClient, ToNode};
use rustix::process::Signal;
use serde_json::Value;

use crate::site::{Client, Files, Process, fails, json, meshlock, says};
use driver::{Browser, Engine};

fn cluster(files: &Files) -> Vec<Process> {
    let sites = files.start_all(&["a", "b", "c"]);
    for site in ["a", "b", "c"] {
        let arguments = ["site", "list", "--socket", &files.path(&format!("{site}.sock"))];
        eventually("all take part", || {
            json(files.home(), &arguments)["sites"].as_array().unwrap().len() == 3
        });
    }
    sites
}

/// Reads lines of a process until `enough` returns true, and returns them.
fn lines_until(process: &Process, mut enough: impl FnMut(&[Value]) -> bool) -> Vec<Value> {
    let (mut lines, deadline) = (Vec::new(), Deadline::default());
    while !enough(&lines) {
        deadline.check(&format!("all lines; so far: {lines:?}"));
        lines.push(serde_json::from_str(&process.line()).expect("a JSON object a line"));
    }
    lines
}

fn count(lines: &[Value], kind: &str) -> usize {
    lines.iter().filter(|line| line["kind"] == kind).count()
}

fn text<'a>(line: &'a Value, name: &str) -> &'a str {
    line[name].as_str().unwrap()
}

/// Sender, receiver and number of a message.
fn message(line: &Value) -> (&str, &str, u64) {
    let (here, there, number) = (text(line, "site"), text(line, "peer"), line["number"].as_u64().unwrap());
    if line["kind"] == "send" { (here, there, number) } else { (there, here, number) }
}

#[test]
fn a_trace_has_every_entry_and_release_once_and_no_message_before_it_is_sent() {
    let files = Files::new(3, true, "");
    let _sites = cluster(&files);
    let mut command = meshlock(files.home());
    command.args(["trace", "jobs", "--state", "--socket", &files.path("a.sock")]);
    // The other sites are found by their names, beside the one that is named.
    let trace = Process::start(command, files.home().join("trace.log"));
    let views = lines_until(&trace, |lines| count(lines, "view") == 3);
    let watched: BTreeSet<&str> = views.iter().map(|line| text(line, "site")).collect();
    assert_eq!(watched, ["a", "b", "c"].into());
    assert!(views.iter().all(|line| line["members"] == serde_json::json!(["a", "b", "c"])), "{views:?}");
    let mut clients = ["a", "b", "c"].map(|site| (site, files.client(site, &format!("client of {site}"))));
    let mut other = files.client("b", "somebody else");
    let mut fences = Vec::new();
    for round in 0..9 {
        let (site, client) = &mut clients[round % 3];
        fences.push(((*site).to_owned(), client.acquire("jobs")));
        other.acquire("others");
        other.release();
        client.release();
    }
    let lines = lines_until(&trace, |lines| count(lines, "release") == 9);
    let entered: Vec<(String, i64)> = lines
        .iter()
        .filter(|line| line["kind"] == "enter")
        .map(|line| (text(line, "site").to_owned(), text(line, "fence").parse().unwrap()))
        .collect();
    assert_eq!(entered, fences, "each entry once, in the order in which they were");
    let (mut inside, mut sent, mut last) = (None, BTreeSet::new(), 0.0);
    for line in &lines {
        assert_eq!(line["lock"], "jobs", "{line}");
        assert!(line["time"].as_f64().unwrap() >= last, "{line}");
        last = line["time"].as_f64().unwrap();
        match text(line, "kind") {
            "enter" => assert_eq!(inside.replace((line["site"].clone(), line["client"].clone())), None),
            "release" => assert_eq!(inside.take(), Some((line["site"].clone(), line["client"].clone()))),
            "send" => assert!(sent.insert(message(line)), "{line}"),
            "receive" => assert!(sent.remove(&message(line)), "{line}"),
            _ => {}
        }
        assert!(line["state"].is_string(), "{line}");
    }
    assert!(count(&lines, "receive") >= 9, "the lock went from site to site");
    let enter = lines.iter().find(|line| line["kind"] == "enter").unwrap();
    assert!(text(enter, "who").ends_with(r#" (label "client of a")"#), "{enter}");
}

#[test]
fn over_a_network_only_the_named_sites_are_watched_and_the_others_are_listed() {
    let access =
        "clients = '127.0.0.1:0'\n[[access]]\nprincipal = 'laptop'\nlocks = '*'\nverbs = ['watch']\n";
    let files = Files::new(2, true, access);
    let home = files.home();
    for client in ["laptop", "guest"] {
        says(home, &["ca", "issue", client, "--client", "--dir", &files.path("ca")]);
    }
    let sites = ["a", "b"].map(|site| files.start(site));
    let addresses = sites.each_ref().map(|site| {
        let line = site.line();
        line.rsplit_once(" and ").expect(&line).1.to_owned()
    });
    let list = ["site", "list", "--socket", &files.path("a.sock")];
    eventually("both take part", || json(home, &list)["sites"].as_array().unwrap().len() == 2);
    let through = |certificate: &str| files.path(&format!("ca/client-{certificate}"));
    let guest = ["trace", "jobs", "--node", &addresses[0], "--certificate", &through("guest")];
    let error = fails(home, 69, &guest);
    assert!(error.contains("'guest' may not acquire: no [[access]] rule"), "{error}");
    let mut command = meshlock(home);
    command.args(["trace", "jobs", "--node", &addresses[0], "--certificate", &through("laptop")]);
    let trace = Process::start(command, home.join("trace.log"));
    lines_until(&trace, |lines| count(lines, "view") == 1);
    eventually("it says that b is not watched", || trace.log().contains("b: not watched: name the address"));
    for site in ["b", "a"] {
        let mut client = files.client(site, "somebody");
        client.acquire("jobs");
        client.release();
    }
    let lines = lines_until(&trace, |lines| count(lines, "release") == 1);
    assert!(lines.iter().all(|line| line["site"] == "a"), "{lines:?}");
    assert_eq!(count(&lines, "enter"), 1);
    assert!(count(&lines, "receive") > 0, "what b has sent is received, though nobody saw it leave");
}

#[test]
fn invalid_arguments_are_rejected_before_a_node_is_contacted() {
    let files = Files::new(0, false, "");
    let socket = files.path("a.sock");
    for (code, arguments, says) in [
        (64, &["trace", "a*b", "--socket", &socket][..], "'*' that is not at its end"),
        (69, &["trace", "--socket", &socket][..], "no node serves clients at"),
        (64, &["lab", "--attach", "some where"][..], "give HOST:PORT, or the path of a socket"),
        (
            64,
            &["lab", "--attach", files.home().to_str().unwrap()][..],
            "no node serves clients in this directory",
        ),
        (64, &["lab", "--record", "x"][..], "--attach"),
        (64, &["lab", "nothing.jsonl"][..], "nothing.jsonl"),
    ] {
        let error = fails(files.home(), code, arguments);
        assert!(error.contains(says), "{arguments:?}: {error}");
    }
}

#[test]
fn a_watcher_that_is_too_slow_loses_lines_and_is_told_how_many() {
    const ROUNDS: u64 = 6000;
    let files = Files::new(1, false, "");
    let _sites = files.start_all(&["a"]);
    let mut watcher = files.client("a", "watcher");
    watcher.say(&ToNode::Watch { tag: 1, pattern: "*".to_owned(), states: true });
    assert!(
        matches!(watcher.receive(), ToClient::Traced { lines, lost: 0, .. } if lines.len() == 1),
        "the view"
    );
    // Long names, so that what is kept for the watcher is soon full.
    let (mut worker, lock) = (files.client("a", &"w".repeat(60)), "l".repeat(250));
    for _ in 0..ROUNDS {
        worker.acquire(&lock);
        worker.release();
    }
    // A word of the watcher, so that it is told what it has lost though nothing happens any more.
    watcher.say(&ToNode::Ping(2));
    let (mut told, mut missed, mut gaps, deadline) = (0, 0, 0, Deadline::default());
    while told + missed < 3 * ROUNDS {
        deadline.check("every line is told or counted");
        if let ToClient::Traced { lines, lost, .. } = watcher.receive() {
            (told, missed) = (told + lines.len() as u64, missed + lost);
            gaps += u64::from(lost > 0);
            watcher.say(&ToNode::Ping(2));
        }
    }
    assert_eq!(told + missed, 3 * ROUNDS, "each line was told or counted");
    assert!(missed > ROUNDS && gaps >= 1, "{told} told, {missed} lost");
}

/// Waits until an expression is true on the page.
fn until_page(browser: &Browser, condition: &str) {
    // Sooner than the browser gives up on a script, so that the page's text is shown.
    let limit = (WITHIN / 2).as_millis();
    let look = format!(
        "new Promise((done) => {{ const end = Date.now() + {limit}; const look = () => {{ \
         if ({condition}) done('yes'); else if (Date.now() > end) done(document.getElementById('main').textContent); \
         else setTimeout(look, 20); }}; look(); }})"
    );
    assert_eq!(browser.promised(&look), "yes", "never: {condition}");
}

fn page(lab: &Process) -> String {
    lab.line().trim().to_owned()
}

fn lab(files: &Files, arguments: &[&str]) -> Process {
    let mut command = meshlock(files.home());
    command.args(["lab", "--no-open"]).args(arguments);
    Process::start(command, files.home().join("lab.log"))
}

const HOLDERS: &str = "document.querySelector(\"[data-lock='jobs']\")?.dataset.holders";

#[test]
fn the_live_page_shows_the_holders_and_so_does_its_recording() {
    let Some(browser) = Browser::for_a_test(Engine::Chromium) else { return };
    let files = Files::new(3, false, "[lease]\nlength = '2s'\nmargin = '400ms'\nrenew_every = '500ms'\n");
    let sites = cluster(&files);
    let (socket, record) = (files.path("a.sock"), files.path("record.jsonl"));
    let mut attached = lab(&files, &["--attach", &socket, "--record", &record, "--state"]);
    browser.open(&page(&attached));
    until_page(&browser, "document.querySelectorAll(\"[data-watched='true']\").length === 3");
    until_page(&browser, "document.querySelector('.sites').dataset.leader !== ''");

    let mut clients: BTreeMap<&str, Client> =
        ["b", "c"].into_iter().map(|site| (site, files.client(site, &format!("client of {site}")))).collect();
    clients.get_mut("b").unwrap().acquire("jobs");
    until_page(&browser, &format!("{HOLDERS} === 'b'"));
    clients.get_mut("c").unwrap().want("jobs");
    until_page(&browser, "document.querySelector(\"[data-lock='jobs']\").dataset.waiters === '1'");
    clients.get_mut("b").unwrap().release();
    until_page(&browser, &format!("{HOLDERS} === 'c'"));
    // The first site has taken no part in it; the second has a state.
    browser.press(driver::keys::DOWN);
    until_page(&browser, "document.querySelector(\"[data-states='shown']\")");

    // Paused, it stays where one looks, while more is drawn.
    browser.click("#follow");
    let (line, events) = (
        "document.querySelector('.where').textContent.split(' ')[0]",
        "document.querySelector('canvas').dataset.events",
    );
    let (at, before) = (browser.text(line), browser.text(events));
    clients.get_mut("b").unwrap().acquire("others");
    until_page(&browser, &format!("Number({events}) > {before}"));
    assert_eq!(browser.text(line), at);
    browser.click("#follow");
    until_page(&browser, "document.querySelector(\"[data-lock='others']\")?.dataset.holders === 'b'");

    // A site that is killed stays in the table, as gone; its client has lost the lock once the view is without it.
    sites[2].signal(Signal::KILL);
    until_page(&browser, "document.querySelector(\"[data-site='c']\")?.dataset.watched === 'false'");
    until_page(&browser, "document.querySelector(\".sites tr[data-left]\")?.dataset.site === 'c'");
    until_page(&browser, "document.querySelectorAll('.sites tbody tr').length === 3");
    until_page(&browser, &format!("({HOLDERS} ?? '') === ''"));

    // What was seen, saved and read again, is drawn with the same lines.
    let same = "Promise.all([fetch('/api/live').then((answer) => answer.json()), fetch('/api/live/trace').then((answer) => answer.text())]) \
                .then(([live, trace]) => fetch('/api/import', { method: 'POST', body: trace }).then((answer) => answer.json()) \
                .then((drawn) => [JSON.stringify([live.lines, live.names]) === JSON.stringify([drawn.lines, drawn.names]), drawn.steps, trace]))";
    let compared = browser.promised(same);
    assert_eq!(compared[0], true, "{compared}");
    let seen = compared[2].as_str().unwrap();
    attached.signal(Signal::INT);
    assert!(attached.end().success(), "{}", attached.log());
    let recorded = std::fs::read_to_string(&record).unwrap();
    assert!(recorded.starts_with(seen), "the recording has what was seen, and what came after");

    std::fs::write(files.home().join("seen.jsonl"), seen).unwrap();
    let replayed = lab(&files, &[&files.path("seen.jsonl")]);
    browser.open(&page(&replayed));
    assert_eq!(browser.text("document.querySelector('canvas').dataset.events"), compared[1].to_string());
    browser.press(driver::keys::END);
    until_page(&browser, "document.querySelector(\"[data-lock='others']\")?.dataset.holders === 'b'");
    until_page(&browser, &format!("({HOLDERS} ?? '') === ''"));
}
