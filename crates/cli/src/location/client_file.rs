//! `client.toml`: which node the commands of a user or of a machine use.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use meshlock_cluster::address::Address;
use serde::Deserialize;

use crate::output::{UsageError, read_text};

/// Largest file that is read, in bytes.
const MAX_BYTES: u64 = 1 << 16;

/// The contents of a file. Relative paths start at the directory of the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ClientFile {
    /// The address of the node, as `--node` takes it.
    pub(super) node: Option<Address>,
    /// The socket of the node, as `--socket` takes it.
    pub(super) socket: Option<PathBuf>,
    /// The directory of the client's certificate, as `--certificate` takes it.
    pub(super) certificate: Option<PathBuf>,
    /// `"off"` for a node that runs without TLS, as `--plain` says.
    pub(super) tls: Option<TlsOff>,
}

/// The only value of the key `tls`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TlsOff {
    Off,
}

/// Reads a file. Returns `None` if there is none. A file that cannot be read or is wrong is an error: without it a command could use
/// another node than the one that the file names.
pub(super) fn read(path: &Path) -> Result<Option<ClientFile>, UsageError> {
    let text = match File::open(path).and_then(|file| read_text(file, MAX_BYTES)) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(UsageError::new(format!("{}: cannot be read: {error}", path.display()))),
    };
    let wrong = |why: &str| UsageError::new(format!("{}: {why}", path.display()));
    let mut file: ClientFile = toml::from_str(&text).map_err(|error| wrong(error.message()))?;
    if let Some(node) = &file.node {
        super::node_address(node.as_str()).map_err(|why| wrong(&format!("node: {why}")))?;
    }
    if file.node.is_some() && file.socket.is_some() {
        return Err(wrong("names both a node and a socket; keep one of them"));
    }
    if file.node.is_none() && file.tls.is_some() {
        return Err(wrong("tls is about the connection to a node; name it: node = \"HOST:PORT\""));
    }
    let resolve = |named: PathBuf| path.parent().map_or(named.clone(), |dir| dir.join(&named));
    file.socket = file.socket.map(resolve);
    file.certificate = file.certificate.map(resolve);
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Option<ClientFile>, UsageError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("client.toml");
        std::fs::write(&path, text).unwrap();
        read(&path)
    }

    #[test]
    fn a_file_names_a_node_and_what_is_needed_to_use_it() {
        let file = parsed("node = 'db-1.example:7401'\ncertificate = 'client'").unwrap().unwrap();
        assert_eq!(file.node.unwrap().to_string(), "db-1.example:7401");
        assert!(file.certificate.unwrap().is_absolute());
        assert!(read(Path::new("/nonexistent/client.toml")).unwrap().is_none());
    }

    #[test]
    fn a_file_that_is_wrong_is_an_error_and_not_ignored() {
        for (text, says) in [
            ("nod = 'a:1'", "unknown field `nod`"),
            ("node = 'a:1'\nsocket = 'b'", "names both a node and a socket"),
            ("tls = 'off'", "tls is about the connection"),
            ("tls = 'on'", "unknown variant `on`"),
            ("node = ", "client.toml: "),
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
