//! `meshlock restore`: gives a running cluster the rules of a backup, and who may do what.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use meshlock_cluster::names::SiteName;

use super::access::document;
use super::backup::Backup;
use super::target::{self, Target};
use super::{rules, rules_document};
use crate::output::{self, CommandOutcome, UsageError};

/// Arguments of `meshlock restore`.
#[derive(Debug, Args)]
#[command(after_help = "\
All rules of the cluster are replaced by those of the backup; locks stay held meanwhile. If the backup has an access document, its
access rules, tokens and limits replace those of the cluster; who is revoked by either stays revoked, and removed sites stay removed.
Where the cluster is open and nobody has said which sites may join, it is closed if the lost one was. Who votes and the terms of leases are
not changed: they belong to the cluster's own sites. If fences of the cluster are below those of the backup, the command refuses: found
the cluster with `meshlock node --fence-floor-from FILE` instead.")]
pub(crate) struct Arguments {
    /// The file that `meshlock backup` wrote
    file: PathBuf,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let Arguments { file, yes, target } = arguments;
    let wrong = |why: String| UsageError::new(format!("{}: {why}", file.display()));
    let backup = Backup::read(file)?;
    let wanted = rules_document::rules(backup.rules).map_err(wrong)?;
    let mut remote = target.connect("restore")?;
    let status = target::status(&mut remote)?;
    let epoch = status.view.epoch;
    if meshlock_cluster::fence_floor::highest_fence(epoch) < backup.fence_floor
        && status.cluster == backup.cluster
    {
        let why = format!(
            "the cluster {} gives fences of view {}, and those of the backup are higher: whatever they protect would refuse new holders; \
             stop all sites, empty their data directories, and start them with --fence-floor-from {}",
            status.cluster,
            epoch.number(),
            file.display()
        );
        return Err(wrong(why).into());
    }
    if meshlock_cluster::fence_floor::highest_fence(epoch) < backup.fence_floor {
        eprintln!(
            "meshlock: the backup is of the cluster {}, whose fences were higher than those of {}: whatever they protected must not be \
             protected by this cluster, or its locks must have other names",
            backup.cluster, status.cluster
        );
    }
    let members = status.view.members.iter().map(|member| &member.site);
    let known: Vec<SiteName> = status.sites.iter().chain(members).cloned().collect();
    let current = if document::knows(&remote) { Some(document::read(&mut remote)?.document) } else { None };
    let access = backup.access.filter(|backup| {
        current.as_ref().is_none_or(|current| {
            let mut next = current.clone();
            next.restore(backup, &known);
            next != *current
        })
    });
    if status.view.rules == wanted && access.is_none() {
        return rules::show(target, &wanted, epoch.number(), out);
    }
    if !yes {
        if !io::stdin().is_terminal() {
            return Err(
                UsageError::new("there is no terminal to ask on; say --yes to replace the rules").into()
            );
        }
        let question = format!(
            "Replace all rules{} of the cluster {} by version {} of the rules of {}, of {}?",
            if access.is_some() { ", and who may do what in it and join it," } else { "" },
            status.cluster,
            backup.rules_version,
            backup.cluster,
            file.display()
        );
        if !output::is_confirmed(&question)? {
            eprintln!("Nothing was done.");
            return Ok(CommandOutcome::Refuted);
        }
    }
    if let Some(access) = access {
        document::change(&mut remote, |document, _| {
            document.restore(&access, &known);
            Ok(())
        })?;
    }
    rules::change(target, &mut remote, wanted, out)
}
