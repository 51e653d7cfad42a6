//! How to ask sites as the site of a configuration file: its name, its certificate, and where the others are.

use std::path::Path;

use meshlock_cluster::address::Address;
use meshlock_cluster::names::SiteName;
use meshlock_tls::{Bearer, Identity, Security};

use super::file;
use crate::output::UsageError;

/// How to ask sites as one of them.
#[derive(Clone, Debug)]
pub(crate) struct SiteAsker {
    pub(crate) me: SiteName,
    pub(crate) security: Security,
    pub(crate) sites: Vec<(SiteName, Address)>,
}

/// Reads what is needed from a node's configuration file, and ignores the rest.
pub(crate) fn read(path: &Path) -> Result<SiteAsker, UsageError> {
    let (file, source) = file::read(path)?;
    let files = file.tls.and_then(|entry| entry.files(&source));
    let security = match files {
        None => Security::Plain,
        Some(files) => {
            Security::Tls(Identity::load(&files.paths()).map_err(|error| source.wrong("tls", error))?)
        }
    };
    let certified = match &security {
        Security::Tls(identity) => match identity.bearer() {
            Bearer::Site(site) => Some(site.clone()),
            Bearer::Client(_) => None,
        },
        Security::Plain => None,
    };
    // A certificate names the site; without one any name of the list will do.
    let mut sites: Vec<(SiteName, Address)> =
        file.sites.into_iter().map(|listed| (listed.name, listed.address)).collect();
    let me = certified.or(file.site).or_else(|| sites.first().map(|(site, _)| site.clone()));
    let me = me.ok_or_else(|| source.wrong("site", "say what this site is called"))?;
    if let Some(address) = file.advertise {
        sites.retain(|(site, _)| *site != me);
        sites.push((me.clone(), address));
    }
    if sites.is_empty() {
        return Err(source.wrong("sites", "the file names no other site; ask a node with --node or --socket"));
    }
    Ok(SiteAsker { me, security, sites })
}
