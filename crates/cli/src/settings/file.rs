//! The configuration file: its keys, and the line of each key for error messages.

use std::collections::BTreeMap;
use std::fs::File as Handle;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use meshlock_cluster::access::{ClientName, RuleText, TokenHash};
use meshlock_cluster::address::Address;
use meshlock_cluster::names::{ClusterName, SiteName};
use meshlock_protocol::registry::spec::did_you_mean;
use serde::Deserialize;
use toml::de::{DeTable, DeValue};

use super::duration::HumanDuration;
use super::end_date::EndDate;
use crate::output::{UsageError, read_text};

/// Largest configuration file that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The contents of a configuration file. [`EXAMPLE`](super::example::EXAMPLE) explains each key.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct File {
    pub(super) cluster: Option<ClusterName>,
    pub(super) site: Option<SiteName>,
    pub(super) listen: Option<Address>,
    pub(super) advertise: Option<Address>,
    pub(super) sites: Vec<ListedSite>,
    pub(super) join: JoinEntry,
    pub(super) bootstrap_expect: Option<u32>,
    pub(super) data: Option<PathBuf>,
    pub(super) socket: Option<PathBuf>,
    pub(super) socket_mode: Option<SocketMode>,
    pub(super) api: Option<Address>,
    pub(super) clients: Option<Address>,
    pub(super) session_ttl: Option<HumanDuration>,
    pub(super) tls: Option<TlsEntry>,
    pub(super) shutdown_grace: Option<HumanDuration>,
    pub(super) local_turns: Option<u32>,
    pub(super) try_within: Option<HumanDuration>,
    pub(super) busy_poll: Option<bool>,
    pub(super) voters: Option<VotersEntry>,
    pub(super) replace_voter_after: Option<HumanDuration>,
    pub(super) promote_voter_after: Option<HumanDuration>,
    pub(super) admission: Option<AdmissionEntry>,
    pub(super) fence_floor: Option<u64>,
    pub(super) lease: LeaseEntry,
    pub(super) default_rule: Option<RuleEntry>,
    pub(super) rules: Vec<NamedRule>,
    pub(super) access: Vec<RuleText>,
    pub(super) tokens: Vec<NamedToken>,
    pub(super) revoked: Vec<String>,
    pub(super) join_token: Option<String>,
    pub(super) audit: Option<String>,
    pub(super) audit_max_bytes: Option<u64>,
    pub(super) audit_files: Option<u32>,
    pub(super) audit_required: bool,
    pub(super) limits: LimitsEntry,
}

/// The key `socket_mode`: permissions of a file, written in octal as `chmod` takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct SocketMode(pub(super) u32);

impl FromStr for SocketMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = Some(text).filter(|text| text.bytes().all(|digit| digit.is_ascii_digit()));
        let mode = digits.and_then(|digits| u32::from_str_radix(digits, 8).ok());
        mode.map(SocketMode)
            .ok_or_else(|| format!("'{text}' are not permissions; say \"0600\", \"0660\" or \"0666\""))
    }
}

impl TryFrom<String> for SocketMode {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// One entry of `sites`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ListedSite {
    pub(crate) name: SiteName,
    pub(crate) address: Address,
}

/// The key `join`: one place, or a list of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "give a place such as \"db-1.example:7400\" or \"dns:sites.example:7400\", or a list of them"
)]
pub(super) enum JoinEntry {
    One(String),
    Several(Vec<String>),
}

impl Default for JoinEntry {
    fn default() -> Self {
        JoinEntry::Several(Vec::new())
    }
}

impl JoinEntry {
    /// Returns the places.
    pub(super) fn places(self) -> Vec<String> {
        match self {
            JoinEntry::One(place) => vec![place],
            JoinEntry::Several(places) => places,
        }
    }
}

/// The key `tls`: how connections between sites are protected.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "say tls = \"off\", or give the files ca, cert and key in [tls]")]
pub(super) enum TlsEntry {
    Off(TlsOff),
    Files { ca: PathBuf, cert: PathBuf, key: PathBuf },
}

/// The value `"off"` of the key `tls`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TlsOff {
    Off,
}

/// The key `voters`: who changes the voters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum VotersEntry {
    Fixed,
    Auto,
}

/// The key `admission`: which sites may join while the cluster has no access document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AdmissionEntry {
    /// Every site that shows a certificate of the cluster's authority
    Open,
    /// Only the sites of the list, and those that are added
    Closed,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LeaseEntry {
    pub(super) length: Option<HumanDuration>,
    pub(super) margin: Option<HumanDuration>,
    pub(super) renew_every: Option<HumanDuration>,
    pub(super) drift_ppm: Option<u32>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct RuleEntry {
    pub(super) algorithm: String,
    pub(super) permits: Option<u32>,
    pub(super) per_site: Option<u32>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct NamedRule {
    pub(super) pattern: String,
    #[serde(flatten)]
    pub(super) rule: RuleEntry,
}

/// One entry of `tokens`: the hash of a token that clients may use.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct NamedToken {
    pub(super) name: ClientName,
    pub(super) sha256: TokenHash,
    pub(super) expires: Option<EndDate>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LimitsEntry {
    pub(super) connections: Option<usize>,
    pub(super) sessions: Option<usize>,
    pub(super) locks: Option<usize>,
    pub(super) waiters: Option<usize>,
    pub(super) watched_locks: Option<usize>,
    pub(super) request_bytes: Option<usize>,
    pub(super) slow_reader: Option<HumanDuration>,
    pub(super) buffered_bytes: Option<usize>,
    pub(super) each: EachEntry,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct EachEntry {
    pub(super) connections: Option<usize>,
    pub(super) sessions: Option<usize>,
    pub(super) locks: Option<usize>,
    pub(super) waiters: Option<usize>,
    pub(super) watched_locks: Option<usize>,
    pub(super) watches: Option<usize>,
    pub(super) buffered_bytes: Option<usize>,
    pub(super) rate: Option<u32>,
    pub(super) burst: Option<u32>,
}

/// The keys of each table. The entries of a list have the keys that stand here under the list's name.
const KEYS: [(&str, &[&str]); 10] = [
    (
        "",
        &[
            "cluster",
            "site",
            "listen",
            "advertise",
            "sites",
            "join",
            "bootstrap_expect",
            "data",
            "socket",
            "socket_mode",
            "api",
            "clients",
            "session_ttl",
            "tls",
            "shutdown_grace",
            "local_turns",
            "try_within",
            "busy_poll",
            "voters",
            "replace_voter_after",
            "promote_voter_after",
            "admission",
            "fence_floor",
            "lease",
            "default_rule",
            "rules",
            "access",
            "tokens",
            "revoked",
            "join_token",
            "audit",
            "audit_max_bytes",
            "audit_files",
            "audit_required",
            "limits",
        ],
    ),
    ("sites", &["name", "address"]),
    ("tls", &["ca", "cert", "key"]),
    ("lease", &["length", "margin", "renew_every", "drift_ppm"]),
    ("default_rule", &["algorithm", "permits", "per_site"]),
    ("rules", &["pattern", "algorithm", "permits", "per_site"]),
    ("access", &["principal", "locks", "verbs"]),
    ("tokens", &["name", "sha256", "expires"]),
    (
        "limits",
        &[
            "connections",
            "sessions",
            "locks",
            "waiters",
            "watched_locks",
            "request_bytes",
            "slow_reader",
            "buffered_bytes",
            "each",
        ],
    ),
    (
        "each",
        &[
            "connections",
            "sessions",
            "locks",
            "waiters",
            "watched_locks",
            "watches",
            "buffered_bytes",
            "rate",
            "burst",
        ],
    ),
];

/// Where a configuration was read from, for error messages.
#[derive(Debug, Default)]
pub(crate) struct ConfigSource {
    path: Option<PathBuf>,
    /// The line of each key, such as `lease.length` or `sites[2].name`. Lines count from 1.
    lines: BTreeMap<String, usize>,
}

impl ConfigSource {
    /// Returns the error that the value of `key` is wrong. It names the file and line, unless the value came from the flag of
    /// that name.
    pub(super) fn wrong(&self, key: &str, why: impl std::fmt::Display) -> UsageError {
        match (&self.path, self.lines.get(key)) {
            (Some(path), Some(line)) => UsageError::new(format!("{}:{line}: {key}: {why}", path.display())),
            (Some(path), None) => UsageError::new(format!("{}: {key}: {why}", path.display())),
            (None, _) => UsageError::new(format!("{key}: {why}")),
        }
    }

    /// Resolves a path of the file: a relative path starts at the file's directory.
    pub(super) fn resolve(&self, path: PathBuf) -> PathBuf {
        match self.path.as_deref().and_then(Path::parent) {
            Some(dir) => dir.join(path),
            None => path,
        }
    }
}

/// Reads a configuration file.
pub(crate) fn read(path: &Path) -> Result<(File, ConfigSource), UsageError> {
    let text = Handle::open(path).and_then(|file| read_text(file, MAX_BYTES));
    let text = text.map_err(|error| {
        UsageError::new(format!(
            "--config {}: cannot be read: {error}; `meshlock node --example-config` prints a file to start from",
            path.display()
        ))
    })?;
    parse(path, &text)
}

/// Parses the text of a configuration file.
pub(crate) fn parse(path: &Path, text: &str) -> Result<(File, ConfigSource), UsageError> {
    let line_of = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let mut source = ConfigSource { path: Some(path.to_owned()), lines: BTreeMap::new() };
    let at = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
    let table = DeTable::parse(text).map_err(|error| {
        UsageError::new(format!("{}:{}: {}", path.display(), line_of(at(&error)), error.message()))
    })?;
    let mut keys = Vec::new();
    walk("", "", table.get_ref(), &mut keys);
    for key in &mut keys {
        // The span of a table's head begins behind the bracket; the line begins with it.
        let line = text[..key.start].rfind('\n').map_or(0, |end| end + 1);
        if text[line..key.start].starts_with('[') {
            key.start = line;
        }
        source.lines.insert(key.path.clone(), line_of(key.start));
    }
    if let Some(key) = keys.iter().find(|key| key.unknown.is_some()) {
        return Err(source.wrong(&key.path, key.unknown.as_deref().unwrap_or_default()));
    }
    let file = toml::from_str(text).map_err(|error| {
        // The innermost key whose value contains the error.
        let fault = at(&error);
        let inside = keys.iter().filter(|key| key.start <= fault && fault < key.end);
        match inside.max_by_key(|key| key.start) {
            Some(key) => source.wrong(&key.path, error.message()),
            None => UsageError::new(format!("{}:{}: {}", path.display(), line_of(fault), error.message())),
        }
    })?;
    Ok((file, source))
}

/// A key that was found in the file.
struct KeyPosition {
    path: String,
    /// The byte where the key begins; `end` is the byte where its value ends.
    start: usize,
    end: usize,
    /// The error message, if a configuration has no such key.
    unknown: Option<String>,
}

/// Appends the keys of `table` to `keys`. The table is called `name`, and `path` leads to it.
fn walk(name: &str, path: &str, table: &DeTable<'_>, keys: &mut Vec<KeyPosition>) {
    let known = KEYS.iter().find(|(table, _)| *table == name).map_or(&[] as &[_], |(_, keys)| *keys);
    for (key, value) in table {
        let word = key.get_ref().as_ref();
        let path = if path.is_empty() { word.to_owned() } else { format!("{path}.{word}") };
        let unknown = (!known.contains(&word)).then(|| {
            format!(
                "there is no such key{}; the keys here are {}",
                did_you_mean(word, known),
                known.join(", ")
            )
        });
        let is_known = unknown.is_none();
        keys.push(KeyPosition {
            path: path.clone(),
            start: key.span().start,
            end: value.span().end,
            unknown,
        });
        if !is_known {
            continue;
        }
        if let DeValue::Table(table) = value.get_ref() {
            walk(word, &path, table, keys);
        }
        let DeValue::Array(entries) = value.get_ref() else { continue };
        for (at, entry) in entries.iter().enumerate() {
            let DeValue::Table(table) = entry.get_ref() else { continue };
            let (path, span) = (format!("{path}[{}]", at + 1), entry.span());
            keys.push(KeyPosition { path: path.clone(), start: span.start, end: span.end, unknown: None });
            walk(word, &path, table, keys);
        }
    }
}

#[cfg(test)]
impl ConfigSource {
    pub(super) fn has(&self, key: &str) -> bool {
        self.lines.contains_key(key)
    }
}

/// Returns every key that a file can have; for lists, the keys of the first entry.
#[cfg(test)]
pub(super) fn all_keys() -> Vec<String> {
    let of_table = |(table, keys): &(&str, &[&str])| -> Vec<String> {
        let start = match *table {
            "" => String::new(),
            "sites" | "rules" | "access" | "tokens" => format!("{table}[1]."),
            "each" => "limits.each.".to_owned(),
            _ => format!("{table}."),
        };
        keys.iter().map(|key| format!("{start}{key}")).collect()
    };
    KEYS.iter().flat_map(of_table).collect()
}
