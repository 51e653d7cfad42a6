//! `meshlock ca`: the cluster's own certificate authority, and the certificates that it gives to sites and clients.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use meshlock_tls::ca::{self, AUTHORITY_DAYS, BEARER_DAYS, CaError, MAX_DAYS};
use meshlock_tls::{Bearer, ClientName, Files};
use serde_json::json;

use crate::output::{self, Outcome, Usage};

/// Arguments of `meshlock ca`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make the authority of a new cluster
    Init {
        #[command(flatten)]
        place: Place,
        /// How long it is valid
        #[arg(long, default_value_t = AUTHORITY_DAYS, value_parser = days())]
        days: u32,
    },
    /// Give a site, or a client on another machine, its certificate
    Issue {
        /// The name of the site, as its configuration has it, or of the client
        name: String,
        /// It is for a client, which can never act as a site
        #[arg(long)]
        client: bool,
        /// A host name or address by which programs call the site's API, for those that know nothing of sites, such as curl
        #[arg(long, value_name = "HOST", conflicts_with = "client")]
        host: Vec<String>,
        #[command(flatten)]
        place: Place,
        /// How long it is valid
        #[arg(long, default_value_t = BEARER_DAYS, value_parser = days())]
        days: u32,
    },
}

fn days() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(MAX_DAYS))
}

#[derive(Debug, Args)]
struct Place {
    /// Where the authority is kept
    #[arg(long, default_value = "meshlock-ca")]
    dir: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    match &arguments.what {
        What::Init { place, days } => init(place, *days, out),
        What::Issue { name, client, host, place, days } => {
            let bearer = if *client {
                let name: ClientName = name.parse().map_err(Usage::new)?;
                if name.is_reserved() {
                    let why = format!(
                        "'{name}' means something else in access rules; give the client another name"
                    );
                    return Err(Usage::new(why).into());
                }
                Bearer::Client(name)
            } else {
                name.parse().map(Bearer::Site).map_err(Usage::new)?
            };
            issue(&bearer, host, place, *days, out)
        }
    }
}

fn init(place: &Place, days: u32, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let files = ca::init(&place.dir, days).map_err(explain)?;
    if place.json {
        let document = json!({ "certificate": files.certificate, "key": files.key, "days": days });
        output::json(out, &document)?;
        return Ok(Outcome::Done);
    }
    writeln!(out, "The cluster's authority, valid for {days} days:")?;
    writeln!(out, "  {}  its certificate", files.certificate.display())?;
    writeln!(out, "  {}  its key: keep it here, whoever has it can be any site", files.key.display())?;
    writeln!(out, "Next, for every site: meshlock ca issue SITE{}", dir_flag(&place.dir))?;
    Ok(Outcome::Done)
}

fn issue(
    bearer: &Bearer,
    hosts: &[String],
    place: &Place,
    days: u32,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    if let Some(host) = hosts.iter().find(|host| host.is_empty() || !host.is_ascii()) {
        return Err(Usage::new(format!("--host '{host}' is neither a host name nor an address")).into());
    }
    let files = ca::issue_for(&place.dir, bearer, hosts, days).map_err(explain)?;
    let Files { authority, certificate, key } = &files;
    if place.json {
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
        return Ok(Outcome::Done);
    }
    writeln!(out, "A certificate for {bearer} ({}), valid for {days} days:", bearer.uri())?;
    writeln!(out, "  {}  whom it believes", authority.display())?;
    writeln!(out, "  {}  its certificate", certificate.display())?;
    writeln!(out, "  {}  its key, for its owner only", key.display())?;
    let folder = certificate.parent().unwrap_or(Path::new("."));
    let target = match bearer {
        Bearer::Site(_) => "the machine of that site",
        Bearer::Client(_) => "the machine where that client runs",
    };
    writeln!(out, "Next: copy {} to {target}, and remove it here.", folder.display())?;
    Ok(Outcome::Done)
}

/// The flag that names the same directory again.
fn dir_flag(dir: &Path) -> String {
    if dir == Path::new("meshlock-ca") { String::new() } else { format!(" --dir {}", dir.display()) }
}

/// What is in the way, missing or unreadable is for the caller to change; that a certificate cannot be made is not.
fn explain(error: CaError) -> anyhow::Error {
    match error {
        CaError::Make(_) => error.into(),
        CaError::Exists { .. } | CaError::Missing { .. } | CaError::Identity(_) | CaError::Write { .. } => {
            Usage::new(error).into()
        }
    }
}
