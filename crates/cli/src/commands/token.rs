//! `meshlock token`: creates tokens for clients of the API.

use std::io::Write;

use clap::{Args, Subcommand};
use meshlock_cluster::access::{AgreedToken, ClientName, TokenHash};
use meshlock_host::gate::new_token;
use serde_json::json;

use super::access::document;
use super::target::Target;
use crate::output::{self, CommandOutcome, UsageError};
use crate::settings::end_date::EndDate;

/// Arguments of `meshlock token`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Create a token, show it once, and print the entry for the configuration of the sites
    New {
        /// The name of the client: the principal in access rules
        name: ClientName,
        /// When the token ends, in UTC: a date means its beginning; such as 2030-01-31 or 2030-01-31T12:00:00Z [default: never]
        #[arg(long, value_name = "DATE")]
        expires: Option<EndDate>,
        /// Add the hash to the cluster's access document, so that every site knows the token at once; needs the right admin
        #[arg(long)]
        cluster: bool,
        #[command(flatten)]
        target: Target,
    },
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let TokenCommand::New { name, expires, cluster, target } = &arguments.command;
    if name.is_reserved() {
        let why = format!("'{name}' means something else in access rules; choose another name for the token");
        return Err(UsageError::new(why).into());
    }
    let token = new_token()?;
    let hash = TokenHash::of(&token);
    if *cluster {
        let known =
            AgreedToken { name: name.clone(), sha256: hash.clone(), expires: expires.map(EndDate::second) };
        document::change(&mut target.connect("token new")?, |document, _| {
            document.tokens.push(known.clone());
            Ok(())
        })?;
    }
    if target.json {
        let mut document = json!({ "name": name.as_str(), "token": token, "sha256": hash.to_string() });
        if let Some(expires) = expires {
            document["expires"] = expires.to_string().into();
        }
        if *cluster {
            document["cluster"] = true.into();
        }
        output::json(out, &document)?;
        return Ok(CommandOutcome::Done);
    }
    writeln!(out, "The token of '{name}', which is not shown again:")?;
    writeln!(out, "  {token}")?;
    if *cluster {
        writeln!(
            out,
            "The client sends it as \"Authorization: Bearer TOKEN\". All sites of the cluster know it now."
        )?;
        writeln!(out, "Next, say what '{name}' may do: meshlock access set rule {name} LOCKS VERBS")?;
        return Ok(CommandOutcome::Done);
    }
    writeln!(
        out,
        "The client sends it as \"Authorization: Bearer TOKEN\". Next, add this to the configuration of each site that should accept it:"
    )?;
    writeln!(out, "  [[tokens]]")?;
    writeln!(out, "  name = \"{name}\"")?;
    writeln!(out, "  sha256 = \"{hash}\"")?;
    if let Some(expires) = expires {
        writeln!(out, "  expires = {expires}")?;
    }
    writeln!(out, "and send SIGHUP to the sites. The [[access]] rules there say what '{name}' may do.")?;
    Ok(CommandOutcome::Done)
}
