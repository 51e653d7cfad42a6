//! The tests of etcd's and Consul's clients for Go. Each package is built once and each of its tests run in a process of its own, so
//! that one that hangs takes no other with it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use super::{Outcome, Places, succeeds};

/// Where Debian's packages have Go's sources.
const GO_SOURCES: &str = "/usr/share/gocode";

/// The last package of Consul's sources in Debian, version 11.
const CONSUL: &str = "pool/main/c/consul/golang-github-hashicorp-consul-dev_1.8.7+dfsg1-2_all.deb";
const CONSUL_SHA256: &str = "dbc47ac126ba2d3f2ab5ae66e66b4334f1506968aa92bfa884e4924878dbe836";

/// How long a test may take.
const TEST_TIMEOUT: &str = "180s";

/// A package of tests: its path, the files of others' tests that are run, whether it has sources besides, and the files of ours.
struct GoPackage {
    path: &'static str,
    tests: &'static [&'static str],
    with_sources: bool,
    ours: &'static [&'static str],
}

const INTEGRATION: GoPackage = GoPackage {
    path: "go.etcd.io/etcd/integration",
    tests: &[
        "main_test.go",
        "v3_election_test.go",
        "v3_lease_test.go",
        "v3_lock_test.go",
        "v3election_grpc_test.go",
        "v3lock_grpc_test.go",
    ],
    with_sources: false,
    ours: &["etcd-go/cluster.go"],
};

/// The folder above the packages of the client's tests: where it is, Go looks for the client itself.
const CLIENT: GoPackage =
    GoPackage { path: "go.etcd.io/etcd/clientv3", tests: &[], with_sources: true, ours: &[] };

const CONCURRENCY: GoPackage = GoPackage {
    path: "go.etcd.io/etcd/clientv3/concurrency",
    tests: &["election_test.go", "example_election_test.go", "example_mutex_test.go", "example_stm_test.go"],
    with_sources: true,
    ours: &["etcd-go/main_test.go"],
};

const LEASES: GoPackage = GoPackage {
    path: "go.etcd.io/etcd/clientv3/integration",
    tests: &["doc.go", "main_test.go", "lease_test.go"],
    with_sources: false,
    ours: &[],
};

/// Ours: what a client with three endpoints does all day.
const PAIRS: GoPackage =
    GoPackage { path: "meshlock/pairs", tests: &[], with_sources: false, ours: &["etcd-go/pairs_test.go"] };

const CONSUL_API: GoPackage = GoPackage {
    path: "github.com/hashicorp/consul/api",
    tests: &["lock_test.go", "semaphore_test.go", "session_test.go"],
    with_sources: true,
    ours: &["consul-go/meshlock_test.go"],
};

/// Runs the tests of a suite.
pub(super) fn run(places: &Places, suite: &str) -> anyhow::Result<BTreeMap<String, Outcome>> {
    let (package, others) = match suite {
        "etcd/concurrency" => (CONCURRENCY, PathBuf::from(GO_SOURCES)),
        "etcd/leases" => (LEASES, PathBuf::from(GO_SOURCES)),
        "etcd/pairs" => (PAIRS, PathBuf::from(GO_SOURCES)),
        "etcd/services" => (INTEGRATION, PathBuf::from(GO_SOURCES)),
        "consul/api" => (CONSUL_API, consul_sources(places)?),
        _ => bail!("there is no suite {suite} of Go"),
    };
    let own = places.empty(&format!("go/{suite}"))?;
    copy(places, &own, &others, &package)?;
    // All tests of etcd's client use the package with which it starts its members.
    for other in [&INTEGRATION, &CLIENT].into_iter().filter(|other| other.path != package.path) {
        copy(places, &own, Path::new(GO_SOURCES), other)?;
    }
    let program = own.join("tests");
    let path = [own.as_path(), others.as_path(), Path::new(GO_SOURCES)];
    let path = std::env::join_paths(path).context("a directory's name has a colon")?;
    let mut build = Command::new("go");
    build.env("GO111MODULE", "off").env("GOPATH", path).env("GOCACHE", places.work.join("go/cache"));
    build.env_remove("GOFLAGS").args(["test", "-c", "-o"]).arg(&program).arg(package.path);
    succeeds(&mut build)?;
    let mut results = BTreeMap::new();
    for test in names(places, &package, &own)? {
        let mut command = Command::new(&program);
        command.args(["-test.v", "-test.timeout", TEST_TIMEOUT, "-test.run", &format!("^{test}$")]);
        let output = places.test(suite, &test, command.current_dir(&own))?;
        let said = String::from_utf8_lossy(&output.stdout);
        results.insert(test.clone(), outcome(&test, &said, output.status.success()));
    }
    Ok(results)
}

/// Returns what a test came to by what it says. One that leaves without a word has failed.
fn outcome(test: &str, said: &str, is_success: bool) -> Outcome {
    let has = |word: &str| said.lines().any(|line| line.starts_with(&format!("--- {word}: {test} ")));
    match (is_success, has("SKIP"), has("PASS")) {
        (true, true, _) => Outcome::Skipped,
        (true, false, true) => Outcome::Passed,
        (false, _, _) | (true, false, false) => Outcome::Failed,
    }
}

/// Returns the names of the tests and examples in the files of a package.
fn names(places: &Places, package: &GoPackage, own: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    let ours = package
        .ours
        .iter()
        .filter_map(|file| file.rsplit('/').next())
        .filter(|name| name.ends_with("_test.go"));
    for file in package.tests.iter().copied().chain(ours) {
        let path = own.join("src").join(package.path).join(file);
        names.extend(tests_in(&fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?));
    }
    if names.is_empty() {
        bail!("{}: no tests in {}", places.work.display(), package.path);
    }
    Ok(names)
}

fn tests_in(source: &str) -> Vec<String> {
    let name = |line: &str| {
        let rest = line.strip_prefix("func ")?;
        let (name, _) = rest.split_once('(')?;
        let is_test = (name.starts_with("Test") && name != "TestMain") || name.starts_with("Example");
        is_test.then(|| name.to_owned())
    };
    source.lines().filter_map(name).collect()
}

/// Copies what is run of a package, and puts ours in the place of its set-up.
fn copy(places: &Places, own: &Path, others: &Path, package: &GoPackage) -> anyhow::Result<()> {
    let (from, to) = (others.join("src").join(package.path), own.join("src").join(package.path));
    fs::create_dir_all(&to)?;
    let needs_sources = package.with_sources || !package.tests.is_empty();
    let entries = if needs_sources {
        let entries =
            fs::read_dir(&from).with_context(|| format!("there are no sources in {}", from.display()))?;
        entries.collect::<Result<Vec<_>, _>>()?
    } else {
        Vec::new()
    };
    for entry in entries {
        let path = entry.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let is_go = path.extension().is_some_and(|extension| extension == "go");
        let is_source = package.with_sources && is_go && !name.ends_with("_test.go");
        if is_source || package.tests.contains(&name) {
            fs::copy(&path, to.join(name))?;
        }
    }
    for ours in package.ours {
        let name = Path::new(ours).file_name().context("it names a file")?;
        fs::copy(places.ours.join(ours), to.join(name))?;
    }
    Ok(())
}

/// Returns the sources of Consul, which are fetched and unpacked once.
fn consul_sources(places: &Places) -> anyhow::Result<PathBuf> {
    let package = places.fetched(CONSUL, CONSUL_SHA256)?;
    let unpacked = places.empty("consul")?;
    succeeds(Command::new("dpkg-deb").arg("-x").arg(package).arg(&unpacked))?;
    Ok(unpacked.join("usr/share/gocode"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_known_by_its_function_and_its_outcome_by_what_it_says() {
        let source = "func TestMain(m *testing.M) {\nfunc TestOne(t *testing.T) {\nfunc testOne() {\nfunc ExampleX_y() {\n";
        assert_eq!(tests_in(source), ["TestOne", "ExampleX_y"]);
        let said = "=== RUN   TestOne\n--- PASS: TestOne (0.01s)\nPASS\n";
        assert_eq!(outcome("TestOne", said, true), Outcome::Passed);
        assert_eq!(outcome("TestOne", said, false), Outcome::Failed);
        assert_eq!(outcome("TestO", said, true), Outcome::Failed, "nothing was run under that name");
        assert_eq!(outcome("TestTwo", "--- SKIP: TestTwo (0.00s)\n", true), Outcome::Skipped);
    }
}
