//! Certificates and keys that are replaced, end and are revoked while sites run, and locks that outlast it.

use std::fs;
use std::path::Path;
use std::process::Command;

use meshlock_testing::{BoundedCommand, eventually};
use rustix::process::Signal;

use super::site::{Files, Process, fails, json, meshlock, output, says};

/// Everyone with a certificate of a client may use every lock.
const RULES: &str = "clients = '127.0.0.1:0'\n\
                     [[access]]\nprincipal = '*'\nlocks = '*'\nverbs = ['acquire', 'watch']\n";

/// A running cluster, and where its first site serves clients of the network.
struct Running {
    files: Files,
    sites: Vec<Process>,
    address: String,
}

impl Running {
    fn start(files: Files, names: &[&str]) -> Self {
        let sites: Vec<Process> = names.iter().map(|name| files.start(name)).collect();
        let lines: Vec<String> = sites.iter().map(Process::line).collect();
        let address = lines[0].rsplit_once(" and ").expect("it says where").1.to_owned();
        Running { files, sites, address }
    }

    /// Issues a certificate to a client. Returns its directory.
    fn issue(&self, authority: &str, name: &str) -> String {
        says(self.files.home(), &["ca", "issue", name, "--client", "--dir", &self.files.path(authority)]);
        self.files.path(&format!("{authority}/client-{name}"))
    }

    /// Starts a command that holds a lock over the network. Returns its fence, too.
    fn hold(&self, lock: &str, certificate: &str) -> (Process, String) {
        let mut command = meshlock(self.files.home());
        command.args(["run", lock, "--node", &self.address, "--certificate", certificate, "--"]);
        command.args(["sh", "-c", "echo $MESHLOCK_FENCE; exec sleep 1000"]);
        let holder = Process::start(command, self.files.home().join(format!("{lock}.log")));
        let fence = holder.line();
        (holder, fence)
    }

    /// Returns the fences of the lock's holders, as the first site sees them.
    fn fences(&self, lock: &str) -> Vec<String> {
        let queue = json(self.files.home(), &["queue", lock, "--socket", &self.files.path("a.sock")]);
        let holders = queue["holders"].as_array().unwrap();
        holders.iter().map(|holder| holder["fence"].as_str().unwrap().to_owned()).collect()
    }

    /// Takes and releases a lock over the network.
    fn try_run(&self, certificate: &str) -> (Option<i32>, String) {
        let place = ["--node", &self.address, "--certificate", certificate];
        let arguments: Vec<&str> =
            ["run", "short", "--wait", "30s"].into_iter().chain(place).chain(["--", "true"]).collect();
        let output = output(self.files.home(), &arguments);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Returns the commands of a section of a document, one text for each block.
pub(crate) fn commands_of(document: &str, heading: &str) -> Vec<String> {
    let section = document.split_once(&format!("\n{heading}\n")).expect("the section is there").1;
    let section = section.split("\n## ").next().unwrap().split("\n### ").next().unwrap();
    let blocks = section.split("```sh\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn an_authority_is_replaced_by_the_commands_of_the_document_and_no_lock_is_lost() {
    let names = ["a", "b", "c"];
    let running = Running::start(Files::new(3, true, RULES), &names);
    let (files, home) = (&running.files, running.files.home());
    // The document calls the directory of the authority by its default name.
    fs::create_dir(home.join("meshlock-ca")).unwrap();
    fs::copy(home.join("ca/ca.pem"), home.join("meshlock-ca/ca.pem")).unwrap();
    let old = running.issue("ca", "old");
    let (mut holder, fence) = running.hold("long", &old);

    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating.md");
    let steps = commands_of(&fs::read_to_string(document).unwrap(), "### Replacing the authority");
    assert_eq!(steps.len(), 4, "{steps:?}");
    let pids: Vec<String> =
        names.iter().zip(&running.sites).map(|(name, site)| format!("{name}={}", site.id())).collect();
    let prelude = format!(
        "set -eu\nSITES='a b c'\n{}\n\
         put() {{ cp \"$1\" \"ca/site-$2/next\"; mv \"ca/site-$2/next\" \"ca/site-$2/$3\"; }}\n\
         reload() {{ eval \"kill -HUP \\$$1\"; }}\n",
        pids.join("\n")
    );
    let run = |step: &str| {
        let mut shell = Command::new("sh");
        let bin = Path::new(env!("CARGO_BIN_EXE_meshlock")).parent().unwrap().display().to_string();
        let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
        shell.arg("-c").arg(format!("{prelude}{step}")).current_dir(home).env("PATH", path);
        let output = shell.output_in_time();
        assert!(output.status.success(), "{step}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let all_say = |what: &str, times: usize| {
        eventually(&format!("all sites say '{what}' {times} times"), || {
            running.sites.iter().all(|site| site.log().matches(what).count() >= times)
        });
    };
    run(&steps[0]);
    run(&steps[1]);
    all_say("authorities=2", 1);
    run(&steps[2]);
    all_say("authorities=2", 2);
    let new = running.issue("new-ca", "new");
    fs::copy(home.join("both.pem"), Path::new(&old).join("ca.pem")).unwrap();
    // In the meantime both old and new clients are served by sites with new certificates.
    for client in [&old, &new] {
        let (code, error) = running.try_run(client);
        assert_eq!(code, Some(0), "{error}");
    }
    run(&steps[3]);
    all_say("authorities=1", 1);

    assert_eq!(running.try_run(&new).0, Some(0));
    let (code, error) = running.try_run(&old);
    assert!(
        code != Some(0) && error.contains("the peer has another authority's ca.pem"),
        "{code:?}: {error}"
    );
    assert!(running.sites[0].log().contains("the client 'old'"), "the log names who cannot come back");
    // A site that is restarted comes back among the others, which have only the new authority.
    let mut sites = running.sites;
    sites[2].signal(Signal::TERM);
    assert!(sites[2].end().success());
    sites[2] = files.start("c");
    sites[2].until_line("c is ready");
    let queue = json(home, &["queue", "long", "--socket", &files.path("a.sock")]);
    let holders = queue["holders"].as_array().unwrap();
    assert!(holders.len() == 1 && holders[0]["fence"] == fence, "{fence}: {queue}");
    holder.signal(Signal::TERM);
    assert!(!holder.end().success());
    assert!(!holder.log().contains("lost"), "{}", holder.log());
}

#[test]
fn files_that_cannot_be_used_change_nothing_and_good_ones_are_used_without_a_signal() {
    let running = Running::start(Files::new(1, true, RULES), &["a"]);
    let (home, site) = (running.files.home(), &running.sites[0]);
    let client = running.issue("ca", "ci");
    let (_holder, fence) = running.hold("long", &client);
    let certificate = home.join("ca/site-a/cert.pem");
    fs::write(&certificate, "nonsense").unwrap();
    site.signal(Signal::HUP);
    eventually("the log says what is wrong", || {
        let log = site.log();
        log.contains("the new certificates cannot be used, and the old ones stay in use")
            && log.contains("cert.pem: no certificate in PEM form is in it")
    });
    assert_eq!(running.try_run(&client).0, Some(0), "the old certificate is still shown");
    // Nobody tells the site of the new ones.
    fs::rename(home.join("ca/site-a"), home.join("ca/before")).unwrap();
    says(home, &["ca", "issue", "a", "--dir", &running.files.path("ca")]);
    eventually("the site has found the new files", || site.log().contains("read the certificates again"));
    assert_eq!(running.try_run(&client).0, Some(0));
    assert_eq!(running.fences("long"), [fence]);
    for secret in ["ca/site-a/key.pem", "ca/before/key.pem"] {
        let key = fs::read_to_string(home.join(secret)).unwrap();
        let line = key.lines().nth(1).unwrap();
        assert!(!site.log().contains(line), "a key is in the log");
    }
}

#[test]
fn a_revoked_client_loses_its_connection_and_both_ends_say_why() {
    let running = Running::start(Files::new(1, true, RULES), &["a"]);
    let (files, site) = (&running.files, &running.sites[0]);
    let (good, bad) = (running.issue("ca", "good"), running.issue("ca", "bad"));
    let (_good_holder, good_fence) = running.hold("mine", &good);
    let (mut bad_holder, _) = running.hold("theirs", &bad);
    let config = files.home().join("a.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("revoked = ['client/bad']\n{text}")).unwrap();
    site.signal(Signal::HUP);
    assert!(!bad_holder.end().success(), "it has lost its lock");
    let told = bad_holder.log();
    assert!(
        told.contains("the lock is lost (the certificate of the client 'bad' is not accepted any more"),
        "{told}"
    );
    let why = "the list `revoked` of this site or of the cluster has the entry 'client/bad'";
    eventually("the site says why", || site.log().contains(why));
    eventually("others can have its lock", || running.fences("theirs").is_empty());
    assert_eq!(running.fences("mine"), [good_fence]);
    let (code, error) = running.try_run(&bad);
    assert!(code != Some(0) && error.contains("it is revoked"), "{code:?}: {error}");
    assert_eq!(running.try_run(&good).0, Some(0));
    // A list that makes no sense leaves the old one in force.
    fs::write(&config, format!("revoked = ['bad']\n{text}")).unwrap();
    site.signal(Signal::HUP);
    eventually("the log says what is wrong", || site.log().contains("entry 1: 'bad' names nobody"));
    assert_ne!(running.try_run(&bad).0, Some(0));
    fs::write(&config, &text).unwrap();
    site.signal(Signal::HUP);
    eventually("it is let in again", || running.try_run(&bad).0 == Some(0));
}

#[test]
fn a_check_warns_of_certificates_and_tokens_that_end_soon() {
    let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let tokens = format!("[[tokens]]\nname = 'bot'\nsha256 = '{hash}'\nexpires = 2020-02-29\n");
    let files = Files::new(1, true, &tokens);
    let (home, config) = (files.home(), files.path("a.toml"));
    let text = says(home, &["node", "--check", "--config", &config]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert_eq!(
        lines[1],
        "warning: the token of 'bot' has ended at 2020-02-29 00:00:00 UTC; make a new one with `meshlock token new bot`"
    );
    fs::rename(home.join("ca/site-a"), home.join("ca/before")).unwrap();
    says(home, &["ca", "issue", "a", "--days", "6", "--dir", &files.path("ca")]);
    let text = says(home, &["node", "--check", "--config", &config]);
    assert!(text.contains("cert.pem: the certificate of the site 'a' ends in 6 days, at "), "{text}");
    assert!(text.contains("issue a new one with `meshlock ca issue a`"), "{text}");
    fs::write(home.join("b.toml"), "[[tokens]]\nname = 'x'\nsha256 = ''\nexpires = 12:00:00\n").unwrap();
    let error = fails(home, 64, &["node", "--check", "--config", &files.path("b.toml")]);
    assert!(error.contains("b.toml:3") || error.contains("b.toml:4"), "{error}");
}
