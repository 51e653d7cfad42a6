//! The files of a local cluster, written before any site starts.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use meshlock_cluster::names::SiteName;
use meshlock_tls::ca::{self, AUTHORITY_DAYS, AuthorityFiles, BEARER_DAYS};
use meshlock_tls::{Bearer, Files};

use crate::output::UsageError;
use crate::settings::places;

/// The files of a cluster on this machine.
#[derive(Debug)]
pub(super) struct LocalClusterFiles {
    pub(super) dir: PathBuf,
    pub(super) sites: Vec<LocalSite>,
}

/// The files of one site.
#[derive(Debug)]
pub(super) struct LocalSite {
    pub(super) name: SiteName,
    pub(super) config: PathBuf,
    pub(super) socket: PathBuf,
    pub(super) log: PathBuf,
}

impl LocalClusterFiles {
    /// Writes all that `sites` sites need into `dir`, or into a new directory. A directory that already contains a cluster is used as it is.
    pub(super) fn new(dir: Option<&Path>, sites: u16, plain: bool) -> anyhow::Result<Self> {
        let dir = match dir {
            Some(dir) => own_directory(dir)?,
            None => new_directory()?,
        };
        let names: Vec<SiteName> =
            (1..=sites).map(|number| format!("site-{number}").parse()).collect::<Result<_, _>>()?;
        let site = |name: &SiteName| LocalSite {
            name: name.clone(),
            config: dir.join(format!("{name}.toml")),
            socket: dir.join(format!("{name}.sock")),
            log: dir.join(format!("{name}.log")),
        };
        let sites: Vec<LocalSite> = names.iter().map(site).collect();
        let files = LocalClusterFiles { dir, sites };
        match files.sites.iter().filter(|site| site.config.exists()).count() {
            0 => files.write(plain)?,
            found
                if found == files.sites.len()
                    && !files.dir.join(format!("site-{}.toml", found + 1)).exists() => {}
            _ => {
                return Err(UsageError::new(format!(
                    "--dir {}: contains a cluster of another size; give the same -n as before, or another directory",
                    files.dir.display()
                ))
                .into());
            }
        }
        Ok(files)
    }

    fn write(&self, plain: bool) -> anyhow::Result<()> {
        let addresses = free_addresses(self.sites.len())?;
        let authority = self.dir.join("ca");
        if !plain && !AuthorityFiles::in_directory(&authority).certificate.exists() {
            ca::init(&authority, AUTHORITY_DAYS)?;
        }
        let mut list = String::new();
        for (site, address) in self.sites.iter().zip(&addresses) {
            writeln!(list, "    {{ name = \"{}\", address = \"{address}\" }},", site.name)?;
        }
        for site in &self.sites {
            let name = &site.name;
            let tls = if plain {
                String::new()
            } else {
                let Files { authority, certificate, key } =
                    ca::issue(&authority, &Bearer::Site(name.clone()), BEARER_DAYS)?;
                let quoted = |path: PathBuf| toml::Value::String(path.display().to_string()).to_string();
                format!(
                    "\n[tls]\nca = {}\ncert = {}\nkey = {}\n",
                    quoted(authority),
                    quoted(certificate),
                    quoted(key)
                )
            };
            let off = if plain { "tls = \"off\"\n" } else { "" };
            let text = format!(
                "# Written by `meshlock up`.\ncluster = \"local\"\nsite = \"{name}\"\ndata = \"data-{name}\"\nsocket = \"{name}.sock\"\n\
                 {off}sites = [\n{list}]\n{tls}"
            );
            fs::write(&site.config, text)?;
        }
        Ok(())
    }
}

/// Creates a directory that nobody else can have made, with a name that nobody can know before.
fn new_directory() -> io::Result<PathBuf> {
    let permissions = fs::Permissions::from_mode(0o700);
    let made = tempfile::Builder::new().prefix("meshlock-up-").permissions(permissions).tempdir()?;
    made.keep().canonicalize()
}

/// Returns the directory that the user has named, and creates it if it does not exist. Keys and configurations are read from it, so that
/// nobody else may be able to put any there.
fn own_directory(dir: &Path) -> anyhow::Result<PathBuf> {
    let unusable = |why: &dyn std::fmt::Display| UsageError::new(format!("--dir {}: {why}", dir.display()));
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    let dir = made.and_then(|()| dir.canonicalize()).map_err(|error| unusable(&error))?;
    if !places::is_own(&dir, 0o022) {
        let why = "other users can write to it, or it belongs to another user; name another directory";
        return Err(unusable(&why).into());
    }
    // Where everybody may write, everybody may put another directory in its place, unless the sticky bit is set as for /tmp.
    let is_open = |above: &&Path| fs::metadata(above).is_ok_and(|found| found.mode() & 0o1002 == 0o002);
    if let Some(above) = dir.ancestors().skip(1).find(is_open) {
        let why =
            format!("all users can write to {}, which is above it; name another directory", above.display());
        return Err(unusable(&why).into());
    }
    Ok(dir)
}

/// Returns loopback addresses that are free now. If another program takes one before its site does, the site reports it.
fn free_addresses(count: usize) -> io::Result<Vec<String>> {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<io::Result<_>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.to_string())).collect()
}
