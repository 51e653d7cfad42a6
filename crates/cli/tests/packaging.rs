//! Packaged files are valid: configurations, and the arguments with which units and manifests start the program.

#![allow(clippy::unwrap_used, reason = "these are tests, helpers included: what fails must stop them")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use meshlock_testing::BoundedCommand;

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

fn read(file: &str) -> String {
    fs::read_to_string(packaging().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn meshlock(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_meshlock")).args(arguments).output_in_time();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Installs a configuration in a directory, with the certificates of `site` beside it.
fn installed(config: &str, site: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let authority = dir.path().join("ca").display().to_string();
    meshlock(&["ca", "init", "--dir", &authority]);
    meshlock(&["ca", "issue", site, "--dir", &authority]);
    fs::rename(dir.path().join(format!("ca/site-{site}")), dir.path().join("tls")).unwrap();
    fs::write(dir.path().join("node.toml"), config).unwrap();
    dir
}

/// Returns the arguments with which a file starts a site, changed so that they only check the configuration, with paths in `dir`.
fn check(arguments: &str, site: &str, dir: &Path) -> String {
    let place = dir.display().to_string();
    let arguments: Vec<String> = arguments
        .split([' ', ',', '[', ']', '"'])
        .filter(|argument| !argument.is_empty())
        .map(|argument| argument.replace("/etc/meshlock", &place).replace("$(POD)", site))
        .chain(["--check".to_owned()])
        .collect();
    meshlock(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Returns the values of `key` in the lines of `file`.
fn values<'a>(file: &'a str, key: &str) -> Vec<&'a str> {
    file.lines().filter_map(|line| line.trim().strip_prefix(key)).collect()
}

#[test]
fn every_site_of_the_compose_file_has_a_valid_configuration() {
    let (compose, config) = (read("docker/compose.yaml"), read("docker/node.toml"));
    let commands = values(&compose, "command: ");
    assert_eq!(commands.len(), 3);
    for (command, site) in commands.iter().zip(["one", "two", "three"]) {
        let dir = installed(&config, site);
        assert!(check(command, site, dir.path()).starts_with(&format!("{site} of meshlock: ")));
    }
}

#[test]
fn the_stateful_set_starts_sites_with_a_valid_configuration() {
    let manifest = read("kubernetes/meshlock.yaml");
    let (_, config) = manifest.split_once("node.toml: |\n").unwrap();
    let (config, _) = config.split_once("\n---").unwrap();
    let arguments = values(&manifest, "args: ");
    assert_eq!(arguments.len(), 1);
    let site = "meshlock-2";
    let dir = installed(config, site);
    assert!(check(arguments[0], site, dir.path()).starts_with("meshlock-2 of meshlock: "));
}

#[test]
fn the_unit_starts_a_site_with_arguments_that_exist() {
    let unit = read("systemd/meshlock.service");
    // All commands of the machine look for its node here, and the node must see which user each of them is.
    assert!(
        unit.contains(" --socket /run/meshlock/node.sock --socket-mode 0666")
            && !unit.contains("PrivateUsers=yes")
    );
    let config = read("docker/node.toml").replace("listen", "site = 'one'\nlisten");
    let dir = installed(&config, "one");
    for key in ["ExecStart=/usr/bin/meshlock", "ExecStartPre=/usr/bin/meshlock"] {
        let commands = values(&unit, key);
        assert_eq!(commands.len(), 1, "{key}");
        let command = commands[0].replace(" --check", "");
        assert!(check(&command, "one", dir.path()).starts_with("one of meshlock: "));
    }
}
