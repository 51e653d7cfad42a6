//! Configuration errors, which are reported before anything starts.

use std::fs;

use crate::site::{Files, fails, says};

#[test]
fn an_invalid_configuration_is_rejected_with_its_file_line_and_key() {
    let files = Files::new(2, false, "");
    let path = files.path("bad.toml");
    for (text, says) in [
        ("site = 'a'\nclustre = 'x'", ":2: clustre: there is no such key (did you mean 'cluster'?)"),
        ("[lease]\nlength = '1 day'", ":2: lease.length: '1 day' is not a length of time"),
        ("site = 'a", ":1: "),
        ("tls = 'no'", ":1: tls: say tls = \"off\""),
    ] {
        fs::write(&path, text).unwrap();
        let error = fails(files.home(), 64, &["node", "--config", &path]);
        assert!(error.contains(&path) && error.contains(says), "{text}: {error}");
    }
    let error = fails(files.home(), 64, &["node", "--config", "/nowhere.toml"]);
    assert!(error.contains("/nowhere.toml: cannot be read") && error.contains("--example-config"), "{error}");
    let error = fails(files.home(), 64, &["node", "--join", "a"]);
    assert!(error.contains("'a' is neither HOST:PORT nor NAME=HOST:PORT"), "{error}");
    let error = fails(files.home(), 64, &["node", "--plain", "--join", "127.0.0.1:1"]);
    assert!(error.contains("site: say what this site is called: set `site`, or give --site"), "{error}");
    let error = fails(files.home(), 64, &["node", "--join", "127.0.0.1:1", "a=127.0.0.1:2"]);
    assert!(error.contains("or only addresses of sites that run"), "{error}");
}

#[test]
fn a_certificate_of_another_site_is_rejected() {
    let files = Files::new(2, true, "");
    let path = files.path("b.toml");
    let error = fails(files.home(), 64, &["node", "--config", &path, "--site", "a"]);
    assert!(error.contains("b.toml:4: tls"), "{error}");
    assert!(error.contains("is the certificate of the site 'b', and this is the site 'a'"), "{error}");
}

#[test]
fn the_example_configuration_is_printed() {
    let files = Files::new(0, false, "");
    let text = says(files.home(), &["node", "--example-config"]);
    assert!(text.contains("\n#shutdown_grace = \"5s\"\n"), "{text}");
}

#[test]
fn a_command_without_a_node_prints_how_to_start_one() {
    let files = Files::new(0, false, "");
    let error = fails(files.home(), 69, &["status"]);
    assert!(error.contains("no node is configured or runs") && error.contains("`meshlock node`"), "{error}");
    let error = fails(files.home(), 69, &["queue", "jobs", "--socket", "/nowhere.sock"]);
    assert!(error.contains("no node serves clients at /nowhere.sock; start one"), "{error}");
}

#[test]
fn completions_and_the_manual_contain_the_commands() {
    let files = Files::new(0, false, "");
    for shell in ["bash", "zsh", "fish"] {
        assert!(says(files.home(), &["completions", shell]).contains("example-config"), "{shell}");
    }
    assert!(says(files.home(), &["man"]).contains(".TH meshlock 1"));
    let dir = files.path("man");
    says(files.home(), &["man", "--dir", &dir]);
    assert!(fs::read_to_string(files.home().join("man/meshlock-rules-set.1")).unwrap().contains("permits"));
}
