//! What is in the packages for Python, TypeScript and Go, as their tools make them. Nothing is fetched and nothing is published.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use meshlock_testing::{BoundedCommand, needs_program, skip};

use crate::languages::{clients, go, run, typescript};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const LICENSES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Builds the wheel and the source distribution in the directory that its argument names, and prints what is in them: one name in each
/// line, and at the end what the wheel says of itself.
const BUILD: &str = "
import sys, tarfile, zipfile
from setuptools import build_meta
out = sys.argv[1]
# Both print what they do.
sys.stdout, said = sys.stderr, sys.stdout
names = [build_meta.build_wheel(out), build_meta.build_sdist(out)]
wheel, source = zipfile.ZipFile(f'{out}/{names[0]}'), tarfile.open(f'{out}/{names[1]}')
for name in names: print(name, file=said)
for name in wheel.namelist(): print('wheel', name, file=said)
for name in source.getnames(): print('source', name.partition('/')[2], file=said)
(about,) = [name for name in wheel.namelist() if name.endswith('.dist-info/METADATA')]
print(wheel.read(about).decode(), file=said)
";

/// Returns a Python that has what builds packages. The one that comes first on the path may be without Debian's packages.
fn python() -> Option<&'static str> {
    let has_it = |python: &&str| {
        let mut imports = Command::new(python);
        imports.args(["-c", "import setuptools.build_meta, wheel"]);
        (!Path::new(python).is_absolute() || Path::new(python).exists())
            && imports.output_in_time().status.success()
    };
    let found = ["python3", "/usr/bin/python3"].into_iter().find(has_it);
    if found.is_none() {
        skip("setuptools and wheel for Python", "apt-get install python3-setuptools python3-wheel");
    }
    found
}

/// Copies the files of a directory, and of those in it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (source, target) = (file.path(), to.join(file.file_name()));
        if source.is_dir() {
            copy(&source, &target);
        } else {
            std::fs::copy(source, target).unwrap();
        }
    }
}

/// Returns the names of the files in a directory that end in one of these ways.
fn names(dir: &Path, ends: &[&str]) -> BTreeSet<String> {
    let all = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    all.filter(|name| ends.iter().any(|end| name.ends_with(end))).collect()
}

#[test]
fn the_packages_for_python_have_the_modules_their_types_the_readme_and_the_licenses() {
    if !needs_program("python3") {
        return;
    }
    let Some(python) = python() else { return };
    let home = tempfile::tempdir().unwrap();
    let package = home.path().join("python");
    copy(&clients().join("python"), &package);
    let mut build = Command::new(python);
    build.current_dir(&package).args(["-c", BUILD]).arg(home.path());
    let output = build.output_in_time();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    let has = |line: &str| assert!(said.lines().any(|each| each == line), "'{line}' is missing:\n{said}");
    has(&format!("meshlock-{VERSION}-py3-none-any.whl"));
    has(&format!("meshlock-{VERSION}.tar.gz"));
    let modules = names(&clients().join("python/src/meshlock"), &[".py", "py.typed"]);
    assert!(modules.contains("py.typed") && modules.contains("_aio.py"), "{modules:?}");
    for module in &modules {
        has(&format!("wheel meshlock/{module}"));
        has(&format!("source src/meshlock/{module}"));
    }
    for license in LICENSES {
        has(&format!("wheel meshlock-{VERSION}.dist-info/{license}"));
        has(&format!("source {license}"));
    }
    has("source README.md");
    has("source pyproject.toml");
    // Nothing else is installed.
    let installed = said.lines().filter(|line| line.starts_with("wheel meshlock/")).count();
    assert_eq!(installed, modules.len(), "{said}");
    for line in [
        &format!("Version: {VERSION}"),
        "Requires-Python: >=3.9",
        "License: MIT OR Apache-2.0",
        "Classifier: Typing :: Typed",
        "Description-Content-Type: text/markdown",
        "# Meshlock for Python",
    ] {
        has(line);
    }
    assert!(said.lines().any(|line| line == "Author: The Meshlock authors"), "{said}");
    // It can be used as it is.
    let mut user = Command::new(python);
    user.env("PYTHONPATH", home.path().join(format!("meshlock-{VERSION}-py3-none-any.whl")));
    user.current_dir(home.path())
        .args(["-c", "import meshlock; print(meshlock.Client('a,b'), meshlock.__file__)"]);
    assert!(run(&mut user).contains(".whl/meshlock/__init__.py"));
}

#[test]
fn the_package_for_typescript_has_the_modules_their_types_the_readme_and_the_licenses() {
    let Some(package) = typescript() else { return };
    let mut pack = Command::new("npm");
    pack.current_dir(package).args(["pack", "--dry-run", "--json", "--ignore-scripts", "--offline"]);
    let output = pack.output_in_time();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said[0]["version"], VERSION);
    let files = said[0]["files"].as_array().unwrap();
    let files: BTreeSet<String> =
        files.iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect();
    let modules = names(&clients().join("typescript/src"), &[".ts"]);
    let modules = modules.iter().map(|name| name.trim_end_matches(".ts"));
    let built = modules.flat_map(|name| ["js", "d.ts"].map(|end| format!("dist/src/{name}.{end}")));
    let others = ["package.json", "README.md"].into_iter().chain(LICENSES).map(str::to_owned);
    assert_eq!(files, built.chain(others).collect());
}

#[test]
fn the_module_for_go_needs_nothing_but_go() {
    if !needs_program("go") {
        return;
    }
    let other = "{{if not .Standard}}{{.ImportPath}}{{end}}";
    let said = run(go().args(["list", "-deps", "-f", other, "./..."]));
    assert_eq!(said.split_whitespace().collect::<Vec<_>>(), ["meshlock", "meshlock/examples"]);
}

#[test]
fn every_package_has_the_licenses_of_the_workspace() {
    for license in LICENSES {
        let text = std::fs::read(clients().join("..").join(license)).unwrap();
        for client in ["python", "typescript", "go"] {
            let copied = std::fs::read(clients().join(client).join(license)).unwrap();
            assert!(copied == text, "clients/{client}/{license} is not that of the workspace");
        }
    }
}
