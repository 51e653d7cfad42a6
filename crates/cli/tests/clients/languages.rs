//! How the programs of each language are built and run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use meshlock_testing::{BoundedCommand, first_some, needs_program, skip};

/// Time limit for compilers and downloads.
const BUILT_WITHIN: Duration = Duration::from_mins(8);

/// The directory of the clients.
pub(crate) fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients")
}

/// Returns a directory of the tests that stays between runs, with what `build` makes in it of the files in `parts` of a client's directory.
/// It is not touched while they stay as they are: another test may be using it. `None` if `build` returns false.
fn built(name: &str, parts: &[&str], build: impl FnOnce(&Path) -> bool) -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("clients-{name}"));
    std::fs::create_dir_all(&dir).unwrap();
    let gate = std::fs::File::create(dir.join("lock")).unwrap();
    let locked = first_some(BUILT_WITHIN, || gate.try_lock().ok());
    assert!(locked.is_some(), "another process uses {} for {BUILT_WITHIN:?}", dir.display());
    let (sources, stamp) = (sources(&clients().join(name), parts), dir.join("built-of"));
    if std::fs::read_to_string(&stamp).ok().as_deref() != Some(&sources) {
        let _ = std::fs::remove_file(&stamp);
        if !build(&dir) {
            return None;
        }
        std::fs::write(stamp, sources).unwrap();
    }
    Some(dir)
}

/// Returns the names and contents of all files in some parts of a directory.
fn sources(dir: &Path, parts: &[&str]) -> String {
    let mut files: Vec<PathBuf> = Vec::new();
    for part in parts.iter().map(|part| dir.join(part)) {
        let listed = part.is_dir().then(|| std::fs::read_dir(&part).unwrap());
        let inside = listed.into_iter().flatten().map(|file| file.unwrap().path());
        files.extend(inside.chain(part.is_file().then(|| part.clone())).filter(|file| file.is_file()));
    }
    files.sort();
    let with_name =
        |file: &PathBuf| format!("{}\n{}", file.display(), std::fs::read_to_string(file).unwrap());
    files.iter().map(with_name).collect::<Vec<_>>().concat()
}

/// Runs a command that must succeed, and returns what it prints.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output_within(BUILT_WITHIN);
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{error}", output.status);
    format!("{out}{error}")
}

/// Returns Go's command, in the directory of the client. It uses nothing of the network, and no cache but that of the tests.
pub(crate) fn go() -> Command {
    let mut go = Command::new("go");
    go.current_dir(clients().join("go"))
        .env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-cache"));
    go.env("GOFLAGS", "-mod=mod").env("GOPROXY", "off").env("GOTOOLCHAIN", "local").env("CGO_ENABLED", "0");
    go
}

/// Builds the examples of Go; `None` if Go is not installed.
fn go_examples() -> Option<PathBuf> {
    if !needs_program("go") {
        return None;
    }
    let dir = built("go", &[".", "examples"], |dir| {
        run(go().arg("build").arg("-o").arg(dir.join("examples")).arg("./examples"));
        true
    });
    dir.map(|dir| dir.join("examples"))
}

/// Builds the package for TypeScript in a directory of the tests, which is returned; `None` if that needs what is not there.
pub(crate) fn typescript() -> Option<PathBuf> {
    if !needs_program("node") || !needs_program("npm") {
        return None;
    }
    let files = [
        "package.json",
        "package-lock.json",
        "tsconfig.json",
        ".npmrc",
        "README.md",
        "LICENSE-MIT",
        "LICENSE-APACHE",
    ];
    let parts = [&["src", "test", "examples"], &files[..]].concat();
    built("typescript", &parts, |dir| {
        let source = clients().join("typescript");
        for part in ["src", "test", "examples"] {
            let copy = dir.join(part);
            let _ = std::fs::remove_dir_all(&copy);
            std::fs::create_dir_all(&copy).unwrap();
            for file in std::fs::read_dir(source.join(part)).unwrap() {
                let file = file.unwrap();
                std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
            }
        }
        for file in files {
            std::fs::copy(source.join(file), dir.join(file)).unwrap();
        }
        let mut install = Command::new("npm");
        let output = install.current_dir(dir).args(["ci", "--silent"]).output_within(BUILT_WITHIN);
        if !output.status.success() {
            eprintln!("{}", String::from_utf8_lossy(&output.stderr));
            skip("the TypeScript compiler from npm's registry", "give this machine a way to the registries");
            return false;
        }
        let _ = std::fs::remove_dir_all(dir.join("dist"));
        run(Command::new("node").current_dir(dir).arg("node_modules/typescript/bin/tsc"));
        true
    })
}

/// A language that has the five examples.
#[derive(Clone, Debug)]
pub(crate) enum Language {
    Go(PathBuf),
    TypeScript(PathBuf),
    Python,
    Rust,
}

impl Language {
    /// Builds the examples of all languages; `None` if one of them is not installed.
    pub(crate) fn all() -> Option<Vec<Language>> {
        let is_there = needs_program("python3") && needs_program("sqlite3");
        let (go, typescript) = (go_examples()?, typescript()?);
        let script = typescript.join("dist/examples/main.js");
        is_there
            .then(|| vec![Language::Go(go), Language::TypeScript(script), Language::Python, Language::Rust])
    }

    /// Returns the command for some turns of an example: its name, the directory, the number of turns, the first job.
    pub(crate) fn example(&self, arguments: &[&str; 4]) -> Command {
        let mut command = match self {
            Language::Go(program) => Command::new(program),
            Language::TypeScript(script) => {
                let mut node = Command::new("node");
                node.arg(script);
                node
            }
            Language::Python => {
                let (python, package) = (Command::new("python3"), clients().join("python"));
                with_package(python, &package, "examples/main.py")
            }
            Language::Rust => {
                // This program, started again for one of its tests.
                let mut this = Command::new(std::env::current_exe().unwrap());
                this.args(["--exact", "kills::an_example_of_rust_takes_turns", "--nocapture"]);
                this.env("EXAMPLE", arguments.join(" "));
                return this;
            }
        };
        command.args(arguments);
        command
    }
}

fn with_package(mut python: Command, package: &Path, script: &str) -> Command {
    python
        .arg(package.join(script))
        .env("PYTHONPATH", package.join("src"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    python
}
