//! What this machine needs to reach its registries: mirrors, proxies and certificates. Nothing of it is known here; whatever is
//! set is taken, passwords apart.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

/// Where in the root the files lie that variables and settings name.
const BORROWED: &str = "opt/this-machine";

/// The certificates that Debian's programs trust.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Variables that say how registries are reached begin or end so.
const BEGINNINGS: [&str; 8] = [
    "CARGO_HTTP_",
    "CARGO_NET_",
    "CARGO_REGISTRIES_",
    "CARGO_SOURCE_",
    "NPM_CONFIG_",
    "PIP_",
    "SSL_CERT_FILE",
    "npm_config_",
];
const ENDINGS: [&str; 5] = ["_CA_BUNDLE", "_CA_CERTS", "_PROXY", "_SSL_CAINFO", "_proxy"];

/// Settings of apt that say how archives are reached.
const APT_SETTINGS: [&str; 3] = ["Acquire::http", "Acquire::Check-", "Acquire::Retries"];

/// Sections of cargo's configuration that say how registries are reached.
const CARGO_SECTIONS: [&str; 5] = ["http", "net", "registries", "registry", "source"];

/// Settings of npm that say how its registry is reached.
const NPM_SETTINGS: [&str; 6] = ["cafile", "https-proxy", "noproxy", "proxy", "registry", "strict-ssl"];

/// Takes from the text of a file of settings what says how registries are reached.
type Take = fn(&str) -> String;

/// How this machine reaches its registries.
pub(super) struct Machine {
    variables: BTreeMap<String, String>,
    /// Files of settings: where in the root, what is in them.
    settings: Vec<(&'static str, String)>,
}

impl Machine {
    /// Looks at this machine's environment and settings.
    pub(super) fn look() -> Self {
        let mut variables: BTreeMap<String, String> =
            std::env::vars().filter(|(name, _)| is_taken(name)).collect();
        // Whoever installs Rust has certificates for cargo, but not always as Debian's package.
        if Path::new(CERTIFICATES).exists() {
            variables.entry("CARGO_HTTP_CAINFO".to_owned()).or_insert_with(|| CERTIFICATES.to_owned());
        }
        let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
        let cargo = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
        let files = [
            (cargo.join("config.toml"), "root/.cargo/config.toml", cargo_settings as Take),
            ("/etc/npmrc".into(), "etc/npmrc", npm_settings),
            (home.join(".npmrc"), "root/.npmrc", npm_settings),
            ("/etc/pip.conf".into(), "etc/pip.conf", str::to_owned),
            (home.join(".config/pip/pip.conf"), "root/.config/pip/pip.conf", str::to_owned),
            (home.join(".pip/pip.conf"), "root/.pip/pip.conf", str::to_owned),
        ];
        let settings = files.map(|(file, place, take)| {
            (place, fs::read_to_string(file).map(|text| take(&text)).unwrap_or_default())
        });
        let settings = settings.into_iter().filter(|(_, text)| !text.is_empty()).collect();
        Machine { variables, settings }
    }

    /// Writes the settings into a root, with copies of the files that they and the variables name.
    pub(super) fn copy_into(&self, root: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(root.join(BORROWED))?;
        for value in self.variables.values() {
            borrow_file(root, value)?;
        }
        for (file, text) in &self.settings {
            let mut copy = String::new();
            for line in text.split_inclusive('\n') {
                match line.split_once('=') {
                    Some((name, value)) => writeln!(copy, "{name}={}", borrow_file(root, value.trim())?)?,
                    None => copy.push_str(line),
                }
            }
            let file = root.join(file);
            fs::create_dir_all(file.parent().context("settings lie in a directory")?)?;
            fs::write(file, copy)?;
        }
        // Installing Debian's package of certificates writes the list anew; this machine's own must be in it.
        let own = root.join("usr/local/share/ca-certificates");
        fs::create_dir_all(&own)?;
        if Path::new(CERTIFICATES).exists() {
            fs::copy(CERTIFICATES, own.join("this-machine.crt"))?;
        }
        Ok(())
    }

    /// The variables, as they are in the root.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&str, String)> {
        self.variables.iter().map(|(name, value)| (name.as_str(), place_in_root(value)))
    }
}

/// The files with this machine's package sources.
pub(super) fn package_sources() -> anyhow::Result<Vec<PathBuf>> {
    let listed = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().filter_map(Result::ok);
    let is_source = |path: &PathBuf| path.extension().is_some_and(|end| end == "list" || end == "sources");
    let mut files: Vec<PathBuf> = listed.map(|entry| entry.path()).filter(is_source).collect();
    files.push(PathBuf::from("/etc/apt/sources.list"));
    files.retain(|file| fs::metadata(file).is_ok_and(|file| file.len() > 0));
    files.sort();
    ensure!(
        !files.is_empty(),
        "apt has no package sources: /etc/apt/sources.list and sources.list.d are empty"
    );
    Ok(files)
}

/// This machine's settings of apt that say how archives are reached.
pub(super) fn apt_settings() -> anyhow::Result<String> {
    let dump = Command::new("apt-config").arg("dump").output().context("cannot start apt-config")?;
    let dump = String::from_utf8_lossy(&dump.stdout);
    let is_taken = |line: &&str| APT_SETTINGS.iter().any(|start| line.starts_with(start));
    Ok(dump.split_inclusive('\n').filter(is_taken).collect())
}

fn is_taken(variable: &str) -> bool {
    let is_secret = ["TOKEN", "PASSWORD", "AUTH"].iter().any(|word| variable.to_uppercase().contains(word));
    !is_secret
        && (BEGINNINGS.iter().any(|start| variable.starts_with(start))
            || ENDINGS.iter().any(|end| variable.ends_with(end)))
}

/// The sections of cargo's configuration that say how registries are reached, without tokens.
fn cargo_settings(text: &str) -> String {
    let mut is_taken = false;
    let mut taken = String::new();
    for line in text.split_inclusive('\n') {
        if let Some(name) = line.trim().strip_prefix('[') {
            let first = name.trim_start_matches('[').split(['.', ']']).next().unwrap_or_default();
            is_taken = CARGO_SECTIONS.contains(&first.trim());
        }
        if is_taken && !line.trim().starts_with("token") {
            taken.push_str(line);
        }
    }
    taken
}

fn npm_settings(text: &str) -> String {
    let is_taken = |line: &&str| {
        let name = line.split('=').next().unwrap_or_default().trim();
        NPM_SETTINGS.contains(&name) || (name.starts_with('@') && name.ends_with(":registry"))
    };
    text.split_inclusive('\n').filter(is_taken).collect()
}

/// What a value is in the root: a path on this machine is that of its copy there.
fn place_in_root(value: &str) -> String {
    let path = Path::new(value);
    if path.is_absolute() && path.exists() {
        format!("/{BORROWED}/{}", value.trim_matches('/').replace('/', "-"))
    } else {
        value.to_owned()
    }
}

/// Copies what a value names, if it is a path on this machine. Returns what the value is in the root.
fn borrow_file(root: &Path, value: &str) -> anyhow::Result<String> {
    let place = place_in_root(value);
    if place != value {
        let copied =
            Command::new("cp").args(["-rLT", value]).arg(root.join(place.trim_start_matches('/'))).status();
        ensure!(copied.context("cannot start cp")?.success(), "cannot copy {value}");
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_reaches_registries_is_taken_and_no_secret() {
        for name in [
            "https_proxy",
            "NO_PROXY",
            "PIP_CERT",
            "SSL_CERT_FILE",
            "CARGO_HTTP_CAINFO",
            "NODE_EXTRA_CA_CERTS",
        ] {
            assert!(is_taken(name), "{name}");
        }
        for name in ["HOME", "PATH", "LANG", "CARGO_REGISTRIES_OURS_TOKEN", "NPM_CONFIG__AUTH", "PYTHONPATH"]
        {
            assert!(!is_taken(name), "{name}");
        }
        let npm = "registry=https://r.example/\n//r.example/:_authToken=x\n@us:registry=https://u.example/\nyes=true\n";
        assert_eq!(npm_settings(npm), "registry=https://r.example/\n@us:registry=https://u.example/\n");
    }

    #[test]
    fn of_cargo_s_configuration_the_registries_are_taken() {
        let text = "[build]\njobs = 1\n[source.crates-io]\nreplace-with = 'x'\n[target.a]\nlinker = 'l'\n[registries.us]\ntoken = 't'\n[http]\ncheck = 1\n";
        let taken = "[source.crates-io]\nreplace-with = 'x'\n[registries.us]\n[http]\ncheck = 1\n";
        assert_eq!(cargo_settings(text), taken);
    }
}
