//! Three sites as processes of their own, `meshlock node`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::output::free_addresses;
use crate::peers::Server;

pub(crate) const SITES: usize = 3;

/// The limits of a client are lifted: all programs of this machine that show no token count as one client of the API, but here they are
/// many.
const LIMITS: &str = "[limits.each]\nrate = 10000000\nburst = 10000000\n";

/// Three processes `meshlock node`, which may still be starting.
pub(crate) struct NodeProcesses {
    pub(crate) program: PathBuf,
    pub(crate) sites: Vec<Server>,
    pub(crate) sockets: Vec<PathBuf>,
    /// The address of each site's API; none if they were started without.
    pub(crate) apis: Vec<SocketAddr>,
    pub(crate) directory: tempfile::TempDir,
}

impl NodeProcesses {
    /// Starts sites that serve only their Unix sockets.
    pub(crate) fn start(program: &Path) -> anyhow::Result<Self> {
        Self::start_with(program, Vec::new())
    }

    /// Starts sites that also serve the API, with which clients of etcd can speak.
    pub(crate) fn start_with_api(program: &Path) -> anyhow::Result<Self> {
        let apis = free_addresses(SITES)?.iter().map(|address| address.parse()).collect::<Result<_, _>>()?;
        Self::start_with(program, apis)
    }

    fn start_with(program: &Path, apis: Vec<SocketAddr>) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        std::fs::write(directory.path().join("limits.toml"), LIMITS)?;
        let name = |number: usize| format!("site-{}", number + 1);
        let addresses = free_addresses(SITES)?;
        let join: Vec<String> = addresses
            .iter()
            .enumerate()
            .map(|(number, address)| format!("{}={address}", name(number)))
            .collect();
        let sockets: Vec<PathBuf> =
            (0..SITES).map(|number| directory.path().join(format!("{}.sock", name(number)))).collect();
        let mut sites = Vec::new();
        for (number, socket) in sockets.iter().enumerate() {
            let mut command = Command::new(program);
            command.args(["node", "--plain", "--site", &name(number), "--data", &format!("data-{number}")]);
            command.arg("--socket").arg(socket).arg("--join").args(&join);
            if let Some(api) = apis.get(number) {
                command.args(["--config", "limits.toml", "--api", &api.to_string()]);
            }
            sites.push(Server::start(command, directory.path(), &name(number))?);
        }
        Ok(NodeProcesses { program: program.to_owned(), sites, sockets, apis, directory })
    }

    pub(crate) fn ids(&self) -> Vec<u32> {
        self.sites.iter().map(Server::id).collect()
    }
}
