//! `meshlock site`: lists the sites, prints the configuration for a new site, and removes a site.

mod admission;

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use meshlock_cluster::address::Address;
use meshlock_cluster::names::SiteName;
use meshlock_wire::clients::{Status, ToClient, ToNode};
use serde_json::json;

use super::target::{self, ANSWER_WITHIN, Target, unexpected};
use crate::EXIT_NO_NODE;
use crate::output::{self, CommandOutcome, Printable, UsageError};
use crate::settings::duration::HumanDuration;
use crate::settings::end_date::EndDate;
use admission::Barred;
use meshlock_client::Connection;

/// How long a site may take to leave: its clients first release their locks, or its lease ends.
const LEAVE_WITHIN: Duration = Duration::from_secs(30);

/// How often to check whether the site has left.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How many sites vote: the first of those with which the cluster started.
const MAX_VOTERS: usize = 7;

/// Arguments of `meshlock site`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: SiteCommand,
}

#[derive(Debug, Subcommand)]
enum SiteCommand {
    /// List the members of the cluster
    List {
        #[command(flatten)]
        target: Target,
    },
    /// Let a new site join, and print a configuration for it and the steps to start it
    #[command(after_help = "\
The cluster remembers which sites may join. The first time, it also lets in nobody else from then on; `meshlock access set admission open`
undoes that. A site that was removed may join again after this command.

With --token the site must also show a one-time token when it joins for the first time, which proves that this start was meant. It does not
replace the site's certificate: only the machine with the authority's key can issue that.")]
    Add {
        /// The name of the new site
        name: SiteName,
        /// The address at which the other sites will reach it
        #[arg(long, value_name = "HOST:PORT", default_value = "HOST:7400")]
        address: Address,
        /// Make a one-time token that the site must show when it joins
        #[arg(long)]
        token: bool,
        /// How long the token can be used
        #[arg(long, value_name = "TIME", default_value = "24h", requires = "token")]
        token_lasts: HumanDuration,
        #[command(flatten)]
        target: Target,
    },
    /// Remove a site from the cluster, through any node; it comes back only after `site add`
    #[command(after_help = "\
A running site is told to leave: it grants no more locks, and its clients keep their locks until they release them or the lease of
the site ends. A site that has crashed need not be removed: the cluster excludes it when its lease is over, and this command waits
for that. The first seven sites are voters and stay voters even after they are removed: more than half of the voters must be
reachable for any change of the membership.")]
    Remove {
        /// The name of the site
        name: SiteName,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        target: Target,
    },
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    match &arguments.command {
        SiteCommand::List { target } => {
            let status = target::status(&mut target.connect("site list")?)?;
            list(target, &status, out)
        }
        SiteCommand::Add { name, address, token, token_lasts, target } => {
            let token_for = token.then(|| token_lasts.duration());
            add(target, &mut target.connect("site add")?, name, address, token_for, out)
        }
        SiteCommand::Remove { name, yes, target } => remove(target, name, *yes, out),
    }
}

fn list(target: &Target, status: &Status, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let members = &status.view.members;
    if target.json {
        let site = |member: &meshlock_cluster::names::Member| {
            json!({
                "site": member.site,
                "incarnation": member.incarnation.number(),
                "address": status.view.address(&member.site),
            })
        };
        let sites: Vec<_> = members.iter().map(site).collect();
        output::json(out, &json!({ "epoch": status.view.epoch.number(), "sites": sites }))?;
        return Ok(CommandOutcome::Done);
    }
    let mut table = output::table(&["site", "incarnation", "address"]);
    for member in members {
        let address = status
            .view
            .address(&member.site)
            .map(|address| Printable(address).to_string())
            .unwrap_or_default();
        table.add_row([member.site.to_string(), member.incarnation.to_string(), address]);
    }
    writeln!(out, "{table}")?;
    Ok(CommandOutcome::Done)
}

fn add(
    target: &Target,
    remote: &mut Connection,
    name: &SiteName,
    address: &Address,
    token_for: Option<Duration>,
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    let status = &target::status(remote)?;
    if let Some(member) = status.view.member(name) {
        return Err(UsageError::new(format!(
            "{member} is already a member; choose another name for the new site"
        ))
        .into());
    }
    let admitted = admission::admit(remote, status, name, token_for)?;
    let token = admitted.token.as_ref().map(|(token, _)| token.as_str());
    let config = configuration(status, name, address, token);
    if target.json {
        let document =
            json!({ "site": name, "config": config, "join_token": token, "closed": admitted.has_closed });
        output::json(out, &document)?;
        return Ok(CommandOutcome::Done);
    }
    writeln!(out, "# {name} may join the cluster now.")?;
    if admitted.has_closed {
        writeln!(
            out,
            "# From now on only sites that were added may join; `meshlock access set admission open` undoes that."
        )?;
    }
    if let Some((_, end)) = &admitted.token {
        let end = EndDate::of_second(*end);
        writeln!(out, "# The join token below is not shown again. It can be used once, until {end}.")?;
    }
    writeln!(
        out,
        "# 1. On the machine with the cluster's certificate authority (not with tls = \"off\"): meshlock ca issue {name}"
    )?;
    writeln!(
        out,
        "# 2. On the new machine: save this file as {name}.toml, and copy the directory site-{name} of step 1 beside it."
    )?;
    writeln!(out, "# 3. On the new machine: meshlock node --config {name}.toml")?;
    writeln!(out, "# The new site joins through the sites below, whose configuration does not change.")?;
    out.write_all(config.as_bytes())?;
    Ok(CommandOutcome::Done)
}

/// Returns the configuration of a new site. It lists the sites with which the cluster started, in their order: they identify
/// the cluster, and never change.
fn configuration(status: &Status, name: &SiteName, address: &Address, token: Option<&str>) -> String {
    let reached = if status.sites.contains(name) {
        String::new()
    } else {
        let port = address.as_str().rsplit_once(':').map_or("7400", |(_, port)| port);
        format!("listen = \"0.0.0.0:{port}\"\nadvertise = {}\n", quoted(address.as_str()))
    };
    let site = |site: &SiteName| {
        let line = |address: &str| format!("    {{ name = \"{site}\", address = {} }},", quoted(address));
        match status.view.address(site) {
            Some(address) => line(address.as_str()),
            None => format!("{} # not a member now: fill in its address", line("HOST:7400")),
        }
    };
    let sites = status.sites.iter().map(site).collect::<Vec<_>>().join("\n");
    let token = token.map(|token| format!("join_token = {}\n", quoted(token))).unwrap_or_default();
    format!(
        "cluster = \"{}\"\nsite = \"{name}\"\n{reached}{token}sites = [\n{sites}\n]\n\n\
         [tls]\nca = \"site-{name}/ca.pem\"\ncert = \"site-{name}/cert.pem\"\nkey = \"site-{name}/key.pem\"\n",
        status.cluster
    )
}

/// Returns the text as a TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn remove(
    target: &Target,
    name: &SiteName,
    yes: bool,
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    if !yes && !io::stdin().is_terminal() {
        return Err(UsageError::new(format!(
            "{name}: there is no terminal to ask on; say --yes to remove it"
        ))
        .into());
    }
    let mut remote = target.connect("site remove")?;
    let status = target::status(&mut remote)?;
    let Some(member) = status.view.member(name).cloned() else {
        if let Barred::Recorded = admission::bar(&mut remote, &status, name)? {
            return tell_barred(target, name, out);
        }
        let voter = if is_voter(&status, name) { ", and stays one of those who vote" } else { "" };
        return Err(UsageError::new(format!(
            "{name} is not a member of the cluster{voter}; `meshlock site list` lists the members"
        ))
        .into());
    };
    if !yes && !output::is_confirmed(&format!("Remove {member} from the cluster?"))? {
        eprintln!("Nothing was done.");
        return Ok(CommandOutcome::Refuted);
    }
    if let Barred::Not(why) = admission::bar(&mut remote, &status, name)? {
        eprintln!("meshlock: {name} will join again if it is restarted: {why}");
    }
    let until = Instant::now() + LEAVE_WITHIN;
    let mut acknowledged = false;
    // The order can be lost, and the site can crash: only the view says whether the site has left.
    loop {
        let now = target::status(&mut remote)?;
        if !now.view.contains(&member) {
            return tell_removed(target, &status, name, acknowledged, out);
        }
        if Instant::now() >= until {
            eprintln!("meshlock: {}", still_there(name, acknowledged));
            let is_outage = now.lease_left.is_none();
            return Ok(if is_outage { CommandOutcome::Exit(EXIT_NO_NODE) } else { CommandOutcome::Refuted });
        }
        // A site that has confirmed it leaves, whatever happens, and need not be told again.
        if !acknowledged {
            let answer = remote.ask(ANSWER_WITHIN, |tag| ToNode::Remove { tag, site: name.clone() })?;
            let ToClient::Leaves { leaves, .. } = answer else { return Err(unexpected(&remote, &answer)) };
            acknowledged = leaves;
        }
        // The node sends nothing else to this session: this only waits.
        remote.receive(Some(LOOK_EVERY))?;
    }
}

fn still_there(name: &SiteName, acknowledged: bool) -> String {
    if acknowledged {
        let why =
            "its clients still hold locks (`meshlock status` lists them), or too few voters are reachable";
        return format!(
            "{name} is leaving, but has not left yet: {why}; it will leave without another command"
        );
    }
    format!(
        "{name} has not left: it does not answer, and too few voters are reachable to exclude it; nothing was done, \
         see whether a majority of the voters runs"
    )
}

fn tell_removed(
    target: &Target,
    status: &Status,
    name: &SiteName,
    acknowledged: bool,
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    let voter = is_voter(status, name);
    if target.json {
        output::json(out, &json!({ "site": name, "left": true, "heard": acknowledged, "voter": voter }))?;
        return Ok(CommandOutcome::Done);
    }
    if acknowledged {
        writeln!(
            out,
            "{name} has left. Its node still runs but grants no locks: stop it. It comes back only after `meshlock site add {name}`."
        )?;
    } else {
        writeln!(out, "{name} did not answer. Its lease is over, and it is no longer a member.")?;
    }
    if voter {
        let voters = status.sites.len().min(MAX_VOTERS);
        writeln!(
            out,
            "It stays one of the {voters} sites that vote: {} of them must be reachable for any change of the membership.",
            voters / 2 + 1
        )?;
    }
    Ok(CommandOutcome::Done)
}

/// Tells that a site that is not running is not let in any more.
fn tell_barred(target: &Target, name: &SiteName, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    if target.json {
        output::json(out, &json!({ "site": name, "left": true, "heard": false }))?;
        return Ok(CommandOutcome::Done);
    }
    writeln!(
        out,
        "{name} was not a member, and is not let in any more. `meshlock site add {name}` undoes that."
    )?;
    Ok(CommandOutcome::Done)
}

fn is_voter(status: &Status, name: &SiteName) -> bool {
    status.sites.iter().take(MAX_VOTERS).any(|site| site == name)
}

#[cfg(test)]
mod tests {
    use meshlock_cluster::node::Standing;
    use meshlock_cluster::view::View;

    use super::*;
    use crate::settings::file;

    #[test]
    fn the_configuration_for_a_new_site_can_be_read_and_names_the_founders_in_their_order() {
        let sites: Vec<SiteName> = ["b", "a"].iter().map(|site| site.parse().unwrap()).collect();
        let mut view = View::default();
        view.addresses.insert(sites[1].clone(), "a.example:1".parse().unwrap());
        let status = Status {
            site: sites[1].clone(),
            incarnation: 1,
            cluster: "prod".parse().unwrap(),
            sites,
            view,
            standing: Standing::Open,
            leader: None,
            lease_left: None,
            leaving: false,
            locks: 0,
            holders: 0,
            waiters: 0,
            sessions: 0,
            held: Vec::new(),
            disk: None,
        };
        let text =
            configuration(&status, &"new".parse().unwrap(), &"new.example:7401".parse().unwrap(), Some("x"));
        file::parse(std::path::Path::new("x"), &text).expect("it is a configuration");
        assert!(
            text.starts_with("cluster = \"prod\"\nsite = \"new\"\nlisten = \"0.0.0.0:7401\"\n"),
            "{text}"
        );
        let (b, a) = (
            text.find("name = \"b\"").unwrap(),
            text.find("name = \"a\", address = \"a.example:1\"").unwrap(),
        );
        assert!(b < a, "{text}");
    }
}
