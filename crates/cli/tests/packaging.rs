//! Packaged files are valid: configurations, the arguments with which units and manifests start the program, and the rights that they
//! leave it.

#![allow(clippy::unwrap_used, reason = "these are tests, helpers included: what fails must stop them")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use meshlock_testing::{BoundedChild, BoundedCommand, eventually, needs_program, skip};
use serde_json::Value;

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

/// Reads a manifest as Kubernetes does; `None` if there is nothing here that can.
fn manifests(text: &str) -> Option<Vec<Value>> {
    let program = "import json, sys, yaml\nprint(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
    if !Command::new("python3").args(["-c", "import yaml"]).output_in_time().status.success() {
        skip("the module yaml of python3", "apt-get install python3-yaml");
        return None;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    let read = Command::new("python3").args(["-c", program]).arg(file.path()).output_in_time();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    Some(serde_json::from_slice(&read.stdout).unwrap())
}

fn of_kind<'a>(manifests: &'a [Value], kind: &str) -> &'a Value {
    let found: Vec<&Value> = manifests.iter().filter(|manifest| manifest["kind"] == kind).collect();
    assert_eq!(found.len(), 1, "{kind}");
    found[0]
}

#[test]
fn the_names_and_ports_of_the_manifests_fit_each_other_and_the_configuration() {
    if !needs_program("python3") {
        return;
    }
    let Some(manifests) = manifests(&read("kubernetes/meshlock.yaml")) else { return };
    let (set, service) = (of_kind(&manifests, "StatefulSet"), of_kind(&manifests, "Service"));
    let config = of_kind(&manifests, "ConfigMap")["data"]["node.toml"].as_str().unwrap();
    let config: toml::Table = toml::from_str(config).unwrap();
    // The names of pods are those of the set, and its service gives them addresses.
    let name = set["metadata"]["name"].as_str().unwrap();
    assert_eq!(set["spec"]["serviceName"], service["metadata"]["name"]);
    assert_eq!(service["spec"]["clusterIP"], "None");
    assert_eq!(
        service["spec"]["publishNotReadyAddresses"], true,
        "sites find each other before they are ready"
    );
    assert_eq!(set["spec"]["podManagementPolicy"], "Parallel", "the first start needs all of them");
    let host = format!("{{site}}.{}", service["metadata"]["name"].as_str().unwrap());
    let (advertised, port) = config["advertise"].as_str().unwrap().rsplit_once(':').unwrap();
    assert_eq!(advertised, host);
    let replicas = set["spec"]["replicas"].as_i64().unwrap();
    assert_eq!(config["bootstrap_expect"].as_integer(), Some(replicas));
    let labels = &set["spec"]["template"]["metadata"]["labels"];
    for (selector, of) in [
        (&set["spec"]["selector"]["matchLabels"], "StatefulSet"),
        (&service["spec"]["selector"], "Service"),
        (
            &of_kind(&manifests, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
            "PodDisruptionBudget",
        ),
        (&of_kind(&manifests, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"], "NetworkPolicy"),
    ] {
        assert_eq!(selector, labels, "{of}");
    }
    // One port, everywhere.
    let container = &set["spec"]["template"]["spec"]["containers"][0];
    let policy = &of_kind(&manifests, "NetworkPolicy")["spec"];
    assert_eq!(config["listen"].as_str(), Some(&*format!("0.0.0.0:{port}")));
    for number in [
        &service["spec"]["ports"][0]["port"],
        &container["ports"][0]["containerPort"],
        &policy["ingress"][0]["ports"][0]["port"],
        &policy["egress"][0]["ports"][0]["port"],
    ] {
        assert_eq!(number.to_string(), port);
    }
    // Every pod of the founding has a secret, and what is mounted is where the configuration looks.
    let volumes = set["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
    let tls = volumes.iter().find(|volume| volume["name"] == "tls").unwrap();
    let sources = tls["projected"]["sources"].as_array().unwrap();
    let secrets: Vec<&str> =
        sources.iter().map(|source| source["secret"]["name"].as_str().unwrap()).collect();
    let expected: Vec<String> = (0..7).map(|number| format!("{name}-{number}")).collect();
    assert_eq!(secrets, expected);
    for (source, number) in sources.iter().zip(0..) {
        // A pod of the founding must not start without its certificate; further pods may never exist.
        assert_eq!(source["secret"]["optional"] == true, number >= replicas, "{source}");
        let items = source["secret"]["items"].as_array().unwrap();
        let paths: Vec<&str> = items.iter().map(|item| item["path"].as_str().unwrap()).collect();
        assert_eq!(paths, ["ca.pem", "cert.pem", "key.pem"].map(|file| format!("{name}-{number}/{file}")));
    }
    let mounted = |path: &str| {
        let mounts = container["volumeMounts"].as_array().unwrap();
        assert!(mounts.iter().any(|mount| mount["mountPath"] == path), "{path}");
    };
    ["/data", "/run/meshlock", "/etc/meshlock/node.toml", "/etc/meshlock/tls"].into_iter().for_each(mounted);
}

#[test]
fn the_probe_of_the_stateful_set_asks_the_socket_that_the_node_serves_and_fails_until_it_does() {
    if !needs_program("python3") {
        return;
    }
    let Some(manifests) = manifests(&read("kubernetes/meshlock.yaml")) else { return };
    let container = &of_kind(&manifests, "StatefulSet")["spec"]["template"]["spec"]["containers"][0];
    let words = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let (arguments, probe) =
        (words(&container["args"]), words(&container["readinessProbe"]["exec"]["command"]));
    let socket = |words: &[String]| {
        let at = words.iter().position(|word| word == "--socket").unwrap();
        words[at + 1].clone()
    };
    assert_eq!(socket(&arguments), socket(&probe));
    assert_eq!(probe[0], "/meshlock", "where the image has the program");
    assert!(
        read("docker/Dockerfile")
            .contains("cp target/release/meshlock target/release/meshlock-supervisor /image/")
    );
    // The probe as it is, at a place of this test.
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().display().to_string();
    let here = |word: &String| word.replace("/run/meshlock", &place);
    let run = || {
        let words: Vec<String> = probe[1..].iter().map(here).collect();
        Command::new(env!("CARGO_BIN_EXE_meshlock")).args(words).output_in_time().status.code()
    };
    assert_eq!(run(), Some(69), "nobody serves it");
    let start = |data: &str, more: &[&str]| {
        let mut node = Command::new(env!("CARGO_BIN_EXE_meshlock"));
        node.args(["node", "--site", "meshlock-0", "--data", &format!("{place}/{data}")]).args(more);
        node.args(["--socket", &here(&socket(&arguments))]).stdout(std::process::Stdio::null());
        Running(node.stderr(std::process::Stdio::null()).spawn().unwrap())
    };
    // A site that is not a member yet answers, and is not ready.
    let address =
        format!("{}:7397", meshlock_testing::Loopback::new().address(0)).replace(".1:", ".{ordinal}:");
    let waiting = start("waiting", &["--bootstrap-expect", "3", "--plain", "--advertise", &address]);
    let answers = |code| {
        let socket = here(&socket(&arguments));
        let status = ["status", "--socket", &socket];
        Command::new(env!("CARGO_BIN_EXE_meshlock")).args(status).output_in_time().status.code() == Some(code)
    };
    eventually("it answers", || answers(0));
    assert_eq!(run(), Some(69), "it is not a member");
    drop(waiting);
    let _alone = start("alone", &[]);
    eventually("the probe succeeds", || run() == Some(0));
}

/// A process that ends with the test, also if that fails.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.end();
    }
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
fn every_package_has_all_programs_that_it_needs() {
    // An image is there for its node, which the launcher would only start.
    let image = read("docker/Dockerfile");
    assert!(image.contains("cp target/release/meshlock target/release/meshlock-supervisor /image/\n"));
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let manifest: toml::Table = toml::from_str(&manifest).unwrap();
    let assets = manifest["package"]["metadata"]["deb"]["assets"].as_array().unwrap();
    let words = |asset: &toml::Value| [0, 1, 2].map(|at| asset[at].as_str().unwrap().to_owned());
    let programs: Vec<[String; 3]> =
        assets.iter().map(words).filter(|[built, ..]| built.starts_with("target/release/")).collect();
    let expected = [
        ("meshlock-launcher", "usr/bin/meshlock"),
        ("meshlock", "usr/bin/meshlock-full"),
        ("meshlock-supervisor", "usr/bin/"),
    ];
    let expected = expected.map(|(built, installed)| {
        [format!("target/release/{built}"), installed.to_owned(), "755".to_owned()]
    });
    assert_eq!(programs, expected);
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
