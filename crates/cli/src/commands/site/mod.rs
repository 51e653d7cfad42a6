//! `meshlock site`: lists the sites, prints the configuration for a new site, changes who votes, says whether a site may be stopped, and
//! removes a site.

mod admission;
mod change;
mod may_stop;
mod remove;

use std::io::Write;
use std::time::Duration;

use clap::{Args, Subcommand};
use meshlock_client::Connection;
use meshlock_cluster::access::AgreedAccess;
use meshlock_cluster::address::Address;
use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::VoterRequest;
use meshlock_wire::clients::Status;
use serde_json::json;

use super::target::{self, Target};
use super::voters::{self, role};
use crate::output::{self, CommandOutcome, Printable, UsageError};
use crate::settings::duration::HumanDuration;
use crate::settings::end_date::EndDate;

/// Arguments of `meshlock site`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: SiteCommand,
}

#[derive(Debug, Subcommand)]
enum SiteCommand {
    /// List the members of the cluster, who votes, and which sites may join
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
A site that votes is demoted first, in a step after which a majority of the voters is up; where there is none, nothing is done, and the
message says why. Then a running site is told to leave: it grants no more locks, and its clients keep their locks until they release
them or the lease of the site ends. A site that has crashed is excluded by the cluster when its lease is over, and this command waits for
that. A removed site does not come back by being restarted, only after `meshlock site add`; with --keep-vote it does.
To stop a site for a while, stop its process instead (see `meshlock site may-stop`): it keeps its vote.")]
    Remove {
        /// The name of the site
        name: SiteName,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
        /// Let a site that votes keep its vote, and be counted while it is away
        #[arg(long)]
        keep_vote: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Make a member vote
    #[command(after_help = CHANGE_HELP)]
    Promote {
        /// The name of the site
        name: SiteName,
        #[command(flatten)]
        waiting: WaitFlag,
        #[command(flatten)]
        target: Target,
    },
    /// Take the vote of a site away; it stays a member, and is not promoted again without being asked
    #[command(after_help = CHANGE_HELP)]
    Demote {
        /// The name of the site
        name: SiteName,
        #[command(flatten)]
        waiting: WaitFlag,
        #[command(flatten)]
        target: Target,
    },
    /// Give the vote of one site, which may be gone, to a member that does not vote
    #[command(after_help = CHANGE_HELP)]
    Replace {
        /// The voter that goes
        old: SiteName,
        /// The member that votes in its place
        new: SiteName,
        #[command(flatten)]
        waiting: WaitFlag,
        #[command(flatten)]
        target: Target,
    },
    /// Say whether the cluster goes on if a site is stopped now (exit code 0 if it does, 1 if not)
    #[command(after_help = "\
The answer is what the asked node knows: a voter that has died within the last seconds may still be counted. Where several sites are to
be restarted, stop one, start it, and ask again before the next.")]
    MayStop {
        /// The name of the site
        name: SiteName,
        /// How long to wait until it may be stopped
        #[arg(long, value_name = "DURATION", default_value = "0s")]
        wait: HumanDuration,
        #[command(flatten)]
        target: Target,
    },
}

const CHANGE_HELP: &str = "\
The change is made by a majority of the old voters and one of the new ones, while locks go on. It is refused if a majority of the voters
after it is not up, or while a member runs a version that does not know changes of voters. Exit code 0: done. 1: refused, and nothing was
changed. 69: the cluster cannot do it now, or has not done it in time; then `meshlock site list` shows whether it is still under way.";

/// How long to wait for a change of voters.
#[derive(Clone, Copy, Debug, Args)]
struct WaitFlag {
    /// How long to wait until the change is complete, and for another change that is under way
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    wait: HumanDuration,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    match &arguments.command {
        SiteCommand::List { target } => {
            let mut remote = target.connect("site list")?;
            let status = target::status(&mut remote)?;
            let access = admission::read_if_allowed(&mut remote)?;
            list(target, &status, access.as_ref(), out)
        }
        SiteCommand::Add { name, address, token, token_lasts, target } => {
            let token_for = token.then(|| token_lasts.duration());
            add(target, &mut target.connect("site add")?, name, address, token_for, out)
        }
        SiteCommand::Remove { name, yes, keep_vote, target } => {
            remove::run(target, name, remove::Consent { yes: *yes, keep_vote: *keep_vote }, out)
        }
        SiteCommand::Promote { name, waiting, target } => {
            change::run(target, "site promote", &VoterRequest::Promote(name.clone()), waiting.wait, out)
        }
        SiteCommand::Demote { name, waiting, target } => {
            change::run(target, "site demote", &VoterRequest::Demote(name.clone()), waiting.wait, out)
        }
        SiteCommand::Replace { old, new, waiting, target } => {
            let change = VoterRequest::Replace { old: old.clone(), new: new.clone() };
            change::run(target, "site replace", &change, waiting.wait, out)
        }
        SiteCommand::MayStop { name, wait, target } => may_stop::run(target, name, wait.duration(), out),
    }
}

fn list(
    target: &Target,
    status: &Status,
    access: Option<&AgreedAccess>,
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    let members = &status.view.members;
    if target.json {
        let site = |member: &meshlock_cluster::names::Member| {
            json!({
                "site": member.site,
                "incarnation": member.incarnation.number().to_string(),
                "address": status.view.address(&member.site),
                "votes": role(status.voters.as_ref(), &member.site).map(voters::Role::label),
            })
        };
        let sites: Vec<_> = members.iter().map(site).collect();
        let voters = status.voters.as_ref().map(voters::document);
        let epoch = status.view.epoch.number();
        let admission = access.map(admission::document);
        output::json(
            out,
            &json!({ "epoch": epoch, "sites": sites, "voters": voters, "admission": admission }),
        )?;
        return Ok(CommandOutcome::Done);
    }
    let said = |site: &SiteName| role(status.voters.as_ref(), site).map(|role| role.to_string());
    let mut table = output::table(&["site", "incarnation", "address", ""]);
    for member in members {
        let address = status
            .view
            .address(&member.site)
            .map(|address| Printable(address).to_string())
            .unwrap_or_default();
        let said = said(&member.site).unwrap_or_default();
        table.add_row([member.site.to_string(), member.incarnation.to_string(), address, said]);
    }
    // A voter that is no member is counted all the same.
    let counted = status.voters.iter().flat_map(|voters| voters.missing()).map(|voter| &voter.site);
    for site in counted.filter(|site| status.view.member(site).is_none()) {
        table.add_row([site.to_string(), String::new(), String::new(), "votes, and is away".to_owned()]);
    }
    writeln!(out, "{table}")?;
    writeln!(out)?;
    voters::print(status.voters.as_ref(), &status.view, out)?;
    if let Some(access) = access {
        admission::print(access, status, out)?;
    }
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
            voters: None,
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
