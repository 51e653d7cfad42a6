//! `meshlock backup`: writes down what a cluster has agreed on, and from where on the fences of its successor must rise.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use meshlock_cluster::access::AccessDocument;
use meshlock_cluster::address::Address;
use meshlock_cluster::fence_floor::highest_fence;
use meshlock_cluster::membership::MAX_VOTERS;
use meshlock_cluster::names::{ClusterName, SiteName};
use meshlock_protocol::Epoch;
use meshlock_wire::clients::Status;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::access::{document, kept};
use super::rules_document::RuleDocument;
use super::target::{self, Target};
use crate::output::{self, CommandOutcome, UsageError, read_text};
use crate::settings::end_date;

/// The format of backups that this program writes, and the newest that it reads.
const FORMAT: u64 = 1;

/// Largest backup that is read, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Arguments of `meshlock backup`.
#[derive(Debug, Args)]
#[command(after_help = "\
The file contains no key, no token and no lock: the rules, the terms of leases, who votes, the sites with their addresses, and the fence
floor, above which a cluster must begin that takes the place of this one. Only its owner can read it. `meshlock restore FILE` gives the rules
to a running cluster; `meshlock node --fence-floor-from FILE` founds one with higher fences.")]
pub(crate) struct Arguments {
    /// The file to write; it is replaced if it exists
    file: PathBuf,
    #[command(flatten)]
    target: Target,
}

/// A backup of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Backup {
    format: u64,
    /// When it was made, for people.
    time: String,
    pub(crate) cluster: ClusterName,
    /// The sites with which the cluster was founded, in their order.
    sites: Vec<SiteName>,
    voters: Vec<SiteName>,
    members: Vec<MemberDocument>,
    epoch: u32,
    /// The highest fence that a grant of this epoch can have.
    #[serde(with = "as_text")]
    pub(crate) fence_floor: u64,
    terms: TermsDocument,
    pub(crate) rules_version: u64,
    pub(crate) rules: Vec<RuleDocument>,
    /// The access document, if the cluster has one. Of tokens it has only hashes.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "kept")]
    pub(crate) access: Option<AccessDocument>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MemberDocument {
    site: SiteName,
    address: Option<Address>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TermsDocument {
    length_us: u64,
    margin_us: u64,
    renew_every_us: u64,
    drift_ppm: u32,
}

/// A number of 64 bits as text, because the numbers of some programs that read JSON cannot hold it.
mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    pub(super) fn serialize<S: Serializer>(number: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(number)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

impl Backup {
    fn of(status: &Status, access: Option<AccessDocument>) -> Self {
        let view = &status.view;
        let member =
            |site: &SiteName| MemberDocument { site: site.clone(), address: view.address(site).cloned() };
        Backup {
            format: FORMAT,
            time: end_date::shown(SystemTime::now()),
            cluster: status.cluster.clone(),
            sites: status.sites.clone(),
            voters: match &status.voters {
                Some(voters) => voters.voters.iter().map(|voter| voter.site.clone()).collect(),
                // An older node: the voters cannot have changed.
                None => status.sites.iter().take(MAX_VOTERS).cloned().collect(),
            },
            members: view.members.iter().map(|of| member(&of.site)).collect(),
            epoch: view.epoch.number(),
            fence_floor: highest_fence(view.epoch),
            terms: TermsDocument {
                length_us: view.terms.length.micros(),
                margin_us: view.terms.margin.micros(),
                renew_every_us: view.terms.renew_every.micros(),
                drift_ppm: view.terms.drift.ppm(),
            },
            rules_version: view.rules_version,
            rules: RuleDocument::all(&view.rules),
            access,
        }
    }

    /// Reads and checks a backup.
    pub(crate) fn read(path: &Path) -> Result<Self, UsageError> {
        let wrong = |why: String| UsageError::new(format!("{}: {why}", path.display()));
        let text = File::open(path).and_then(|file| read_text(file, MAX_BYTES));
        let text = text.map_err(|error| wrong(format!("cannot be read: {error}")))?;
        Backup::parse(&text).map_err(wrong)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let no_backup = "it is not a backup that `meshlock backup` wrote";
        let document: Value = serde_json::from_str(text).map_err(|error| format!("{no_backup}: {error}"))?;
        match document.get("format").and_then(Value::as_u64) {
            Some(FORMAT) => {}
            Some(newer) if newer > FORMAT => {
                return Err(format!(
                    "it is a backup of format {newer}, by a newer meshlock; this one knows formats up to {FORMAT}: use the newer one"
                ));
            }
            Some(_) | None => return Err(format!("{no_backup}: it has no format that is known")),
        }
        let backup: Backup = serde_json::from_value(document)
            .map_err(|error| format!("it is not a backup of format {FORMAT}: {error}"))?;
        let epoch = Epoch::new(backup.epoch).ok_or_else(|| format!("{no_backup}: there is no such epoch"))?;
        if highest_fence(epoch) != backup.fence_floor {
            return Err(format!("{no_backup}: its epoch and its fence_floor do not fit together"));
        }
        Ok(backup)
    }
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let mut remote = arguments.target.connect("backup")?;
    let status = target::status(&mut remote)?;
    if status.view.epoch == Epoch::default() {
        let why = format!(
            "{} knows no view yet: it has not been a member of the cluster; ask another site",
            status.site
        );
        return Err(UsageError::new(why).into());
    }
    let access = if document::knows(&remote) { Some(document::read(&mut remote)?) } else { None };
    let access = access.filter(|access| access.version > 0).map(|access| access.document);
    let backup = Backup::of(&status, access);
    let mut text = serde_json::to_string_pretty(&backup)?;
    text.push('\n');
    write_durably(&arguments.file, text.as_bytes()).map_err(|error| {
        UsageError::new(format!("{}: cannot be written: {error}", arguments.file.display()))
    })?;
    let Backup { cluster, epoch, fence_floor, rules_version, .. } = &backup;
    if arguments.target.json {
        let document = json!({
            "file": arguments.file,
            "cluster": cluster,
            "epoch": epoch,
            "fence_floor": fence_floor.to_string(),
            "rules_version": rules_version,
        });
        output::json(out, &document)?;
        return Ok(CommandOutcome::Done);
    }
    writeln!(
        out,
        "{}: the cluster {cluster} in view {epoch}, version {rules_version} of its rules, fences up to {fence_floor}",
        arguments.file.display()
    )?;
    Ok(CommandOutcome::Done)
}

/// Writes a file for its owner only, so that it is there as a whole or as it was before.
fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::other("it is not the name of a file"))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}", std::process::id()));
    let new = folder.join(hidden);
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&new)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written.and_then(|()| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use meshlock_cluster::access::{AgreedToken, JoinToken, RuleText, TokenHash, Verb};
    use meshlock_cluster::rules::RulesText;

    use super::*;

    fn backup() -> Backup {
        let epoch = Epoch::new(115_600).unwrap();
        Backup {
            format: FORMAT,
            time: "2026-11-18T09:00:00Z".to_owned(),
            cluster: "prod".parse().unwrap(),
            sites: vec!["a".parse().unwrap()],
            voters: vec!["a".parse().unwrap()],
            members: vec![MemberDocument { site: "a".parse().unwrap(), address: None }],
            epoch: epoch.number(),
            fence_floor: highest_fence(epoch),
            terms: TermsDocument { length_us: 5, margin_us: 1, renew_every_us: 1, drift_ppm: 0 },
            rules_version: 4,
            rules: RuleDocument::all(&RulesText::default()),
            access: None,
        }
    }

    #[test]
    fn a_backup_reads_back_and_nobody_else_can_read_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("backup.json");
        fs::write(&path, "older").unwrap();
        let text = serde_json::to_string(&backup()).unwrap();
        write_durably(&path, text.as_bytes()).unwrap();
        assert_eq!(Backup::read(&path).unwrap(), backup());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn the_access_document_reads_back_with_all_that_it_can_have() {
        let mut document = AccessDocument::default();
        for is_closed in [false, true] {
            if is_closed {
                document.close(&["a".parse().unwrap()]);
                let token = JoinToken { sha256: TokenHash::of("x"), expires: 9 };
                document.admit("b".parse().unwrap(), Some(token));
                document.remove(&"r".parse().unwrap());
                document.revoked.push("serial/0a".to_owned());
                document.limits.rate = Some(7);
                let (principal, locks) = ("ci".to_owned(), "*".to_owned());
                document.set_rule(RuleText { principal, locks, verbs: vec![Verb::Acquire] });
                let sha256 = TokenHash::of("y");
                document.tokens.push(AgreedToken {
                    name: "bot".parse().unwrap(),
                    sha256,
                    expires: Some(u64::MAX >> 12),
                });
            }
            let backup = Backup { access: Some(document.clone()), ..backup() };
            let text = serde_json::to_string(&backup).unwrap();
            assert_eq!(Backup::parse(&text), Ok(backup), "{text}");
            let wrong = text.replace("\"closed\"", "\"shut\"").replace("\"open\"", "\"shut\"");
            assert!(Backup::parse(&wrong).unwrap_err().contains("neither 'open' nor 'closed'"), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_backup_of_a_known_format_is_refused_with_the_reason() {
        let good = serde_json::to_value(backup()).unwrap();
        let with = |key: &str, value: Value| {
            let mut document = good.clone();
            document[key] = value;
            Backup::parse(&document.to_string()).unwrap_err()
        };
        assert!(
            with("format", json!(2))
                .contains("format 2, by a newer meshlock; this one knows formats up to 1")
        );
        assert!(with("format", json!("x")).contains("no format that is known"));
        assert!(with("surprise", json!(1)).contains("not a backup of format 1: unknown field `surprise`"));
        assert!(with("epoch", json!(7)).contains("do not fit together"));
        assert!(with("epoch", json!(u32::MAX)).contains("no such epoch"));
        assert!(with("fence_floor", json!("-1")).contains("not a backup of format 1"));
        assert!(with("sites", json!(["no such name!"])).contains("not a backup of format 1"));
        for text in ["", "[]", "{", "{}", "17", &"[".repeat(100_000)] {
            assert!(Backup::parse(text).unwrap_err().starts_with("it is not a backup"), "{text:.20}");
        }
    }
}
