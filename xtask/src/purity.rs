//! The pure crates: that clippy keeps clocks, threads, disks, networks and hash order out of all of them alike.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// The crates that do no I/O and depend on nothing but their input.
const PURE: [&str; 7] = ["protocol", "check", "sim", "cluster", "cluster-sim", "mirror", "wire"];

/// Checks that all pure crates have the same `clippy.toml`, and so the same bans.
pub(crate) fn check(root: &Path, faults: &mut Vec<String>) -> anyhow::Result<()> {
    let read = |name: &str| {
        let path = root.join("crates").join(name).join("clippy.toml");
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let first = read(PURE[0])?;
    for name in &PURE[1..] {
        if read(name)? != first {
            let same = PURE[0];
            faults
                .push(format!("crates/{name}/clippy.toml: differs from crates/{same}/clippy.toml; copy it"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::Command;

    use meshlock_testing::BoundedCommand;

    use super::*;

    /// What clippy says to the sample under the configuration of the pure crates; `None` if clippy is not installed.
    fn reported() -> Option<String> {
        let driver = Path::new(env!("CARGO")).with_file_name("clippy-driver");
        if !driver.exists() {
            meshlock_testing::skip("clippy", "rustup component add clippy");
            return None;
        }
        let lints = ["disallowed_methods", "disallowed_types", "iter_over_hash_type"];
        // The compiler replaces the files that it writes, so that these must not be devices.
        let folder = std::env::temp_dir().join(format!("meshlock-impure-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder");
        let compile = |name: &str, uses: &[&str]| {
            let mut command = Command::new(&driver);
            command.current_dir(crate::root()).args(["--edition", "2024", "--crate-type", "lib"]);
            command.args(["--emit", "metadata", "--out-dir"]).arg(&folder).arg("-L").arg(&folder).args(uses);
            command.env("CLIPPY_CONF_DIR", crate::root().join("crates").join(PURE[0]));
            // `ci` makes errors of warnings.
            command.env_remove("CLIPPY_ARGS");
            command
                .args(lints.map(|lint| format!("-Wclippy::{lint}")))
                .arg(format!("xtask/samples/{name}.rs"));
            command.output_in_time()
        };
        // An alias of another crate, which the sample uses.
        assert!(compile("rustc_hash", &[]).status.success(), "the stand-in for rustc_hash does not compile");
        let output = compile("impure", &["--extern", "rustc_hash"]);
        fs::remove_dir_all(folder).expect("clippy has written into it");
        let text = String::from_utf8(output.stderr).expect("clippy writes text");
        assert!(output.status.success(), "the sample does not compile: {text}");
        Some(text)
    }

    /// The texts between `before` and the next `after`.
    fn all_between(text: &str, before: &str, after: char) -> BTreeSet<String> {
        let found = text.split(before).skip(1).filter_map(|rest| rest.split_once(after));
        found.map(|(found, _)| found.to_owned()).collect()
    }

    #[test]
    fn clippy_reports_everything_that_a_pure_crate_must_not_use() {
        let Some(text) = reported() else { return };
        let mut said = all_between(&text, "use of a disallowed method `", '`');
        said.extend(all_between(&text, "use of a disallowed type `", '`'));
        let configuration =
            fs::read_to_string(crate::root().join("crates").join(PURE[0]).join("clippy.toml"));
        let mut banned = all_between(&configuration.expect("a configuration"), "path = \"", '"');
        // The sample does not have the crates of random numbers.
        banned.retain(|path| !path.starts_with("fastrand::") && !path.starts_with("foldhash::"));
        assert!(banned.len() > 100, "{banned:?}");
        let unreported: Vec<&String> = banned.difference(&said).collect();
        assert!(unreported.is_empty(), "banned, but the sample does not show it: {unreported:?}");
        assert!(text.contains("iteration over unordered hash-based type"), "loops over hash maps are found");
    }

    #[test]
    fn pure_crates_have_the_same_bans() {
        let mut faults = Vec::new();
        check(&crate::root(), &mut faults).expect("every pure crate has a configuration");
        assert_eq!(faults, Vec::<String>::new());
    }
}
