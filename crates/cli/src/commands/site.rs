//! `meshlock site`: who takes part, what a new site needs, and how one leaves.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use meshlock_cluster::address::Address;
use meshlock_cluster::names::SiteName;
use meshlock_wire::clients::{Status, ToClient, ToNode};
use serde_json::json;

use super::target::{self, ANSWER_WITHIN, Target, unexpected};
use crate::output::{self, Outcome, Usage};

/// How long a site may take to leave: its clients first give back what they hold, or its lease ends.
const LEAVE_WITHIN: Duration = Duration::from_secs(30);

/// How often to look whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How many of the sites that a cluster began with vote.
const MAX_VOTERS: usize = 7;

/// Arguments of `meshlock site`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The sites that take part
    List {
        #[command(flatten)]
        target: Target,
    },
    /// Print the configuration that a new site needs, and what to do with it
    Add {
        /// Its name
        name: SiteName,
        /// Where the others will reach it
        #[arg(long, value_name = "HOST:PORT", default_value = "HOST:7400")]
        address: Address,
        #[command(flatten)]
        target: Target,
    },
    /// Let a site leave the cluster, whichever node is asked; it joins again when it is started again
    #[command(after_help = "\
A site that runs is told to leave: its clients are not given anything more, and keep what they hold until they give it back or the
lease of the site ends. One that is gone for good need not be removed: it is left out when its lease is over, and this waits
for it. One of the first seven sites stays one of those who vote, whether it takes part or not: more than half of them must be
reachable for anything to change.")]
    Remove {
        /// Its name
        name: SiteName,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        target: Target,
    },
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    match &arguments.what {
        What::List { target } => {
            let status = target::status(&mut target.connect("site list")?)?;
            list(target, &status, out)
        }
        What::Add { name, address, target } => {
            let status = target::status(&mut target.connect("site add")?)?;
            add(target, &status, name, address, out)
        }
        What::Remove { name, yes, target } => remove(target, name, *yes, out),
    }
}

fn list(target: &Target, status: &Status, out: &mut dyn Write) -> anyhow::Result<Outcome> {
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
        return Ok(Outcome::Done);
    }
    let mut table = output::table(&["site", "incarnation", "address"]);
    for member in members {
        let address = status.view.address(&member.site).map(ToString::to_string).unwrap_or_default();
        table.add_row([member.site.to_string(), member.incarnation.number().to_string(), address]);
    }
    writeln!(out, "{table}")?;
    Ok(Outcome::Done)
}

fn add(
    target: &Target,
    status: &Status,
    name: &SiteName,
    address: &Address,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    if let Some(member) = status.view.member(name) {
        return Err(
            Usage::new(format!("{member} takes part already; give the new site a name of its own")).into()
        );
    }
    let config = configuration(status, name, address);
    if target.json {
        output::json(out, &json!({ "site": name, "config": config }))?;
        return Ok(Outcome::Done);
    }
    writeln!(
        out,
        "# 1. Where the cluster's authority is (unless the cluster runs with tls = \"off\"): meshlock ca issue {name}"
    )?;
    writeln!(
        out,
        "# 2. On the new machine: this file as {name}.toml, and beside it the directory site-{name} made above."
    )?;
    writeln!(out, "# 3. There: meshlock node --config {name}.toml")?;
    writeln!(out, "# It joins through the sites below; nothing changes at them.")?;
    out.write_all(config.as_bytes())?;
    Ok(Outcome::Done)
}

/// What a new site has to know. The sites that the cluster began with are part of what the cluster is: they stay as they
/// are, in their order.
fn configuration(status: &Status, name: &SiteName, address: &Address) -> String {
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
            None => format!("{} # not a member now: look its address up", line("HOST:7400")),
        }
    };
    let sites = status.sites.iter().map(site).collect::<Vec<_>>().join("\n");
    format!(
        "cluster = \"{}\"\nsite = \"{name}\"\n{reached}sites = [\n{sites}\n]\n\n\
         [tls]\nca = \"site-{name}/ca.pem\"\ncert = \"site-{name}/cert.pem\"\nkey = \"site-{name}/key.pem\"\n",
        status.cluster
    )
}

/// As a TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn remove(target: &Target, name: &SiteName, yes: bool, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    if !yes && !io::stdin().is_terminal() {
        return Err(
            Usage::new(format!("{name}: there is no terminal to ask on; say --yes to let it leave")).into()
        );
    }
    let mut remote = target.connect("site remove")?;
    let status = target::status(&mut remote)?;
    let Some(member) = status.view.member(name).cloned() else {
        let voter = if is_voter(&status, name) { ", and stays one of those who vote" } else { "" };
        return Err(Usage::new(format!(
            "{name} does not take part{voter}; `meshlock site list` lists who does"
        ))
        .into());
    };
    if !yes && !output::is_confirmed(&format!("Let {member} leave the cluster?"))? {
        eprintln!("Nothing was done.");
        return Ok(Outcome::Refuted);
    }
    let until = Instant::now() + LEAVE_WITHIN;
    let mut heard = false;
    // The order may be lost, and so may the site be: it is out when the view says so.
    while target::status(&mut remote)?.view.contains(&member) {
        if Instant::now() >= until {
            anyhow::bail!(still_there(name, heard));
        }
        let answer = remote.ask(ANSWER_WITHIN, |tag| ToNode::Remove { tag, site: name.clone() })?;
        let ToClient::Leaves { leaves, .. } = answer else { return Err(unexpected(&remote, &answer)) };
        heard |= leaves;
        // Nothing else is said to this session: it only passes the time.
        remote.receive(Some(LOOK_EVERY))?;
    }
    tell_removed(target, &status, name, heard, out)
}

fn still_there(name: &SiteName, heard: bool) -> String {
    let why = if heard {
        "the cluster has no leader, or clients hold on to locks (`meshlock status` lists them)"
    } else {
        "it does not answer, and the cluster has no leader that could leave it out"
    };
    format!("{name} has not left yet: {why}")
}

fn tell_removed(
    target: &Target,
    status: &Status,
    name: &SiteName,
    heard: bool,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let voter = is_voter(status, name);
    if target.json {
        output::json(out, &json!({ "site": name, "left": true, "heard": heard, "voter": voter }))?;
        return Ok(Outcome::Done);
    }
    if heard {
        writeln!(
            out,
            "{name} has left. Its node still runs, and gives nothing to anyone: stop it, or start it again to join again."
        )?;
    } else {
        writeln!(out, "{name} did not answer. Its lease is over, and it is no member any more.")?;
    }
    if voter {
        let voters = status.sites.len().min(MAX_VOTERS);
        writeln!(
            out,
            "It stays one of the {voters} sites that vote: {} of them must be reachable for anything to change.",
            voters / 2 + 1
        )?;
    }
    Ok(Outcome::Done)
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
        };
        let text = configuration(&status, &"new".parse().unwrap(), &"new.example:7401".parse().unwrap());
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
