//! The access document of the whole cluster, and which sites may join: the runbooks of docs/operating.md as they are written.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use meshlock_testing::{BoundedCommand, eventually};
use rustix::process::Signal;
use serde_json::Value;

use super::certificates::commands_of;
use super::site::{Files, Process, fails, json, meshlock, output, says};

/// A cluster of three sites with certificates, which serve clients of the network by what the cluster's document says alone.
struct Running {
    files: Files,
    sites: Vec<Process>,
    /// Where each of them serves clients.
    addresses: Vec<String>,
}

impl Running {
    fn start() -> Self {
        let files = Files::new(3, true, "clients = '127.0.0.1:0'\n");
        // The documents call the directory of the authority by its default name.
        symlink(files.home().join("ca"), files.home().join("meshlock-ca")).unwrap();
        let sites: Vec<Process> = ["a", "b", "c"].iter().map(|name| files.start(name)).collect();
        let address = |site: &Process| site.line().rsplit_once(" and ").expect("it says where").1.to_owned();
        let addresses = sites.iter().map(address).collect();
        let running = Running { files, sites, addresses };
        eventually("all take part", || running.members().len() == 3);
        running
    }

    fn home(&self) -> &Path {
        self.files.home()
    }

    fn socket(&self, site: &str) -> String {
        self.files.path(&format!("{site}.sock"))
    }

    fn members(&self) -> Vec<String> {
        let list = json(self.home(), &["site", "list", "--socket", &self.socket("a")]);
        list["sites"]
            .as_array()
            .unwrap()
            .iter()
            .map(|site| site["site"].as_str().unwrap().to_owned())
            .collect()
    }

    fn access(&self, site: &str) -> Value {
        json(self.home(), &["access", "show", "--socket", &self.socket(site)])
    }

    /// Runs commands of a document, as one types them at site a.
    fn run(&self, more: &str, step: &str) {
        let mut shell = Command::new("sh");
        let bin = Path::new(env!("CARGO_BIN_EXE_meshlock")).parent().unwrap().display().to_string();
        let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
        shell.arg("-c").arg(format!("set -eu\n{more}\n{step}")).current_dir(self.home()).env("PATH", path);
        shell.env("MESHLOCK_SOCKET", self.socket("a")).env("MESHLOCK_ROOT", self.home().join("machine"));
        for directory in ["XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"] {
            shell.env(directory, self.home());
        }
        let output = shell.output_in_time();
        assert!(output.status.success(), "{step}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Waits until all sites know this version of the document.
    fn until_all_know(&self, version: u64) {
        eventually(&format!("all know version {version}"), || {
            ["a", "b", "c"].iter().all(|site| self.access(site)["version"] == version)
        });
    }

    /// Takes and releases a lock at a site over the network.
    fn try_run(&self, at: usize, certificate: &str, lock: &str) -> (Option<i32>, String) {
        let place = ["--node", &self.addresses[at], "--certificate", certificate];
        let arguments: Vec<&str> =
            ["run", lock, "--wait", "30s"].into_iter().chain(place).chain(["--", "true"]).collect();
        let output = output(self.home(), &arguments);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Starts a command that holds a lock at a site over the network.
    fn hold(&self, at: usize, certificate: &str, lock: &str) -> Process {
        let mut command = meshlock(self.home());
        command.args(["run", lock, "--node", &self.addresses[at], "--certificate", certificate, "--"]);
        command.args(["sh", "-c", "echo holds; exec sleep 1000"]);
        let holder = Process::start(command, self.home().join("holder.log"));
        assert_eq!(holder.line(), "holds");
        holder
    }

    fn issue(&self, name: &str) -> String {
        says(self.home(), &["ca", "issue", name, "--client", "--dir", &self.files.path("ca")]);
        self.files.path(&format!("ca/client-{name}"))
    }

    /// Waits until some site's log says this.
    fn until_logged(&self, what: &str) {
        eventually(&format!("a site says '{what}'"), || {
            self.sites.iter().any(|site| site.log().contains(what))
        });
    }
}

fn steps(heading: &str) -> Vec<String> {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating.md");
    commands_of(&fs::read_to_string(document).unwrap(), heading)
}

#[test]
fn one_command_changes_who_may_do_what_at_every_site_and_a_revoked_client_loses_everything() {
    let running = Running::start();
    let steps = steps("### Access in the whole cluster");
    assert_eq!(steps.len(), 3, "{steps:?}");
    let (ci, laptop) = (running.issue("ci"), running.issue("laptop"));
    assert_ne!(running.try_run(2, &ci, "deploy/x").0, Some(0), "no rule gives it anything yet");
    running.run("", &steps[0]);
    running.until_all_know(4);
    let shown = running.access("c");
    assert_eq!((&shown["version"], &shown["access"]["limits"]["rate"]), (&4.into(), &200.into()), "{shown}");
    let kept = fs::read_to_string(running.home().join("access.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&kept).unwrap(), shown);
    let token = fs::read_to_string(running.home().join("bot.token")).unwrap();
    let secret = token.lines().find(|line| line.contains("meshlock_")).unwrap().trim();
    assert!(!kept.contains(secret) && !running.sites.iter().any(|site| site.log().contains(secret)));
    for at in 0..3 {
        let (code, error) = running.try_run(at, &ci, "deploy/x");
        assert_eq!(code, Some(0), "{error}");
        assert_ne!(running.try_run(at, &ci, "other").0, Some(0));
    }

    says(
        running.home(),
        &["access", "set", "rule", "laptop", "*", "acquire", "--socket", &running.socket("b")],
    );
    running.until_all_know(5);
    let mut holder = running.hold(2, &laptop, "theirs");
    running.run("", &steps[1]);
    running.until_all_know(6);
    assert!(!holder.end().success(), "it has lost its lock");
    let told = holder.log();
    assert!(
        told.contains("the list `revoked` of this site or of the cluster has the entry 'client/laptop'"),
        "{told}"
    );
    for at in 0..3 {
        assert_ne!(running.try_run(at, &laptop, "x").0, Some(0), "site {at} refuses it");
    }

    running.run("", &steps[2]);
    running.until_all_know(10);
    let shown = running.access("c");
    assert_eq!(shown["access"]["revoked"], Value::Array(Vec::new()), "{shown}");
    eventually("it is let in again", || running.try_run(1, &laptop, "x").0 == Some(0));
    // What cannot be is refused, and changes nothing.
    let socket = running.socket("a");
    let set = |what: &[&str]| {
        let arguments: Vec<&str> =
            ["access", "set"].iter().chain(what).copied().chain(["--socket", &socket]).collect();
        fails(running.home(), 64, &arguments)
    };
    assert!(set(&["rule", "ci", "x", "admin"]).contains("the verb admin is about the whole cluster"));
    assert!(set(&["revoked", "laptop"]).contains("say client/NAME, site/NAME or serial/HEX"));
    assert!(set(&["revoked", "site/b", "site/c"]).contains("it would revoke so many of the voters"));
    assert!(set(&["limit", "speed", "1"]).contains("'speed' is not a limit of the cluster; there are rate,"));
    let error = fails(running.home(), 64, &["access", "unset", "rule", "x", "y", "--socket", &socket]);
    assert!(error.contains("no rule for 'x' and 'y' is in the cluster's access document"), "{error}");
    assert_eq!(running.access("b"), running.access("c"));
}

#[test]
fn a_site_is_added_and_removed_by_the_commands_of_the_document_and_others_stay_outside() {
    let mut running = Running::start();
    let steps = steps("### Adding and removing a site");
    assert_eq!(steps.len(), 3, "{steps:?}");
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let prelude = format!("ADDRESS={free}\nstart() {{ touch start-$1; }}");
    running.run(&prelude, &steps[0]);
    running.run(&prelude, &steps[1]);
    assert!(running.home().join("start-new").exists(), "the document says when to start it");
    let mut new = running.files.start("new");
    new.until_line("new is ready");
    eventually("all have heard of it", || running.members().len() == 4);
    eventually("its token is used up", || {
        let access = running.access("b");
        let sites = access["access"]["sites"].as_array().unwrap();
        sites.len() == 4 && sites.iter().all(|site| site["token"].is_null())
    });
    assert_eq!(running.access("b")["access"]["admission"], "closed");

    // Any other site with a certificate of the authority stays outside, and both ends say why.
    says(running.home(), &["ca", "issue", "stranger", "--dir", &running.files.path("ca")]);
    let config = fs::read_to_string(running.home().join("new.toml")).unwrap();
    let config = config.replace("\"new\"", "\"stranger\"").replace("site-new", "meshlock-ca/site-stranger");
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    fs::write(
        running.home().join("stranger.toml"),
        config.replace(&free.port().to_string(), &other.port().to_string()),
    )
    .unwrap();
    let stranger = running.files.start("stranger");
    let why = "it is not admitted; run `meshlock site add stranger` at a member first";
    eventually("the stranger is told why", || stranger.log().contains(why));
    running.until_logged(why);
    drop(stranger);

    running.run(&prelude, &steps[2]);
    eventually("it has left", || running.members().len() == 3);
    new.signal(Signal::TERM);
    assert!(new.end().success());
    let before = new.log().len();
    new = running.files.start("new");
    let removed = |name: &str| {
        format!("it was removed from the cluster; `meshlock site add {name}` at a member admits it again")
    };
    eventually("a removed site is told why it stays outside", || {
        new.log()[before..].contains(&removed("new"))
    });
    running.until_logged(&removed("new"));

    // Also one of those that founded the cluster, which is added again later.
    says(running.home(), &["site", "remove", "c", "--yes", "--socket", &running.socket("a")]);
    running.sites[2].signal(Signal::TERM);
    assert!(running.sites[2].end().success());
    let before = running.sites[2].log().len();
    running.sites[2] = running.files.start("c");
    eventually("the founder stays outside", || running.sites[2].log()[before..].contains(&removed("c")));
    assert_eq!(running.members(), ["a", "b"]);
    says(running.home(), &["site", "add", "c", "--socket", &running.socket("a")]);
    eventually("it is let in again", || running.members() == ["a", "b", "c"]);
    // The list of the revoked is that of all sites: whichever of them it asks, nobody speaks to it or for it.
    says(running.home(), &["access", "set", "revoked", "site/c", "--socket", &running.socket("b")]);
    eventually("nobody carries it", || running.members() == ["a", "b"]);
    for site in &running.sites[..2] {
        let ended = "the list `revoked` of this site or of the cluster has the entry 'site/c'";
        eventually("its connections are ended", || site.log().contains(ended));
    }
}

#[test]
fn a_cluster_that_is_closed_from_its_founding_on_lets_in_only_who_was_added_and_says_so() {
    let files = Files::new(1, false, "admission = 'closed'\n");
    let _founder = files.start_all(&["a"]);
    let (home, socket) = (files.home(), files.path("a.sock"));
    let address = json(home, &["site", "list", "--socket", &socket])["sites"][0]["address"].clone();
    let mut command = meshlock(home);
    let [data, own] = ["data-d", "d.sock"].map(|file| files.path(file));
    command.args(["node", "--site", "d", "--plain", "--listen", "127.0.0.1:0", "--data", &data]);
    command.args(["--socket", &own, "--join", address.as_str().unwrap()]);
    let joiner = Process::start(command, home.join("d.log"));
    let why = "it is not admitted; run `meshlock site add d` at a member first";
    eventually("it is told why it stays outside", || joiner.log().contains(why));
    eventually("the founding list is in the document", || {
        let list = json(home, &["site", "list", "--socket", &socket]);
        list["admission"]["state"] == "closed" && list["admission"]["admitted"][0]["site"] == "a"
    });
    let said = says(home, &["site", "list", "--socket", &socket]);
    assert!(said.contains("Admission is closed. Sites that may join and are not members: none."), "{said}");
    says(home, &["site", "add", "d", "--socket", &socket]);
    joiner.until_line("d is ready");
    says(home, &["access", "set", "admission", "open", "--socket", &socket]);
    let said = says(home, &["site", "list", "--socket", &socket]);
    assert!(said.contains("Admission is open: every site with a certificate may join."), "{said}");
}
