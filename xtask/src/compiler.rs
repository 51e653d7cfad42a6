//! The compiler of `ci`: `rustc` that lints and documents what it compiles, so that everything is compiled once.
//!
//! `cargo clippy` and `cargo doc` each type-check the workspace and all its dependencies, and what they have learnt is of no use to
//! the tests, which are compiled from nothing again. But `clippy-driver` is a whole `rustc`, and `rustdoc` reads the same metadata of
//! dependencies. So `ci` names this program to cargo as the wrapper of the compiler for the workspace's own crates
//! (`RUSTC_WORKSPACE_WRAPPER`, which is what `cargo clippy` does, too). Cargo then calls it with the path of `rustc` and that one's
//! arguments. Every warning is an error; what fails is not kept by cargo, and so fails again in the next run.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Context;

/// The variable that names the wrapper to cargo.
const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";

/// What `cargo clippy -- -D warnings` hands to `clippy-driver`. Cargo must have it, too: it compiles anew what was compiled with another
/// value of it.
const LINTS: (&str, &str) = ("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");

/// What is compiled without optimisation, because that takes longer than it saves when the tests run: their crates' libraries, which
/// compute, are optimised. Seconds of CPU, compiling and running, with it and without it: tests of `cluster` 63 and 1, 16 and 6; of
/// `lab` 13 and 0, of `wire` 11 and 0, its recorded bytes 10 and 0; of `check` 14 and 1, 4 and 4, its golden runs 6 and 14, 1 and 15, its
/// validation 16 and 9, 3 and 17; of `sim` 12 and 0, 4 and 1; of `proof` 16 and 0, 3 and 0, its proofs 16 and 3 for compiling.
///
/// Tried, and not worth it: the tests of every algorithm, 9 s and 1 s of compiling; one of them takes 13 s with it, and was ended after 30 s
/// without it.
const UNOPTIMISED: &[(&str, Unit)] = &[
    ("crates/check/src/lib.rs", Unit::Tests),
    ("crates/check/tests/golden/main.rs", Unit::Tests),
    ("crates/check/tests/validation/main.rs", Unit::Tests),
    ("crates/cluster/src/lib.rs", Unit::Tests),
    ("crates/cluster-sim/src/lib.rs", Unit::Library),
    ("crates/proof/src/lib.rs", Unit::Tests),
    ("crates/proof/tests/proved/main.rs", Unit::Tests),
    ("crates/protocol/src/lib.rs", Unit::Tests),
    ("crates/sim/src/lib.rs", Unit::Tests),
    ("crates/wire/src/lib.rs", Unit::Tests),
    ("crates/wire/tests/golden/main.rs", Unit::Tests),
];

/// What is made of a file: a test program, or what others are linked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Tests,
    Library,
}

/// Where the comments are help texts, which square brackets would make links of; `doc = false` in its manifest says the same.
const HELP_TEXTS: &str = "crates/cli/src";

/// Where the documentation is written, in the target directory. A crate has a folder of its own, because a program and a library
/// may have the same name.
const PAGES: &str = "ci-doc";

/// This program, also after cargo has replaced the file from which it was started, as it does when it compiles this crate among others.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Returns the environment with which cargo uses this compiler: a copy of this program, which nothing replaces meanwhile.
pub(crate) fn environment(root: &Path) -> anyhow::Result<[(&'static str, String); 2]> {
    let target = crate::target_dir(root);
    let copy = target.join("ci-compiler");
    let fresh = target.join(format!("ci-compiler-{}", std::process::id()));
    fs::copy(OWN_PROGRAM, &fresh).with_context(|| format!("cannot write {}", fresh.display()))?;
    fs::rename(&fresh, &copy).with_context(|| format!("cannot write {}", copy.display()))?;
    let copy = copy.to_str().context("the target directory's name is UTF-8")?;
    Ok([(WRAPPER, copy), LINTS].map(|(name, value)| (name, value.to_owned())))
}

/// Whether cargo has called this program as a wrapper: the first argument is the compiler.
pub(crate) fn is_called(arguments: &[String]) -> bool {
    arguments.first().is_some_and(|first| Path::new(first).file_stem().is_some_and(|name| name == "rustc"))
}

/// Compiles with lints, then documents if it is a library or a program.
pub(crate) fn compile(arguments: &[String]) -> ExitCode {
    let rustc = Path::new(&arguments[0]);
    let mut clippy = Command::new(rustc.with_file_name("clippy-driver"));
    if !succeeds(clippy.arg(rustc).args(compilation(&arguments[1..]))) {
        return ExitCode::FAILURE;
    }
    let Some(documented) = documentation(&arguments[1..]) else { return ExitCode::SUCCESS };
    let mut rustdoc = Command::new(rustc.with_file_name("rustdoc"));
    if succeeds(rustdoc.args(documented)) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn succeeds(command: &mut Command) -> bool {
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            let program = command.get_program().display();
            eprintln!(
                "xtask: cannot start {program}: {error}; it belongs to Rust (`rustup component add clippy`)"
            );
            false
        }
    }
}

/// Returns the arguments to compile with: those of cargo, but no code for what is only looked at, and no optimisation that does not pay.
fn compilation(rustc: &[String]) -> Vec<String> {
    let source = source(rustc);
    let is_benchmark = source.is_some_and(|source| source.iter().any(|folder| folder == "benches"));
    let spelled = |argument: &String| match argument.strip_prefix("--emit=") {
        // Nothing runs benchmarks here. Cargo does not miss the program: `cargo rustc` may have made something else of it.
        Some(_) if is_benchmark => "--emit=dep-info,metadata".to_owned(),
        Some(_) | None => argument.clone(),
    };
    let mut arguments: Vec<String> = rustc.iter().map(spelled).collect();
    let unit = if is_test(rustc) { Unit::Tests } else { Unit::Library };
    let is_short = |source: &Path| UNOPTIMISED.iter().any(|(file, of)| *of == unit && source.ends_with(file));
    if source.is_some_and(is_short) {
        arguments.push("-Copt-level=0".to_owned());
    }
    arguments
}

/// Returns the arguments with which `rustdoc` documents what `rustc` compiles with these, or `None` for what `cargo doc` does not
/// document either: tests, examples, benchmarks, build scripts, and questions about the compiler.
fn documentation(rustc: &[String]) -> Option<Vec<String>> {
    let folder = source(rustc)?.parent()?;
    if !folder.ends_with("src") || folder.ends_with(HELP_TEXTS) || is_test(rustc) {
        return None;
    }
    let [name, kind, out] =
        [after(rustc, "--crate-name")?, after(rustc, "--crate-type")?, after(rustc, "--out-dir")?];
    let mut arguments = Vec::new();
    let mut rest = rustc.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            // Nothing is linked, so that `rustdoc` knows no libraries to link.
            "--out-dir" | "-l" => _ = rest.next(),
            compiled if compiled.starts_with("--emit=") => {}
            _ => arguments.push(argument.clone()),
        }
    }
    // TARGET/debug/deps: what is compiled lies two folders below the target directory.
    let pages = Path::new(out).ancestors().nth(2)?.join(PAGES).join(format!("{name}-{kind}"));
    arguments.extend(["--out-dir", &pages.display().to_string(), "-Dwarnings"].map(str::to_owned));
    if kind == "bin" {
        // As cargo does: a program has no public items.
        arguments
            .extend(["--document-private-items", "-Arustdoc::private-intra-doc-links"].map(str::to_owned));
    }
    Some(arguments)
}

/// Returns the file that is compiled, if it is one.
fn source(rustc: &[String]) -> Option<&Path> {
    rustc.iter().map(Path::new).find(|path| path.extension().is_some_and(|extension| extension == "rs"))
}

fn after<'a>(rustc: &'a [String], name: &str) -> Option<&'a str> {
    let at = rustc.iter().position(|argument| argument == name)?;
    rustc.get(at + 1).map(String::as_str)
}

fn is_test(rustc: &[String]) -> bool {
    rustc.iter().any(|argument| argument == "--test")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn what_is_not_optimised_exists() {
        for (file, _) in UNOPTIMISED {
            assert!(crate::root().join(file).is_file(), "{file}");
        }
    }

    #[test]
    fn a_call_by_cargo_is_told_from_a_command_of_ours() {
        assert!(is_called(&words("/toolchain/bin/rustc -vV")));
        assert!(!is_called(&words("ci")));
        assert!(!is_called(&[]));
    }

    #[test]
    fn libraries_and_programs_are_documented_with_the_same_dependencies() {
        let library = "--crate-name web --edition=2024 crates/web/src/lib.rs --error-format=json --crate-type lib \
                       --emit=dep-info,metadata,link -C opt-level=2 --warn=clippy::pedantic --out-dir /t/debug/deps \
                       -L dependency=/t/debug/deps --extern http=/t/debug/deps/libhttp-1.rmeta -l static=gcc_eh";
        let documented = "--crate-name web --edition=2024 crates/web/src/lib.rs --error-format=json --crate-type lib \
                          -C opt-level=2 --warn=clippy::pedantic -L dependency=/t/debug/deps --extern \
                          http=/t/debug/deps/libhttp-1.rmeta --out-dir /t/ci-doc/web-lib -Dwarnings";
        assert_eq!(documentation(&words(library)), Some(words(documented)));
        let program = library.replace("lib.rs", "main.rs").replace("--crate-type lib", "--crate-type bin");
        let documented = documentation(&words(&program)).expect("a program is documented");
        assert!(documented.contains(&"--document-private-items".to_owned()), "{documented:?}");
    }

    #[test]
    fn benchmarks_get_no_code_and_some_tests_no_optimisation() {
        let bench = "--crate-name scale crates/x/benches/scale.rs --emit=dep-info,link -C opt-level=2";
        assert_eq!(compilation(&words(bench)), words(&bench.replace("link", "metadata")));
        let library =
            "--crate-name meshlock_cluster crates/cluster/src/lib.rs --emit=dep-info,link -C opt-level=2";
        assert_eq!(compilation(&words(library)), words(library));
        let tests = format!("{library} --test");
        assert_eq!(compilation(&words(&tests)), words(&format!("{tests} -Copt-level=0")));
        let other = tests.replace("cluster", "cluster-sim");
        assert_eq!(compilation(&words(&other)), words(&other));
    }

    #[test]
    fn tests_examples_build_scripts_and_questions_are_not_documented() {
        let unit = "--crate-name x crates/x/src/lib.rs --crate-type lib --out-dir /t/debug/deps";
        assert!(documentation(&words(unit)).is_some());
        for other in [
            "--crate-name x crates/x/src/lib.rs --test --out-dir /t/debug/deps",
            "--crate-name meshlock crates/cli/src/main.rs --crate-type bin --out-dir /t/debug/deps",
            "--crate-name e crates/x/examples/e.rs --crate-type bin --out-dir /t/debug/examples",
            "--crate-name build_script_build crates/x/build.rs --crate-type bin --out-dir /t/debug/build/x-1",
            "- --crate-name ___ --print=file-names --crate-type bin",
            "-vV",
        ] {
            assert_eq!(documentation(&words(other)), None, "{other}");
        }
    }
}
