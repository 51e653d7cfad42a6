//! `meshlock token`: makes tokens for clients of the wire APIs.

use std::io::Write;

use clap::{Args, Subcommand};
use meshlock_cluster::access::{ClientName, TokenHash};
use meshlock_host::gate::new_token;
use serde_json::json;

use crate::output::{self, Outcome, Usage};

/// Arguments of `meshlock token`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make a token, which is shown once, and say what of it to store
    New {
        /// Whom it stands for: the principal of the access rules
        name: ClientName,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let What::New { name, json } = &arguments.what;
    if name.is_reserved() {
        let why = format!("'{name}' means something else in access rules; give the token another name");
        return Err(Usage::new(why).into());
    }
    let token = new_token()?;
    let hash = TokenHash::of(&token);
    if *json {
        let document = json!({ "name": name.as_str(), "token": token, "sha256": hash.to_string() });
        output::json(out, &document)?;
        return Ok(Outcome::Done);
    }
    writeln!(out, "The token of '{name}', which is shown only now:")?;
    writeln!(out, "  {token}")?;
    writeln!(
        out,
        "Its client sends it as \"Authorization: Bearer TOKEN\". Next, in the configuration of each site that shall know it:"
    )?;
    writeln!(out, "  [[tokens]]")?;
    writeln!(out, "  name = \"{name}\"")?;
    writeln!(out, "  sha256 = \"{hash}\"")?;
    writeln!(out, "and send the sites SIGHUP. What '{name}' may do, their [[access]] rules say.")?;
    Ok(Outcome::Done)
}
