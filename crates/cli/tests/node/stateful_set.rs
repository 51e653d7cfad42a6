//! The pods of a StatefulSet: the runbook of docs/operating.md as it is written, with a process for each pod.
//!
//! There is no Kubernetes here. `kubectl` is a word of the runbook that this test carries out: it starts pods as processes with the pods' names,
//! with the arguments and the file of the manifest, and restarts those that are deleted. What differs is where things are: the pods' names
//! have no addresses here, so they are at addresses of the loopback network that end with their numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use meshlock_testing::{Loopback, eventually};
use rustix::process::Signal;

use super::load::{Load, hold, is_still_held};
use super::runbook::{Runbook, commands_of};
use super::site::{Files, Process, json, meshlock, output};
use super::voters::{until_survives, voters};

/// The manifest, as the runbook names it.
const MANIFEST: &str = "packaging/kubernetes/meshlock.yaml";

const SOCKET: &str = "/run/meshlock/node.sock";

/// A namespace with one StatefulSet.
struct Namespace {
    files: Files,
    /// The beginning of all pods' addresses.
    network: String,
    manifest: String,
    pods: BTreeMap<String, Process>,
    /// Pods whose volumes are to be deleted with them.
    to_delete: BTreeSet<String>,
}

impl Namespace {
    fn new() -> Self {
        let [first, second, third, _] = Loopback::new().address(0).octets();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(MANIFEST);
        Namespace {
            files: Files::new(0, false, ""),
            network: format!("{first}.{second}.{third}"),
            manifest: fs::read_to_string(path).unwrap(),
            pods: BTreeMap::new(),
            to_delete: BTreeSet::new(),
        }
    }

    /// Returns a path of a pod as a path of this machine.
    fn here(&self, pod: &str, path: &str) -> String {
        match path {
            "$(POD)" => pod.to_owned(),
            "/data" => self.files.path(&format!("data-{pod}")),
            SOCKET => self.files.path(&format!("{pod}.sock")),
            path => path.replace("/etc/meshlock", &self.files.path(&format!("etc-{pod}"))),
        }
    }

    /// Starts the container of a pod.
    fn start(&mut self, pod: &str) {
        let etc = self.files.home().join(format!("etc-{pod}"));
        let number = pod.rsplit_once('-').unwrap().1;
        let config = self.manifest.split_once("node.toml: |\n").unwrap().1.split_once("\n---").unwrap().0;
        let lines: Vec<&str> = config.lines().map(str::trim_start).collect();
        let config = lines.join("\n");
        let placed = config
            .replace("{site}.meshlock:", &format!("{}.{{ordinal}}:", self.network))
            .replace("0.0.0.0:", &format!("{}.{number}:", self.network));
        assert!(placed.contains(&self.network) && !placed.contains("0.0.0.0"), "{placed}");
        if !etc.exists() {
            fs::create_dir(&etc).unwrap();
            fs::rename(self.files.path(&format!("secret-{pod}")), etc.join("tls")).unwrap();
        }
        fs::write(etc.join("node.toml"), placed).unwrap();
        let arguments = self.manifest.split_once("args: [").unwrap().1.split_once(']').unwrap().0;
        let arguments = arguments.split(", ").map(|argument| argument.trim_matches('"'));
        let mut command = meshlock(self.files.home());
        command.args(arguments.map(|argument| self.here(pod, argument)));
        let process = Process::start(command, self.files.home().join(format!("{pod}.log")));
        self.pods.insert(pod.to_owned(), process);
    }

    /// Waits until the readiness probe of every pod succeeds.
    fn until_ready(&self) {
        let probe = self.manifest.split_once("readinessProbe:").unwrap().1;
        let probe = probe.split_once("command: [").unwrap().1.split_once(']').unwrap().0;
        for pod in self.pods.keys() {
            let words = probe.split(", ").map(|word| self.here(pod, word.trim_matches('"')));
            let words: Vec<String> = words.skip(1).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            eventually(&format!("{pod} is ready"), || output(self.files.home(), &words).status.success());
        }
    }

    fn kubectl(&mut self, arguments: &[&str]) -> (String, i32) {
        match arguments {
            ["create", "secret", "generic", pod, from] => {
                let from = from.strip_prefix("--from-file=").unwrap();
                fs::rename(self.files.path(from), self.files.path(&format!("secret-{pod}"))).unwrap();
            }
            ["apply", "-f", MANIFEST] => {
                // In any order: the last one is alone for a while.
                self.start("meshlock-2");
                let alone = &self.pods["meshlock-2"];
                eventually("a pod alone waits", || alone.log().contains("not yet a member of the cluster"));
                for pod in ["meshlock-0", "meshlock-1"] {
                    self.start(pod);
                }
            }
            ["rollout", "status", "statefulset/meshlock", "--timeout=5m"] => self.until_ready(),
            ["exec", pod, "--", "/meshlock", rest @ ..] => {
                let words: Vec<String> = rest.iter().map(|word| self.here(pod, word)).collect();
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let output = output(self.files.home(), &words);
                let said = String::from_utf8_lossy(&output.stdout).into_owned();
                return (said, output.status.code().unwrap_or(1));
            }
            ["delete", "pvc", volume, "--wait=false"] => {
                self.to_delete.insert(volume.strip_prefix("data-").unwrap().to_owned());
            }
            ["delete", "pod", pod] => {
                let mut process = self.pods.remove(*pod).unwrap();
                process.signal(Signal::TERM);
                assert!(process.end().success(), "{}", process.log());
                if self.to_delete.remove(*pod) {
                    fs::remove_dir_all(self.here(pod, "/data")).unwrap();
                }
                self.start(pod);
            }
            ["scale", "statefulset/meshlock", "--replicas=4"] => self.start("meshlock-3"),
            other => panic!("the runbook says kubectl {other:?}"),
        }
        (String::new(), 0)
    }

    /// Runs a block of the runbook.
    fn run(&mut self, text: &str) -> String {
        let home = self.files.home().to_owned();
        let runbook = Runbook { home: &home, asks: "meshlock-0", words: &["kubectl"], variables: &[] };
        runbook.run(text, |_, arguments| self.kubectl(arguments))
    }

    fn members(&self) -> Vec<String> {
        let list = json(self.files.home(), &["site", "list", "--socket", &self.here("meshlock-0", SOCKET)]);
        let sites = list["sites"].as_array().unwrap();
        sites.iter().map(|site| site["site"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn pods_are_created_restarted_without_their_volume_and_more_by_the_commands_of_the_document() {
    let steps = commands_of("### Pods of a StatefulSet");
    assert_eq!(steps.len(), 4, "{steps:?}");
    let mut namespace = Namespace::new();
    let said = namespace.run(&steps[0]);
    let three = ["meshlock-0", "meshlock-1", "meshlock-2"];
    assert!(said.contains("3 voters (meshlock-0, meshlock-1, meshlock-2), and 2 must be up."), "{said}");
    let load = Load::start(&namespace.files, &three);
    load.goes_on(&three);

    let said = namespace.run(&steps[1]);
    assert_eq!(said.matches(" may be stopped. Until it is back").count(), 3, "{said}");
    until_survives(&namespace.files, "meshlock-0", 1);
    load.goes_on(&three);

    let (_holder, fence) = hold(&namespace.files, "meshlock-0");
    let said = namespace.run(&steps[2]);
    assert!(said.contains("meshlock-1 votes."), "{said}");
    assert_eq!(
        voters(&namespace.files, "meshlock-1"),
        (["meshlock-0", "meshlock-2", "meshlock-1"].map(str::to_owned).to_vec(), Some(1)),
        "it votes under another number"
    );
    load.goes_on(&three);

    let said = namespace.run(&steps[3]);
    assert!(said.contains("meshlock-3"), "{said}");
    assert_eq!(namespace.members(), ["meshlock-0", "meshlock-1", "meshlock-2", "meshlock-3"]);
    is_still_held(&namespace.files, "meshlock-2", &fence);
    load.goes_on(&three);
    load.end();
}
