//! Sites that move to another address, and sites that start with files that do not know it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

use meshlock_testing::{BoundedCommand, eventually, eventually_some};
use rustix::process::Signal;

use super::site::{Files, Process, json};

/// Leases are short, so that a site that was killed is soon excluded.
const SHORT: &str = "[lease]\nlength = '2s'\nmargin = '300ms'\nrenew_every = '300ms'\n";

/// Returns an address of the loopback network that is free now.
fn free() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

/// Returns where the members are, as a site sees it, if it is a member itself.
fn addresses(files: &Files, site: &str) -> Vec<(String, String)> {
    let list = json(files.home(), &["site", "list", "--socket", &files.path(&format!("{site}.sock"))]);
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let sites = list["sites"].as_array().unwrap();
    sites.iter().map(|site| (text(&site["site"]), text(&site["address"]))).collect()
}

/// Returns the commands of a section of docs/operating.md, one text for each block.
fn commands_of(heading: &str) -> Vec<String> {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating.md");
    let document = fs::read_to_string(document).unwrap();
    let section = document.split_once(&format!("\n{heading}\n")).expect("the section is there").1;
    let section = section.split("\n## ").next().unwrap().split("\n### ").next().unwrap();
    let blocks = section.split("```sh\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

/// Runs commands of the document for the site `c`, and returns their exit code.
fn run(files: &Files, commands: &str) -> Option<i32> {
    let bin = Path::new(env!("CARGO_BIN_EXE_meshlock")).parent().unwrap().display().to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("set -eu\nSITE=c\n{commands}")).current_dir(files.home()).env("PATH", path);
    shell.output_in_time().status.code()
}

fn stop(site: &mut Process) {
    site.signal(Signal::TERM);
    assert!(site.end().success(), "{}", site.log());
}

#[test]
fn a_site_that_moves_is_followed_also_by_a_site_that_starts_with_an_old_file() {
    for tls in [false, true] {
        let files = Files::new(3, tls, SHORT);
        let mut sites = files.start_all(&["a", "b", "c"]);
        eventually("all are members", || addresses(&files, "a").len() == 3);
        // c moves: only its own file says where to.
        let (old, new) = (addresses(&files, "a")[2].1.clone(), free());
        stop(&mut sites[2]);
        let text = fs::read_to_string(files.path("c.toml")).unwrap();
        fs::write(files.path("c.toml"), format!("listen = '{new}'\nadvertise = '{new}'\n{text}")).unwrap();
        // Somebody else may listen where it was, and is not taken for it.
        let _squatter = TcpListener::bind(&old).unwrap();
        let runbook = commands_of("### Moving a site");
        assert_eq!(runbook.len(), 2, "{runbook:?}");
        assert_eq!(run(&files, &runbook[0]), Some(0));
        sites[2] = files.start("c");
        sites[2].until_line("c is ready");
        eventually("the doctor finds nothing", || run(&files, &runbook[1]) == Some(0));
        for site in ["a", "b"] {
            eventually(&format!("{site} has heard where c is"), || {
                addresses(&files, site).contains(&("c".to_owned(), new.to_string()))
            });
        }
        // b starts again, and its file has the old address. It reaches c all the same, which a alone could not give it a majority for
        // if c did not count.
        stop(&mut sites[1]);
        sites[1] = files.start("b");
        sites[1].until_line("b is ready");
        let line = format!("{:?}", addresses(&files, "b"));
        assert!(line.contains(&new.to_string()), "{line}");
        // a leaves: b and c are the majority, and must reach each other.
        stop(&mut sites[0]);
        let mut client = files.client("b", "test");
        client.acquire("jobs");
        let mut other = files.client("c", "test");
        client.release();
        other.acquire("jobs");
        sites.truncate(3);
    }
}

/// How often a site is restarted until another one leads: any of them may be elected.
const MAX_ELECTIONS: usize = 20;

#[test]
fn a_new_site_whose_file_knows_only_old_addresses_but_one_finds_the_cluster_through_that_one() {
    let files = Files::new(3, true, SHORT);
    let mut sites = files.start_all(&["a", "b", "c"]);
    for site in ["b", "c"] {
        let (at, new) = (if site == "b" { 1 } else { 2 }, free());
        stop(&mut sites[at]);
        let text = fs::read_to_string(files.path(&format!("{site}.toml"))).unwrap();
        let text = format!("listen = '{new}'\nadvertise = '{new}'\n{text}");
        fs::write(files.path(&format!("{site}.toml")), text).unwrap();
        sites[at] = files.start(site);
        sites[at].until_line(&format!("{site} is ready"));
    }
    // The one whose address is still right does not lead, so that it alone cannot take a site in.
    let mut leader = String::new();
    for _ in 0..MAX_ELECTIONS {
        stop(&mut sites[0]);
        sites[0] = files.start("a");
        sites[0].until_line("a is ready");
        eventually("a site leads", || {
            let status = json(files.home(), &["status", "--socket", &files.path("a.sock")]);
            leader = status["leader"].as_str().unwrap_or_default().to_owned();
            !leader.is_empty()
        });
        if leader != "a" {
            break;
        }
    }
    assert_ne!(leader, "a", "it was elected again and again");
    // d has the file of the first day, in which two of three addresses are old.
    super::site::says(files.home(), &["ca", "issue", "d", "--dir", &files.path("ca")]);
    let at = free();
    let text = fs::read_to_string(files.path("a.toml")).unwrap();
    let text = text.replace("site-a", "site-d").replace("data-a", "data-d").replace("'a.sock'", "'d.sock'");
    let text = text.replacen("site = 'a'", &format!("site = 'd'\nlisten = '{at}'\nadvertise = '{at}'"), 1);
    fs::write(files.path("d.toml"), text).unwrap();
    let joined = files.start("d");
    joined.until_line("d is ready");
    eventually("it knows all of them", || addresses(&files, "d").len() == 4);
    assert!(joined.log().contains("another site says where a site is"), "{}", joined.log());
}

#[test]
fn a_site_that_reaches_nobody_says_what_it_has_tried() {
    let files = Files::new(3, false, "");
    let site = files.start("a");
    let addresses: Vec<String> = {
        let text = fs::read_to_string(files.path("a.toml")).unwrap();
        text.split("address = '").skip(1).map(|rest| rest.split('\'').next().unwrap().to_owned()).collect()
    };
    let line = eventually_some("the log says that it is not a member", || {
        let log = site.log();
        log.lines().find(|line| line.contains("not yet a member of the cluster")).map(str::to_owned)
    });
    for address in &addresses[1..] {
        assert!(line.contains(&format!("{address}: Connection refused")), "{line}");
    }
}
