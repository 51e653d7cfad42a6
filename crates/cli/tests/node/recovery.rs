//! The worst days, with real processes: most voters gone for good, all disks gone, all sites killed at once; and backups.
//!
//! The commands of docs/operating.md are run as they are written there. A test does what their words stand for (`stop`, `start`, `empty`,
//! `configure`) before or after a block that the shell runs, in the same order.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use meshlock_testing::{BoundedCommand, eventually};
use rustix::process::Signal;

use crate::certificates::commands_of;
use crate::site::{Files, Process, fails, json, meshlock, output, says};

/// Leases that end soon, and rules that are not the default ones.
const SHORT: &str = "[lease]\nlength = '2s'\nmargin = '200ms'\nrenew_every = '400ms'\n";

fn runbook(heading: &str) -> Vec<String> {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating.md");
    commands_of(&fs::read_to_string(document).unwrap(), heading)
}

/// The words of the runbooks as shell functions. Sites run as children of a shell that ends; what they print goes to files. Who
/// has the lock of a directory has not ended yet.
const WORDS: &str = r#"
stop() { kill -TERM $(cat $1.pid); flock data-$1/lock true; }
start() {
    site=$1; shift
    meshlock node --config $site.toml "$@" >$site.out 2>>$site.log &
    echo $! >$site.pid
}
empty() { if [ -e data-$1 ]; then mv data-$1 data-$1.away; fi; }
configure() {
    lines=$(sed -n 's/^ *"config": "\(.*\)".*$/\1/p' $2 | sed 's/\\"/"/g')
    address=$(sed -n "s/.*name = '$1', address = '\([^']*\)'.*/\1/p" $1.first)
    {
        if [ $1 != a ]; then printf "listen = '%s'\nadvertise = '%s'\n" $address $address; fi
        grep -v '^sites = ' $1.first | sed '/^\[lease\]/,$d'
        printf '%b' "$lines"
        sed -n '/^\[lease\]/,$p' $1.first
    } >$1.toml
}
"#;

/// Sites that are started by the shell of a runbook, and ended with this.
struct Ground {
    files: Files,
}

impl Ground {
    fn new(sites: usize, more: &str) -> Self {
        let files = Files::new(sites, false, more);
        for name in ('a'..='z').take(sites) {
            fs::copy(files.path(&format!("{name}.toml")), files.path(&format!("{name}.first"))).unwrap();
        }
        Ground { files }
    }

    /// Runs a block of a runbook; `variables` are set before.
    fn run(&self, variables: &str, block: &str) -> String {
        let mut shell = Command::new("sh");
        let bin = Path::new(env!("CARGO_BIN_EXE_meshlock")).parent().unwrap().display().to_string();
        let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
        shell.arg("-c").arg(format!("set -eu\n{WORDS}\n{variables}\n{block}")).current_dir(self.files.home());
        shell.env("PATH", path).env("MESHLOCK_SOCKET", self.files.path("a.sock"));
        for directory in ["XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"] {
            shell.env(directory, self.files.home());
        }
        let output = shell.output_in_time();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{block}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn log(&self, site: &str) -> String {
        fs::read_to_string(self.files.path(&format!("{site}.log"))).unwrap_or_default()
    }

    /// Waits until a site is a member, as its node says.
    fn until_ready(&self, site: &str) {
        eventually(&format!("{site} is ready: {}", self.log(site)), || {
            fs::read_to_string(self.files.path(&format!("{site}.out")))
                .is_ok_and(|said| said.contains("is ready"))
        });
    }

    fn kill(&self, site: &str) {
        self.run("", &format!("kill -KILL $(cat {site}.pid)"));
        self.gone(site);
    }

    fn gone(&self, site: &str) {
        eventually("its directory is free", || {
            let lock = fs::File::open(self.files.path(&format!("data-{site}/lock")));
            lock.is_ok_and(|lock| lock.try_lock().is_ok())
        });
    }

    fn fence(&self, site: &str, lock: &str) -> i64 {
        let socket = self.files.path(&format!("{site}.sock"));
        let run =
            ["run", lock, "--wait", "50s", "--socket", &socket, "--", "sh", "-c", "echo $MESHLOCK_FENCE"];
        says(self.files.home(), &run).trim().parse().unwrap()
    }

    fn status(&self, site: &str) -> serde_json::Value {
        json(self.files.home(), &["status", "--socket", &self.files.path(&format!("{site}.sock"))])
    }

    fn members(&self, site: &str) -> Vec<String> {
        let status = self.status(site);
        let members = status["view"]["members"].as_array().unwrap();
        members.iter().map(|member| member["site"].as_str().unwrap().to_owned()).collect()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        for entry in fs::read_dir(self.files.home()).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "pid") {
                let id = fs::read_to_string(entry.path()).ok().and_then(|id| id.trim().parse().ok());
                if let Some(id) = id.and_then(rustix::process::Pid::from_raw) {
                    let _ = rustix::process::kill_process(id, Signal::KILL);
                }
            }
        }
        if std::thread::panicking() {
            for site in ["a", "b", "c"] {
                let log = self.log(site);
                let lines: Vec<&str> = log.lines().collect();
                eprintln!("--- {site}:\n{}", lines[lines.len().saturating_sub(30)..].join("\n"));
            }
        }
    }
}

#[test]
fn a_site_that_survives_a_majority_is_recovered_by_the_commands_of_the_document() {
    let steps = runbook("## When more than half of the voters are gone for good");
    assert_eq!(steps.len(), 5, "{steps:?}");
    let ground = Ground::new(3, SHORT);
    ground.run("", "start a; start b; start c");
    for site in ["a", "b", "c"] {
        ground.until_ready(site);
    }
    let socket = ground.files.path("a.sock");
    says(ground.files.home(), &["rules", "set", "pool/*", "raymond", "--socket", &socket]);
    let before = ground.fence("a", "jobs").max(ground.fence("c", "jobs"));
    let second = ground.status("a")["view"]["members"][1]["address"].as_str().unwrap().to_owned();
    // Two machines burn. Their disks are kept here only to see that they are refused later.
    ground.kill("b");
    ground.kill("c");
    let config = ground.files.path("a.toml");
    let error = fails(ground.files.home(), 64, &["recover", "--config", &config, "--yes"]);
    assert!(error.contains("is in use by process"), "{error}");

    let variables = "SURVIVORS=a OTHERS='b c' CONFIG=a.toml";
    ground.run(variables, &steps[0]);
    let told = ground.run(variables, &steps[1]);
    for said in ["voters a, b, c", "view ", "every fence above ", "loses every lock", "Nothing was done"] {
        assert!(told.contains(said), "{said}: {told}");
    }
    let error = fails(ground.files.home(), 64, &["recover", "--config", &config]);
    assert!(error.contains("say --yes"), "{error}");
    // Whoever has forgotten a site that runs is told so.
    let forgotten = TcpListener::bind(&second).unwrap();
    let error = fails(ground.files.home(), 64, &["recover", "--config", &config, "--yes"]);
    assert!(error.contains(&format!("seem to run: b at {second}; stop them first")), "{error}");
    drop(forgotten);
    ground.run(variables, &steps[2]);
    let recovered: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(ground.files.path("recovered.json")).unwrap()).unwrap();
    let kept = recovered["kept"].as_str().unwrap();
    assert_eq!(fs::metadata(kept).unwrap().permissions().mode() & 0o777, 0o600, "{kept}");
    let again = fails(ground.files.home(), 64, &["recover", "--config", &config, "--yes"]);
    assert!(again.contains("--cluster NAME"), "{again}");
    let refused = output(ground.files.home(), &["node", "--config", &config]);
    let refused = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.contains("was founded by the voters [a]"), "the old list is refused: {refused}");
    ground.run(variables, &steps[3]);
    ground.until_ready("a");
    let after = ground.fence("a", "jobs");
    assert!(after > before, "{after} > {before}");
    assert_eq!(after >> 40, recovered["new"]["epoch"].as_i64().unwrap() + 1);
    assert!(says(ground.files.home(), &["rules", "show", "--socket", &socket]).contains("pool/*"));

    // Sites of the old cluster, started by mistake: two of three, so they would go on by themselves. The new cluster ignores them.
    ground.run(variables, "start b");
    let ignored = "ignored a packet of another cluster";
    eventually("the old site is ignored", || {
        ground.log("a").contains(ignored) || ground.log("b").contains(ignored)
    });
    assert_eq!(ground.members("a"), ["a"]);
    ground.run(variables, "stop b; configure b recovered.json");
    let refused = output(ground.files.home(), &["node", "--config", &ground.files.path("b.toml")]);
    let refused = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.contains("recovered at another site"), "its old state is refused: {refused}");
    fs::copy(ground.files.path("b.first"), ground.files.path("b.toml")).unwrap();
    ground.run(variables, &steps[4]);
    eventually("all have joined anew", || ground.members("a") == ["a", "b", "c"]);
    ground.until_ready("b");
    assert!(ground.fence("b", "jobs") > after);
}

#[test]
fn a_cluster_whose_disks_are_all_gone_is_founded_again_with_higher_fences_by_the_commands_of_the_document() {
    let keep = runbook("## What to keep, and what never to copy");
    let steps = runbook("## When all disks are gone");
    assert_eq!((keep.len(), steps.len()), (1, 2));
    let ground = Ground::new(3, SHORT);
    ground.run("", "start a; start b; start c");
    for site in ["a", "b", "c"] {
        ground.until_ready(site);
    }
    let (home, socket) = (ground.files.home(), ground.files.path("a.sock"));
    says(home, &["rules", "set", "pool/*", "raymond", "--socket", &socket]);
    let rules = json(home, &["rules", "show", "--socket", &socket])["rules"].clone();
    let access = |arguments: &[&str]| says(home, &[&["access"], arguments, &["--socket", &socket]].concat());
    access(&["set", "rule", "ci", "deploy/*", "acquire"]);
    access(&["set", "revoked", "client/laptop"]);
    says(home, &["token", "new", "bot", "--cluster", "--socket", &socket]);
    // From now on only added sites may join, and one of them must not come back.
    says(home, &["site", "add", "r", "--socket", &socket]);
    says(home, &["site", "remove", "r", "--yes", "--socket", &socket]);
    let shown = || json(home, &["access", "show", "--socket", &socket])["access"].clone();
    let kept = shown();
    ground.run("", &keep[0]);
    let backup = ground.files.path("cluster.json");
    assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    let before = ground.fence("a", "jobs");
    for site in ["a", "b", "c"] {
        ground.kill(site);
    }
    for site in ["a", "b", "c"] {
        fs::remove_file(ground.files.path(&format!("{site}.out"))).unwrap();
    }
    ground.run("SITES='a b c'", &steps[0]);
    for site in ["a", "b", "c"] {
        ground.until_ready(site);
    }
    // The clock alone gives the same period of four minutes as for the lost cluster, or the next one: the backup makes the difference.
    let after = ground.fence("a", "jobs");
    assert!(after > before, "{after} > {before}");
    assert_ne!(json(home, &["rules", "show", "--socket", &socket])["rules"], rules);
    assert_eq!(shown()["admission"], "open", "it knows nothing of the lost one");
    access(&["set", "revoked", "client/thief"]);
    ground.run("", &steps[1]);
    assert_eq!(json(home, &["rules", "show", "--socket", &socket])["rules"], rules);
    let now = shown();
    for key in ["rules", "tokens", "limits", "admission", "sites", "removed"] {
        assert_eq!(now[key], kept[key], "{key}");
    }
    assert_eq!((&now["admission"], &now["removed"]), (&"closed".into(), &serde_json::json!(["r"])));
    assert_eq!(now["revoked"], serde_json::json!(["client/thief", "client/laptop"]));
}

#[test]
fn a_cluster_founded_by_the_clock_begins_far_above_one_and_a_restart_goes_on() {
    let files = Files::new(1, false, "");
    let mut sites = files.start_all(&["a"]);
    let first = files.client("a", "test").acquire("jobs");
    assert!(first >> 40 > 100_000, "it is later than October 2026: {first}");
    let status = json(files.home(), &["status", "--socket", &files.path("a.sock")]);
    assert_eq!(status["view"]["epoch"].as_i64(), Some(first >> 40));
    assert!(status["view"]["epochs_ahead_of_clock"].as_i64().unwrap() <= 2, "{status}");
    sites[0].signal(Signal::TERM);
    sites[0].end();
    let floor = (first + (1 << 60)).to_string();
    let again = files.start_with("a", &["--fence-floor", &floor]);
    again.until_line("a is ready");
    let second = files.client("a", "test").acquire("jobs");
    assert!(second > first && second < first + (1 << 60), "a floor counts at the founding only");
    drop(again);
    fs::remove_dir_all(files.path("data-a")).unwrap();
    let founded = files.start_with("a", &["--fence-floor", &floor]);
    founded.until_line("a is ready");
    assert!(files.client("a", "test").acquire("jobs") > first + (1 << 60));
    let error = fails(files.home(), 64, &["node", "--fence-floor", "9223372036854775807"]);
    assert!(error.contains("fence_floor") && error.contains("no room"), "{error}");
}

#[test]
fn what_rules_show_writes_can_be_loaded_and_a_backup_is_restored_only_where_fences_are_higher() {
    let files = Files::new(1, false, "");
    let _site = files.start_all(&["a"]);
    let (home, socket) = (files.home(), files.path("a.sock"));
    let first = says(home, &["rules", "show", "--json", "--socket", &socket]);
    fs::write(files.path("rules.json"), &first).unwrap();
    says(home, &["backup", &files.path("backup.json"), "--socket", &socket]);
    says(home, &["rules", "set", "jobs", "raymond", "--socket", &socket]);
    says(home, &["rules", "load", &files.path("rules.json"), "--socket", &socket]);
    assert!(!says(home, &["rules", "show", "--socket", &socket]).contains("raymond"));
    says(home, &["rules", "set", "jobs", "raymond", "--socket", &socket]);
    let error = fails(home, 64, &["restore", &files.path("backup.json"), "--socket", &socket]);
    assert!(error.contains("say --yes"), "{error}");
    says(home, &["restore", &files.path("backup.json"), "--yes", "--socket", &socket]);
    assert!(!says(home, &["rules", "show", "--socket", &socket]).contains("raymond"));

    let error = fails(home, 64, &["rules", "load", &files.path("backup.json"), "--socket", &socket]);
    assert!(error.contains("not rules as `meshlock rules show --json` writes them"), "{error}");
    let error = fails(home, 64, &["restore", &files.path("rules.json"), "--yes", "--socket", &socket]);
    assert!(error.contains("not a backup"), "{error}");
    // A backup of the same cluster with higher fences: this one was founded without it.
    let text = fs::read_to_string(files.path("backup.json")).unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let epoch = document["epoch"].as_u64().unwrap() + 1000;
    document["epoch"] = epoch.into();
    document["fence_floor"] = (((epoch + 1) << 40) - 1).to_string().into();
    fs::write(files.path("higher.json"), document.to_string()).unwrap();
    let error = fails(home, 64, &["restore", &files.path("higher.json"), "--yes", "--socket", &socket]);
    assert!(error.contains("--fence-floor-from"), "{error}");
    let error =
        fails(home, 69, &["backup", &files.path("none.json"), "--socket", &files.path("nobody.sock")]);
    assert!(!error.is_empty() && !Path::new(&files.path("none.json")).exists());
}

/// What a holder was promised before the failure is over before anyone is granted the lock after it; nothing is left to be done by hand.
#[test]
fn after_a_power_failure_of_all_sites_at_once_they_serve_again_and_fences_rise() {
    let files = Files::new(3, false, SHORT);
    let mut sites = files.start_all(&["a", "b", "c"]);
    let before = files.client("b", "test").acquire("jobs");
    for site in &sites {
        site.signal(Signal::KILL);
    }
    for site in &mut sites {
        site.end();
    }
    let again: Vec<Process> = ["a", "b", "c"].iter().map(|site| files.start(site)).collect();
    for (site, process) in ["a", "b", "c"].iter().zip(&again) {
        process.until_line(&format!("{site} is ready"));
    }
    let after = files.client("c", "test").acquire("jobs");
    assert!(after >> 40 > before >> 40, "{after} > {before}");
    for process in &again {
        let log = process.log();
        assert!(!log.contains("ERROR") && !log.contains("does not vote"), "{log}");
    }
}

#[test]
fn a_damaged_file_is_named_with_the_cause_and_the_remedy_and_the_site_does_not_start() {
    let files = Files::new(1, false, "");
    let mut sites = files.start_all(&["a"]);
    sites[0].signal(Signal::TERM);
    sites[0].end();
    let file = files.home().join("data-a/state.redb");
    let length = fs::metadata(&file).unwrap().len();
    fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(length / 3).unwrap();
    for arguments in [&["node"][..], &["recover", "--dry-run"]] {
        let mut command = meshlock(files.home());
        let output = command.args(arguments).args(["--config", &files.path("a.toml")]).output_in_time();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{error}");
        for said in ["data-a/state.redb", "damaged", "move the directory away"] {
            assert!(error.contains(said), "{said}: {error}");
        }
    }
}
