//! `soak`: what takes longer than CI may, as a list of steps. A step that fails does not stop those after it.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::ci::{
    ALL_ERRATA, ALL_PROOFS, BROWSERS, KEPT_BY_GO, MEDIUM_RUNS, NORMAL_FORMS, PROMISE, SHORTEST,
    ZOOKEEPER as ZOOKEEPER_TEST,
};
use crate::packages::{self, Package, file, program};
use crate::run::{BUILT_ONCE, cargo, cargo_test};
use crate::{compiler, others};

/// One thing to do. Add yours to [`STEPS`].
struct Step {
    name: &'static str,
    about: &'static str,
    run: fn(&Path, &Size) -> anyhow::Result<()>,
}

const STEPS: &[Step] = &[
    Step {
        name: "etcd-client",
        about: "the crate etcd-client against Meshlock and against etcd; installs protoc",
        run: etcd_client,
    },
    Step {
        name: "zookeeper",
        about: "the benchmark's client of ZooKeeper against a real one; installs Java",
        run: zookeeper,
    },
    Step {
        name: "explorations",
        about: "the runs of docs/CHECKED.md up to 300,000 states, all normal forms, and all errata",
        run: explorations,
    },
    Step {
        name: "features",
        about: "the library without features, and it and its tests with the default ones, as most programs compile it",
        run: features,
    },
    Step {
        name: "proofs",
        about: "meshlock prove all --long: every proof, and the code compared with the models in larger runs",
        run: proofs,
    },
    Step { name: "seeds", about: "whole simulated clusters: meshlock dst, --seeds", run: seeds },
    Step {
        name: "nonsense",
        about: "changed bytes for every call and every decoder, --cases",
        run: nonsense,
    },
    Step {
        name: "storms",
        about: "real processes under faults drawn from further seeds, --storms",
        run: storms,
    },
    Step {
        name: "promise",
        about: "clients of etcd and Consul know of their loss before the next holder has the lock, --runs each; installs Go",
        run: promise,
    },
    Step {
        name: "others",
        about: "the tests that others wrote for clients of etcd and Consul, on three sites; installs Go's sources of them",
        run: others,
    },
    Step {
        name: "others-node",
        about: "the tests of Node's etcd3 in the same way; MESHLOCK_ETCD3_SOURCE names the folder where it is built with its tests",
        run: others_node,
    },
    Step {
        name: "clients",
        about: "the clients of all languages while sites are killed, --storms rounds",
        run: clients,
    },
    Step {
        name: "restarts",
        about: "commands during rolling restarts of their sites, 25 for each of --runs, none of which may fail",
        run: restarts,
    },
    Step {
        name: "types",
        about: "mypy --strict over the client for Python and its examples; installs mypy from PyPI",
        run: types,
    },
    Step {
        name: "browsers",
        about: "every scenario of the lab's page in Chromium, Firefox and WebKitGTK",
        run: browsers,
    },
    Step {
        name: "upgrade",
        about: "a rolling upgrade from the program of the last release, which is built first",
        run: upgrade,
    },
];

/// The commit of the last release, where no tag names one.
const LAST_RELEASE: &str = "763a983d";

/// A step that could not be run here, and why. It is counted, and does not fail the whole.
#[derive(Debug)]
struct Skipped(String);

impl std::fmt::Display for Skipped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skipped {}

/// Packages for building the crate `etcd-client`.
const PROTOBUF: &[Package] = &[
    program("protoc", "protobuf-compiler", "builds the crate etcd-client"),
    file("/usr/include/google/protobuf/empty.proto", "libprotobuf-dev", "what its definitions include"),
];

/// ZooKeeper, which brings a Java runtime: too much for CI.
const ZOOKEEPER: &[Package] = &[
    program("java", "default-jre-headless", "runs ZooKeeper"),
    file("/usr/share/java/zookeeper.jar", "zookeeper", "what is benchmarked"),
];

/// etcd's client for Go.
const GO: &[Package] = &[
    program("go", "golang-go", "builds a client of etcd"),
    file(
        "/usr/share/gocode/src/go.etcd.io/etcd/clientv3/lease.go",
        "golang-etcd-server-dev",
        "the sources of etcd's client for Go",
    ),
];

/// Number of changed requests for each call in one run of the test: a run ends within the time that every test has, also on a machine
/// that is busy.
const ANSWERED_AT_ONCE: u64 = 2000;

/// How many times faster a changed message is decoded than a changed request is answered.
const DECODED_PER_ANSWERED: u64 = 50;

/// The first seed of storms that CI does not have.
const FIRST_STORM: u64 = 2;

/// How much each step does.
#[derive(Debug, PartialEq, Eq)]
struct Size {
    seeds: u64,
    cases: u64,
    storms: u64,
    runs: u64,
}

/// The options of the command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    list: bool,
    /// Names of steps; all if there is none.
    only: Vec<String>,
    size: Size,
}

impl Options {
    /// Reads the command line; the error says what is wrong with it.
    pub(crate) fn parse(arguments: &[&str]) -> Result<Self, String> {
        let size = Size { seeds: 50_000, cases: 20_000, storms: 20, runs: 20 };
        let mut options = Options { list: false, only: Vec::new(), size };
        let mut rest = arguments.iter();
        while let Some(&option) = rest.next() {
            let mut value = || rest.next().copied().ok_or(format!("{option} needs a value"));
            match option {
                "--list" => options.list = true,
                "--only" => options.only.push(known_step(value()?)?),
                "--seeds" => options.size.seeds = number(option, value()?)?,
                "--cases" => options.size.cases = number(option, value()?)?,
                "--storms" => options.size.storms = number(option, value()?)?,
                "--runs" => options.size.runs = number(option, value()?)?,
                _ => return Err(format!("soak has no option {option}")),
            }
        }
        Ok(options)
    }
}

fn known_step(name: &str) -> Result<String, String> {
    let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
    let unknown = || format!("soak has no step {name}; its steps: {}", names.join(", "));
    names.contains(&name).then(|| name.to_owned()).ok_or_else(unknown)
}

fn number(option: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{option} {text}: a number is needed"))
}

/// Runs the steps and says at the end which of them failed.
pub(crate) fn soak(root: &Path, options: &Options) -> anyhow::Result<()> {
    if options.list {
        for step in STEPS {
            eprintln!("  {:12} {}", step.name, step.about);
        }
        return Ok(());
    }
    let is_wanted =
        |step: &&Step| options.only.is_empty() || options.only.iter().any(|name| name == step.name);
    let steps: Vec<&Step> = STEPS.iter().filter(is_wanted).collect();
    let mut summary = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        eprintln!("soak: step {} of {}: {} ({})", at + 1, steps.len(), step.name, step.about);
        let start = Instant::now();
        let result = (step.run)(root, &options.size);
        summary.push((step.name, start.elapsed(), result));
    }
    conclude(&summary)
}

fn conclude(summary: &[(&str, Duration, anyhow::Result<()>)]) -> anyhow::Result<()> {
    eprintln!("soak: summary");
    for (name, took, result) in summary {
        let outcome = match result {
            Ok(()) => "passed".to_owned(),
            Err(error) if error.is::<Skipped>() => format!("skipped: {error:#}"),
            Err(error) => format!("FAILED: {error:#}"),
        };
        eprintln!("  {name:12} {:8.1} s  {outcome}", took.as_secs_f64());
    }
    let errors = || summary.iter().filter_map(|(_, _, result)| result.as_ref().err());
    let skipped = errors().filter(|error| error.is::<Skipped>()).count();
    if skipped > 0 {
        eprintln!("soak: {skipped} of {} steps skipped", summary.len());
    }
    let failed = errors().count() - skipped;
    ensure!(failed == 0, "{failed} of {} steps failed", summary.len());
    Ok(())
}

fn etcd_client(root: &Path, _: &Size) -> anyhow::Result<()> {
    packages::install(packages::CI)?;
    packages::install(PROTOBUF)?;
    cargo(root, "build --release --locked", &[])?;
    let target = crate::target_dir(root);
    let [meshlock, own_target] =
        ["release/meshlock", "interop"].map(|name| target.join(name).display().to_string());
    let test = "test --locked --manifest-path interop/etcd-client-rs/Cargo.toml";
    cargo_test(root, test, &[("MESHLOCK", &meshlock), ("CARGO_TARGET_DIR", &own_target)], &[])
}

fn zookeeper(root: &Path, _: &Size) -> anyhow::Result<()> {
    packages::install(ZOOKEEPER)?;
    test(root, "--lib --bins", ZOOKEEPER_TEST, &[])
}

fn explorations(root: &Path, _: &Size) -> anyhow::Result<()> {
    test(root, "--test matrix", MEDIUM_RUNS, &[])?;
    test(root, "--test validation", NORMAL_FORMS, &[])?;
    test(root, "--test golden", SHORTEST, &[])?;
    test(root, "--test errata", ALL_ERRATA, &[])
}

fn browsers(root: &Path, _: &Size) -> anyhow::Result<()> {
    packages::install(packages::CI)?;
    test(root, "--test browser", BROWSERS, &[])
}

fn features(root: &Path, _: &Size) -> anyhow::Result<()> {
    cargo(root, "check -p meshlock --no-default-features --locked", &[])?;
    cargo(root, "check -p meshlock --all-targets --locked", &[])
}

fn proofs(root: &Path, _: &Size) -> anyhow::Result<()> {
    packages::install(packages::CI)?;
    test(root, "--test proved", ALL_PROOFS, &[])?;
    cargo(root, "run --release --locked -- prove all --long", &[])
}

fn seeds(root: &Path, size: &Size) -> anyhow::Result<()> {
    cargo(root, &format!("run --release --locked -- dst --seeds 0..{}", size.seeds), &[])?;
    // Seeds from here on draw the algorithms that were added after many seeds had been recorded, too.
    let later = 1_u64 << 32;
    cargo(root, &format!("run --release --locked -- dst --seeds {later}..{}", later + size.seeds / 4), &[])
}

fn nonsense(root: &Path, size: &Size) -> anyhow::Result<()> {
    let server = "no_request_brings_the_server_down";
    for round in 0..size.cases.div_ceil(ANSWERED_AT_ONCE) {
        let cases = (size.cases - round * ANSWERED_AT_ONCE).min(ANSWERED_AT_ONCE).to_string();
        let environment = [("MESHLOCK_FUZZ_CASES", &*cases), ("MESHLOCK_FUZZ_SEED", &*round.to_string())];
        test(root, "--lib", server, &environment)?;
    }
    let decoders = "no_decoder_is_brought_down";
    let cases = (size.cases * DECODED_PER_ANSWERED).to_string();
    test(root, "--test scenarios", decoders, &[("MESHLOCK_FUZZ_CASES", &cases)])
}

fn storms(root: &Path, size: &Size) -> anyhow::Result<()> {
    packages::install(packages::CI)?;
    let mut failed = Vec::new();
    for seed in FIRST_STORM..FIRST_STORM + size.storms {
        let environment = [("MESHLOCK_FAULT_SEED", &*seed.to_string())];
        eprintln!("soak: storm of seed {seed}");
        if let Err(error) = test(root, "--test faults", "a_storm_of_faults", &environment) {
            eprintln!("soak: seed {seed}: {error:#}");
            failed.push(seed.to_string());
        }
    }
    ensure!(failed.is_empty(), "storms of seeds {} failed", failed.join(", "));
    Ok(())
}

fn promise(root: &Path, size: &Size) -> anyhow::Result<()> {
    packages::install(packages::CI)?;
    packages::install(GO)?;
    test(root, "--test node", PROMISE, &[("MESHLOCK_PROMISE_RUNS", &size.runs.to_string())])?;
    test(root, "--test node", KEPT_BY_GO, &[])
}

fn others(root: &Path, _: &Size) -> anyhow::Result<()> {
    others::run(root, others::FETCHED)
}

fn others_node(root: &Path, _: &Size) -> anyhow::Result<()> {
    if std::env::var_os(others::ETCD3_SOURCE).is_none() {
        let (variable, version) = (others::ETCD3_SOURCE, others::ETCD3_VERSION);
        let why = format!(
            "{variable} is not set: it names a folder with the sources of etcd3 {version}, where it is built with its tests"
        );
        return Err(Skipped(why).into());
    }
    others::run(root, others::GIVEN)
}

fn clients(root: &Path, size: &Size) -> anyhow::Result<()> {
    packages::install(packages::CI)?;
    let environment = [("MESHLOCK_CLIENT_KILLS", &*size.storms.to_string())];
    test(root, "--test clients", "the_examples_of_all_languages", &environment)
}

fn restarts(root: &Path, size: &Size) -> anyhow::Result<()> {
    let environment = [("MESHLOCK_RESTART_COMMANDS", &*(25 * size.runs).to_string())];
    test(root, "--test node", "a_rolling_restart_fails_no_command", &environment)
}

/// Checks the types of the client for Python as a program that uses it would: for the oldest version that it is for.
fn types(root: &Path, _: &Size) -> anyhow::Result<()> {
    let environment = crate::target_dir(root).join("mypy");
    let mypy = environment.join("bin/mypy");
    if !mypy.exists() {
        succeeds(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
        let mut pip = Command::new(environment.join("bin/python"));
        succeeds(pip.args(["-m", "pip", "install", "--quiet", "mypy==1.11.2"]))?;
    }
    let python = root.join("clients/python");
    for files in ["src/meshlock", "examples"] {
        let mut check = Command::new(&mypy);
        check.args(["--strict", "--python-version", "3.9", "--cache-dir"]).arg(environment.join("cache"));
        succeeds(check.current_dir(&python).env("MYPYPATH", "src:examples").arg(files))?;
    }
    Ok(())
}

/// Runs a command whose output is of interest.
fn succeeds(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} failed");
    Ok(())
}

/// Builds the program of the last release in a worktree of its own, and upgrades a cluster from it to this one.
fn upgrade(root: &Path, _: &Size) -> anyhow::Result<()> {
    let target = crate::target_dir(root);
    let (tree, built) = (target.join("last-release"), target.join("last-release-build"));
    let commit = last_release(root)?;
    let built = built_there(root, &commit, &tree, &built);
    // Whatever came of it, the worktree is not left in the repository's list.
    let removed = git(root, &["worktree", "remove", "--force", &tree.display().to_string()]);
    let program = match built {
        Ok(program) => program,
        Err(error) => return Err(Skipped(format!("{commit} cannot be built here: {error:#}")).into()),
    };
    removed?;
    let environment = [("MESHLOCK_LAST_RELEASE", &*program)];
    test(root, "--test node", "a_cluster_of_the_last_release_is_upgraded", &environment)
}

/// Builds a commit in a worktree, with a target directory that stays for the next time. Returns the path of the program.
fn built_there(root: &Path, commit: &str, tree: &Path, built: &Path) -> anyhow::Result<String> {
    git(root, &["worktree", "add", "--force", "--detach", &tree.display().to_string(), commit])?;
    let directory = built.display().to_string();
    cargo(tree, "build --locked -p meshlock-cli", &[("CARGO_TARGET_DIR", &directory)])?;
    let program = built.join("debug/meshlock");
    ensure!(program.is_file(), "there is no {}", program.display());
    Ok(program.display().to_string())
}

/// Returns the newest tag of a version that is not this commit, or [`LAST_RELEASE`].
fn last_release(root: &Path) -> anyhow::Result<String> {
    let tags = git(root, &["tag", "--list", "v*", "--sort=-version:refname", "--no-contains", "HEAD"])?;
    Ok(tags.lines().next().unwrap_or(LAST_RELEASE).to_owned())
}

fn git(root: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new("git");
    let output = command.arg("-C").arg(root).args(arguments).output().context("cannot start git")?;
    ensure!(
        output.status.success(),
        "git {} failed: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs the tests whose names contain `filter`; fails if there is none, because then it has been renamed. The features and the
/// compiler are those of CI, so that nothing is compiled twice.
fn test(root: &Path, targets: &str, filter: &str, environment: &[(&str, &str)]) -> anyhow::Result<()> {
    let run = format!("test --workspace --all-features --locked {targets} {filter} --");
    let compiled = compiler::environment(root)?;
    let compiled = compiled.each_ref().map(|(name, value)| (*name, value.as_str()));
    let environment = [environment, &compiled].concat();
    let mut list = Command::new(env!("CARGO"));
    list.current_dir(root).args(run.split(' ')).arg("--list");
    list.envs(BUILT_ONCE.iter().chain(&environment).copied());
    let listed = list.output().context("cannot start cargo")?;
    if !listed.status.success() {
        bail!("cargo {run} --list failed:\n{}", String::from_utf8_lossy(&listed.stderr));
    }
    ensure!(String::from_utf8_lossy(&listed.stdout).contains(": test"), "no test is called {filter}");
    cargo_test(root, &format!("{run} --nocapture"), &environment, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_sizes_are_read_and_mistakes_are_named() {
        let options = Options::parse(&["--only", "seeds", "--seeds", "7", "--only", "storms"]).unwrap();
        assert_eq!((options.only, options.size.seeds), (vec!["seeds".to_owned(), "storms".to_owned()], 7));
        for (arguments, error) in [
            (&["--only", "sleep"][..], "soak has no step sleep; its steps: etcd-client, "),
            (&["--only"], "--only needs a value"),
            (&["--seeds", "many"], "--seeds many: a number is needed"),
            (&["fast"], "soak has no option fast"),
        ] {
            assert!(Options::parse(arguments).unwrap_err().starts_with(error), "{arguments:?}");
        }
    }

    #[test]
    fn a_step_that_failed_makes_the_whole_fail() {
        let passed = || ("one", Duration::ZERO, Ok(()));
        assert!(conclude(&[passed()]).is_ok());
        let error = conclude(&[passed(), ("two", Duration::ZERO, Err(anyhow::anyhow!("no")))]).unwrap_err();
        assert_eq!(error.to_string(), "1 of 2 steps failed");
        let skipped = || ("three", Duration::ZERO, Err(Skipped("no compiler".to_owned()).into()));
        assert!(conclude(&[passed(), skipped()]).is_ok(), "what cannot be run here is counted");
        assert!(conclude(&[skipped(), ("two", Duration::ZERO, Err(anyhow::anyhow!("no")))]).is_err());
    }
}
