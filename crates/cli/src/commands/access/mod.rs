//! `meshlock access`: shows and changes the access document that the cluster keeps, at all sites at once.

pub(crate) mod document;
pub(crate) mod kept;
mod show;

use std::io::Write;

use clap::{Args, Subcommand, ValueEnum};
use meshlock_cluster::access::{
    AccessDocument, Admission, AgreedToken, ClientName, RuleText, TokenHash, Verb,
};
use meshlock_cluster::names::SiteName;

use super::target::{self, Target};
use crate::output::{CommandOutcome, UsageError};
use crate::settings::end_date::EndDate;

/// Arguments of `meshlock access`.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
The cluster keeps one access document for all of its sites. What applies at a site is its own configuration and this document together:
whoever one of them lets do something may do it, and whoever one of them revokes is refused. A limit of the document replaces that of the
configuration. A change takes effect at every site without a restart, and ends the connections and sessions of whom it revokes."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: AccessCommand,
}

#[derive(Debug, Subcommand)]
enum AccessCommand {
    /// Show the document
    Show {
        #[command(flatten)]
        target: Target,
    },
    /// Add or replace a rule, a token, a revocation or a limit, or say who may join
    Set {
        #[command(subcommand)]
        what: Set,
    },
    /// Remove a rule, a token, a revocation or a limit
    Unset {
        #[command(subcommand)]
        what: Unset,
    },
}

#[derive(Debug, Subcommand)]
enum Set {
    /// Let somebody do something, or change what the rule for the same principal and locks gives
    Rule {
        /// The name of a certificate or token, a prefix of names followed by '*', or '*' for all; local, anyone, uid:N or uid:*
        principal: String,
        /// The name of a lock, a prefix of names followed by '*', or '*' for all
        locks: String,
        /// What the principal may do with them, separated by commas
        #[arg(value_enum, value_delimiter = ',', required = true)]
        verbs: Vec<GivenVerb>,
        #[command(flatten)]
        target: Target,
    },
    /// Let every site know a token, by its hash; `meshlock token new NAME --cluster` does this with a new one
    Token {
        /// The name of the client: the principal in rules
        name: ClientName,
        /// The SHA-256 of the token, as `meshlock token new` prints it
        sha256: TokenHash,
        /// When the token ends, in UTC, such as 2030-01-31 or 2030-01-31T12:00:00Z [default: never]
        #[arg(long, value_name = "DATE")]
        expires: Option<EndDate>,
        #[command(flatten)]
        target: Target,
    },
    /// Refuse a client, a site or a certificate at every site, and end its connections; for client/NAME also its sessions
    Revoked {
        /// client/NAME, site/NAME, or serial/HEX for one certificate
        #[arg(required = true)]
        entries: Vec<String>,
        #[command(flatten)]
        target: Target,
    },
    /// Limit what one client may do at each site; it replaces the limit of the sites' configuration
    Limit {
        /// rate, burst, connections, locks, waiters or watches
        name: String,
        value: u32,
        #[command(flatten)]
        target: Target,
    },
    /// Say which sites may join
    Admission {
        /// open: every site with a certificate that was not removed; closed: only those that `meshlock site add` has named
        admission: GivenAdmission,
        #[command(flatten)]
        target: Target,
    },
}

#[derive(Debug, Subcommand)]
enum Unset {
    /// Remove a rule
    Rule {
        /// The principal, as `access show` prints it
        principal: String,
        /// The locks, as `access show` prints them
        locks: String,
        #[command(flatten)]
        target: Target,
    },
    /// Remove the tokens of a client, or one of them
    Token {
        /// The name of the client
        name: ClientName,
        /// The hash of one token [default: all tokens of the name]
        sha256: Option<TokenHash>,
        #[command(flatten)]
        target: Target,
    },
    /// Do not refuse them any more
    Revoked {
        /// The entries, as `access show` prints them
        #[arg(required = true)]
        entries: Vec<String>,
        #[command(flatten)]
        target: Target,
    },
    /// Leave a limit to the sites' configuration again
    Limit {
        /// rate, burst, connections, locks, waiters or watches
        name: String,
        #[command(flatten)]
        target: Target,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum GivenVerb {
    Acquire,
    Watch,
    Break,
    Admin,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum GivenAdmission {
    Open,
    Closed,
}

impl From<GivenVerb> for Verb {
    fn from(given: GivenVerb) -> Self {
        match given {
            GivenVerb::Acquire => Verb::Acquire,
            GivenVerb::Watch => Verb::Watch,
            GivenVerb::Break => Verb::Break,
            GivenVerb::Admin => Verb::Admin,
        }
    }
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    match &arguments.command {
        AccessCommand::Show { target } => {
            let access = document::read(&mut target.connect("access show")?)?;
            show::show(target, &access, out)
        }
        AccessCommand::Set { what } => set(what, out),
        AccessCommand::Unset { what } => unset(what, out),
    }
}

fn set(what: &Set, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    match what {
        Set::Rule { principal, locks, verbs, target } => {
            let verbs: Vec<Verb> = verbs.iter().map(|verb| (*verb).into()).collect();
            let rule = RuleText { principal: principal.clone(), locks: locks.clone(), verbs };
            apply(target, "access set", out, |document| {
                document.set_rule(rule.clone());
                Ok(())
            })
        }
        Set::Token { name, sha256, expires, target } => {
            let expires = expires.map(EndDate::second);
            let token = AgreedToken { name: name.clone(), sha256: sha256.clone(), expires };
            apply(target, "access set", out, |document| {
                document.tokens.retain(|known| known.sha256 != token.sha256);
                document.tokens.push(token.clone());
                Ok(())
            })
        }
        Set::Revoked { entries, target } => apply(target, "access set", out, |document| {
            for entry in entries {
                if !document.revoked.contains(entry) {
                    document.revoked.push(entry.clone());
                }
            }
            Ok(())
        }),
        Set::Limit { name, value, target } => apply(target, "access set", out, |document| {
            *limit(document, name)? = Some(*value);
            Ok(())
        }),
        Set::Admission { admission: GivenAdmission::Open, target } => {
            apply(target, "access set", out, |document| {
                document.admission = Admission::Open;
                Ok(())
            })
        }
        Set::Admission { admission: GivenAdmission::Closed, target } => {
            let status = target::status(&mut target.connect("access set")?)?;
            let members = status.view.members.iter().map(|member| &member.site);
            let known: Vec<SiteName> = status.sites.iter().chain(members).cloned().collect();
            apply(target, "access set", out, |document| {
                document.close(&known);
                Ok(())
            })
        }
    }
}

fn unset(what: &Unset, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    match what {
        Unset::Rule { principal, locks, target } => apply(target, "access unset", out, |document| {
            let is_it = |rule: &RuleText| rule.principal == *principal && rule.locks == *locks;
            take(&mut document.rules, is_it, &format!("no rule for '{principal}' and '{locks}'"))
        }),
        Unset::Token { name, sha256, target } => apply(target, "access unset", out, |document| {
            let is_it = |token: &AgreedToken| {
                token.name == *name && sha256.as_ref().is_none_or(|sha256| token.sha256 == *sha256)
            };
            take(&mut document.tokens, is_it, &format!("no such token of '{name}'"))
        }),
        Unset::Revoked { entries, target } => apply(target, "access unset", out, |document| {
            for entry in entries {
                take(&mut document.revoked, |known| known == entry, &format!("no entry '{entry}'"))?;
            }
            Ok(())
        }),
        Unset::Limit { name, target } => apply(target, "access unset", out, |document| {
            let limit = limit(document, name)?;
            limit.take().map(drop).ok_or_else(|| missing(&format!("no limit '{name}'")))
        }),
    }
}

fn limit<'a>(document: &'a mut AccessDocument, name: &str) -> Result<&'a mut Option<u32>, UsageError> {
    let names = document.limits.named().map(|(name, _)| name).join(", ");
    let wrong = || UsageError::new(format!("'{name}' is not a limit of the cluster; there are {names}"));
    document.limits.by_name(name).ok_or_else(wrong)
}

/// Removes what is meant, or says that it is not there.
fn take<T>(list: &mut Vec<T>, is_it: impl Fn(&T) -> bool, what: &str) -> Result<(), UsageError> {
    let before = list.len();
    list.retain(|one| !is_it(one));
    if list.len() < before { Ok(()) } else { Err(missing(what)) }
}

fn missing(what: &str) -> UsageError {
    UsageError::new(format!("{what} is in the cluster's access document; `meshlock access show` shows it"))
}

/// Changes the document and shows what applies then.
fn apply(
    target: &Target,
    command: &str,
    out: &mut dyn Write,
    edit: impl Fn(&mut AccessDocument) -> Result<(), UsageError>,
) -> anyhow::Result<CommandOutcome> {
    let access = document::change(&mut target.connect(command)?, |document, _| edit(document))?;
    show::show(target, &access, out)
}
