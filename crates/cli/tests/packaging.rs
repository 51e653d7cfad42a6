//! Packaged files are valid: configurations, the arguments with which units and manifests start the program, and the rights that they
//! leave it.

#![allow(clippy::unwrap_used, reason = "these are tests, helpers included: what fails must stop them")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use meshlock_testing::{BoundedCommand, needs_program};

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

#[test]
fn every_package_has_both_programs() {
    let image = read("docker/Dockerfile");
    assert!(image.contains("cp target/release/meshlock target/release/meshlock-supervisor /image/\n"));
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    for program in ["meshlock", "meshlock-supervisor"] {
        assert!(
            manifest.contains(&format!("[\"target/release/{program}\", \"usr/bin/\", \"755\"]")),
            "{program}"
        );
    }
}

/// The user of the image and of the StatefulSet.
const USER: &str = "7400";

/// The highest exposure that `systemd-analyze security` may find, in tenths.
const MAX_EXPOSURE: &str = "25";

#[test]
fn the_unit_leaves_the_node_few_rights() {
    if !needs_program("systemd-analyze") {
        return;
    }
    let unit = packaging().join("systemd/meshlock.service");
    let threshold = format!("--threshold={MAX_EXPOSURE}");
    let mut analysis = Command::new("systemd-analyze");
    let analysed =
        analysis.args(["security", "--offline=true", "--no-pager", &threshold]).arg(unit).output_in_time();
    let said = String::from_utf8_lossy(&analysed.stdout);
    assert!(analysed.status.success(), "{said}{}", String::from_utf8_lossy(&analysed.stderr));
}

#[test]
fn the_unit_can_be_reloaded_and_has_a_directory_for_its_audit_log() {
    let unit = read("systemd/meshlock.service");
    assert_eq!(values(&unit, "ExecReload="), ["/bin/kill -HUP $MAINPID"]);
    assert_eq!(values(&unit, "LogsDirectory="), ["meshlock"], "audit = \"/var/log/meshlock/audit.jsonl\"");
    // It asks who is at the other end of its socket, which another user namespace would hide.
    assert!(values(&unit, "PrivateUsers=").is_empty());
}

#[test]
fn the_image_runs_as_a_user_who_owns_only_data_and_socket() {
    let image = read("docker/Dockerfile");
    assert_eq!(values(&image, "USER "), [format!("{USER}:{USER}")]);
    let copied = values(&image, "COPY --from=build ");
    assert_eq!(copied, ["/image/ /".to_owned(), format!("--chown={USER}:{USER} /owned/ /")]);
    let compose = read("docker/compose.yaml");
    assert_eq!(values(&compose, "read_only: "), ["true"]);
    assert_eq!(values(&compose, "cap_drop: "), ["[ALL]"]);
    assert_eq!(values(&compose, "security_opt: "), ["[\"no-new-privileges:true\"]"]);
    assert!(values(&compose, "tmpfs: ")[0].contains(&format!("uid={USER}")));
}

#[test]
fn the_stateful_set_leaves_its_sites_few_rights() {
    let manifest = read("kubernetes/meshlock.yaml");
    let set = document(&manifest, "StatefulSet");
    for (key, value) in [
        ("automountServiceAccountToken: ", "false"),
        ("runAsNonRoot: ", "true"),
        ("runAsUser: ", USER),
        ("seccompProfile: ", "{ type: RuntimeDefault }"),
        ("allowPrivilegeEscalation: ", "false"),
        ("readOnlyRootFilesystem: ", "true"),
        ("capabilities: ", "{ drop: [ALL] }"),
    ] {
        assert_eq!(values(set, key), [value], "{key}");
    }
    // Everything that the arguments name for writing is a volume.
    for written in ["/data", "/run/meshlock"] {
        assert!(set.contains(&format!("mountPath: {written} }}")), "{written}");
    }
}

#[test]
fn the_network_policy_admits_the_port_of_the_sites_to_the_sites_only() {
    let manifest = read("kubernetes/meshlock.yaml");
    let policy = document(&manifest, "NetworkPolicy");
    assert_eq!(values(policy, "policyTypes: "), ["[Ingress, Egress]"]);
    let sites = "[{ podSelector: { matchLabels: { app: meshlock } } }]";
    assert_eq!((values(policy, "- from: "), values(policy, "- to: ")), (vec![sites], vec![sites]));
    assert_eq!(values(policy, "ports: "), ["[{ protocol: TCP, port: 7400 }]"; 2]);
    assert_eq!(values(policy, "- ports: ").len(), 1, "and names can be looked up");
}

/// Returns the document of this kind in a manifest of several.
fn document<'a>(manifest: &'a str, kind: &str) -> &'a str {
    let line = format!("kind: {kind}");
    let mut documents = manifest.split("\n---\n").filter(|document| document.lines().any(|it| it == line));
    let found = documents.next().unwrap_or_else(|| panic!("there is no {kind}"));
    assert!(documents.next().is_none(), "there are two of {kind}");
    found
}
