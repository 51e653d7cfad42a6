//! `meshlock ca`: creates the cluster's own certificate authority, and certificates for sites and clients.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use meshlock_tls::ca::{self, AUTHORITY_DAYS, BEARER_DAYS, CaError, MAX_DAYS};
use meshlock_tls::{Bearer, ClientName, Files};
use serde_json::json;

use crate::output::{self, CommandOutcome, UsageError};

/// Arguments of `meshlock ca`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: CaCommand,
}

#[derive(Debug, Subcommand)]
enum CaCommand {
    /// Create the authority of a new cluster
    Init {
        #[command(flatten)]
        authority_flags: AuthorityFlags,
        /// How many days the authority is valid
        #[arg(long, default_value_t = AUTHORITY_DAYS, value_parser = days())]
        days: u32,
    },
    /// Create the certificate of a site, or of a client on another machine
    Issue {
        /// The name of the site, as in its configuration, or of the client
        name: String,
        /// Create a certificate for a client, which can never act as a site
        #[arg(long)]
        client: bool,
        /// A host name or address of the site's API, for programs that check host names, such as curl; can be repeated
        #[arg(long, value_name = "HOST", conflicts_with = "client")]
        host: Vec<String>,
        #[command(flatten)]
        authority_flags: AuthorityFlags,
        /// How many days the certificate is valid
        #[arg(long, default_value_t = BEARER_DAYS, value_parser = days())]
        days: u32,
    },
}

fn days() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(MAX_DAYS))
}

/// The flags of both commands.
#[derive(Debug, Args)]
struct AuthorityFlags {
    /// The directory of the authority
    #[arg(long, default_value = "meshlock-ca")]
    dir: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    match &arguments.command {
        CaCommand::Init { authority_flags, days } => init(authority_flags, *days, out),
        CaCommand::Issue { name, client, host, authority_flags, days } => {
            let bearer = if *client {
                let name: ClientName = name.parse().map_err(UsageError::new)?;
                if name.is_reserved() {
                    let why = format!(
                        "'{name}' means something else in access rules; choose another name for the client"
                    );
                    return Err(UsageError::new(why).into());
                }
                Bearer::Client(name)
            } else {
                name.parse().map(Bearer::Site).map_err(UsageError::new)?
            };
            issue(&bearer, host, authority_flags, *days, out)
        }
    }
}

fn init(authority_flags: &AuthorityFlags, days: u32, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let files = ca::init(&authority_flags.dir, days).map_err(explain)?;
    if authority_flags.json {
        let document = json!({ "certificate": files.certificate, "key": files.key, "days": days });
        output::json(out, &document)?;
        return Ok(CommandOutcome::Done);
    }
    writeln!(out, "Created the cluster's certificate authority, valid for {days} days:")?;
    writeln!(out, "  {}  its certificate", files.certificate.display())?;
    writeln!(out, "  {}  its key: keep it here; whoever has it can act as any site", files.key.display())?;
    writeln!(out, "Next, for every site: meshlock ca issue SITE{}", dir_flag(&authority_flags.dir))?;
    Ok(CommandOutcome::Done)
}

fn issue(
    bearer: &Bearer,
    hosts: &[String],
    authority_flags: &AuthorityFlags,
    days: u32,
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    if let Some(host) = hosts.iter().find(|host| host.is_empty() || !host.is_ascii()) {
        return Err(UsageError::new(format!("--host '{host}' is neither a host name nor an address")).into());
    }
    let files = ca::issue_for(&authority_flags.dir, bearer, hosts, days).map_err(explain)?;
    let Files { authority, certificate, key } = &files;
    if authority_flags.json {
        let document = json!({
            "kind": bearer.kind(),
            "name": bearer.name(),
            "uri": bearer.uri(),
            "authority": authority,
            "certificate": certificate,
            "key": key,
            "days": days,
        });
        output::json(out, &document)?;
        return Ok(CommandOutcome::Done);
    }
    writeln!(out, "A certificate for {bearer} ({}), valid for {days} days:", bearer.uri())?;
    writeln!(out, "  {}  the authority's certificate", authority.display())?;
    writeln!(out, "  {}  its certificate", certificate.display())?;
    writeln!(out, "  {}  its key, which must stay secret", key.display())?;
    let folder = certificate.parent().unwrap_or(Path::new("."));
    let target = match bearer {
        Bearer::Site(_) => "the machine of that site",
        Bearer::Client(_) => "the machine where that client runs",
    };
    writeln!(out, "Next: copy {} to {target}, then remove it here.", folder.display())?;
    Ok(CommandOutcome::Done)
}

/// Returns the flag that names this directory, for the next command to type.
fn dir_flag(dir: &Path) -> String {
    if dir == Path::new("meshlock-ca") { String::new() } else { format!(" --dir {}", dir.display()) }
}

/// Turns errors about files into usage errors, which the caller can mend; that a certificate cannot be made is none.
fn explain(error: CaError) -> anyhow::Error {
    match error {
        CaError::Make(_) => error.into(),
        CaError::Exists { .. } | CaError::Missing { .. } | CaError::Identity(_) | CaError::Write { .. } => {
            UsageError::new(error).into()
        }
    }
}
